#!/usr/bin/env bash
# check_scripts.sh — every shell script parses; shellcheck, where installed, has nothing to say.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t scripts < <(git ls-files -co --exclude-standard | sort -u | while read -r file; do
    [ -f "$file" ] && head -c 64 "$file" | head -n 1 | grep -qaE '^#!.*\b(ba)?sh$' && echo "$file"
done || true)
for script in "${scripts[@]}"; do bash -n "$script"; done
if ! command -v shellcheck >/dev/null; then
    echo "SKIP: shellcheck is not installed (all ${#scripts[@]} scripts parse)"
    exit 77
fi
shellcheck "${scripts[@]}"
echo "scripts: ${#scripts[@]} clean"
