#!/usr/bin/env python3
"""The programs of examples/ say what they should on the demo model.

usage: examples_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import glob
import os
import re
import subprocess
import sys
import unittest

DEMO = "models/demo"
PROGRAM = ""


def call(*command):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("QUIPU_")}
    ran = subprocess.run(command, capture_output=True, timeout=120, env=clean)
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")


def example(name, *arguments):
    return call(os.path.join(os.path.dirname(PROGRAM), "..", "examples", name), *arguments)


class Examples(unittest.TestCase):
    def told(self, name, *arguments):
        status, out, err = example(name, *arguments)
        self.assertEqual(status, 0, err)
        return out

    def generated(self, prompt, n):
        status, out, err = call(PROGRAM, "generate", "-m", DEMO, "-p", prompt, "-n", str(n), "--greedy")
        self.assertEqual(status, 0, err)
        return out

    def test_each_is_tried(self):
        names = {os.path.basename(path)[:-2] for path in glob.glob("examples/*.c")}
        self.assertEqual(names, {"hello", "stream", "many", "cancel", "event_loop"})

    def test_a_model_that_is_not_there(self):
        for name in ("hello", "stream", "many", "cancel", "event_loop"):
            status, out, err = example(name, "models/none")
            self.assertEqual(status, 1, name)
            self.assertIn("models/none", out + err, name)

    def test_hello(self):
        said = self.told("hello")
        self.assertEqual(said.strip(), self.generated("Once upon a time", 30).strip())
        self.assertGreater(len(said), 40)

    def test_stream(self):
        text, last = self.told("stream").rstrip("\n").rsplit("\n", 1)
        match = re.fullmatch(r"\[(eos|stop|length) after (\d+) tokens, mean log probability (-\d+\.\d\d), "
                             r"first token after \d+ ms\]", last)
        self.assertTrue(match, last)
        self.assertTrue(1 <= int(match.group(2)) <= 60)
        self.assertTrue(-6 < float(match.group(3)) < -0.01)
        self.assertNotIn("The end", text)
        self.assertGreater(len(text), 20)

    def test_many(self):
        lines = self.told("many", DEMO).splitlines()
        self.assertEqual([int(line.split(":")[0]) for line in lines], list(range(12)))
        for line in lines:
            self.assertRegex(line, r"^ *\d+:.*[a-z]{2}.* \[(length, 16|eos, \d+)\]$")
        self.assertGreater(len({line.split(":", 1)[1] for line in lines}), 6)  # seeds and prompts differ

    def test_cancel(self):
        self.assertEqual(self.told("cancel"), "cancelled: cancelled, every token read: yes\nlimited: timeout\n"
                                              "pages in use: 0\n")

    def test_event_loop(self):
        lines = self.told("event_loop").splitlines()
        prompts = ["The king said", "In the morning", "The old house", "She opened the door"]
        self.assertEqual(len(lines), len(prompts))
        for prompt, line in zip(prompts, lines):
            alone = self.generated(prompt, 12).split("\n")[0].rstrip()
            self.assertEqual(line.rstrip(), prompt + alone)


def main():
    global PROGRAM
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAM = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.path.join(DEMO, "config.json")):
        print("SKIP: models/demo is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])


if __name__ == "__main__":
    main()
