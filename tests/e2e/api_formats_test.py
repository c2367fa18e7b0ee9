#!/usr/bin/env python3
"""What answers look like: chat, completions, responses, messages, their streams and their errors, against the demo
model. Acceptance tests T5, T10-T12, T14, T41-T47 of the server's specification, as far as they concern formats.

usage: api_formats_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import concurrent.futures
import json
import math
import os
import re
import tempfile
import unittest

from server_kit import ADMIN, API, Server, run

PROGRAM = ""
STORY = "Once upon a time there was a king who had three sons."
HELLO = [{"role": "user", "content": "Hello! Who are you?"}]


def events(data):
    """[(event name or None, data)] of a stream; every byte of it must be understood."""
    assert data.endswith(b"\n\n"), data[-50:]
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        lines = block.split("\n")
        if lines[0].startswith(":"):
            assert lines == [": ping"], lines
            continue
        name = None
        if lines[0].startswith("event: "):
            name = lines.pop(0)[7:]
        assert len(lines) == 1 and lines[0].startswith("data: "), block
        text = lines[0][6:]
        found.append((name, text if text == "[DONE]" else json.loads(text)))
    return found


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.server.end_well()

    def post(self, path, body, expected=200):
        status, _, data = self.server.post(path, body)
        self.assertEqual(status, expected, data[:500])
        return json.loads(data)

    def stream(self, path, body):
        status, headers, data = self.server.post(path, dict(body, stream=True))
        self.assertEqual(status, 200, data[:500])
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        return events(data)

    def chat(self, **fields):
        return self.post("/v1/chat/completions", dict({"messages": HELLO, "max_tokens": 12, "temperature": 0},
                **fields))

    def text(self, **fields):
        return self.post("/v1/completions", dict({"prompt": STORY, "max_tokens": 12, "temperature": 0}, **fields))

    def refused(self, path, body, param, status=400, code=None):
        answer = self.post(path, body, status)
        error = answer["error"]
        self.assertEqual(sorted(error), ["code", "message", "param", "type"])
        self.assertEqual(error["param"], param, error)
        if param:
            self.assertIn(param.split("[")[0].split(".")[0], error["message"])
        if code:
            self.assertEqual(error["code"], code)
        return error


class Chat(Api):
    def test_answer(self):
        answer = self.chat()
        self.assertEqual(sorted(answer), ["choices", "created", "id", "model", "object", "system_fingerprint", "usage"])
        self.assertRegex(answer["id"], r"^chatcmpl-[0-9a-f]{32}$")
        choice = answer["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIsNone(choice["message"]["refusal"])
        self.assertIsNone(choice["logprobs"])
        self.assertTrue(choice["message"]["content"])

    def test_T10_T11_stream(self):
        for usage in (False, True):
            body = {"messages": HELLO, "max_tokens": 12, "temperature": 0}
            if usage:
                body["stream_options"] = {"include_usage": True}
            got = self.stream("/v1/chat/completions", body)
            self.assertEqual(got.pop(), (None, "[DONE]"))
            chunks = [chunk for _, chunk in got]
            self.assertEqual(len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}), 1)
            if usage:
                last = chunks.pop()
                self.assertEqual(last["choices"], [])
                self.assertGreater(last["usage"]["completion_tokens"], 0)
            self.assertTrue(all(c["usage"] is None and len(c["choices"]) == 1 for c in chunks))
            deltas = [c["choices"][0]["delta"] for c in chunks]
            self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
            self.assertEqual(deltas[-1], {})
            self.assertTrue(all(d.get("content") and "role" not in d for d in deltas[1:-1]))
            reasons = [c["choices"][0]["finish_reason"] for c in chunks]
            self.assertEqual(set(reasons[:-1]), {None})
            self.assertIn(reasons[-1], ("stop", "length"))
            self.assertEqual("".join(d.get("content", "") for d in deltas),
                             self.chat()["choices"][0]["message"]["content"])

    def test_continuous_usage(self):
        got = self.stream("/v1/chat/completions", {"messages": HELLO, "max_tokens": 5,
                                                   "stream_options": {"continuous_usage_stats": True}})
        counts = [c["usage"]["completion_tokens"] for _, c in got[:-1]]
        self.assertEqual(counts, sorted(counts))
        self.assertGreater(counts[-1], 0)

    def test_T12_characters(self):
        """No stream shows half a character, whatever tokens it is made of."""
        body = {"prompt": "日本語 😀 ", "max_tokens": 200, "temperature": 2.0, "seed": 5, "ignore_eos": True}
        whole = self.post("/v1/completions", body)["choices"][0]["text"]
        parts = [c["choices"][0]["text"] for _, c in self.stream("/v1/completions", body)[:-1]]
        self.assertEqual("".join(parts), whole)
        for id_ in range(0, 6000, 500):
            ids = list(range(id_, id_ + 40))
            text = self.text(prompt=ids, echo=True, max_tokens=0)["choices"][0]["text"]
            self.assertEqual(text, self.post("/v1/token/decode", {"tokens": ids})["text"])

    def test_choices(self):
        answer = self.chat(n=3, temperature=1.0, seed=11)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2])
        alone = [self.chat(temperature=1.0, seed=11 + i)["choices"][0]["message"]["content"] for i in range(3)]
        self.assertEqual([c["message"]["content"] for c in answer["choices"]], alone)
        got = self.stream("/v1/chat/completions", {"messages": HELLO, "max_tokens": 12, "n": 3, "temperature": 1.0,
                                                   "seed": 11})
        texts = ["", "", ""]
        for _, chunk in got[:-1]:
            choice = chunk["choices"][0]
            texts[choice["index"]] += choice["delta"].get("content", "")
        self.assertEqual(texts, alone)

    def test_T41_seed(self):
        first = self.chat(temperature=1.0, seed=3)["choices"][0]["message"]["content"]
        self.assertEqual(first, self.chat(temperature=1.0, seed=3)["choices"][0]["message"]["content"])
        others = {self.chat(temperature=1.5, seed=s)["choices"][0]["message"]["content"] for s in range(6)}
        self.assertGreater(len(others), 1)
        unseeded = {self.chat(temperature=1.5)["choices"][0]["message"]["content"] for _ in range(6)}
        self.assertGreater(len(unseeded), 1)

    def test_T42_logprobs(self):
        choice = self.chat(logprobs=True, top_logprobs=3)["choices"][0]
        entries = choice["logprobs"]["content"]
        self.assertEqual(bytes(b for e in entries for b in e["bytes"]).decode(), choice["message"]["content"])
        for e in entries:
            self.assertEqual(e["token"], bytes(e["bytes"]).decode("utf-8", "replace"))
            self.assertEqual(len(e["top_logprobs"]), 3)
            falling = [t["logprob"] for t in e["top_logprobs"]]
            self.assertEqual(falling, sorted(falling, reverse=True))
            self.assertEqual(e["top_logprobs"][0]["token_id"], e["token_id"])  # greedy
            self.assertLessEqual(sum(math.exp(x) for x in falling), 1.0001)
        old = self.chat(logprobs=2)["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(old[0]["top_logprobs"]), 2)
        streamed = []
        for _, chunk in self.stream("/v1/chat/completions", {"messages": HELLO, "max_tokens": 12, "temperature": 0,
                                                             "logprobs": True, "top_logprobs": 3})[:-1]:
            delta = chunk["choices"][0]
            if delta["logprobs"]:
                self.assertEqual(bytes(b for e in delta["logprobs"]["content"] for b in e["bytes"]).decode(),
                                 delta["delta"]["content"])
                streamed += delta["logprobs"]["content"]
        self.assertEqual([e["token_id"] for e in streamed], [e["token_id"] for e in entries])
        for a, b in zip(streamed, entries):
            self.assertAlmostEqual(a["logprob"], b["logprob"], delta=1e-3)

    def test_T43_one_bos(self):
        bos = self.post("/v1/token/encode", {"text": ""})["tokens"]
        self.assertEqual(len(bos), 1)
        count = self.chat(max_tokens=1)["usage"]["prompt_tokens"]
        text = self.post("/apply-template", {"messages": HELLO})["prompt"]
        tokens = self.post("/tokenize", {"content": text})["tokens"]
        self.assertEqual(tokens.count(bos[0]), 1)
        self.assertEqual(len(tokens), count)
        with_bos = self.post("/v1/token/decode", {"tokens": bos, "decode_special_tokens": True})["text"]
        self.assertEqual(self.text(prompt=with_bos + STORY, max_tokens=1)["usage"]["prompt_tokens"],
                         self.text(prompt=STORY, max_tokens=1)["usage"]["prompt_tokens"])
        self.assertEqual(self.text(prompt=STORY, max_tokens=1, add_bos_token=False)["usage"]["prompt_tokens"] + 1,
                         self.text(prompt=STORY, max_tokens=1)["usage"]["prompt_tokens"])

    def test_T44_stop(self):
        whole = self.text(max_tokens=60)["choices"][0]["text"]
        words = whole.split(" ")
        for stop in (words[3], words[4][:2] + words[4][2:], words[2] + " " + words[3], whole[7:9], whole[:3]):
            choice = self.text(max_tokens=60, stop=stop)["choices"][0]
            self.assertEqual(choice["text"], whole[:whole.index(stop)], stop)
            self.assertEqual((choice["finish_reason"], choice["stop_reason"], choice["eos_reason"]),
                             ("stop", stop, "stop_string"))
            parts = [c["choices"][0]["text"] for _, c in
                     self.stream("/v1/completions", {"prompt": STORY, "max_tokens": 60, "temperature": 0,
                                                     "stop": [stop, "never there"]})[:-1]]
            self.assertEqual("".join(parts), choice["text"])
        shown = self.text(max_tokens=60, stop=[words[5], words[3]],
                include_stop_str_in_output=True)["choices"][0]["text"]
        self.assertEqual(shown, whole[:whole.index(words[3]) + len(words[3])])
        ids = self.text(max_tokens=12, return_token_ids=True)["choices"][0]["token_ids"]
        choice = self.text(max_tokens=12, stop=[ids[4]])["choices"][0]
        self.assertEqual((choice["stop_reason"], choice["eos_reason"]), (ids[4], "stop_token"))

    def test_T45_bias(self):
        first = self.text(max_tokens=1, return_token_ids=True)["choices"][0]["token_ids"][0]
        for bias in ({str(first): -100}, [[first, -100]], [[first, False]]):
            other = self.text(max_tokens=1, logit_bias=bias, return_token_ids=True)["choices"][0]["token_ids"][0]
            self.assertNotEqual(other, first)
        forced = self.text(max_tokens=3, logit_bias={"77": 100}, return_token_ids=True)["choices"][0]["token_ids"]
        self.assertEqual(forced, [77, 77, 77])

    def test_T46_ends(self):
        choice = self.chat(max_tokens=200)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["eos_reason"], choice["stop_reason"]), ("stop",
                "stop_token", None))
        choice = self.chat(max_tokens=2)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["eos_reason"]), ("length", "max_new_tokens"))
        choice = self.chat(max_tokens=1900, ban_eos_token=True, timeout=0.3, loop_detect_window=0)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["eos_reason"]), ("length", "timeout"))
        choice = self.text(max_tokens=1500, logit_bias={"77": 100}, loop_detect_window=100)["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["eos_reason"]), ("stop", "loop_detected"))
        answer = self.chat(max_tokens=0)
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 0)
        self.assertGreater(answer["usage"]["prompt_tokens"], 5)

    def test_T47_usage(self):
        usage = self.chat(n=2, temperature=1.0)["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        prompt = "A tale that nobody has told before. " * 40
        first = self.text(prompt=prompt, max_tokens=2)["usage"]
        again = self.text(prompt=prompt, max_tokens=2)["usage"]
        self.assertEqual(first["prompt_tokens"], again["prompt_tokens"])
        self.assertGreater(again["prompt_tokens_details"]["cached_tokens"],
                           first["prompt_tokens_details"]["cached_tokens"])
        one, four = self.text(prompt=prompt, n=1)["usage"], self.text(prompt=prompt, n=4)["usage"]
        self.assertEqual(one["prompt_tokens"], four["prompt_tokens"])
        self.assertEqual(one["completion_tokens"] * 4, four["completion_tokens"])

    def test_timings(self):
        timings = self.chat(timings_per_token=True)["timings"]
        self.assertEqual(timings["predicted_n"], 12)
        self.assertGreater(timings["predicted_per_second"], 0)

    def test_messages(self):
        """Roles, parts and histories that clients send."""
        for messages in ([{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}],
                         [{"role": "user", "content": [{"type": "text", "text": "He"}, {"type": "text",
                                 "text": "llo"}]}],
                         [{"role": "user", "content": "Hi"},
                          {"role": "assistant", "content": None,
                           "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f",
                                   "arguments": "{}"}}]},
                          {"role": "tool", "tool_call_id": "a", "content": "42"}]):
            if messages[-1]["role"] == "tool":
                messages[1]["content"] = ""  # the demo's template wants a text
            self.assertTrue(self.chat(messages=messages)["choices"][0]["finish_reason"])
        parts = self.chat(messages=[{"role": "user", "content": [{"type": "text", "text": "Hello! "},
                                                                 {"type": "text", "text": "Who are you?"}]}])
        self.assertEqual(parts["choices"][0]["message"], self.chat()["choices"][0]["message"])

    def test_prefill(self):
        prefix = "My name is"
        answer = self.chat(response_prefix=prefix)["choices"][0]["message"]["content"]
        continued = self.chat(messages=HELLO + [{"role": "assistant", "content": prefix}], continue_final_message=True)
        self.assertEqual(answer, continued["choices"][0]["message"]["content"])
        self.assertFalse(answer.startswith(prefix))

    def test_tools_are_told(self):
        """A template without tools gets them told, tool_choice none hides them."""
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
        plain = self.chat(max_tokens=1)["usage"]["prompt_tokens"]
        self.assertGreater(self.chat(max_tokens=1, tools=tools)["usage"]["prompt_tokens"], plain + 50)
        self.assertEqual(self.chat(max_tokens=1, tools=tools, tool_choice="none")["usage"]["prompt_tokens"], plain)
        skipped = [{"type": "web_search"}]
        self.assertEqual(self.chat(max_tokens=1, tools=skipped)["usage"]["prompt_tokens"], plain)

    def test_reasoning(self):
        """A template that opens a thought: what is said before its end is reasoning."""
        template = "{{ bos_token }}{% for m in messages %}{{ m.content }} {% endfor %}<think>\n{# </think> #}"
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "think.jinja"), "w", encoding="utf-8") as file:
                file.write(template)
            server = Server(PROGRAM, "--template-dir", folder, "--prompt-template", "think")
            try:
                body = {"messages": HELLO, "max_tokens": 10, "temperature": 0}
                answer = server.json("POST", "/v1/chat/completions", body)
                message = answer["choices"][0]["message"]
                self.assertEqual(message["content"], "")
                self.assertTrue(message["reasoning_content"])
                self.assertEqual(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 10)
                _, _, data = server.post("/v1/chat/completions", dict(body, stream=True))
                deltas = [c["choices"][0]["delta"] for _, c in events(data)[:-1]]
                self.assertEqual("".join(d.get("reasoning_content", "") for d in deltas), message["reasoning_content"])
            finally:
                server.close()


class Completions(Api):
    def test_prompts(self):
        ids = self.post("/v1/token/encode", {"text": STORY})["tokens"]
        self.assertEqual(self.text(prompt=ids)["choices"][0]["text"], self.text()["choices"][0]["text"])
        answer = self.text(prompt=[STORY, "The dog"], n=2)
        self.assertEqual([c["index"] for c in answer["choices"]], [0, 1, 2, 3])
        self.assertEqual(answer["choices"][0]["text"], answer["choices"][1]["text"])
        self.assertEqual(answer["choices"][2]["text"], self.text(prompt="The dog")["choices"][0]["text"])
        many = self.text(prompt=[ids, ids[:5]])
        self.assertEqual(many["choices"][0]["text"], self.text()["choices"][0]["text"])
        self.assertEqual(many["usage"]["prompt_tokens"], len(ids) + 5)

    def test_T42_scoring(self):
        """Harnesses score texts by echo and logprobs; the sum must be that of the continuation's own tokens."""
        for limit in (0, 1):
            choice = self.text(echo=True, logprobs=2, max_tokens=limit)["choices"][0]
            lp = choice["logprobs"]
            self.assertTrue(choice["text"].startswith(STORY))
            self.assertEqual(len({len(lp[k]) for k in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}), 1)
            self.assertIsNone(lp["token_logprobs"][0])
            self.assertIsNone(lp["top_logprobs"][0])
            self.assertTrue(all(x <= 0 for x in lp["token_logprobs"][1:]))
            self.assertEqual(lp["text_offset"], sorted(lp["text_offset"]))
            for token, offset in list(zip(lp["tokens"], lp["text_offset"]))[1:]:
                self.assertEqual(choice["text"][offset:offset + len(token)], token)
        grown = self.text(max_tokens=6, logprobs=1, return_token_ids=True)["choices"][0]
        ids = self.post("/v1/token/encode", {"text": STORY})["tokens"] + grown["token_ids"]
        scored = self.text(prompt=ids, echo=True, logprobs=1, max_tokens=0)["choices"][0]["logprobs"]
        for a, b in zip(scored["token_logprobs"][-6:], grown["logprobs"]["token_logprobs"]):
            self.assertAlmostEqual(a, b, delta=2e-2)  # one row and many are rounded differently to 16 bits
        long_prompt = ids * 20
        scored = self.text(prompt=long_prompt, echo=True, logprobs=0, max_tokens=0)["choices"][0]["logprobs"]
        self.assertEqual(len(scored["tokens"]), len(long_prompt))

    def test_T42_scoring_exact(self):
        """With exact arithmetic scores are those of generating, alone and beside others, in pieces and cached."""
        server = Server(PROGRAM, "--precision", "exact", "--chunk-size", "16")
        try:
            ask = lambda **f: server.json("POST", "/v1/completions", dict({"prompt": STORY, "temperature": 0}, **f))
            grown = ask(max_tokens=40, logprobs=1, return_token_ids=True)["choices"][0]
            ids = server.json("POST", "/v1/token/encode", {"text": STORY})["tokens"]
            whole = ids + grown["token_ids"]
            score = lambda _: ask(prompt=whole, echo=True, logprobs=1, max_tokens=0)["choices"][0]["logprobs"]
            alone = score(0)
            for a, b in zip(alone["token_logprobs"][len(ids):], grown["logprobs"]["token_logprobs"]):
                self.assertAlmostEqual(a, b, delta=1e-3)
            for top, token in zip(alone["top_logprobs"][len(ids):], alone["token_logprobs"][len(ids):]):
                self.assertAlmostEqual(max(top.values()), token, delta=1e-6)  # it was greedy
            with concurrent.futures.ThreadPoolExecutor(6) as pool:
                noise = [pool.submit(ask, max_tokens=60, temperature=1, n=2) for _ in range(3)]
                for lp in pool.map(score, range(3)):
                    for a, b in zip(lp["token_logprobs"][1:], alone["token_logprobs"][1:]):
                        self.assertAlmostEqual(a, b, delta=1e-3)
                for future in noise:
                    future.result()
        finally:
            server.close()

    def test_stream(self):
        got = self.stream("/v1/completions", {"prompt": STORY, "max_tokens": 8, "temperature": 0, "echo": True,
                                              "logprobs": 1, "stream_options": {"include_usage": True}})
        self.assertEqual(got.pop(), (None, "[DONE]"))
        usage = got.pop()[1]
        self.assertEqual(usage["choices"], [])
        self.assertEqual("".join(c["choices"][0]["text"] for _, c in got),
                         STORY + self.text(max_tokens=8)["choices"][0]["text"])
        tokens = [t for _, c in got if c["choices"][0]["logprobs"] for t in c["choices"][0]["logprobs"]["tokens"]]
        self.assertEqual(len(tokens), usage["usage"]["prompt_tokens"] + 8)

    def test_progress(self):
        got = self.stream("/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 600}],
                                                   "max_tokens": 2, "return_progress": True})
        told = [c["prompt_progress"] for _, c in got[:-1] if "prompt_progress" in c]
        self.assertTrue(told)
        self.assertTrue(all(0 < p["processed"] <= p["total"] for p in told), told)
        self.assertEqual(len({p["total"] for p in told}), 1)


