"""A chat: the model's template, a growing history whose beginning is found in the cache.

usage: python chat_turns.py [MODEL]       reads one message per line
"""
import sys

import quipu


def main() -> None:
    model = quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo")
    generator, template = quipu.Generator(model), model.template()
    messages = []
    for line in sys.stdin:
        messages.append({"role": "user", "content": line.strip()})
        prompt = template.render(messages)
        job = generator.job(prompt, add_special=False, max_new_tokens=40, seed=1)
        said = ""
        for text in job.texts():
            said += text
            print(text, end="", flush=True)
        print(f"\n[{job.stats.engine.cached_tokens} of {job.stats.engine.prompt_tokens} tokens were cached]")
        messages.append({"role": "assistant", "content": said})


if __name__ == "__main__":
    main()
