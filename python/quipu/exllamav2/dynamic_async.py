"""ExLlamaV2DynamicGeneratorAsync and its jobs: the same results on an event loop.

There is no background task: the engine has its own thread, and a job's results are read by whoever iterates over it.
Leaving the iteration early cancels the job, also without `await job.cancel()`.
"""
from __future__ import annotations

import asyncio
import weakref
from typing import Any, AsyncIterator, Dict, List, Optional

from .dynamic import ExLlamaV2DynamicGenerator
from .dynamic_job import ExLlamaV2DynamicJob


class ExLlamaV2DynamicGeneratorAsync:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.generator = ExLlamaV2DynamicGenerator(*args, **kwargs)
        self._jobs: weakref.WeakSet[ExLlamaV2DynamicJobAsync] = weakref.WeakSet()

    @property
    def jobs(self) -> Dict[ExLlamaV2DynamicJob, ExLlamaV2DynamicJobAsync]:
        """Those that have not ended."""
        return {each.job: each for each in self._jobs if not each.ended}

    @property
    def pending_jobs(self) -> List[ExLlamaV2DynamicJob]:
        return [each.job for each in self._jobs if each.state == "waiting"]

    @property
    def active_jobs(self) -> List[ExLlamaV2DynamicJob]:
        return [each.job for each in self._jobs if each.state in ("prompt", "running")]

    def num_remaining_jobs(self) -> int:
        return sum(not each.ended for each in self._jobs)

    def set_loras(self, loras: Any) -> None:
        self.generator.set_loras(loras)

    def enqueue(self, job: ExLlamaV2DynamicJobAsync) -> None:
        """Done by the job itself."""
        self._jobs.add(job)

    async def cancel(self, job: ExLlamaV2DynamicJobAsync) -> None:
        await job.cancel()

    async def clear_queue(self) -> None:
        await asyncio.gather(*(job.cancel() for job in list(self._jobs)))

    async def close(self) -> None:
        """Cancels its jobs and waits until they are gone. The model and the cache stay."""
        await self.clear_queue()


class ExLlamaV2DynamicJobAsync:
    def __init__(self, generator: ExLlamaV2DynamicGeneratorAsync, *args: Any, **kwargs: Any) -> None:
        self.generator = generator
        self.job = ExLlamaV2DynamicJob(*args, **kwargs)
        self._made: Optional[Any] = None
        self._made = generator.generator.start(self.job)
        generator.enqueue(self)

    @property
    def quipu(self) -> Any:
        """The quipu.Job, with its stats."""
        return self._made

    @property
    def state(self) -> str:
        return "ended" if self._made is None else str(self._made.progress.state)

    @property
    def ended(self) -> bool:
        return self.state == "ended"

    @property
    def serial_number(self) -> Optional[int]:
        return self.job.serial_number

    @property
    def identifier(self) -> Any:
        return self.job.identifier

    def __aiter__(self) -> AsyncIterator[Dict[str, Any]]:
        return _Results(self)

    async def cancel(self) -> None:
        """Any number of times, in any state."""
        if self._made is not None:
            await self._made.cancel()


class _Results:
    """Holds quipu's own iterator: when this goes, the job goes."""

    def __init__(self, job: ExLlamaV2DynamicJobAsync) -> None:
        self._job = job.job
        self._owner = job
        self._events = job.quipu.__aiter__()
        self._ready: List[Dict[str, Any]] = []

    def __aiter__(self) -> _Results:
        return self

    async def __anext__(self) -> Dict[str, Any]:
        if self._ready:
            return self._ready.pop(0)
        event = await self._events.__anext__()
        if event.kind == "end" and event.finish == "cancelled":
            raise StopAsyncIteration
        results = self._job.results_of(event)
        for result in results:
            result["job"] = self._owner
        self._ready = results[1:]
        return results[0]
