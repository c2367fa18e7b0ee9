#!/usr/bin/env python3
"""What does the server cost beside the engine? CPU of its own threads per token, gaps between tokens, idle connections.

usage: server_load.py PROGRAM [--streams 256] [--tokens 128] [--idle 1000] [--requests 0] [--temperature 1]
       [-- options of quipu serve]

Streams: all at once on the demo model, each to its end; the client is one thread over epoll. The server's threads are
told from the engine's by their names. The gaps are those that the client sees, so a busy machine shows in them.
"""
import argparse
import json
import os
import re
import resource
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

OWN = ("MHD-single", "quipu-pump", "quipu-worker", "quipu-conns")
PROMPT = "Once upon a time there was a king who had three sons. "


class Server:
    def __init__(self, program, options, model="models/demo"):
        self.folder = tempfile.TemporaryDirectory(prefix="quipu-bench-")
        self.log = os.path.join(self.folder.name, "log")
        self.process = subprocess.Popen([program, "serve", "-m", os.path.abspath(model), "--port", "0",
                                         "--disable-auth", "--log-level", "info", *options],
                                        stderr=open(self.log, "wb"), cwd=self.folder.name)
        self.port = None
        while self.port is None or "ready" not in self.text():
            found = re.search(r"http://[^:]+:(\d+)", self.text())
            self.port = int(found.group(1)) if found else None
            if self.process.poll() is not None:
                sys.exit(self.text())
            time.sleep(0.02)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def threads(self):
        """{name: seconds of CPU}, in nanoseconds' precision"""
        used = {}
        base = "/proc/%d/task" % self.process.pid
        for task in os.listdir(base):
            with open("%s/%s/comm" % (base, task), encoding="ascii") as file:
                name = file.read().strip()
            with open("%s/%s/schedstat" % (base, task), encoding="ascii") as file:
                used[name] = used.get(name, 0) + int(file.read().split()[0]) / 1e9
        return used

    def resident(self):
        with open("/proc/%d/statm" % self.process.pid, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def get(self, path):
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % path.encode())
            data = b""
            while True:
                part = s.recv(65536)
                if not part:
                    return data
                data += part

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.folder.cleanup()
        return status


def request(tokens, i, temperature, stream=True):
    body = json.dumps({"prompt": "%s %d" % (PROMPT, i), "max_tokens": tokens, "stream": stream, "ignore_eos": True,
                       "temperature": temperature, "seed": i}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)) + body


def run_streams(server, n, tokens, temperature):
    watch = selectors.DefaultSelector()
    times, tails, failed, reads = {}, {}, 0, 0
    for i in range(n):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(request(tokens, i, temperature))
        s.setblocking(False)
        watch.register(s, selectors.EVENT_READ, i)
        times[i], tails[i] = [], b""
    while watch.get_map():
        for key, _ in watch.select():
            data = key.fileobj.recv(65536)
            now = time.monotonic()
            i = key.data
            reads += 1
            text = tails[i] + data
            times[i] += [now] * (data.count(b"data: {"))
            tails[i] = text[-64:]
            if text.endswith(b"0\r\n\r\n") or not data:
                failed += b"[DONE]" not in text
                watch.unregister(key.fileobj)
                key.fileobj.close()
    return times, failed, reads


def summary(values):
    values = sorted(values)
    return values[len(values) // 2], values[int(len(values) * 0.99)], values[-1]


def bench_streams(server, n, tokens, temperature):
    run_streams(server, min(n, 16), 8, temperature)
    before, began = server.threads(), time.monotonic()
    times, failed, reads = run_streams(server, n, tokens, temperature)
    took, after = time.monotonic() - began, server.threads()
    cost = {name: after[name] - before.get(name, 0) for name in after}
    own = sum(cost.get(name, 0) for name in OWN)
    events = sum(len(t) for t in times.values())
    made = n * tokens
    all_began, one_ended = max(t[1] for t in times.values()), min(t[-2] for t in times.values())
    pairs = [(a, b) for t in times.values() for a, b in zip(t[1:-2], t[2:-1])]
    median, p99, worst = summary([b - a for a, b in pairs])
    print("streams %d x %d tokens: %.1f tok/s, failed %d, events %d, reads %d" %
          (n, tokens, made / took, failed, events, reads))
    print("server CPU %.2f us/token (%s); engine and its helpers %.2f us/token" %
          (own / made * 1e6, ", ".join("%s %.2f" % (name, cost.get(name, 0) / made * 1e6) for name in OWN),
           (sum(cost.values()) - own) / made * 1e6))
    print("gaps: median %.2f ms, p99 %.2f ms (%.2fx), max %.2f ms; memory %.1f MB" %
          (median * 1e3, p99 * 1e3, p99 / median, worst * 1e3, server.resident() / 1e6))
    steady = [b - a for a, b in pairs if a >= all_began and b <= one_ended]
    if steady:
        median, p99, worst = summary(steady)
        print("while all run: %.1f tok/s, median %.2f ms, p99 %.2f ms (%.2fx), max %.2f ms" %
              (len(steady) / (one_ended - all_began), median * 1e3, p99 * 1e3, p99 / median, worst * 1e3))


def bench_idle(server, n, is_used):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    before = server.resident()
    held = []
    for _ in range(n):
        s = socket.create_connection(("127.0.0.1", server.port))
        if is_used:
            s.sendall(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            s.recv(4096)
        held.append(s)
    time.sleep(1)
    after = server.resident()
    before_cpu = sum(server.threads().values())
    time.sleep(2)
    used = (sum(server.threads().values()) - before_cpu) / 2
    more = after - before
    print("idle connections %d, %s: %.1f MB more, %.2f KB each; %.2f %% of a core" %
          (n, "each used once" if is_used else "never used", more / 1e6, more / n / 1e3, used * 100))
    began = time.monotonic()
    server.get("/health/live")
    print("a further connection is answered after %.1f ms" % ((time.monotonic() - began) * 1e3))
    for s in held:
        s.close()


def bench_requests(server, n):
    times, memory = [], 0
    s = socket.create_connection(("127.0.0.1", server.port))
    for i in range(n):
        began = time.monotonic()
        s.sendall(request(2, i % 50, 1.0, False))
        data = s.recv(65536)
        if not data.startswith(b"HTTP/1.1 200"):
            sys.exit("request %d: %r" % (i, data[:300]))
        times.append(time.monotonic() - began)
        if i == min(500, n // 10):
            memory = server.resident()
    tenth = max(n // 10, 1)
    print("%d requests: median of the first tenth %.3f ms, of the last %.3f ms; memory %+.2f MB since the first %d" %
          (n, statistics.median(times[5:tenth + 5]) * 1e3, statistics.median(times[-tenth:]) * 1e3,
           (server.resident() - memory) / 1e6, min(500, n // 10)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("program")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--idle", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("options", nargs="*", help="after --: options of quipu serve")
    own, _, options = " ".join(sys.argv[1:]).partition(" -- ")
    args = parser.parse_args(own.split())
    args.options = options.split()
    server = Server(os.path.abspath(args.program), ["--max-connections", "20000", "--context", "98304",
                                                    *args.options])
    if args.streams:
        bench_streams(server, args.streams, args.tokens, args.temperature)
    if args.requests:
        bench_requests(server, args.requests)
    if args.idle:
        bench_idle(server, args.idle, False)
        bench_idle(server, args.idle, True)
    print("exit status %d" % server.end())


if __name__ == "__main__":
    main()
