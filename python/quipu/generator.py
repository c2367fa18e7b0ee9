"""The generator: runs jobs on one model with a shared cache, on a thread of the engine's own.

One generator serves a whole program: any number of threads and event loops may submit to it and read from it.
"""
from __future__ import annotations

import asyncio
import dataclasses
import os
import threading
import time
import weakref
from typing import Any, AsyncIterator, Collection, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ._native import c_ids, c_text, c_texts, check, ffi, fields_of, lib, new_error
from .events import Result
from .filters import AnyFilter, Constraint, _Bridge, drop_filters, fill_filters, is_engine_thread
from .job import Job
from .model import CACHE_TYPES, Adapter, Model, Path, choose
from .settings import Settings

Prompt = Union[str, Sequence[int]]
POOLINGS: Dict[str, int] = {
    name[len("QP_POOL_"):].lower(): value for value, name in ffi.typeof("qp_pooling").elements.items()
}
LARGE_PROMPT = 8192  # characters from which a prompt is tokenised beside the event loop


@dataclasses.dataclass(frozen=True)
class GeneratorStats:
    """What a generator has done and is doing; see qp_generator_stats in docs/api.md."""

    jobs_waiting: int
    jobs_running: int
    jobs_submitted: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    jobs_preempted: int
    jobs_refused: int
    steps: int
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int
    pages: int
    pages_used: int
    pages_cached: int
    pages_shared: int
    pages_evicted: int
    pages_spilled: int
    pages_restored: int
    step_s: float
    step_model_s: float
    total_step_s: float
    total_model_s: float
    rate_prompt: float
    rate_new: float
    idle_s: float
    has_device_failed: bool


class _Handle:
    """Ends the engine when neither the Generator nor one of its jobs is left, and at the interpreter's exit."""

    def __init__(self, pointer: Any, model: Model) -> None:
        self.pointer = pointer
        self.model = model
        self.close = weakref.finalize(self, _free_generator, pointer, model._handle, os.getpid())


def _free_generator(pointer: Any, model: Any, pid: int) -> None:
    """`model` is held until here. A forked process has a copy of the memory, but none of the engine's threads."""
    if os.getpid() != pid:
        return
    if is_engine_thread():  # a collection inside a filter: the engine cannot wait for itself
        threading.Thread(target=_free_generator, args=(pointer, model, pid)).start()
    else:
        lib.qp_generator_free(pointer)


