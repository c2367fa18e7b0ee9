"""lm-format-enforcer's filters on quipu: `TokenEnforcerFilter(model, tokenizer, parser)` goes into a job's filters.

The names and arguments are those of lmformatenforcer.integrations.exllamav2. The data about the tokenizer, which takes
seconds for large vocabularies, is built once per model and shared by all filters.
"""
from __future__ import annotations

from typing import Any, Collection, List, Optional, Tuple

import lmformatenforcer
from lmformatenforcer import TokenEnforcer, TokenEnforcerTokenizerData

from ..exllamav2.arrays import to_row
from ..exllamav2.exl_filters import ExLlamaV2Filter
from ..tokenizer import Tokenizer


def _tokens(tokenizer: Tokenizer) -> List[Tuple[int, str, bool]]:
    """(id, text, begins a word) of all that are no special tokens."""
    found = []
    for id, text in enumerate(tokenizer.pieces()):
        if text and not tokenizer.is_special(id):
            found.append((id, text, text[0].isspace()))
    return found


def _build(tokenizer: Tokenizer, eos: List[int], vocabulary: int) -> Any:
    def decode(ids: List[int]) -> str:
        return tokenizer.decode(ids).rstrip("\ufffd")

    return TokenEnforcerTokenizerData(_tokens(tokenizer), decode, eos, False, vocabulary)


def build_token_enforcer_tokenizer_data(tokenizer: Any) -> Any:
    """For an ExLlamaV2Tokenizer; the same object each time."""
    inner: Tokenizer = tokenizer.quipu
    eos = tokenizer.config.eos_token_ids or [tokenizer.eos_token_id]
    return inner._remember("lmformatenforcer", lambda: _build(inner, eos, len(inner)))


class ExLlamaV2TokenEnforcerFilter(ExLlamaV2Filter):
    def __init__(self, model: Any, tokenizer: Any,
                 character_level_parser: lmformatenforcer.CharacterLevelParser) -> None:
        super().__init__(model, tokenizer)
        data = tokenizer if isinstance(tokenizer, TokenEnforcerTokenizerData) else \
            build_token_enforcer_tokenizer_data(tokenizer)
        self.token_enforcer = TokenEnforcer(data, character_level_parser)
        self.token_sequence: List[int] = []
        self._kept: Any = None

    def begin(self, prefix_str: str) -> None:
        self.token_sequence = []

    def feed(self, token: Any) -> None:
        self.token_sequence.append(to_row(token)[0])

    def next(self) -> Tuple[Optional[Collection[int]], Collection[int]]:
        found = self.token_enforcer.get_allowed_tokens(self.token_sequence)
        ids = getattr(found, "allowed_tokens", found)
        # A tuple for each list: the engine's side knows tuples again, so that a large one is turned into bits once.
        if self._kept is None or self._kept[0] is not ids:
            self._kept = (ids, tuple(ids))
        return self._kept[1], ()


TokenEnforcerFilter = ExLlamaV2TokenEnforcerFilter
