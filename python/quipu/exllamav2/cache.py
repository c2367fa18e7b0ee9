"""ExLlamaV2Cache and its relatives: how many tokens of context there are, and of which type.

Memory is taken by the first user: a generator (all generators over one cache share an engine, so they do not mix their
contexts), or forward().
"""
from __future__ import annotations

from typing import Any, List, Optional

from ..generator import Generator
from ..sequence import Sequence
from .config import refuse, tell
from .exl_model import ExLlamaV2

PAGE = 256


class ExLlamaV2CacheBase:
    cache_type = "default"

    def __init__(
        self,
        model: ExLlamaV2,
        batch_size: int = 1,
        max_seq_len: int = -1,
        copy_from: Optional[ExLlamaV2CacheBase] = None,
        lazy: bool = False,
        num_key_value_heads: Optional[int] = None,
        fixed_device: Optional[int] = None,
    ) -> None:
        if copy_from is not None:
            raise refuse("copy_from: a cache cannot be copied; prompts find what other jobs computed by themselves")
        if fixed_device is not None:
            tell("fixed_device: the cache is where the model is")
        self.model = model
        self.batch_size = batch_size
        self.max_seq_len = max_seq_len if max_seq_len > 0 else model.config.max_seq_len
        self._generator: Optional[Generator] = None
        self._sequence: Optional[Sequence] = None
        self._loras: List[Any] = []

    def generator(self, **options: Any) -> Generator:
        """The engine over this cache."""
        if self._generator is None:
            tokens = self.batch_size * self.max_seq_len
            self._generator = Generator(self.model.quipu, cache_tokens=tokens, cache_type=self.cache_type, **options)
        return self._generator

    def sequence(self, loras: Any = None) -> Sequence:
        """What forward() feeds."""
        wanted = [loras] if loras is not None and not isinstance(loras, (list, tuple)) else list(loras or ())
        if self._sequence is None:
            self._sequence = Sequence(self.model.quipu, self.max_seq_len, cache_type=self.cache_type)
        if wanted != self._loras:
            if len(self._sequence):
                raise refuse("loras cannot change while the cache holds tokens: set current_seq_len to 0 first")
            self._sequence.set_adapters([lora.adapter for lora in wanted], [lora.lora_scaling for lora in wanted])
            self._loras = wanted
        return self._sequence

    @property
    def current_seq_len(self) -> int:
        return len(self._sequence) if self._sequence else 0

    @current_seq_len.setter
    def current_seq_len(self, length: int) -> None:
        if self._sequence is not None and length != len(self._sequence):
            self._sequence.rewind(length)
        elif self._sequence is None and length:
            raise ValueError(f"the cache is empty, its length cannot be {length}")

    def reset(self) -> None:
        self.current_seq_len = 0

    def footprint(self) -> List[int]:
        """Bytes, for each device."""
        tokens = self.batch_size * self.max_seq_len
        return [self.model.quipu.cache_bytes(tokens, self.cache_type)]


class ExLlamaV2Cache(ExLlamaV2CacheBase):
    cache_type = "fp16"


class ExLlamaV2Cache_Q4(ExLlamaV2CacheBase):
    cache_type = "q4"


class ExLlamaV2Cache_Q6(ExLlamaV2CacheBase):
    cache_type = "q6"


class ExLlamaV2Cache_Q8(ExLlamaV2CacheBase):
    cache_type = "q8"


class ExLlamaV2Cache_8bit(ExLlamaV2Cache_Q8):
    """8 bits a number: the better of the two formats with so many."""


class ExLlamaV2Cache_TP(ExLlamaV2Cache):
    """There is one device: an ExLlamaV2Cache."""

    def __init__(self, model: ExLlamaV2, batch_size: int = 1, max_seq_len: int = -1, copy_from: Any = None,
                 base: Any = ExLlamaV2Cache) -> None:
        self.cache_type = base.cache_type
        super().__init__(model, batch_size, max_seq_len, copy_from)
