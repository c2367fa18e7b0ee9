#!/usr/bin/env python3
"""How fast is quipu on the CPU beside llama.cpp, on the same files, in turns, in one run?

    python3 bench/cpu_vs_peers.py QUIPU [--peer FOLDER] [--files FOLDER] [--formats q4_0,q4_k_m,..] [--tests decode,..]
        [--rounds 3] [--threads 2] [--layers 22]

Builds and fetches nothing: llama-batched-bench is taken from FOLDER, or from PATH. Without it quipu runs alone, and
that is told. Weights are random, in the shape of TinyLlama 1.1B; files are written into --files once and kept
(temporary otherwise). Formats: q4_0, q4_k_m, q8_0, f16 as GGUF files for both; exl2-2.5, exl2-3.0, exl2-4.0 and gptq
(4 bits, groups of 128, the output matrix in float16, as its writers leave it) as folders for quipu, beside the peer's
q4_k_m. Tests: decode (32 new tokens), depth (16 behind 4,096), prompt (512 tokens), batch (16 sequences, 16 new tokens
each). Each round runs quipu, then the peer, so that a busy machine slows both. Prints one JSON object for each pair:
medians in tokens/s, the median of the rounds' ratios, the least and the greatest; of quipu also the share of the
machine's limit that was measured in the same run.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

HIDDEN, HEADS, KV_HEADS, INNER, VOCABULARY = 2048, 32, 4, 5632, 32000
KV = HIDDEN // HEADS * KV_HEADS
# name: number in GGUF, values of a block, bytes, where its float16 scales stand
TYPES = {"f32": (0, 1, 4, ()), "f16": (1, 1, 2, (0,)), "q4_0": (2, 32, 18, (0,)), "q8_0": (8, 32, 34, (0,)),
         "q4_k": (12, 256, 144, (0, 2)), "q6_k": (14, 256, 210, (208,))}
FORMATS = ("q4_0", "q4_k_m", "q8_0", "f16", "exl2-2.5", "exl2-3.0", "exl2-4.0", "gptq")
TESTS = {"decode": (0, 32, 1, 0), "depth": (0, 16, 1, 4096), "prompt": (512, 0, 1, 0), "batch": (0, 16, 16, 0)}
GROUP = 128  # inputs that share a scale in a folder
POOL = 1 << 20  # bytes of random blocks, written again and again


# ---- the model's matrices ----

def take_shape(hidden, heads, kv_heads, inner):
    """Of another llama, for whoever writes such files."""
    global HIDDEN, HEADS, KV_HEADS, INNER, KV
    HIDDEN, HEADS, KV_HEADS, INNER, KV = hidden, heads, kv_heads, inner, hidden // heads * kv_heads


def matrices(layers):
    """Name in GGUF, name in a folder, outputs, inputs."""
    yield "token_embd", "model.embed_tokens", VOCABULARY, HIDDEN
    for i in range(layers):
        for ours, theirs, n_out, n_in in (
                ("attn_q", "self_attn.q_proj", HIDDEN, HIDDEN), ("attn_k", "self_attn.k_proj", KV, HIDDEN),
                ("attn_v", "self_attn.v_proj", KV, HIDDEN), ("attn_output", "self_attn.o_proj", HIDDEN, HIDDEN),
                ("ffn_gate", "mlp.gate_proj", INNER, HIDDEN), ("ffn_up", "mlp.up_proj", INNER, HIDDEN),
                ("ffn_down", "mlp.down_proj", HIDDEN, INNER)):
            yield f"blk.{i}.{ours}", f"model.layers.{i}.{theirs}", n_out, n_in
    yield "output", "lm_head", VOCABULARY, HIDDEN


def norms(layers):
    """Name in GGUF and in a folder."""
    for i in range(layers):
        yield f"blk.{i}.attn_norm", f"model.layers.{i}.input_layernorm"
        yield f"blk.{i}.ffn_norm", f"model.layers.{i}.post_attention_layernorm"
    yield "output_norm", "model.norm"


def type_of(mix, name, layers):
    """What llama.cpp's own mixtures give a matrix: six bits for the output and, in q4_k_m, where errors count most."""
    if mix in ("f16", "q8_0"):
        return mix
    if name == "output":
        return "q6_k"
    if mix == "q4_0":
        return "q4_0"
    layer, _, part = name.removeprefix("blk.").partition(".")
    if part not in ("attn_v", "ffn_down"):
        return "q4_k"
    i = int(layer)
    more = i < layers // 8 or i >= 7 * layers // 8 or (i - layers // 8) % 3 == 2
    return "q6_k" if more else "q4_k"


# ---- bytes ----

def half(value):
    return struct.pack("<e", value)


