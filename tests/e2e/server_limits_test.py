#!/usr/bin/env python3
"""How many generations a key may ask for in a minute.

usage: server_limits_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import unittest

from server_kit import ADMIN, API, Server, run

PROGRAM = ""
ASK = {"prompt": "x", "max_tokens": 1}


class Rates(unittest.TestCase):
    def test_limit(self):
        server = Server(PROGRAM, "--max-requests-per-minute", "3")
        try:
            self.assertEqual([server.post("/v1/completions", ASK)[0] for _ in range(3)], [200] * 3)
            for path in ("/v1/completions", "/v1/embeddings", "/api/v1/generate"):
                status, headers, data = server.post(path, dict(ASK, input="x"))
                error = json.loads(data)["error"]
                self.assertEqual((status, error["type"], error["code"]),
                                 (429, "rate_limit_error", "rate_limit_exceeded"), data)
                self.assertTrue(1 <= int(headers["Retry-After"]) <= 20, headers["Retry-After"])
                self.assertIn("3 requests", error["message"])
            status, headers, data = server.post("/v1/messages", {"messages": []})
            self.assertEqual((status, json.loads(data)["error"]["type"]), (429, "rate_limit_error"))
            self.assertEqual(server.post("/v1/completions", ASK, "c" * 32)[0], 200, "another key has its own count")
            for _ in range(5):
                self.assertEqual(server.post("/v1/completions", ASK, ADMIN)[0], 200, "the admin has no limit")
                self.assertEqual(server.get("/v1/models")[0], 200, "only generations are counted")
            self.assertEqual(server.post("/v1/completions", ASK, "d" * 32)[0], 401)
        finally:
            server.close()

    def test_no_limit(self):
        server = Server(PROGRAM)
        try:
            self.assertEqual({server.post("/v1/completions", ASK, API)[0] for _ in range(20)}, {200})
        finally:
            server.close()


if __name__ == "__main__":
    run(globals())
