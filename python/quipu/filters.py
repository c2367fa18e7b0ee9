"""What limits an answer: constraints that the engine compiles (schema, regex, grammar, choices), and filters in Python.

A constraint is a description; compiled once per tokenizer it is remembered, so that one made per request costs
microseconds. A filter in Python (`Filter`) is asked by the engine's own threads while the job runs.
"""
from __future__ import annotations

import abc
import dataclasses
import json
import threading
import weakref
from typing import Any, Collection, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._native import NULL, OK, check, ffi, lib, new_error, take_text, text_of
from .owned import Owned
from .tokenizer import MAX_CONSTRAINTS, Tokenizer


@dataclasses.dataclass(frozen=True)
class Constraint:
    """What a text must look like: `kind` and `source` as qp_grammar_new takes them, the rest as qp_grammar_options."""

    kind: str
    source: str
    whitespace: Optional[str] = None  # JSON: "compact", "single", "pretty:N", "flexible:K" ...
    lenient: bool = False  # what cannot be kept is dropped with a warning in the report, instead of refused
    any_order: bool = False
    repeat_extra_keys: bool = False
    unicode_escapes: bool = False
    ignore_formats: bool = False
    fraction_digits: int = 0
    exponent_digits: int = 0
    root: Optional[str] = None  # GBNF: the start rule
    eager: bool = False  # the answer ends as soon as it is complete, though it could go on

    def compile(self, tokenizer: Tokenizer) -> Compiled:
        """What this is for the tokenizer: made at the first call. Refuses what it cannot keep, naming the place."""
        known = tokenizer._constraints
        with tokenizer._lock:
            if self in known:
                known.move_to_end(self)
                found: Compiled = known[self]
                return found
        made = Compiled(self, tokenizer)  # without the lock: it may take long
        with tokenizer._lock:
            known[self] = made
            if len(known) > MAX_CONSTRAINTS:
                known.popitem(last=False)
        return made

    def is_compiled(self, tokenizer: Tokenizer) -> bool:
        with tokenizer._lock:
            return self in tokenizer._constraints


class Compiled:
    """A constraint for one tokenizer. `report` has "problems", "narrowed", "warnings", "remarks"."""

    def __init__(self, constraint: Constraint, tokenizer: Tokenizer) -> None:
        source = constraint.source.encode("utf-8", "surrogatepass")
        texts = [text and ffi.new("char[]", text.encode()) for text in (constraint.whitespace, constraint.root)]
        options = ffi.new("qp_grammar_options *", {
            "size": ffi.sizeof("qp_grammar_options"),
            "whitespace": texts[0] or NULL,
            "root": texts[1] or NULL,
            **{name: getattr(constraint, name) for name in _PLAIN_OPTIONS},
        })
        slot, report, err = ffi.new("qp_grammar **"), ffi.new("char **"), new_error()
        status = lib.qp_grammar_new(
            slot, tokenizer._ptr, constraint.kind.encode(), source, len(source), options, report, err)
        self.eager = constraint.eager
        self.report: Dict[str, Any] = json.loads(take_text(report)) if report[0] else {}
        check(status, err)
        self._ptr = slot[0]
        # The library's tokenizer must live as long, but not the Tokenizer that remembers this.
        self._owned = Owned(slot[0], lib.qp_grammar_free, tokenizer._owner)

    def allows(self, text: str) -> bool:
        """Whether the whole text is one of the constraint."""
        raw = text.encode("utf-8", "surrogatepass")
        good, complete, err = ffi.new("size_t *"), ffi.new("bool *"), new_error()
        check(lib.qp_grammar_check(self._ptr, raw, len(raw), good, complete, NULL, err), err)
        return good[0] == len(raw) and bool(complete[0])

    def fill(self, out: Any) -> None:
        """Makes a matcher for one job."""
        err = new_error()
        if not self.eager:
            check(lib.qp_filter_new(out, self._ptr, err), err)
            return
        inner = ffi.new("qp_filter *")
        check(lib.qp_filter_new(inner, self._ptr, err), err)
        made = _Eager(inner)
        _alive[made.handle] = made
        out[0] = {"user": made.handle, **_C_EAGER}


_PLAIN_OPTIONS = ("lenient", "any_order", "repeat_extra_keys", "unicode_escapes", "ignore_formats", "fraction_digits",
                  "exponent_digits")


_schemas: weakref.WeakKeyDictionary[type, str] = weakref.WeakKeyDictionary()


