"""Models and generators for the tests: `tiny` answers nonsense, very fast; `demo` tells stories."""
import os
import pathlib
import time

import pytest

import quipu

ROOT = pathlib.Path(os.environ.get("QUIPU_SOURCE") or pathlib.Path(__file__).parents[2])
DEMO, TINY = ROOT / "models" / "demo", ROOT / "tests" / "golden" / "models" / "complete-llama3"
LONG = 30.0  # seconds for what should take a moment, on a machine with other things to do


def wait_until(condition, seconds=LONG):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.002)


def is_idle(generator):
    stats = generator.stats
    return stats.jobs_running == 0 and stats.jobs_waiting == 0


@pytest.fixture(scope="session")
def tiny_model():
    return quipu.Model(TINY, threads=1)


@pytest.fixture(scope="session")
def demo_model():
    return quipu.Model(DEMO)


@pytest.fixture(scope="session")
def tiny_shared(tiny_model):
    with quipu.Generator(tiny_model, cache_tokens=65536) as generator:
        yield generator


@pytest.fixture
def tiny(tiny_shared):
    """Nothing may still run when the test has ended and its jobs are gone."""
    yield tiny_shared
    wait_until(lambda: is_idle(tiny_shared))


@pytest.fixture(scope="session")
def demo_shared(demo_model):
    with quipu.Generator(demo_model, cache_tokens=16384) as generator:
        yield generator


@pytest.fixture
def demo(demo_shared):
    yield demo_shared
    wait_until(lambda: is_idle(demo_shared))
