"""What stays and what goes: references, leaks, threads at the interpreter's end, forks."""
import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import tracemalloc
import weakref

import pytest

import quipu
from conftest import LONG, TINY, is_idle, wait_until


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_no_leak_over_10000_jobs(tiny_model):
    """Of all kinds: read, abandoned, cancelled, with filters, from plain code."""
    with quipu.Generator(tiny_model, cache_tokens=65536) as generator:
        word = quipu.regex("[a-z]{1,3}")

        async def one(i):
            kind = i % 5
            if kind == 0:
                await generator.agenerate([1 + i % 40, 7], max_new_tokens=2)
            elif kind == 1:
                async for _ in generator.job([1 + i % 40, 8], max_new_tokens=50, ignore_eos=True):
                    break
            elif kind == 2:
                await generator.job("hello", max_new_tokens=50).cancel()
            elif kind == 3:
                await generator.agenerate("hello", filters=[word], max_new_tokens=4)
            else:
                async for _ in generator.astream("hello", max_new_tokens=2, top=2):
                    pass

        async def many(n):
            for start in range(0, n, 100):
                await asyncio.gather(*(one(i) for i in range(start, start + 100)))

        asyncio.run(many(1000))
        wait_until(lambda: is_idle(generator))
        gc.collect()
        memory = resident()
        asyncio.run(many(7000))
        tracemalloc.start()  # makes all slower: for the last 3,000
        asyncio.run(many(500))
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        asyncio.run(many(2500))
        gc.collect()
        wait_until(lambda: is_idle(generator))
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < 50_000, grown
        assert resident() - memory < 16 * 2**20, resident() - memory
        assert generator.stats.jobs_submitted == 11000 and not quipu.filters._alive


def test_jobs_keep_what_they_need():
    """Model, generator and job may be dropped in any order."""
    job = quipu.Generator(quipu.Model(TINY, threads=1)).job("hello", max_new_tokens=20, ignore_eos=True)
    gc.collect()
    assert len(job.wait().ids) == 20
    tokenizer = quipu.Model(TINY, threads=1).tokenizer
    gc.collect()
    assert tokenizer.decode(tokenizer.encode("hello", add_special=False)) == "hello"
    compiled = quipu.regex("a+").compile(quipu.Tokenizer(TINY))
    gc.collect()
    assert compiled.allows("aaa") and not compiled.allows("b")
    stream = quipu.Tokenizer(TINY).stream()
    gc.collect()
    assert stream.add(70) is not None
    sequence = quipu.Sequence(quipu.Model(TINY, threads=1), 256)
    gc.collect()
    assert sequence.forward([1, 2, 3]).shape == (1, 1520)


def test_what_is_collected_may_still_be_used_by_its_neighbours(tiny):
    """A cycle is taken apart in no order: its __del__ and `finally` still find the job."""
    said = []

    class Watcher:
        def __init__(self, generator):
            self.job = generator.job("hello", ignore_eos=True)
            self.events = self.job.__aiter__()  # cancels when it goes
            self.me = self

        def __del__(self):
            said.append((self.job.stats.generated_tokens, self.job.progress.state, self.job.next(LONG) is not None))

    async def reader(box):
        try:
            with tiny.job("hello", ignore_eos=True) as job:
                box.append(job)
                await asyncio.get_running_loop().create_future()
        finally:
            said.append(job.progress.state)

    async def main():
        for _ in range(5):
            Watcher(tiny)
            box = []
            coroutine = reader(box)
            coroutine.send(None)  # stays where it is, as a task does that nobody holds
            box.append(coroutine)
            del box, coroutine
            gc.collect()

    asyncio.run(main())
    assert len(said) == 10


def test_collections_do_not_end_who_waits(tiny_model):
    """Tasks of which nobody keeps a reference: the loop does, as for its sockets."""
    async def main():
        with quipu.Generator(tiny_model, max_jobs=1) as generator:
            blocker = generator.job("hello", max_unread=1, ignore_eos=True)
            done = []

            async def read():
                done.append(await generator.agenerate("hello", max_new_tokens=2, ignore_eos=True))

            for _ in range(5):
                asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(read()) and None)
            for _ in range(5):
                await asyncio.sleep(0.01)
                gc.collect()
            await blocker.cancel()
            for _ in range(1000):
                await asyncio.sleep(LONG / 1000)
                if len(done) == 5:
                    break
            assert [len(each.ids) for each in done] == [2] * 5

    asyncio.run(main())


def test_reference_cycles_are_collected(tiny_model):
    class Cyclic(quipu.Filter):
        def __init__(self, generator):
            self.generator = generator
            self.job = None

        def allowed(self):
            gc.collect()  # on the engine's thread
            return None

        def accept(self, id):
            pass

    seen = []
    for _ in range(5):
        generator = quipu.Generator(tiny_model)
        filter = Cyclic(generator)
        filter.job = generator.job("hello", filters=[filter], ignore_eos=True)
        generator.own = [generator, filter]
        seen += [weakref.ref(generator), weakref.ref(filter.job)]
        filter.job.next()
        filter.job.cancel()
        del generator, filter
    wait_until(lambda: gc.collect() is not None and not any(ref() for ref in seen))


SCRIPTS = {
    "jobs that run": """
        jobs = [generator.job("hello", ignore_eos=True) for _ in range(20)]
        jobs[0].next()
    """,
    "a filter in Python at work": """
        class Slow(quipu.Filter):
            def allowed(self):
                time.sleep(0.001)
            def accept(self, id):
                pass
        job = generator.job("hello", filters=[Slow()], ignore_eos=True)
        job.next()
    """,
    "a daemon thread that waits": """
        job = generator.job("hello", ignore_eos=True, max_unread=1)
        threading.Thread(target=lambda: [time.sleep(0.001) for _ in job], daemon=True).start()
        time.sleep(0.05)
    """,
    "a thread that reads to the end": """
        threading.Thread(target=lambda: print(len(generator.generate("hello", max_new_tokens=300,
            ignore_eos=True).ids))).start()
    """,
    "a loop that is abandoned": """
        async def main():
            job = generator.job("hello", ignore_eos=True)
            async for event in job:
                os_exit = sys.exit(0)
        try:
            asyncio.run(main())
        except SystemExit:
            pass
    """,
    "a loop that is not closed": """
        loop = asyncio.new_event_loop()
        job = generator.job("hello", ignore_eos=True)
        loop.run_until_complete(job.next_async())
        sys.unraisablehook = lambda *_: None
    """,
    "an error that nobody catches": """
        sys.excepthook = lambda *_: None
        for event in generator.job("hello", ignore_eos=True):
            raise KeyError
    """,
    "a fork": """
        job = generator.job("hello", ignore_eos=True)
        job.next()
        child = os.fork()
        if child == 0:
            try:
                generator.job("hello")
            except RuntimeError as why:
                assert "fork" in str(why)
            else:
                os._exit(3)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """,
}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_interpreter_ends(name, tmp_path):
    """With a status, soon, and without a word on stderr."""
    head = f"""
        import asyncio, os, sys, threading, time
        import quipu
        model = quipu.Model({str(TINY)!r}, threads=1)
        generator = quipu.Generator(model)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(head) + textwrap.dedent(SCRIPTS[name]) + "print('the end')\n")
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]  # 3.12 warns of every fork with threads
    ran = subprocess.run(command, capture_output=True, text=True, timeout=LONG, check=False)
    assert ran.stderr == "" and ran.returncode == (1 if "nobody" in name else 0)
    assert ran.stdout.rstrip().endswith(("the end", "300")) or ran.returncode
