"""The names, defaults and result keys of ExLlamaV2; texts equal those of quipu's own names."""
import asyncio
import dataclasses
import inspect
import threading

import numpy
import pytest

import quipu
from conftest import DEMO, LONG, is_idle, wait_until
from quipu.exllamav2 import (
    CompatWarning,
    ExLlamaV2,
    ExLlamaV2BaseGenerator,
    ExLlamaV2Cache,
    ExLlamaV2Cache_8bit,
    ExLlamaV2Cache_Q4,
    ExLlamaV2Cache_Q6,
    ExLlamaV2Cache_Q8,
    ExLlamaV2Config,
    ExLlamaV2DynamicGenerator,
    ExLlamaV2DynamicGeneratorAsync,
    ExLlamaV2DynamicJob,
    ExLlamaV2DynamicJobAsync,
    ExLlamaV2Filter,
    ExLlamaV2Lora,
    ExLlamaV2PrefixFilter,
    ExLlamaV2Sampler,
    ExLlamaV2SelectFilter,
    ExLlamaV2StreamingGenerator,
    ExLlamaV2Tokenizer,
)

GREEDY = ExLlamaV2Sampler.Settings.greedy()


class Kit:
    def __init__(self):
        self.config = ExLlamaV2Config(str(DEMO))
        self.model = ExLlamaV2(self.config)
        self.cache = ExLlamaV2Cache(self.model, max_seq_len=4096, lazy=True)
        self.model.load_autosplit(self.cache)
        self.tokenizer = ExLlamaV2Tokenizer(self.config)
        self.generator = ExLlamaV2DynamicGenerator(self.model, self.cache, self.tokenizer)

    def ids(self, text):
        return self.tokenizer.encode(text, add_bos=True)

    def job(self, text="Once upon a time", n=12, **options):
        options.setdefault("gen_settings", GREEDY)
        return ExLlamaV2DynamicJob(self.ids(text), n, **options)

    def run(self, *jobs):
        """All results of each job."""
        self.generator.enqueue(list(jobs))
        found = {job: [] for job in jobs}
        while self.generator.num_remaining_jobs():
            for result in self.generator.iterate():
                found[result["job"]].append(result)
        return [found[job] for job in jobs]


@pytest.fixture(scope="module")
def shared_kit():
    return Kit()


@pytest.fixture
def kit(shared_kit):
    yield shared_kit
    wait_until(lambda: is_idle(shared_kit.generator.quipu))


def test_imports_of_both_forms():
    import quipu.exllamav2.generator as module
    from quipu.exllamav2.generator.filters import ExLlamaV2SelectFilter as other

    assert module.ExLlamaV2DynamicJob is ExLlamaV2DynamicJob and other is ExLlamaV2SelectFilter


def test_defaults_of_the_settings():
    """As section 1 of the table in docs/exllamav2.md."""
    assert dataclasses.asdict(ExLlamaV2Sampler.Settings()) == {
        "token_repetition_penalty": 1.025, "token_repetition_range": -1, "token_repetition_decay": 0,
        "token_frequency_penalty": 0.0, "token_presence_penalty": 0.0, "temperature": 0.8, "temperature_last": False,
        "min_temp": 0.0, "max_temp": 0.0, "temp_exponent": 1.0, "smoothing_factor": 0.0, "top_k": 50, "top_p": 0.8,
        "top_a": 0.0, "min_p": 0.0, "tfs": 0.0, "typical": 0.0, "skew": 0.0, "mirostat": False, "mirostat_tau": 1.5,
        "mirostat_eta": 0.1, "mirostat_mu": None, "token_bias": None, "cfg_scale": None, "dry_multiplier": 0.0,
        "dry_base": 1.75, "dry_allowed_length": 2, "dry_range": 0, "dry_max_ngram": 20, "dry_sequence_breakers": None,
        "xtc_probability": 0.0, "xtc_threshold": 0.1, "xtc_ignore_tokens": None, "post_sampling_hooks": []}
    assert (GREEDY.temperature, GREEDY.token_repetition_penalty, GREEDY.top_p, GREEDY.top_k) == (1.0, 1.0, 0.0, 1)


