"""Independent prompts, computed together: each is an answer of its own, none sees another.

usage: python batch_prompts.py [MODEL]
"""
import sys

import quipu

PROMPTS = ["Once upon a time", "The old king said", "In the forest there was", "The ship sailed"]


def main() -> None:
    generator = quipu.Generator(quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo"), cache_tokens=8192)
    for prompt, result in zip(PROMPTS, generator.generate_all(PROMPTS, quipu.Settings(), max_new_tokens=16)):
        print(f"{prompt}|{result.text.strip()} [{result.finish}, {result.stats.new_tokens} tokens]")


if __name__ == "__main__":
    main()
