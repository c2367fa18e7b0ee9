"""What the tests of the server share: a server that is started and ended in good order, raw requests, streams.

Only the standard library is used, so that bytes are what the test says they are."""
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

DEMO = os.path.abspath("models/demo")
API, ADMIN = "a" * 32, "b" * 32


class Server:
    """A quipu serve on a port of its own, with keys of the test's choosing unless auth=False."""

    def __init__(self, program, *options, auth=True, model=DEMO, config=None):
        self.folder = tempfile.mkdtemp(prefix="quipu-test-")
        self.keys = os.path.join(self.folder, "api_tokens.yml")
        self.auth = auth
        if auth:
            with open(self.keys, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
                file.write("api_key: [%s, %s]\nadmin_key: %s\n" % (API, "c" * 32, ADMIN))
        self.log_path = os.path.join(self.folder, "log")
        command = [program, "serve", "--port", "0", "--log-format", "json", "--keys-file", self.keys]
        if model:
            command += ["-m", model]
        if not auth:
            command.append("--disable-auth")
        if config is not None:
            path = os.path.join(self.folder, "quipu.yml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(config)
            command += ["--config", path]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("QUIPU_")}
        self.log_file = open(self.log_path, "wb")
        self.process = subprocess.Popen(command + list(options), stderr=self.log_file, stdout=subprocess.DEVNULL,
                                        cwd=self.folder, env=clean)
        self.port = self.wait_port()
        if "--no-model" not in options:
            self.wait_ready()

    @contextlib.contextmanager
    def halted(self):
        """The process does nothing meanwhile."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def events(self, name):
        """The log's events of one kind."""
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]
        return [line for line in lines if line.get("event") == name]

    def wait_port(self):
        for _ in range(600):
            found = re.search(r"listening on http://[^:]+:(\d+)", self.log())
            if found:
                return int(found.group(1))
            if self.process.poll() is not None:
                raise AssertionError("the server ended: " + self.log())
            time.sleep(0.02)
        raise AssertionError("the server does not listen: " + self.log())

    def wait_ready(self, seconds=60):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.get("/health")[0] == 200:
                return
            if self.process.poll() is not None:
                raise AssertionError("the server ended: " + self.log())
            time.sleep(0.02)
        raise AssertionError("the server is not ready: " + self.log())

    def connect(self, timeout=30):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method, path, body=None, key=API, headers=None, timeout=60):
        """(status, headers, bytes)"""
        connection = self.connect(timeout)
        wanted = dict(headers or {})
        if key:
            wanted.setdefault("Authorization", "Bearer " + key)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, wanted)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path, key=API, headers=None):
        return self.ask("GET", path, None, key, headers)

    def post(self, path, body, key=API, headers=None, timeout=60):
        return self.ask("POST", path, body, key, headers, timeout)

    def json(self, method, path, body=None, key=API):
        status, _, data = self.ask(method, path, body, key)
        if status != 200:
            raise AssertionError("%s %s: %d %s" % (method, path, status, data[:500]))
        return json.loads(data)

    def metrics(self):
        """{name or name{labels}: value}, of our names, the label model_name left out"""
        values = {}
        for line in self.get("/metrics")[2].decode().splitlines():
            if line.startswith("#"):
                continue
            name, value = line.rsplit(" ", 1)
            name = re.sub(r'model_name="[^"]*",?', "", name).replace("{}", "").replace(",}", "}")
            values[name] = float(value)
        return values

    def metric(self, name):
        return self.metrics()["quipu_" + name]

    def raw(self, data, timeout=10):
        """Sends bytes and reads until the server closes or nothing comes for `timeout`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            return read_all(s)

    def open_stream(self, path="/v1/completions", receive_buffer=None, **fields):
        """A socket on which the answer to this request will come."""
        body = json.dumps(fields).encode()
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(60)
        s.connect(("127.0.0.1", self.port))
        head = "POST %s HTTP/1.1\r\nHost: localhost\r\nx-api-key: %s\r\nContent-Length: %d\r\n\r\n" % (path, API,
                                                                                                      len(body))
        s.sendall(head.encode() + body)
        return s

    def threads(self):
        """Names of its threads but the engine's own helpers, which come when the first large batch does."""
        names = []
        for task in os.listdir("/proc/%d/task" % self.process.pid):
            with open("/proc/%d/task/%s/comm" % (self.process.pid, task), encoding="ascii") as file:
                names.append(file.read().strip())
        return sorted(n for n in names if not re.fullmatch(r"quipu-\d+", n))

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.process.pid))

    def resident(self):
        with open("/proc/%d/statm" % self.process.pid, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def is_sanitized(self):
        """Sanitizers keep what was freed for a while, so the memory of such a build says nothing."""
        with open("/proc/%d/maps" % self.process.pid, encoding="utf-8") as file:
            return re.search(r"lib(asan|tsan)", file.read()) is not None

    def cpu(self):
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, how=signal.SIGTERM, seconds=60):
        """Ends it and gives its status; what it wrote stays readable until close()."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server does not end: " + self.log()[-2000:])

    def end_well(self):
        """Ends it and frees its folder; an end in bad order is an error that shows the log's end."""
        try:
            assert self.end() == 0, self.log()[-2000:]
        finally:
            self.close()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log_file.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_all(s):
    parts = []
    try:
        while True:
            part = s.recv(65536)
            if not part:
                break
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)


def status_of(answer):
    """The status of raw bytes; 0 where they are no answer."""
    found = re.match(rb"HTTP/1\.[01] (\d{3}) ", answer)
    return int(found.group(1)) if found else 0


def unchunk(data):
    """(body, is complete) of a chunked body."""
    body = b""
    while True:
        end = data.find(b"\r\n")
        if end < 0:
            return body, False
        size = int(data[:end], 16)
        if not size:
            return body, True
        if len(data) < end + 2 + size + 2:
            return body, False
        body += data[end + 2:end + 2 + size]
        data = data[end + 2 + size + 2:]


def wait_until(condition, seconds=10, step=0.005):
    """Seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError("it did not come true within %g s" % seconds)
        time.sleep(step)
    return time.monotonic() - began


def is_quiet(server):
    m = server.metrics()
    return m["quipu_requests_running"] == 0 and m["quipu_requests_waiting"] == 0


def run(module_globals):
    """main of a test file: PROGRAM FIXTURES [unittest options]"""
    module_globals["PROGRAM"] = os.path.abspath(sys.argv[1])
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:], module=module_globals["__name__"])
