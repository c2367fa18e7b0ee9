"""What else could have come: each token's probability and its alternatives, and how likely a given text is.

usage: python token_chances.py [MODEL]
"""
import math
import sys

import quipu


def main() -> None:
    model = quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo")
    generator = quipu.Generator(model)
    result = generator.generate("Once upon a time", quipu.Settings(), max_new_tokens=6, top=3)
    for token in result.tokens:
        others = ", ".join(f"{model.tokenizer.decode([each.id])!r} {math.exp(each.logprob):.2f}" for each in token.top)
        print(f"{model.tokenizer.decode([token.id])!r}: {others}")
    job = generator.job("The king had a daughter.", max_new_tokens=1, score_prompt=True)
    job.wait()
    mean = sum(token.logprob for token in job.scores) / len(job.scores)
    print(f"perplexity of the prompt: {math.exp(-mean):.1f}")


if __name__ == "__main__":
    main()
