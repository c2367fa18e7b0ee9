"""One prompt and its continuation, read from plain code or from an event loop.

    for event in job: ...                 # blocks this thread
    async for event in job: ...           # on a loop; leaving the loop early cancels the job
    result = job.wait()                   # all of it
    result = await job

A job is read by one reader at a time. What comes while nobody reads is merged into one event, so a slow reader delays
nobody and costs no memory but its text. The job is cancelled when its last reference goes, when an `async for` over it
is left (break, exception, cancelled task, abandoned generator), when `with` or `async with` ends, and by cancel().
"""
from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import threading
import time
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Generator, Iterator, List, Optional, Set

from ._native import BUSY, NULL, OK, error_of, ffi, lib, new_error
from .events import (
    EndEvent,
    EngineStats,
    Event,
    PromptEvent,
    Result,
    TextEvent,
    Token,
    end_event,
    text_event,
    token_from,
)
from .hub import hub_of
from .owned import Owned
from .waiter import TURN, Waiter

if TYPE_CHECKING:
    from .filters import _Bridge
    from .generator import _Handle

_attaching = threading.Lock()
BLINK = 0.1  # seconds that a blocking read takes no notice of Ctrl-C
MOST_IN_A_ROW = 16  # events that a task takes without waiting before others on the loop get their turn
STATES = ("waiting", "prompt", "running", "ended")


@dataclasses.dataclass(frozen=True)
class Progress:
    """Of a job, at any time and from any thread."""

    state: str  # "waiting", "prompt", "running", "ended"
    queue_place: int
    prompt_tokens: int
    prompt_done: int
    new_tokens: int
    pages: int
    cached_tokens: int


@dataclasses.dataclass(frozen=True)
class JobStats:
    """What lies between generating, delivering and consuming. Times are time.monotonic(); None: not yet.

    Delivered is what the reader was given, consumed what it came back from to ask for more."""

    generated_tokens: int
    delivered_tokens: int
    consumed_tokens: int
    submitted_at: float
    first_generated_at: Optional[float]  # of the first event's newest token
    generated_at: Optional[float]  # of the newest token delivered
    noticed_at: Optional[float]  # the event loop heard of it
    delivered_at: Optional[float]
    consumed_at: Optional[float]
    events: int
    delivery_gap_mean: float  # seconds from generated to delivered, over all events
    delivery_gap_max: float
    consume_mean: float  # seconds from delivered to consumed
    consume_max: float
    engine: Optional[EngineStats]  # when the job has ended

    @property
    def unread_tokens(self) -> int:
        return self.generated_tokens - self.delivered_tokens


