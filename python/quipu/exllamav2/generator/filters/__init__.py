"""exllamav2.generator.filters' names, for imports of that form."""
from __future__ import annotations

from ... import ExLlamaV2Filter, ExLlamaV2PrefixFilter, ExLlamaV2SelectFilter

__all__ = ["ExLlamaV2Filter", "ExLlamaV2PrefixFilter", "ExLlamaV2SelectFilter"]
