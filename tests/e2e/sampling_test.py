#!/usr/bin/env python3
"""quipu generate: every sampling option changes what it says it changes, choices, probabilities, healing, bans.

usage: sampling_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import math
import sys
import unittest

import cli_test
from cli_test import DEMO, FAILED, Base, run

PROMPT = "Once upon a time there was"
# Hot enough that what a stage cuts off shows within a few tokens.
HOT = ["--temperature", "1.5", "--min-p", "0", "--seed", "3"]


class Sampling(Base):
    def ids(self, *arguments):
        return self.document(*arguments)["ids"]

    def document(self, *arguments, prompt=PROMPT, n="24"):
        return json.loads(self.good("generate", "-m", DEMO, "-p", prompt, "-n", n, "--ignore-eos", "--json",
                                    *arguments))

    def test_each_option_has_an_effect(self):
        plain = self.ids(*HOT)
        self.assertEqual(plain, self.ids(*HOT))
        for more in (["--typical", "0.2"], ["--tfs", "0.2"], ["--top-a", "0.5"], ["--smoothing-factor", "2"],
                     ["--dynatemp", "0.1,0.3"], ["--dynatemp=0.1,3,2"], ["--skew", "-3"], ["--mirostat-tau", "1"],
                     ["--xtc-probability", "1", "--xtc-threshold", "0.01"], ["--repetition-penalty", "1.8"],
                     ["--frequency-penalty", "2"], ["--presence-penalty", "2"], ["--top-k", "2"], ["--top-p", "0.3"]):
            self.assertNotEqual(self.ids(*HOT, *more), plain, more)

    def test_options_of_options(self):
        pairs = [(["--mirostat-tau", "3"], ["--mirostat-eta", "5"]), (["--min-p", "0.3"], ["--temperature-last"]),
                 (["--xtc-probability", "0.9", "--xtc-threshold", "0.3"], ["--xtc-threshold", "0.02"]),
                 (["--repetition-penalty", "1.8"], ["--repetition-range", "2"]),
                 (["--repetition-penalty", "1.8", "--repetition-range", "2"], ["--repetition-decay", "9"])]
        for first, second in pairs:
            self.assertNotEqual(self.ids(*HOT, *first), self.ids(*HOT, *first, *second), second)

    def test_dry(self):
        """A prompt that repeats itself asks for one more repetition; DRY forbids it."""
        repeated = "The red fox ran. " * 5 + "The red"
        plain = self.document("--greedy", prompt=repeated)["text"]
        dry = ["--greedy", "--dry-multiplier", "20"]
        self.assertIn("fox ran", plain)
        self.assertNotEqual(self.document(*dry, prompt=repeated)["text"], plain)
        for off in (["--dry-range", "1"], ["--dry-allowed-length", "500"]):
            self.assertEqual(self.document(*dry, *off, prompt=repeated)["text"], plain, off)
        weak = self.document("--greedy", "--dry-multiplier", "1e-6", "--dry-base", "1", prompt=repeated)
        self.assertEqual(weak["text"], plain)

    def test_bans_and_biases(self):
        first, second = self.ids("--greedy")[:2]
        biases = [["--logit-bias", "%d:%s" % (first, value)] for value in ("-inf", "-50")]
        for more in (["--ban-token", str(first)], *biases):
            self.assertNotIn(first, self.ids("--greedy", *more), more)
        both = self.ids("--greedy", "--ban-token", str(first), "--ban-token", str(second))
        self.assertFalse({first, second} & set(both))
        forced = self.ids("--greedy", "--logit-bias", "%d:1000" % second)
        self.assertEqual(set(forced), {second})
        self.bad(FAILED, "generate", "-m", DEMO, "-p", "a", "--ban-token", "999999", says="999999")
        self.bad(FAILED, "generate", "-m", DEMO, "-p", "a", "--logit-bias", "999999:1", says="999999")

    def test_banned_text(self):
        text = self.document("--greedy")["text"]
        word = text.split()[2]
        banned = self.document("--greedy", "--ban", word, "--ban", "@@@@")["text"]
        self.assertNotIn(word.lower(), banned.lower())
        self.assertTrue(banned.startswith(text[:text.index(word)].rstrip()))

    def test_guidance(self):
        plain = self.ids("--greedy")
        guided = self.ids("--greedy", "--cfg-scale", "3", "--negative-prompt", "The dog")
        self.assertNotEqual(guided, plain)
        self.assertEqual(self.ids("--greedy", "--cfg-scale", "1"), plain)
        self.bad(FAILED, "generate", "-m", DEMO, "-p", "a", "--cfg-scale", "3", says="negative prompt")

    def test_min_new_tokens(self):
        arguments = ["generate", "-m", DEMO, "--chat", "-p", "Hello!", "--greedy", "--json", "-n", "300"]
        short = json.loads(self.good(*arguments))
        self.assertEqual(short["finish_reason"], "stop")
        more = len(short["ids"]) + 20
        longer = json.loads(self.good(*arguments, "--min-new-tokens", str(more)))
        self.assertGreaterEqual(len(longer["ids"]), more)

    def test_healing(self):
        """The prompt's last token is given back: the first new token begins with its text, of which the rest shows."""
        d = self.document("--greedy", "--token-healing", "--logprobs", "0", prompt="Once upon a ti", n="4")
        first = d["logprobs"][0]["text"].strip()
        self.assertTrue(first.startswith("i") and len(first) > 1, first)  # "Once upon a t" + "i..."
        self.assertTrue(d["text"].startswith(first[1:]), d["text"])
        self.assertNotEqual(self.document("--greedy", prompt="Once upon a ti", n="4")["ids"], d["ids"])

    def test_loops(self):
        d = self.document("--greedy", "--logit-bias", "300:1000", "--loop-repeats", "4", n="500")
        self.assertEqual(d["finish_reason"], "loop")
        self.assertLess(len(d["ids"]), 200)

    def test_choices(self):
        arguments = ["--temperature", "1", "--seed", "5"]
        d = self.document(*arguments, "--num-choices", "3")
        self.assertEqual([c["index"] for c in d["choices"]], [0, 1, 2])
        for i, c in enumerate(d["choices"]):
            alone = self.document("--temperature", "1", "--seed", str(5 + i))
            self.assertEqual((c["text"], c["ids"]), (alone["text"], alone["ids"]))
        self.assertEqual(d["usage"]["completion_tokens"], sum(len(c["ids"]) for c in d["choices"]))
        self.assertEqual(len(self.document("--num-choices", "1")["choices"]), 1)
        status, out, said = run("generate", "-m", DEMO, "-p", PROMPT, "-n", "24", "--ignore-eos", "--num-choices", "3",
                                *arguments)
        shown = "".join("--- choice %d of 3 ---\n%s\n" % (i + 1, c["text"]) for i, c in enumerate(d["choices"]))
        self.assertEqual((status, out), (0, shown))
        self.assertIn("new 72 tokens", said)

    def test_probabilities(self):
        d = self.document("--greedy", "--logprobs", "3", n="5")
        self.assertEqual([t["id"] for t in d["logprobs"]], d["ids"])
        for t in d["logprobs"]:
            self.assertEqual(set(t), {"id", "text", "logprob", "p", "top"})
            self.assertEqual(len(t["top"]), 3)
            self.assertEqual((t["top"][0]["id"], t["top"][0]["logprob"]), (t["id"], t["logprob"]))  # greedy
            self.assertEqual(t["p"], 1)
            falling = [c["logprob"] for c in t["top"]]
            self.assertEqual(falling, sorted(falling, reverse=True))
            self.assertLessEqual(sum(math.exp(x) for x in falling), 1.0001)
        self.assertEqual("".join(t["text"] for t in d["logprobs"]).strip(), d["text"].strip())
        self.assertEqual(self.document("--greedy", "--logprobs", "0", n="2")["logprobs"][0]["top"], [])
        two = self.document("--num-choices", "2", "--logprobs", "1", n="2")
        self.assertTrue(all(len(c["logprobs"]) == 2 for c in two["choices"]))
        self.assertNotIn("logprobs", self.document("--greedy", n="2"))


if __name__ == "__main__":
    cli_test.main()
