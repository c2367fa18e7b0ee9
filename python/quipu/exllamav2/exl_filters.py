"""Filters with ExLlamaV2's interface: begin(), feed(), next(), or mask_logits() on an array of logits.

Those written in Python are asked by the engine's threads. The two that come with ExLlamaV2, prefix and select, are
constraints of the engine and never enter Python.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Collection, List, Optional, Sequence, Tuple, Union

from ..filters import AnyFilter, Constraint, Filter, choice, json_schema, prefix, quote, regex
from .arrays import floats_array, ids_array, to_numpy


class ExLlamaV2Filter:
    """Derive from it and write begin, feed and next. One object serves one job at a time."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.sequence_str = ""

    def clone(self, c: Optional[ExLlamaV2Filter] = None) -> ExLlamaV2Filter:
        made = c if c is not None else type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def begin(self, prefix_str: str) -> None:
        """Before the first token; `prefix_str` is the text of a token that is being healed."""
        raise NotImplementedError

    def feed(self, token: Any) -> None:
        """The chosen token, a tensor [1, 1]."""
        raise NotImplementedError

    def next(self) -> Tuple[Optional[Collection[int]], Collection[int]]:
        """The ids that may come next (None: all), and those of them after which the answer is complete."""
        raise NotImplementedError

    def can_mask_logits(self) -> bool:
        """True: mask_logits() is called instead of using what next() allows."""
        return False

    def prepare_logit_mask(self) -> bool:
        return False

    def mask_logits(self, logits: Any) -> Any:
        """Returns the logits with -inf where ids may not come."""
        raise NotImplementedError

    def use_background_worker(self) -> bool:
        """Filters always run beside the model, on the engine's threads."""
        return True

    def as_quipu(self, vocabulary: int, eos_ids: Sequence[int], prefer_eos: bool) -> AnyFilter:
        """What a quipu job takes."""
        return _Adapted(self, vocabulary, eos_ids, prefer_eos)


class _Native(ExLlamaV2Filter):
    """A constraint of the engine in the clothes of a filter."""

    constraint: Constraint

    def as_quipu(self, vocabulary: int, eos_ids: Sequence[int], prefer_eos: bool) -> AnyFilter:
        return dataclasses.replace(self.constraint, eager=True) if prefer_eos else self.constraint


class ExLlamaV2PrefixFilter(_Native):
    """The answer begins with one of the texts and goes on freely."""

    def __init__(self, model: Any, tokenizer: Any, prefix_strings: Union[str, List[str]]) -> None:
        super().__init__(model, tokenizer)
        self.constraint = prefix(prefix_strings)


class ExLlamaV2SelectFilter(_Native):
    """The answer is one of the texts."""

    def __init__(self, model: Any, tokenizer: Any, options: List[str], case_insensitive: bool = False) -> None:
        super().__init__(model, tokenizer)
        self.options = options
        self.constraint = regex("|".join(map(_any_case, options))) if case_insensitive else choice(options)


def _any_case(text: str) -> str:
    """A pattern for the text whatever its case."""
    parts = []
    for character in text:
        quoted = [quote(form) for form in sorted({character.lower(), character.upper()})]
        parts.append(quoted[0] if len(quoted) == 1 else "(?:" + "|".join(quoted) + ")")
    return "(?:" + "".join(parts) + ")"


class _Adapted(Filter):
    """quipu's questions answered by an ExLlamaV2Filter."""

    def __init__(self, filter: ExLlamaV2Filter, vocabulary: int, eos_ids: Sequence[int], prefer_eos: bool) -> None:
        self.filter = filter
        self.vocabulary = vocabulary
        self.eos_ids = frozenset(eos_ids)
        self.prefer_eos = prefer_eos
        self.prefix_str: Optional[str] = ""
        self.ends: Collection[int] = ()
        self.is_complete = False  # an end token of the filter's has been chosen
        self.can_end = False

    def allowed(self) -> Optional[Collection[int]]:
        if self.is_complete:
            self.can_end = True
            return ()
        if self.prefix_str is not None:
            self.filter.begin(self.prefix_str)
            self.prefix_str = None
        if self.filter.can_mask_logits():
            self.filter.prepare_logit_mask()
            ids: Optional[Collection[int]] = self._masked()
        else:
            ids, self.ends = self.filter.next()
        self.can_end = ids is None or any(id in ids for id in self.eos_ids)
        if ids is not None and self.can_end and self.prefer_eos:
            return frozenset(self.eos_ids)
        return ids

    def _masked(self) -> Collection[int]:
        import numpy

        logits = self.filter.mask_logits(floats_array(numpy.zeros((1, 1, self.vocabulary))))
        found: List[int] = numpy.nonzero(to_numpy(logits).reshape(-1) > -1e29)[0].tolist()
        return found

    def heal(self, text: str) -> None:
        self.prefix_str = text

    def may_end(self) -> bool:
        return self.can_end

    def accept(self, id: int) -> None:
        if id in self.eos_ids:
            return
        self.is_complete = id in self.ends
        self.filter.feed(ids_array([[id]]))


def as_filters(filters: Optional[Sequence[Any]], vocabulary: int, eos_ids: Sequence[int],
               prefer_eos: bool) -> List[AnyFilter]:
    """A job's filters: ExLlamaV2's, quipu's own constraints and filters, pydantic models."""
    made: List[AnyFilter] = []
    for each in filters or ():
        if isinstance(each, (Constraint, Filter)):
            made.append(each)
        elif isinstance(each, type):
            made.append(json_schema(each))
        elif hasattr(each, "as_quipu"):
            made.append(each.as_quipu(vocabulary, eos_ids, prefer_eos))
        elif all(hasattr(each, name) for name in ("begin", "feed", "next")):
            made.append(_Adapted(_Duck(each), vocabulary, eos_ids, prefer_eos))
        else:
            raise TypeError(f"{type(each).__name__} is no filter: it has no begin, feed and next")
    return made


class _Duck(ExLlamaV2Filter):
    """A filter that was derived from somebody else's base class."""

    def __init__(self, other: Any) -> None:
        super().__init__(None, None)
        self.other = other

    def begin(self, prefix_str: str) -> None:
        self.other.begin(prefix_str)

    def feed(self, token: Any) -> None:
        self.other.feed(token)

    def next(self) -> Tuple[Optional[Collection[int]], Collection[int]]:
        ids, ends = self.other.next()
        return ids, ends
