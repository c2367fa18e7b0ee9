#!/usr/bin/env bash
# kernels.sh [ARCHITECTURES] — compiles the GPU kernels and looks for registers that ptxas spilled (check_kernels.py).
#
# For all architectures that quipu is built for, or for some ("80;90a"). Installs nvcc where there is none; without it
# and without a network it ends with 77 and says so. In a build folder of its own, so that no other build changes.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=$HOME/.cache/quipu/cuda
architectures=${1:-80;86;89;90a;100;120}
if ! command -v nvcc >/dev/null && [ ! -e "$folder/nvidia" ] && ! tools/setup-cuda.sh "$folder"; then
    rm -rf "$folder"
    echo "SKIP: there is no nvcc, and its packages cannot be fetched"
    exit 77
fi
cmake --preset release -B build-kernels -DQUIPU_CUDA=ON -DQUIPU_CUDA_ARCHITECTURES="$architectures" >/dev/null
cmake --build build-kernels --target cuda_kernels
tools/check_kernels.py build-kernels
