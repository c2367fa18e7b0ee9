"""What a job says: text as it comes, how far its prompt is, its end; and its figures."""
from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Tuple

from ._native import ffi, text_of

FINISHES = ("none", "eos", "stop", "length", "cancelled", "error", "filter", "timeout", "loop")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A token beside the chosen one."""

    id: int
    p: float  # after all stages; 0: cut off
    logprob: float  # the model's own


@dataclasses.dataclass(frozen=True)
class Token:
    """A token with what was asked for: `logprobs=True`, `top=n`, `logits=True`."""

    id: int
    p: float
    logprob: float
    top: Tuple[Candidate, ...]
    logits: Any  # a numpy array over the vocabulary, untouched by the sampler; or None


@dataclasses.dataclass(frozen=True)
class EngineStats:
    """Of one job, taken after the device has finished; see qp_job_stats in docs/api.md."""

    prompt_tokens: int
    cached_tokens: int
    new_tokens: int
    queue_s: float
    prefill_s: float
    first_token_s: float
    decode_s: float
    total_s: float
    logits_hash: int
    preempted: int
    suppressed: int
    loop_period: int
    forced: int


class Event:
    """Every event has `kind` ("text", "prompt", "end"), `text` and `ids`."""

    __slots__: Tuple[str, ...] = ()
    kind = ""
    text: str
    ids: List[int]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text!r} {self.ids}>"


class TextEvent(Event):
    """Whole characters and the tokens behind them: all that came since the last event."""

    __slots__ = ("generated_at", "ids", "text", "tokens")
    kind = "text"

    def __init__(self, text: str, ids: List[int], tokens: Optional[List[Token]], generated_at: float) -> None:
        self.text = text
        self.ids = ids
        self.tokens = tokens
        self.generated_at = generated_at  # time.monotonic() at which the newest token was chosen


class PromptEvent(Event):
    """With `show_prompt=True`: how much of the prompt is computed."""

    __slots__ = ("done", "ids", "text", "total")
    kind = "prompt"

    def __init__(self, done: int, total: int) -> None:
        self.text, self.ids = "", []
        self.done, self.total = done, total


class EndEvent(Event):
    """The last one: why the job has ended, and its figures."""

    __slots__ = ("finish", "held_ids", "held_text", "ids", "stats", "stop_id", "stop_text", "text")
    kind = "end"

    def __init__(self, finish: str, stop_text: Optional[str], stop_id: Optional[int], held_text: str,
                 held_ids: List[int], stats: EngineStats) -> None:
        self.text, self.ids = "", []
        self.finish = finish  # "eos", "stop", "length", "cancelled", "filter", "timeout", "loop"
        self.stop_text, self.stop_id = stop_text, stop_id
        self.held_text, self.held_ids = held_text, held_ids  # from the stop text on
        self.stats = stats

    def __repr__(self) -> str:
        return f"<EndEvent {self.finish!r} after {self.stats.new_tokens} tokens>"


@dataclasses.dataclass
class Result:
    """A whole answer."""

    text: str
    ids: List[int]
    tokens: List[Token]
    end: EndEvent

    @property
    def finish(self) -> str:
        return self.end.finish

    @property
    def stats(self) -> EngineStats:
        return self.end.stats


_ENGINE_STATS = tuple(field.name for field in dataclasses.fields(EngineStats))


def _tokens(raw: Any, vocabulary: int) -> List[Token]:
    return [token_from(raw.tokens[i], vocabulary) for i in range(raw.n_ids)]


def token_from(raw: Any, vocabulary: int) -> Token:
    top = tuple(Candidate(c.id, c.p, c.logprob) for c in (raw.top[k] for k in range(raw.n_top)))
    logits = None
    if raw.logits:
        import numpy  # only who asks for arrays needs it

        logits = numpy.frombuffer(ffi.buffer(raw.logits, vocabulary * 4), dtype=numpy.float32).copy()
    return Token(raw.id, raw.p, raw.logprob, top, logits)


def text_event(raw: Any, vocabulary: int) -> TextEvent:
    n = raw.n_ids
    return TextEvent(
        text_of(raw.text, raw.text_bytes),
        ffi.unpack(raw.ids, n) if n else [],
        _tokens(raw, vocabulary) if raw.tokens else None,
        raw.sampled_at,
    )


def end_event(raw: Any) -> EndEvent:
    return EndEvent(
        FINISHES[raw.finish],
        ffi.string(raw.stop_text).decode("utf-8", "replace") if raw.stop_text else None,
        None if raw.stop_id < 0 else raw.stop_id,
        ffi.string(raw.held_text).decode("utf-8", "replace"),
        ffi.unpack(raw.held_ids, raw.n_held_ids) if raw.n_held_ids else [],
        EngineStats(*(getattr(raw.stats, name) for name in _ENGINE_STATS)),
    )