class Responses(Api):
    def test_answer(self):
        answer = self.post("/v1/responses", {"input": "Hello!", "instructions": "Be kind.", "max_output_tokens": 5,
                                             "temperature": 0})
        self.assertEqual(answer["object"], "response")
        self.assertEqual((answer["status"], answer["incomplete_details"]), ("incomplete",
                {"reason": "max_output_tokens"}))
        item = answer["output"][0]
        self.assertEqual((item["type"], item["role"], item["content"][0]["type"]), ("message", "assistant",
                "output_text"))
        self.assertEqual(answer["usage"]["total_tokens"], answer["usage"]["input_tokens"] + 5)
        self.assertEqual(answer["instructions"], "Be kind.")

    def test_stream(self):
        body = {"input": [{"role": "user", "content": [{"type": "input_text", "text": "Hello!"}]}], "temperature": 0,
                "max_output_tokens": 100}
        got = self.stream("/v1/responses", body)
        self.assertTrue(all(name == data["type"] for name, data in got))
        self.assertEqual([data["sequence_number"] for _, data in got], list(range(len(got))))
        names = [name for name, _ in got]
        self.assertEqual(names[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        self.assertEqual(names[-4:], ["response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"])
        text = "".join(d["delta"] for n, d in got if n == "response.output_text.delta")
        whole = self.post("/v1/responses", body)
        self.assertEqual(text, whole["output"][0]["content"][0]["text"])
        self.assertEqual(got[-1][1]["response"]["output"][0]["content"], whole["output"][0]["content"])

    def test_count(self):
        body = {"input": "Hello!"}
        count = self.post("/v1/responses/input_tokens", body)
        used = self.post("/v1/responses", dict(body, max_output_tokens=1))["usage"]["input_tokens"]
        self.assertEqual(count, {"object": "response.input_tokens", "input_tokens": used})

    def test_refusals(self):
        for field, value in (("previous_response_id", "resp_1"), ("conversation", "c"), ("background", True)):
            self.refused("/v1/responses", {"input": "x", field: value}, field, code="unsupported_parameter")
        self.refused("/v1/responses", {"input": [{"type": "item_reference", "id": "x"}]}, "input[0]")
        self.refused("/v1/responses", {}, "input")


class Messages(Api):
    BODY = {"messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 5, "temperature": 0}

    def test_answer(self):
        answer = self.post("/v1/messages", dict(self.BODY, system=[{"type": "text", "text": "Be kind."}]))
        self.assertEqual((answer["type"], answer["role"], answer["stop_reason"], answer["stop_sequence"]),
                         ("message", "assistant", "max_tokens", None))
        self.assertEqual(answer["content"][0]["type"], "text")
        answer = self.post("/v1/messages", dict(self.BODY, max_tokens=100))
        self.assertEqual(answer["stop_reason"], "end_turn")
        word = answer["content"][0]["text"][2:5]
        stopped = self.post("/v1/messages", dict(self.BODY, max_tokens=100, stop_sequences=[word]))
        self.assertEqual((stopped["stop_reason"], stopped["stop_sequence"]), ("stop_sequence", word))

    def test_stream(self):
        got = self.stream("/v1/messages", self.BODY)
        names = [n for n, _ in got if n != "ping"]
        self.assertEqual(names[:2], ["message_start", "content_block_start"])
        self.assertEqual(names[-3:], ["content_block_stop", "message_delta", "message_stop"])
        text = "".join(d["delta"]["text"] for n, d in got if n == "content_block_delta")
        whole = self.post("/v1/messages", self.BODY)
        self.assertEqual(text, whole["content"][0]["text"])
        self.assertEqual([d for n, d in got if n == "message_delta"][0]["usage"]["output_tokens"],
                         whole["usage"]["output_tokens"])

    def test_count(self):
        body = {"messages": self.BODY["messages"], "system": "Be kind."}
        count = self.post("/v1/messages/count_tokens", body)["input_tokens"]
        usage = self.post("/v1/messages", dict(body, max_tokens=1))["usage"]
        self.assertEqual(count, usage["input_tokens"] + usage["cache_read_input_tokens"] +
                         usage["cache_creation_input_tokens"])

    def test_errors(self):
        for body, word in (({"messages": [{"role": "user", "content": "x"}]}, "max_tokens"),
                           ({"max_tokens": 5}, "messages"),
                           ({"max_tokens": 5, "messages": [{"role": "robot", "content": "x"}]}, "messages[0].role")):
            answer = self.post("/v1/messages", body, 400)
            self.assertEqual(answer["type"], "error")
            self.assertEqual(answer["error"]["type"], "invalid_request_error")
            self.assertIn(word, answer["error"]["message"])
            self.assertTrue(answer["request_id"])

    def test_tool_history(self):
        messages = [{"role": "user", "content": "Use f."},
                    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"},
                                                      {"type": "text", "text": "Yes."},
                                                      {"type": "tool_use", "id": "t1", "name": "f",
                                                              "input": {"a": 1}}]},
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "42"},
                                                 {"type": "text", "text": "And?"}]}]
        answer = self.post("/v1/messages", {"messages": messages, "max_tokens": 3,
                                            "tools": [{"name": "f", "input_schema": {"type": "object"}}]})
        self.assertEqual(answer["usage"]["output_tokens"], 3)


