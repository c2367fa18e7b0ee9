#!/usr/bin/env python3
"""Writes gguf/: GGUF files made of tests/golden/models/complete-llama3 with the package `gguf` (PyPI), as the usual
converters lay them out: rows of q and k re-ordered, norms in F32, tokenizer and chat template inside.

    python3 tests/golden/make_gguf.py      (needs gguf and numpy)

bf16.gguf     weights as they are
q8_0.gguf     matrices in Q8_0, for what the engine must make of blocks
split-*.gguf  the second in two files
spm.gguf      no weights: a tokenizer of the SentencePiece kind
"""
import json
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "models", "complete-llama3")
NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
         "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
       "lm_head.weight": "output.weight"}


def rename(name):
    if name in TOP:
        return TOP[name]
    parts = name.split(".")
    return f"blk.{parts[2]}.{NAMES['.'.join(parts[3:-1])]}.{parts[-1]}"


def for_pairs(w, heads):
    """Rows of each head: halves that turn together become neighbours."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def stored():
    """Name and float32 values of each tensor of the BF16 file."""
    with open(os.path.join(SOURCE, "model.safetensors"), "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            words = np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16
            yield name, words.view(np.float32).reshape(entry["shape"])


def weights(config):
    for name, w in stored():
        if ".q_proj." in name:
            w = for_pairs(w, config["num_attention_heads"])
        if ".k_proj." in name:
            w = for_pairs(w, config["num_key_value_heads"])
        yield rename(name), np.ascontiguousarray(w)


def put_config(writer, config):
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def put_tokenizer(writer, size):
    with open(os.path.join(SOURCE, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    with open(os.path.join(SOURCE, "tokenizer_config.json"), encoding="utf-8") as f:
        settings = json.load(f)
    tokens, kinds = [f"[PAD{i}]" for i in range(size)], [gguf.TokenType.UNUSED] * size
    for text, i in tokenizer["model"]["vocab"].items():
        tokens[i], kinds[i] = text, gguf.TokenType.NORMAL
    for added in tokenizer["added_tokens"]:
        tokens[added["id"]] = added["content"]
        kinds[added["id"]] = gguf.TokenType.CONTROL if added["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])

    def id_of(name):
        value = settings[name]
        return tokens.index(value if isinstance(value, str) else value["content"])
    writer.add_bos_token_id(id_of("bos_token"))
    writer.add_eos_token_id(id_of("eos_token"))
    writer.add_add_bos_token(True)
    template = os.path.join(SOURCE, "chat_template.jinja")
    if os.path.exists(template):
        with open(template, encoding="utf-8") as f:
            writer.add_chat_template(f.read())
    else:
        writer.add_chat_template(settings["chat_template"])


def write(name, kind, **options):
    with open(os.path.join(SOURCE, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    writer = gguf.GGUFWriter(os.path.join(HERE, "gguf", name), "llama", **options)
    put_config(writer, config)
    put_tokenizer(writer, config["vocab_size"])
    for tensor, w in weights(config):
        if w.ndim == 1 or (kind == T.Q8_0 and w.shape[-1] % 32):
            writer.add_tensor(tensor, w.astype(np.float32))
        else:
            writer.add_tensor(tensor, gguf.quants.quantize(w, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_spm():
    """Pieces whose merges are plain to see, and bytes."""
    pieces = [("<unk>", 0, gguf.TokenType.UNKNOWN), ("<s>", 0, gguf.TokenType.CONTROL),
              ("</s>", 0, gguf.TokenType.CONTROL)]
    pieces += [(f"<0x{i:02X}>", 0, gguf.TokenType.BYTE) for i in range(256)]
    for n, text in enumerate(["he", "ll", "\u2581he", "\u2581hell", "\u2581hello", "\u2581w", "or", "ld"]):
        pieces.append((text, -n, gguf.TokenType.NORMAL))
    for n, text in enumerate("\u2581helowrd"):
        pieces.append((text, -100 - n, gguf.TokenType.NORMAL))
    pieces.append(("[PAD]", 0, gguf.TokenType.UNUSED))
    writer = gguf.GGUFWriter(os.path.join(HERE, "gguf", "spm.gguf"), "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([p[0] for p in pieces])
    writer.add_token_scores([float(p[1]) for p in pieces])
    writer.add_token_types([p[2] for p in pieces])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    os.makedirs(os.path.join(HERE, "gguf"), exist_ok=True)
    write("bf16.gguf", T.BF16)
    write("q8_0.gguf", T.Q8_0)
    write("split.gguf", T.Q8_0, split_max_size=120000)
    write_spm()


main()
