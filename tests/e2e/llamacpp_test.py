#!/usr/bin/env python3
"""llama.cpp's own tests of its server, against ours: acceptance test T73 of the server's specification.

Those are run that need neither an option of llama.cpp's program nor what its little model says (TESTS). They are taken
from the folder QUIPU_LLAMACPP (llama.cpp's tools/server/tests), or with QUIPU_SERVER_LONG=1 from the source archive of
llama-cpp-python (PyPI, 76 MB); else the test is skipped and says so.

usage: llamacpp_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import glob
import os
import re
import subprocess
import tarfile
import unittest

from server_kit import Server, run
from venv_kit import build_folder, python_with

PROGRAM = ""
ARCHIVE = "llama-cpp-python==0.3.36"
PACKAGES = ["pytest", "pytest-timeout", "requests", "openai", "wget", "filelock", "numpy", "aiohttp",
            "prometheus-client"]
SECONDS = 240
TESTS = {
    "test_basic": ["test_server_start_simple"],
    "test_tokenize": ["test_tokenize_detokenize", "test_tokenize_with_pieces"],
    "test_template": ["test_add_generation_prompt"],
    "test_infill": ["test_invalid_input_extra_req"],
    "test_chat_completion": [
        "test_completion_with_grammar", "test_completion_with_invalid_grammar", "test_completion_with_json_schema",
        "test_completion_with_response_format", "test_invalid_chat_completion_req", "test_logit_bias", "test_logprobs",
        "test_logprobs_stream"],
    "test_embedding": [
        "test_embedding_invalid_input", "test_embedding_multiple", "test_embedding_multiple_with_fa",
        "test_embedding_openai_library_base64", "test_embedding_openai_library_multiple",
        "test_embedding_openai_library_single", "test_embedding_pooling_mean", "test_embedding_pooling_mean_multiple",
        "test_embedding_single", "test_same_prompt_give_same_result"],
    "test_metrics": ["test_metrics_slots_idle_after_completion", "test_metrics_timings_are_finite"],
    "test_compat_anthropic": [
        "test_anthropic_count_tokens", "test_anthropic_count_tokens_no_max_tokens",
        "test_anthropic_count_tokens_with_system", "test_anthropic_messages_basic",
        "test_anthropic_messages_conversation", "test_anthropic_messages_multipart_content",
        "test_anthropic_messages_streaming", "test_anthropic_messages_with_system", "test_anthropic_metadata",
        "test_anthropic_missing_messages", "test_anthropic_stop_sequences",
        "test_anthropic_streaming_content_block_indices", "test_anthropic_temperature", "test_anthropic_thinking",
        "test_anthropic_tool_result", "test_anthropic_tool_result_error", "test_anthropic_tool_result_with_text",
        "test_anthropic_tool_streaming", "test_anthropic_tool_use_basic", "test_anthropic_top_k",
        "test_anthropic_top_p", "test_anthropic_vs_openai_different_response_format"],
}
# One case wants messages refused that are of the right form (two assistants in a row).
LEFT_OUT = "test_invalid_chat_completion_req[messages7]"


def unpack(folder, python):
    """The tests out of the archive, or None."""
    found = glob.glob(os.path.join(folder, "*", "vendor", "llama.cpp", "tools", "server", "tests"))
    if found:
        return found[0]
    command = [python, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-input",
               "--disable-pip-version-check", "-d", folder, ARCHIVE]
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    with tarfile.open(glob.glob(os.path.join(folder, "*.tar.gz"))[0]) as archive:
        archive.extractall(folder, [m for m in archive if "/tools/server/tests/" in m.name and m.isfile()])
    return unpack(folder, python)


class LlamaCpp(unittest.TestCase):
    def folder(self, python):
        where = os.environ.get("QUIPU_LLAMACPP")
        if where:
            return where
        where = os.path.join(build_folder(PROGRAM), "llamacpp")
        os.makedirs(where, exist_ok=True)
        return unpack(where, python) or self.skipTest("llama.cpp's tests cannot be had")

    def test_T73(self):
        if not os.environ.get("QUIPU_LLAMACPP") and not os.environ.get("QUIPU_SERVER_LONG"):
            self.skipTest("neither QUIPU_LLAMACPP nor QUIPU_SERVER_LONG is set")
        python = python_with(os.path.join(build_folder(PROGRAM), "llamacpp"), PACKAGES)
        if not python:
            self.skipTest("pytest and what llama.cpp's tests need cannot be had")
        folder = self.folder(python)
        server = Server(PROGRAM, "--compat", "llamacpp", "--metrics-compat", "llamacpp", auth=False)
        self.addCleanup(server.close)
        names = ["unit/%s.py::%s" % (file, name) for file, tests in TESTS.items() for name in tests]
        done = subprocess.run([python, "-m", "pytest", "--noconftest", "-q", "--tb=short", "--timeout", "60", "-p",
                               "no:cacheprovider", "--deselect", "unit/test_chat_completion.py::" + LEFT_OUT, *names],
                              cwd=folder, capture_output=True, text=True, timeout=900, check=False,
                              env=dict(os.environ, DEBUG_EXTERNAL="1", PORT=str(server.port), NO_PROXY="127.0.0.1"))
        self.assertEqual(done.returncode, 0, done.stdout[-6000:] + done.stderr[-2000:])
        self.assertGreaterEqual(int(re.search(r"(\d+) passed", done.stdout).group(1)), len(names))
        self.assertEqual(server.end(), 0, server.log()[-2000:])


if __name__ == "__main__":
    run(globals())
