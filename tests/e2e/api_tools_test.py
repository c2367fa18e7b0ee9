#!/usr/bin/env python3
"""Calls of tools and reasoning over HTTP, with a puppet: a model of one layer of zeros whose head knows for each token
the one that follows, so that the last token of a prompt decides what is said. Acceptance tests T46 (tool_calls), T53
and T54 of the server's specification, as far as nothing must be forced.

usage: api_tools_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import shutil
import struct
import tempfile
import unittest

from api_formats_test import events
from server_kit import Server, run

PROGRAM = ""
# Every piece is a token, so each may stand in one place only; "" ends the answer, "*" repeats the piece before it.
SCRIPTS = {
    "@call": ["Sure", ".\n", "<tool_call>", '\n{"name": "f", "argu', 'ments": {"city": "Ro', 'me"}}\n',
            "</tool_call>", ""],
    "@two": ['<tool_call>{"name":"f","arguments":{"city":"A"}}</tool', "_call><tool_call>",
            '{"name":"g","arguments":{}}',
             "</tool_call>\n", ""],
    "@think": ["<think>", "\nhm, ", "so", "</think>", "\n\nPa", "ris", ""],
    "@both": ["<think>use f</think>", '<tool_call>{"name": "f", ', '"arguments": {}}</tool_call>', ""],
    "@cut": ["<tool", '_call>{"name":"f","arguments":{"city":"', "x", "*"],
    "@none": ["<tool_", "call>oops</tool_call> well", ""],
    "@stop": ["<think>END in mind</think>", "one ", "EN", "D two", ""],
}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}}}}}, {"type": "function", "function": {"name": "g"}}]
TEMPLATE = "{# <tool_call> tools <think> </think> #}{{ messages[0]['content'] }}"


def tensors(size, follows):
    """{name: (shape, values)}; only the embedding and the head are not zero."""
    embed = [float(i == j) for i in range(size) for j in range(size)]
    head = [0.0] * (size * size)
    for before, after in follows.items():
        head[after * size + before] = 10.0
    square = ((size, size), [0.0] * (size * size))
    layer = "model.layers.0."
    found = {"model.embed_tokens.weight": ((size, size), embed), "lm_head.weight": ((size, size), head),
             "model.norm.weight": ((size,), [1.0] * size)}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                 "mlp.up_proj", "mlp.down_proj"):
        found[layer + name + ".weight"] = square
    for name in ("input_layernorm", "post_attention_layernorm"):
        found[layer + name + ".weight"] = ((size,), [1.0] * size)
    return found


def write_safetensors(path, found):
    header, data = {}, b""
    for name, (shape, values) in found.items():
        packed = struct.pack("<%df" % len(values), *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def make_puppet(folder):
    pieces, follows = ["<eos>"], {}
    for start, script in SCRIPTS.items():
        pieces.append(start)
        for piece in script:
            last = len(pieces) - 1
            if piece == "*":
                follows[last] = last
            elif piece:
                assert piece not in pieces, piece
                pieces.append(piece)
                follows[last] = len(pieces) - 1
            else:
                follows[last] = 0
    size = 64
    assert len(pieces) <= size
    pieces += ["<unused%d>" % i for i in range(size - len(pieces))]

    def write(name, value):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)

    write("config.json", {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": size,
                          "intermediate_size": size, "num_hidden_layers": 1, "num_attention_heads": 1,
                          "num_key_value_heads": 1, "head_dim": size, "vocab_size": size, "rms_norm_eps": 1e-6,
                          "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "float32",
                          "eos_token_id": 0, "rope_theta": 10000.0, "hidden_act": "silu"})
    added = [{"id": i, "content": p, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": i == 0} for i, p in enumerate(pieces)]
    write("tokenizer.json", {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                             "normalizer": None, "pre_tokenizer": None, "post_processor": None,
                             "decoder": {"type": "Fuse"},
                             "model": {"type": "BPE", "dropout": None, "unk_token": None, "vocab":
                                       {p: i for i, p in enumerate(pieces)}, "merges": []}})
    write("tokenizer_config.json", {"eos_token": "<eos>", "chat_template": TEMPLATE})
    write_safetensors(os.path.join(folder, "model.safetensors"), tensors(size, follows))


class Puppet(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="quipu-test-")
        make_puppet(cls.folder)
        cls.server = Server(PROGRAM, model=cls.folder)

    @classmethod
    def tearDownClass(cls):
        try:
            cls.server.end_well()
        finally:
            shutil.rmtree(cls.folder)

    def body(self, script, **fields):
        return dict({"messages": [{"role": "user", "content": script}], "tools": TOOLS, "temperature": 0}, **fields)

    def chat(self, script, **fields):
        answer = self.server.json("POST", "/v1/chat/completions", self.body(script, **fields))
        return answer["choices"][0], answer["usage"]

    def stream(self, path, body):
        status, _, data = self.server.post(path, dict(body, stream=True))
        self.assertEqual(status, 200, data)
        return events(data)

    def joined(self, script, **fields):
        """The message that a stream's deltas make; every rule about them is checked on the way."""
        message = {"content": "", "reasoning_content": "", "tool_calls": []}
        finish, fragments = None, 0
        for _, chunk in self.stream("/v1/chat/completions", self.body(script, **fields))[:-1]:
            choice = chunk["choices"][0]
            delta, finish = choice["delta"], choice["finish_reason"] or finish
            message["content"] += delta.get("content", "")
            message["reasoning_content"] += delta.get("reasoning_content", "")
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    self.assertEqual(call["index"], len(message["tool_calls"]))
                    self.assertEqual((call["type"], call["function"]["arguments"]), ("function", ""))
                    message["tool_calls"].append({"name": call["function"]["name"], "arguments": ""})
                else:
                    self.assertEqual(sorted(call), ["function", "index"])
                    message["tool_calls"][call["index"]]["arguments"] += call["function"]["arguments"]
                    fragments += 1
        return message, finish, fragments

    def test_call(self):
        choice, _ = self.chat("@call")
        call = choice["message"]["tool_calls"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", "Sure."))
        self.assertRegex(call["id"], "^call_[0-9a-f]{24}$")
        self.assertEqual((call["type"], call["function"]), ("function", {"name": "f", "arguments": '{"city": "Rome"}'}))
        most = 0
        for _ in range(20):  # deltas merge where the machine is too busy to send each by itself
            message, finish, fragments = self.joined("@call")
            self.assertEqual((message["content"], finish), ("Sure.", "tool_calls"))
            self.assertEqual(message["tool_calls"], [{"name": "f", "arguments": '{"city": "Rome"}'}])
            most = max(most, fragments)
            if most > 1:
                break
        self.assertGreater(most, 1)

    def test_T53_two(self):
        choice, _ = self.chat("@two")
        calls = [c["function"] for c in choice["message"]["tool_calls"]]
        self.assertEqual(calls, [{"name": "f", "arguments": '{"city":"A"}'}, {"name": "g", "arguments": "{}"}])
        self.assertIsNone(choice["message"]["content"])
        message, finish, _ = self.joined("@two")
        self.assertEqual((message["tool_calls"], finish), (calls, "tool_calls"))
        choice, usage = self.chat("@two", parallel_tool_calls=False)
        self.assertEqual([c["function"]["name"] for c in choice["message"]["tool_calls"]], ["f"])
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertLess(usage["completion_tokens"], 5)

    def test_reasoning(self):
        for script in ("@think",):
            choice, usage = self.chat(script)
            self.assertEqual(choice["message"]["reasoning_content"], "hm, so")
            self.assertEqual((choice["message"]["content"], choice["finish_reason"]), ("Paris", "stop"))
            self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], 4)
            message, _, _ = self.joined(script)
            self.assertEqual((message["reasoning_content"], message["content"]), ("hm, so", "Paris"))
        choice, _ = self.chat("@both")
        self.assertEqual(choice["message"]["reasoning_content"], "use f")
        self.assertEqual(choice["message"]["tool_calls"][0]["function"], {"name": "f", "arguments": "{}"})

    def test_logprobs_of_content(self):
        choice, _ = self.chat("@think", logprobs=True)
        entries = choice["logprobs"]["content"]
        self.assertEqual("".join(e["token"] for e in entries), "Paris")

    def test_cut(self):
        choice, _ = self.chat("@cut", max_tokens=6)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(choice["message"]["tool_calls"][0]["function"]["arguments"], '{"city":"xxxx')

    def test_no_call(self):
        choice, _ = self.chat("@none")
        self.assertEqual((choice["message"]["content"], choice["finish_reason"]),
                         ("<tool_call>oops</tool_call> well", "stop"))
        self.assertNotIn("tool_calls", choice["message"])

    def test_stop_in_text_alone(self):
        choice, usage = self.chat("@stop", stop=["END"])
        self.assertEqual((choice["message"]["content"], choice["finish_reason"], choice["stop_reason"]),
                         ("one ", "stop", "END"))
        self.assertEqual(choice["message"]["reasoning_content"], "END in mind")
        self.assertLess(usage["completion_tokens"], 6)

    def test_without_tools(self):
        """Nobody asked for calls: the text is what the model wrote."""
        choice, _ = self.chat("@call", tools=None)
        self.assertIn('<tool_call>\n{"name": "f"', choice["message"]["content"])

    def test_messages(self):
        body = {"messages": [{"role": "user", "content": "@both"}], "max_tokens": 50, "tools":
                [{"name": "f", "input_schema": {"type": "object"}}]}
        answer = self.server.json("POST", "/v1/messages", body)
        self.assertEqual(answer["stop_reason"], "tool_use")
        self.assertEqual([b["type"] for b in answer["content"]], ["thinking", "tool_use"])
        self.assertEqual(answer["content"][1]["input"], {})
        names = [(n, d.get("content_block", d.get("delta", {})).get("type")) for n, d in self.stream("/v1/messages",
                body)
                 if n.startswith("content_block")]
        self.assertEqual(names, [("content_block_start", "thinking"), ("content_block_delta", "thinking_delta"),
                                 ("content_block_delta", "signature_delta"), ("content_block_stop", None),
                                 ("content_block_start", "tool_use"), ("content_block_delta", "input_json_delta"),
                                 ("content_block_stop", None)])

    def test_responses(self):
        body = {"input": "@both", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]}
        answer = self.server.json("POST", "/v1/responses", body)
        self.assertEqual([i["type"] for i in answer["output"]], ["reasoning", "function_call"])
        self.assertEqual((answer["output"][1]["name"], answer["output"][1]["arguments"]), ("f", "{}"))
        got = self.stream("/v1/responses", body)
        self.assertEqual([i["type"] for i in got[-1][1]["response"]["output"]], ["reasoning", "function_call"])
        self.assertEqual([d["output_index"] for n, d in got if n == "response.output_item.done"], [0, 1])

    def test_budget(self):
        """Thoughts that are too long are ended, with a message where one is given; others are left alone."""
        for fields, thought, count in (({"reasoning_budget": 2}, "hm,", 3), ({"thinking_budget": 1}, "", 2),
                                       ({"reasoning": {"max_tokens": 2}}, "hm,", 3),
                                       ({"reasoning_budget_tokens": 2, "reasoning_budget_message": "so"}, "hm, so", 4),
                                       ({"reasoning_budget": 9}, "hm, so", 4), ({"reasoning_budget": -1}, "hm, so", 4)):
            with self.subTest(fields=fields):
                choice, usage = self.chat("@think", **fields)
                message = choice["message"]
                self.assertEqual((message.get("reasoning_content", ""), message["content"]), (thought, "Paris"))
                self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], count)
        body = self.body("@think", reasoning_budget=1, reasoning_budget_message="a</think>b")
        status, _, data = self.server.post("/v1/chat/completions", body)
        self.assertEqual((status, json.loads(data)["error"]["param"]), (400, "reasoning_budget_message"))


if __name__ == "__main__":
    run(globals())
