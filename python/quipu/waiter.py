"""What a task awaits until its job has something to read.

A future of asyncio's own is woken by way of the loop's list of callbacks: the task goes on in the loop's next turn,
after another look at all descriptors. A Waiter keeps what the task hands it and calls it at once, from the callback of
the descriptor: the event is with its reader one turn earlier, for less than half of the work. It speaks the protocol
that tasks use for every future (`_asyncio_future_blocking`, add_done_callback, result, cancel), and no more: it is
awaited once, by one task, and never leaves this package.
"""
from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Callable, Generator, Optional, Set


class Waiter:
    __slots__ = ("_asyncio_future_blocking", "_callback", "_context", "_failure", "_is_done", "_keeper", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, keeper: Set[Waiter]) -> None:
        self._asyncio_future_blocking = False
        self._loop = loop
        self._keeper = keeper  # the hub's: whoever waits is reachable from the loop, or collections would end tasks
        self._callback: Optional[Callable[[Any], object]] = None
        self._context: Optional[contextvars.Context] = None
        self._failure: Optional[BaseException] = None
        self._is_done = False

    def __await__(self) -> Generator[Waiter, None, None]:
        self._asyncio_future_blocking = True
        self._keeper.add(self)
        try:
            yield self
        finally:
            self._keeper.discard(self)
        self.result()

    # ---- the job's side ----

    def wake(self, failure: Optional[BaseException] = None) -> None:
        """From a callback of the loop, never from a task: the waiting task goes on within this call."""
        if self._is_done:
            return
        self._is_done = True
        self._failure = failure
        callback, context = self._callback, self._context
        self._callback = self._context = None
        if callback is not None and context is not None:
            context.run(callback, self)

    # ---- the task's side ----

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def add_done_callback(self, callback: Callable[[Any], object], *,
                          context: Optional[contextvars.Context] = None) -> None:
        self._callback = callback
        self._context = contextvars.copy_context() if context is None else context

    def cancel(self, msg: Any = None) -> bool:
        """By Task.cancel(), from anywhere on the loop: the task hears of it in a later turn, as of every future."""
        if self._is_done:
            return False
        self._is_done = True
        self._failure = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        callback, context = self._callback, self._context
        self._callback = self._context = None
        if callback is not None:
            self._loop.call_soon(callback, self, context=context)
        return True

    def done(self) -> bool:
        return self._is_done

    def result(self) -> None:
        if self._failure is not None:
            raise self._failure


class _Turn:
    """Awaited: the others on the loop get their turn."""

    def __await__(self) -> Generator[None, None, None]:
        yield


TURN = _Turn()
