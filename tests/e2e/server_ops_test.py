#!/usr/bin/env python3
"""Running the server: models loaded and unloaded, templates, presets, keys that change, health, metrics, logs.
Acceptance tests T60-T62, T64 and T65 of the server's specification, and its settings.

usage: server_ops_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import math
import os
import re
import subprocess
import tempfile
import time
import unittest

from server_kit import ADMIN, API, DEMO, Server, is_quiet, read_all, run, status_of, unchunk, wait_until

PROGRAM = ""
PROMPT = "Once upon a time there was a king who had three sons. "


class Operations(unittest.TestCase):
    options = {
        "test_T64_stalled_engine": ["--cpu", "ref", "--threads", "1", "--precision", "exact",
                                    "--stall-timeout", "0.3"],
        "test_strict_model": ["--strict-model", "--model-alias", "other,third", "--use-dummy-models"],
        "test_limits_of_time": ["--max-generation-seconds", "0.3", "--context", "40000"],
        "test_log_prompt": ["--log-prompt"],
        "test_metrics_need_a_key": ["--metrics-auth", "--metrics-compat", "vllm,llamacpp"],
    }

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quipu-test-")
        self.models = os.path.join(self.folder.name, "models")
        for name in ("demo", "twin", "broken"):
            os.makedirs(os.path.join(self.models, name))
            for file in os.listdir(DEMO):
                os.symlink(os.path.join(DEMO, file), os.path.join(self.models, name, file))
        os.remove(os.path.join(self.models, "broken", "model.safetensors"))
        for name in ("templates", "presets"):
            os.makedirs(os.path.join(self.folder.name, name))
        self.write("templates/shout.jinja", "{% for m in messages %}{{ m.content | upper }}!{% endfor %}")
        self.write("templates/bad.jinja", "{% for %}")
        self.write("presets/short.yml", "max_tokens: {override: 3, force: true}\n"
                                        "stop: {override: [\"zzz\"], additive: true}\n")
        self.write("presets/default.yml", "max_tokens: {override: 4}\ntemperature: {override: 0.0}\n")
        self.write("presets/bad.yml", "max_tokens: 3\n")
        self.server = Server(PROGRAM, "--model-dir", self.models, "--template-dir", self.folder.name + "/templates",
                             "--preset-dir", self.folder.name + "/presets",
                             *self.options.get(self._testMethodName, []))

    def tearDown(self):
        if self.server.process.poll() is None:
            self.assertEqual(self.server.end(), 0, self.server.log()[-1000:])
        self.server.close()
        self.folder.cleanup()

    def write(self, name, text):
        with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
            file.write(text)

    def complete(self, **fields):
        fields = {"prompt": PROMPT, "temperature": 0, "ignore_eos": True, **fields}
        return self.server.json("POST", "/v1/completions", fields)

    # ---- T60: models ----

    def load(self, **fields):
        status, headers, data = self.server.post("/v1/model/load", fields, ADMIN)
        self.assertEqual(status, 200, data)
        self.assertIn("text/event-stream", headers["Content-Type"])
        self.assertNotIn(b"[DONE]", data)
        return [json.loads(e[6:]) for e in data.decode().split("\n\n") if e.startswith("data: ")]

    def test_T60_load_and_unload(self):
        events = self.load(model_name="twin", max_seq_len=512, cache_size=1024, chunk_size=128, cache_mode="Q6")
        self.assertEqual({e["model_type"] for e in events}, {"model"})
        self.assertEqual([e["status"] for e in events][-1], "finished")
        self.assertEqual([e["status"] for e in events].count("finished"), 1)
        self.assertEqual(events[-1]["module"], events[-1]["modules"])
        self.assertEqual([e["module"] for e in events], sorted(e["module"] for e in events))
        card = self.server.json("GET", "/v1/model")
        self.assertEqual((card["id"], card["max_model_len"]), ("twin", 512))
        self.assertEqual(card["parameters"]["cache_size"], 1024)
        self.assertEqual(card["parameters"]["cache_mode"], "Q6")
        self.assertEqual(self.complete(max_tokens=2)["model"], "twin")
        status, _, data = self.server.post("/v1/model/unload", b"", ADMIN)
        self.assertEqual((status, data), (200, b"null"))
        status, headers, data = self.server.get("/v1/model")
        self.assertEqual((status, json.loads(data)["error"]["code"]), (503, "model_not_loaded"))
        self.assertIsNotNone(headers["Retry-After"])
        self.assertEqual(self.server.get("/health")[0], 503)
        self.assertEqual(self.server.json("GET", "/v1/models")["data"], [])
        self.assertEqual({m["id"] for m in self.server.json("GET", "/v1/model/list", key=ADMIN)["data"]},
                         {"demo", "twin", "broken"})
        self.assertEqual(self.server.post("/v1/model/unload", b"", ADMIN)[0], 503)
        self.load(model_name="demo")
        self.assertEqual(self.server.get("/health")[0], 200)

    def test_T60_client_leaves_and_the_load_goes_on(self):
        s = self.server.open_stream("/v1/model/load", model_name="twin")
        s.close()  # with an api key it is refused: the admin's comes next
        body = json.dumps({"model_name": "twin"}).encode()
        import socket
        s = socket.create_connection(("127.0.0.1", self.server.port))
        s.sendall(b"POST /v1/model/load HTTP/1.1\r\nHost: localhost\r\nx-admin-key: %s\r\nContent-Length: %d\r\n\r\n%s"
                  % (ADMIN.encode(), len(body), body))
        time.sleep(0.005)
        s.close()
        wait_until(lambda: self.server.get("/v1/models/twin")[0] == 200)

    def test_T60_bad_loads(self):
        for fields, part in (({"model_name": "nothing"}, "nothing"), ({"model_name": "../demo"}, "model_name"),
                             ({"model_name": ".."}, "model_name"), ({"model_name": "demo", "cache_mode": "Q5"}, "Q6"),
                             ({"model_name": "demo", "cache_size": 3}, "cache_size"),
                             ({"model_name": "demo", "tensor_parallel": True}, "tensor_parallel"),
                             ({"model_name": "demo", "draft_model": {"draft_model_name": "x"}}, "draft_model")):
            status, _, data = self.server.post("/v1/model/load", fields, ADMIN)
            self.assertEqual(status, 400, data)
            self.assertIn(part, json.loads(data)["error"]["message"])
        self.assertEqual(self.server.json("GET", "/v1/model")["id"], "demo", "a bad order must not unload")
        status, _, data = self.server.post("/v1/model/load", {"model_name": "broken"}, ADMIN)
        self.assertEqual(status, 200)
        self.assertIn(b'"error"', data)
        _, _, data = self.server.get("/health")
        self.assertIn("broken", data.decode())
        self.load(model_name="demo")
        self.assertEqual(self.complete(max_tokens=2)["model"], "demo")

    def test_T60_unload_waits_for_jobs_or_cancels_them(self):
        with self.server.open_stream(prompt=PROMPT, max_tokens=100, ignore_eos=True, stream=True) as s:
            wait_until(lambda: self.server.metric("requests_running") == 1)
            self.load(model_name="twin")
            data = read_all_stream(s)
            self.assertIn(b'"finish_reason":"length"', data)
        with self.server.open_stream(prompt=PROMPT, max_tokens=1900, ignore_eos=True, stream=True) as s:
            wait_until(lambda: self.server.metric("requests_running") == 1)
            began = time.monotonic()
            self.assertEqual(self.server.post("/v1/model/unload", {"skip_queue": True}, ADMIN)[0], 200)
            self.assertLess(time.monotonic() - began, 3)
            data = read_all_stream(s)
            self.assertTrue(data.endswith(b"0\r\n\r\n"), data[-200:])
        self.assertEqual(self.server.metric('cancelled_total{cause="unload"}'), 1)

    def test_strict_model(self):
        for name in ("demo", "other", "third", "gpt-3.5-turbo", None, ""):
            self.assertEqual(self.complete(max_tokens=1, model=name)["model"], "demo")
        status, _, data = self.server.post("/v1/completions", {"prompt": "x", "model": "gpt-9"})
        self.assertEqual((status, json.loads(data)["error"]["code"]), (404, "model_not_found"))
        self.assertEqual([m["id"] for m in self.server.json("GET", "/v1/models")["data"]], ["gpt-3.5-turbo", "demo"])
        self.assertEqual(self.server.json("GET", "/v1/models/other")["id"], "demo")

    # ---- templates, tokens ----

    def test_templates(self):
        messages = {"messages": [{"role": "user", "content": "hi"}]}
        self.assertIn("<|start_header_id|>user", self.server.json("POST", "/apply-template", messages)["prompt"])
        self.assertIn("shout", self.server.json("GET", "/v1/template/list", key=ADMIN)["data"])
        self.assertEqual(self.server.post("/v1/template/switch", {"prompt_template_name": "shout"}, ADMIN)[2], b"null")
        self.assertEqual(self.server.json("POST", "/apply-template", messages), {"prompt": "HI!"})
        self.assertEqual(self.server.json("GET", "/v1/templates")["data"], ["shout"])
        status, _, data = self.server.post("/v1/template/switch", {"prompt_template_name": "bad"}, ADMIN)
        self.assertEqual(status, 400, data)
        self.assertEqual(self.server.post("/v1/template/switch", {"prompt_template_name": "chatml"}, ADMIN)[0], 200)
        self.assertIn("<|im_start|>user", self.server.json("POST", "/apply-template", messages)["prompt"])
        self.assertEqual(self.server.post("/v1/template/unload", b"", ADMIN)[2], b"null")
        status, _, data = self.server.post("/apply-template", messages)
        self.assertEqual((status, json.loads(data)["error"]["code"]), (400, "template_error"))

    def test_tokens(self):
        for text in ("Hello, world", "", "ünï\u4e2d\U0001F600 \n\t x", " leading", "<|eot_id|>"):
            got = self.server.json("POST", "/v1/token/encode", {"text": text, "add_bos_token": False,
                                                               "encode_special_tokens": False})
            self.assertEqual(got["length"], len(got["tokens"]))
            back = self.server.json("POST", "/v1/token/decode", {"tokens": got["tokens"]})
            self.assertEqual(back, {"text": text})
            plain = self.server.json("POST", "/tokenize", {"content": text, "parse_special": False})
            self.assertEqual(plain["tokens"], got["tokens"])
            self.assertEqual(self.server.json("POST", "/detokenize", {"tokens": got["tokens"]})["content"], text)
        with_bos = self.server.json("POST", "/v1/token/encode", {"text": "x"})["tokens"]
        self.assertEqual(with_bos[1:], self.server.json("POST", "/v1/token/encode",
                                                       {"text": "x", "add_bos_token": False})["tokens"])
        chat = [{"role": "user", "content": "hi"}]
        ids = self.server.json("POST", "/v1/token/encode", {"text": chat})["tokens"]
        self.assertEqual(ids.count(with_bos[0]), 1, "T43: one BOS")
        self.assertEqual(ids[0], with_bos[0])
        self.assertEqual(self.server.json("POST", "/v1/token/encode", {"text": chat, "add_bos_token": False})["tokens"],
                         ids[1:])
        vllm = self.server.json("POST", "/tokenize", {"prompt": "x"})
        self.assertEqual((vllm["count"], vllm["tokens"], vllm["max_model_len"]), (2, with_bos, 2048))
        pieces = self.server.json("POST", "/tokenize", {"content": "Hi \U0001F600", "with_pieces": True})["tokens"]
        data = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
        self.assertTrue(all(isinstance(p["id"], int) for p in pieces) and data)

    # ---- T61: presets ----

    def test_T61_presets(self):
        listed = self.server.json("GET", "/v1/sampling/overrides", key=ADMIN)
        self.assertEqual((listed["selected_preset"], listed["overrides"]), (None, {}))
        self.assertEqual(set(listed["presets"]), {"short", "default", "bad", "sample_preset", "safe_defaults"})
        self.assertEqual(self.server.json("GET", "/v1/sampling/overrides")["presets"], [])

        def switch(**fields):
            return self.server.post("/v1/sampling/override/switch", fields, ADMIN)

        self.assertEqual(switch(preset="short")[2], b"null")
        self.assertEqual(self.complete(max_tokens=9)["usage"]["completion_tokens"], 3, "force wins")
        self.assertEqual(switch(preset="default")[0], 200)
        self.assertEqual(self.complete()["usage"]["completion_tokens"], 4, "a default")
        self.assertEqual(self.complete(max_tokens=6)["usage"]["completion_tokens"], 6, "is no more than that")
        text = self.complete(max_tokens=8)["choices"][0]["text"]
        word = text.split()[2]
        self.assertEqual(switch(overrides={"stop": {"override": [word], "additive": True}})[0], 200)
        answer = self.complete(max_tokens=8, stop=["qqqq"])
        self.assertEqual(answer["choices"][0]["text"], text[:text.index(word)])
        status, _, data = switch(preset="bad")
        self.assertEqual(status, 400, data)
        self.assertEqual(switch()[0], 400)
        self.assertEqual(switch(preset="short", overrides={})[0], 400)
        self.assertEqual(self.server.post("/v1/sampling/override/unload", b"", ADMIN)[2], b"null")
        self.assertEqual(self.complete(max_tokens=9)["usage"]["completion_tokens"], 9)

    # ---- T62: keys ----

    def test_T62_keys_are_read_again(self):
        def write(text):
            with open(self.server.keys, "w", encoding="utf-8") as file:
                file.write(text)

        def code(key):
            return self.server.get("/v1/auth/permission", key)[0]

        running = self.server.open_stream(prompt=PROMPT, max_tokens=1900, ignore_eos=True, stream=True)
        write("api_key: new-key\nadmin_key: new-admin\n")
        wait_until(lambda: code("new-key") == 200, 6, 0.1)
        self.assertEqual((code(API), code(ADMIN), code("new-admin")), (401, 401, 200))
        write("api_key: [broken\n")
        time.sleep(2.5)
        self.assertEqual(code("new-key"), 200)
        wait_until(lambda: any("the old keys stay" in e["message"] for e in self.server.events("message")))
        self.assertGreater(len(running.recv(1000)), 0)
        running.close()

    def test_keys_are_made(self):
        made = Server(PROGRAM, "--no-model", model=None, config="network:\n  keys_file: fresh.yml\n")
        try:
            path = os.path.join(made.folder, "api_tokens.yml")
            self.assertTrue(os.path.exists(path))
        finally:
            made.close()
        with tempfile.TemporaryDirectory(prefix="quipu-test-") as folder:
            path = os.path.join(folder, "k.yml")
            process = subprocess.Popen([PROGRAM, "serve", "--no-model", "--port", "0", "--keys-file", path],
                                       stderr=subprocess.PIPE, cwd=folder)
            said = b""
            while b"listening" not in said:
                said += process.stderr.readline()
            process.terminate()
            process.communicate(timeout=20)
            self.assertEqual(process.returncode, 0)
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            with open(path, encoding="ascii") as file:
                text = file.read()
            found = re.fullmatch(r"api_key: ([0-9a-f]{32})\nadmin_key: ([0-9a-f]{32})\n", text)
            self.assertTrue(found, text)
            for key in found.groups():
                self.assertEqual(said.decode().count(key), 1)

    # ---- T64: health ----

    def test_T64_stalled_engine(self):
        """A step of many seconds stands for an engine that hangs."""
        s = self.server.open_stream(prompt=PROMPT * 10, max_tokens=2, stream=True)
        wait_until(lambda: self.server.get("/health")[0] == 503, 10, 0.02)
        status, headers, data = self.server.get("/health/ready")
        self.assertEqual(status, 503)
        self.assertIn("no step", json.loads(data)["issues"][0]["description"])
        self.assertIsNotNone(headers["Retry-After"])
        self.assertEqual(self.server.get("/health/live")[0], 200)
        s.close()
        wait_until(lambda: self.server.get("/health")[0] == 200, 120, 0.1)

    def test_deep_health(self):
        self.assertEqual(self.server.get("/health?deep=1")[0], 200)
        self.assertEqual(self.server.get("/health?deep=1", None)[0], 401)

    def test_health_while_loading_and_without_model(self):
        bare = Server(PROGRAM, "--no-model", model=None)
        try:
            status, _, data = bare.get("/health", None)
            self.assertEqual(status, 503)
            issue = json.loads(data)["issues"][0]
            self.assertRegex(issue["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            self.assertIn("No model", issue["description"])
        finally:
            bare.close()

    # ---- T65: metrics and logs ----

    def parse(self, text):
        """The strict reading of the text format: a type and a help before the samples of each family, all together."""
        families, samples, current = {}, {}, None
        for line in text.split("\n")[:-1]:
            self.assertEqual(line, line.strip())
            if line.startswith("# HELP "):
                current = line.split(" ")[2]
                self.assertNotIn(current, families, "a family twice")
                families[current] = None
            elif line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                self.assertEqual(name, current)
                self.assertIn(kind, ("gauge", "counter", "histogram"))
                families[name] = kind
            else:
                found = re.fullmatch(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="(\\.|[^"\\\n])*",?)*\})? (\S+)', line)
                self.assertTrue(found, line)
                name = found.group(1)
                family = re.sub(r"_(bucket|sum|count)$", "", name) if families[current] == "histogram" else name
                self.assertEqual(family, current)
                key = name + (found.group(2) or "")
                self.assertNotIn(key, samples, "a sample twice")
                samples[key] = float(found.group(5))
        for name, kind in families.items():
            self.assertIsNotNone(kind)
            if kind == "histogram":
                self.check_histogram(name, samples)
        return families, samples

    def check_histogram(self, name, samples):
        buckets = [(float(re.search(r'le="([^"]+)"', k).group(1)), v) for k, v in samples.items()
                   if k.startswith(name + "_bucket{")]
        self.assertEqual([b[0] for b in buckets], sorted(b[0] for b in buckets))
        self.assertEqual([b[1] for b in buckets], sorted(b[1] for b in buckets))
        self.assertTrue(math.isinf(buckets[-1][0]))
        count = [v for k, v in samples.items() if k.startswith(name + "_count{")]
        self.assertEqual(count, [buckets[-1][1]])

    def test_T65_metrics_and_logs(self):
        before = self.parse(self.server.get("/metrics")[2].decode())[1]
        prompt = completion = 0
        for i in range(6):
            usage = self.complete(max_tokens=3 + i, n=1 + i % 2)["usage"]
            prompt += usage["prompt_tokens"]
            completion += usage["completion_tokens"]
        wait_until(lambda: len([e for e in self.server.events("request") if e["path"] == "/v1/completions"]) == 6)
        wait_until(lambda: self.server.metric("generation_tokens_total") == completion)  # shown when its step is over
        _, headers, data = self.server.get("/metrics")
        self.assertEqual(headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        families, after = self.parse(data.decode())
        for name, value in before.items():
            kind = families.get(re.sub(r"\{.*", "", name))
            if kind == "counter":
                self.assertGreaterEqual(after[name], value)
        label = '{model_name="demo"}'
        self.assertEqual(after["quipu_generation_tokens_total" + label], completion)
        self.assertEqual(after["vllm:generation_tokens_total" + label], completion)
        # The first choice of a prompt reads it; the others find it.
        self.assertGreaterEqual(after["quipu_prompt_tokens_total" + label] +
                                after["quipu_prompt_tokens_cached_total" + label], prompt)
        logged = [e for e in self.server.events("request") if e["path"] == "/v1/completions"]
        self.assertEqual(sum(e["completion_tokens"] for e in logged), completion)
        self.assertEqual(sum(e["prompt_tokens"] for e in logged), prompt)
        self.assertEqual(after['quipu_requests_total{model_name="demo",finished_reason="length"}'], 9)
        self.assertEqual(after["quipu_time_to_first_token_seconds_count" + label], 9)
        self.assertEqual(after["vllm:e2e_request_latency_seconds_count" + label], 6)
        self.assertEqual(after['quipu_http_requests_total{handler="/v1/completions",method="POST",status="200"}'], 6)
        for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            self.assertEqual(after["vllm:" + name + label], 0)
        self.assertGreater(after["process_resident_memory_bytes"], 1 << 20)
        for event in logged:
            for field in ("ts", "level", "request_id", "key", "peer", "method", "status", "model", "finish", "queue_ms",
                          "ttft_ms", "total_ms", "cached_tokens"):
                self.assertIn(field, event)
            self.assertRegex(event["key"], "^[0-9a-f]{4}$")
        self.assertNotIn("three sons", self.server.log())

    def test_log_prompt(self):
        self.complete(max_tokens=1)
        ids = self.server.json("POST", "/tokenize", {"content": "some text"})["tokens"]
        self.complete(max_tokens=1, prompt=ids)
        prompts = [e["prompt"] for e in self.server.events("prompt")]
        self.assertTrue(prompts[0].endswith(PROMPT), prompts)
        self.assertEqual(prompts[1:], ["some text"])

    def test_metrics_need_a_key(self):
        self.assertEqual(self.server.get("/metrics", None)[0], 401)
        _, samples = self.parse(self.server.get("/metrics")[2].decode())
        self.assertIn('llamacpp:requests_processing{model_name="demo"}', samples)

    def test_counters_survive_another_model(self):
        self.complete(max_tokens=5)
        wait_until(lambda: self.server.metric("generation_tokens_total") == 5)
        self.load(model_name="twin")
        self.assertEqual(self.server.metric("generation_tokens_total"), 5)
        self.complete(max_tokens=5)
        wait_until(lambda: self.server.metric("generation_tokens_total") == 10)

    def test_nobody_forges_a_line(self):
        self.server.get("/nothing%0A%7B%22event%22%3A%22request%22%7D", API)
        self.server.raw(b'GET /x"y\\z HTTP/1.1\r\nHost: localhost\r\n\r\n', 1)
        for line in self.server.log().splitlines():
            json.loads(line)

    def test_log_level(self):
        def count():
            return len(self.server.events("request"))

        self.assertEqual(self.server.json("POST", "/admin/log-level", {"level": "error"}, ADMIN), {"level": "error"})
        time.sleep(0.1)
        before = count()
        self.server.get("/v1/models")
        time.sleep(0.1)
        self.assertEqual(count(), before)
        self.server.json("POST", "/admin/log-level", {"level": "info"}, ADMIN)
        wait_until(lambda: count() > before)

    def test_limits_of_time(self):
        began = time.monotonic()
        answer = self.complete(max_tokens=1900, n=4)
        self.assertLess(time.monotonic() - began, 3)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertLess(answer["usage"]["completion_tokens"], 4 * 1900)


class Settings(unittest.TestCase):
    """--check-config, --print-config and what is refused before anything starts."""

    def serve(self, *options, config=None, env=None):
        with tempfile.TemporaryDirectory(prefix="quipu-test-") as folder:
            if config is not None:
                with open(os.path.join(folder, "quipu.yml"), "w", encoding="utf-8") as file:
                    file.write(config)
            clean = {k: v for k, v in os.environ.items() if not k.startswith("QUIPU_")}
            return subprocess.run([PROGRAM, "serve", *options], cwd=folder, env={**clean, **(env or {})}, timeout=60,
                                  capture_output=True, text=True, check=False)

    def test_check_config(self):
        ran = self.serve("--check-config", config="network:\n  port: 1234\n")
        self.assertEqual((ran.returncode, ran.stdout), (0, "the settings are good\n"))
        for config, options, part in (("network:\n  prot: 1\n", (), "did you mean network.port?"),
                                      ("network: {port: 70000}", (), "quipu.yml: port: found 70000"),
                                      ("", ("--port", "x"), "--port: found 'x'"),
                                      ("", ("--disable-auth", "--host", "0.0.0.0"), "allow_unauthenticated_network"),
                                      ("", ("--max-quee", "1"), "did you mean --max-queue"),
                                      ("a: [", (), "line 2")):
            ran = self.serve("--check-config", *options, config=config)
            self.assertEqual(ran.returncode, 2, ran.stderr)
            self.assertIn(part, ran.stderr)

    def test_precedence(self):
        config = "network: {port: 1}\n"

        def shown(*options, **env):
            ran = self.serve("--print-config", *options, config=config, env=env)
            return re.search(r"^  port: (.*)$", ran.stdout, re.M).group(1)

        self.assertEqual(shown(), "1  # quipu.yml: port")
        self.assertEqual(shown(QUIPU_NETWORK_PORT="2"), "2  # QUIPU_NETWORK_PORT")
        self.assertEqual(shown(QUIPU_NETWORK_PORT="2", QUIPU_PORT="3"), "3  # QUIPU_PORT")
        self.assertEqual(shown("--port", "4", QUIPU_NETWORK_PORT="2", QUIPU_PORT="3"), "4  # --port")

    def test_example(self):
        example = self.serve("--example-config").stdout
        self.assertEqual(self.serve("--check-config", config=example).returncode, 0)
        with open("contrib/quipu.example.yml", encoding="utf-8") as file:
            self.assertEqual(file.read(), example, "contrib/quipu.example.yml is what --example-config prints")

    def test_what_cannot_start(self):
        for options, part in ((("-m", "/nonexistent"), "nonexistent"), (("--host", "999.1.1.1", "--no-model"), "host"),
                              (("--no-model", "--override-preset", "nothing"), "nothing")):
            ran = self.serve("--port", "0", *options)
            self.assertEqual(ran.returncode, 1, ran.stderr)
            self.assertIn(part, ran.stderr)


def read_all_stream(s):
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        part = s.recv(65536)
        if not part:
            break
        data += part
    return data


if __name__ == "__main__":
    run(globals())
