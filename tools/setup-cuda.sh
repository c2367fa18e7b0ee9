#!/usr/bin/env bash
# setup-cuda.sh [FOLDER] — puts the CUDA compiler into a folder, for machines without the CUDA toolkit.
#
# Installs five PyPI packages of one version (the compiler, its back end, its headers) with pip and nothing else; no
# driver, no library that quipu would link, nothing outside the folder. The build finds it there: by default
# ~/.cache/quipu/cuda, else set the CMake variable QUIPU_CUDA_FOLDER. Running quipu needs only NVIDIA's driver.
set -euo pipefail

folder=${1:-$HOME/.cache/quipu/cuda}
packages=(
    nvidia-cuda-nvcc==13.0.88    # nvcc, ptxas, fatbinary
    nvidia-nvvm==13.0.88         # cicc, which nvcc calls
    nvidia-cuda-crt==13.0.88     # headers that nvcc includes by itself
    nvidia-cuda-runtime==13.0.96 # cuda_fp16.h and others (no libcudart is linked)
    nvidia-cuda-cccl==13.0.85    # headers that those include
)

if ! command -v python3 >/dev/null || ! python3 -m pip --version >/dev/null 2>&1; then
    echo "setup-cuda: python3 with pip is needed" >&2
    exit 1
fi
echo "setup-cuda: ${packages[*]}"
echo "setup-cuda: into $folder (about 270 MB); the folder may be deleted at any time"
mkdir -p "$folder"
python3 -m pip install --quiet --no-deps --upgrade --target "$folder" "${packages[@]}"

nvcc=$(find "$folder" -path '*/bin/nvcc' | head -n 1)
if [ -z "$nvcc" ]; then
    echo "setup-cuda: the packages have no bin/nvcc" >&2
    exit 1
fi
chmod +x "$(dirname "$nvcc")"/* "$(dirname "$nvcc")"/../nvvm/bin/* 2>/dev/null || true
"$nvcc" --version | tail -n 2
echo "setup-cuda: done; configure the build again (cmake -DQUIPU_CUDA_FOLDER=$folder where it is not the default)"
