"""Models, tokenizers, templates, settings, and jobs read by plain code."""
import dataclasses
import json

import numpy
import pytest

import quipu
from conftest import DEMO, TINY, wait_until

GREEDY = quipu.Settings()
SMALL_SHAPE = "tiny"


def test_version_and_info(demo_model):
    info = demo_model.info
    assert quipu.__version__ == "0.1.0"
    assert (info.architecture, info.n_layers, info.vocabulary, info.bos) == ("LlamaForCausalLM", 12, 6144, 6128)
    assert info.eos == [6129, 6132] and info.has_chat_template
    assert demo_model.settings == dataclasses.replace(info.sampling)
    assert demo_model.cache_bytes(256) > demo_model.cache_bytes(256, "fp16") // 2 > 0


def test_inspect_and_devices():
    assert quipu.inspect(DEMO)["parameters"] == 11016448
    assert "cpu" in json.dumps(quipu.devices())


def test_settings_are_the_fields_of_the_header():
    from quipu._native import ffi

    assert {field.name for field in dataclasses.fields(quipu.Settings)} == {
        name for name, _ in ffi.typeof("qp_sampling").fields}
    assert {field.name for field in dataclasses.fields(quipu.EngineStats)} == {
        name for name, _ in ffi.typeof("qp_job_stats").fields}
    assert {field.name for field in dataclasses.fields(quipu.GeneratorStats)} == {
        name for name, _ in ffi.typeof("qp_generator_stats").fields}


def test_every_option_of_a_job_can_be_given():
    """What the header has and job_options() does not fill would be lost."""
    from quipu import generator
    from quipu._native import ffi

    with open(generator.__file__, encoding="utf-8") as file:
        source = file.read()
    known_otherwise = {"watch", "user", "size"}
    for name, _ in ffi.typeof("qp_job_options").fields:
        stem = name[2:] if name.startswith("n_") and name != "n_top" else name
        assert stem in known_otherwise or f'"{stem}"' in source or f".{stem}" in source, name


@pytest.mark.parametrize("path, kind", [("nowhere", FileNotFoundError), (__file__, ValueError)])
def test_what_is_no_model_is_refused(path, kind):
    with pytest.raises(quipu.QuipuError) as caught:
        quipu.Model(path)
    assert isinstance(caught.value, kind) and path.rsplit("/", 1)[-1] in str(caught.value)
    assert caught.value.status in ("no_file", "bad_format", "unsupported", "bad_argument")


def test_progress_and_log_are_called():
    seen, lines = [], []
    quipu.Model(TINY, progress=lambda done, total: seen.append((done, total)),
                log=lambda level, line: lines.append((level, line)))
    assert seen and seen[-1][0] == seen[-1][1] > 0
    assert all(level in ("error", "warn", "info", "debug") for level, _ in lines)


@pytest.mark.parametrize("name", ["precision", "cache type"])
def test_names_are_checked(name, tiny_model):
    with pytest.raises(ValueError, match="allowed are"):
        if name == "precision":
            quipu.Model(TINY, precision="perfect")
        else:
            quipu.Generator(tiny_model, cache_type="none")


def test_tokenizer(demo_model):
    own, tokenizer = quipu.Tokenizer(DEMO), demo_model.tokenizer
    text = "Once upon a time — ünïcödé 🎈 <|eot_id|>"
    ids = tokenizer.encode(text)
    assert ids == own.encode(text) and ids[0] == 6128 and 6132 in ids
    assert tokenizer.decode(tokenizer.encode(text, add_special=False)) == text
    assert 6132 not in tokenizer.encode(text, parse_special=False)
    assert tokenizer.decode(ids, skip_special=True) == text.replace("<|eot_id|>", "")
    assert tokenizer.encode("") == [6128] and tokenizer.encode("", add_special=False) == []
    assert tokenizer.id_of("<|eot_id|>") == 6132 and tokenizer.id_of("no such token") is None
    assert tokenizer.is_special(6132) and not tokenizer.is_special(300)
    assert len(tokenizer.pieces()) == len(tokenizer) == 6144
    stream = tokenizer.stream()
    assert "".join([stream.add(id) for id in own.encode(text, add_special=False)] + [stream.end()]) == text
    for bad in (-1, 6144, 10**6):
        with pytest.raises(IndexError):
            tokenizer.piece(bad)
    with pytest.raises(quipu.BadArgument):
        tokenizer.decode([2**40])


def test_template(demo_model):
    messages = [{"role": "user", "content": "Hello"}]
    prompt = demo_model.template().render(messages)
    assert "Hello" in prompt and demo_model.template().source
    assert quipu.Template.builtin("chatml").render(messages) == \
        "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    assert "chatml" in quipu.Template.builtin_names()
    assert quipu.Template.from_source("{{ messages[0].content }} {{ extra }}").render(messages, extra=3) == "Hello 3"
    with pytest.raises(quipu.BadFormat):
        quipu.Template.from_source("{% if %}")


