"""ExLlamaV2BaseGenerator: whole answers to a prompt or a batch of prompts."""
from __future__ import annotations

import threading
from typing import Any, List, Optional, Sequence

from .config import refuse
from .dynamic import ExLlamaV2DynamicGenerator
from .dynamic_job import ExLlamaV2DynamicJob
from .lora import adapter_uses


class ExLlamaV2BaseGenerator:
    def __init__(self, model: Any, cache: Any, tokenizer: Any) -> None:
        self.model, self.cache, self.tokenizer = model, cache, tokenizer
        self.dynamic = ExLlamaV2DynamicGenerator(model, cache, tokenizer)
        self.abort_event: Optional[threading.Event] = None

    def warmup(self) -> None:
        self.dynamic.warmup()

    def generate_simple(
        self,
        prompt: Any,
        gen_settings: Any,
        num_tokens: int,
        seed: Optional[int] = None,
        token_healing: bool = False,
        encode_special_tokens: bool = False,
        decode_special_tokens: bool = False,
        loras: Any = None,
        stop_token: Optional[int] = -1,
        add_bos: bool = False,
        abort_event: Optional[threading.Event] = None,
        input_embeddings: Any = None,
        completion_only: bool = False,
        filters: Optional[Sequence[Any]] = None,
        filter_prefer_eos: bool = False,
    ) -> Any:
        """`stop_token`: an id, -1 for the model's end tokens, None for none. Prompts that are too long lose their
        beginning."""
        if input_embeddings is not None:
            raise refuse("input_embeddings: there are no multimodal models yet")
        is_batch = isinstance(prompt, (list, tuple)) and not self._is_pair(prompt, gen_settings)
        prompts: List[Any] = list(prompt) if is_batch else [prompt]
        stops = None if stop_token == -1 else [] if stop_token is None else [stop_token]
        most = self.dynamic.max_seq_len - num_tokens
        if most < 1:
            raise ValueError(f"num_tokens is {num_tokens}, the context has {self.dynamic.max_seq_len}")
        jobs = []
        for i, text in enumerate(prompts):
            texts = text if isinstance(text, (list, tuple)) else [text]
            rows = [self.tokenizer.encode(each, add_bos=add_bos, encode_special_tokens=encode_special_tokens)
                    .tolist()[0][-most:] for each in texts]
            jobs.append(ExLlamaV2DynamicJob(
                rows if len(rows) > 1 else rows[0], num_tokens, gen_settings=gen_settings,
                seed=None if seed is None else seed + i, stop_conditions=stops,
                decode_special_tokens=decode_special_tokens, filters=filters if i == 0 or not filters else
                [each.clone() if hasattr(each, "clone") else each for each in filters],
                filter_prefer_eos=filter_prefer_eos, token_healing=token_healing))
        texts = self._run(jobs, prompts, loras, abort_event or self.abort_event, completion_only)
        return texts if is_batch else texts[0]

    def _is_pair(self, prompt: Any, gen_settings: Any) -> bool:
        """A prompt with its negative one is no batch."""
        return gen_settings.cfg_scale is not None and len(prompt) == 2 and isinstance(prompt[0], str)

    def _run(self, jobs: List[ExLlamaV2DynamicJob], prompts: List[Any], loras: Any,
             abort_event: Optional[threading.Event], completion_only: bool) -> List[Any]:
        before = self.dynamic.loras
        self.dynamic.loras = adapter_uses(loras) or before
        try:
            ended = self.dynamic._run_all(jobs, abort_event)
        finally:
            self.dynamic.loras = before
        if ended is None:
            return [None] * len(prompts)
        return [job.full_completion if completion_only else self._prompt_text(prompt) + job.full_completion
                for prompt, job in zip(prompts, jobs)]

    def _prompt_text(self, prompt: Any) -> str:
        return str(prompt if isinstance(prompt, str) else prompt[0])
