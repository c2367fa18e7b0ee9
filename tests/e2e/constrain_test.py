#!/usr/bin/env python3
"""quipu constrain and generate under constraints: answers of a hot model are in the language, refusals say where.

usage: constrain_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import re
import tempfile

import cli_test
from cli_test import DEMO, DONE, FAILED, USAGE, Base, run

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer",
          "minimum": 0, "maximum": 150}, "tags": {"type": "array", "items": {"enum": ["a", "b", 1, None]},
          "maxItems": 3}}, "required": ["name", "age"], "additionalProperties": False}
SCHEMAS = [PERSON, {"type": "boolean"}, {"enum": ["red", "green", 3]}, {"type": "array", "items": {"type": "number"},
           "maxItems": 4}, {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
           {"anyOf": [{"type": "null"}, PERSON]}]


class Constrain(Base):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, content):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def verdicts(self, texts, *options):
        source = "".join(json.dumps(t) + "\n" for t in texts)
        status, out, said = run("constrain", "-m", DEMO, *options, stdin=source)
        self.assertEqual(status, DONE, said)
        return [json.loads(line) for line in out.splitlines()]

    def generate(self, *options, seed=1, tokens=80):
        return json.loads(self.good("generate", "-m", DEMO, "-p", "Once upon a time", "--json", "--temperature", "5",
                                    "--seed", str(seed), "-n", str(tokens), *options))

    def test_hot_answers_follow_the_schema(self):
        """Complete ones are taken whole; one that ran into its limit is a beginning."""
        n_complete = 0
        for i, schema in enumerate(SCHEMAS):
            path = self.file(f"{i}.json", schema)
            answers = [self.generate("--schema", path, seed=seed) for seed in range(4)]
            for answer, verdict in zip(answers, self.verdicts([a["text"] for a in answers], "--schema", path)):
                if answer["finish_reason"] in ("eos", "filter", "stop"):
                    self.assertTrue(verdict["valid"], (answer["text"], verdict))
                    json.loads(answer["text"])
                    n_complete += 1
                else:
                    self.assertEqual(answer["finish_reason"], "length")
                    self.assertEqual(verdict["at"], len(answer["text"].encode()), (answer["text"], verdict))
        self.assertGreater(n_complete, len(SCHEMAS))

    def test_chat_and_choices(self):
        path = self.file("p.json", SCHEMAS[2])
        status, out, said = run("chat", "-m", DEMO, "--mode", "chatml", "--schema", path, "--temperature", "3",
                                stdin="hello\nand you?\n")
        self.assertEqual(status, DONE, said)
        self.assertTrue([line for line in out.splitlines() if line.strip()])
        for line in out.splitlines():
            if line.strip():
                self.assertIn(json.loads(line), SCHEMAS[2]["enum"])
        status, out, said = run("generate", "-m", DEMO, "-p", "Once", "--schema", path, "--num-choices", "4",
                                "--temperature", "3")
        self.assertEqual(status, DONE, said)
        answers = [line for line in out.splitlines() if line.strip() and not line.startswith("---")]
        self.assertEqual(len(answers), 4, out)
        for line in answers:
            self.assertIn(json.loads(line), SCHEMAS[2]["enum"])

    def test_keywords(self):
        status, out, said = run("constrain", "--keywords")
        self.assertEqual(status, DONE, said)
        self.assertIn("| `oneOf` | partly |", out)

    def test_regex_choice_grammar(self):
        for seed in range(3):
            text = self.generate("--regex", "[A-Z][a-z]{2,5} [0-9]{1,3}!", seed=seed)["text"]
            self.assertTrue(re.fullmatch(r"[A-Z][a-z]{2,5} [0-9]{1,3}!", text), text)
            choice = self.file("choice.txt", "yes\nno\nmay be\n")
            self.assertIn(self.generate("--choice", choice, seed=seed)["text"], ("yes", "no", "may be"))
            gbnf = self.file("nested.gbnf", 'root ::= "(" root ")" | "x"')
            text = self.generate("--grammar", gbnf, seed=seed)["text"]
            n = text.count("(")
            self.assertTrue(text == "(" * n + "x" + ")" * n or len(text) > 20, text)

    def test_constraints_intersect_and_bans_rewind(self):
        choice = self.file("choice.json", ["apple", "plum", "pear"])
        answer = self.generate("--choice", choice, "--regex", "p[a-z]*", "--ban", "plum")
        self.assertEqual(answer["text"], "pear")

    def test_greedy_is_deterministic(self):
        path = self.file("p.json", PERSON)
        both = [self.good("generate", "-m", DEMO, "-p", "Tom", "--greedy", "-n", "60", "--schema", path)
                for _ in range(2)]
        self.assertEqual(both[0], both[1])

    def test_batch_lines_have_their_own(self):
        path = self.file("p.json", PERSON)
        lines = [{"prompt": "Tom", "schema": path}, {"prompt": "Tom", "regex": "[ab]{3}"}, {"prompt": "Tom"},
                 {"prompt": "Tom", "regex": "(a"}]
        source = "".join(json.dumps(line) + "\n" for line in lines)
        _, out, said = run("generate", "-m", DEMO, "--batch", "-", "--greedy", "-n", "40", stdin=source)
        got = sorted((json.loads(line) for line in out.splitlines()), key=lambda r: r["index"])
        self.assertTrue(got[0]["text"].startswith('{"name":'), said)
        self.assertTrue(re.fullmatch("[ab]{3}", got[1]["text"]), got[1])
        self.assertIn("offset 0", got[3]["error"])

    def test_where_a_text_is_refused(self):
        got = self.verdicts(["2026-11-21", "2026-1x", "2026", ""], "--regex", r"\d{4}-\d\d-\d\d")
        self.assertEqual([(v["valid"], v["at"]) for v in got], [(True, None), (False, 6), (False, 4), (False, 0)])
        self.assertIn("-00-00", got[2]["expected"])

    def test_refused_constraints_say_where(self):
        for option, content, wanted in (("--schema", {"type": "strin"}, "/type"), ("--choice", "[1]", "choices[0]"),
                                        ("--grammar", 'root ::= "a', "line 1")):
            status, _, said = run("constrain", "-m", DEMO, option, self.file("bad", content), "-p", "x")
            self.assertEqual(status, FAILED, said)
            self.assertIn(wanted, said)
        status, _, said = run("constrain", "-m", DEMO, "--regex", "a(?=b)", "-p", "x")
        self.assertEqual(status, FAILED)
        self.assertIn("offset 1", said)
        self.assertEqual(run("constrain", "-m", DEMO, "-p", "x")[0], USAGE)

    def test_masks_are_counted(self):
        got = self.verdicts(["yes"], "--regex", "yes|no", "--masks")[0]
        self.assertTrue(got["valid"] and got["masks"][0]["allowed"] >= 2)


if __name__ == "__main__":
    cli_test.main()
