"""ExLlamaV2Sampler.Settings: the names and defaults of ExLlamaV2, and what they are in quipu."""
from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any, Collection, Dict, List, Optional, Union

from ..settings import Settings as QuipuSettings
from .arrays import floats_array, to_numpy
from .config import refuse
from .exl_tokenizer import ExLlamaV2Tokenizer


@dataclasses.dataclass
class _Settings:
    token_repetition_penalty: float = 1.025
    token_repetition_range: int = -1
    token_repetition_decay: int = 0
    token_frequency_penalty: float = 0.0
    token_presence_penalty: float = 0.0
    temperature: float = 0.8
    temperature_last: bool = False
    min_temp: float = 0.0
    max_temp: float = 0.0
    temp_exponent: float = 1.0
    smoothing_factor: float = 0.0
    top_k: int = 50
    top_p: float = 0.8
    top_a: float = 0.0
    min_p: float = 0.0
    tfs: float = 0.0
    typical: float = 0.0
    skew: float = 0.0
    mirostat: bool = False
    mirostat_tau: float = 1.5
    mirostat_eta: float = 0.1
    mirostat_mu: Optional[float] = None
    token_bias: Any = None
    cfg_scale: Optional[float] = None
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_range: int = 0
    dry_max_ngram: int = 20
    dry_sequence_breakers: Optional[Collection[int]] = None
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    xtc_ignore_tokens: Optional[Collection[int]] = None
    post_sampling_hooks: List[Any] = dataclasses.field(default_factory=list)

    @staticmethod
    def greedy(**changes: Any) -> _Settings:
        greedy: Dict[str, Any] = {"temperature": 1.0, "token_repetition_penalty": 1.0, "top_p": 0.0, "top_k": 1}
        return _Settings(**{**greedy, **changes})

    def clone(self) -> _Settings:
        made = copy.copy(self)
        made.post_sampling_hooks = list(self.post_sampling_hooks)
        if self.token_bias is not None:
            made.token_bias = floats_array(to_numpy(self.token_bias).copy())
        return made

    def greedy_clone(self) -> _Settings:
        """This with a choice that is certain: bias, penalties and DRY stay."""
        made = self.clone()
        made.temperature, made.top_k, made.top_p = 1.0, 1, 0.0
        made.top_a = made.min_p = made.tfs = made.typical = made.skew = made.smoothing_factor = 0.0
        made.min_temp = made.max_temp = made.xtc_probability = 0.0
        made.temperature_last = made.mirostat = False
        return made

    def _bias(self, tokenizer: ExLlamaV2Tokenizer, fill: float) -> Any:
        import numpy

        if self.token_bias is None:
            size = max(tokenizer.config.vocab_size, tokenizer.get_vocab_size())
            return numpy.full(size, fill, dtype=numpy.float32)
        return to_numpy(self.token_bias).astype(numpy.float32).copy()

    def disallow_tokens(self, tokenizer: ExLlamaV2Tokenizer, tokens: List[int]) -> None:
        bias = self._bias(tokenizer, 0.0)
        bias[list(tokens)] = -math.inf
        self.token_bias = floats_array(bias)

    def allow_tokens(self, tokenizer: ExLlamaV2Tokenizer, tokens: List[Union[int, str]]) -> None:
        bias = self._bias(tokenizer, -math.inf)
        bias[[tokenizer.single_id(token) if isinstance(token, str) else token for token in tokens]] = 0.0
        self.token_bias = floats_array(bias)

    # ---- what this is in quipu ----

    def to_quipu(self) -> QuipuSettings:
        if self.mirostat_mu is not None:
            raise refuse("mirostat_mu: mirostat's state belongs to the job and begins at 2 * mirostat_tau")
        if self.post_sampling_hooks:
            raise refuse("post_sampling_hooks: a filter can do what most hooks do, see docs/exllamav2.md")
        forever = self.token_repetition_range < 0
        counts = forever or self.token_repetition_range > 0 or self.token_repetition_decay > 0
        return QuipuSettings(
            temperature=self.temperature,
            temperature_last=self.temperature_last,
            top_k=max(0, self.top_k),
            top_p=max(0.0, self.top_p),
            top_a=max(0.0, self.top_a),
            min_p=max(0.0, self.min_p),
            tfs=max(0.0, self.tfs),
            typical=max(0.0, self.typical),
            skew=self.skew,
            smoothing_factor=max(0.0, self.smoothing_factor),
            min_temperature=self.min_temp,
            max_temperature=self.max_temp,
            temperature_exponent=self.temp_exponent,
            repetition_penalty=self.token_repetition_penalty if counts else 0.0,
            frequency_penalty=self.token_frequency_penalty if counts else 0.0,
            presence_penalty=self.token_presence_penalty if counts else 0.0,
            penalty_range=0 if forever else max(1, self.token_repetition_range),
            penalty_decay=0 if forever else self.token_repetition_decay,
            mirostat_tau=self.mirostat_tau if self.mirostat else 0.0,
            mirostat_eta=self.mirostat_eta if self.mirostat else 0.0,
            xtc_probability=max(0.0, self.xtc_probability),
            xtc_threshold=self.xtc_threshold,
            dry_multiplier=max(0.0, self.dry_multiplier),
            dry_base=self.dry_base,
            dry_allowed_length=self.dry_allowed_length,
            dry_range=self.dry_range,
            dry_max_length=self.dry_max_ngram,
            dry_count=True,
            guidance=0.0 if self.cfg_scale is None else self.cfg_scale,
        )

    def job_options(self) -> Dict[str, Any]:
        """What a quipu job takes beside its settings."""
        options: Dict[str, Any] = {}
        if self.dry_sequence_breakers is not None:
            options["dry_breaker_ids"] = sorted(self.dry_sequence_breakers)
        if self.xtc_ignore_tokens is not None:
            options["xtc_keep_ids"] = sorted(self.xtc_ignore_tokens)
        if self.token_bias is not None:
            options.update(_bias_options(self.token_bias))
        return options


def _bias_options(token_bias: Any) -> Dict[str, Any]:
    """A vector over the vocabulary as what a job takes: the ids that may come where most may not, and biases."""
    import numpy

    bias = to_numpy(token_bias).reshape(-1)
    banned = numpy.isneginf(bias) | (bias <= -1e29)
    options: Dict[str, Any] = {"bias": {int(id): float(bias[id]) for id in numpy.nonzero(~banned & (bias != 0))[0]}}
    if 2 * int(banned.sum()) > len(bias):
        options["allow_ids"] = numpy.nonzero(~banned)[0].tolist()
        if not options["allow_ids"]:
            raise ValueError("token_bias allows no token")
    else:
        options["ban_ids"] = numpy.nonzero(banned)[0].tolist()
    return options


class ExLlamaV2Sampler:
    Settings = _Settings
