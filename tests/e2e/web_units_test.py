#!/usr/bin/env python3
"""The parts of the chat page that need no browser: unit tests of web/test under node's test runner, and types.

The tests are bundled by esbuild, which builds the page too. TypeScript's compiler comes from npm into the folder of the
build. Where a tool cannot be had, the test is skipped and says so.

usage: web_units_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from server_kit import run

PROGRAM = ""
SECONDS = 240


def tools_folder():
    given = os.environ.get("QUIPU_CLIENTS")
    return given or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1]))), "clients")


class Units(unittest.TestCase):
    def test_units(self):
        for tool in ("node", "esbuild"):
            if not shutil.which(tool):
                self.skipTest("%s is not installed" % tool)
        with tempfile.TemporaryDirectory(prefix="quipu-test-") as folder:
            sources = sorted(glob.glob("web/test/*.test.ts"))
            self.assertGreater(len(sources), 3)
            subprocess.run(
                [
                    "esbuild",
                    *sources,
                    "--bundle",
                    "--platform=node",
                    "--format=esm",
                    "--out-extension:.js=.mjs",
                    "--outdir=" + folder,
                    "--log-level=warning",
                ],
                check=True,
                timeout=SECONDS,
            )
            bundles = sorted(glob.glob(folder + "/*.mjs"))
            ran = subprocess.run(
                ["node", "--test", *bundles], capture_output=True, text=True, timeout=SECONDS, check=False
            )
            self.assertEqual(ran.returncode, 0, ran.stdout[-8000:] + ran.stderr[-2000:])
            passed = re.search(r"^(?:#|ℹ) pass (\d+)$", ran.stdout, re.M)
            self.assertTrue(passed and int(passed.group(1)) >= len(sources), ran.stdout[-2000:])

    def test_types(self):
        where = os.path.join(tools_folder(), "typescript")
        compiler = os.path.join(where, "node_modules", ".bin", "tsc")
        if not os.path.exists(compiler):
            if not shutil.which("npm"):
                self.skipTest("npm is not installed")
            os.makedirs(where, exist_ok=True)
            try:
                subprocess.run(
                    ["npm", "install", "--silent", "--prefix", where, "typescript@5"],
                    timeout=SECONDS,
                    check=True,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except (OSError, subprocess.SubprocessError):
                self.skipTest("typescript cannot be installed")
        ran = subprocess.run(
            [compiler, "-p", "web/tsconfig.json"], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        self.assertEqual(ran.returncode, 0, ran.stdout[-4000:])


if __name__ == "__main__":
    run(globals())
