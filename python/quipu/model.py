"""Models, adapters (LoRA) and chat templates. All are immutable: any number of threads may share them."""
from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ._native import NULL, c_text, check, ffi, lib, new_error, take_text
from .owned import Owned
from .settings import Settings, from_struct
from .tokenizer import Tokenizer

Path = Union[str, "os.PathLike[str]"]
PRECISIONS = {"fast": lib.QP_PRECISION_FAST, "exact": lib.QP_PRECISION_EXACT}
CACHE_TYPES: Dict[str, int] = {
    name[len("QP_CACHE_"):].lower(): value for value, name in ffi.typeof("qp_cache_type").elements.items()
}
LEVELS = ("error", "warn", "info", "debug")


def choose(table: Mapping[str, int], name: str, what: str) -> int:
    """The value of a name, or an error that lists the names."""
    if name not in table:
        raise ValueError(f"{what} {name!r}, allowed are {', '.join(table)}")
    return table[name]


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """What a model is; see qp_model_info in docs/api.md."""

    architecture: str
    device: str
    cpu_level: str
    threads: int
    precision: str
    n_layers: int
    hidden: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    trained_context: int
    sliding_window: int
    n_parameters: int
    weight_bytes: int
    step_bytes: int
    bits_per_weight: float
    multiplies_whole: bool
    bos: Optional[int]
    eos: List[int]
    has_tokenizer: bool
    has_chat_template: bool
    sampling: Optional[Settings]  # what generation_config.json recommends


def _info(raw: Any) -> ModelInfo:
    fields = {field.name: getattr(raw, field.name) for field in dataclasses.fields(ModelInfo)}
    for name in ("architecture", "device", "cpu_level"):
        fields[name] = ffi.string(fields[name]).decode()
    fields["precision"] = next(name for name, value in PRECISIONS.items() if value == raw.precision)
    fields["bos"] = None if raw.bos < 0 else raw.bos
    fields["eos"] = list(raw.eos[0 : raw.n_eos])
    fields["sampling"] = from_struct(raw.sampling) if raw.has_sampling else None
    return ModelInfo(**fields)


class Model:
    """Weights, tokenizer and settings. `log` gets (level, line), `progress` gets (done, total) while it opens."""

    def __init__(
        self,
        path: Path,
        *,
        device: Optional[str] = None,
        cpu_level: Optional[str] = None,
        threads: int = 0,
        pin_threads: bool = False,
        precision: str = "fast",
        rope_scale: float = 0.0,
        rope_alpha: float = 0.0,
        rope_yarn: float = 0.0,
        architecture: Optional[str] = None,
        pack_cache: Optional[Path] = None,
        split: Optional[str] = None,
        log: Optional[Callable[[str, str], None]] = None,
        progress: Optional[Callable[[float, float], None]] = None,
    ) -> None:
        keep: List[Any] = []
        options = ffi.new("qp_model_options *", {
            "size": ffi.sizeof("qp_model_options"),
            "device": c_text(device, keep),
            "cpu_level": c_text(cpu_level, keep),
            "threads": threads,
            "pin_threads": pin_threads,
            "precision": choose(PRECISIONS, precision, "precision"),
            "rope_scale": rope_scale,
            "rope_alpha": rope_alpha,
            "rope_yarn": rope_yarn,
            "architecture": c_text(architecture, keep),
            "pack_cache": c_text(None if pack_cache is None else os.fspath(pack_cache), keep),
            "split": c_text(split, keep),
        })
        lasting = _connect(options, log, progress)
        slot, err = ffi.new("qp_model **"), new_error()
        check(lib.qp_model_open(slot, os.fsencode(path), options, err), err)
        self._take(slot[0], lasting, os.fspath(path))

    @classmethod
    async def open(cls, path: Path, **options: Any) -> Model:
        """As Model(...), on another thread than the loop's."""
        return await asyncio.get_running_loop().run_in_executor(None, lambda: cls(path, **options))

    @classmethod
    def synthesize(cls, shape: str, format: str = "bf16", seed: int = 0, *, threads: int = 0) -> Model:
        """Seeded random weights without a tokenizer, for measurements."""
        options = ffi.new("qp_model_options *", {"size": ffi.sizeof("qp_model_options"), "threads": threads})
        slot, err = ffi.new("qp_model **"), new_error()
        check(lib.qp_model_synthesize(slot, shape.encode(), format.encode(), seed, options, err), err)
        model = cls.__new__(cls)
        model._take(slot[0], None, None)
        return model

    def _take(self, pointer: Any, lasting: Any, path: Optional[str]) -> None:
        self._ptr = pointer
        self.path = path
        self._handle = _Handle(pointer, lasting)
        raw = ffi.new("qp_model_info *")
        lib.qp_model_get_info(pointer, raw)
        self.info = _info(raw)
        borrowed = lib.qp_model_peek_tokenizer(pointer)
        self._tokenizer = Tokenizer._borrow(borrowed, self._handle) if borrowed else None

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise ValueError("the model has no tokenizer")
        return self._tokenizer

    @property
    def settings(self) -> Settings:
        """What the model's generation_config.json recommends; greedy where it says nothing."""
        return self.info.sampling.replace() if self.info.sampling else Settings()

    def template(self, name: Optional[str] = None) -> Template:
        """The model's chat template."""
        if self.path is None:
            raise ValueError("a synthesized model has no chat template")
        return Template(self.path, name)

    def cache_bytes(self, tokens: int, cache_type: str = "default") -> int:
        """Memory that the cache of so many tokens needs."""
        return int(lib.qp_model_cache_bytes(self._ptr, choose(CACHE_TYPES, cache_type, "cache type"), tokens))


