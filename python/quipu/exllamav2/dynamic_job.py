"""ExLlamaV2DynamicJob: what is asked for, and the results with ExLlamaV2's keys."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Union

from ..errors import TooLarge
from ..events import EndEvent, Event, PromptEvent, TextEvent, Token
from ..job import Job
from .arrays import floats_array, ids_array, to_rows
from .config import refuse, tell
from .exl_filters import as_filters
from .sampler import ExLlamaV2Sampler

if TYPE_CHECKING:
    from .dynamic import ExLlamaV2DynamicGenerator

REASONS = {"eos": "stop_token", "stop": "stop_string", "length": "max_new_tokens", "filter": "end_filter"}


class ExLlamaV2DynamicJob:
    def __init__(
        self,
        input_ids: Any,
        max_new_tokens: int,
        min_new_tokens: int = 0,
        max_skips: Optional[int] = 4,
        gen_settings: Optional[Any] = None,
        seed: Optional[int] = None,
        stop_conditions: Optional[Sequence[Union[int, str]]] = None,
        decode_special_tokens: bool = False,
        return_top_tokens: int = 0,
        return_logits: bool = False,
        return_probs: bool = False,
        filters: Optional[Sequence[Any]] = None,
        filter_prefer_eos: bool = False,
        token_healing: bool = False,
        identifier: Any = None,
        banned_strings: Optional[List[str]] = None,
        embeddings: Any = None,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise TypeError(f"a job does not know {', '.join(sorted(kwargs))}")
        if embeddings:
            raise refuse("embeddings: there are no multimodal models yet")
        if max_skips != 4:
            tell("max_skips: how often a job may be overtaken is one number for the generator (quipu's max_bypass)")
        if filters and banned_strings:
            raise ValueError("a job has filters or banned_strings, not both")
        self.settings = gen_settings if gen_settings is not None else ExLlamaV2Sampler.Settings()
        self._read_ids(input_ids)
        self.max_new_tokens = max_new_tokens
        self.min_new_tokens = min_new_tokens
        self.seed = seed
        self.stop_conditions = None if stop_conditions is None else list(stop_conditions)
        self.decode_special_tokens = decode_special_tokens
        self.return_top_tokens = return_top_tokens
        self.return_logits = return_logits
        self.return_probs = return_probs
        self.filters = list(filters or ())
        self.filter_prefer_eos = filter_prefer_eos
        self.token_healing = token_healing
        self.identifier = identifier
        self.banned_strings = list(banned_strings or ())
        self.serial_number: Optional[int] = None
        self.generator: Optional[ExLlamaV2DynamicGenerator] = None
        self.full_completion = ""
        self.job: Optional[Job] = None
        self.has_started = False

    def _read_ids(self, input_ids: Any) -> None:
        """One sequence, or two where cfg_scale mixes them."""
        given = input_ids if isinstance(input_ids, (list, tuple)) and len(input_ids) and not isinstance(
            input_ids[0], int) else [input_ids]
        rows = [row for each in given for row in to_rows(each)]
        if self.settings.cfg_scale is not None:
            if len(rows) != 2:
                raise ValueError(f"cfg_scale is set: two sequences are wanted, there are {len(rows)}")
        elif len(rows) != 1:
            raise ValueError(f"there are {len(rows)} sequences: more than one need cfg_scale")
        self.input_ids = rows[0]
        has_guidance = self.settings.cfg_scale not in (None, 0.0, 1.0)
        self.negative_ids = rows[1] if len(rows) == 2 and has_guidance else None
        if self.settings.cfg_scale == 0.0:  # all of the second prompt, nothing of the first
            self.input_ids = rows[1]
        if not self.input_ids:
            raise ValueError("input_ids is empty: at least one id is needed")

    # ---- what a quipu job takes ----

    def _eos_ids(self, generator: ExLlamaV2DynamicGenerator) -> List[int]:
        if self.stop_conditions is None:
            return list(generator.model.quipu.info.eos)
        return [each for each in self.stop_conditions if not isinstance(each, str) and each is not None]

    def quipu_options(self, generator: ExLlamaV2DynamicGenerator) -> Dict[str, Any]:
        """Keyword arguments of quipu.Generator.job."""
        eos = self._eos_ids(generator)
        options: Dict[str, Any] = {
            "max_new_tokens": self.max_new_tokens,
            "min_new_tokens": self.min_new_tokens,
            "seed": self.seed,
            "ignore_eos": self.stop_conditions is not None,
            "stop": [each for each in self.stop_conditions or () if each is not None],
            "show_special": self.decode_special_tokens,
            "top": self.return_top_tokens,
            "logits": self.return_logits,
            "logprobs": self.return_probs,
            "heal": self.token_healing,
            "ban": self.banned_strings,
            "negative_prompt": self.negative_ids,
            "adapters": generator.loras,
            "show_prompt": True,
            "identifier": self,
        }
        options.update(self.settings.job_options())
        if "allow_ids" in options:  # a bias forbids end tokens, too
            allowed = set(options["allow_ids"])
            options["ban_ids"] = [id for id in eos if id not in allowed]
        options["filters"] = as_filters(self.filters, generator.model.quipu.info.vocabulary, eos,
                                        self.filter_prefer_eos)
        return options

    def submit(self, generator: ExLlamaV2DynamicGenerator) -> Job:
        """By the generator: begins."""
        if self.job is not None:
            raise RuntimeError("the job was enqueued before: one job is one request")
        longest = max(len(self.input_ids), len(self.negative_ids or ()))
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens is {self.max_new_tokens}, at least 1 is needed")
        if longest + self.max_new_tokens > generator.max_seq_len:
            raise TooLarge(f"{longest} prompt tokens and {self.max_new_tokens} new ones are more than the "
                           f"{generator.max_seq_len} of the generator", "too_large", 0)
        settings = self.settings.to_quipu()
        if self.negative_ids is None:
            settings.guidance = 0.0
        self.job = generator.quipu.job(self.input_ids, settings, **self.quipu_options(generator))
        self.generator = generator
        return self.job

    def cancel(self) -> None:
        """Gone from the queue, at any time."""
        if self.generator is not None:
            self.generator.cancel(self)

    # ---- results ----

    def _common(self, stage: str) -> Dict[str, Any]:
        result: Dict[str, Any] = {"job": self, "stage": stage, "eos": False, "serial": self.serial_number}
        if self.identifier is not None:
            result["identifier"] = self.identifier
        return result

    def results_of(self, event: Event) -> List[Dict[str, Any]]:
        """An event as ExLlamaV2's results, the first preceded by stage "started"."""
        results = []
        if not self.has_started:
            self.has_started = True
            results.append(self._common("started"))
        if isinstance(event, PromptEvent):
            result = self._common("prefill")
            result.update(curr_progress=event.done, max_progress=event.total)
        elif isinstance(event, EndEvent):
            result = self._end_result(event)
        else:
            assert isinstance(event, TextEvent)
            result = self._text_result(event)
        return [*results, result]

    def _text_result(self, event: TextEvent) -> Dict[str, Any]:
        result = self._common("streaming")
        self.full_completion += event.text
        result["text"] = event.text
        if event.ids:
            result["token_ids"] = ids_array([event.ids])
        if event.tokens:
            result.update(self._token_results(event.tokens))
        return result

    def _token_results(self, tokens: List[Token]) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        if self.return_probs or self.return_top_tokens:
            found["token_probs"] = floats_array([[token.p for token in tokens]])
        if self.return_top_tokens:
            rows = [sorted(token.top, key=lambda each: -each.p) for token in tokens]
            found["top_k_tokens"] = ids_array([[each.id for row in rows for each in row]]).reshape(
                1, len(tokens), self.return_top_tokens)
            found["top_k_probs"] = floats_array([[[each.p for each in row] for row in rows]])
        if self.return_logits:
            import numpy

            found["logits"] = floats_array(numpy.stack([token.logits for token in tokens])[None])
        return found

    def _end_result(self, event: EndEvent) -> Dict[str, Any]:
        stats = event.stats
        result = self._common("streaming")
        result.update(
            eos=True,
            eos_reason=REASONS.get(event.finish, event.finish),
            full_completion=self.full_completion,
            new_tokens=stats.new_tokens,
            prompt_tokens=stats.prompt_tokens,
            time_enqueued=stats.queue_s,
            time_prefill=stats.prefill_s,
            time_generate=stats.decode_s,
            cached_pages=stats.cached_tokens // 256,
            cached_tokens=stats.cached_tokens,
        )
        if event.stop_id is not None and event.finish == "eos":
            result["eos_triggering_token_id"] = event.stop_id
            if self.generator is not None:
                result["eos_triggering_token_str"] = self.generator.tokenizer.quipu.piece(event.stop_id)
        if event.stop_text is not None:
            result["eos_triggering_string"] = event.stop_text
        if event.held_text or event.held_ids:
            result["held"] = {"text": event.held_text, "token_ids": ids_array([event.held_ids])}
        return result


