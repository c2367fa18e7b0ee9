"""What belongs to a Python object in the library, given back when the object is gone.

The tricky thing is when that is. Objects that refer to each other in a circle are collected together, and then Python
calls weakref.finalize, __del__ and every `finally` of a suspended coroutine in no order: one may still use what another
has given back. So what becomes free during a collection is given back when the collection has ended, and by then
nobody can ask for it.
"""
from __future__ import annotations

import gc
import itertools
import sys
from typing import Any, Callable, Dict, List, Tuple

Entry = Tuple[Any, Callable[[Any], object], Tuple[Any, ...]]


class Owned:
    """`Owned(pointer, free, what must live as long...)`, held by the object and nobody else."""

    __slots__ = ("_number",)

    def __init__(self, pointer: Any, free: Callable[[Any], object], *keep: Any) -> None:
        self._number = next(_numbers)
        _entries[self._number] = (pointer, free, keep)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():
            return  # the process gives all of it back
        _late.append(_entries.pop(self._number))
        if not _collections.running:
            _give_back()


class _Collections:
    """Hears of garbage collections."""

    def __init__(self) -> None:
        self.running = False
        gc.callbacks.append(self.tell)

    def tell(self, phase: str, info: Dict[str, int]) -> None:
        self.running = phase == "start"
        if _late and not self.running:
            _give_back()


def _give_back() -> None:
    while _late:
        try:
            pointer, free, _keep = _late.pop()
        except IndexError:  # another thread was faster
            return
        free(pointer)


_numbers = itertools.count()
_entries: Dict[int, Entry] = {}  # by number; from here they keep alive what they need
_late: List[Entry] = []
_collections = _Collections()
