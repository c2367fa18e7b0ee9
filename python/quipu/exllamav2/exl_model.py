"""ExLlamaV2: a model that is loaded in a call of its own, and run a step at a time by forward()."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional

from ..model import Model
from .arrays import floats_array, to_row
from .config import ExLlamaV2Config, refuse, tell

if TYPE_CHECKING:
    from .cache import ExLlamaV2CacheBase


class ExLlamaV2:
    def __init__(self, config: ExLlamaV2Config, lazy_load: bool = False) -> None:
        self.config = config
        self._model: Optional[Model] = None

    @property
    def loaded(self) -> bool:
        return self._model is not None

    @property
    def quipu(self) -> Model:
        """The model under the names of quipu."""
        if self._model is None:
            raise RuntimeError("the model is not loaded: call load() first")
        return self._model

    # ---- loading ----

    def _open(self, callback: Optional[Callable[[int, int], None]]) -> None:
        config = self.config
        if config.model_dir is None:
            raise ValueError("the config has no model_dir")
        if config.load_in_q4:
            raise refuse("load_in_q4: quantise the model once instead, or take a quantised one")
        if config.scale_long_factor != 1.0:
            raise refuse("scale_long_factor: the factors of config.json are used as they are")

        def progress(done: float, total: float) -> None:
            if callback:
                callback(int(done), int(total))

        self._model = Model(
            config.model_dir,
            threads=config.threads,
            precision=config.precision,
            rope_scale=config.scale_pos_emb if config.scale_pos_emb != 1.0 else 0.0,
            rope_alpha=config.scale_alpha_value if config.scale_alpha_value != 1.0 else 0.0,
            progress=progress if callback else None,
        )

    def load(
        self,
        gpu_split: Optional[List[float]] = None,
        lazy: bool = False,
        stats: bool = False,
        callback: Optional[Callable[[int, int], None]] = None,
        callback_gen: Optional[Callable[[int, int], Iterator[Any]]] = None,
        progress: bool = False,
    ) -> Any:
        if gpu_split is not None:
            tell("gpu_split: the model is kept whole, on the best device")
        if callback_gen is not None:
            raise refuse("callback_gen: use load_gen or callback")
        self._open(callback)
        return [self.quipu.info.weight_bytes / 2**30], [0.0] if stats else None

    def load_gen(self, gpu_split: Optional[List[float]] = None, *args: Any, **kwargs: Any) -> Iterator[Any]:
        yield self.load(gpu_split, *args, **kwargs)

    def load_autosplit(
        self,
        cache: Any,
        reserve_vram: Any = None,
        last_id_only: bool = False,
        callback: Optional[Callable[[int, int], None]] = None,
        callback_gen: Any = None,
        progress: bool = False,
    ) -> None:
        if reserve_vram is not None:
            tell("reserve_vram: the model is kept whole, on the best device")
        if callback_gen is not None:
            raise refuse("callback_gen: use callback")
        self._open(callback)

    def load_autosplit_gen(self, cache: Any, *args: Any, **kwargs: Any) -> Iterator[Any]:
        self.load_autosplit(cache, *args, **kwargs)
        yield 1

    def load_tp(self, gpu_split: Any = None, callback: Any = None, expect_cache_tokens: int = 0,
                expect_cache_base: Any = None, progress: bool = False) -> None:
        tell("load_tp: there is one device")
        self._open(callback)

    def unload(self) -> None:
        """Memory is free when the generators are gone, too."""
        self._model = None

    def is_quant(self) -> bool:
        return self.quipu.info.bits_per_weight < 16

    # ---- one step ----

    def forward(
        self,
        input_ids: Any,
        cache: Optional[ExLlamaV2CacheBase] = None,
        input_mask: Any = None,
        preprocess_only: bool = False,
        last_id_only: bool = False,
        loras: Any = None,
        return_last_state: bool = False,
        position_offsets: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Logits [1, n, vocabulary] of float32, or [1, 1, vocabulary] with last_id_only. Batch 1."""
        for name, value in (("input_mask", input_mask), ("position_offsets", position_offsets)):
            if value is not None:
                raise refuse(f"{name}: forward() has one sequence without padding")
        if return_last_state:
            raise refuse("return_last_state: hidden states are not to be had by forward()")
        if kwargs:
            raise TypeError(f"forward() does not know {', '.join(sorted(kwargs))}")
        ids = to_row(input_ids)
        if cache is None:
            from .cache import ExLlamaV2Cache

            cache = ExLlamaV2Cache(self, max_seq_len=max(256, len(ids)))
        return self._run(cache, ids, preprocess_only, last_id_only, loras)

    def _run(self, cache: ExLlamaV2CacheBase, ids: List[int], preprocess_only: bool, last_id_only: bool,
             loras: Any) -> Any:
        import numpy

        sequence = cache.sequence(loras)
        step = max(1, self.config.max_input_len)
        made = []
        for at in range(0, len(ids), step):
            part = ids[at : at + step]
            is_last = at + step >= len(ids)
            last = 0 if preprocess_only else len(part) if not last_id_only else int(is_last)
            made.append(sequence.forward(part, last))
        return None if preprocess_only else floats_array(numpy.concatenate(made)[None])