@pytest.mark.parametrize("function, names", [
    (ExLlamaV2DynamicJob, {"min_new_tokens": 0, "max_skips": 4, "gen_settings": None, "seed": None,
                           "stop_conditions": None, "decode_special_tokens": False, "return_top_tokens": 0,
                           "return_logits": False, "return_probs": False, "filters": None, "filter_prefer_eos": False,
                           "token_healing": False, "identifier": None, "banned_strings": None, "embeddings": None}),
    (ExLlamaV2DynamicGenerator, {"max_batch_size": None, "max_seq_len": None, "max_chunk_size": None, "max_q_size": 8,
                                 "draft_model": None, "draft_cache": None, "num_draft_tokens": 4,
                                 "use_ngram_draft": False, "max_ngram": 4, "max_sampling_threads": 16,
                                 "min_sampling_threads": 3, "paged": True, "filter_background_eval": True}),
])
def test_options_and_their_defaults(function, names):
    found = inspect.signature(function).parameters
    assert {name: found[name].default for name in names} == names


def test_what_settings_become(kit):
    plain = ExLlamaV2Sampler.Settings(mirostat=True, top_p=-1, dry_max_ngram=7, token_repetition_range=64,
                                      token_repetition_decay=32).to_quipu()
    assert (plain.mirostat_tau, plain.top_p, plain.dry_max_length, plain.dry_count) == (1.5, 0, 7, True)
    assert (plain.penalty_range, plain.penalty_decay, plain.repetition_penalty) == (64, 32, 1.025)
    assert ExLlamaV2Sampler.Settings(token_repetition_range=0).to_quipu().repetition_penalty == 0
    with pytest.raises(quipu.Unsupported):
        ExLlamaV2Sampler.Settings(post_sampling_hooks=[print]).to_quipu()
    only = ExLlamaV2Sampler.Settings.greedy()
    only.allow_tokens(kit.tokenizer, [500, 501, " the"])
    [results] = kit.run(kit.job(gen_settings=only, n=6))
    allowed = {500, 501, kit.tokenizer.single_id(" the")}
    assert {id for r in results for id in r.get("token_ids", numpy.zeros((1, 0), int)).ravel().tolist()} <= allowed
    first = kit.run(kit.job(n=1))[0][-1]["full_completion"]
    banned = ExLlamaV2Sampler.Settings.greedy()
    banned.disallow_tokens(kit.tokenizer, [kit.tokenizer.single_id(first)])
    assert kit.run(kit.job(n=1, gen_settings=banned))[0][-1]["full_completion"] != first
    assert banned.clone().token_bias is not banned.token_bias and banned.greedy_clone().top_k == 1


def test_tokenizer(kit):
    t = kit.tokenizer
    ids = t.encode("Hello world", add_bos=True, add_eos=True)
    assert ids.shape == (1, 6) and ids[0, 0] == t.bos_token_id == 6128 and ids[0, -1] == t.eos_token_id == 6132
    assert t.decode(ids) == ["Hello world"] and t.decode(ids[0]) == "Hello world"
    assert t.decode(ids[0], decode_special_tokens=True).startswith("<|begin_of_text|>")
    padded, offsets = t.encode(["Hello", "Hello world, friend"], return_offsets=True)
    assert padded.shape[0] == 2 and padded[0, 0] == t.pad_token_id and offsets.tolist()[1] == [0]
    assert offsets[0, 0] == -(padded.shape[1] - t.num_tokens("Hello"))
    assert t.decode(padded) == ["Hello", "Hello world, friend"]
    assert 6132 in t.encode("<|eot_id|>", encode_special_tokens=True)
    assert 6132 not in t.encode("<|eot_id|>")
    pieces = t.get_id_to_piece_list()
    assert pieces[6132] == "" and t.get_id_to_piece_list(True)[6132] == "<|eot_id|>"
    assert t.get_piece_to_id_dict()[" the"] == t.single_id(" the")
    begins = t.get_prefix_id_to_ids_dict()
    some = t.single_id(" the")
    assert set(begins[some]) == {id for id, piece in enumerate(pieces) if piece.startswith(" the")}
    chat = t.apply_chat_template([{"role": "user", "content": "Hi"}])
    assert "Hi" in t.decode(chat[0], decode_special_tokens=True)


