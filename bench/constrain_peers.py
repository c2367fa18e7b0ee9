#!/usr/bin/env python3
"""What a constraint costs beside llguidance from PyPI: the same schemas, texts and vocabulary, one thread, in one run.

    pip install llguidance tokenizers
    python3 bench/constrain_peers.py BENCH_CONSTRAIN TOKENIZER_FOLDER SCHEMAS.jsonl [MOST_SCHEMAS]

BENCH_CONSTRAIN is the program made of bench/constrain.c; it runs before and after the peer, so that a change of the
machine's speed shows. Prints one JSON object a run. Microseconds at the 50th, 95th, 99th and 100th percentile; every
schema with caches of its own.
"""
import json
import os
import subprocess
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"


def spread(samples):
    """The percentiles of some times in seconds, as microseconds."""
    samples = sorted(samples)
    return {"n": len(samples), **{name: round(samples[int((len(samples) - 1) * share)] * 1e6, 2) for name, share in
                                  (("p50", .5), ("p95", .95), ("p99", .99), ("p99.9", .999), ("max", 1))}}


def follow(matcher, ids, bits, masks, accepts):
    """One text, token by token; whether it was accepted."""
    import llguidance.numpy
    for token in ids:
        begin = time.perf_counter()
        llguidance.numpy.fill_next_token_bitmask(matcher, bits, 0)
        masks.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        fine = matcher.consume_token(token)
        accepts.append(time.perf_counter() - begin)
        if not fine:
            return False
    return matcher.is_accepting()


def peer(folder, path, most):
    """Times llguidance."""
    import llguidance
    import llguidance.numpy
    import tokenizers
    base = tokenizers.Tokenizer.from_file(folder + "/tokenizer.json")
    begin = time.perf_counter()
    tokenizer = llguidance.LLTokenizer(base.to_str())
    vocabulary = time.perf_counter() - begin
    bits = llguidance.numpy.allocate_token_bitmask(1, tokenizer.vocab_size)
    compiles, masks, accepts, refused, wrong = [], [], [], 0, 0
    for line in open(path).read().splitlines()[:most]:
        record = json.loads(line)
        begin = time.perf_counter()
        grammar = llguidance.LLMatcher.grammar_from_json_schema(
            json.dumps(record["schema"]), defaults={"whitespace_flexible": True})
        first = llguidance.LLMatcher(tokenizer, grammar)
        took = time.perf_counter() - begin
        if first.get_error():
            refused += 1
            continue
        compiles.append(took)
        for i, text in enumerate(record["valid"]):
            matcher = first if i == 0 else llguidance.LLMatcher(tokenizer, grammar)
            wrong += not follow(matcher, base.encode(text, add_special_tokens=False).ids, bits, masks, accepts)
    print(json.dumps({"llguidance": llguidance.__version__ if hasattr(llguidance, "__version__") else "",
                      "vocabulary_ms": round(vocabulary * 1e3, 1), "compile_us": spread(compiles),
                      "mask_us": spread(masks), "accept_us": spread(accepts), "refused": refused, "wrong": wrong}))


def main():
    """Ours, the peer, ours again."""
    program, folder, path = sys.argv[1:4]
    most = int(sys.argv[4]) if len(sys.argv) > 4 else 1000000
    for turn in range(2):
        print(subprocess.run([program, folder, path, str(most)], check=True, capture_output=True, text=True).stdout,
              end="", flush=True)
        if turn == 0:
            peer(folder, path, most)


main()