class _Handle:
    """Closes the model when nobody needs it any more: the Model, its tokenizer, generators, adapters."""

    def __init__(self, pointer: Any, lasting: Any) -> None:
        self.pointer = pointer
        self.owned = Owned(pointer, lib.qp_model_close, lasting)  # callbacks that the library may call until then


def _connect(options: Any, log: Optional[Callable[[str, str], None]],
             progress: Optional[Callable[[float, float], None]]) -> Any:
    """Callbacks in C for those in Python."""
    lasting = []
    if log:
        def line(user: Any, level: int, text: Any) -> None:
            log(LEVELS[level], ffi.string(text).decode("utf-8", "replace"))

        lasting.append(ffi.callback("void(void *, qp_log_level, const char *)", line))
        options.log.line = lasting[-1]
    if progress:
        lasting.append(ffi.callback("void(void *, double, double)", lambda user, done, total: progress(done, total)))
        options.progress = lasting[-1]
    return lasting


class Adapter:
    """A low-rank adapter (LoRA) in a PEFT folder; jobs name it with a scale."""

    def __init__(self, model: Model, path: Path) -> None:
        slot, err = ffi.new("qp_adapter **"), new_error()
        check(lib.qp_adapter_open(slot, model._ptr, os.fsencode(path), err), err)
        self._ptr = slot[0]
        self.path = os.fspath(path)
        self._owned = Owned(slot[0], lib.qp_adapter_close, model._handle)


class Template:
    """A chat template: of a model folder, of its own source, or one of the formats that come with quipu."""

    def __init__(self, path: Path, name: Optional[str] = None) -> None:
        keep: List[Any] = []
        slot, err = ffi.new("qp_template **"), new_error()
        check(lib.qp_template_open(slot, os.fsencode(path), c_text(name, keep), err), err)
        self._take(slot[0])

    @classmethod
    def from_source(cls, source: str) -> Template:
        raw = source.encode("utf-8", "surrogatepass")
        slot, err = ffi.new("qp_template **"), new_error()
        check(lib.qp_template_new(slot, raw, len(raw), err), err)
        return cls.__new__(cls)._take(slot[0])

    @classmethod
    def builtin(cls, name: str) -> Template:
        slot, err = ffi.new("qp_template **"), new_error()
        check(lib.qp_template_builtin(slot, name.encode(), err), err)
        return cls.__new__(cls)._take(slot[0])

    @staticmethod
    def builtin_names() -> List[str]:
        names: List[str] = []
        while True:
            name = lib.qp_template_builtin_name(len(names))
            if not name:
                return names
            names.append(ffi.string(name).decode())

    def _take(self, pointer: Any) -> Template:
        self._ptr = pointer
        self._owned = Owned(pointer, lib.qp_template_free)
        return self

    @property
    def source(self) -> str:
        return str(ffi.string(lib.qp_template_peek_source(self._ptr, NULL)).decode("utf-8", "replace"))

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Optional[Sequence[Mapping[str, Any]]] = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt for a conversation. Any other keyword is a variable of the template."""
        given: Dict[str, Any] = dict(variables, messages=list(messages), add_generation_prompt=add_generation_prompt)
        if tools is not None:
            given["tools"] = list(tools)
        if continue_final_message:
            given.update(continue_final_message=True, add_generation_prompt=False)
        raw = json.dumps(given).encode()
        slot, n, err = ffi.new("char **"), ffi.new("size_t *"), new_error()
        check(lib.qp_template_render(self._ptr, raw, len(raw), slot, n, NULL, err), err)
        return take_text(slot, n[0])


def inspect(path: Path, *, tensors: bool = False) -> Dict[str, Any]:
    """What a model folder holds, read from its headers alone."""
    slot, err = ffi.new("char **"), new_error()
    check(lib.qp_inspect_json(slot, os.fsencode(path), tensors, err), err)
    found: Dict[str, Any] = json.loads(take_text(slot))
    return found


def devices() -> Dict[str, Any]:
    """What the machine has, and what quipu will use of it."""
    slot, err = ffi.new("char **"), new_error()
    check(lib.qp_devices_json(slot, err), err)
    found: Dict[str, Any] = json.loads(take_text(slot))
    return found