def test_generate(kit):
    expected = kit.generator.quipu.generate(kit.ids("Once upon a time")[0].tolist(), quipu.Settings(),
                                            max_new_tokens=12).text
    assert kit.generator.generate("Once upon a time", 12, add_bos=True, gen_settings=GREEDY) == \
        "Once upon a time" + expected
    texts, last = kit.generator.generate(["Once upon a time", "The dog"], 12, add_bos=True, completion_only=True,
                                         gen_settings=[GREEDY, GREEDY], return_last_results=True)
    assert texts[0] == expected and len(last) == 2 and last[1]["full_completion"] == texts[1]
    hot = ExLlamaV2Sampler.Settings(temperature=1.0)
    one = [kit.generator.generate("Once", 8, seed=seed, gen_settings=hot) for seed in (5, 6)]
    assert kit.generator.generate(["Once", "Once"], 8, seed=5, gen_settings=hot) == one
    guided = ExLlamaV2Sampler.Settings.greedy(cfg_scale=2.0)
    assert kit.generator.generate(("Once upon a time", "The dog"), 6, gen_settings=guided).startswith("Once upon")
    abort = threading.Event()
    abort.set()
    assert kit.generator.generate("Once", 500, abort_event=abort) is None
    with pytest.raises(quipu.TooLarge):
        kit.generator.generate("Once", 100000)


def test_results(kit):
    job = kit.job(n=10, return_probs=True, return_top_tokens=3, return_logits=True, identifier="me",
                  stop_conditions=[kit.tokenizer.eos_token_id])
    [results] = kit.run(job)
    assert results[0]["stage"] == "started" and results[-1]["stage"] == "streaming"
    for r in results:
        assert r["job"] is job and r["serial"] == job.serial_number and r["identifier"] == "me"
        assert r["eos"] is (r is results[-1])
    texts = [r for r in results if "text" in r]
    for r in texts:
        n = r["token_ids"].shape[1]
        assert r["token_ids"].shape == r["token_probs"].shape == (1, n)
        assert r["top_k_tokens"].shape == r["top_k_probs"].shape == (1, n, 3) and r["logits"].shape == (1, n, 6144)
        assert (numpy.diff(r["top_k_probs"], axis=2) <= 0).all()
    last = results[-1]
    assert {"eos_reason", "full_completion", "new_tokens", "prompt_tokens", "time_enqueued", "time_prefill",
            "time_generate", "cached_pages", "cached_tokens"} <= set(last)
    assert last["eos_reason"] == "max_new_tokens" and last["new_tokens"] == 10
    assert last["full_completion"] == "".join(r["text"] for r in texts)


def test_prefill(kit):
    """What comes between two looks is one result, so a slow look may miss it."""
    for attempt in range(10):
        job = kit.job(f"{attempt} is a number. " * 200, n=1)
        [results] = kit.run(job)
        told = [r for r in results if r["stage"] == "prefill"]
        if told:
            break
    assert told and 0 < told[-1]["curr_progress"] <= told[-1]["max_progress"] == len(job.input_ids)