class Generator:
    """`cache_tokens` is room for all jobs together (0: the model's context); the rest as qp_generator_options."""

    def __init__(
        self,
        model: Model,
        *,
        cache_tokens: int = 0,
        cache_type: str = "default",
        chunk_tokens: int = 0,
        max_jobs: int = 0,
        max_queue: int = 0,
        max_length: int = 0,
        max_stall: float = 0.0,
        max_bypass: int = 0,
        spill_bytes: int = 0,
        no_reuse: bool = False,
    ) -> None:
        options = ffi.new("qp_generator_options *", {
            "size": ffi.sizeof("qp_generator_options"),
            "cache_tokens": cache_tokens,
            "cache_type": choose(CACHE_TYPES, cache_type, "cache type"),
            "chunk_tokens": chunk_tokens,
            "max_jobs": max_jobs,
            "max_queue": max_queue,
            "max_length": max_length,
            "max_stall": max_stall,
            "max_bypass": max_bypass,
            "spill_bytes": spill_bytes,
            "no_reuse": no_reuse,
        })
        slot, err = ffi.new("qp_generator **"), new_error()
        check(lib.qp_generator_new(slot, model._ptr, options, err), err)
        self.model = model
        self._handle = _Handle(slot[0], model)
        self._pid = os.getpid()
        self._is_closed = False
        self._users = 0  # threads inside a call of the library
        self._idle = threading.Condition()

    # ---- jobs ----

    def job(self, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> Job:
        """Submits a prompt (text or ids); the options are those of job_options. Tokenises, and compiles constraints
        that are new, on the calling thread: on an event loop submit() does this elsewhere."""
        with _Making(self, prompt, settings, options) as making:
            slot, err = ffi.new("qp_job **"), new_error()
            making.gone = True  # filters are the library's now, whatever it says
            with self._using() as pointer:
                check(lib.qp_job_new(slot, pointer, making.struct, err), err)
            return self._new_job(slot[0], making)

    def jobs(self, n: int, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> List[Job]:
        """n jobs that share the prompt, which is read once, and differ in their seed: seed, seed + 1 ..."""
        with _Making(self, prompt, settings, options) as making:
            slots, err = ffi.new("qp_job *[]", n), new_error()
            making.gone = True
            with self._using() as pointer:
                check(lib.qp_jobs_new(slots, n, pointer, making.struct, err), err)
            return [self._new_job(slots[i], making) for i in range(n)]

    async def submit(self, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> Job:
        """As job(), without holding up the event loop by a long prompt or a new constraint."""
        if self._is_quick(prompt, options.get("filters")):
            return self.job(prompt, settings, **options)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: self.job(prompt, settings, **options))

    def _is_quick(self, prompt: Prompt, filters: Optional[Sequence[AnyFilter]]) -> bool:
        if isinstance(prompt, str) and len(prompt) > LARGE_PROMPT:
            return False
        constraints = [each for each in filters or () if isinstance(each, Constraint)]
        return not constraints or all(each.is_compiled(self.model.tokenizer) for each in constraints)

    def _new_job(self, pointer: Any, making: _Making) -> Job:
        job = Job(pointer, self._handle, self.model.info.vocabulary, making.bridges, making.started_at)
        job.identifier = making.identifier
        return job

    def generate(self, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> Result:
        """The whole answer; blocks."""
        return self.job(prompt, settings, **options).wait()

    def generate_all(self, prompts: Sequence[Prompt], settings: Optional[Settings] = None,
                     **options: Any) -> List[Result]:
        """Whole answers to independent prompts, computed together; blocks."""
        jobs = [self.job(prompt, settings, **options) for prompt in prompts]
        return [job.wait() for job in jobs]

    def embed(self, prompts: Sequence[Prompt], pooling: str = "mean", **options: Any) -> Any:
        """Texts as vectors of length 1, the rows of a numpy array, computed together; blocks."""
        import numpy

        jobs = [self.job(prompt, pooling=pooling, **options) for prompt in prompts]
        for job in jobs:
            job.wait()
        return numpy.stack([job.embedding for job in jobs])

    async def aembed(self, prompts: Sequence[Prompt], pooling: str = "mean", **options: Any) -> Any:
        import numpy

        jobs = [await self.submit(prompt, pooling=pooling, **options) for prompt in prompts]
        for job in jobs:
            await job
        return numpy.stack([job.embedding for job in jobs])

    async def agenerate(self, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> Result:
        return await (await self.submit(prompt, settings, **options))

    def stream(self, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> Iterator[str]:
        """The texts of the answer; blocks between them."""
        return self.job(prompt, settings, **options).texts()

    async def astream(self, prompt: Prompt, settings: Optional[Settings] = None, **options: Any) -> AsyncIterator[str]:
        async with await self.submit(prompt, settings, **options) as job:
            async for event in job:
                if event.text:
                    yield event.text

    # ---- the rest ----

    @property
    def stats(self) -> GeneratorStats:
        raw = ffi.new("qp_generator_stats *")
        with self._using() as pointer:
            lib.qp_generator_get_stats(pointer, raw)
        return GeneratorStats(**fields_of(raw))

    def save_prefix(self, path: Path, ids: Sequence[int]) -> int:
        """Writes what the cache holds of these ids from their beginning; returns how many tokens that is."""
        keep: List[Any] = []
        array, n = c_ids(ids, keep)
        saved, err = ffi.new("size_t *"), new_error()
        with self._using() as pointer:
            check(lib.qp_prefix_save(pointer, os.fsencode(path), array, n, saved, err), err)
        return int(saved[0])

    def load_prefix(self, path: Path) -> int:
        """Puts the file's pages into the cache, where prompts find them."""
        loaded, err = ffi.new("size_t *"), new_error()
        with self._using() as pointer:
            check(lib.qp_prefix_load(pointer, os.fsencode(path), loaded, err), err)
        return int(loaded[0])

    def close(self) -> None:
        """Cancels all jobs, whose readers get their end, and waits for the engine. Any number of times."""
        with self._idle:
            self._is_closed = True
            self._idle.wait_for(lambda: self._users == 0)
        self._handle.close()  # without the lock: a filter may ask for it while the engine ends

    def __enter__(self) -> Generator:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    async def __aenter__(self) -> Generator:
        return self

    async def __aexit__(self, *_: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _using(self) -> _Using:
        return _Using(self)


class _Using:
    """The library's generator for one call, during which close() waits."""

    __slots__ = ("_generator",)

    def __init__(self, generator: Generator) -> None:
        self._generator = generator

    def __enter__(self) -> Any:
        generator = self._generator
        with generator._idle:
            if generator._is_closed or not generator._handle.close.alive:
                raise RuntimeError("the generator is closed")
            if os.getpid() != generator._pid:
                raise RuntimeError("the generator was made before this process was forked: make one in here")
            generator._users += 1
        return generator._handle.pointer

    def __exit__(self, *_: Any) -> None:
        generator = self._generator
        with generator._idle:
            generator._users -= 1
            if not generator._users:
                generator._idle.notify_all()


class _Making:
    """A qp_job_options and all that it points to, until the job is made."""

    def __init__(self, generator: Generator, prompt: Prompt, settings: Optional[Settings], options: Dict[str, Any]):
        self.started_at = time.monotonic()
        self.keep: List[Any] = []
        self.gone = False
        self.bridges: List[_Bridge] = []
        self.identifier = options.get("identifier")
        self.n_filters = 0
        self.array: Any = None
        chosen = settings if settings is not None else generator.model.settings
        self.struct = ffi.new("qp_job_options *", job_options(chosen, prompt, self.keep, **options))
        filters = options.get("filters")
        if filters:
            self.array, self.bridges = fill_filters(filters, generator.model.tokenizer)
            self.n_filters = len(filters)
            self.struct.filters, self.struct.n_filters = self.array, self.n_filters

    def __enter__(self) -> _Making:
        return self

    def __exit__(self, *_: Any) -> None:
        if not self.gone and self.n_filters:
            drop_filters(self.array, self.n_filters)


def job_options(
    settings: Settings,
    prompt: Prompt,
    keep: List[Any],
    *,
    max_new_tokens: Optional[int] = None,
    min_new_tokens: int = 0,
    stop: Union[str, Sequence[Union[str, int]]] = (),
    ignore_eos: bool = False,
    ban: Sequence[str] = (),
    ban_ids: Collection[int] = (),
    allow_ids: Collection[int] = (),
    bias: Optional[Mapping[int, float]] = None,
    filters: Sequence[AnyFilter] = (),
    adapters: Sequence[Union[Adapter, Tuple[Adapter, float]]] = (),
    negative_prompt: Optional[Prompt] = None,
    seed: Optional[int] = None,
    show_special: bool = False,
    add_special: bool = True,
    parse_special: bool = True,
    heal: bool = False,
    logprobs: bool = False,
    top: int = 0,
    logits: bool = False,
    score_prompt: bool = False,
    show_prompt: bool = False,
    priority: int = 0,
    max_queue_s: float = 0.0,
    max_total_s: float = 0.0,
    max_unread: int = 0,
    loop_repeats: int = 0,
    pooling: Optional[str] = None,
    no_reuse: bool = False,
    dry_breaker_ids: Optional[Collection[int]] = None,
    xtc_keep_ids: Optional[Collection[int]] = None,
    identifier: Any = None,
) -> Dict[str, Any]:
    """The options of a job, as the fields of qp_job_options in docs/api.md. `stop` mixes texts and ids; `filters` are
    constraints and quipu.Filter objects; `max_new_tokens` None is "until an end token or the end of the cache"."""
    if max_new_tokens is not None and max_new_tokens < 1:
        raise ValueError(f"max_new_tokens is {max_new_tokens}, allowed are 1 and more, and None for no limit")
    stops = [stop] if isinstance(stop, (str, int)) else list(stop)
    made: Dict[str, Any] = {
        "size": ffi.sizeof("qp_job_options"),
        "sampling": settings.as_struct(seed),
        "max_new_tokens": max_new_tokens or 0,
        "min_new_tokens": min_new_tokens,
        "ignore_eos": ignore_eos,
        "show_special": show_special,
        "tokenize_flags": (0 if add_special else lib.QP_TOKENIZE_NO_SPECIAL)
        | (0 if parse_special else lib.QP_TOKENIZE_PLAIN_SPECIAL),
        "heal": heal,
        "want_logprobs": logprobs,
        "n_top": top,
        "want_logits": logits,
        "score_prompt": score_prompt,
        "show_prompt": show_prompt,
        "priority": priority,
        "max_queue_s": max_queue_s,
        "max_total_s": max_total_s,
        "max_unread": max_unread,
        "loop_repeats": loop_repeats,
        "pooling": choose(POOLINGS, pooling or "none", "pooling"),
        "no_reuse": no_reuse,
    }
    if isinstance(prompt, str):
        raw = prompt.encode("utf-8", "surrogatepass")
        keep.append(ffi.from_buffer(raw) if raw else ffi.new("char[]", b""))
        made["prompt"], made["prompt_bytes"] = ffi.cast("const char *", keep[-1]), len(raw)
    else:
        made["ids"], made["n_ids"] = c_ids(prompt, keep)
    if isinstance(negative_prompt, str):
        made["negative_prompt"] = c_text(negative_prompt, keep)
    elif negative_prompt is not None:
        made["negative_ids"], made["n_negative_ids"] = c_ids(negative_prompt, keep)
    made["stop"], made["n_stop"] = c_texts([each for each in stops if isinstance(each, str)], keep)
    made["ban"], made["n_ban"] = c_texts(ban, keep)
    for name, ids in (("stop_ids", [each for each in stops if not isinstance(each, str)]), ("ban_ids", ban_ids),
                      ("allow_ids", allow_ids), ("dry_breaker_ids", dry_breaker_ids), ("xtc_keep_ids", xtc_keep_ids)):
        if ids is not None and (ids or name in ("dry_breaker_ids", "xtc_keep_ids")):
            made[name], made["n_" + name] = c_ids(list(ids), keep)
    if bias:
        keep.append(ffi.new("qp_bias[]", [{"id": id, "bias": value} for id, value in bias.items()]))
        made["bias"], made["n_bias"] = keep[-1], len(bias)
    if adapters:
        uses = [(use, 1.0) if isinstance(use, Adapter) else use for use in adapters]
        keep.append(uses)
        keep.append(ffi.new("qp_adapter_use[]", [{"adapter": use._ptr, "scale": scale} for use, scale in uses]))
        made["adapters"], made["n_adapters"] = keep[-1], len(uses)
    return made


