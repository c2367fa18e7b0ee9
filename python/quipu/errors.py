"""Exceptions: one for each status of the library that a program may want to tell apart.

Each is also the built-in exception that fits, so `except FileNotFoundError` and `except quipu.QuipuError` both work.
"""
from __future__ import annotations

from typing import Dict, Type


class QuipuError(Exception):
    """A failure told by the engine: what, where, what was found, what is allowed."""

    def __init__(self, text: str, status: str = "internal", offset: int = 0) -> None:
        super().__init__(text)
        self.status = status  # "bad_argument", "no_file" ...
        self.offset = offset  # position in the offending bytes, or 0


class NoMemory(QuipuError, MemoryError):
    """Out of memory."""


class NoFile(QuipuError, FileNotFoundError):
    """A file or folder is not there."""


class InputOutput(QuipuError, OSError):
    """Reading or writing failed."""


class BadFormat(QuipuError, ValueError):
    """Malformed data: a model, a schema, a template."""


class BadArgument(QuipuError, ValueError):
    """An argument that means nothing."""


class Unsupported(QuipuError, NotImplementedError):
    """Well formed, but not supported."""


class TooLarge(QuipuError, ValueError):
    """Over a limit, such as a prompt that is longer than the context."""


class Cancelled(QuipuError):
    """The generator has ended. (A cancelled job is no error: its finish is "cancelled".)"""


class Busy(QuipuError):
    """The queue is full: try again later."""


BY_STATUS: Dict[str, Type[QuipuError]] = {
    "NO_MEMORY": NoMemory,
    "NO_FILE": NoFile,
    "IO": InputOutput,
    "BAD_FORMAT": BadFormat,
    "BAD_ARGUMENT": BadArgument,
    "UNSUPPORTED": Unsupported,
    "TOO_LARGE": TooLarge,
    "CANCELLED": Cancelled,
    "BUSY": Busy,
}
