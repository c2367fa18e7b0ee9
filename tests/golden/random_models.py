#!/usr/bin/env python3
"""Random little models of transformers against `quipu logits`: every family, options as chance has it.

usage: random_models.py QUIPU [-n ROUNDS] [--seed N] [--only TEXT] [--keep FOLDER]

For developers: needs torch and transformers (5.x) from PyPI, and is no part of `make check`. Each round makes a config of
each family with random sizes and options, weights out of a generator, and compares the logits of 70 ids in float32. Prints
one line for each model that is off by more than 0.002 of the logits' spread, or refused, and a summary; exits 1 if
there was one. A case can be had again with its seed and --only.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import torch
import transformers
from safetensors.torch import load_file
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

IDS = 70
BOUND = 2e-3


def some(*choices):
    return random.choice(choices)


def sizes():
    """What all families share."""
    kv, group, head = some(1, 2, 3), some(1, 2, 4), some(8, 16, 24)
    return dict(hidden_size=kv * group * some(8, 12, 16), intermediate_size=some(40, 64, 100), num_hidden_layers=some(2, 3, 4),
                num_attention_heads=kv * group, num_key_value_heads=kv, head_dim=head, vocab_size=some(100, 131, 260),
                max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                tie_word_embeddings=some(True, False))


def even_heads(c):
    """For families whose head is hidden / heads."""
    c.pop("head_dim")
    c["num_attention_heads"] = some(2, 4)
    c["num_key_value_heads"] = some(1, 2)
    c["hidden_size"] = c["num_attention_heads"] * some(8, 16)
    return c


def rope(head, kinds=("default", "linear", "dynamic", "yarn", "llama3")):
    kind = some(*kinds)
    r = dict(rope_type=kind, rope_theta=some(1e4, 5e5, 1e6))
    if kind != "default":
        r["factor"] = some(2.0, 4.0)
    if kind in ("yarn", "llama3"):
        r["original_max_position_embeddings"] = 32
    if kind == "dynamic":
        r["original_max_position_embeddings"] = 128
    if kind == "llama3":
        r.update(low_freq_factor=1.0, high_freq_factor=4.0)
    return dict(rope_parameters=r)


def window():
    return some(8, 16, 33)


def types(n, *names):
    return [some(*names) for _ in range(n)]


def llama(**more):
    c = sizes()
    return dict(c, **rope(c["head_dim"]), **more)


def llama_even(**more):
    c = even_heads(sizes())
    return dict(c, **rope(0), **more)


def plain_rope(c, **more):
    return dict(c, rope_parameters=dict(rope_type="default", rope_theta=some(1e4, 3e5)), **more)


def partial(c, **more):
    return dict(c, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=some(0.25, 0.5, 1.0)),
                **more)


def qwen_window(c):
    if some(True, False):
        return dict(c, use_sliding_window=True, sliding_window=window(), max_window_layers=some(0, 1, 2))
    return c


def experts(c, n="num_experts", ffn="moe_intermediate_size"):
    return {**c, n: some(4, 6), "num_experts_per_tok": some(1, 2, 3), ffn: some(16, 40)}


def gemma(**more):
    return plain_rope(sizes(), hidden_activation=some("gelu_pytorch_tanh", "gelu"), **more)


def layered(c, *names, **more):
    return dict(c, layer_types=types(c["num_hidden_layers"], *names), sliding_window=window(), **more)


def gemma3(**more):
    c = layered(sizes(), "full_attention", "sliding_attention", query_pre_attn_scalar=some(16, 24),
                hidden_activation="gelu_pytorch_tanh", **more)
    full = dict(rope_type=some("default", "linear"), rope_theta=1e6)
    if full["rope_type"] == "linear":
        full["factor"] = 8.0
    return dict(c, rope_parameters=dict(full_attention=full, sliding_attention=dict(rope_type="default",
                                                                                    rope_theta=1e4)))


def latent(**more):
    c = sizes()
    c.pop("head_dim")
    c["num_key_value_heads"] = c["num_attention_heads"] = some(2, 4)
    return plain_rope(c, kv_lora_rank=some(16, 32), q_lora_rank=some(None, 24), qk_nope_head_dim=some(8, 16),
                      qk_rope_head_dim=some(8, 16), v_head_dim=some(8, 16), **more)


def deepseek(**more):
    return latent(n_routed_experts=8, num_experts_per_tok=some(2, 3), moe_intermediate_size=24, n_shared_experts=some(1, 2),
                  first_k_dense_replace=some(0, 1), routed_scaling_factor=some(1.0, 2.5), **more)


def shared_gate(c):
    return dict(c, shared_expert_intermediate_size=some(16, 40), norm_topk_prob=some(True, False))


def bias(name="attention_bias"):
    return {name: some(True, False)}


VISION = dict(hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14,
              num_channels=3)


def text_of(kind):
    return dict(FAMILIES[kind](), model_type=kind)


def mrope(kind, section):
    """M-RoPE over a head of 2 * sum(section)."""
    text = even_heads(sizes()) if kind != "qwen3_vl_text" else sizes()
    if "head_dim" in text:
        text["head_dim"] = 2 * sum(section)
    else:
        text["hidden_size"] = text["num_attention_heads"] * 2 * sum(section)
    return dict(text, model_type=kind, rope_parameters=dict(rope_type="default", rope_theta=1e6, mrope_section=section))


FAMILIES = {
    "llama": lambda: llama(mlp_bias=some(True, False), **bias()),
    "mistral": lambda: llama(sliding_window=some(None, window())),
    "ministral": lambda: layered(plain_rope(sizes()), "full_attention", "sliding_attention"),
    "mixtral": lambda: experts(llama(sliding_window=some(None, window())), "num_local_experts", "moe_intermediate_size"),
    "qwen2": lambda: qwen_window(llama_even()),
    "qwen3": lambda: qwen_window(llama(**bias())),
    "qwen2_moe": lambda: shared_gate(experts(llama_even(decoder_sparse_step=some(1, 2)))),
    "qwen3_moe": lambda: experts(llama(norm_topk_prob=some(True, False), mlp_only_layers=some([], [0]), **bias())),
    "gemma": lambda: plain_rope(sizes(), hidden_act=some("gelu_pytorch_tanh", "gelu")),
    "gemma2": lambda: layered(gemma(query_pre_attn_scalar=some(16, 24), attn_logit_softcapping=some(None, 5.0),
                                    final_logit_softcapping=some(None, 3.0)), "full_attention", "sliding_attention"),
    "gemma3_text": gemma3,
    "phi": lambda: partial(even_heads(sizes()), hidden_act="gelu_new", qk_layernorm=False),
    "phi3": lambda: partial(even_heads(sizes()), sliding_window=some(None, window())),
    "cohere": lambda: plain_rope(even_heads(sizes()), use_qk_norm=some(True, False), logit_scale=some(0.0625, 0.5), **bias()),
    "cohere2": lambda: layered(plain_rope(sizes(), logit_scale=0.25), "full_attention", "sliding_attention"),
    "olmo": lambda: plain_rope(even_heads(sizes()), clip_qkv=some(None, 0.5), **bias()),
    "olmo2": lambda: plain_rope(even_heads(sizes())),
    "olmo3": lambda: layered(plain_rope(even_heads(sizes())), "full_attention", "sliding_attention"),
    "olmoe": lambda: experts(plain_rope(even_heads(sizes()), norm_topk_prob=some(True, False), clip_qkv=some(None, 0.5))),
    "gpt_neox": lambda: {k: v for k, v in partial(even_heads(sizes()), use_parallel_residual=some(True, False),
                                                  **bias()).items() if k != "num_key_value_heads"},
    "stablelm": lambda: partial(even_heads(sizes()), use_parallel_residual=some(True, False), use_qkv_bias=some(True, False)),
    "starcoder2": lambda: plain_rope(even_heads(sizes()), use_bias=some(True, False), sliding_window=some(None, window())),
    "nemotron": lambda: partial(even_heads(sizes()), hidden_act="relu2", mlp_bias=some(True, False), **bias()),
    "apertus": lambda: plain_rope(even_heads(sizes()), hidden_act="xielu"),
    "granite": lambda: plain_rope(even_heads(sizes()), embedding_multiplier=some(1.0, 6.0), logits_scaling=some(1.0, 4.0),
                                  residual_multiplier=some(1.0, 0.3), attention_multiplier=some(0.1, 0.3), **bias()),
    "granitemoe": lambda: experts(plain_rope(even_heads(sizes()), embedding_multiplier=2.0, logits_scaling=2.0,
                                             residual_multiplier=0.5, attention_multiplier=0.2), "num_local_experts"),
    "granitemoeshared": lambda: experts(plain_rope(even_heads(sizes()), shared_intermediate_size=some(24, 40),
                                                   attention_multiplier=0.2), "num_local_experts"),
    "deepseek_v2": lambda: deepseek(topk_method=some("greedy", "group_limited_greedy"), n_group=4, topk_group=2),
    "deepseek_v3": lambda: deepseek(n_group=some(1, 2), topk_group=1, norm_topk_prob=some(True, False)),
    "minicpm3": lambda: latent(),
    "glm": lambda: partial(sizes(), **bias()),
    "glm4": lambda: partial(sizes(), **bias()),
    "glm4_moe": lambda: partial(sizes(), n_routed_experts=8, num_experts_per_tok=2, moe_intermediate_size=24,
                                n_group=some(1, 4), topk_group=1, first_k_dense_replace=some(0, 1), n_shared_experts=1,
                                use_qk_norm=some(True, False), norm_topk_prob=some(True, False), **bias()),
    "smollm3": lambda: plain_rope(even_heads(sizes()), no_rope_layer_interval=some(2, 3, 4)),
    "seed_oss": lambda: plain_rope(sizes(), attention_out_bias=some(True, False), **bias()),
    "ernie4_5": lambda: plain_rope(sizes(), use_bias=some(True, False)),
    "hunyuan_v1_dense": lambda: plain_rope(sizes(), **bias()),
    "exaone4": lambda: layered(plain_rope(even_heads(sizes())), "full_attention", "sliding_attention"),
    "gpt_oss": lambda: layered(experts(plain_rope(sizes()), "num_local_experts"), "full_attention", "sliding_attention"),
    "arcee": lambda: llama(mlp_bias=some(True, False), hidden_act="relu2", **bias()),
    "llama4_text": lambda: plain_rope(sizes(), num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=some(1, 2),
                                      intermediate_size_mlp=some(40, 64), use_qk_norm=some(True, False),
                                      attention_chunk_size=some(16, 64), no_rope_layer_interval=some(2, 4)),
    "falcon": lambda: dict(vocab_size=131, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                           alibi=False, bias=some(True, False), bos_token_id=1, eos_token_id=2,
                           **some(dict(new_decoder_architecture=True, parallel_attn=True),
                                  dict(new_decoder_architecture=False, parallel_attn=some(True, False),
                                       multi_query=some(True, False)))),
    "gpt2": lambda: dict(vocab_size=131, n_positions=128, n_embd=48, n_layer=2, n_head=some(2, 4), bos_token_id=1,
                         eos_token_id=2),
}

WHOLES = {
    "llava": lambda: dict(text_config=text_of(some("llama", "mistral", "qwen2")),
                          vision_config=dict(VISION, model_type="clip_vision_model"), image_token_index=5),
    "llava_next": lambda: dict(text_config=text_of(some("llama", "mistral", "qwen2")),
                               vision_config=dict(VISION, model_type="clip_vision_model"), image_token_index=5),
    "llava_onevision": lambda: dict(text_config=text_of("qwen2"),
                                    vision_config=dict(VISION, model_type="siglip_vision_model"), image_token_index=5),
    "mistral3": lambda: dict(text_config=text_of("mistral"), vision_config=dict(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, head_dim=16, image_size=28,
        patch_size=14, model_type="pixtral"), image_token_index=5),
    "gemma3": lambda: dict(text_config=text_of("gemma3_text"),
                           vision_config=dict(VISION, model_type="siglip_vision_model"), mm_tokens_per_image=4,
                           image_token_index=5),
    "qwen2_vl": lambda: dict(text_config=mrope("qwen2_vl_text", [2, 3, 3]), vision_config=dict(
        depth=1, embed_dim=32, hidden_size=32, num_heads=2, mlp_ratio=2)),
    "qwen2_5_vl": lambda: dict(text_config=mrope("qwen2_5_vl_text", [4, 2, 2]), vision_config=dict(
        depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=32, fullatt_block_indexes=[0])),
    "qwen3_vl": lambda: dict(text_config=mrope("qwen3_vl_text", [4, 2, 2]), vision_config=dict(
        depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=32, deepstack_visual_indexes=[])),
    "smolvlm": lambda: dict(text_config=text_of("llama"), vision_config=VISION, image_token_id=5, scale_factor=1),
    "idefics3": lambda: dict(text_config=text_of("llama"), vision_config=VISION, image_token_id=5, scale_factor=1),
    "voxtral": lambda: dict(text_config=text_of("llama"), audio_config=dict(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_mel_bins=8), audio_token_id=5),
}


def make(name, config):
    """The model in float32 with weights large enough that every option shows."""
    cls = transformers.AutoModelForCausalLM if name in FAMILIES else transformers.AutoModelForImageTextToText
    if name == "voxtral":
        cls = transformers.VoxtralForConditionalGeneration
    model = cls.from_config(config) if hasattr(cls, "from_config") else cls(config)
    model = model.float().eval()
    with torch.no_grad():
        for key, p in model.named_parameters():
            if p.dim() >= 2:
                p.normal_(0, some(0.1, 0.2))
            elif "norm" in key and "weight" in key or "ln_" in key and "weight" in key:
                p.normal_(1, 0.2)
            else:
                p.normal_(0, 0.1)
        for key, b in model.named_buffers():
            if "e_score_correction_bias" in key:
                b.normal_(0, 0.1)
    return model


def try_one(quipu, name, folder):
    """None, or what is wrong."""
    options = (FAMILIES.get(name) or WHOLES[name])()
    if name in WHOLES:  # which says whether its output shares the embeddings; Voxtral's never does
        is_tied = name != "voxtral" and some(True, False)
        options["tie_word_embeddings"] = options["text_config"]["tie_word_embeddings"] = is_tied
    config = CONFIG_MAPPING[name](**options)
    config._attn_implementation = "eager"
    model = make(name, config)
    model.save_pretrained(folder)
    n = config.get_text_config().vocab_size
    ids = [6 + random.randrange(n - 6) for _ in range(IDS)]
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([ids])).logits[0].float()
    out = os.path.join(folder, "out.safetensors")
    run = subprocess.run([quipu, "logits", "-m", folder, "--precision", "exact", "--threads", "2", "-o", out, "-q"],
                         input=json.dumps(ids), capture_output=True, text=True)
    if run.returncode:
        return run.stderr.strip()
    found = load_file(out)["logits"]
    if found.shape != expected.shape:
        return "shape %s, expected %s" % (tuple(found.shape), tuple(expected.shape))
    off = float((found - expected).abs().max() / expected.std())
    return None if off <= BOUND else "off by %.3g of the spread" % off


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("quipu")
    p.add_argument("-n", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", default="")
    p.add_argument("--keep", help="folder for the models that fail")
    args = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    passed = failed = 0
    for seed in range(args.seed, args.seed + args.n):
        for name in list(FAMILIES) + list(WHOLES):
            if args.only and args.only != name or name not in CONFIG_MAPPING:
                continue
            random.seed("%s %d" % (name, seed))
            torch.manual_seed(random.randrange(1 << 30))
            with tempfile.TemporaryDirectory() as folder:
                try:
                    wrong = try_one(args.quipu, name, folder)
                except Exception as error:  # of the reference: a config that it cannot run
                    print("%-18s seed %d: no reference: %s" % (name, seed, str(error).split("\n")[0][:120]))
                    continue
                if wrong and args.keep:
                    shutil.copytree(folder, os.path.join(args.keep, "%s-%d" % (name, seed)), dirs_exist_ok=True)
            passed += not wrong
            failed += bool(wrong)
            if wrong:
                print("%-18s seed %d: %s" % (name, seed, wrong[:400]), flush=True)
    print("%d models passed, %d failed" % (passed, failed))
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
