"""Logits of chosen ids: one sequence of tokens with a cache of its own, driven by the caller. Needs numpy."""
from __future__ import annotations

from typing import Any, List, Optional
from typing import Sequence as Ids

from ._native import c_ids, check, ffi, lib, new_error
from .model import CACHE_TYPES, Adapter, Model, choose
from .owned import Owned


class Sequence:
    """For perplexity, comparison, own samplers. Blocking; one call per model at a time."""

    def __init__(self, model: Model, capacity_tokens: int, *, cache_type: str = "default") -> None:
        slot, err = ffi.new("qp_sequence **"), new_error()
        kind = choose(CACHE_TYPES, cache_type, "cache type")
        check(lib.qp_sequence_new(slot, model._ptr, capacity_tokens, kind, err), err)
        self._ptr = slot[0]
        self.model = model
        self._owned = Owned(slot[0], lib.qp_sequence_free, model._handle)

    def __len__(self) -> int:
        return int(lib.qp_sequence_length(self._ptr))

    def rewind(self, length: int) -> None:
        """Forgets all tokens from `length` on."""
        err = new_error()
        check(lib.qp_sequence_rewind(self._ptr, length, err), err)

    def set_adapters(self, adapters: Ids[Adapter], scales: Optional[Ids[float]] = None) -> None:
        """Computes what follows with these; for a sequence without tokens."""
        uses = ffi.new("qp_adapter_use[]", [
            {"adapter": adapter._ptr, "scale": scale}
            for adapter, scale in zip(adapters, scales or [1.0] * len(adapters))
        ])
        err = new_error()
        check(lib.qp_sequence_set_adapters(self._ptr, uses, len(adapters), err), err)

    def forward(self, ids: Ids[int], last: Optional[int] = 1) -> Any:
        """Feeds ids; a float32 array [last, vocabulary] of the logits of the last positions (None: of all)."""
        import numpy

        keep: List[Any] = []
        array, n = c_ids(ids, keep)
        wanted = n if last is None else last
        logits = numpy.empty((wanted, self.model.info.vocabulary), dtype=numpy.float32)
        out = ffi.cast("float *", ffi.from_buffer(logits)) if wanted else ffi.NULL
        err = new_error()
        check(lib.qp_forward(ffi.new("qp_sequence *[]", [self._ptr]), ffi.new("int32_t *[]", [array]),
                             ffi.new("size_t[]", [n]), ffi.new("size_t[]", [wanted]), 1, out, err), err)
        return logits

    def best(self, token: int) -> int:
        """Feeds one id; the id of the highest logit behind it. For greedy steps one after the other this is fastest."""
        ids, err = ffi.new("int32_t[]", [token]), new_error()
        check(lib.qp_forward_best(ffi.new("qp_sequence *[]", [self._ptr]), ids, 1, err), err)
        return int(ids[0])
