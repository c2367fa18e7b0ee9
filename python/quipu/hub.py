"""One descriptor per event loop: which jobs have something to read.

A loop that reads jobs gets a Hub at the first one. The engine makes the hub's descriptor readable, the loop calls
`_on_ready` (add_reader), and that wakes whoever waits for the jobs in question; what they say is read by them, on their
own time, so that nothing is buffered here.

Who keeps whom: the loop keeps its hub, through add_reader, until it is closed. A hub keeps those who wait, as a loop
keeps the tasks that wait for its sockets, and knows jobs by weak references: a job that nobody reads may go.
"""
from __future__ import annotations

import asyncio
import itertools
import threading
import time
import weakref
from typing import TYPE_CHECKING, Dict, Optional, Set

from ._native import check, ffi, lib, new_error
from .owned import Owned

if TYPE_CHECKING:
    from .job import Job
    from .waiter import Waiter

MOST_AT_ONCE = 1024  # jobs told of before others on the loop get their turn


class Watch:
    """Which of many jobs have something to read; for one reader. A job has one watch in its life."""

    def __init__(self) -> None:
        slot, err = ffi.new("qp_watch **"), new_error()
        check(lib.qp_watch_new(slot, err), err)
        self._watch = slot[0]
        self._owned = Owned(slot[0], lib.qp_watch_free)
        self._user = ffi.new("uintptr_t *")
        self._user_out = ffi.cast("void **", self._user)
        self._jobs: Dict[int, weakref.ref[Job]] = {}
        self._numbers = itertools.count(1)

    def attach(self, job: Job) -> None:
        """By the job's reader."""
        number = next(self._numbers)
        jobs = self._jobs
        jobs[number] = weakref.ref(job, lambda _: jobs.pop(number, None))
        err = new_error()
        check(lib.qp_job_watch(job._ptr, self._watch, ffi.cast("void *", number), err), err)

    def next(self, timeout: float) -> Optional[Job]:
        """A job to be read until it has nothing more; None when none came within `timeout` seconds."""
        while lib.qp_watch_next(self._watch, timeout, self._user_out):
            known = self._jobs.get(self._user[0])
            job = known() if known is not None else None
            if job is not None:
                return job
        return None


class Hub(Watch):
    """The watch of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.waiting: Set[Waiter] = set()
        loop.add_reader(lib.qp_watch_descriptor(self._watch), self._on_ready)

    def _on_ready(self) -> None:
        follow, watch, user, out = lib.qp_watch_next, self._watch, self._user, self._user_out
        get, now = self._jobs.get, time.monotonic()
        for _ in range(MOST_AT_ONCE):
            if not follow(watch, 0.0, out):
                return
            known = get(user[0])
            job = known() if known is not None else None
            if job is not None:
                job._on_news(now)
            if len(self._jobs) == 1:
                return  # if there is more after all, the descriptor is still readable


_hubs: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[Hub]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def hub_of(loop: asyncio.AbstractEventLoop) -> Hub:
    """The loop's hub; called on its thread."""
    with _lock:
        known = _hubs.get(loop)
    hub = known() if known is not None else None
    if hub is None:
        hub = Hub(loop)
        with _lock:
            _hubs[loop] = weakref.ref(hub)
    return hub