class Job:
    """Made by Generator.job() and its relatives."""

    __slots__ = (
        "__weakref__", "_bridges", "_consume_max", "_consume_sum", "_consumed_at", "_delivered", "_delivered_at",
        "_end", "_end_given", "_end_waiters", "_err", "_events", "_failure", "_first_at", "_gap_max", "_gap_sum",
        "_generated_at", "_handle", "_has_news", "_in_a_row", "_is_cancelled", "_keeper", "_last_n", "_loop",
        "_noticed_at", "_owned", "_ptr", "_raw", "_submitted_at", "_vocabulary", "_waiter", "identifier",
    )

    def __init__(self, pointer: Any, handle: _Handle, vocabulary: int, bridges: List[_Bridge],
                 submitted_at: float) -> None:
        self._ptr = pointer
        self._handle = handle  # of the generator
        self._vocabulary = vocabulary
        self._bridges = bridges
        self._raw, self._err = ffi.new("qp_event *"), new_error()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._keeper: Set[Waiter] = set()  # the hub's, when there is one
        self._waiter: Optional[Waiter] = None
        self._end_waiters: Optional[List[asyncio.Future[None]]] = None
        self._has_news = True
        self._in_a_row = 0
        self._end: Optional[EndEvent] = None
        self._end_given = self._is_cancelled = False
        self._failure: Optional[BaseException] = None
        self._submitted_at = submitted_at
        self._first_at = self._generated_at = self._noticed_at = 0.0
        self._delivered_at = self._consumed_at = 0.0
        self._delivered = self._events = self._last_n = 0
        self._gap_sum = self._gap_max = self._consume_sum = self._consume_max = 0.0
        self.identifier: Any = None  # anything of the caller's
        self._owned = Owned(pointer, lib.qp_job_free, handle)

    # ---- reading ----

    def _take(self, timeout: float) -> Optional[Event]:
        """The next event, or None if there is none within `timeout`. Raises what the job failed with."""
        raw = self._raw
        if self._last_n:
            self._note_consumed()
        status = lib.qp_job_poll(self._ptr, timeout, raw, NULL)
        if status == BUSY:
            return None
        if raw.kind == 0:  # QP_EVENT_TEXT
            event = text_event(raw, self._vocabulary)
            self._note_delivered(raw, event)
            return event
        if raw.kind == lib.QP_EVENT_PROMPT:
            return PromptEvent(raw.prompt_done, raw.stats.prompt_tokens)
        return self._take_end(status)

    def _take_end(self, status: int) -> EndEvent:
        self._end = end_event(self._raw)
        if status != OK:
            lib.qp_job_poll(self._ptr, 0, self._raw, self._err)  # the end once more, now with its error
            self._failure = error_of(status, self._err)
            for bridge in self._bridges:
                if bridge.error is not None:
                    self._failure.__cause__ = bridge.error
        self._tell_ended()
        return self._end

    def _note_delivered(self, raw: Any, event: TextEvent) -> None:
        now, generated = raw.read_at, event.generated_at
        n = len(event.ids)
        gap = now - generated
        self._events += 1
        self._delivered += n
        self._last_n = n or 1
        self._delivered_at, self._generated_at = now, generated
        self._first_at = self._first_at or generated
        self._gap_sum += gap
        if gap > self._gap_max:
            self._gap_max = gap

    def _note_consumed(self) -> None:
        self._last_n = 0
        self._consumed_at = now = time.monotonic()
        took = now - self._delivered_at
        self._consume_sum += took
        if took > self._consume_max:
            self._consume_max = took

    def _give_end(self) -> EndEvent:
        """Once: the end, or what the job failed with."""
        self._end_given = True
        if self._failure is not None:
            raise self._failure
        assert self._end is not None
        return self._end

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Waits for the next event on this thread; None when `timeout` seconds have passed or the job has ended."""
        limit = None if timeout is None else time.monotonic() + timeout
        while not self._end_given:
            if self._end is not None:
                return self._give_end()
            left = BLINK if limit is None else min(BLINK, max(0.0, limit - time.monotonic()))
            event = self._take(left)
            if event is not None:
                return self._give_end() if event is self._end else event
            if limit is not None and time.monotonic() >= limit:
                return None
        return None

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self.next()
            if event is None:
                return
            yield event

    def texts(self) -> Iterator[str]:
        """The texts alone."""
        return (event.text for event in self if event.text)

    def wait(self) -> Result:
        """Blocks until the job has ended: what had not been read yet, as one."""
        parts: List[TextEvent] = [event for event in self if isinstance(event, TextEvent)]
        return self._result(parts)

    def _result(self, parts: List[TextEvent]) -> Result:
        if self._end is None:
            raise RuntimeError("the job was read by somebody else")
        return Result(
            "".join(part.text for part in parts),
            [id for part in parts for id in part.ids],
            [token for part in parts for token in part.tokens or ()],
            self._end,
        )

    # ---- reading on an event loop ----

    def _attach(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the job is read on this loop: from now on, if it was on none."""
        with _attaching:
            if self._loop is None:
                hub = hub_of(loop)
                hub.attach(self)
                self._keeper, self._loop = hub.waiting, loop
            return self._loop is loop

    def _on_news(self, now: float) -> None:
        """By the hub."""
        self._noticed_at = now
        self._has_news = True
        if self._waiter is not None:
            self._waiter.wake()

    async def _next_async(self) -> Event:
        loop = asyncio.get_running_loop()
        if loop is not self._loop and self._end is None and not self._attach(loop):
            if not self._is_cancelled:
                raise RuntimeError("the job is read on another event loop")
            await self._until_ended()
        if self._waiter is not None:
            raise RuntimeError("the job is being read already: it has one reader at a time")
        while not self._end_given:
            if self._end is not None:
                return self._give_end()
            if self._has_news:
                event = self._take(0.0)
                if event is not None:
                    if event.kind == "end":
                        return self._give_end()
                    self._in_a_row += 1
                    if self._in_a_row > MOST_IN_A_ROW:
                        self._in_a_row = 0
                        await TURN
                    return event
                self._has_news = False
            self._in_a_row = 0
            self._waiter = Waiter(loop, self._keeper)
            try:
                await self._waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
            finally:
                self._waiter = None
        raise StopAsyncIteration

    async def next_async(self, timeout: Optional[float] = None) -> Optional[Event]:
        """Waits for the next event on the loop; None when `timeout` seconds have passed or the job has ended. Unlike
        `async for`, not to call it again cancels nothing."""
        loop = asyncio.get_running_loop()
        timer = None if timeout is None else loop.call_later(timeout, self._time_out)
        try:
            return await self._next_async()
        except (StopAsyncIteration, _TimeOut):
            return None
        finally:
            if timer:
                timer.cancel()

    def _time_out(self) -> None:
        if self._waiter is not None:
            self._waiter.wake(_TimeOut())

    def __aiter__(self) -> AsyncIterator[Event]:
        return _Events(self)

    async def texts_async(self) -> AsyncIterator[str]:
        """The texts alone."""
        async for event in self:
            if event.text:
                yield event.text

    def __await__(self) -> Generator[Any, None, Result]:
        return self._collect().__await__()

    async def _collect(self) -> Result:
        parts: List[TextEvent] = []
        async for event in self:
            if isinstance(event, TextEvent):
                parts.append(event)
        return self._result(parts)

    # ---- ending ----

    def cancel(self) -> Awaitable[None]:
        """Any thread, any number of times. Awaiting the result waits until the job is gone from the engine."""
        self._is_cancelled = True
        lib.qp_job_cancel(self._ptr)
        return _Ended(self)

    async def _until_ended(self) -> None:
        if self._end is not None:
            return
        loop = asyncio.get_running_loop()
        if not self._attach(loop):
            assert self._loop is not None
            return await self._until_ended_on(self._loop)
        while self._end is None:
            if self._waiter is not None:  # its reader reads the end
                future = loop.create_future()
                self._end_waiters = [*(self._end_waiters or []), future]
                await future
            elif self._take(0.0) is None:
                self._has_news = False
                self._waiter = Waiter(loop, self._keeper)
                try:
                    await self._waiter
                finally:
                    self._waiter = None

    async def _until_ended_on(self, elsewhere: asyncio.AbstractEventLoop) -> None:
        """By the loop that reads the job. It may end at any time, before it does what it is asked here or in the middle
        of it, and then tells nobody: so it is looked after."""
        told: concurrent.futures.Future[None] = concurrent.futures.Future()

        def tell(task: asyncio.Task[None]) -> None:
            failure = None if task.cancelled() else task.exception()
            if failure is None:
                told.set_result(None)
            else:
                told.set_exception(failure)

        def start() -> None:
            elsewhere.create_task(self._until_ended()).add_done_callback(tell)

        with contextlib.suppress(RuntimeError):  # it has been closed
            elsewhere.call_soon_threadsafe(start)
        heard = asyncio.wrap_future(told)
        while self._end is None:
            if elsewhere.is_closed():  # nobody reads any more
                await asyncio.get_running_loop().run_in_executor(None, self._drain)
            elif heard.done():
                heard.result()
                await asyncio.sleep(BLINK)  # the loop is about to end: it has cancelled what it was asked for
            else:
                await asyncio.wait([heard], timeout=BLINK)

    def _drain(self) -> None:
        while self._end is None:
            self._take(BLINK)

    def _tell_ended(self) -> None:
        waiters, self._end_waiters = self._end_waiters, None
        for future in waiters or ():
            if not future.done():
                future.set_result(None)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: Any) -> None:
        self.cancel()

    async def __aenter__(self) -> Job:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.cancel()

    # ---- looking ----

    @property
    def ended(self) -> bool:
        """The reader has had the last event."""
        return self._end is not None

    @property
    def progress(self) -> Progress:
        raw = ffi.new("qp_job_progress *")
        lib.qp_job_get_progress(self._ptr, raw)
        return Progress(STATES[raw.state], raw.queue_place, raw.prompt_tokens, raw.prompt_done, raw.new_tokens,
                        raw.pages, raw.cached_tokens)

    @property
    def stats(self) -> JobStats:
        waiting = self._delivered and self._last_n
        return JobStats(
            generated_tokens=self._end.stats.new_tokens if self._end else self.progress.new_tokens,
            delivered_tokens=self._delivered,
            consumed_tokens=self._delivered - (self._last_n if waiting else 0),
            submitted_at=self._submitted_at,
            first_generated_at=self._first_at or None,
            generated_at=self._generated_at or None,
            noticed_at=self._noticed_at or None,
            delivered_at=self._delivered_at or None,
            consumed_at=self._consumed_at or None,
            events=self._events,
            delivery_gap_mean=self._gap_sum / max(1, self._events),
            delivery_gap_max=self._gap_max,
            consume_mean=self._consume_sum / max(1, self._events),
            consume_max=self._consume_max,
            engine=self._end.stats if self._end else None,
        )

    @property
    def prompt_ids(self) -> List[int]:
        count = ffi.new("size_t *")
        ids = lib.qp_job_peek_prompt(self._ptr, count)
        found: List[int] = ffi.unpack(ids, count[0]) if count[0] else []
        return found

    @property
    def scores(self) -> List[Token]:
        """With `score_prompt=True`: the model's probabilities of the prompt's tokens from the second on."""
        count = ffi.new("size_t *")
        tokens = lib.qp_job_peek_scores(self._ptr, count)
        return [token_from(tokens[i], self._vocabulary) for i in range(count[0])]

    @property
    def embedding(self) -> Any:
        """With `pooling`, when the job has ended: the prompt as a vector of length 1, a numpy array."""
        import numpy

        count = ffi.new("size_t *")
        vector = lib.qp_job_peek_embedding(self._ptr, count)
        if not vector:
            raise ValueError("there is no vector: the job was made without pooling, or has not ended")
        return numpy.frombuffer(ffi.buffer(vector, count[0] * 4), dtype=numpy.float32).copy()

    def __repr__(self) -> str:
        return f"<Job {self.progress.state}, {self._delivered} tokens read>"


class _TimeOut(Exception):
    pass


class _Events:
    """What `async for` holds: gone before the end, it cancels the job."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def __aiter__(self) -> _Events:
        return self

    def __anext__(self) -> Awaitable[Event]:
        return self._job._next_async()

    async def aclose(self) -> None:
        await self._job.cancel()

    def __del__(self) -> None:
        if self._job._end is None:
            self._job.cancel()


class _Ended:
    """What cancel() gives: to be awaited or not."""

    __slots__ = ("_job",)

    def __init__(self, job: Job) -> None:
        self._job = job

    def __await__(self) -> Generator[Any, None, None]:
        return self._job._until_ended().__await__()
