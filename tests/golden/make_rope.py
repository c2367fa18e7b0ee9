"""Makes rope.json: inverse frequencies, attention factors and cos/sin rows of transformers' rotary embeddings.

Needs torch and transformers (made with transformers 5.17.0, torch 2.11.0, CPU). Run: python tests/golden/make_rope.py
Each case: a config as it would stand in config.json, the length of the sequence, what the reference computes in float32.
"""
import json
import os

import torch
import transformers
from transformers import LlamaConfig, PhiConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.phi.modeling_phi import PhiRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

CASES = []
KINDS = {"llama": (LlamaConfig, LlamaRotaryEmbedding), "phi": (PhiConfig, PhiRotaryEmbedding), "qwen3": (Qwen3Config, Qwen3RotaryEmbedding)}


def case(name, length, family="llama", head_dim=64, max_positions=512, positions=(), **keys):
    config = {"hidden_size": 4 * head_dim, "num_attention_heads": 4, "head_dim": head_dim, "num_hidden_layers": 2,
              "intermediate_size": 16, "vocab_size": 32, "max_position_embeddings": max_positions, **keys}
    cls, rotary = KINDS[family]
    emb = rotary(cls(**json.loads(json.dumps(config))))
    ids = torch.tensor([list(positions) + [length - 1]])
    with torch.no_grad():
        cos, sin = emb(torch.zeros(1, dtype=torch.float32), ids)
    half = cos.shape[-1] // 2
    short = lambda t: [float("%.9g" % x) for x in t.flatten().tolist()]
    CASES.append({"name": name, "config": config, "length": length, "rot_dims": 2 * half,
                  "inv_freq": short(emb.inv_freq), "attention_factor": float(emb.attention_scaling),
                  "positions": ids[0].tolist(), "cos": short(cos[0, :, :half]), "sin": short(sin[0, :, :half])})


def scaling(kind, **keys):
    return {"rope_type": kind, **keys}


yarn = dict(factor=4.0, original_max_position_embeddings=128)
short, long = [1 + i / 16 for i in range(16)], [1 + i * i / 8 for i in range(16)]
case("plain", 200, positions=(0, 1, 2, 37, 149))
case("plain, theta 500000, 5.x keys", 200, head_dim=128, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
case("plain, theta 1e6, head 24", 200, head_dim=24, rope_theta=1e6)
case("plain, far", 100000, max_positions=131072, positions=(1000, 32767), rope_theta=1e6)
case("partial rotation", 200, family="phi", head_dim=80, partial_rotary_factor=0.4, rope_theta=10000.0)
case("linear", 200, rope_scaling=scaling("linear", factor=2.5))
case("linear by the old key", 200, rope_scaling={"type": "linear", "factor": 3})
case("dynamic, short", 300, rope_scaling=scaling("dynamic", factor=2.0))
case("dynamic, at the border", 512, rope_scaling=scaling("dynamic", factor=2.0))
case("dynamic, one beyond", 513, rope_scaling=scaling("dynamic", factor=2.0))
case("dynamic, long", 1500, rope_scaling=scaling("dynamic", factor=2.0))
case("dynamic, long, factor 6, head 16", 150, head_dim=16, max_positions=64, rope_theta=50000.0, rope_scaling=scaling("dynamic", factor=6.0))
case("yarn", 200, rope_scaling=scaling("yarn", **yarn), positions=(0, 1, 37))
case("yarn, head 128, 32 K", 200, head_dim=128, max_positions=131072, rope_theta=1e6, rope_scaling=scaling("yarn", factor=4.0, original_max_position_embeddings=32768))
case("yarn without truncation", 200, rope_scaling=scaling("yarn", truncate=False, **yarn))
case("yarn with betas", 200, rope_scaling=scaling("yarn", beta_fast=16, beta_slow=2, **yarn))
case("yarn with zero betas", 200, rope_scaling=scaling("yarn", beta_fast=0, beta_slow=0, **yarn))
case("yarn with mscale", 200, rope_scaling=scaling("yarn", mscale=0.707, mscale_all_dim=1.0, **yarn))
case("yarn with mscale alone", 200, rope_scaling=scaling("yarn", mscale=0.707, **yarn))
case("yarn with attention factor", 200, rope_scaling=scaling("yarn", attention_factor=1.25, **yarn))
case("yarn, factor null", 200, rope_scaling=scaling("yarn", factor=None, original_max_position_embeddings=128))
case("yarn without original", 200, rope_scaling=scaling("yarn", factor=4.0))
case("yarn, original outside", 200, original_max_position_embeddings=64, rope_scaling=scaling("yarn", **yarn))
case("yarn, factor below one", 200, rope_scaling=scaling("yarn", factor=0.5, original_max_position_embeddings=128))
case("yarn, ramp of no width", 200, head_dim=2, rope_scaling=scaling("yarn", **yarn))
case("llama3", 200, rope_theta=500000.0, rope_scaling=scaling("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64))
case("llama3, head 128, 8 K", 200, head_dim=128, max_positions=131072, rope_theta=500000.0, rope_scaling=scaling("llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192))
case("longrope, short", 64, head_dim=32, max_positions=256, rope_parameters=scaling("longrope", factor=4.0, short_factor=short, long_factor=long, original_max_position_embeddings=64, rope_theta=10000.0), positions=(0, 1, 30))
case("longrope, long", 65, head_dim=32, max_positions=256, rope_parameters=scaling("longrope", factor=4.0, short_factor=short, long_factor=long, original_max_position_embeddings=64, rope_theta=10000.0), positions=(0, 1, 30))
case("longrope, ratio", 200, head_dim=32, max_positions=256, rope_scaling=scaling("longrope", short_factor=short, long_factor=long, original_max_position_embeddings=64))
case("longrope, original outside", 200, head_dim=32, max_positions=256, original_max_position_embeddings=32, rope_scaling=scaling("longrope", short_factor=short, long_factor=long))
case("longrope, attention factor", 200, head_dim=32, max_positions=256, rope_scaling=scaling("longrope", short_factor=short, long_factor=long, attention_factor=1.3, original_max_position_embeddings=64))
case("longrope, no stretch", 200, head_dim=32, max_positions=256, rope_scaling=scaling("longrope", short_factor=short, long_factor=long, original_max_position_embeddings=256))
case("rope_scaling before rope_parameters", 200, rope_scaling=scaling("linear", factor=2.0), rope_parameters=scaling("linear", factor=5.0))
case("empty rope_scaling", 200, rope_scaling={}, rope_parameters=scaling("linear", factor=5.0, rope_theta=20000.0), rope_theta=30000.0)
case("theta inside before outside", 200, family="qwen3", rope_scaling=scaling("linear", factor=2.0, rope_theta=20000.0), rope_theta=30000.0)

out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rope.json")
with open(out, "w") as f:
    f.write('{"made_with": "transformers %s, torch %s", "cases": [\n' % (transformers.__version__, torch.__version__))
    f.write(",\n".join(json.dumps(c) for c in CASES))
    f.write("\n]}\n")
