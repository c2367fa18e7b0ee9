"""Many users at a time, some of whom leave: a job ends with the task that reads it, whatever that task was doing.

usage: python many_users.py [MODEL]
"""
import asyncio
import random
import sys

import quipu


async def user(generator: quipu.Generator, number: int) -> int:
    """Reads an answer; the tokens seen."""
    seen = 0
    async for event in generator.job(f"User {number} asks:", max_new_tokens=60, seed=number):
        seen += len(event.ids)
        await asyncio.sleep(0)  # whatever a program does with a piece of text
    return seen


async def main() -> None:
    generator = quipu.Generator(quipu.Model(sys.argv[1] if len(sys.argv) > 1 else "models/demo"), cache_tokens=32768)
    rng = random.Random(1)
    tasks = [asyncio.ensure_future(user(generator, i)) for i in range(40)]
    await asyncio.sleep(0.1)
    leaving = rng.sample(tasks, 20)
    for task in leaving:
        task.cancel()  # a connection that is closed ends its task so
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    while generator.stats.jobs_running:
        await asyncio.sleep(0.01)
    stayed = sum(isinstance(each, int) for each in ended)
    print(f"{stayed} users read to the end, {len(ended) - stayed} left, {generator.stats.jobs_running} jobs still run")


if __name__ == "__main__":
    asyncio.run(main())
