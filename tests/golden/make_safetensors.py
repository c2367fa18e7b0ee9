"""Makes safetensors.json: hand-made good and bad files and whether the reference library takes them.

Needs the PyPI package safetensors (made with 0.8.0). Run: python tests/golden/make_safetensors.py
Each case: name, the whole file in hexadecimal, the reference's verdict and its words.
"""
import json
import os
import struct

import safetensors

CASES = []


def judge(data):
    try:
        safetensors.deserialize(data)
        return True, ""
    except Exception as why:
        return False, str(why)


def raw(name, data):
    accept, words = judge(data)
    CASES.append({"name": name, "hex": data.hex(), "accept": accept, "reference_says": words})


def case(name, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else header.encode() if isinstance(header, str) else json.dumps(header).encode()
    raw(name, struct.pack("<Q", len(text) if length is None else length) + text + data)


def t(dtype="F32", shape=(2,), offsets=(0, 8), **more):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets), **more}


Z8, Z16 = bytes(8), bytes(16)
case("one tensor", {"a": t()}, Z8)
case("two tensors", {"a": t(), "b": t(offsets=(8, 16))}, Z16)
case("two tensors, header in other order", {"b": t(offsets=(8, 16)), "a": t()}, Z16)
case("metadata", {"__metadata__": {"format": "pt", "k": ""}, "a": t()}, Z8)
case("metadata only", {"__metadata__": {"format": "pt"}})
case("empty object", {})
case("padded with spaces", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}     ', b"x")
case("padded with newlines", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}\n\n', b"x")
case("padded with zeros", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}\0\0', b"x")
case("space before the object", b' {"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("text after the object", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}x', b"x")
case("scalar", {"a": t("F64", [], (0, 8))}, Z8)
case("zero size", {"a": t("F64", [0], (0, 0))})
case("zero size with big other sides", {"a": t("F64", [0, 1 << 40, 1 << 20], (0, 0))})
case("zero size after a product that overflows", {"a": t("F64", [1 << 40, 1 << 40, 0], (0, 0))})
case("zero size before and after", {"a": t("U8", [0], (0, 0)), "b": t("U8", [2], (0, 2)), "c": t("U8", [0], (2, 2))}, b"xx")
case("zero size in the middle of another", {"a": t("U8", [0], (1, 1)), "b": t("U8", [2], (0, 2))}, b"xx")
case("rank 8", {"a": t("U8", [1] * 8, (0, 1))}, b"x")
case("rank 9", {"a": t("U8", [1] * 9, (0, 1))}, b"x")
for dtype, bits in [("BOOL", 8), ("F4", 4), ("F6_E2M3", 6), ("F6_E3M2", 6), ("U8", 8), ("I8", 8), ("F8_E5M2", 8), ("F8_E4M3", 8),
                    ("F8_E8M0", 8), ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("I16", 16), ("U16", 16), ("F16", 16), ("BF16", 16),
                    ("I32", 32), ("U32", 32), ("F32", 32), ("C64", 64), ("F64", 64), ("I64", 64), ("U64", 64)]:
    case("type " + dtype, {"a": t(dtype, [4], (0, bits // 2))}, bytes(bits // 2))
case("half a byte", {"a": t("F4", [3], (0, 2))}, b"xx")
case("half a byte, rounded down", {"a": t("F4", [3], (0, 1))}, b"x")
case("three quarters of a byte", {"a": t("F6_E2M3", [1], (0, 1))}, b"x")
case("unknown type", {"a": t("F128", [1], (0, 16))}, Z16)
case("type in small letters", {"a": t("f32")}, Z8)
case("type is a number", {"a": t(7)}, Z8)
case("type missing", {"a": {"shape": [2], "data_offsets": [0, 8]}}, Z8)
case("shape missing", {"a": {"dtype": "F32", "data_offsets": [0, 8]}}, Z8)
case("offsets missing", {"a": {"dtype": "F32", "shape": [2]}}, Z8)
case("unknown key in a tensor", {"a": t(stride=[1])}, Z8)
case("tensor is an array", {"a": ["F32", [2], [0, 8]]}, Z8)
case("tensor is null", {"a": None}, Z8)
case("tensor is a string", {"a": "F32"}, Z8)
case("metadata is a list", {"__metadata__": [], "a": t()}, Z8)
case("metadata is null", {"__metadata__": None, "a": t()}, Z8)
case("metadata value is a number", {"__metadata__": {"n": 1}, "a": t()}, Z8)
case("metadata value is null", {"__metadata__": {"n": None}, "a": t()}, Z8)
case("shape is a number", {"a": t() | {"shape": 2}}, Z8)
case("negative side", {"a": t(shape=[-2])}, Z8)
case("real side", {"a": t(shape=[2.0])}, Z8)
case("string side", {"a": t(shape=["2"])}, Z8)
case("side over 64 bits", b'{"a":{"dtype":"F32","shape":[36893488147419103232],"data_offsets":[0,8]}}', Z8)
case("product overflows", {"a": t("U8", [1 << 32, 1 << 32], (0, 0))})
case("bits overflow", {"a": t("F64", [1 << 61], (0, 0))})
case("wraps to the right size", {"a": t("U8", [(1 << 63) + 4, 2], (0, 8))}, Z8)
case("shape too small for the bytes", {"a": t(shape=[1])}, Z8)
case("shape too large for the bytes", {"a": t(shape=[3])}, Z8)
case("scalar of no bytes", {"a": t("U8", [], (0, 0))})
case("one offset", {"a": t(offsets=[0])}, Z8)
case("three offsets", {"a": t(offsets=[0, 8, 8])}, Z8)
case("negative offset", {"a": t(offsets=[-8, 0])}, Z8)
case("end before begin", {"a": t(offsets=[8, 0])}, Z8)
case("begin not zero", {"a": t(offsets=[8, 16])}, Z16)
case("end past the file", {"a": t(shape=[4], offsets=[0, 16])}, Z8)
case("end far past the file", {"a": t("U8", [1 << 62], [0, 1 << 62])}, Z8)
case("bytes left over at the end", {"a": t()}, Z16)
case("data without tensors", {}, Z8)
case("hole", {"a": t("U8", [4], (0, 4)), "b": t("U8", [4], (8, 12))}, bytes(12))
case("overlap", {"a": t("U8", [4], (0, 4)), "b": t("U8", [4], (2, 6))}, bytes(6))
case("same bytes twice", {"a": t("U8", [4], (0, 4)), "b": t("U8", [4], (0, 4))}, bytes(4))
case("duplicate name, same", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("duplicate name, both needed", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"xx")
case("duplicate name through an escape", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}', b"xx")
case("duplicate key in a tensor", b'{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("duplicate metadata", b'{"__metadata__":{"a":"1"},"__metadata__":{"a":"1"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("duplicate key in metadata", b'{"__metadata__":{"a":"1","a":"2"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("empty name", {"": t()}, Z8)
case("name with a newline", {"a\nb": t()}, Z8)
case("name outside ASCII", '{"\u00e4\U0001f600":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("name with a zero byte", b'{"a\\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("name of 1024 bytes", {"n" * 1024: t()}, Z8)
case("name of 1025 bytes", {"n" * 1025: t()}, Z8)
case("name with a lone surrogate", b'{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("name not UTF-8", b'{"\xff":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"x")
case("header is an array", "[]")
case("header is a string", '"a"')
case("header is not JSON", "hello")
case("header is empty", "")
case("header of spaces", "   ")
case("header cut", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,')
case("trailing comma", b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},}', b"x")
case("number with a leading zero", b'{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}', b"x")
case("number with an exponent", b'{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}', b"x")
case("NaN", b'{"a":{"dtype":"U8","shape":[NaN],"data_offsets":[0,1]}}', b"x")
case("nested 100 deep in metadata", b'{"__metadata__":' + b'{"a":' * 100 + b'"b"' + b'}' * 101)
case("nested 3000 deep", b'{"a":' + b'[' * 3000 + b']' * 3000 + b'}')
case("header length one too long", {"a": t("U8", [0], (0, 0))}, b"", length=54)
case("header length too long", "{}", b"", length=3)
case("header length over the limit", "{}", b"", length=100_000_001)
case("header length 2^63", "{}", b"", length=1 << 63)
case("header length 2^64-1", "{}", b"", length=(1 << 64) - 1)
case("header length 2^64-8", "{}", b"", length=(1 << 64) - 8)
raw("empty file", b"")
raw("seven bytes", bytes(7))
raw("eight zero bytes", bytes(8))

out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "safetensors.json")
with open(out, "w") as f:
    f.write('{"made_with": "safetensors %s", "cases": [\n' % safetensors.__version__)
    f.write(",\n".join(json.dumps(c) for c in CASES))
    f.write("\n]}\n")
