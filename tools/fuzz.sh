#!/usr/bin/env bash
# fuzz.sh SECONDS [SEED] — builds every tests/fuzz/*.c with libFuzzer, ASan and UBSan, and runs each for SECONDS
# from its seeds. What it finds lies in build-fuzz/artefacts, what it learns in build-fuzz/corpus, where the next run
# goes on. With a SEED inputs are drawn in the same order every time: a check judges what was changed, not its luck.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly seconds=${1:-60} seed=${2:-0} build=build-fuzz # 0: another order each time

shopt -s nullglob
targets=(tests/fuzz/*.c)
if [ ${#targets[@]} -eq 0 ]; then
    echo "SKIP: there is no fuzz target in tests/fuzz"
    exit 77
fi
if ! command -v clang >/dev/null || [ ! -e "$(clang -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ]; then
    echo "SKIP: clang with its fuzzer runtime is not installed (tools/setup.sh tests)"
    exit 77
fi
[ -e $build/build.ninja ] || cmake --preset fuzz >/dev/null
if ! cmake --build $build --target fuzzers >$build/fuzzers.log; then
    cat $build/fuzzers.log
    exit 1
fi
failed=()
for target in "${targets[@]}"; do
    name=$(basename "$target" .c)
    mkdir -p "$build/artefacts" "$build/corpus/$name"
    log=$build/artefacts/$name.log
    # One input may take a second; the memory limit is what a hostile file must not exceed.
    options=(-max_total_time="$seconds" -seed="$seed" -timeout=1 -rss_limit_mb=1024 -max_len=65536 -print_final_stats=1
        -artifact_prefix="$build/artefacts/$name-" "$build/corpus/$name" "tests/fuzz/seeds/$name")
    if tools/fixed_addresses.sh "$build/fuzz/fuzz_$name" "${options[@]}" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "[       OK ] fuzz_$name: ${runs:-?} inputs in $seconds s"
    else
        tail -n 40 "$log"
        echo "[  FAILED  ] fuzz_$name: see $log"
        failed+=("$name")
    fi
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "fuzz: failed: ${failed[*]}"
    exit 1
fi
echo "fuzz: ${#targets[@]} targets, $seconds s each, nothing found"
