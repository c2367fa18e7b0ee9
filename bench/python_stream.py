#!/usr/bin/env python3
"""How evenly and how cheaply text goes through Python: the scenarios of docs/python.md, each a line.

usage: python_stream.py [MODEL] [SMALL_MODEL] [THREADS]     with the quipu package, fastapi and uvicorn installed
"""
import asyncio
import http.client
import multiprocessing
import os
import socket
import statistics
import sys
import threading
import time

import quipu

N = 300


def quantile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def client(port, n, send):
    """Another process: when each event came, and when its token was made (the clock is the machine's)."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", f"/?n={n}")
    response = connection.getresponse()
    seen = []
    while line := response.readline():
        seen.append((time.monotonic(), float(line)))
    send.send(seen)


def serve(generator):
    import uvicorn
    from fastapi import FastAPI
    from fastapi.responses import StreamingResponse

    app = FastAPI()

    async def layer(n, depth):
        if depth:
            async for line in layer(n, depth - 1):
                yield line
            return
        async for event in generator.job("Once upon a time", quipu.Settings(), max_new_tokens=n, ignore_eos=True):
            if event.kind == "text":
                yield f"{event.generated_at}\n"

    @app.get("/")
    async def stream(n: int):
        return StreamingResponse(layer(n, 3), media_type="text/plain")

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return port, server


def over_http(generator):
    port, server = serve(generator)
    for number in range(4):
        receive, send = multiprocessing.Pipe(False)
        process = multiprocessing.get_context("spawn").Process(target=client, args=(port, N, send))
        process.start()
        seen = receive.recv()
        process.join()
        came, made = [a for a, _ in seen], [b for _, b in seen]
        gaps = [b - a for a, b in zip(came, came[1:])]
        engine = [b - a for a, b in zip(made, made[1:])]
        median = statistics.median(engine)
        print(f"http, 3 layers, run {number}: engine gap median {1e3 * median:.2f} ms p99 "
              f"{1e3 * quantile(engine, .99):.2f}; client gap median {1e3 * statistics.median(gaps):.2f} p99 "
              f"{1e3 * quantile(gaps, .99):.2f} = {quantile(gaps, .99) / median:.2f} x; first text after "
              f"{1e3 * (came[0] - made[0]):.2f} ms; lag median {1e3 * statistics.median(map(lag, seen)):.2f} p99 "
              f"{1e3 * quantile(list(map(lag, seen)), .99):.2f}; {len(seen)} events for {N} tokens, last 8 gaps mean "
              f"{1e3 * (came[-1] - came[-9]) / 8:.2f}", flush=True)
    server.should_exit = True


def lag(pair):
    return pair[0] - pair[1]


async def one_stream(generator, n):
    """CPU seconds of the loop's thread for each event, and how many there were."""
    n_events, start = 0, time.thread_time()
    async for _ in generator.job("hello", quipu.Settings(), max_new_tokens=n, ignore_eos=True):
        n_events += 1
    return (time.thread_time() - start) / n_events, n_events


async def bare_wakeups(generator, n):
    """The same job, and of asyncio the least that can hear of it: a descriptor, a callback, a future. Nobody reads."""
    loop, job = asyncio.get_running_loop(), generator.job("hello", quipu.Settings(), max_new_tokens=n, ignore_eos=True)
    watch, future, has_ended = quipu.hub.Watch(), None, False
    watch.attach(job)
    follow, pointer, out = quipu._native.lib.qp_watch_next, watch._watch, watch._user_out
    descriptor = quipu._native.lib.qp_watch_descriptor(pointer)

    def ready():
        follow(pointer, 0.0, out)  # the descriptor is unreadable again
        if future and not future.done():
            future.set_result(None)

    def look():
        nonlocal has_ended
        if job.progress.state != "ended":
            return loop.call_later(0.03, look)
        has_ended = True
        if not future.done():
            future.set_result(None)

    loop.add_reader(descriptor, ready)
    loop.call_later(0.03, look)
    n_wakeups, start = 0, time.thread_time()
    while not has_ended:
        future = loop.create_future()
        await future
        n_wakeups += 1
    spent = time.thread_time() - start
    loop.remove_reader(descriptor)
    return spent / n_wakeups, n_wakeups


def overhead(small, tries=40, n=200):
    """In turns, so that what disturbs one disturbs the other."""
    bare, ours = [], []
    for _ in range(tries):
        bare.append(asyncio.run(bare_wakeups(small, n))[0])
        ours.append(asyncio.run(one_stream(small, n))[0])
    extra = statistics.median(b - a for a, b in zip(bare, ours))
    print(f"one stream, {tries} times {n} tokens: {1e6 * statistics.median(ours):.1f} µs of the loop's CPU time for "
          f"each event (least {1e6 * min(ours):.1f}); woken by asyncio alone {1e6 * statistics.median(bare):.1f} "
          f"(least {1e6 * min(bare):.1f}); difference {1e6 * extra:.1f}", flush=True)


def many_streams(small):
    async def main():
        start, cpu = time.perf_counter(), time.thread_time()
        jobs = [small.job("hello", quipu.Settings(seed=i), max_new_tokens=200, ignore_eos=True) for i in range(64)]

        async def read(job):
            return sum([len(event.ids) async for event in job])

        n = sum(await asyncio.gather(*(read(job) for job in jobs)))
        return n / (time.perf_counter() - start), 1e6 * (time.thread_time() - cpu) / n

    for number in range(3):
        rate, each = asyncio.run(main())
        print(f"64 streams on one loop, run {number}: {rate:.0f} tokens/s, {each:.1f} µs of CPU time for each token",
              flush=True)


def abandoned(small):
    async def request():
        start = time.perf_counter()
        seen = 0
        async for _ in small.job("hello there", max_new_tokens=400, ignore_eos=True):
            seen += 1
            if seen == 3:
                break
        return time.perf_counter() - start

    async def main():
        for _ in range(50):
            await request()
        return [await request() for _ in range(500)]

    for number in range(3):
        times = asyncio.run(main())
        time.sleep(0.2)
        first, last = statistics.median(times[:50]), statistics.median(times[-50:])
        print(f"500 abandoned requests, run {number}: first 50 {1e3 * first:.2f} ms, last 50 {1e3 * last:.2f} ms = "
              f"{last / first:.3f}; {small.stats.jobs_running} jobs survive", flush=True)


def filters(small):
    schema = {"type": "object", "properties": {f"key{i}": {"type": "string", "maxLength": 20} for i in range(10)}}
    times = []
    for _ in range(200):
        start = time.perf_counter()
        made, _ = quipu.filters.fill_filters([quipu.json_schema(schema)], small.model.tokenizer)
        times.append(time.perf_counter() - start)
        quipu.filters.drop_filters(made, 1)
    print(f"a filter for each request: first {1e3 * times[0]:.2f} ms, then median "
          f"{1e3 * statistics.median(times[1:]):.3f} p99 {1e3 * quantile(times[1:], .99):.3f} ms", flush=True)


def main():
    model = sys.argv[1] if len(sys.argv) > 1 else "models/demo"
    small_model = sys.argv[2] if len(sys.argv) > 2 else "tests/golden/models/complete-llama3"
    threads = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    small = quipu.Generator(quipu.Model(small_model, threads=1), cache_tokens=65536)
    print(f"load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}, threads {threads}")
    filters(small)
    overhead(small)
    many_streams(small)
    abandoned(small)
    over_http(quipu.Generator(quipu.Model(model, threads=threads), cache_tokens=8192))


if __name__ == "__main__":
    main()