def test_reasons_to_end(kit):
    free = kit.run(kit.job(n=20))[0][-1]["full_completion"]
    word = free.split()[3]
    by_text = kit.run(kit.job(n=20, stop_conditions=[word]))[0][-1]
    assert (by_text["eos_reason"], by_text["eos_triggering_string"]) == ("stop_string", word)
    assert by_text["held"]["text"].startswith(word) and word not in by_text["full_completion"]
    third = kit.tokenizer.encode(free)[0, 2].item()
    by_id = kit.run(kit.job(n=20, stop_conditions=[third]))[0][-1]
    assert (by_id["eos_reason"], by_id["eos_triggering_token_id"]) == ("stop_token", third)
    assert by_id["eos_triggering_token_str"]
    chosen = kit.run(kit.job(filters=[ExLlamaV2SelectFilter(kit.model, kit.tokenizer, [" yes", " no"])]))[0][-1]
    assert chosen["eos_reason"] == "end_filter" and chosen["full_completion"] in (" yes", " no")
    assert word not in kit.run(kit.job(n=20, banned_strings=[word]))[0][-1]["full_completion"]
    [healed] = kit.run(kit.job("Once upon a ti", n=5, token_healing=True))
    first = next(r["token_ids"][0, 0] for r in healed if "token_ids" in r)
    dropped = kit.tokenizer.get_id_to_piece_list()[kit.ids("Once upon a ti")[0, -1]]
    assert kit.tokenizer.get_id_to_piece_list()[first].startswith(dropped)
    assert (dropped + healed[-1]["full_completion"]).startswith(kit.tokenizer.get_id_to_piece_list()[first])


def test_filters(kit):
    begun = ExLlamaV2PrefixFilter(kit.model, kit.tokenizer, ["It was", "They were"])
    text = kit.run(kit.job(n=12, filters=[begun]))[0][-1]["full_completion"]
    assert text.startswith(("It was", "They were")) and len(text) > 10
    either = ExLlamaV2SelectFilter(kit.model, kit.tokenizer, ["Yes, Sir (1)"], case_insensitive=True)
    assert kit.run(kit.job(filters=[either]))[0][-1]["full_completion"].lower() == "yes, sir (1)"

    class Digits(ExLlamaV2Filter):
        """Three digits; the last of them ends the answer."""

        def begin(self, prefix_str):
            self.n, self.begun_with = 0, prefix_str

        def feed(self, token):
            assert token.shape == (1, 1)
            self.n += len(self.tokenizer.get_id_to_piece_list()[token.item()])

        def next(self):
            ids = {id for id, piece in enumerate(self.tokenizer.get_id_to_piece_list())
                   if piece.isdigit() and piece.isascii() and len(piece) <= 3 - self.n}
            return ids, {id for id in ids if len(self.tokenizer.get_id_to_piece_list()[id]) == 3 - self.n}

    filter = Digits(kit.model, kit.tokenizer)
    last = kit.run(kit.job(filters=[filter]))[0][-1]
    assert last["eos_reason"] == "end_filter" and len(last["full_completion"]) == 3
    assert last["full_completion"].isdigit() and filter.begun_with == ""

    class Anything(ExLlamaV2Filter):
        def begin(self, prefix_str):
            self.begun_with = prefix_str

        def feed(self, token):
            pass

        def next(self):
            return None, set()

    anything = Anything(kit.model, kit.tokenizer)
    kit.run(kit.job("Once upon a ti", n=3, token_healing=True, filters=[anything]))
    assert anything.begun_with == kit.tokenizer.get_id_to_piece_list()[kit.ids("Once upon a ti")[0, -1]]

    class Masking(Digits):
        def can_mask_logits(self):
            return True

        def mask_logits(self, logits):
            logits[..., :] = -numpy.inf
            logits[..., 300] = 0
            return logits

    [results] = kit.run(kit.job(n=3, filters=[Masking(kit.model, kit.tokenizer)]))
    assert numpy.concatenate([r["token_ids"][0] for r in results if "token_ids" in r]).tolist() == [300] * 3


def test_the_queue(kit):
    jobs = [kit.job(n=400, stop_conditions=[]) for _ in range(3)]
    serials = kit.generator.enqueue(jobs)
    assert serials == sorted(serials) and kit.generator.num_remaining_jobs() == 3
    while len(kit.generator.active_jobs) < 3:
        kit.generator.iterate()
    jobs[0].cancel()
    jobs[0].cancel()
    assert kit.generator.num_remaining_jobs() == 2
    assert all(result["job"] is not jobs[0] for result in kit.generator.iterate())
    kit.generator.clear_queue()
    assert kit.generator.num_remaining_jobs() == 0 and kit.generator.iterate() == []
    assert kit.generator.pending_jobs == kit.generator.active_jobs == []


