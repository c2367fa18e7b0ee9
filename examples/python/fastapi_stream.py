"""Streams answers over HTTP with FastAPI: through nested generators, and through a queue. A client that leaves cancels.

usage: python fastapi_stream.py [MODEL] [PORT]      then: curl -N 'http://127.0.0.1:8000/nested?prompt=Once+upon+a+time'
"""
import asyncio
import sys
from typing import AsyncIterator

import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

import quipu


async def answer(generator: quipu.Generator, prompt: str, n: int) -> AsyncIterator[str]:
    """The innermost: texts as the engine makes them."""
    async for text in generator.astream(prompt, max_new_tokens=n):
        yield text


async def without_tabs(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """A second layer, as filters and formatters are."""
    async for text in texts:
        yield text.replace("\t", " ")


async def as_events(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """The third: server-sent events."""
    async for text in texts:
        for line in text.split("\n"):
            yield f"data: {line}\n"
        yield "\n"


async def through_a_queue(texts: AsyncIterator[str]) -> AsyncIterator[str]:
    """A task that fills a queue, as where several listen. Ending this ends the task, and that the job."""
    queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=16)

    async def fill() -> None:
        async for text in texts:
            await queue.put(text)
        await queue.put(None)

    task = asyncio.ensure_future(fill())
    try:
        while (text := await queue.get()) is not None:
            yield text
    finally:
        task.cancel()


def make_app(model: str) -> FastAPI:
    app = FastAPI()
    generator = quipu.Generator(quipu.Model(model), cache_tokens=16384)  # one for the whole program

    @app.get("/nested")
    async def nested(prompt: str, n: int = 60) -> StreamingResponse:
        return StreamingResponse(as_events(without_tabs(answer(generator, prompt, n))), media_type="text/event-stream")

    @app.get("/queue")
    async def queue(prompt: str, n: int = 60) -> StreamingResponse:
        texts = through_a_queue(without_tabs(answer(generator, prompt, n)))
        return StreamingResponse(as_events(texts), media_type="text/event-stream")

    @app.get("/stats")
    async def stats() -> dict:
        return {"running": generator.stats.jobs_running, "cancelled": generator.stats.jobs_cancelled}

    return app


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "models/demo"
    uvicorn.run(make_app(where), port=int(sys.argv[2]) if len(sys.argv) > 2 else 8000, log_level="warning")
