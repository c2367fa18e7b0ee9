"""The door to libquipu.so: finds it, loads it, and turns its failures into exceptions.

Everything else in the package calls the library through `ffi` and `lib` from here. The tables of _abi.py are made out
of include/quipu.h together with the library; a library of another version would read structs at other places, so it is
refused.
"""
from __future__ import annotations

import os
import pathlib
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

from . import _abi
from .errors import BY_STATUS, QuipuError

VERSION = "0.1.0"
ffi: Any = _abi.ffi


def _library() -> str:
    """QUIPU_LIBRARY if it is set, else the one in the package, else the system's."""
    given = os.environ.get("QUIPU_LIBRARY")
    inside = pathlib.Path(__file__).with_name("libquipu.so")
    if given or not inside.exists():
        return given or "libquipu.so.0"
    # What a wheel brings along satisfies libquipu.so once it is loaded: the loader goes by names.
    others = [path for path in inside.with_name("libs").glob("*.so*") if path.suffix != ".copyright"]
    _companions.extend(ffi.dlopen(str(path)) for path in others)
    return str(inside)


_companions: List[Any] = []


def _load() -> Any:
    path = _library()
    try:
        library = ffi.dlopen(path)
    except OSError as why:
        raise ImportError(f"quipu needs libquipu.so, and {path} cannot be loaded: {why}") from None
    found = ffi.string(library.qp_version()).decode()
    if found != VERSION:
        raise ImportError(f"{path} is version {found}, the package is {VERSION}: install them together")
    return library


lib: Any = _load()
NULL: Any = ffi.NULL
OK, BUSY = 0, lib.QP_BUSY
_NAMES: Dict[int, str] = {
    value: name[3:] for value, name in ffi.typeof("qp_status").elements.items() if name != "QP_STATUS_COUNT"
}


def error_of(status: int, err: Any) -> QuipuError:
    """The exception for a status; `err` is a qp_error that the library has filled."""
    text = ffi.string(err.text).decode("utf-8", "replace") or ffi.string(lib.qp_status_text(status)).decode()
    name = _NAMES.get(status, "INTERNAL")
    kind: Type[QuipuError] = BY_STATUS.get(name, QuipuError)
    return kind(text, name.lower(), int(err.offset))


def check(status: int, err: Any) -> None:
    if status != OK:
        raise error_of(status, err)


def new_error() -> Any:
    return ffi.new("qp_error *")


def text_of(pointer: Any, n_bytes: int) -> str:
    return bytes(ffi.unpack(pointer, n_bytes)).decode("utf-8", "replace")


def take_text(slot: Any, n_bytes: Optional[int] = None) -> str:
    """The text that the library put into `slot` (a char **), given back to it."""
    raw = ffi.string(slot[0]) if n_bytes is None else ffi.unpack(slot[0], n_bytes)
    lib.qp_free(slot[0])
    return bytes(raw).decode("utf-8", "replace")


def c_text(text: Optional[str], keep: List[Any]) -> Any:
    """A char * for an optional text; `keep` holds it until the call is over."""
    if text is None:
        return NULL
    held = ffi.new("char[]", text.encode("utf-8", "surrogatepass"))
    keep.append(held)
    return held


def c_texts(texts: Sequence[str], keep: List[Any]) -> Tuple[Any, int]:
    held = ffi.new("char *[]", [c_text(text, keep) for text in texts])
    keep.append(held)
    return held, len(texts)


def c_ids(ids: Sequence[int], keep: List[Any]) -> Tuple[Any, int]:
    try:
        held = ffi.new("int32_t[]", ids if isinstance(ids, (list, tuple)) else list(ids))
    except OverflowError:
        raise BY_STATUS["BAD_ARGUMENT"]("an id does not fit into 32 bits", "bad_argument", 0) from None
    keep.append(held)
    return held, len(ids)


def fields_of(struct: Any) -> Dict[str, Any]:
    """A struct of numbers and flags as a dictionary."""
    return {name: getattr(struct, name) for name, _ in ffi.typeof(struct).item.fields}