def pool_of(kind, rng):
    """Random blocks with scales that keep activations in a sensible range."""
    _, _, size, scales = TYPES[kind]
    pool = bytearray(rng.randbytes(POOL // size * size))
    for at in range(0, len(pool), size):
        for place in scales:
            pool[at + place:at + place + 2] = half(rng.choice((-1, 1)) * 0.02 if kind == "f16" else 0.002)
    return bytes(pool)


def write_bytes(file, pool, n):
    while n:
        file.write(pool[:n])
        n -= min(n, len(pool))


# ---- GGUF ----

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def metadata(layers):
    """Key-value pairs: 4 a uint32, 6 a float32, 8 a text, 9 an array."""
    numbers = {"context_length": 8192, "embedding_length": HIDDEN, "block_count": layers, "feed_forward_length": INNER,
               "attention.head_count": HEADS, "attention.head_count_kv": KV_HEADS, "vocab_size": VOCABULARY,
               "rope.dimension_count": HIDDEN // HEADS}
    pairs = [text("general.architecture") + struct.pack("<I", 8) + text("llama"),
             text("tokenizer.ggml.model") + struct.pack("<I", 8) + text("llama")]
    pairs += [text(f"llama.{key}") + struct.pack("<II", 4, value) for key, value in numbers.items()]
    pairs.append(text("llama.attention.layer_norm_rms_epsilon") + struct.pack("<If", 6, 1e-5))
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    words += [f"\u2581w{i}" for i in range(len(words), VOCABULARY)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (VOCABULARY - 259)
    pairs.append(text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, VOCABULARY) + b"".join(map(text, words)))
    pairs.append(text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, VOCABULARY) +
                 struct.pack(f"<{VOCABULARY}f", *(-float(i) for i in range(VOCABULARY))))
    pairs.append(text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, VOCABULARY) +
                 struct.pack(f"<{VOCABULARY}i", *kinds))
    return pairs


def write_gguf(path, mix, layers):
    rng = random.Random(1)
    pools = {}
    tensors = [(name + ".weight", "f32", (HIDDEN,)) for name, _ in norms(layers)]
    for name, _, n_out, n_in in matrices(layers):
        tensors.append((name + ".weight", type_of(mix, name, layers), (n_in, n_out)))
    pairs, described, at, sizes = metadata(layers), b"", 0, []
    for name, kind, shape in tensors:
        number, values, size, _ = TYPES[kind]
        n = shape[0] * (shape[1] if len(shape) > 1 else 1) // values * size
        described += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, at)
        sizes.append(n)
        at += (n + 31) // 32 * 32
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs) + described)
        file.write(bytes(-file.tell() % 32))
        for (name, kind, _), n in zip(tensors, sizes):
            if kind not in pools:
                pools[kind] = pool_of(kind, rng) if kind != "f32" else struct.pack("<f", 1) * HIDDEN
            write_bytes(file, pools[kind], n)
            file.write(bytes(-n % 32))


# ---- folders ----

def widths(bits, n_in):
    """(bits, inputs) of the parts of a matrix, the widest first; 2.5: half of the inputs have 3, the others 2."""
    low = int(bits)
    if bits == low:
        return [(low, n_in)]
    more = n_in // 256 * 128
    return [(low + 1, more), (low, n_in - more)]


