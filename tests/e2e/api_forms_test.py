#!/usr/bin/env python3
"""The form of answers over HTTP: JSON, schemas, expressions, grammars, choices in the fields of every dialect, forced
and strict calls of tools, reasoning budgets; from a model so hot that only constraints can make sense of it. Acceptance
tests T50 to T53 of the server's specification.

usage: api_forms_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import re
import time
import unittest

from api_formats_test import events
from server_kit import Server, run

PROGRAM = ""
HELLO = [{"role": "user", "content": "Hello!"}]
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 999},
          "color": {"enum": ["red", "green"]}}, "required": ["id", "color"], "additionalProperties": False}
GBNF, LARK = 'root ::= "a" [0-9] "z"', 'start: "a" /[0-9]/ "z"\n'
TOOLS = [{"type": "function", "function": {"name": "paint", "strict": True, "parameters": SCHEMA}},
         {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {}}}}]
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def named(schema, **more):
    return {"type": "json_schema", "json_schema": dict({"name": "answer", "schema": schema}, **more)}


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.server.end_well()

    def post(self, path, **fields):
        body = {"temperature": 4, "max_tokens": 300}
        body.update({"messages": HELLO} if path == CHAT else {"prompt": "Once"} if path == TEXT else {})
        status, headers, data = self.server.post(path, dict(body, **fields))
        return status, headers, json.loads(data)

    def text(self, path=CHAT, **fields):
        status, _, answer = self.post(path, **fields)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop", choice)
        return choice["message"]["content"] if path == CHAT else choice["text"]

    def refused(self, param, code, path=CHAT, **fields):
        status, _, answer = self.post(path, **fields)
        self.assertEqual((status, answer["error"]["param"], answer["error"]["code"]), (400, param, code), answer)
        return answer["error"]["message"]

    def is_good(self, text):
        value = json.loads(text)
        self.assertEqual(sorted(value), ["color", "id"])
        self.assertTrue(0 <= value["id"] <= 999 and value["color"] in ("red", "green"), text)

    def test_T50_schemas(self):
        for fields in ({"response_format": named(SCHEMA, strict=True)}, {"response_format": named(SCHEMA)},
                       {"response_format": {"type": "json_schema", "schema": SCHEMA}},
                       {"response_format": {"type": "json_object", "schema": SCHEMA}}, {"json_schema": SCHEMA},
                       {"json_schema": json.dumps(SCHEMA)}, {"guided_json": SCHEMA},
                       {"guided_json": json.dumps(SCHEMA)}, {"structured_outputs": {"json": SCHEMA}}):
            for path in (CHAT, TEXT):
                with self.subTest(fields=fields, path=path):
                    self.is_good(self.text(path, **fields))

    def test_other_forms(self):
        for pattern, fields in ((r"[0-9]{3}-[a-z]{2}", {"regex_pattern": r"[0-9]{3}-[a-z]{2}"}),
                                (r"x+", {"guided_regex": r"x{1,4}"}), (r"x+", {"structured_outputs":
                                                                               {"regex": r"x{1,4}"}}),
                                (r"yes|no", {"guided_choice": ["yes", "no"]}),
                                (r"yes|no", {"structured_outputs": {"choice": ["yes", "no"]}}),
                                (r"a[0-9]z", {"grammar_string": GBNF}), (r"a[0-9]z", {"grammar": LARK}),
                                (r"a[0-9]z", {"guided_grammar": LARK}),
                                (r"a[0-9]z", {"structured_outputs": {"grammar": GBNF}})):
            for path in (CHAT, TEXT):
                with self.subTest(fields=fields, path=path):
                    text = self.text(path, **fields)
                    self.assertTrue(re.fullmatch(pattern, text), text)

    def test_objects(self):
        for fields in ({"response_format": {"type": "json_object"}}, {"structured_outputs": {"json_object": True}}):
            status, _, answer = self.post(CHAT, temperature=1, max_tokens=400, **fields)
            self.assertEqual(status, 200)
            choice = answer["choices"][0]
            self.assertEqual(choice["message"]["content"][0], "{")
            if choice["finish_reason"] == "stop":
                self.assertIsInstance(json.loads(choice["message"]["content"]), dict)

    def test_choices_of_one_prompt(self):
        status, _, answer = self.post(CHAT, n=4, seed=1, response_format=named(SCHEMA))
        self.assertEqual(status, 200, answer)
        texts = [c["message"]["content"] for c in answer["choices"]]
        for text in texts:
            self.is_good(text)
        self.assertGreater(len(set(texts)), 1)

    def test_streams_are_the_same(self):
        body = {"messages": HELLO, "temperature": 4, "seed": 7, "response_format": named(SCHEMA)}
        whole = self.server.json("POST", CHAT, body)["choices"][0]["message"]["content"]
        status, _, data = self.server.post(CHAT, dict(body, stream=True))
        self.assertEqual(status, 200)
        self.assertEqual("".join(c["choices"][0]["delta"].get("content", "") for _, c in events(data)[:-1]), whole)
        self.is_good(whole)

    def test_other_dialects(self):
        status, _, answer = self.post("/completion", prompt="Once", n_predict=200, json_schema=SCHEMA)
        self.assertEqual(status, 200, answer)
        self.is_good(answer["content"])
        status, _, answer = self.post("/completion", prompt="Once", n_predict=200, grammar=GBNF)
        self.assertTrue(re.fullmatch("a[0-9]z", answer["content"]), answer)
        status, _, answer = self.post("/api/v1/generate", prompt="Once", max_length=200, grammar=GBNF)
        self.assertTrue(re.fullmatch("a[0-9]z", answer["results"][0]["text"]), answer)
        status, _, answer = self.post("/v1/responses", input="Hi", text={"format": {"type": "json_schema", "name": "x",
                                                                                    "schema": SCHEMA}})
        self.assertEqual(status, 200, answer)
        self.is_good(answer["output"][0]["content"][0]["text"])

    def test_T50_what_cannot_be_kept(self):
        odd = {"type": "object", "properties": {"a": {"type": "string", "format": "zodiac"}}, "required": ["a"]}
        message = self.refused("response_format.json_schema", "invalid_schema",
                               response_format=named(odd, strict=True))
        self.assertIn("/properties/a/format", message)
        status, headers, _ = self.post(CHAT, response_format=named(odd))
        self.assertEqual(status, 200)
        self.assertIn("/properties/a/format", headers["x-quipu-schema-warnings"])

    def test_T52_refusals(self):
        for param, code, fields in (
                ("regex_pattern", None, {"regex_pattern": "a("}), ("grammar_string", None, {"grammar": "root ::= ("}),
                ("grammar_string", None, {"grammar_string": "start: nothing"}),
                ("guided_choice", None, {"guided_choice": []}), ("guided_choice", None, {"guided_choice": [1]}),
                ("response_format.type", None, {"response_format": {"type": "xml"}}),
                ("response_format.json_schema", None, {"response_format": {"type": "json_schema"}}),
                ("response_format.json_schema", "invalid_schema", {"response_format": named(5)}),
                ("response_format.json_schema", "invalid_schema", {"response_format": named({"type": 5})}),
                ("response_format.json_schema", "invalid_schema", {"response_format": named({"type": "no"})}),
                ("json_schema", "invalid_schema", {"json_schema": {"type": "object", "required": ["a"], "properties":
                                                                   {"a": False}}}),
                ("regex_pattern", None, {"regex_pattern": "a", "guided_choice": ["a"]}),
                ("structured_outputs.structural_tag", "unsupported_parameter",
                 {"structured_outputs": {"structural_tag": "x"}})):
            with self.subTest(fields=fields):
                if "regex_pattern" in fields and "guided_choice" in fields:
                    param = "guided_choice"
                self.assertIn(param.split(".")[0], self.refused(param, code, **fields))

    def test_T51_evil_schemas(self):
        """Refused or kept, soon, while others go on."""
        deep = {"type": "string"}
        for i in range(10):
            deep = {"oneOf": [deep, {"type": "array", "items": deep, "minItems": i}]}
        refs = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}
        wide = {"enum": ["%050d" % i for i in range(20000)]}
        many = {"allOf": [{"anyOf": [{"pattern": "a{%d,}" % (10 * i + k)} for k in range(8)]} for i in range(12)],
                "type": "string"}
        for schema in (deep, refs, wide, many):
            before = time.monotonic()
            status, _, answer = self.post(CHAT, max_tokens=5, response_format=named(schema))
            self.assertIn(status, (200, 400), answer)
            self.assertLess(time.monotonic() - before, 30)  # a minute's work would show; 5 s on a free machine

    # ---- tools ----

    def calls(self, **fields):
        status, _, answer = self.post(CHAT, **fields)
        self.assertEqual(status, 200, answer)
        choice = answer["choices"][0]
        return choice["message"].get("tool_calls"), choice

    def test_T53_forced_calls(self):
        for choice in ("required", {"type": "function", "function": {"name": "paint"}}):
            for seed in range(3):
                calls, answer = self.calls(tools=TOOLS, tool_choice=choice, seed=seed, max_tokens=800)
                self.assertTrue(calls, answer)
                for call in calls if answer["finish_reason"] == "tool_calls" else []:
                    if call["function"]["name"] == "paint":
                        self.is_good(call["function"]["arguments"])
                    else:
                        self.assertEqual((choice, call["function"]["name"]), ("required", "wait"))

    def test_T53_one_call(self):
        calls, answer = self.calls(tools=TOOLS[:1], tool_choice="required", parallel_tool_calls=False)
        self.assertEqual((len(calls), answer["finish_reason"], answer["message"]["content"]), (1, "tool_calls", None))
        self.is_good(calls[0]["function"]["arguments"])

    def test_required_call_or_form(self):
        """Tools beside a demanded form: the answer is either."""
        seen = set()
        for seed in range(12):
            calls, answer = self.calls(tools=TOOLS[:1], response_format=named(SCHEMA), seed=seed,
                                       parallel_tool_calls=False)
            if calls:
                self.is_good(calls[0]["function"]["arguments"])
            else:
                self.is_good(answer["message"]["content"])
            seen.add(bool(calls))
        self.assertTrue(seen)

    def test_other_dialects_force_calls(self):
        tool = {"name": "paint", "input_schema": SCHEMA}
        status, _, answer = self.post("/v1/messages", messages=HELLO, tools=[tool], temperature=1,
                                      tool_choice={"type": "tool", "name": "paint", "disable_parallel_tool_use": True})
        self.assertEqual((status, answer["stop_reason"], answer["content"][0]["type"]), (200, "tool_use", "tool_use"))
        self.is_good(json.dumps(answer["content"][0]["input"]))
        flat = {"type": "function", "name": "paint", "parameters": SCHEMA, "strict": True}
        status, _, answer = self.post("/v1/responses", input="Hi", tools=[flat], tool_choice="required",
                                      parallel_tool_calls=False)
        self.assertEqual((status, answer["output"][0]["type"]), (200, "function_call"), answer)
        self.is_good(answer["output"][0]["arguments"])

    def test_bad_tools(self):
        odd = {"type": "object", "properties": {"a": {"type": "string", "format": "zodiac"}}, "required": ["a"]}
        tool = {"type": "function", "function": {"name": "odd", "strict": True, "parameters": odd}}
        message = self.refused("tools", "invalid_schema", tools=[tool], tool_choice="required")
        self.assertIn('"odd"', message)
        self.assertIn("/properties/a/format", message)

    def test_logs_and_metrics(self):
        self.text(guided_choice=["a"])
        self.server.json("POST", CHAT, {"messages": HELLO, "max_tokens": 2})
        self.assertGreaterEqual(self.server.metric("grammar_compile_seconds_count"), 1)
        kinds = [e.get("constraint") for e in self.server.events("request")]
        self.assertIn("choices", kinds)


if __name__ == "__main__":
    run(globals())