def test_one_answer_read_in_every_way(demo):
    whole = demo.generate("Once upon a time", GREEDY, max_new_tokens=12)
    assert whole.finish == "length" and len(whole.ids) == 12 == whole.stats.new_tokens
    assert "".join(demo.stream("Once upon a time", GREEDY, max_new_tokens=12)) == whole.text
    job = demo.job("Once upon a time", GREEDY, max_new_tokens=12, identifier="mine")
    events = list(job)
    assert [event.kind for event in events[:-1]] == ["text"] * (len(events) - 1) and events[-1].kind == "end"
    assert "".join(event.text for event in events) == whole.text
    assert [id for event in events for id in event.ids] == whole.ids
    assert job.ended and job.next() is None and list(job) == [] and job.identifier == "mine"
    assert job.prompt_ids == demo.model.tokenizer.encode("Once upon a time")
    assert "12" in repr(events[-1])
    both = demo.generate_all(["Once upon a time", "The dog"], GREEDY, max_new_tokens=12)
    assert both[0].text == whole.text != both[1].text
    shared = [job.wait().text for job in demo.jobs(3, "Once upon a time", quipu.Settings(temperature=1, seed=5),
                                                   max_new_tokens=8)]
    alone = demo.generate("Once upon a time", quipu.Settings(temperature=1), seed=6, max_new_tokens=8)
    assert shared[1] == alone.text and len(set(shared)) > 1


def test_options_do_what_they_say(demo):
    free = demo.generate("Once upon a time", GREEDY, max_new_tokens=30)
    word = free.text.split()[2]
    stopped = demo.generate("Once upon a time", GREEDY, max_new_tokens=30, stop=word)
    assert stopped.finish == "stop" and stopped.end.stop_text == word and word not in stopped.text
    assert stopped.end.held_text.startswith(word)
    by_id = demo.generate("Once upon a time", GREEDY, max_new_tokens=30, stop=[free.ids[3]])
    assert by_id.finish == "eos" and by_id.end.stop_id == free.ids[3] and by_id.ids == free.ids[:3]
    assert word not in demo.generate("Once upon a time", GREEDY, max_new_tokens=30, ban=[word]).text
    assert demo.generate("Once", GREEDY, max_new_tokens=5, allow_ids=[300, 301], ignore_eos=True).ids[0] in (
        300, 301)
    assert demo.generate("Once", GREEDY, max_new_tokens=5, bias={77: 100.0}).ids == [77] * 5
    first = demo.generate("Once", GREEDY, max_new_tokens=1).ids[0]
    assert demo.generate("Once", GREEDY, max_new_tokens=1, ban_ids=[first]).ids[0] != first
    assert demo.generate("Once", max_new_tokens=400, max_total_s=0.02, ignore_eos=True).finish == "timeout"
    guided = demo.generate("Once upon", quipu.Settings(guidance=3.0), negative_prompt="The dog", max_new_tokens=3)
    assert len(guided.ids) == 3
    with pytest.raises(ValueError):
        demo.job("x", max_new_tokens=0)
    with pytest.raises(TypeError):
        demo.job("x", no_such_option=1)
    with pytest.raises(quipu.BadArgument):
        demo.job([99999])
    with pytest.raises(quipu.TooLarge):
        demo.job([300] * 20000)


def test_tokens_come_with_their_chances(demo):
    result = demo.generate("Once upon a time", GREEDY, max_new_tokens=4, top=3, logits=True, show_prompt=True)
    assert [token.id for token in result.tokens] == result.ids
    for token in result.tokens:
        assert token.logits.shape == (6144,) and token.logits.dtype == numpy.float32
        assert len(token.top) == 3 and token.top[0].id == int(token.logits.argmax())
        chances = numpy.exp(token.logits.astype(float) - token.logits.max())
        assert token.logprob == pytest.approx(numpy.log(chances[token.id] / chances.sum()), abs=1e-3)
    scored = demo.job("Once upon a time", GREEDY, max_new_tokens=1, score_prompt=True)
    scored.wait()
    assert [token.id for token in scored.scores] == scored.prompt_ids[1:]
    assert all(token.logprob < 0 for token in scored.scores)


def test_prompt_events(demo):
    for attempt in range(10):  # what comes between two looks is one event, so a slow look may miss it
        ids = [300 + attempt, *range(300, 1499)]
        told = [event for event in demo.job(ids, GREEDY, max_new_tokens=2, show_prompt=True) if event.kind == "prompt"]
        if told:
            break
    assert told and 0 < told[-1].done <= told[-1].total == 1200