def exl2_tensors(key, bits, n_out, n_in, rng):
    """Name, kind, shape and bytes of the tensors of one matrix."""
    groups, first = [], 0
    for width, inputs in widths(bits, n_in):
        for _ in range(inputs // GROUP):
            groups += [width, first]
            first += GROUP * width // 32
    n_groups = len(groups) // 2
    yield f"{key}.q_weight", "I32", (first, n_out), None
    yield f"{key}.q_scale", "I32", (n_groups, n_out // 8), rng.randbytes(n_groups * n_out // 2)
    yield f"{key}.q_scale_max", "F16", (n_groups,), half(0.02) * n_groups
    yield f"{key}.q_groups", "I16", (2 * n_groups,), struct.pack(f"<{2 * n_groups}H", *groups)
    yield f"{key}.q_invperm", "I32", (n_in,), struct.pack(f"<{n_in}i", *range(n_in))


def gptq_tensors(key, n_out, n_in):
    """The same for GPTQ's 4 bits: symmetric, so each zero is 8, of which the first version stores 7."""
    n_groups = n_in // GROUP
    yield f"{key}.qweight", "I32", (n_in // 8, n_out), None
    yield f"{key}.qzeros", "I32", (n_groups, n_out // 8), bytes([0x77]) * (n_groups * n_out // 2)
    yield f"{key}.scales", "F16", (n_groups, n_out), half(0.002) * (n_groups * n_out)
    yield f"{key}.g_idx", "I32", (n_in,), struct.pack(f"<{n_in}i", *(i // GROUP for i in range(n_in)))


def quantised(mix, name, n_out, n_in, rng):
    """The tensors of a matrix; as they come in the folders of either format."""
    if name == "model.embed_tokens" or (mix == "gptq" and name == "lm_head"):
        yield f"{name}.weight", "F16", (n_out, n_in), None
    elif mix == "gptq":
        yield from gptq_tensors(name, n_out, n_in)
    else:
        yield from exl2_tensors(name, 6 if name == "lm_head" else exl2_bits(mix), n_out, n_in, rng)


def exl2_bits(mix):
    return float(mix.removeprefix("exl2-"))


def quantisation(mix):
    """What the config says of it."""
    if mix == "gptq":
        return {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "desc_act": False, "sym": True}
    return {"quant_method": "exl2", "version": "0.3.2", "bits": exl2_bits(mix), "head_bits": 6}


def write_folder(folder, mix, layers):
    rng = random.Random(1)
    tensors = [(name + ".weight", "F16", (HIDDEN,), half(1) * HIDDEN) for _, name in norms(layers)]
    for _, name, n_out, n_in in matrices(layers):
        tensors += quantised(mix, name, n_out, n_in, rng)
    header, at = {}, 0
    for name, kind, shape, _ in tensors:
        n = (shape[0] * (shape[1] if len(shape) > 1 else 1)) * (4 if kind == "I32" else 2)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    described = json.dumps(header).encode()
    described += b" " * (-len(described) % 8)
    pools = {"F16": pool_of("f16", rng), "I32": rng.randbytes(POOL)}
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(described)) + described)
        for name, kind, _, data in tensors:
            begin, end = header[name]["data_offsets"]
            write_bytes(file, data or pools[kind], end - begin)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
              "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY, "max_position_embeddings": 8192,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
              "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float16",
              "quantization_config": quantisation(mix)}
    (folder / "config.json").write_text(json.dumps(config, indent=1))


def is_folder(mix):
    return mix.startswith("exl2") or mix == "gptq"


def model_of(files, name, layers):
    """The path of a model, written unless it is there."""
    path = files / (f"{name}-{layers}" + ("" if is_folder(name) else ".gguf"))
    if path.exists():
        return path
    making = files / (path.name + ".part")
    if is_folder(name):
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        write_folder(making, name, layers)
    else:
        write_gguf(making, name, layers)
    making.rename(path)
    return path


# ---- running ----

def answer(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]}: ended with {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def bench(quipu, *options):
    """The result of a `quipu bench` that measures one thing."""
    return json.loads(answer([quipu, "bench", *options, "--json", "--quiet"]))["results"][0]


def ours(quipu, model, test, threads):
    """Tokens per second and the share of the limit."""
    prompt, new, sequences, depth = TESTS[test]
    result = bench(quipu, "-m", model, "-p", prompt, "-n", new, "-b", sequences, "-d", depth, "--device", "cpu",
                   "--threads", threads, "--repeat", 1)
    return result["tok_s"]["median"], result.get("share")


def theirs(peer, model, test, threads):
    prompt, new, sequences, depth = TESTS[test]
    command = [peer, "-m", model, "-c", 8192, "-npp", prompt or depth or 4, "-ntg", new or 1, "-npl", sequences, "-t",
               threads, "-tb", threads, "--output-format", "jsonl"]
    lines = answer(command)
    found = [line for line in lines.splitlines() if line.startswith("{")]
    if not found:
        sys.exit(f"{peer}: no line of JSON for {test} of {model}\n{lines[-2000:]}")
    return json.loads(found[-1])["speed_pp" if prompt else "speed_tg"]


def compare(quipu, peer, model, beside, test, rounds, threads):
    """The figures of one pair, round by round in turns."""
    samples = []
    for _ in range(rounds):
        speed, share = ours(quipu, model, test, threads)
        samples.append((speed, share, theirs(peer, beside, test, threads) if peer else None))
    figures = {"quipu": round(statistics.median(s[0] for s in samples), 2)}
    shares = [s[1] for s in samples if s[1] is not None]
    if shares:
        figures["share"] = round(statistics.median(shares), 3)
    if peer:
        ratios = sorted(s[0] / s[2] for s in samples)
        figures |= {"llama.cpp": round(statistics.median(s[2] for s in samples), 2),
                    "ratio": round(statistics.median(ratios), 2), "least": round(ratios[0], 2),
                    "greatest": round(ratios[-1], 2)}
    return figures


def names(known):
    def read(value):
        chosen = value.split(",")
        for name in chosen:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name}, known are {', '.join(known)}")
        return chosen
    return read


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("quipu")
    parser.add_argument("--peer", help="folder of llama-batched-bench (default: PATH)")
    parser.add_argument("--files", type=pathlib.Path, help="where models are kept")
    parser.add_argument("--formats", type=names(FORMATS), default=list(FORMATS))
    parser.add_argument("--tests", type=names(TESTS), default=list(TESTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=22)
    return parser.parse_args()


def main():
    args = arguments()
    peer = shutil.which("llama-batched-bench", path=args.peer)
    if not peer:
        print("no llama-batched-bench found: quipu alone", file=sys.stderr)
    with tempfile.TemporaryDirectory() as temporary:
        files = args.files or pathlib.Path(temporary)
        os.makedirs(files, exist_ok=True)
        for name in args.formats:
            model = model_of(files, name, args.layers)
            beside = model_of(files, "q4_k_m", args.layers) if peer and is_folder(name) else model
            for test in args.tests:
                figures = compare(args.quipu, peer, model, beside, test, args.rounds, args.threads)
                what = {"format": name, "test": test, "threads": args.threads, "rounds": args.rounds}
                print(json.dumps(what | figures), flush=True)


if __name__ == "__main__":
    main()