class Others(Api):
    """KoboldAI's and llama.cpp's routes."""

    def test_kobold(self):
        body = {"prompt": STORY, "max_length": 12, "temperature": 0, "rep_pen": 1, "sampler_order": [6, 0, 1],
                "genkey": "K1"}
        answer = self.post("/api/v1/generate", body)
        whole = self.text()["choices"][0]["text"]
        self.assertEqual(answer["results"][0]["text"], whole)
        status, _, data = self.server.post("/api/extra/generate/stream", body)
        self.assertEqual(status, 200)
        got = events(data)
        self.assertTrue(all(name == "message" for name, _ in got))
        self.assertEqual("".join(d["token"] for _, d in got), whole)
        split = self.post("/api/v1/generate", dict(body, prompt=STORY[9:], memory=STORY[:9]))
        self.assertEqual(split["results"][0]["text"], whole)
        self.assertEqual(self.post("/api/extra/abort", {"genkey": "none"}), {"success": "false"})
        counted = self.post("/api/extra/tokencount", {"prompt": STORY})
        self.assertEqual(counted["ids"], self.post("/v1/token/encode", {"text": STORY})["tokens"])
        self.assertEqual(counted["value"], len(counted["ids"]))
        self.assertEqual(self.server.json("GET", "/api/v1/model"), {"result": "demo"})
        self.assertGreater(self.server.json("GET", "/api/v1/config/max_context_length")["value"], 100)

    def test_kobold_settings(self):
        """What differs from KoboldAI is done or told, never left out in silence."""
        def ignored(**fields):
            status, headers, data = self.server.post("/api/v1/generate", {"prompt": STORY, "max_length": 4, **fields})
            self.assertEqual(status, 200, data)
            return headers.get("x-quipu-ignored-params")

        self.assertIsNone(ignored(sampler_order=[6, 0, 1, 3, 4, 2, 5], rep_pen_slope=1))
        self.assertIsNone(ignored(sampler_order=[6, 5, 0, 1, 3, 4, 2]))
        self.assertEqual(ignored(sampler_order=[6, 0, 5, 1, 3, 4, 2], rep_pen_slope=0.7),
                         "sampler_order, rep_pen_slope")
        self.assertEqual(ignored(sampler_order=[6, 0, 5, 1], smoothing_curve=2), "smoothing_curve, sampler_order")
        warm = {"prompt": STORY, "max_length": 30, "min_p": 0.2, "temperature": 3, "sampler_seed": 1}
        first, last = (self.post("/api/v1/generate", dict(warm, sampler_order=order))["results"][0]["text"]
                       for order in ([6, 5, 0, 1, 3, 4, 2], [6, 0, 1, 3, 4, 2, 5]))
        for is_last, text in ((False, first), (True, last)):
            self.assertEqual(self.text(max_tokens=30, min_p=0.2, temperature=3, seed=1,
                                       temperature_last=is_last)["choices"][0]["text"], text)
        self.assertNotEqual(first, last)

    def test_kobold_context(self):
        body = {"prompt": STORY * 40, "max_length": 10, "max_context_length": 50, "temperature": 0}
        result = self.post("/api/v1/generate", body)["results"][0]
        self.assertEqual(result["prompt_tokens"], 40)
        ids = self.post("/v1/token/encode", {"text": STORY * 40})["tokens"]
        self.assertEqual(self.text(prompt=ids[:1] + ids[-39:], max_tokens=10)["choices"][0]["text"], result["text"])
        self.refused("/api/v1/generate", dict(body, max_context_length=10), "max_context_length")

    def test_kobold_stops(self):
        body = {"prompt": STORY, "max_length": 60, "temperature": 0, "ban_eos_token": True}
        whole = self.post("/api/v1/generate", body)["results"][0]["text"]
        word = whole.split()[5]
        stopped = {t: self.post("/api/v1/generate", dict(body, stop_sequence=[word], trim_stop=t))["results"][0]["text"]
                   for t in (True, False)}
        at = whole.index(word)
        self.assertEqual(stopped, {True: whole[:at], False: whole[:at + len(word)]})
        lines = dict(body, prompt="One.\n\nTwo.", max_length=200, singleline=True, temperature=1, seed=3, n=2)
        results = self.post("/api/v1/generate", lines)["results"]
        self.assertEqual(len(results), 2)
        self.assertFalse(any("\n" in r["text"] for r in results))

    def test_kobold_check(self):
        """The text so far is a beginning of the whole one and grows; others see nothing of it."""
        check = lambda key, method="POST", **b: self.server.ask(method, "/api/extra/generate/check", b or None, key)
        text = lambda *a, **b: json.loads(check(*a, **b)[2])["results"][0]["text"]
        self.assertEqual(text(API, genkey="K9"), "")
        body = {"prompt": STORY, "max_length": 1500, "ban_eos_token": True, "temperature": 0, "genkey": "K9"}
        with self.server.open_stream("/api/v1/generate", **body) as s:
            seen = [""]
            while len(set(seen)) < 4:
                seen.append(text(API, genkey="K9"))
            self.assertTrue(all(b.startswith(a) for a, b in zip(seen, seen[1:])), seen)
            self.assertTrue(text(API, "GET").startswith(seen[-1]))
            self.assertEqual((text("c" * 32, genkey="K9"), text("c" * 32, "GET"), text(API, genkey="K8")), ("", "", ""))
            self.assertNotEqual(text(ADMIN, genkey="K9"), "")
            self.post("/api/extra/abort", {"genkey": "K9"})
            self.assertTrue(json.loads(read_body(s))["results"][0]["text"].startswith(seen[-1]))

    def test_kobold_abort(self):
        with self.server.open_stream("/api/v1/generate", prompt=STORY, max_length=1900, ban_eos_token=True,
                                     loop_detect_window=0, genkey="KCPP7") as s:
            for _ in range(200):
                if self.post("/api/extra/abort", {"genkey": "KCPP7"})["success"] == "true":
                    break
            else:
                self.fail("nothing to abort")
            self.assertIn(b" 200 ", s.recv(100))

    def test_llamacpp(self):
        body = {"prompt": STORY, "n_predict": 12, "temperature": 0, "n_probs": 2, "return_tokens": True}
        answer = self.post("/completion", body)
        whole = self.text(return_token_ids=True)["choices"][0]
        self.assertEqual((answer["content"], answer["tokens"]), (whole["text"], whole["token_ids"]))
        self.assertEqual((answer["stop"], answer["stop_type"], answer["tokens_predicted"]), (True, "limit", 12))
        self.assertEqual(len(answer["completion_probabilities"][0]["top_logprobs"]), 2)
        got = [d for _, d in self.stream("/completion", body)]
        self.assertEqual("".join(d["content"] for d in got), whole["text"])
        self.assertEqual([d["stop"] for d in got], [False] * (len(got) - 1) + [True])
        self.assertEqual(self.post("/completion", dict(body, stop=[whole["text"][5:9]]))["stop_type"], "word")
        self.refused("/infill", {"input_prefix": "a", "input_suffix": "b"}, "suffix", code="unsupported_parameter")


