#!/usr/bin/env bash
# arm.sh [NAME] — builds for 64-bit ARM with Debian's cross compiler and runs the tests of base, quant and dev (those
# whose name has NAME) under QEMU: every kernel of NEON, dot products and matrix products of bytes, against plain C.
#
# The libraries that tests link lie in build-arm/root, fetched by apt as packages of another architecture and only
# unpacked: nothing of them is installed. Where compiler, QEMU or packages cannot be had, says so and ends with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$PWD/build-arm
root=$build/root
libraries="libjansson4 libjansson-dev libxxhash0 libxxhash-dev libcmocka0 libcmocka-dev libpcre2-8-0 libpcre2-dev
libutf8proc2 libutf8proc-dev libyaml-0-2 libyaml-dev libmicrohttpd12 libmicrohttpd-dev libedit2 libedit-dev"

skip() {
    echo "arm: skipped, $*"
    exit 0
}

# apt with lists, cache and a package database of its own, that of an ARM machine where nothing is installed.
arm_apt() {
    local own=$build/apt
    mkdir -p "$own/lists/partial" "$own/archives/partial"
    touch "$own/status"
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$own" \
        -o Dir::State::lists="$own/lists" -o Dir::State::status="$own/status" -o Dir::Cache="$own" \
        -o APT::Sandbox::User=root "$@"
}

fetch_root() {
    local half=$root.half package
    rm -rf "$half"
    mkdir -p "$half"
    arm_apt update || return 1
    # shellcheck disable=SC2086 # a list of names
    (cd "$half" && arm_apt download $libraries) || return 1
    for package in "$half"/*.deb; do dpkg -x "$package" "$half" || return 1; done
    rm -f "$half"/*.deb
    # what only archives would need, and that is a long tail
    sed -i '/^\(Requires\|Libs\)\.private/d' "$half"/usr/lib/aarch64-linux-gnu/pkgconfig/*.pc
    mv "$half" "$root"
}

tools/setup.sh arm || skip "the cross compiler or QEMU cannot be had (the lines above)"
for tool in aarch64-linux-gnu-gcc qemu-aarch64-static cmake ninja dpkg apt-get; do
    command -v $tool >/dev/null || skip "there is no $tool"
done
[ -d "$root" ] || fetch_root >&2 || skip "the libraries for ARM could not be fetched"

[ -e "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -DCMAKE_TOOLCHAIN_FILE=tools/arm_toolchain.cmake \
    -DQUIPU_ARM_ROOT="$root" -DQUIPU_CUDA=OFF >"$build.log" 2>&1 || {
    cat "$build.log"
    exit 1
}
rm -f "$build.log"
tests=()
for source in src/base/*_test.c src/quant/*_test.c src/dev/*_test.c src/dev/cpu/*_test.c; do
    name=$(basename "$source" .c)
    [[ $name != *"${1:-}"* ]] || tests+=("$name")
done
cmake --build "$build" --target "${tests[@]}"
pattern=$(IFS='|' && echo "${tests[*]}")
ctest --test-dir "$build" --output-on-failure -j "$(nproc)" -R "^($pattern)\$"