def test_a_job_pauses_for_its_reader(tiny):
    job = tiny.job("hello", max_new_tokens=50, ignore_eos=True, max_unread=2)
    job.next()
    import time

    time.sleep(0.2)
    assert job.stats.generated_tokens <= 6 and job.progress.state == "running"
    assert len(job.wait().ids) + job.stats.delivered_tokens >= 50


def test_stats(tiny):
    before = tiny.stats
    job = tiny.job("hello", max_new_tokens=20, ignore_eos=True)
    for _ in job:
        pass
    stats = job.stats
    assert stats.generated_tokens == stats.delivered_tokens == stats.consumed_tokens == 20
    assert stats.submitted_at < stats.first_generated_at <= stats.generated_at <= stats.delivered_at
    assert stats.delivered_at <= stats.consumed_at and stats.delivery_gap_max >= stats.delivery_gap_mean > 0
    assert stats.engine.new_tokens == 20 and stats.unread_tokens == 0
    wait_until(lambda: tiny.stats.jobs_finished > before.jobs_finished)
    after = tiny.stats
    assert after.new_tokens - before.new_tokens == 20 and after.jobs_finished == before.jobs_finished + 1


def test_prefixes_go_to_files(demo, demo_model, tmp_path):
    ids = list(range(300, 900))
    demo.generate(ids, GREEDY, max_new_tokens=1)
    n = demo.save_prefix(tmp_path / "prefix", ids)
    assert n == 512
    with quipu.Generator(demo_model) as other:
        assert other.load_prefix(tmp_path / "prefix") == 512
        assert other.generate(ids, GREEDY, max_new_tokens=1).stats.cached_tokens >= 512


def test_embeddings(demo):
    texts = ["The king had a daughter.", "The king had a son.", "Seven times three is twenty-one.", "x"]
    vectors = demo.embed(texts)
    assert vectors.shape == (4, 256) and vectors.dtype == numpy.float32
    assert numpy.allclose(numpy.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert not numpy.allclose(demo.embed(texts[:1], "last")[0], vectors[0], atol=1e-3)
    import asyncio

    assert numpy.allclose(asyncio.run(demo.aembed(texts)), vectors, atol=1e-3)
    with pytest.raises(ValueError, match="pooling"):
        _ = demo.job("x", max_new_tokens=1).embedding
    with pytest.raises(ValueError, match="allowed are"):
        demo.embed(["x"], "max")


def test_sequence(demo_model, demo):
    ids = demo_model.tokenizer.encode("Once upon a time")
    sequence = quipu.Sequence(demo_model, 1024)
    all_at_once = sequence.forward(ids, None)
    assert all_at_once.shape == (len(ids), 6144) and len(sequence) == len(ids)
    sequence.rewind(2)
    assert numpy.array_equal(sequence.forward(ids[2:])[0].argmax(), all_at_once[-1].argmax())
    greedy = list(demo.generate(ids, GREEDY, max_new_tokens=3).ids)
    assert greedy[0] == all_at_once[-1].argmax()
    assert [sequence.best(greedy[0]), sequence.best(greedy[1])] == greedy[1:] and len(sequence) == len(ids) + 2


def test_synthesized_models_have_no_text():
    model = quipu.Model.synthesize(SMALL_SHAPE, threads=1)
    with pytest.raises(ValueError):
        _ = model.tokenizer
    with pytest.raises(ValueError):
        model.template()


def test_a_closed_generator_says_so(tiny_model):
    generator = quipu.Generator(tiny_model)
    job = generator.job("hello", ignore_eos=True)
    generator.close()
    generator.close()
    assert job.wait().finish == "cancelled"
    with pytest.raises(RuntimeError, match="closed"):
        generator.job("hello")


def test_closing_while_a_filter_asks_for_more(tiny_model):
    """Neither waits for the other for ever."""
    class Asking(quipu.Filter):
        refused = False

        def allowed(self):
            try:
                generator.job("hello", max_new_tokens=1)
            except RuntimeError:
                self.refused = True

        def accept(self, id):
            pass

    generator = quipu.Generator(tiny_model)
    job = generator.job("hello", filters=[Asking()], max_new_tokens=400, ignore_eos=True)
    job.next()
    generator.close()
    assert job.wait().finish == "cancelled"


def test_a_full_queue_says_so(tiny_model):
    with quipu.Generator(tiny_model, max_jobs=1, max_queue=2) as generator:
        held = []
        with pytest.raises(quipu.Busy):
            for _ in range(10):
                held.append(generator.job("hello", ignore_eos=True, max_unread=1))
        assert len(held) >= 2
