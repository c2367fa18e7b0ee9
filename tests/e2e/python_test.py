#!/usr/bin/env python3
"""The Python package: builds the wheel around this build's library, installs it into a virtual environment, and runs
its tests (python/tests), mypy and ruff there. Skipped, and said so, where the packages of PyPI cannot be had.

usage: python_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import glob
import os
import re
import subprocess
import sys
import unittest

from venv_kit import build_folder, python_with

PROGRAM = ""
SECONDS = 500
PACKAGES = ["cffi", "scikit-build-core", "pytest", "numpy", "pydantic", "fastapi", "uvicorn", "lm-format-enforcer",
            "mypy", "ruff"]


def build():
    return build_folder(PROGRAM)


def call(command, **options):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUIPU_", "PYTHON"))}
    clean.update(options.pop("env", {}))
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            timeout=SECONDS, env=clean, check=False, **options)
    return ran.returncode, ran.stdout


class Python(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        given = os.environ.get("QUIPU_CLIENTS") or os.path.join(build(), "clients")
        cls.python = python_with(given, PACKAGES)
        if not cls.python:
            raise unittest.SkipTest("the packages of PyPI that the Python package is tested with cannot be installed")
        cls.wheels = os.path.join(build(), "python")
        for old in glob.glob(os.path.join(cls.wheels, "*.whl")):
            os.remove(old)
        library = os.path.join(build(), "lib", "libquipu.so")
        status, said = call([cls.python, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", cls.wheels,
                             "-C", "cmake.define.QUIPU_LIBRARY=" + library, "./python"])
        assert status == 0, said
        cls.wheel = glob.glob(os.path.join(cls.wheels, "*.whl"))[0]
        status, said = call([cls.python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", cls.wheel])
        assert status == 0, said

    def tool(self, *command, **options):
        status, said = call([self.python, "-m", *command], **options)
        self.assertEqual(status, 0, said[-6000:])
        return said

    def test_the_wheel_is_for_every_python(self):
        self.assertRegex(os.path.basename(self.wheel), r"^quipu-[\d.]+-py3-none-linux_\w+\.whl$")

    def test_the_library_can_be_built_for_a_wheel(self):
        """The project as a part of python/CMakeLists.txt, as `pip install ./python` has it: its paths are found."""
        status, said = call(["cmake", "-S", "python", "-B", os.path.join(build(), "python", "from-scratch"), "-G",
                             "Ninja", "-Wno-dev"])
        self.assertEqual(status, 0, said[-6000:])

    def test_the_suite(self):
        said = self.tool("pytest", "-q", "-p", "no:cacheprovider", "-c", "python/pyproject.toml", "python/tests",
                env={"QUIPU_SOURCE": os.getcwd(), "QUIPU_INSTALLED": "1"})
        counts = re.search(r"(\d+) passed", said)
        self.assertTrue(counts and int(counts.group(1)) > 50, said[-2000:])
        for reason in re.findall(r"^SKIPPED .*", said, re.M):
            print(reason)

    def test_mypy(self):
        self.tool("mypy", "--cache-dir", os.path.join(build(), "mypy"), "--config-file", "python/pyproject.toml",
                "python/quipu")

    def test_ruff(self):
        self.tool("ruff", "check", "--no-cache", "--config", "python/pyproject.toml", "python", "examples")


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
