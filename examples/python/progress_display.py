"""A display that keeps up: how much of the prompt is read, then the text, then the figures. In a notebook the same
events drive a widget; there `await show(...)` works in a cell, for a notebook has a loop.

usage: python progress_display.py [MODEL]
"""
import asyncio
import sys

import quipu


async def show(generator: quipu.Generator, prompt: str, **options: object) -> str:
    text = ""
    async for event in await generator.submit(prompt, show_prompt=True, **options):
        if event.kind == "prompt":
            print(f"\rreading: {100 * event.done // event.total} %", end="", flush=True)
        elif event.kind == "text":
            print(("" if text else "\n") + event.text, end="", flush=True)
            text += event.text
        else:
            stats = event.stats
            print(f"\n{stats.new_tokens} tokens, {stats.new_tokens / max(stats.decode_s, 1e-9):.0f} per second, "
                  f"first after {1000 * stats.first_token_s:.0f} ms")
    return text


if __name__ == "__main__":
    quipu_generator = quipu.Generator(quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo"))
    asyncio.run(show(quipu_generator, "The story begins. " * 150, max_new_tokens=30, seed=1))
