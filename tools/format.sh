#!/usr/bin/env bash
# format.sh [--check] — brings all C into the shape of .clang-format, or tells which files are not in it.
# Other versions of clang-format disagree in details, so the check is skipped (77) unless it is the one named here.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=14

tool=clang-format-$version
command -v "$tool" >/dev/null || tool=clang-format
if ! command -v "$tool" >/dev/null; then
    echo "SKIP: clang-format is not installed"
    exit 77
fi
found=$("$tool" --version | sed 's/.*version \([0-9]*\).*/\1/')
if [ "$found" != "$version" ]; then
    echo "SKIP: clang-format $found is here, the layout is that of version $version"
    exit 77
fi
mapfile -t files < <(git ls-files -co --exclude-standard '*.c' '*.h' '*.inc' '*.cu' '*.cuh' | sort -u |
    while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
if [ "${1:-}" != --check ]; then
    "$tool" -i "${files[@]}"
    echo "format: ${#files[@]} files"
    exit 0
fi
mapfile -t offenders < <({ printf '%s\0' "${files[@]}" |
    xargs -0 -P "$(nproc)" -n 20 "$tool" --dry-run -Werror; } 2>&1 |
    sed -n 's/^\([^: ]*\):[0-9]*:[0-9]*: error: .*/\1/p' | sort -u)
if [ ${#offenders[@]} -gt 0 ]; then
    printf '%s\n' "${offenders[@]}" "format: ${#offenders[@]} files differ from .clang-format; 'make format' mends them"
    exit 1
fi
echo "format: ${#files[@]} files as .clang-format wants them"
