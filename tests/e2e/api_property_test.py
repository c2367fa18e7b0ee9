#!/usr/bin/env python3
"""Bodies made at random out of the server's own description, and broken ones: never a 5xx but 501, always the error
object, and afterwards the server is idle and answers as before.

QUIPU_SERVER_LONG=1 asks ten times as often.

usage: api_property_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import random
import unittest

from server_kit import ADMIN, Server, is_quiet, run, wait_until

PROGRAM = ""
TIMES = 10 if os.environ.get("QUIPU_SERVER_LONG") else 1
LEFT_OUT = {"/admin/drain", "/v1/model/unload", "/v1/model/load", "/v1/template/unload", "/v1/template/switch"}
HELLO = [{"role": "user", "content": "Hi"}]
GOOD = {
    "/v1/chat/completions": {"messages": HELLO, "max_tokens": 2},
    "/v1/completions": {"prompt": "Once", "max_tokens": 2},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 2},
    "/v1/responses/input_tokens": {"input": "Hi"},
    "/v1/messages": {"messages": HELLO, "max_tokens": 2},
    "/v1/messages/count_tokens": {"messages": HELLO},
    "/v1/token/encode": {"text": "Once upon"}, "/v1/token/decode": {"tokens": [1, 2]},
    "/tokenize": {"content": "Once"}, "/detokenize": {"tokens": [1]}, "/apply-template": {"messages": HELLO},
    "/completion": {"prompt": "Once", "n_predict": 2}, "/infill": {"input_prefix": "a", "n_predict": 2},
    "/api/v1/generate": {"prompt": "Once", "max_length": 2},
    "/api/extra/generate/stream": {"prompt": "Once", "max_length": 2},
}
TEXTS = ["", "x", "auto", "true", "-1", "1e400", "\u0000", "😀" * 20, "a" * 5000, "<|eot_id|>", "</think>", "{",
        "[1,2", "\n\n"]
NUMBERS = [0, 1, -1, 2, 7, 100, -100, 0.5, 1.0, 1e-9, 1e300, -1e300, 2**31, 2**53, -2**63, 2**63 - 1]


class Property(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--max-queue", "4096")
        cls.api = cls.server.json("GET", "/openapi.json", key=None)

    @classmethod
    def tearDownClass(cls):
        cls.server.end_well()

    def value(self, rng, depth=0):
        kind = rng.randrange(8 if depth < 3 else 5)
        if kind == 0:
            return rng.choice(TEXTS)
        if kind == 1:
            return rng.choice(NUMBERS)
        if kind < 5:
            return rng.choice([None, True, False, {}, []])
        if kind == 5:
            return [self.value(rng, depth + 1) for _ in range(rng.randrange(4))]
        keys = ["type", "text", "role", "content", "name", "function", "json_schema", "schema", "id", "tool_calls", "1"]
        return {rng.choice(keys): self.value(rng, depth + 1) for _ in range(rng.randrange(4))}

    def fitting(self, rng, schema):
        """A value that the description allows."""
        kind = schema.get("type")
        if kind in ("integer", "number"):
            low = max(schema.get("minimum", -5), -5)
            high = min(schema.get("maximum", 5), 5)
            return rng.randint(int(low), max(int(low), int(high))) if kind == "integer" else rng.uniform(low, high)
        if kind == "boolean":
            return rng.random() < 0.5
        if kind == "string":
            return rng.choice(TEXTS)
        if kind == "array":
            return [self.fitting(rng, schema.get("items", {})) for _ in range(rng.randrange(3))]
        return self.value(rng)

    def members(self, path):
        body = self.api["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        if "$ref" in body:
            body = self.api["components"]["schemas"][body["$ref"].rsplit("/", 1)[1]]
        return body.get("properties", {})

    def body(self, rng, path):
        made = json.loads(json.dumps(GOOD.get(path, {})))
        members = self.members(path)
        names = list(members) + list(made) + ["system", "tools", "tool_choice", "instructions", "text", "thinking"]
        for _ in range(rng.randrange(1, 4)):
            name = rng.choice(names)
            made[name] = self.fitting(rng, members.get(name, {})) if rng.random() < 0.5 else self.value(rng)
        for name, most in (("max_tokens", 3), ("max_completion_tokens", 3), ("max_output_tokens", 3), ("n_predict", 3),
                           ("max_length", 3), ("max_new_tokens", 3)):
            if isinstance(made.get(name), (int, float)) and made[name] > most:
                made[name] = most
        if path in GOOD and ("generate" in path or "completion" in path or path in ("/v1/responses", "/v1/messages")):
            made["timeout"] = 2  # where a body asks for all of the context
        return made

    def check(self, path, body):
        status, _, data = self.server.post(path, body, key=ADMIN)
        note = "%s %s -> %d %s" % (path, body if isinstance(body, bytes) else json.dumps(body)[:600], status,
                data[:300])
        self.assertTrue(status < 500 or status == 501, note)
        if status == 200:
            return status
        answer = json.loads(data)
        if path.startswith("/v1/messages"):
            self.assertEqual((answer["type"], sorted(answer["error"])), ("error", ["message", "type"]), note)
            return status
        self.assertEqual(sorted(answer["error"]), ["code", "message", "param", "type"], note)
        self.assertTrue(answer["error"]["message"], note)
        return status

    def test_random_bodies(self):
        rng = random.Random(20261121)
        paths = [p for p, ops in self.api["paths"].items() if "post" in ops and p not in LEFT_OUT]
        self.assertIn("/v1/chat/completions", paths)
        seen = {}
        for i in range(900 * TIMES):
            path = rng.choice(paths if i % 3 else [p for p in paths if p in GOOD])
            status = self.check(path, self.body(rng, path))
            seen[status] = seen.get(status, 0) + 1
        self.assertGreater(seen.get(200, 0), 50, seen)
        self.assertGreater(seen.get(400, 0), 50, seen)
        wait_until(lambda: is_quiet(self.server), 30)

    def test_broken_bytes(self):
        rng = random.Random(7)
        for _ in range(200 * TIMES):
            path = rng.choice(list(GOOD))
            if path not in self.api["paths"]:
                continue
            data = bytearray(json.dumps(GOOD[path]).encode())
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            self.check(path, bytes(data[:rng.randrange(1, len(data) + 1)]))
        for data in (b"", b"[]", b"null", b"\xff\xfe", b"{" * 300, b"[" * 5000, b'{"a":' * 300 + b"1" + b"}" * 300):
            self.assertEqual(self.check("/v1/chat/completions", data), 400)

    def test_description(self):
        """Every name that is described is read: a wrong value of a number is refused by that name."""
        chat = self.members("/v1/chat/completions")
        self.assertGreater(len(chat), 80)
        for name, schema in chat.items():
            if schema.get("type") not in ("integer", "number") or "maximum" not in schema:
                continue
            body = dict(GOOD["/v1/chat/completions"])
            body.pop("max_tokens")
            body.update({"max_tokens": 1} if "max" not in name and name != "n_predict" else {},
                    **{name: schema["maximum"] + 1})
            status, _, data = self.server.post("/v1/chat/completions", body)
            self.assertEqual((status, json.loads(data)["error"]["param"]), (400, name), data)
        routes = self.api["paths"]
        for path in ("/v1/models", "/health", "/metrics", "/v1/responses", "/v1/messages"):
            self.assertIn(path, routes)


if __name__ == "__main__":
    run(globals())