def test_a_failing_job_fails_alone(kit):
    class Broken(ExLlamaV2Filter):
        def begin(self, prefix_str):
            raise LookupError("no luck")

    good, bad = kit.job(n=20), kit.job(filters=[Broken(kit.model, kit.tokenizer)])
    kit.generator.enqueue([good, bad])
    done, failures = None, 0
    while kit.generator.num_remaining_jobs() or not failures:
        try:
            for result in kit.generator.iterate():
                done = result if result["job"] is good and result["eos"] else done
        except quipu.QuipuError as why:
            assert "no luck" in str(why)
            failures += 1
    assert failures == 1 and done["new_tokens"] == 20


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 2 * LONG))


def test_async(kit):
    expected = kit.run(kit.job(n=12))[0][-1]["full_completion"]

    async def main():
        generator = ExLlamaV2DynamicGeneratorAsync(kit.model, kit.cache, kit.tokenizer)
        job = ExLlamaV2DynamicJobAsync(generator, input_ids=kit.ids("Once upon a time"), max_new_tokens=12,
                                       gen_settings=GREEDY, identifier=3)
        results = [result async for result in job]
        assert "".join(r.get("text", "") for r in results) == expected == results[-1]["full_completion"]
        assert results[-1]["eos"] and results[-1]["job"] is job and results[-1]["identifier"] == 3
        await job.cancel()
        endless = [ExLlamaV2DynamicJobAsync(generator, kit.ids("Once"), 2000, stop_conditions=[]) for _ in range(4)]
        assert generator.num_remaining_jobs() == 4
        async for _ in endless[0]:
            break  # without cancel
        reader = asyncio.ensure_future(_texts(endless[1]))
        await asyncio.sleep(0.05)
        await endless[1].cancel()
        await reader
        await generator.cancel(endless[2])
        await generator.close()
        assert generator.num_remaining_jobs() == 0 and generator.pending_jobs == generator.active_jobs == []

    run(main())


async def _texts(job):
    return [result.get("text", "") async for result in job]


def test_base_generator(kit):
    base = ExLlamaV2BaseGenerator(kit.model, kit.cache, kit.tokenizer)
    base.warmup()
    one = base.generate_simple("Once upon a time", GREEDY, 8, add_bos=True)
    assert one == "Once upon a time" + kit.run(kit.job(n=8))[0][-1]["full_completion"]
    assert base.generate_simple(["Once upon a time", "The dog"], GREEDY, 8, add_bos=True)[0] == one
    assert base.generate_simple("Once upon a time", GREEDY, 8, add_bos=True, completion_only=True) == one[16:]
    stop = kit.tokenizer.encode(one)[0, 6].item()
    assert len(base.generate_simple("Once upon a time", GREEDY, 8, add_bos=True, stop_token=stop)) < len(one)
    long = base.generate_simple("word " * 5000, GREEDY, 4, stop_token=None)
    assert long.startswith("word word")


def test_streaming_generator(kit):
    expected = kit.run(kit.job(n=10))[0]
    streaming = ExLlamaV2StreamingGenerator(kit.model, kit.cache, kit.tokenizer)
    streaming.begin_stream_ex(kit.ids("Once upon a time"), GREEDY, return_probabilities=True, return_top_tokens=2)
    got = [streaming.stream_ex() for _ in range(10)]
    assert all(not each["eos"] and each["probs"].shape == each["chunk_token_ids"].shape for each in got)
    assert "".join(each["chunk"] for each in got).startswith(expected[-1]["full_completion"])
    import time

    time.sleep(0.1)  # nobody reads: the engine waits
    assert streaming._job.stats.generated_tokens <= len(streaming._taken) + 3
    usual = streaming.stream_ex()["chunk_token_ids"].ravel().tolist()
    streaming.begin_stream_ex(kit.ids("Once upon a time"), GREEDY)
    for _ in range(len(streaming._taken), 10):
        streaming.stream_ex()
    assert streaming.stream_ex(ban_tokens=usual)["chunk_token_ids"][0, 0] not in usual
    assert streaming.stream_ex()["chunk"] and not streaming.full()
    streaming.set_stop_conditions([expected[-1]["full_completion"].split()[2], None])
    streaming.begin_stream(kit.ids("Once upon a time"), GREEDY)
    text, eos = "", False
    while not eos:
        chunk, eos, _ids = streaming.stream()
        text += chunk
    assert expected[-1]["full_completion"].startswith(text) and streaming.stream_ex()["eos"]
    streaming.cancel()


