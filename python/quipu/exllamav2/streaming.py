"""ExLlamaV2StreamingGenerator: one answer, a token for each call.

The job pauses while the token that it has ready is not taken (max_unread): who stops calling stops the model.
"""
from __future__ import annotations

from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple, Union

from ..events import EndEvent, TextEvent
from ..filters import Filter
from ..job import Job
from .arrays import floats_array, ids_array
from .base import ExLlamaV2BaseGenerator
from .config import refuse
from .dynamic_job import ExLlamaV2DynamicJob
from .lora import adapter_uses


class _NotFirst(Filter):
    """Forbids ids for one token."""

    def __init__(self, ids: Collection[int], vocabulary: int) -> None:
        banned = set(ids)
        self.others: Optional[Tuple[int, ...]] = tuple(id for id in range(vocabulary) if id not in banned)

    def allowed(self) -> Optional[Collection[int]]:
        return self.others

    def may_end(self) -> bool:
        return True

    def accept(self, id: int) -> None:
        self.others = None


class ExLlamaV2StreamingGenerator(ExLlamaV2BaseGenerator):
    def __init__(self, model: Any, cache: Any, tokenizer: Any, draft_model: Any = None, draft_cache: Any = None,
                 num_speculative_tokens: int = 5) -> None:
        if draft_model is not None or draft_cache is not None:
            raise refuse("speculative decoding is not there yet: leave out draft_model and draft_cache")
        super().__init__(model, cache, tokenizer)
        self.stop_conditions: Optional[List[Union[int, str]]] = None  # the model's end tokens
        self.return_probabilities = self.return_logits = False
        self.return_top_tokens = 0
        self.speculative_ngram = False
        self._job: Optional[Job] = None
        self._wish: Optional[ExLlamaV2DynamicJob] = None
        self._taken: List[int] = []  # ids that were given
        self._adapters: List[Any] = []
        self._eos = True

    def set_stop_conditions(self, stop_conditions: Sequence[Optional[Union[int, str]]]) -> None:
        """Ids and texts; none at all is an endless answer."""
        self.stop_conditions = [each for each in stop_conditions if each is not None]

    def begin_stream_ex(
        self,
        input_ids: Any,
        gen_settings: Any,
        token_healing: bool = False,
        loras: Any = None,
        input_mask: Any = None,
        position_offsets: Any = None,
        return_probabilities: bool = False,
        return_top_tokens: int = 0,
        return_logits: bool = False,
        abort_event: Any = None,
        input_embeddings: Any = None,
        decode_special_tokens: bool = False,
        filters: Optional[Sequence[Any]] = None,
        filter_prefer_eos: bool = False,
        banned_strings: Optional[List[str]] = None,
        seed: Optional[int] = None,
    ) -> None:
        if self.speculative_ngram:
            raise refuse("speculative_ngram: speculative decoding is not there yet")
        for name, value in (("input_mask", input_mask), ("position_offsets", position_offsets),
                            ("input_embeddings", input_embeddings)):
            if value is not None:
                raise refuse(f"{name}: the stream has one sequence of ids without padding")
        self.abort_event = abort_event
        self._wish = ExLlamaV2DynamicJob(
            input_ids, 1, gen_settings=gen_settings, seed=seed, stop_conditions=self.stop_conditions,
            decode_special_tokens=decode_special_tokens, return_top_tokens=return_top_tokens,
            return_logits=return_logits, return_probs=return_probabilities, filters=filters,
            filter_prefer_eos=filter_prefer_eos, token_healing=token_healing, banned_strings=banned_strings)
        self._taken = []
        self._adapters = adapter_uses(loras) or self.dynamic.loras
        self._start(())

    def _start(self, ban_tokens: Collection[int]) -> None:
        """Begins the answer, or begins it again behind what was given so far."""
        wish = self._wish
        if wish is None:
            raise RuntimeError("begin_stream_ex() comes first")
        if self._job is not None:
            self._job.cancel()
        options = wish.quipu_options(self.dynamic)
        options.update(max_new_tokens=None, max_unread=1, adapters=self._adapters, show_prompt=False)
        if self._taken:
            options["heal"] = False
        if ban_tokens:
            vocabulary = self.model.quipu.info.vocabulary
            options["filters"] = [*options["filters"], _NotFirst(ban_tokens, vocabulary)]
        settings = wish.settings.to_quipu()
        if wish.negative_ids is None:
            settings.guidance = 0.0
        else:
            options["negative_prompt"] = [*wish.negative_ids, *self._taken]
        self._job = self.dynamic.quipu.job([*wish.input_ids, *self._taken], settings, **options)
        self._eos = False

    def stream_ex(self, ban_tokens: Optional[Sequence[int]] = None, return_held: bool = False) -> Dict[str, Any]:
        """The next piece: chunk, eos, chunk_token_ids, and probs, top_tokens, top_probs, logits if asked for."""
        if ban_tokens:
            if self._wish is not None and self._wish.filters:
                raise refuse("ban_tokens together with filters: a filter cannot be begun in the middle of an answer")
            self._start(ban_tokens)
        result: Dict[str, Any] = {"chunk": "", "eos": True, "chunk_token_ids": ids_array([[]])}
        event = self._next_event()
        if isinstance(event, TextEvent):
            self._taken.extend(event.ids)
            result.update(chunk=event.text, eos=False, chunk_token_ids=ids_array([event.ids]))
            result.update(self._details(event))
        elif isinstance(event, EndEvent):
            self._eos = True
            if return_held and event.held_text:
                result["held"] = {"text": event.held_text, "token_ids": ids_array([event.held_ids])}
        return result

    def _next_event(self) -> Any:
        if self._job is None:
            raise RuntimeError("begin_stream_ex() comes first")
        while not self._eos:
            if self.abort_event is not None and self.abort_event.is_set():
                self._job.cancel()
                self._eos = True
                return None
            event = self._job.next(0.1)
            if event is not None:
                return event
        return None

    def _details(self, event: TextEvent) -> Dict[str, Any]:
        wish = self._wish
        if not event.tokens or wish is None:
            return {}
        found = wish._token_results(event.tokens)
        names = {"token_probs": "probs", "top_k_tokens": "top_tokens", "top_k_probs": "top_probs", "logits": "logits"}
        return {names[name]: value for name, value in found.items()}

    # ---- the older forms ----

    def begin_stream(self, input_ids: Any, gen_settings: Any, token_healing: bool = False, loras: Any = None,
                     **kwargs: Any) -> None:
        self.begin_stream_ex(
            input_ids, gen_settings, token_healing, loras, return_probabilities=self.return_probabilities,
            return_top_tokens=self.return_top_tokens, return_logits=self.return_logits, **kwargs)

    def stream(self, ban_tokens: Optional[Sequence[int]] = None) -> Tuple[Any, ...]:
        """(chunk, eos, ids), and (top_probs, top_tokens), probs, logits as return_top_tokens and its like say."""
        found = self.stream_ex(ban_tokens)
        made: List[Any] = [found["chunk"], found["eos"], found["chunk_token_ids"]]
        if self.return_top_tokens:
            made += [found.get("top_probs", floats_array([[]])), found.get("top_tokens", ids_array([[]]))]
        elif self.return_probabilities:
            made.append(found.get("probs", floats_array([[]])))
        if self.return_logits:
            made.append(found.get("logits", floats_array([[]])))
        return tuple(made)

    def full(self) -> bool:
        """Whether the context has no room for another token."""
        n = len(self._wish.input_ids) if self._wish is not None else 0
        return n + len(self._taken) >= self.dynamic.max_seq_len

    def cancel(self) -> None:
        """Ends the stream (quipu; a new begin_stream_ex does it, too)."""
        if self._job is not None:
            self._job.cancel()
        self._eos = True
