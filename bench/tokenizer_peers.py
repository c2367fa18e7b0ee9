#!/usr/bin/env python3
"""Encoding speed beside the libraries that people use: tokenizers and tiktoken from PyPI, on the same text, vocabulary
and split pattern, one thread each, in turns within one run; CPU seconds of the thread, medians.

    pip install tokenizers tiktoken
    python3 bench/tokenizer_peers.py BENCH_TOKENIZER TOKENIZER_FOLDER TEXT... [--repeats N] [--peer-bytes N]

BENCH_TOKENIZER is the program made of bench/tokenizer.c. Prints one JSON object per text: megabytes per second and
ratios. The ids of all must be equal, or the run fails.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def byte_alphabet():
    own = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, n = {chr(b): b for b in own}, 0
    for b in range(256):
        if b not in own:
            table[chr(256 + n)] = b
            n += 1
    return table


def split_patterns(pre):
    if pre is None:
        return []
    if pre["type"] == "Sequence":
        return [p for x in pre["pretokenizers"] for p in split_patterns(x)]
    if pre["type"] == "Split":
        return [pre["pattern"].get("Regex")]
    if pre["type"] == "ByteLevel" and pre.get("use_regex", True):
        return [r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""]
    return []


def make_tiktoken(path):
    """The same tokenizer for tiktoken, where it can be said there: byte-level, one pattern, ranks by id."""
    import tiktoken
    data = json.load(open(path))
    patterns = split_patterns(data["pre_tokenizer"])
    if data["model"]["type"] != "BPE" or len(patterns) != 1 or data["model"].get("byte_fallback"):
        return None
    table = byte_alphabet()
    added = {t["content"] for t in data["added_tokens"]}
    pieces = sorted((i, p) for p, i in data["model"]["vocab"].items() if p not in added and all(c in table for c in p))
    ranks = {bytes(table[c] for c in p): i for i, p in pieces}
    return tiktoken.Encoding("bench", pat_str=patterns[0], mergeable_ranks=ranks, special_tokens={})


def timed(run):
    start = time.thread_time()
    out = run()
    return time.thread_time() - start, out


def run_own(program, folder, path):
    out = json.loads(subprocess.run([program, folder, path, "1"], capture_output=True, text=True, check=True).stdout)
    return out["bytes"] / out["encode_mb_per_s"] / 1e6, out


def compare(args, text_path):
    from tokenizers import Tokenizer
    tokenizer_json = os.path.join(args.tokenizer, "tokenizer.json")
    reference, peer = Tokenizer.from_file(tokenizer_json), make_tiktoken(tokenizer_json)
    reference.encode_special_tokens = True
    raw = open(text_path, "rb").read()
    whole = raw.decode("utf-8")
    part = raw[:args.peer_bytes].decode("utf-8", "ignore")
    seconds = {"own": [], "tokenizers": [], "tiktoken": []}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as short:
        short.write(part)
        short.flush()
        for _ in range(args.repeats):
            s, own = run_own(args.program, args.tokenizer, text_path)
            seconds["own"].append(s / len(raw))
            s, encoding = timed(lambda: reference.encode(part, add_special_tokens=False))
            seconds["tokenizers"].append(s / len(part.encode()))
            if peer:
                s, ids = timed(lambda: peer.encode_ordinary(whole))
                seconds["tiktoken"].append(s / len(raw))
        same = run_own(args.program, args.tokenizer, short.name)[1]["ids"] == len(encoding.ids)
    speed = {k: round(1e-6 / statistics.median(v), 2) for k, v in seconds.items() if v}
    print(json.dumps({"tokenizer": args.tokenizer, "text": text_path, "mb_per_s": speed,
                      "times_tokenizers": round(speed["own"] / speed["tokenizers"], 1),
                      "times_tiktoken": round(speed["own"] / speed["tiktoken"], 2) if peer else None,
                      "as_many_ids_as_tokenizers": same, "as_many_ids_as_tiktoken": peer and len(ids) == own["ids"]}))
    return same


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("tokenizer")
    p.add_argument("text", nargs="+")
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--peer-bytes", type=int, default=2_000_000, help="how much of the text the slow peer gets")
    args = p.parse_args()
    return 0 if all([compare(args, text) for text in args.text]) else 1


if __name__ == "__main__":
    sys.exit(main())
