#!/usr/bin/env python3
"""The server on a GPU, and what becomes of it when the GPU is pulled away. The GPU is the tests' own: a libcuda that
runs the kernels on the processor and fails where it is told to (tests/cuda/emulate.cpp).

usage: server_gpu_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest
from unittest import mock

from server_kit import DEMO, Server, run, wait_until

PROGRAM = ""
PROMPT = "Once upon a time"
OUT_OF_MEMORY, ILLEGAL_ADDRESS = 2, 700


def emulator():
    return os.path.join(os.path.dirname(PROGRAM), "..", "tests", "cuda_emulated.so")


def make_small(folder):
    """The demo model's first layer, for a GPU that is a thousand times slower than one."""
    for name in os.listdir(DEMO):
        if name not in ("config.json", "model.safetensors"):
            os.symlink(os.path.join(DEMO, name), os.path.join(folder, name))
    with open(os.path.join(DEMO, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({**config, "num_hidden_layers": 1}, file)
    with open(os.path.join(DEMO, "model.safetensors"), "rb") as file:
        stored = file.read()
    begin = 8 + struct.unpack("<Q", stored[:8])[0]
    header, data = {}, b""
    for name, tensor in json.loads(stored[8:begin]).items():
        if name == "__metadata__" or (".layers." in name and ".layers.0." not in name):
            continue
        first, end = tensor["data_offsets"]
        header[name] = {**tensor, "data_offsets": [len(data), len(data) + end - first]}
        data += stored[begin + first:begin + end]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = tempfile.mkdtemp(prefix="quipu-small-")
        cls.addClassCleanup(shutil.rmtree, cls.model)
        make_small(cls.model)

    def setUp(self):
        if not os.path.exists(emulator()):
            self.skipTest("this build has no emulated GPU: there was no C++ compiler")
        self.folder = tempfile.TemporaryDirectory(prefix="quipu-gpu-")
        self.addCleanup(self.folder.cleanup)
        os.symlink(os.path.abspath(emulator()), os.path.join(self.folder.name, "libcuda.so.1"))
        self.order = os.path.join(self.folder.name, "order")
        patch = mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": self.folder.name, "EMULATE_FAIL": self.order})
        patch.start()
        self.addCleanup(patch.stop)

    def fail_from_now(self, function, after, result):
        """From its call number `after` on, this function of the driver returns `result`."""
        with open(self.order + ".new", "w", encoding="ascii") as file:
            file.write("%s %d %d\n" % (function, after, result))
        os.rename(self.order + ".new", self.order)

    def start(self, device="cuda", grace=600):
        server = Server(PROGRAM, "--device", device, "--context", "1024", "--threads", "1", "--fatal-grace",
                        str(grace), model=self.model)
        self.addCleanup(server.close)
        return server

    def generate(self, *options):
        command = [PROGRAM, "generate", "-m", self.model, "--device", "cuda", "--threads", "1", "-p", PROMPT, "-n", "2"]
        return subprocess.run(command + list(options), capture_output=True, text=True, timeout=120, check=False)

    def complete(self, server, n):
        fields = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True, "max_tokens": n}
        return server.json("POST", "/v1/completions", fields)["choices"][0]["text"]


class Works(Case):
    def test_serves_the_text_of_the_cpu_and_takes_no_memory(self):
        server = self.start()
        text = self.complete(server, 4)
        self.fail_from_now("cuMemAlloc_v2", 0, OUT_OF_MEMORY)
        self.assertEqual(self.complete(server, 4), text)
        self.assertEqual(self.complete(self.start(device="cpu"), 4), text)


class IsLost(Case):
    def test_a_fault_ends_jobs_with_an_error_and_then_the_process(self):
        server = self.start(grace=1)
        stream = server.open_stream(prompt=PROMPT, max_tokens=800, stream=True, ignore_eos=True)
        answer = b""
        while b"data: {" not in answer:
            answer += stream.recv(65536)
        self.fail_from_now("cuEventSynchronize", 0, ILLEGAL_ADDRESS)
        while True:
            more = stream.recv(65536)
            if not more or b"[DONE]" in answer:
                break
            answer += more
        stream.close()
        self.assertIn(b'"error":{"message":"cuda: the GPU has failed: CUDA_ERROR_ILLEGAL_ADDRESS', answer)
        self.assertEqual(server.process.wait(60), 1)
        self.assertIn("CUDA_ERROR_ILLEGAL_ADDRESS", server.log())

    def test_health_and_later_requests_say_so(self):
        server = self.start()
        self.fail_from_now("cuLaunchKernelEx", 0, ILLEGAL_ADDRESS)
        status, _, body = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 2})
        self.assertEqual(status, 500)
        self.assertIn("cuda: a kernel does not start: CUDA_ERROR_ILLEGAL_ADDRESS", json.loads(body)["error"]["message"])
        wait_until(lambda: server.get("/health")[0] == 503, 30)
        self.assertIn("device has failed", server.get("/health")[2].decode())
        status, _, body = server.post("/v1/completions", {"prompt": PROMPT, "max_tokens": 2})
        self.assertIn(status, (500, 503))
        self.assertRegex(body.decode(), "device has failed|CUDA_ERROR_ILLEGAL_ADDRESS")


class IsFull(Case):
    def test_a_model_that_does_not_fit_is_refused_with_the_plan(self):
        with mock.patch.dict(os.environ, {"EMULATE_MEMORY": "12"}):
            done = self.generate()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"the model does not fit on cuda:0: weights [\d.]+ MiB and scratch [\d.]+ MiB, "
                                      r"[\d.]+ of 12.0 MiB are left")

    def test_a_cache_that_does_not_fit_is_refused_with_what_would(self):
        with mock.patch.dict(os.environ, {"EMULATE_MEMORY": "64"}):
            done = self.generate("--context", "262144")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"a cache of 262144 tokens takes 128.0 MiB, .*: \d+ tokens would fit")

    def test_a_driver_that_has_less_than_it_says_is_an_error(self):
        self.fail_from_now("cuMemAlloc_v2", 10, OUT_OF_MEMORY)
        done = self.generate()
        self.assertEqual(done.returncode, 1)
        self.assertIn("MiB are free on GPU Emulated GPU", done.stderr)

    def test_inspect_prints_the_plan(self):
        done = subprocess.run([PROGRAM, "inspect", "-m", self.model, "--device", "cuda", "--json"],
                              capture_output=True, text=True, timeout=120, check=True)
        plan = json.loads(done.stdout)["plan"]
        self.assertTrue(plan["fits"])
        self.assertEqual(plan["cache_bytes"], plan["left_bytes"] - plan["weight_bytes"] - plan["scratch_bytes"]
                         - plan["reserve_bytes"])
        self.assertGreater(plan["reserve_bytes"], 0)
        self.assertEqual(plan["unpacked"], [])
        for row in plan["cache"]:
            self.assertEqual(row["tokens"], plan["cache_bytes"] // row["page_bytes"] * 256)


if __name__ == "__main__":
    run(globals())
