#!/bin/sh
# nvcc.sh IMAGE NVCC ARGUMENTS...: compiles one file of kernels and keeps what ptxas says of it in IMAGE.log, which
# tools/check_kernels.py reads. nvcc is quiet unless it fails.
set -eu
image=$1
shift
if "$@" -o "$image.new" >"$image.log" 2>&1; then
    mv "$image.new" "$image"
else
    status=$?
    cat "$image.log" >&2
    exit "$status"
fi
