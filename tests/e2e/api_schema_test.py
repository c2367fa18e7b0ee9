#!/usr/bin/env python3
"""Schemathesis (PyPI) against the server's own description: never a 5xx, and answers that are described.

A few requests for each operation, in half a minute; QUIPU_SERVER_LONG=1: two minutes of them. Left out are the
routes that end the server, take its model away, or say 501. Where it cannot be installed, the test is skipped and says
so.

usage: api_schema_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import os
import re
import subprocess
import tempfile
import unittest

from server_kit import ADMIN, Server, run
from venv_kit import build_folder, python_with

PROGRAM = ""
LONG = ["--phases", "coverage,fuzzing", "--max-time", "120"]
SHORT = ["--phases", "fuzzing", "--max-examples", "2", "--max-time", "20"]
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "unsupported_method", "ignored_auth")
LEFT_OUT = "admin/|model/(load|unload)|model/embedding|template/(switch|unload)|download|rerank"


class Schema(unittest.TestCase):
    def test_schemathesis(self):
        python = python_with(os.path.join(build_folder(PROGRAM), "clients"), ["schemathesis"])
        if not python:
            self.skipTest("schemathesis cannot be had")
        server = Server(PROGRAM, "--max-generation-seconds", "0.2", "--max-queue", "4096")
        self.addCleanup(server.close)
        command = [os.path.join(os.path.dirname(python), "schemathesis"), "run",
                   "http://127.0.0.1:%d/openapi.json" % server.port, "-H", "Authorization: Bearer " + ADMIN,
                   *(LONG if os.environ.get("QUIPU_SERVER_LONG") else SHORT), "--continue-on-failure", "--no-shrink",
                   "--seed", "1", "--request-timeout", "60", "--checks", ",".join(CHECKS), "--exclude-path-regex",
                   LEFT_OUT]
        with tempfile.TemporaryDirectory(prefix="quipu-test-") as folder:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False,
                                  env=dict(os.environ, NO_PROXY="127.0.0.1", NO_COLOR="1"))
        said = done.stdout[-6000:] + done.stderr[-2000:]
        self.assertEqual(done.returncode, 0, said)
        tried = re.search(r"(\d+) generated", said)
        self.assertGreater(int(tried.group(1)) if tried else 0, 10, said)
        self.assertEqual(server.get("/health")[0], 200)
        self.assertEqual(server.end(), 0, server.log()[-2000:])


if __name__ == "__main__":
    run(globals())
