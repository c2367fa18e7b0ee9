#!/usr/bin/env python3
"""Which share of bench's tokens does the server deliver, on one model?

usage: server_share.py PROGRAM [--model PATH] [--shape llama2-7b] [--streams 1,64] [--tokens 512] [--rounds 3]
       [--device cuda]

Without --model a llama of random Q4_0 weights is written first, of --shape llama2-7b or tinyllama-1.1b. Bench and
server take turns, each in a process of its own: bench makes --tokens new ones behind 64, the server is asked for as
many, greedily, by --streams clients at once, one thread over epoll. Shares are of texts that come while all streams
run. Prints one JSON object for each number of streams: medians (all_tok_s: from the first text of any stream to the
last; when the first and the last stream begin), and the share of each round.
"""
import argparse
import json
import pathlib
import statistics
import tempfile
import time

import cpu_vs_peers
import server_load

SHAPES = {"llama2-7b": (4096, 32, 32, 11008, 32), "tinyllama-1.1b": (2048, 32, 4, 5632, 22)}
BEHIND = 64  # tokens of a prompt, about
PAGE = 256  # tokens of the cache


def bench(program, model, device, streams, tokens):
    result = cpu_vs_peers.bench(program, "-m", model, "--device", device, "-p", 0, "-n", tokens, "-b", streams, "-d",
                                BEHIND, "--repeat", 1)
    return result["tok_s"]["median"]


def serve(program, model, device, streams, tokens):
    each = -(-(BEHIND * 2 + tokens) // PAGE) * PAGE
    server = server_load.Server(program, ["--device", device, "--context", str((each + PAGE) * streams),
                                          "--max-seq-len", str(each), "--max-batch-size", str(streams)], model)
    server_load.run_streams(server, streams, 16, 0)
    began = time.monotonic()
    times, failed, _ = server_load.run_streams(server, streams, tokens, 0)
    server.end()
    if failed:
        raise SystemExit(f"{failed} of {streams} streams failed")
    first = sorted(t[0] for t in times.values())
    last = min(t[-2] for t in times.values())
    together = sum(sum(first[-1] < x <= last for x in t) for t in times.values()) / (last - first[-1])
    texts = sum(map(len, times.values()))
    all_took = max(t[-2] for t in times.values()) - first[0]
    return {"server_tok_s": together, "all_tok_s": streams * (tokens - 1) / all_took,
            "texts_of_a_token": texts / (streams * tokens), "first_begins_s": first[0] - began,
            "last_begins_s": first[-1] - began}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--model")
    parser.add_argument("--shape", choices=SHAPES, default="llama2-7b")
    parser.add_argument("--streams", default="1,64")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    program = str(pathlib.Path(args.program).resolve())
    with tempfile.TemporaryDirectory(prefix="quipu-bench-") as folder:
        model = args.model
        if not model:
            *shape, layers = SHAPES[args.shape]
            model = str(pathlib.Path(folder) / f"{args.shape}.gguf")
            cpu_vs_peers.take_shape(*shape)
            cpu_vs_peers.write_gguf(model, "q4_0", layers)
        for streams in map(int, args.streams.split(",")):
            pairs = [(bench(program, model, args.device, streams, args.tokens),
                      serve(program, model, args.device, streams, args.tokens)) for _ in range(args.rounds)]
            served = {key: round(statistics.median(s[key] for _, s in pairs), 3) for key in pairs[0][1]}
            print(json.dumps({"model": args.model or args.shape, "streams": streams, "tokens": args.tokens,
                              "bench_tok_s": round(statistics.median(b for b, _ in pairs), 1), **served,
                              "shares": [round(s["server_tok_s"] / b, 3) for b, s in pairs]}), flush=True)


if __name__ == "__main__":
    main()
