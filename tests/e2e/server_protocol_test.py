#!/usr/bin/env python3
"""HTTP as the server speaks it: keys, limits, malformed requests, CORS, error objects, connections that are kept.
Acceptance tests T1-T6, T10 and T13 of the server's specification.

usage: server_protocol_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import socket
import time
import unittest

from server_kit import ADMIN, API, Server, read_all, run, status_of, unchunk, wait_until

PROGRAM = ""
ERROR_MEMBERS = {"message", "type", "param", "code"}


def error_of(data):
    document = json.loads(data)
    assert set(document) == {"error"} and set(document["error"]) == ERROR_MEMBERS, data
    return document["error"]


class Protocol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--max-body-bytes", "200000", "--max-header-bytes", "16384", "--header-timeout",
                            "1", "--body-timeout", "1", "--keep-alive-timeout", "2", "--sse-ping-interval", "0.3")

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        log = cls.server.log()
        cls.server.close()
        assert status == 0, status
        assert API not in log and ADMIN not in log, "a key is in the log"

    # ---- T1: keys ----

    ROUTES = [  # method, path, body, status with an api key, status with the admin key
        ("GET", "/health/live", None, 200, 200), ("GET", "/health", None, 200, 200),
        ("GET", "/health/ready", None, 200, 200), ("GET", "/v1/health", None, 200, 200),
        ("GET", "/metrics", None, 200, 200), ("GET", "/.well-known/serviceinfo", None, 200, 200),
        ("GET", "/v1/models", None, 200, 200), ("GET", "/models", None, 200, 200),
        ("GET", "/v1/models/demo", None, 200, 200), ("GET", "/v1/models/nothing", None, 404, 404),
        ("GET", "/v1/model", None, 200, 200), ("GET", "/v1/model/", None, 200, 200),
        ("GET", "/v1/model/list", None, 200, 200), ("GET", "/v1/model/draft/list", None, 200, 200),
        ("POST", "/v1/model/load", {"model_name": "../x"}, 403, 400),
        ("GET", "/v1/model/embedding", None, 200, 200), ("POST", "/v1/embeddings", {"input": "x"}, 200, 200),
        ("POST", "/embedding", {"content": "x"}, 200, 200), ("POST", "/rerank", {}, 501, 501),
        ("POST", "/v1/model/embedding/load", {}, 403, 501),
        ("POST", "/v1/token/encode", {"text": "x"}, 200, 200), ("POST", "/token/encode", {"text": "x"}, 200, 200),
        ("POST", "/v1/token/decode", {"tokens": [1]}, 200, 200), ("POST", "/tokenize", {"content": "x"}, 200, 200),
        ("POST", "/detokenize", {"tokens": [1]}, 200, 200),
        ("POST", "/apply-template", {"messages": [{"role": "user", "content": "x"}]}, 200, 200),
        ("GET", "/v1/lora", None, 200, 200), ("GET", "/v1/loras", None, 200, 200),
        ("POST", "/v1/lora/load", {}, 403, 400), ("POST", "/v1/lora/unload", {}, 403, 200),
        ("GET", "/v1/templates", None, 200, 200), ("GET", "/v1/template/list", None, 200, 200),
        ("POST", "/v1/template/switch", {}, 403, 400), ("GET", "/v1/sampling/overrides", None, 200, 200),
        ("GET", "/v1/sampling/override/list", None, 200, 200),
        ("POST", "/v1/sampling/override/switch", {}, 403, 400),
        ("POST", "/v1/sampling/override/unload", {}, 403, 200),
        ("GET", "/v1/auth/permission", None, 200, 200), ("GET", "/props", None, 200, 200),
        ("GET", "/slots", None, 200, 200), ("GET", "/v1/jobs", None, 200, 200),
        ("DELETE", "/v1/jobs/nothing", None, 404, 404),
        ("POST", "/admin/log-level", {"level": "loud"}, 403, 400), ("POST", "/v1/download", {}, 403, 501),
    ]
    OPEN = {"/health/live", "/health", "/health/ready", "/v1/health", "/metrics", "/.well-known/serviceinfo"}

    def test_T1_keys(self):
        for method, path, body, with_api, with_admin in self.ROUTES:
            with self.subTest(path):
                for key, wanted in (("", None), ("d" * 32, None), (API, with_api), (ADMIN, with_admin)):
                    status, headers, data = self.server.ask(method, path, body, key)
                    self.assertEqual(status, wanted or (200 if path in self.OPEN else 401), (key, data))
                    if status == 401:
                        self.assertEqual(headers["WWW-Authenticate"], "Bearer")
                        self.assertEqual(error_of(data)["type"], "authentication_error")
                    if status == 403:
                        self.assertEqual(error_of(data)["code"], "admin_required")
                    if status == 501:
                        self.assertEqual(headers["x-should-retry"], "false")

    def test_T1_key_headers(self):
        for headers, wanted in (({"x-api-key": API}, "api"), ({"x-admin-key": ADMIN}, "admin"),
                                ({"authorization": "bEaReR " + API}, "api"), ({"x-api-key": ADMIN}, "admin"),
                                ({"Authorization": "Bearer " + ADMIN}, "admin"),
                                ({"Authorization": API}, None), ({"Authorization": "Basic " + API}, None),
                                ({"x-api-key": API + "0"}, None), ({"x-api-key": API[:-1]}, None),
                                ({"x-api-key": ""}, None), ({"x-api-key": "a" * 5000}, None)):
            with self.subTest(str(headers)[:60]):
                status, _, data = self.server.get("/v1/auth/permission", None, headers)
                self.assertEqual(status, 200 if wanted else 401)
                if wanted:
                    self.assertEqual(json.loads(data), {"permission": wanted})
        for key in (API, ADMIN):
            self.assertNotIn(key, self.server.log(), "a key in the log")

    def test_lists_show_more_to_admin(self):
        self.assertEqual([m["id"] for m in self.server.json("GET", "/v1/models")["data"]], ["demo"])
        self.assertIn("chatml", self.server.json("GET", "/v1/templates", key=ADMIN)["data"])
        self.assertEqual(self.server.json("GET", "/v1/templates")["data"], ["from_model"])

    # ---- T2: limits ----

    def request(self, path="/v1/token/encode", headers="", body=b"", method="POST"):
        head = "%s %s HTTP/1.1\r\nHost: localhost\r\nx-api-key: %s\r\n%sContent-Length: %d\r\n\r\n"
        return (head % (method, path, API, headers, len(body))).encode() + body

    def test_T2_request_line(self):
        self.assertEqual(status_of(self.server.raw(self.request("/" + "x" * 8300, method="GET"))), 414)
        self.assertEqual(status_of(self.server.raw(self.request("/" + "x" * 7000, method="GET"), 0.5)), 404)

    def test_T2_headers(self):
        """Around every bound that there is, ours and the library's: always an answer, ours where it can be."""
        for size in (*range(15000, 21000, 250), 24576, 32500, 40000, 200000):
            for name, headers in (("one", "X-Big: %s\r\n" % ("x" * size)),
                                  ("many", "".join("X-%03d: %s\r\n" % (i, "y" * 91) for i in range(size // 100)))):
                with self.subTest(name, size=size):
                    answer = self.server.raw(self.request(headers=headers + "Connection: close\r\n", body=b"{}"))
                    if name == "one" and size < 15800:
                        self.assertEqual(status_of(answer), 400, "a header section that is allowed")
                        continue
                    self.assertEqual(status_of(answer), 431)
                    if name == "one" and size < 20000:
                        self.assertEqual(error_of(answer.split(b"\r\n\r\n", 1)[1])["code"], "request_too_large")

    def test_T2_body_refused_before_it_is_read(self):
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(b"POST /v1/token/encode HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\nContent-Length: 200001\r\n\r\n"
                      % API.encode())
            answer = read_all(s)
        self.assertEqual(status_of(answer), 413)
        self.assertEqual(error_of(answer.split(b"\r\n\r\n", 1)[1])["code"], "request_too_large")
        self.assertLess(time.monotonic() - began, 10)

    def test_T2_body_at_the_limit(self):
        text = b'{"text": "' + b"x" * (200000 - 12) + b'"}'
        self.assertEqual(len(text), 200000)
        self.assertEqual(self.server.post("/v1/token/encode", text)[0], 200)

    def test_T2_chunked_body_over_the_limit(self):
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        head = b"POST /v1/token/encode HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = self.server.raw(head % API.encode() + chunk * 10)
        self.assertEqual(status_of(answer), 413)
        self.assertEqual(self.server.post("/v1/token/encode", {"text": "x"})[0], 200)

    def test_T2_chunked_body(self):
        body = b'{"text": "Hello"}'
        head = b"POST /v1/token/encode HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\nConnection: close\r\n" \
               b"Transfer-Encoding: chunked\r\n\r\n"
        pieces = b"".join(b"1\r\n%c\r\n" % c for c in body)
        self.assertEqual(status_of(self.server.raw(head % API.encode() + pieces + b"0\r\n\r\n")), 200)

    def test_T2_json_depth_and_size(self):
        deep = b'{"text":' + b"[" * 300 + b"]" * 300 + b"}"
        wide = b'{"text":[' + b"1," * 90000 + b"1]}"  # under the limit of values: refused for what it is
        for body, part in ((deep, "deeper than 256"), (wide, "element 0")):
            status, _, data = self.server.post("/v1/token/encode", body)
            self.assertEqual(status, 400, data)
            self.assertIn(part, error_of(data)["message"])

    def test_T2_slow_headers(self):
        """A slow loris: a byte now and then keeps no connection."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            began = time.monotonic()
            s.sendall(b"GET /health HTTP/1.1\r\n")
            answer = b""
            s.settimeout(0.2)
            while time.monotonic() - began < 12:
                try:
                    s.sendall(b"X")
                    answer += s.recv(4096)
                    if answer:
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
            self.assertEqual(status_of(answer), 408)
            self.assertLess(time.monotonic() - began, 10)

    def test_T2_slow_body(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(self.request(body=b"x" * 100)[:-50])
            began = time.monotonic()
            answer = read_all(s)
            self.assertEqual(status_of(answer), 408)
            self.assertEqual(error_of(answer.split(b"\r\n\r\n", 1)[1])["code"], "request_timeout")
            self.assertLess(time.monotonic() - began, 10)

    def test_T2_a_refusal_reaches_who_still_sends(self):
        """What comes after a refusal is read for a while, then no more: no reset overtakes the answer."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            s.sendall(self.request(body=b"x" * 100)[:-50])
            wait_until(lambda: s.recv(12, socket.MSG_PEEK), 10)
            for _ in range(10):
                s.sendall(b"x")
                time.sleep(0.05)
            self.assertEqual(status_of(read_all(s)), 408)
            wait_until(lambda: self.server.metrics()["quipu_connections"] <= 1, 5)

    def test_T2_idle_connection(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as s:
            began = time.monotonic()
            self.assertEqual(read_all(s), b"")
            self.assertTrue(1.5 < time.monotonic() - began < 15)

    def test_T2_too_many_connections(self):
        small = Server(PROGRAM, "--max-connections", "4", "--no-model", model=None)
        try:
            held = [socket.create_connection(("127.0.0.1", small.port)) for _ in range(4)]
            time.sleep(0.3)
            answer = small.raw(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(status_of(answer), 503)
            self.assertRegex(answer, rb"Retry-After: [1-9]")
            for s in held:
                s.close()
            wait_until(lambda: small.get("/health/live")[0] == 200)
        finally:
            small.close()

    # ---- T3: malformed requests ----

    def test_T3_smuggling(self):
        k = b"x-api-key: " + API.encode() + b"\r\n"
        line = b"POST /v1/token/encode HTTP/1.1\r\n"
        host = b"Host: localhost\r\n"
        body = b'{"text":"x"}'
        n = b"%d" % len(body)
        hidden = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n" + k + b"\r\n"
        shapes = {
            "length and chunked": line + host + k + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "chunked and length": line + host + k + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
            "two lengths": line + host + k + b"Content-Length: " + n + b"\r\nContent-Length: 0\r\n\r\n" + body,
            "two equal lengths": line + host + k + (b"Content-Length: " + n + b"\r\n") * 2 + b"\r\n" + body,
            "list of lengths": line + host + k + b"Content-Length: 12, 12\r\n\r\n" + body,
            "negative length": line + host + k + b"Content-Length: -1\r\n\r\n" + body,
            "signed length": line + host + k + b"Content-Length: +12\r\n\r\n" + body,
            "hex length": line + host + k + b"Content-Length: 0xc\r\n\r\n" + body,
            "huge length": line + host + k + b"Content-Length: 99999999999999999999999\r\n\r\n" + body,
            "word length": line + host + k + b"Content-Length: twelve\r\n\r\n" + body,
            "empty length": line + host + k + b"Content-Length: \r\n\r\n" + body,
            "blank before the colon": line + host + k + b"Content-Length : 5\r\n\r\n" + hidden,
            "tab before the colon": line + host + k + b"Content-Length\t: 5\r\n\r\n" + hidden,
            "blank in a name": line + host + k + b"Content Length: 5\r\n\r\n" + body,
            "unknown coding": line + host + k + b"Transfer-Encoding: gzip\r\n\r\n" + body,
            "two codings": line + host + k + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "chunked twice": line + host + k + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n",
            "chunked with a blank": line + host + k + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            "bad chunk size": line + host + k + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n\r\n",
            "negative chunk size": line + host + k + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
            "no host": line + k + b"Content-Length: 0\r\n\r\n",
            "two hosts": line + host + b"Host: other\r\n" + k + b"Content-Length: 0\r\n\r\n",
            "control character": line + host + k + b"X-Bad: a\x01b\r\nContent-Length: 0\r\n\r\n",
            "no name": line + host + k + b": x\r\nContent-Length: 0\r\n\r\n",
            "nonsense": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n",
        }
        for name, data in shapes.items():
            with self.subTest(name):
                answer = self.server.raw(data, 2)
                self.assertNotIn(b" 200 ", answer.split(b"\r\n")[0])
                self.assertIn(status_of(answer), (400, 408, 413, 431, 0), answer[:200])
                self.assertNotIn(b'"object"', answer, "a hidden request was answered")
        self.assertEqual(self.server.get("/v1/models")[0], 200)

    def test_half_a_request(self):
        """Cut after every byte: the server stays well."""
        whole = self.request(body=b'{"text":"x"}')
        for n in range(0, len(whole), 3):
            with socket.create_connection(("127.0.0.1", self.server.port)) as s:
                s.sendall(whole[:n])
        self.assertEqual(self.server.post("/v1/token/encode", {"text": "x"})[0], 200)

    # ---- T4: CORS ----

    def test_T4_cors_with_keys(self):
        status, headers, _ = self.server.get("/v1/models", API, {"Origin": "http://page.example"})
        self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (200, "*"))
        self.assertIn("x-request-id", headers["Access-Control-Expose-Headers"])
        self.assertIsNone(headers["Access-Control-Allow-Credentials"])
        status, headers, data = self.server.ask("OPTIONS", "/v1/anything", None, None, {
            "Origin": "http://page.example", "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization, x-thing"})
        self.assertEqual((status, data), (200, b""))
        self.assertEqual(headers["Access-Control-Allow-Headers"], "authorization, x-thing")
        self.assertEqual(headers["Access-Control-Allow-Methods"], "GET, POST, DELETE, OPTIONS")
        self.assertEqual(headers["Access-Control-Max-Age"], "600")
        _, headers, _ = self.server.get("/v1/models", "wrong", {"Origin": "http://page.example"})
        self.assertEqual(headers["Access-Control-Allow-Origin"], "*", "a page must be able to read the error")
        self.assertIsNone(self.server.get("/v1/models")[1]["Access-Control-Allow-Origin"])

    def test_T4_cors_and_host_without_keys(self):
        free = Server(PROGRAM, "--no-model", "--allowed-hosts", "llm.lan", model=None, auth=False)
        try:
            for host, wanted in (("localhost", 200), ("127.0.0.1:%d" % free.port, 200), ("[::1]:5000", 200),
                                 ("LLM.lan:80", 200), ("evil.example", 403), ("localhost.evil.example", 403),
                                 ("127.0.0.1.evil.example", 403)):
                status, _, data = free.get("/v1/models", None, {"Host": host})
                self.assertEqual(status, wanted, host)
                if status == 403:
                    self.assertEqual(error_of(data)["code"], "bad_host")
            for origin, wanted in (("http://localhost:3000", "http://localhost:3000"), ("http://evil.example", None)):
                _, headers, _ = free.get("/v1/models", None, {"Origin": origin})
                self.assertEqual(headers["Access-Control-Allow-Origin"], wanted)
                self.assertEqual(headers["Vary"], "Origin")
            self.assertEqual(free.json("GET", "/v1/auth/permission", key=None), {"permission": "admin"})
        finally:
            free.close()

    def test_T4_cors_with_a_list(self):
        some = Server(PROGRAM, "--no-model", "--cors-origins", "http://a.example,http://b.example", model=None)
        try:
            for origin, wanted in (("http://b.example", "http://b.example"), ("http://c.example", None)):
                _, headers, _ = some.get("/v1/models", API, {"Origin": origin})
                self.assertEqual(headers["Access-Control-Allow-Origin"], wanted)
        finally:
            some.close()

    # ---- T5: error objects ----

    BAD_BODIES = [  # path, body, what the message names
        ("/v1/token/encode", b"", "empty"), ("/v1/token/encode", b"{", "byte"), ("/v1/token/encode", b"[1]", "array"),
        ("/v1/token/encode", b"{}", "text"), ("/v1/token/encode", b'{"text":5}', "text"),
        ("/v1/token/encode", b'{"text":null}', "text"), ("/v1/token/encode", b'{"text":"\xff"}', "byte"),
        ("/v1/token/encode", b'{"text":"x","add_bos_token":"maybe"}', "add_bos_token"),
        ("/v1/token/encode", b'{"text":"\\ud800"}', "byte"), ("/v1/token/encode", b'{"text":"x"} x', "byte"),
        ("/v1/token/encode", b'nul', "byte"), ("/v1/token/encode", b'"text"', "string"),
        ("/v1/token/encode", b'{"text":"x",}', "byte"), ("/v1/token/encode", b"\x00", "byte"),
        ("/v1/token/decode", b"{}", "tokens"), ("/v1/token/decode", b'{"tokens":[-1]}', "tokens[0]"),
        ("/v1/token/decode", b'{"tokens":[1,99999999]}', "tokens[1]"),
        ("/v1/token/decode", b'{"tokens":["1"]}', "tokens[0]"), ("/v1/token/decode", b'{"tokens":1}', "tokens"),
        ("/tokenize", b"{}", "content"), ("/tokenize", b'{"content":"x","add_special":3}', "add_special"),
        ("/detokenize", b'{"tokens":{}}', "tokens"), ("/apply-template", b"{}", "messages"),
        ("/apply-template", b'{"messages":"hi"}', "messages"),
        ("/v1/model/load", b"{}", "model_name"), ("/v1/model/load", b'{"model_name":"a/b"}', "model_name"),
        ("/v1/model/load", b'{"model_name":"nothing"}', "model_name"),
        ("/v1/model/load", b'{"model_name":["demo"]}', "model_name"),
        ("/v1/template/switch", b'{"prompt_template_name":"../../etc/passwd"}', "passwd"),
        ("/v1/template/switch", b'{"prompt_template_name":"nothing"}', "nothing"),
        ("/v1/sampling/override/switch", b'{"preset":"nothing"}', "nothing"),
        ("/v1/sampling/override/switch", b'{"overrides":{"model":{"override":"x"}}}', "model"),
        ("/v1/sampling/override/switch", b'{"overrides":{"top_p":0.5}}', "top_p"),
        ("/admin/log-level", b'{"level":"loud"}', "level"),
    ]

    def test_T5_error_objects(self):
        self.assertGreaterEqual(len(self.BAD_BODIES), 30)
        for path, body, part in self.BAD_BODIES:
            with self.subTest(path=path, body=body):
                status, headers, data = self.server.post(path, body, ADMIN)
                self.assertEqual(status, 400, data)
                self.assertEqual(headers["Content-Type"], "application/json")
                error = error_of(data)
                self.assertEqual(error["type"], "invalid_request_error")
                self.assertIn(part, error["message"])

    def test_unknown_paths_and_methods(self):
        for method, path, status, allow in (("GET", "/v1/nothing", 404, None), ("POST", "/v1/models", 405, "GET"),
                                            ("GET", "/v1/token/encode", 405, "POST"), ("PUT", "/v1/models", 405, "GET"),
                                            ("DELETE", "/v1/jobs", 405, "GET"), ("GET", "/v1/jobs/x", 405, "DELETE")):
            with self.subTest(path):
                got, headers, data = self.server.ask(method, path)
                self.assertEqual((got, headers["Allow"]), (status, allow))
                error_of(data)

    def test_head(self):
        status, headers, data = self.server.ask("HEAD", "/v1/models")
        self.assertEqual((status, data), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 10)

    def test_headers_of_every_answer(self):
        for path in ("/v1/models", "/nothing", "/metrics"):
            _, headers, _ = self.server.get(path, API, {"X-Request-Id": "my.id:1_2-3"})
            self.assertEqual((headers["x-request-id"], headers["request-id"]), ("my.id:1_2-3",) * 2)
            self.assertRegex(headers["Server"], r"^quipu/\d")
            self.assertIsNotNone(headers["Date"])
        for bad in ("two words", "x" * 129, "semi;colon", ""):
            _, headers, _ = self.server.get("/v1/models", API, {"X-Request-Id": bad})
            self.assertRegex(headers["x-request-id"], "^[0-9a-f]{32}$")

    def test_http_1_0(self):
        answer = self.server.raw(b"GET /health/live HTTP/1.0\r\n\r\n")
        self.assertEqual(status_of(answer), 200)
        self.assertTrue(answer.endswith(b'{"status":"alive"}'))

    def test_expect_continue(self):
        head = ("POST /v1/token/encode HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\nExpect: 100-continue\r\n"
                "Content-Length: %d\r\n\r\n")
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=5) as s:
            s.sendall((head % (API, 12)).encode())
            self.assertIn(b"100 Continue", s.recv(4096))
            s.sendall(b'{"text":"x"}')
            self.assertEqual(status_of(s.recv(4096)), 200)
        answer = self.server.raw((head % ("wrong", 12)).encode(), 5)
        self.assertEqual(status_of(answer), 401)  # and nothing of the body was asked for
        self.assertEqual(status_of(self.server.raw((head % (API, 300000)).encode(), 5)), 413)

    # ---- T6: one connection for many requests ----

    def test_T6_keep_alive(self):
        connection = self.server.connect()
        connection.connect()
        own = connection.sock.getsockname()
        for i in range(1000):
            path = ("/health/live", "/v1/models", "/nothing", "/v1/token/encode")[i % 4]
            body = b'{"text":"x"}' if i % 4 == 3 else None
            connection.request("POST" if body else "GET", path, body, {"x-api-key": API})
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, 404 if path == "/nothing" else 200)
            self.assertEqual(connection.sock.getsockname(), own)
        connection.close()

    def test_T6_error_keeps_the_connection(self):
        """A refused request is read to its end, so that the next on the connection is answered."""
        connection = self.server.connect()
        for key, wanted in (("wrong", 401), (API, 200), ("wrong", 401), (API, 200)):
            connection.request("POST", "/v1/token/encode", json.dumps({"text": "x" * 50000}), {"x-api-key": key})
            answer = connection.getresponse()
            answer.read()
            self.assertEqual(answer.status, wanted)
        connection.close()

    def test_pipelined(self):
        one = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = self.server.raw(one * 5, 0.5)
        self.assertEqual(answer.count(b'{"status":"alive"}'), 5)

    # ---- T10, T13: streams ----

    def stream(self, **fields):
        with self.server.open_stream(stream=True, temperature=0, ignore_eos=True, **fields) as s:
            data = b""
            while True:
                part = s.recv(65536)
                data += part
                head, _, rest = data.partition(b"\r\n\r\n")
                if not part or rest.endswith(b"0\r\n\r\n"):
                    return head, rest

    def test_T10_bytes_of_a_stream(self):
        head, rest = self.stream(prompt="Once upon a time", max_tokens=20)
        self.assertEqual(status_of(head + b"\r\n"), 200)
        self.assertIn(b"Content-Type: text/event-stream; charset=utf-8", head)
        self.assertIn(b"Cache-Control: no-cache, no-transform", head)
        self.assertIn(b"X-Accel-Buffering: no", head)
        body, is_whole = unchunk(rest)
        self.assertTrue(is_whole)
        self.assertTrue(body.endswith(b"data: [DONE]\n\n"))
        events = body.decode().split("\n\n")
        self.assertEqual(events.pop(), "")
        self.assertEqual(events.pop(), "data: [DONE]")
        ids = set()
        for event in events:
            if event.startswith(":"):
                continue
            self.assertTrue(event.startswith("data: ") and "\n" not in event, event)
            ids.add(json.loads(event[6:])["id"])
        self.assertEqual(len(ids), 1)
        self.assertGreater(len(events), 5)

    def test_T10_each_event_is_one_chunk(self):
        _, rest = self.stream(prompt="Once upon a time", max_tokens=20)
        at = 0
        while rest[at:at + 1] != b"0":
            end = rest.index(b"\r\n", at)
            size = int(rest[at:end], 16)
            chunk = rest[end + 2:end + 2 + size]
            self.assertTrue(chunk.endswith(b"\n\n"))
            self.assertEqual(chunk.count(b"\n\n"), 1)
            at = end + 2 + size + 2

    def test_T13_pings_while_queued(self):
        """One job at a time: the second waits, and is told that it is alive; none where tokens flow."""
        one = Server(PROGRAM, "--max-batch-size", "1", "--sse-ping-interval", "0.2")
        try:
            with one.open_stream(stream=True, prompt="x", max_tokens=1500, ignore_eos=True) as first:
                first.recv(1)
                with one.open_stream(stream=True, prompt="y", max_tokens=4, ignore_eos=True) as second:
                    waiting = second.recv(4096)
                    self.assertIn(b"200", waiting.split(b"\r\n")[0])
                    seen = waiting
                    while b": ping\n\n" not in seen:
                        seen += second.recv(4096)
                flowing = b""
                while b": ping" not in flowing and len(flowing) < 20000:
                    flowing += first.recv(4096)
                self.assertNotIn(b": ping", flowing)
            self.assertGreater(one.metric("sse_pings_total"), 0)
        finally:
            one.close()


if __name__ == "__main__":
    run(globals())
