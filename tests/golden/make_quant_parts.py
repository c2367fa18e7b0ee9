#!/usr/bin/env python3
"""Writes quant_parts.json: small matrices in NF4, FP4 and NVFP4 with what their own libraries make of them, and in EXL3
what the rule of its description gives, computed here without any of our code.

    python3 make_quant_parts.py        needs torch, bitsandbytes and compressed-tensors (made with 0.50.2 and 0.20.0)

Parts are hexadecimal bytes, values are numbers. EXL3's parts are given by a formula (byte_of), as in the test.
"""
import json
import pathlib
import struct

import bitsandbytes.functional as bnb
import torch
from compressed_tensors.compressors.nvfp4 import helpers


def hexed(tensor):
    return tensor.contiguous().view(torch.uint8).numpy().tobytes().hex() if tensor.dtype != torch.uint8 \
        else tensor.contiguous().numpy().tobytes().hex()


def four_bits(kind, nested, rows, cols):
    torch.manual_seed(len(kind) + nested)
    weight = torch.randn(rows, cols) * 0.05
    codes, state = bnb.quantize_4bit(weight, blocksize=64, compress_statistics=nested, quant_type=kind)
    parts = {"weight": hexed(codes)}
    for name, part in state.as_dict(packed=True).items():
        parts[name] = hexed(part)
    return {"rows": rows, "cols": cols, "parts": parts, "values": bnb.dequantize_4bit(codes, state).flatten().tolist()}


def nvfp4(rows, cols):
    torch.manual_seed(7)
    codes = torch.randint(0, 256, (rows, cols // 2), dtype=torch.uint8)
    scales = (torch.rand(rows, cols // 16) * 300 + 0.01).to(torch.float8_e4m3fn)
    whole = torch.tensor([1234.5])
    plain = helpers.unpack_fp4_from_uint8(codes, rows, cols, dtype=torch.float32)
    parts = {"weight": hexed(codes), "weight_scale": hexed(scales), "whole": hexed(whole)}
    wide = scales.to(torch.float32).repeat_interleave(16, dim=1)
    return {"rows": rows, "cols": cols, "parts": parts, "divided": (plain * (wide / whole)).flatten().tolist(),
            "multiplied": (plain * (wide * whole)).flatten().tolist()}


# ---- EXL3, from its description ----

def byte_of(i, bits):
    return ((i * 2654435761 + bits * 40503) >> 13) & 255


def half(bits):
    return struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0]


def rounded(value):
    return struct.unpack("<e", struct.pack("<e", value))[0]


def value(codebook, state):
    if codebook == 2:
        x = state * 0x83DCD12D & 0xFFFFFFFF
        total = sum(x >> shift & 255 for shift in (0, 8, 16, 24))
        return rounded(half(0x6400 + total) * half(0x1EEE) + half(0xC931))
    x = state * 0xCBAC1FED & 0xFFFFFFFF if codebook else (state * 89226354 + 64248484) & 0xFFFFFFFF
    x = (x & 0x8FFF8FFF) ^ 0x3B603B60
    return rounded(half(x) + half(x >> 16))


def hadamard(n):
    matrix = [[1.0]]
    while len(matrix) < n:
        matrix = [row + row for row in matrix] + [row + [-v for v in row] for row in matrix]
    return torch.tensor(matrix, dtype=torch.float64) / n ** 0.5


def exl3(bits, codebook, rows, cols):
    """rows: outputs; cols: inputs. Only some rows are kept."""
    inner = torch.zeros(cols, rows, dtype=torch.float64)
    for a in range(cols // 16):
        for b in range(rows // 16):
            first = (a * (rows // 16) + b) * 32 * bits
            data = bytes(byte_of(first + i, bits) for i in range(32 * bits))
            ring = "".join(f"{word:032b}" for word in struct.unpack(f"<{8 * bits}I", data))
            for i in range(256):
                end = (i + 1) * bits
                state = "".join(ring[(end - 16 + k) % len(ring)] for k in range(16))
                t, j = i // 8, i % 8
                inner[a * 16 + 2 * (t % 4) + (0, 1, 8, 9)[j % 4], b * 16 + t // 4 + (8 if j >= 4 else 0)] = \
                    value(codebook, int(state, 2))
    h = hadamard(128)
    blocks = inner.reshape(cols // 128, 128, rows // 128, 128)
    full = torch.einsum("ij,ajbk,kl->aibl", h, blocks, h).reshape(cols, rows)
    su = torch.tensor([-1.0 if i % 3 == 1 else 1.0 for i in range(cols)], dtype=torch.float64)
    sv = torch.tensor([half(0x2400 + i * 5) for i in range(rows)], dtype=torch.float64)
    full = su[:, None] * full * sv[None, :]
    return {"bits": bits, "codebook": codebook, "rows": rows, "cols": cols,
            "values": {str(n): [float(f"{v:.8g}") for v in full[:, n].tolist()] for n in (0, rows - 1)}}


def main():
    out = {"nf4": [four_bits("nf4", False, 3, 128), four_bits("nf4", True, 5, 192), four_bits("fp4", True, 2, 64)],
           "nvfp4": nvfp4(5, 64),
           "exl3": [exl3(1, 0, 128, 128), exl3(2, 1, 128, 128), exl3(3, 0, 256, 128), exl3(4, 0, 128, 256),
                    exl3(5, 2, 128, 128), exl3(6, 1, 128, 128), exl3(7, 2, 128, 128), exl3(8, 2, 128, 128)]}
    path = pathlib.Path(__file__).with_name("quant_parts.json")
    path.write_text(json.dumps(out, separators=(",", ":")).replace('},{"', '},\n{"') + "\n")


if __name__ == "__main__":
    main()
