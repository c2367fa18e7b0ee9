"""Constraints and filters: what they allow, what they cost, and that they stay with their job."""
import asyncio
import dataclasses
import json
import random
import time
from typing import List

import pydantic
import pytest

import quipu


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=150)
    tags: List[str] = pydantic.Field(max_length=2)


HOT = quipu.Settings(temperature=1.2)
CASES = [
    (quipu.json_schema(Person, whitespace="compact"), lambda text: Person.model_validate_json(text)),
    (quipu.json_schema({"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"],
                        "additionalProperties": False}), lambda text: json.loads(text)["a"] in (True, False)),
    (quipu.json_schema('{"enum": [1, "two"]}'), lambda text: json.loads(text) in (1, "two")),
    (quipu.regex("[a-c]{4}-[0-9]{2}"), lambda text: len(text) == 7),
    (quipu.choice(["yes", "no", "never mind"]), lambda text: text in ("yes", "no", "never mind")),
    (quipu.grammar('root ::= "a" [0-9] "b"'), lambda text: text[0] == "a" and text[2] == "b"),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_constraints_hold(tiny, case):
    constraint, check = CASES[case]
    for seed in range(5):
        result = tiny.generate("hello", HOT, seed=seed, filters=[constraint], max_new_tokens=300)
        if result.finish != "length":
            assert check(result.text)
            assert constraint.compile(tiny.model.tokenizer).allows(result.text)


def test_prefix_and_eager(tiny):
    text = tiny.generate("hello", HOT, seed=1, filters=[quipu.prefix("The answer")], max_new_tokens=20).text
    assert text.startswith("The answer") and len(text) > len("The answer")
    texts = ['"A\n.*', "B (", "ü-1"]
    for seed in range(6):
        text = tiny.generate("hello", HOT, seed=seed, filters=[quipu.prefix(texts)], max_new_tokens=20).text
        assert text.startswith(tuple(texts)) and len(text) > 5
    lazy = quipu.choice(["no", "no, never"])
    for seed in range(5):
        eager = dataclasses.replace(lazy, eager=True)
        result = tiny.generate("hello", HOT, seed=seed, filters=[eager])
        assert (result.text, result.finish) == ("no", "filter")


def test_what_cannot_be_kept_is_refused(tiny):
    with pytest.raises(ValueError) as caught:
        tiny.job("x", filters=[quipu.json_schema({"type": "string", "pattern": "("})])
    assert "pattern" in str(caught.value) or "(" in str(caught.value)
    with pytest.raises(TypeError):
        tiny.job("x", filters=["not a filter"])
    with pytest.raises(TypeError):
        quipu.json_schema(int)


def test_filters_made_per_request_cost_little(tiny):
    """Under a millisecond after the first, the pydantic model's schema included."""
    tokenizer = tiny.model.tokenizer

    def once():
        start = time.perf_counter()
        quipu.json_schema(Person).compile(tokenizer)
        made = quipu.filters.fill_filters([quipu.json_schema(Person)], tokenizer)
        took = time.perf_counter() - start
        quipu.filters.drop_filters(made[0], 1)
        return took

    once()
    times = sorted(once() for _ in range(50))
    assert times[5] < 0.001, times


def test_constraints_are_forgotten_in_order(tiny_model):
    tokenizer = quipu.Tokenizer(tiny_model.path)
    for i in range(quipu.tokenizer.MAX_CONSTRAINTS + 10):
        quipu.choice([str(i)]).compile(tokenizer)
    assert len(tokenizer._constraints) == quipu.tokenizer.MAX_CONSTRAINTS
    assert quipu.choice(["5"]) not in tokenizer._constraints


class Even(quipu.Filter):
    """Ids that can be halved, 7 of them."""

    def __init__(self, vocabulary):
        self.ids = frozenset(range(0, vocabulary, 2))
        self.n, self.is_over, self.seen = 0, False, []

    def allowed(self):
        return self.ids if self.n < 7 else ()

    def may_end(self):
        return self.n == 7

    def accept(self, id):
        self.seen.append(id)
        self.n += 1

    def rewind(self, n):
        self.n -= n
        del self.seen[len(self.seen) - n:]

    def end(self):
        self.is_over = True


def test_filters_in_python(tiny):
    for kind in (frozenset, tuple, list, set):
        filter = Even(tiny.model.info.vocabulary)
        filter.ids = kind(filter.ids)
        result = tiny.generate("hello", HOT, filters=[filter])
        assert len(result.ids) == 7 and all(id % 2 == 0 for id in result.ids) and result.finish == "filter"
        assert filter.seen == result.ids
        deadline = time.monotonic() + 10
        while not filter.is_over and time.monotonic() < deadline:
            time.sleep(0.001)
        assert filter.is_over


def test_a_filter_of_a_refused_job_is_freed(tiny):
    filter = Even(tiny.model.info.vocabulary)
    with pytest.raises(quipu.QuipuError):
        tiny.job([10**6], filters=[filter])
    assert filter.is_over
    other = Even(tiny.model.info.vocabulary)
    with pytest.raises(ValueError):
        tiny.job("x", filters=[other, quipu.regex("(")])
    assert not quipu.filters._alive


def test_64_jobs_with_their_own_settings_and_filters(tiny):
    """Each has the text that it has alone."""
    rng = random.Random(1)
    wishes = []
    for i in range(64):
        settings = quipu.Settings(temperature=rng.choice([0, 0.7, 1.3]), top_k=rng.choice([0, 5, 50]),
                                  top_p=rng.choice([0, 0.9]), repetition_penalty=rng.choice([0, 1.2]), seed=i)
        wishes.append((f"prompt {i % 7}", settings, [] if i % 3 == 0 else [CASES[i % len(CASES)][0]]))
    alone = [tiny.generate(p, s, filters=f, max_new_tokens=40).text for p, s, f in wishes]

    async def main():
        return await asyncio.gather(*(tiny.agenerate(p, s, filters=f, max_new_tokens=40) for p, s, f in wishes))

    together = [result.text for result in asyncio.run(main())]
    assert together == alone