def json_schema(schema: Union[str, bool, Mapping[str, Any], type], **options: Any) -> Constraint:
    """JSON of this schema: its text, a dictionary, or a pydantic model (`Model.model_json_schema()` is asked)."""
    if isinstance(schema, str):
        return Constraint("json_schema", schema, **options)
    describe = getattr(schema, "model_json_schema", None) or getattr(schema, "schema", None)
    if isinstance(schema, type):
        if describe is None:
            raise TypeError(f"{schema.__name__} is no pydantic model: it has no model_json_schema()")
        if schema not in _schemas:  # asking a model takes longer than all the rest
            _schemas[schema] = json.dumps(describe(), ensure_ascii=False)
        return Constraint("json_schema", _schemas[schema], **options)
    return Constraint("json_schema", json.dumps(schema, ensure_ascii=False), **options)


def json_object(**options: Any) -> Constraint:
    """Any JSON object."""
    return Constraint("json_object", "", **options)


def regex(pattern: str) -> Constraint:
    """A text that the whole pattern matches."""
    return Constraint("regex", pattern)


def grammar(source: str, kind: str = "gbnf", *, root: Optional[str] = None) -> Constraint:
    """A grammar in GBNF (llama.cpp's) or "lark"."""
    return Constraint(kind, source, root=root)


def choice(options: Sequence[str]) -> Constraint:
    """One of the texts."""
    return Constraint("choices", json.dumps(list(options), ensure_ascii=False))


def prefix(options: Union[str, Sequence[str]]) -> Constraint:
    """Begins with one of the texts and goes on freely."""
    given = [options] if isinstance(options, str) else list(options)
    if len(given) == 1:
        return Constraint("prefix", given[0])
    return regex("(?:" + "|".join(map(quote, given)) + ")[\\s\\S]*")


def quote(text: str) -> str:
    """A pattern for exactly this text."""
    return "".join(c if c.isalnum() or ord(c) > 127 else f"\\x{ord(c):02x}" for c in text)


class Filter(abc.ABC):
    """A constraint in Python, for one job. The engine calls it from its own threads, never two at a time; what it
    raises ends the job, and only it. A set, frozenset or sequence that stays the same object is read once."""

    @abc.abstractmethod
    def allowed(self) -> Optional[Collection[int]]:
        """The ids that may come next; None: all."""

    @abc.abstractmethod
    def accept(self, id: int) -> None:
        """The token that was chosen."""

    def may_end(self) -> bool:
        """Whether the answer would be complete now. No ids and True ends the job."""
        return False

    def rewind(self, n: int) -> None:
        """Forgets the newest n tokens, because of a banned text."""
        raise NotImplementedError(f"{type(self).__name__} cannot take tokens back: banned texts need rewind()")

    def heal(self, text: str) -> None:
        """Before the first token, where the prompt's last one may be completed: the text with which the first token
        begins, not part of the answer."""
        raise NotImplementedError(f"{type(self).__name__} cannot heal: that needs heal()")

    def end(self) -> None:
        """The job has ended."""


AnyFilter = Union[Constraint, Filter]

# ---- the engine's calls ----

_inside = threading.local()  # .depth: this thread is the engine's, in one of the functions below


def is_engine_thread() -> bool:
    return getattr(_inside, "depth", 0) > 0


