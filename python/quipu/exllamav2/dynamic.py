"""ExLlamaV2DynamicGenerator: a queue of jobs that is driven by iterate(), or runs to its end by generate().

The engine computes on a thread of its own whether iterate() is called or not; iterate() waits for what there is to
read and gives it as ExLlamaV2's results.
"""
from __future__ import annotations

import threading
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ..hub import Watch
from .config import refuse, tell
from .dynamic_job import ExLlamaV2DynamicJob
from .lora import adapter_uses
from .sampler import ExLlamaV2Sampler

MOST_CHUNK = 512  # the engine's longest chunk of a prompt
BLINK = 0.1  # seconds that iterate() takes no notice of Ctrl-C


class ExLlamaV2DynamicGenerator:
    def __init__(
        self,
        model: Any,
        cache: Any,
        tokenizer: Any,
        max_batch_size: Optional[int] = None,
        max_seq_len: Optional[int] = None,
        max_chunk_size: Optional[int] = None,
        max_q_size: int = 8,
        draft_model: Any = None,
        draft_cache: Any = None,
        num_draft_tokens: int = 4,
        use_ngram_draft: bool = False,
        max_ngram: int = 4,
        max_sampling_threads: int = 16,
        min_sampling_threads: int = 3,
        paged: bool = True,
        filter_background_eval: bool = True,
        **kwargs: Any,
    ) -> None:
        if kwargs:
            raise TypeError(f"the generator does not know {', '.join(sorted(kwargs))}")
        if draft_model is not None or draft_cache is not None or use_ngram_draft:
            raise refuse("speculative decoding is not there yet: leave out draft_model, draft_cache, use_ngram_draft")
        if (max_sampling_threads, min_sampling_threads, filter_background_eval) != (16, 3, True):
            tell("max_sampling_threads, min_sampling_threads and filter_background_eval: the engine decides itself")
        self.model, self.cache, self.tokenizer = model, cache, tokenizer
        self.paged = paged
        self.max_seq_len = max_seq_len or cache.max_seq_len
        self.max_batch_size = 1 if not paged else max_batch_size or model.config.max_input_len // max_q_size
        self.max_chunk_size = max_chunk_size or model.config.max_input_len
        self.quipu = cache.generator(max_jobs=self.max_batch_size, chunk_tokens=min(MOST_CHUNK, self.max_chunk_size))
        self.loras: List[Any] = []
        self.jobs: Dict[Any, ExLlamaV2DynamicJob] = {}  # by quipu job, in the order of submission
        self._watch = Watch()
        self._failed: List[BaseException] = []
        self._lock = threading.Lock()
        self._serial = 0

    def warmup(self) -> None:
        """Computes a few tokens."""
        prompt = self.tokenizer.encode("Once upon a time,", add_bos=True)
        self.quipu.job(prompt.tolist()[0], ExLlamaV2Sampler.Settings().to_quipu(), max_new_tokens=4).wait()

    def set_loras(self, loras: Any) -> None:
        """For the jobs that are enqueued from now on."""
        self.loras = adapter_uses(loras)

    # ---- the queue ----

    def enqueue(self, job: Union[ExLlamaV2DynamicJob, Sequence[ExLlamaV2DynamicJob]]) -> Any:
        """The serial number of the job, or of each."""
        if not isinstance(job, ExLlamaV2DynamicJob):
            return [self.enqueue(each) for each in job]
        made = self.start(job)
        with self._lock:
            self.jobs[made] = job
        self._watch.attach(made)
        return job.serial_number

    def start(self, job: ExLlamaV2DynamicJob) -> Any:
        """Submits the job, without a place among those that iterate() reads."""
        made = job.submit(self)
        with self._lock:
            self._serial += 1
            job.serial_number = self._serial
        return made

    def cancel(self, job: ExLlamaV2DynamicJob) -> None:
        """Any number of times, in any state; no result of the job comes any more."""
        if job.job is not None:
            job.job.cancel()
            with self._lock:
                self.jobs.pop(job.job, None)

    def clear_queue(self) -> None:
        with self._lock:
            jobs = list(self.jobs)
            self.jobs.clear()
        for job in jobs:
            job.cancel()

    def _in_state(self, *states: str) -> List[ExLlamaV2DynamicJob]:
        with self._lock:
            jobs = list(self.jobs.items())
        return [job for made, job in jobs if made.progress.state in states]

    @property
    def pending_jobs(self) -> List[ExLlamaV2DynamicJob]:
        return self._in_state("waiting")

    @property
    def active_jobs(self) -> List[ExLlamaV2DynamicJob]:
        """Those that run, and those that have ended and are not read to their end."""
        return self._in_state("prompt", "running", "ended")

    def num_remaining_jobs(self) -> int:
        with self._lock:
            return len(self.jobs)

    # ---- reading ----

    def iterate(self) -> List[Dict[str, Any]]:
        """Results of all jobs that have something to say; waits until one has. Raises what a job failed with, after
        the results of the others were given."""
        results: List[Dict[str, Any]] = []
        made = None
        while made is None and self.num_remaining_jobs() and not self._failed:
            made = self._watch.next(BLINK)
        while made is not None:
            self._read(made, results)
            made = self._watch.next(0.0)
        if self._failed and not results:
            raise self._failed.pop(0)
        return results

    def _read(self, made: Any, results: List[Dict[str, Any]]) -> None:
        with self._lock:
            job = self.jobs.get(made)
        if job is None:
            return  # cancelled
        try:
            while True:
                event = made.next(0.0)
                if event is None:
                    break
                results.extend(job.results_of(event))
        except Exception as why:
            self._failed.append(why)
        if made.ended:
            with self._lock:
                self.jobs.pop(made, None)

    # ---- whole answers ----

    def generate(
        self,
        prompt: Any,
        max_new_tokens: int,
        min_new_tokens: int = 0,
        seed: Optional[int] = None,
        gen_settings: Any = None,
        token_healing: bool = False,
        encode_special_tokens: bool = False,
        decode_special_tokens: bool = False,
        stop_conditions: Optional[Sequence[Union[int, str]]] = None,
        add_bos: bool = False,
        abort_event: Optional[threading.Event] = None,
        completion_only: bool = False,
        filters: Optional[Sequence[Any]] = None,
        filter_prefer_eos: bool = False,
        return_last_results: bool = False,
        embeddings: Any = None,
        **kwargs: Any,
    ) -> Any:
        """A text for a prompt, a list for a list (a tuple of two is one prompt with its negative one). Jobs of others
        in the queue go on and are not touched."""
        is_batch = isinstance(prompt, list)
        prompts: List[Any] = prompt if isinstance(prompt, list) else [prompt]
        all_settings = _for_each(gen_settings, len(prompts), isinstance(gen_settings, (list, tuple)))
        nested = bool(filters) and isinstance((filters or [None])[0], (list, tuple, type(None)))
        all_filters = _for_each(filters, len(prompts), is_batch and nested)
        jobs = []
        for i, text in enumerate(prompts):
            texts = list(text) if isinstance(text, tuple) else [text]
            ids = [self.tokenizer.encode(each, encode_special_tokens=encode_special_tokens, add_bos=add_bos)
                   for each in texts]
            jobs.append(ExLlamaV2DynamicJob(
                ids if len(ids) > 1 else ids[0], max_new_tokens, min_new_tokens=min_new_tokens,
                gen_settings=all_settings[i], seed=None if seed is None else seed + i, stop_conditions=stop_conditions,
                decode_special_tokens=decode_special_tokens, filters=all_filters[i],
                filter_prefer_eos=filter_prefer_eos, token_healing=token_healing, embeddings=embeddings, **kwargs))
        last = self._run_all(jobs, abort_event)
        if last is None:
            return ([None] * len(prompts) if is_batch else None) if not return_last_results else (None, None)
        texts = [self._whole(text, job, completion_only) for text, job in zip(prompts, jobs)]
        answer = texts if is_batch else texts[0]
        return (answer, last if is_batch else last[0]) if return_last_results else answer

    def _run_all(self, jobs: List[ExLlamaV2DynamicJob],
                 abort_event: Optional[threading.Event]) -> Optional[List[Dict[str, Any]]]:
        """The last result of each; None when it was aborted."""
        made = [self.start(job) for job in jobs]
        last: List[Dict[str, Any]] = []
        for job, each in zip(jobs, made):
            while not each.ended:
                if abort_event is not None and abort_event.is_set():
                    for one in made:
                        one.cancel()
                    return None
                event = each.next(BLINK)
                if event is not None:
                    result = job.results_of(event)[-1]
            last.append(result)
        return last

    def _whole(self, prompt: Any, job: ExLlamaV2DynamicJob, completion_only: bool) -> str:
        if completion_only:
            return job.full_completion
        return str(prompt[0] if isinstance(prompt, tuple) else prompt) + job.full_completion


def _for_each(given: Any, n: int, is_list: bool) -> Tuple[Any, ...]:
    if not is_list:
        return (given,) * n
    if len(given) != n:
        raise ValueError(f"there are {len(given)} for {n} prompts")
    return tuple(given)


