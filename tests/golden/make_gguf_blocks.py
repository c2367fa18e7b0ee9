#!/usr/bin/env python3
"""Writes gguf_blocks.json: random blocks of every quantised type of GGUF and the weights that the package `gguf`
(PyPI) reads out of them. Needs gguf and numpy:  pip install gguf numpy

    python3 tests/golden/make_gguf_blocks.py
"""
import json
import os

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as T, quants

TYPES = ("Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL "
         "IQ4_XS TQ1_0 TQ2_0 MXFP4").split()
# Where float16 values lie in a block: they must be finite and of a sensible size.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0],
          "IQ3_XXS": [0], "IQ3_S": [0], "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64]}
WEIGHTS = 1024  # of a type


def blocks(name, rng):
    per_block, size = GGML_QUANT_SIZES[T[name]]
    data = rng.integers(0, 256, (WEIGHTS // per_block, size), dtype=np.uint8)
    for at in HALVES.get(name, []):
        half = (rng.standard_normal(len(data)) * 0.05).astype(np.float16)
        data[:, at:at + 2] = half.view(np.uint8).reshape(-1, 2)
    if name == "IQ1_M":  # the float16 in the high nibbles of the last four words: a positive one below 1
        data[:, 55] &= 0x3F
        data[:, 55] |= 0x20
    if name == "MXFP4":  # exponents whose products are finite, the smallest two among them
        data[:, 0] = np.concatenate([[0, 1, 2], rng.integers(100, 240, len(data) - 3)])
    return data


def main():
    rng = np.random.default_rng(20261121)
    out = {}
    for name in TYPES:
        data = blocks(name, rng)
        weights = quants.dequantize(data, T[name]).astype(np.float32).reshape(-1)
        assert np.isfinite(weights).all(), name
        per_block, size = GGML_QUANT_SIZES[T[name]]
        out[name.lower()] = {"weights_of_block": per_block, "bytes_of_block": size, "blocks": data.tobytes().hex(),
                             "weights": weights.tobytes().hex()}
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_blocks.json"), "w") as f:
        json.dump(out, f, indent=0)
        f.write("\n")


main()
