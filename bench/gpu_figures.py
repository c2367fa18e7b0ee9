#!/usr/bin/env python3
"""The table of docs/performance.md for one GPU: what quipu makes of the shapes that are asked about.

usage: gpu_figures.py PROGRAM [--device cuda] [--repeat 3] [--only WORD]

Weights are random (speed does not depend on their values). Each line is a process of its own; tokens/s are medians of
--repeat, in brackets the least and the greatest, and the hash of the logits stands behind them: a change that keeps the
hash has kept the answers. --only: lines whose name has WORD.
"""
import argparse

import cpu_vs_peers

ONE = ["-p", 0, "-n", 128]
SEVERAL = ["-p", 0, "-n", 64, "-b"]
PROMPT = ["-n", 0, "-p"]
SEVEN = ["--shape", "llama2-7b", "--format"]
SMALL = ["--shape", "tinyllama-1.1b", "--format"]
LINES = [
    ("llama2-7b GPTQ, 1 stream", [*SEVEN, "gptq", *ONE]),
    ("llama2-7b Q4_0, 1 stream", [*SEVEN, "q4_0", *ONE]),
    *((f"llama2-7b GPTQ, 1 stream behind {d:,}", [*SEVEN, "gptq", *ONE, "-d", d]) for d in (512, 2048, 8192)),
    ("llama2-7b GPTQ, 1 stream behind 8,192, q8 cache", [*SEVEN, "gptq", *ONE, "-d", 8192, "--cache", "q8"]),
    *((f"llama2-7b GPTQ, {b} streams", [*SEVEN, "gptq", *SEVERAL, b]) for b in (4, 16, 64)),
    *((f"llama2-7b Q4_0, prompt of {n:,}", [*SEVEN, "q4_0", *PROMPT, n]) for n in (512, 2048)),
    *((f"llama2-7b EXL2 {bits}, 1 stream", [*SEVEN, f"exl2-{bits}", *ONE]) for bits in ("2.5", "3.0", "4.0", "5.0")),
    ("llama2-7b FP8, 1 stream", [*SEVEN, "fp8_e4m3", *ONE]),
    ("llama2-7b BF16, 1 stream", [*SEVEN, "bf16", *ONE]),
    ("llama3-8b Q4_0, 1 stream", ["--shape", "llama3-8b", "--format", "q4_0", *ONE]),
    ("tinyllama-1.1b Q4_0, 1 stream", [*SMALL, "q4_0", *ONE]),
    *((f"tinyllama-1.1b Q4_0, {b} streams", [*SMALL, "q4_0", *SEVERAL, b]) for b in (4, 64)),
    ("tinyllama-1.1b Q4_0, prompt of 2,048", [*SMALL, "q4_0", *PROMPT, 2048]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    print("| what | tokens/s | hash |\n|---|---|---|")
    for name, line in LINES:
        if args.only not in name:
            continue
        result = cpu_vs_peers.bench(args.program, "--device", args.device, "--repeat", args.repeat, *line)
        speed = result["tok_s"]
        few = ",.1f" if speed["median"] < 1000 else ",.0f"
        print(f"| {name} | {speed['median']:{few}} ({speed['min']:{few}} to {speed['max']:{few}}) | {result['hash']} |",
              flush=True)


if __name__ == "__main__":
    main()
