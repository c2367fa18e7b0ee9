"""exllamav2.generator's names, for imports of that form."""
from __future__ import annotations

from .. import (
               ExLlamaV2BaseGenerator,
               ExLlamaV2DynamicGenerator,
               ExLlamaV2DynamicGeneratorAsync,
               ExLlamaV2DynamicJob,
               ExLlamaV2DynamicJobAsync,
               ExLlamaV2Sampler,
               ExLlamaV2StreamingGenerator,
)

__all__ = ["ExLlamaV2BaseGenerator", "ExLlamaV2DynamicGenerator", "ExLlamaV2DynamicGeneratorAsync",
           "ExLlamaV2DynamicJob", "ExLlamaV2DynamicJobAsync", "ExLlamaV2Sampler", "ExLlamaV2StreamingGenerator"]
