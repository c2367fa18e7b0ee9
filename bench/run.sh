#!/usr/bin/env bash
# run.sh — asks the questions of README.md on this machine; one JSON document per line in bench/results.
# Needs about 3 GB of memory for the synthetic model. SHAPE=... and FORMAT=... choose another.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly quipu=build/bin/quipu
results=bench/results/$(date +%Y-%m-%d-%H%M%S).jsonl
mkdir -p bench/results

ask() {
    echo "== quipu $*"
    "$quipu" "$@"
    "$quipu" "$@" --json >>"$results"
}

"$quipu" devices --json >>"$results"
ask bench bandwidth
ask bench compute
ask bench --shape "${SHAPE:-tinyllama-1.1b}" --format "${FORMAT:-bf16}" -p 512 -n 64 --repeat 3
echo "all of it: $results"
