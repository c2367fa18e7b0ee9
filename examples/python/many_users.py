"""Many users at a time, some of whom leave: a job ends with the task that reads it, whatever that task was doing.

usage: python many_users.py [MODEL]
"""
import asyncio
import random
import sys

import quipu


async def user(generator: quipu.Generator, number: int, heard: asyncio.Event) -> int:
    """Reads an answer; the tokens seen."""
    seen = 0
    async for event in generator.job(f"User {number} asks:", max_new_tokens=60, seed=number):
        seen += len(event.ids)
        heard.set()  # the first text is there: who wanted no more leaves
        await asyncio.sleep(0)  # whatever a program does with a piece of text
    return seen


async def leave(task: asyncio.Task[int], heard: asyncio.Event) -> None:
    """Closes a user's connection as soon as text came over it, which ends the task that writes to it."""
    await heard.wait()
    task.cancel()


async def main() -> None:
    generator = quipu.Generator(quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo"), cache_tokens=32768)
    rng = random.Random(1)
    heard = [asyncio.Event() for _ in range(40)]
    tasks = [asyncio.ensure_future(user(generator, i, each)) for i, each in enumerate(heard)]
    leaving = [leave(tasks[i], heard[i]) for i in rng.sample(range(40), 20)]
    ended = (await asyncio.gather(*tasks, *leaving, return_exceptions=True))[:len(tasks)]
    while generator.stats.jobs_running:
        await asyncio.sleep(0.01)
    stayed = sum(isinstance(each, int) for each in ended)
    print(f"{stayed} users read to the end, {len(ended) - stayed} left, {generator.stats.jobs_running} jobs still run")


if __name__ == "__main__":
    asyncio.run(main())
