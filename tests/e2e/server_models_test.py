#!/usr/bin/env python3
"""Models and adapters that change while the server runs: LoRA over HTTP, models that requests load by naming them,
what a later load takes over, the cache left alone.

usage: server_models_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import random
import struct
import subprocess
import tempfile
import threading
import unittest

from server_kit import ADMIN, API, DEMO, Server, run, wait_until

PROGRAM = ""
PROMPT = "Once upon a time"
LAYERS, HIDDEN, KV, RANK = 12, 256, 128, 2


def make_adapter(folder, seed, strength):
    """An adapter of the demo model with random weights, as PEFT writes it."""
    draw, tensors = random.Random(seed), {}
    for layer in range(LAYERS):
        for name, out in (("q_proj", HIDDEN), ("v_proj", KV)):
            stem = "base_model.model.model.layers.%d.self_attn.%s." % (layer, name)
            tensors[stem + "lora_A.weight"] = (RANK, HIDDEN)
            tensors[stem + "lora_B.weight"] = (out, RANK)
    header, data = {}, b""
    for name, shape in tensors.items():
        n = shape[0] * shape[1]
        packed = struct.pack("<%df" % n, *(draw.gauss(0, strength) for _ in range(n)))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    os.makedirs(folder)
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "adapter_config.json"), "w", encoding="utf-8") as file:
        json.dump({"peft_type": "LORA", "r": RANK, "lora_alpha": RANK, "target_modules": ["q_proj", "v_proj"],
                   "bias": "none", "task_type": "CAUSAL_LM"}, file)


def link_model(folder):
    os.makedirs(folder)
    for name in os.listdir(DEMO):
        os.symlink(os.path.join(DEMO, name), os.path.join(folder, name))


class Case(unittest.TestCase):
    def complete(self, server, **fields):
        fields = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True, "max_tokens": 16, **fields}
        return server.json("POST", "/v1/completions", fields)

    def text(self, server, **fields):
        return self.complete(server, **fields)["choices"][0]["text"]

    def error(self, server, path, body, status, key=API):
        found, _, data = server.post(path, body, key)
        self.assertEqual(found, status, data)
        return json.loads(data)["error"]

    def serve(self, *options, **more):
        self.folder = tempfile.TemporaryDirectory(prefix="quipu-test-")
        self.addCleanup(self.folder.cleanup)
        for name in ("demo", "twin", "third", "broken"):
            link_model(os.path.join(self.folder.name, name))
        os.remove(os.path.join(self.folder.name, "broken", "model.safetensors"))
        server = Server(PROGRAM, "--model-dir", self.folder.name, *options, **more)
        self.addCleanup(server.close)
        return server


class Adapters(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="quipu-test-")
        cls.loras = os.path.join(cls.folder.name, "loras")
        for seed, name in enumerate(("red", "blue")):
            make_adapter(os.path.join(cls.loras, name), seed, 0.2)
        os.makedirs(os.path.join(cls.loras, "broken"))
        with open(os.path.join(cls.loras, "broken", "adapter_config.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        cls.server = Server(PROGRAM, "--lora-dir", cls.loras)

    @classmethod
    def tearDownClass(cls):
        try:
            cls.server.end_well()
        finally:
            cls.folder.cleanup()

    def setUp(self):
        self.server.post("/v1/lora/unload", {}, ADMIN)

    def load(self, *loras, status=200):
        found, _, data = self.server.post("/v1/lora/load", {"loras": list(loras)}, ADMIN)
        self.assertEqual(found, status, data)
        return json.loads(data)

    def alone(self, *options):
        """What `quipu generate` says."""
        done = subprocess.run([PROGRAM, "generate", "-m", DEMO, "-p", PROMPT, "-n", "16", "--greedy", "--ignore-eos",
                               "--json", *options], capture_output=True, check=True)
        return json.loads(done.stdout)["text"]

    def test_adapters_are_those_of_the_library(self):
        plain, red = self.alone(), self.alone("--lora", os.path.join(self.loras, "red"))
        both = self.alone("--lora", os.path.join(self.loras, "red"), "--lora",
                          os.path.join(self.loras, "blue") + ":0.5")
        self.assertEqual(len({plain, red, both}), 3)
        self.assertEqual(self.text(self.server), plain)
        self.assertEqual(self.load({"name": "red"}), {"success": ["red"], "failure": [], "errors": {}})
        self.assertEqual(self.text(self.server), red)
        self.load({"name": "red"}, {"name": "blue", "scaling": 0.5})
        self.assertEqual(self.text(self.server), both)
        for lora, wanted in (([], plain), ([{"name": "red"}], red), ([{"id": 0}], red),
                             ([{"id": 0, "scale": 0}], plain), ([{"id": "red"}, {"id": 1, "scale": 0.5}], both)):
            self.assertEqual(self.text(self.server, lora=lora), wanted, lora)
        self.assertEqual(self.server.post("/v1/lora/unload", {}, ADMIN)[2], b"null")
        self.assertEqual(self.text(self.server), plain)

    def test_an_adapter_is_a_model(self):
        self.load({"name": "red", "scaling": 0}, {"name": "blue"})
        red = self.alone("--lora", os.path.join(self.loras, "red") + ":0")
        blue = self.alone("--lora", os.path.join(self.loras, "blue"))
        for name, wanted in (("red", red), ("blue", blue), ("demo", blue), (None, blue)):
            answer = self.complete(self.server, model=name)
            self.assertEqual(answer["choices"][0]["text"], wanted)
            self.assertEqual(answer["model"], "demo" if name in ("demo", None) else name)
        cards = {m["id"]: m.get("parent") for m in self.server.json("GET", "/v1/models")["data"]}
        self.assertEqual(cards, {"demo": None, "red": "demo", "blue": "demo"})
        self.assertEqual(self.server.json("GET", "/v1/models/red")["parent"], "demo")
        chat = self.server.json("POST", "/v1/chat/completions",
                                {"model": "red", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 3})
        self.assertEqual(chat["model"], "red")
        a, b = (self.server.json("POST", "/v1/embeddings", {"model": m, "input": PROMPT}) for m in ("red", "blue"))
        self.assertEqual((a["model"], b["model"]), ("red", "blue"))
        self.assertNotEqual(a["data"], b["data"])

    def test_lists(self):
        self.assertEqual(self.server.json("GET", "/v1/lora"), {"object": "list", "data": []})
        self.load({"name": "red", "scaling": 0.25})
        card, = self.server.json("GET", "/v1/lora")["data"]
        self.assertEqual((card["id"], card["object"], card["scaling"]), ("red", "lora", 0.25))
        for path in ("/v1/loras", "/v1/lora/list", "/loras"):
            self.assertEqual([c["id"] for c in self.server.json("GET", path)["data"]], ["red"])
            self.assertEqual({c["id"]: c["scaling"] for c in self.server.json("GET", path, key=ADMIN)["data"]},
                             {"red": 0.25, "blue": None, "broken": None})

    def test_one_that_fails_keeps_none_of_the_others_away(self):
        found = self.load({"name": "red"}, {"name": "broken"}, {"name": "nothing"}, {"name": "../loras/blue"},
                          {"name": "demo"})
        self.assertEqual(found["success"], ["red"])
        self.assertEqual(found["failure"], ["broken", "nothing", "../loras/blue", "demo"])
        self.assertEqual(set(found["errors"]), set(found["failure"]))
        self.assertTrue(all(found["errors"].values()))
        self.assertEqual([c["id"] for c in self.server.json("GET", "/v1/lora")["data"]], ["red"])

    def test_refused(self):
        for body in ({}, {"loras": []}, {"loras": "red"}, {"loras": ["red"]}, {"loras": [{}]},
                     {"loras": [{"name": ""}]},
                     {"loras": [{"name": "red", "scaling": "much"}]}, {"loras": [{"name": "red", "scaling": 1e9}]},
                     {"loras": [{"name": "x%d" % i} for i in range(9)]}):
            self.error(self.server, "/v1/lora/load", body, 400, ADMIN)
        self.load({"name": "red"})
        for lora, param in (("red", "lora"), ({}, "lora"), (["red"], "lora[0]"), ([{"name": "blue"}], "lora[0]"),
                            ([{"id": 1}], "lora[0]"), ([{"id": -1}], "lora[0]"), ([{}], "lora[0]"),
                            ([{"id": 0}, {"name": "red"}], "lora[1]"), ([{"id": 0, "scale": "x"}], "lora[0]")):
            with self.subTest(str(lora)):
                error = self.error(self.server, "/v1/completions", {"prompt": "x", "max_tokens": 1, "lora": lora}, 400)
                self.assertEqual(error["param"], param)

    def test_running_answers_keep_theirs(self):
        """Loading and unloading in the middle of an answer changes nothing of it."""
        self.load({"name": "red"})
        wanted = self.text(self.server, max_tokens=120)
        self.assertNotEqual(wanted, self.text(self.server, max_tokens=120, lora=[]))
        got = []
        thread = threading.Thread(target=lambda: got.append(self.text(self.server, max_tokens=120, cache_prompt=False)))
        thread.start()
        wait_until(lambda: any(j["generated"] for j in self.server.json("GET", "/v1/jobs", key=ADMIN)["data"]) or got)
        self.load({"name": "blue"})
        self.server.post("/v1/lora/unload", {}, ADMIN)
        thread.join()
        self.assertEqual(got, [wanted])

    def test_from_the_configuration(self):
        config = "lora:\n  lora_dir: %s\n  loras:\n    - name: red\n    - name: blue\n      scaling: 0.5\n" % self.loras
        server = Server(PROGRAM, config=config)
        try:
            self.assertEqual({c["id"]: c["scaling"] for c in server.json("GET", "/v1/lora")["data"]},
                             {"red": 1.0, "blue": 0.5})
        finally:
            server.close()
        for loras, part in (("nothing", "nothing"), ("red:x", "NAME:SCALE"), ("broken", "broken")):
            ended = subprocess.run([PROGRAM, "serve", "-m", DEMO, "--port", "0", "--disable-auth", "--lora-dir",
                                    self.loras, "--loras", loras], capture_output=True, text=True, timeout=120,
                                   check=False)
            self.assertNotEqual(ended.returncode, 0)
            self.assertIn(part, ended.stderr)


class Cache(Case):
    def test_cache_prompt(self):
        server = Server(PROGRAM)
        try:
            prompt = "A long story about a dog. " * 60
            cached = lambda **f: self.complete(server, prompt=prompt, max_tokens=2, **f)["usage"][
                "prompt_tokens_details"]["cached_tokens"]
            self.assertEqual([cached(cache_prompt=False), cached(cache_prompt=False)], [0, 0])
            self.assertEqual(cached(), 0)
            self.assertGreater(cached(), 200)
            self.assertEqual(cached(cache_prompt=False), 0)
            self.assertEqual(self.text(server, prompt=prompt), self.text(server, prompt=prompt, cache_prompt=False))
            answer = self.complete(server, prompt=prompt, cache_prompt=False, n=3, max_tokens=2)
            self.assertEqual(len(answer["choices"]), 3)
        finally:
            server.close()


class Inline(Case):
    def test_a_request_loads_its_model(self):
        server = self.serve("--inline-model-loading", "--inline-loading-for-all", "--use-dummy-models")
        wanted = self.text(server)
        for name in ("twin", "demo", "gpt-3.5-turbo", "nothing", None, "third"):
            answer = self.complete(server, model=name)
            loaded = name if name in ("twin", "demo", "third") else "demo"
            self.assertEqual((answer["model"], answer["choices"][0]["text"]), (loaded, wanted))
            self.assertEqual(server.json("GET", "/v1/model")["id"], loaded)
        error = self.error(server, "/v1/completions", {"prompt": "x", "model": "broken", "max_tokens": 1}, 404)
        self.assertIn("safetensors", error["message"])
        self.assertEqual(server.get("/v1/model")[0], 503)
        self.assertEqual(self.complete(server, model="twin")["model"], "twin")
        self.assertEqual(server.json("POST", "/v1/embeddings", {"model": "demo", "input": "x"})["model"], "demo")

    def test_many_at_once_get_what_they_name(self):
        server = self.serve("--inline-model-loading", "--inline-loading-for-all")
        names, got = ["demo", "twin", "third"] * 4, []
        ask = lambda name: got.append((name, self.complete(server, model=name, max_tokens=8)["model"]))
        threads = [threading.Thread(target=ask, args=(name,)) for name in names]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(got), sorted((n, n) for n in names))

    def test_only_an_admin_may(self):
        server = self.serve("--inline-model-loading")
        error = self.error(server, "/v1/completions", {"prompt": "x", "model": "twin", "max_tokens": 1}, 403)
        self.assertEqual((error["code"], error["param"]), ("admin_required", "model"))
        self.assertEqual(server.json("GET", "/v1/model")["id"], "demo")
        status, _, data = server.post("/v1/completions", {"prompt": "x", "model": "twin", "max_tokens": 1}, ADMIN)
        self.assertEqual((status, json.loads(data)["model"]), (200, "twin"))

    def test_requests_wait_for_a_load(self):
        """... and who leaves meanwhile is forgotten."""
        server = self.serve("--inline-model-loading")
        with server.open_stream(prompt=PROMPT, max_tokens=300, ignore_eos=True, stream=True):
            wait_until(lambda: server.metric("requests_running") == 1)
            loading = threading.Thread(target=lambda: server.post("/v1/model/load", {"model_name": "twin"}, ADMIN))
            loading.start()
            wait_until(lambda: server.get("/health")[0] == 503)
            gone = server.open_stream(prompt=PROMPT, max_tokens=3)
            gone.close()
            self.assertEqual(self.complete(server)["model"], "twin")
            loading.join()
        self.assertEqual(server.end(), 0)

    def stream_that_waits(self):
        """What a stream gets that comes during a load, which another stream holds up."""
        server = self.serve("--inline-model-loading", "--sse-ping-interval", "0.05")
        with server.open_stream(prompt=PROMPT, max_tokens=1200, ignore_eos=True, stream=True,
                                loop_detect_window=0):
            wait_until(lambda: server.metric("requests_running") == 1)
            loading = threading.Thread(target=lambda: server.post("/v1/model/load", {"model_name": "twin"}, ADMIN))
            loading.start()
            wait_until(lambda: server.get("/health")[0] == 503 or not loading.is_alive())
            data = b""
            with server.open_stream(prompt=PROMPT, max_tokens=3, stream=True) as s:
                while b"[DONE]\n\n" not in data:
                    data += s.recv(4096)
            loading.join()
        self.assertEqual(server.end(), 0)
        return data

    def test_a_stream_that_waits_hears_pings(self):
        """... and then its answer. Where the load was over too soon, once more."""
        for _ in range(5):
            data = self.stream_that_waits()
            before = data.partition(b"data: ")[0]
            if before.count(b": ping\n\n") >= 2:
                break
        self.assertTrue(data.startswith(b"HTTP/1.1 200"))
        self.assertGreaterEqual(before.count(b": ping\n\n"), 2, "no pings before the answer")
        self.assertIn(b'"model":"twin"', data)

    def test_switched_off(self):
        server = self.serve()
        self.assertEqual(self.complete(server, model="twin")["model"], "demo")
        self.assertEqual(self.complete(server, model="twin")["model"], "demo")


class Settings(Case):
    """Whose settings a load takes: the request's, the folder's, those of use_as_default."""

    def load(self, server, **fields):
        status, _, data = server.post("/v1/model/load", fields, ADMIN)
        self.assertEqual(status, 200, data)
        self.assertNotIn(b'"error"', data)
        card = server.json("GET", "/v1/model")["parameters"]
        return tuple(card[k] for k in ("max_seq_len", "cache_size", "cache_mode", "chunk_size", "max_batch_size"))

    def own(self, name, text):
        with open(os.path.join(self.folder.name, name, "tabby_config.yml"), "w", encoding="utf-8") as file:
            file.write(text)

    def test_settings(self):
        options = ["--max-seq-len", "600", "--context", "2048", "--cache", "fp32", "--chunk-size", "64"]
        server = self.serve(*options, "--use-as-default", "cache_size,cache_mode")
        card = server.json("GET", "/v1/model")["parameters"]
        self.assertEqual((card["max_seq_len"], card["cache_size"], card["cache_mode"], card["chunk_size"]),
                         (600, 2048, "FP32", 64))
        self.assertEqual(self.load(server, model_name="twin"), (2048, 2048, "FP32", 512, 256))
        self.own("third", "model:\n  max_seq_len: 700\n  cache_mode: FP16\n  gpu_split: [20, 20]\n"
                          "  max_batch_size: 9\n")
        self.assertEqual(self.load(server, model_name="third"), (700, 2048, "FP16", 512, 9))
        self.assertIn("gpu_split", server.log())
        self.assertEqual(self.load(server, model_name="third", max_seq_len=800, cache_size=1024, chunk_size=32),
                         (800, 1024, "FP16", 32, 9))
        self.own("twin", "model:\n  max_seq_len: 3\n")
        status, _, data = server.post("/v1/model/load", {"model_name": "twin"}, ADMIN)
        self.assertEqual(status, 200)
        self.assertIn(b"max_seq_len", data)
        self.assertIn(b'"error"', data)

    def test_the_first_model(self):
        """What the user has set goes before what the folder says."""
        self.serve()
        self.own("twin", "model:\n  max_seq_len: 700\n  chunk_size: 48\n")
        server = Server(PROGRAM, "--max-seq-len", "500", model=os.path.join(self.folder.name, "twin"))
        self.addCleanup(server.close)
        card = server.json("GET", "/v1/model")["parameters"]
        self.assertEqual((card["max_seq_len"], card["chunk_size"]), (500, 48))

    def test_wrong_names(self):
        done = subprocess.run([PROGRAM, "serve", "--check-config", "--use-as-default", "port"], capture_output=True,
                              text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("use_as_default: 'port'", done.stderr)


if __name__ == "__main__":
    run(globals())