def test_forward(kit):
    cache = ExLlamaV2Cache(kit.model, max_seq_len=1024)
    ids = kit.ids("Once upon a time")
    logits = kit.model.forward(ids, cache)
    assert logits.shape == (1, ids.shape[1], 6144) and cache.current_seq_len == ids.shape[1]
    cache.current_seq_len = 2
    again = kit.model.forward(ids[:, 2:], cache, last_id_only=True)
    assert again.shape == (1, 1, 6144) and again[0, 0].argmax() == logits[0, -1].argmax()
    assert kit.model.forward(ids, preprocess_only=True) is None
    assert cache.footprint()[0] > 0
    with pytest.raises(quipu.Unsupported):
        kit.model.forward(ids, cache, return_last_state=True)


def test_quantised_caches_are_smaller_and_answer(kit):
    ids = kit.tokenizer.encode("Once upon a time there was")
    full = ExLlamaV2Cache(kit.model)
    expected = kit.model.forward(ids, full, last_id_only=True)[0, 0]
    bytes_before = full.footprint()[0]
    for kind in (ExLlamaV2Cache_8bit, ExLlamaV2Cache_Q8, ExLlamaV2Cache_Q6, ExLlamaV2Cache_Q4):
        cache = kind(kit.model)
        assert cache.cache_type == ("q8" if kind is ExLlamaV2Cache_8bit else kind.__name__[-2:].lower())
        logits = kit.model.forward(ids, cache, last_id_only=True)[0, 0]
        assert 0 < abs(logits - expected).max() < 2
        assert cache.footprint()[0] <= bytes_before
        bytes_before = cache.footprint()[0]
    assert bytes_before < full.footprint()[0] / 2.8


def test_what_is_not_there_says_so(kit):
    with pytest.raises(quipu.Unsupported, match="speculative"):
        ExLlamaV2DynamicGenerator(kit.model, kit.cache, kit.tokenizer, use_ngram_draft=True)
    with pytest.raises(quipu.Unsupported, match="embeddings"):
        kit.job(embeddings=[1])
    with pytest.raises(TypeError):
        kit.job(no_such_option=1)
    with pytest.warns(CompatWarning):
        ExLlamaV2(kit.config).load(gpu_split=[8.0])
    with pytest.raises(RuntimeError, match="load"):
        _ = ExLlamaV2(kit.config).quipu
    with pytest.raises(ValueError):
        kit.job(banned_strings=["x"], filters=[quipu.regex("a")])
    with pytest.raises(FileNotFoundError):
        ExLlamaV2Lora.from_directory(kit.model, "nowhere")
    kit.generator.set_loras(None)


def test_lm_format_enforcer(kit):
    try:
        import lmformatenforcer
    except (ImportError, TypeError) as why:  # version 0.11.3 does not load under Python 3.9
        pytest.skip(f"lm-format-enforcer cannot be imported: {why}")
    from quipu.integrations.lmformatenforcer import (
        ExLlamaV2TokenEnforcerFilter,
        build_token_enforcer_tokenizer_data,
    )

    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 99}}, "required": ["n"]}
    for parser, good in ((lmformatenforcer.RegexParser("[0-9]{3}-x"), lambda text: text[:3].isdigit()),
                         (lmformatenforcer.JsonSchemaParser(schema), lambda text: '"n"' in text)):
        filter = ExLlamaV2TokenEnforcerFilter(kit.model, kit.tokenizer, parser)
        [results] = kit.run(kit.job(n=40, filters=[filter], filter_prefer_eos=True))
        assert good(results[-1]["full_completion"]), results[-1]["full_completion"]
    assert build_token_enforcer_tokenizer_data(kit.tokenizer) is build_token_enforcer_tokenizer_data(kit.tokenizer)