class _Bridge:
    """A Filter while a job has it. Held by `_alive` until the engine frees it."""

    def __init__(self, filter: Filter) -> None:
        self.filter = filter
        self.handle = ffi.new_handle(self)
        self.error: Optional[BaseException] = None
        self.masks: Dict[int, Tuple[Any, Any]] = {}  # id of a collection: itself, its bits

    def bits(self, ids: Collection[int], vocabulary: int) -> int:
        """The ids as one number with a bit for each."""
        known = self.masks.get(id(ids))
        if known and known[0] is ids:
            return int(known[1])
        words = bytearray((vocabulary + 31) // 32 * 4)
        for i in ids:
            if 0 <= i < vocabulary:
                words[i >> 3] |= 1 << (i & 7)
        made = int.from_bytes(words, "little")
        if isinstance(ids, (frozenset, tuple)):
            if len(self.masks) >= 64:
                self.masks.clear()
            self.masks[id(ids)] = (ids, made)
        return made


_alive: Dict[Any, Any] = {}


def _guard(user: Any, err: Any, work: Any) -> int:
    """Runs a filter's method; what it raises becomes a status, and is kept for the job's reader."""
    bridge: _Bridge = ffi.from_handle(user)
    _inside.depth = getattr(_inside, "depth", 0) + 1
    try:
        work(bridge)
        return OK
    except BaseException as why:
        bridge.error = why
        text = f"{type(bridge.filter).__name__}: {type(why).__name__}: {why}".encode("utf-8", "replace")[:490]
        err.code = lib.QP_INTERNAL
        err.text = text.decode("utf-8", "ignore").encode()
        return int(lib.QP_INTERNAL)
    finally:
        _inside.depth -= 1


def _mask(user: Any, mask: Any, vocabulary: int, may_end: Any, err: Any) -> int:
    def work(bridge: _Bridge) -> None:
        ids = bridge.filter.allowed()
        may_end[0] = bool(bridge.filter.may_end())
        if ids is None:
            return
        n = (vocabulary + 31) // 32 * 4
        words = ffi.buffer(mask, n)
        both = int.from_bytes(words, "little") & bridge.bits(ids, vocabulary)
        words[:] = both.to_bytes(n, "little")

    return _guard(user, err, work)


def _accept(user: Any, id: int, err: Any) -> int:
    return _guard(user, err, lambda bridge: bridge.filter.accept(id))


def _rewind(user: Any, n: int, err: Any) -> int:
    return _guard(user, err, lambda bridge: bridge.filter.rewind(n))


def _heal(user: Any, text: Any, n: int, err: Any) -> int:
    return _guard(user, err, lambda bridge: bridge.filter.heal(text_of(text, n)))


def _free(user: Any) -> None:
    bridge = _alive.pop(user, None)
    if bridge:
        _guard(user, new_error(), lambda bridge: bridge.filter.end())


class _Eager:
    """The engine's own filter behind one that ends the answer when it is complete."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.handle = ffi.new_handle(self)


def _eager_mask(user: Any, mask: Any, vocabulary: int, may_end: Any, err: Any) -> int:
    inner = ffi.from_handle(user).inner
    status = int(inner.mask(inner.user, mask, vocabulary, may_end, err))
    if status == OK and may_end[0]:
        ffi.buffer(mask, (vocabulary + 31) // 32 * 4)[:] = bytes((vocabulary + 31) // 32 * 4)
    return status


def _eager_accept(user: Any, id: int, err: Any) -> int:
    inner = ffi.from_handle(user).inner
    return int(inner.accept(inner.user, id, err))


def _eager_rewind(user: Any, n: int, err: Any) -> int:
    inner = ffi.from_handle(user).inner
    return int(inner.rewind(inner.user, n, err))


def _eager_heal(user: Any, text: Any, n: int, err: Any) -> int:
    inner = ffi.from_handle(user).inner
    return int(inner.heal(inner.user, text, n, err))


def _eager_free(user: Any) -> None:
    inner = _alive.pop(user).inner
    inner.free(inner.user)


_C_EAGER: Dict[str, Any] = {
    "mask": ffi.callback("qp_status(void *, uint32_t *, int, bool *, qp_error *)", _eager_mask, error=lib.QP_INTERNAL),
    "accept": ffi.callback("qp_status(void *, int32_t, qp_error *)", _eager_accept, error=lib.QP_INTERNAL),
    "rewind": ffi.callback("qp_status(void *, size_t, qp_error *)", _eager_rewind, error=lib.QP_INTERNAL),
    "heal": ffi.callback("qp_status(void *, const char *, size_t, qp_error *)", _eager_heal, error=lib.QP_INTERNAL),
    "free": ffi.callback("void(void *)", _eager_free),
}
_C_MASK = ffi.callback("qp_status(void *, uint32_t *, int, bool *, qp_error *)", _mask, error=lib.QP_INTERNAL)
_C_ACCEPT = ffi.callback("qp_status(void *, int32_t, qp_error *)", _accept, error=lib.QP_INTERNAL)
_C_REWIND = ffi.callback("qp_status(void *, size_t, qp_error *)", _rewind, error=lib.QP_INTERNAL)
_C_HEAL = ffi.callback("qp_status(void *, const char *, size_t, qp_error *)", _heal, error=lib.QP_INTERNAL)
_C_FREE = ffi.callback("void(void *)", _free)


def fill_filters(filters: Sequence[AnyFilter], tokenizer: Tokenizer) -> Tuple[Any, List[_Bridge]]:
    """The array of qp_filter for a job, which owns them from then on; and those in Python, for their errors."""
    compiled = [f.compile(tokenizer) if isinstance(f, Constraint) else f for f in filters]
    for each in compiled:
        if not isinstance(each, (Compiled, Filter)):
            raise TypeError(f"{type(each).__name__} is no constraint and no quipu.Filter")
    array = ffi.new("qp_filter[]", len(compiled))
    bridges: List[_Bridge] = []
    for i, each in enumerate(compiled):
        if isinstance(each, Compiled):
            try:
                each.fill(ffi.addressof(array, i))
            except BaseException:
                drop_filters(array, i)
                raise
            continue
        bridge = _Bridge(each)
        bridges.append(bridge)
        _alive[bridge.handle] = bridge
        array[i] = {"user": bridge.handle, "mask": _C_MASK, "accept": _C_ACCEPT, "rewind": _C_REWIND, "heal": _C_HEAL,
                    "free": _C_FREE}
    return array, bridges


def drop_filters(array: Any, n: int) -> None:
    """Frees those that no job has taken."""
    for i in range(n):
        array[i].free(array[i].user)


__all__ = ["Compiled", "Constraint", "Filter", "choice", "grammar", "json_object", "json_schema", "prefix",
           "regex"]