def read_body(s):
    """The body of the one answer that comes on this socket."""
    data = b""
    while True:
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"Content-Length: (\d+)", head)
        if length and len(body) >= int(length[1]):
            return body
        data += s.recv(65536)


class Refusals(Api):
    def test_T5_chat(self):
        many = [{"role": "user", "content": "x"}]
        rows = [({}, "messages"), ({"messages": []}, "messages"), ({"messages": "x"}, "messages"),
                ({"messages": [1]}, "messages[0]"), ({"messages": [{"role": "x", "content": "y"}]}, "messages[0].role"),
                ({"messages": [{"role": "user"}]}, "messages[0].content"),
                ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
                ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
                 "messages[0].content[0]"),
                ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
                ({"messages": many, "temperature": 11}, "temperature"), ({"messages": many, "top_p": "x"}, "top_p"),
                ({"messages": many, "top_p": -0.1}, "top_p"), ({"messages": many, "n": 0}, "n"),
                ({"messages": many, "n": 17}, "n"), ({"messages": many, "n": 1.5}, "n"),
                ({"messages": many, "n": "2"}, "n"), ({"messages": many, "max_tokens": -2}, "max_tokens"),
                ({"messages": many, "stop": ""}, "stop[0]"), ({"messages": many, "stop": ["a", {}]}, "stop[1]"),
                ({"messages": many, "stop": ["a"] * 65}, "stop"), ({"messages": many, "stream": "yes"}, "stream"),
                ({"messages": many, "top_logprobs": 3}, "top_logprobs"),
                ({"messages": many, "logprobs": True, "top_logprobs": 21}, "top_logprobs"),
                ({"messages": many, "logit_bias": {"x": 1}}, "logit_bias"),
                ({"messages": many, "logit_bias": {"1": 101}}, "logit_bias.1"),
                ({"messages": many, "logit_bias": {"999999": 1}}, "logit_bias"),
                ({"messages": many, "tools": [{"type": "function", "function": {"name": "a b"}}]},
                 "tools[0].function.name"),
                ({"messages": many, "tools": [{"type": "function", "function": {"name": "a"}}] * 2},
                 "tools[1].function"),
                ({"messages": many, "tool_choice": "required"}, "tool_choice"),
                ({"messages": many, "tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
                ({"messages": many, "response_format": {"type": "xml"}}, "response_format.type"),
                ({"messages": many, "response_format": {"type": "json_schema", "json_schema": {"schema": 5}}},
                 "response_format.json_schema"),
                ({"messages": many, "regex_pattern": "a", "grammar_string": "b"}, "grammar_string"),
                ({"messages": many, "min_tokens": 5, "max_tokens": 2}, "min_tokens"),
                ({"messages": many, "modalities": ["audio"]}, "modalities"),
                ({"messages": many, "stream_options": 1}, "stream_options"),
                ({"messages": many, "banned_tokens": [10 ** 6]}, "banned_tokens"),
                ({"messages": many, "prompt_template": "no such one"}, "prompt_template")]
        for body, param in rows:
            with self.subTest(param=param, body=str(body)[:80]):
                self.refused("/v1/chat/completions", body, param)

    def test_T5_completions(self):
        for body, param in (({}, "prompt"), ({"prompt": 5}, "prompt"), ({"prompt": [1, "a"]}, "prompt[1]"),
                            ({"prompt": ["a", 1]}, "prompt[1]"), ({"prompt": [[]]}, "prompt[0]"), ({"prompt": []},
                                    "prompt"),
                            ({"prompt": [10 ** 7]}, "prompt[0]"), ({"prompt": [-1]}, "prompt[0]"),
                            ({"prompt": "a", "best_of": 2}, "best_of"), ({"prompt": "a", "suffix": "b"}, "suffix"),
                            ({"prompt": "a", "logprobs": 21}, "logprobs"), ({"prompt": ["a"] * 3000}, "prompt")):
            with self.subTest(param=param):
                self.refused("/v1/completions", body, param)

    def test_T38_too_long(self):
        self.refused("/v1/completions", {"prompt": "word " * 5000}, "prompt", code="context_length_exceeded")

    def test_neutral(self):
        """What old front ends send in every request changes nothing."""
        body = {"messages": HELLO, "max_tokens": 6, "temperature": 0}
        plain = self.post("/v1/chat/completions", body)["choices"]
        noise = {"grammar_string": "", "json_schema": None, "regex_pattern": "", "top_k": "-1", "top_p": "1.0",
                "tfs": 1,
                 "typical_p": 1, "min_p": 0, "rep_pen": 1, "rep_pen_range": 0, "mirostat": 0, "smoothing_factor": 0,
                 "banned_strings": [], "custom_token_bans": "", "dry_multiplier": 0, "dry_sequence_breakers": '["\\n"]',
                 "xtc_probability": 0, "user": "me", "store": True, "metadata": {"a": 1}, "unknown_field": [1, 2],
                 "ignore_eos": False, "add_bos_token": True, "temperature_last": "false", "cfg_scale": 1, "lora": []}
        self.assertEqual(self.post("/v1/chat/completions", dict(body, **noise))["choices"], plain)


if __name__ == "__main__":
    run(globals())
