#!/usr/bin/env python3
"""The demo model does what its makers measured: models/demo/goldens.json has prompts and chats with their ids and what
transformers continues them with greedily, in float32.

usage: demo_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import subprocess
import sys
import unittest

DEMO = os.path.abspath("models/demo")
PROGRAM = ""
TOO_CLOSE = 1e-3  # where the two best logits are nearer than this, float32 may choose either


def ask(*arguments, stdin=""):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("QUIPU_")}
    ran = subprocess.run([PROGRAM, *arguments, "-m", DEMO], input=stdin.encode(), capture_output=True, timeout=120,
                         env=clean)
    if ran.returncode:
        raise AssertionError("%s: %s" % (" ".join(arguments), ran.stderr.decode("utf-8", "replace")))
    return ran.stdout.decode()


def ids_of(text, *more):
    return json.loads(ask("tokenize", "--json", "-f", "-", *more, stdin=text))["ids"]


class Demo(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with open(os.path.join(DEMO, "goldens.json"), encoding="utf-8") as file:
            cls.goldens = json.load(file)

    def check_greedy(self, case, precision):
        """The ids up to the first step that is too close to call, and the text of all if there is none."""
        gaps = case["gaps"]
        sure = next((i for i, gap in enumerate(gaps) if gap < TOO_CLOSE), len(gaps))
        said = json.loads(ask("generate", "--json", "--greedy", "--ignore-eos", "--precision", precision, "--ids", "-",
                              "-n", str(len(gaps)), stdin=json.dumps(case["ids"])))
        self.assertEqual(said["prompt_ids"], case["ids"])
        self.assertEqual(said["ids"][:sure], case["greedy"][:sure])
        self.assertGreater(sure, 0)
        if sure == len(gaps):
            text = ask("detokenize", "--json", stdin=json.dumps(said["ids"]))
            self.assertEqual(json.loads(text)["text"], case["continuation"])

    def test_prompts(self):
        self.assertGreaterEqual(len(self.goldens["prompts"]), 5)
        for case in self.goldens["prompts"]:
            with self.subTest(case["text"]):
                self.assertEqual(ids_of(case["text"]), case["ids"])
                self.assertEqual(ids_of(case["text"], "--no-special"), case["ids_without_special"])
                self.check_greedy(case, "exact")

    def test_chats(self):
        self.assertGreaterEqual(len(self.goldens["chats"]), 2)
        for case in self.goldens["chats"]:
            with self.subTest(case["messages"][-1]["content"]):
                line = json.dumps({"messages": case["messages"], "add_generation_prompt": True})
                self.assertEqual(json.loads(ask("template", stdin=line))["text"], case["rendered"])
                self.assertEqual(ids_of(case["rendered"], "--no-special"), case["ids"])
                self.check_greedy(case, "exact")

    def test_fast_precision_says_the_same_where_it_is_clear(self):
        """16-bit activations may choose otherwise only where two logits are near: here none is within 2."""
        case = dict(self.goldens["chats"][0])
        clear = next((i for i, gap in enumerate(case["gaps"]) if gap < 2), len(case["gaps"]))
        self.assertGreater(clear, 3)
        for key in ("greedy", "gaps"):
            case[key] = case[key][:clear]
        case["continuation"] = json.loads(ask("detokenize", "--json", stdin=json.dumps(case["greedy"])))["text"]
        self.check_greedy(case, "fast")


def main():
    global PROGRAM
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(DEMO, "goldens.json")):
        print("SKIP: models/demo is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])


if __name__ == "__main__":
    main()
