"""ExLlamaV2's names over quipu: change `exllamav2` to `quipu.exllamav2` in the imports.

Option names, defaults and result keys are those of version 0.3.2. Where its behaviour is a defect, this does what was
meant; docs/exllamav2.md lists every difference. What quipu has no counterpart for raises quipu.Unsupported, and what
only steers a GPU is told in a CompatWarning.
"""
from __future__ import annotations

from .base import ExLlamaV2BaseGenerator
from .cache import (
                    ExLlamaV2Cache,
                    ExLlamaV2Cache_8bit,
                    ExLlamaV2Cache_Q4,
                    ExLlamaV2Cache_Q6,
                    ExLlamaV2Cache_Q8,
                    ExLlamaV2Cache_TP,
                    ExLlamaV2CacheBase,
)
from .config import CompatWarning, ExLlamaV2Config
from .dynamic import ExLlamaV2DynamicGenerator
from .dynamic_async import ExLlamaV2DynamicGeneratorAsync, ExLlamaV2DynamicJobAsync
from .dynamic_job import ExLlamaV2DynamicJob
from .exl_filters import ExLlamaV2Filter, ExLlamaV2PrefixFilter, ExLlamaV2SelectFilter
from .exl_model import ExLlamaV2
from .exl_tokenizer import ExLlamaV2Tokenizer
from .lora import ExLlamaV2Lora
from .sampler import ExLlamaV2Sampler
from .streaming import ExLlamaV2StreamingGenerator

__all__ = [
    "CompatWarning", "ExLlamaV2", "ExLlamaV2BaseGenerator", "ExLlamaV2Cache", "ExLlamaV2CacheBase",
    "ExLlamaV2Cache_8bit", "ExLlamaV2Cache_Q4", "ExLlamaV2Cache_Q6", "ExLlamaV2Cache_Q8", "ExLlamaV2Cache_TP",
    "ExLlamaV2Config", "ExLlamaV2DynamicGenerator", "ExLlamaV2DynamicGeneratorAsync", "ExLlamaV2DynamicJob",
    "ExLlamaV2DynamicJobAsync", "ExLlamaV2Filter", "ExLlamaV2Lora", "ExLlamaV2PrefixFilter", "ExLlamaV2Sampler",
    "ExLlamaV2SelectFilter", "ExLlamaV2StreamingGenerator", "ExLlamaV2Tokenizer",
]
