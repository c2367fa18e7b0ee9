#!/usr/bin/env python3
"""quipu generate --batch: results as each prompt alone gives, order, bad lines, files that are gone on with, Ctrl-C.

usage: batch_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os
import pty
import select
import signal
import subprocess
import time
import unittest

import cli_test
from cli_test import DEMO, DONE, FAILED, INTERRUPTED, SECONDS, USAGE, Base, environment, run

PROMPTS = ["Once upon a time", "The cat sat on", "A king had", "In the morning", "He said"]


def lines_of(text):
    return [json.loads(line) for line in text.splitlines()]


def jsonl(*documents):
    return "".join((d if isinstance(d, str) else json.dumps(d)) + "\n" for d in documents)


class Batch(Base):
    def batch(self, source, *more, expected=DONE):
        status, out, said = run("generate", "-m", DEMO, "--batch", "-", "--greedy", *more, stdin=source)
        self.assertEqual(status, expected, said)
        return lines_of(out)

    def alone(self, *arguments):
        return json.loads(self.good("generate", "-m", DEMO, "--json", *arguments))

    def test_each_as_alone(self):
        """Options of a line hold for it only, and are those of the command line."""
        per_line = [{}, {"n": 3}, {"temperature": 1, "seed": 4, "top_k": 50},
                    {"max_new_tokens": 6, "logit_bias": {"5": 9}}, {"ban_token": [11], "dynatemp": [0.5, 1.5]}]
        typed = [["--greedy"], ["--greedy", "-n", "3"], ["--temperature", "1", "--seed", "4", "--top-k", "50"],
                 ["--greedy", "-n", "6", "--logit-bias", "5:9"],
                 ["--greedy", "--ban-token", "11", "--dynatemp", "0.5,1.5", "--seed", "4"]]
        per_line[4]["seed"] = 4
        got = self.batch(jsonl(*({"id": p, "prompt": p, **o} for p, o in zip(PROMPTS, per_line))), "-n", "8")
        self.assertEqual([(r["id"], r["index"]) for r in got], [(p, i) for i, p in enumerate(PROMPTS)])
        for result, prompt, options in zip(got, PROMPTS, typed):
            d = self.alone("-p", prompt, *(options if "-n" in options else options + ["-n", "8"]))
            for key in ("text", "ids", "finish_reason"):
                self.assertEqual(result[key], d[key], prompt)

    def test_kinds_of_prompts(self):
        chat = self.alone("--chat", "-p", "Hello!", "--greedy", "-n", "50")
        got = self.batch(jsonl({"messages": [{"role": "user", "content": "Hello!"}]}, {"ids": chat["prompt_ids"]}),
                         "-n", "50")
        self.assertEqual([r["text"] for r in got], [chat["text"]] * 2)
        got = self.batch(jsonl({"prompt": "Hello!"}), "--chat", "-n", "50")
        self.assertEqual(got[0]["text"], chat["text"])

    def test_bad_lines_fail_alone(self):
        cases = [("not json", "not valid JSON"), ("[1]", "expected an object"), ({"n": 3}, "exactly one"),
                 ({"prompt": "a", "ids": [1]}, "exactly one"), ({"prompt": 5}, "expected a string"),
                 ({"ids": [999999]}, "expected an id"), ({"ids": []}, "at least one"),
                 ({"prompt": "a", "tempratur": 1}, "did you mean --temperature?"),
                 ({"prompt": "a", "model": "x"}, "no option"),
                 ({"prompt": "a", "top_p": 2}, "allowed are 0 to 1"),
                 ({"prompt": "a", "n": "x"}, "not a whole number"),
                 ({"prompt": "a", "stop": [""]}, "the text is empty"),
                 ({"prompt": "a", "stop": 5}, "expected a string"),
                 ({"prompt": "a", "cfg_scale": 2}, "negative prompt"),
                 ({"prompt": "word " * 3000}, "the context holds"),
                 ({"id": 1, "prompt": "a"}, None), ({"id": 1, "prompt": "a"}, "stands in line 16 already"),
                 ({"id": {}, "prompt": "a"}, '"id" is')]
        got = self.batch(jsonl(*(line for line, _ in cases)), "-n", "2", expected=FAILED)
        self.assertEqual([r["index"] for r in got], list(range(len(cases))))
        for result, (line, says) in zip(got, cases):
            self.assertEqual("error" in result, says is not None, line)
            self.assertIn(says or "", result.get("error", ""), line)

    def test_order(self):
        source = jsonl({"id": "long", "prompt": "Once", "n": 200, "ignore_eos": True},
                       {"id": "short", "prompt": "A", "n": 2})
        self.assertEqual([r["id"] for r in self.batch(source)], ["long", "short"])
        self.assertEqual([r["id"] for r in self.batch(source, "--order", "as-finished")], ["short", "long"])

    def test_many_through_few(self):
        source = jsonl(*({"prompt": PROMPTS[i % 5], "n": 1 + i % 7} for i in range(60)))
        few, many = (self.batch(source, "--max-jobs", n) for n in ("2", "40"))
        self.assertEqual([r["text"] for r in few], [r["text"] for r in many])
        self.assertEqual(len(few), 60)

    def test_file_is_gone_on_with(self):
        source = self.path("in", jsonl(*({"id": "p%d" % i, "prompt": PROMPTS[i], "n": 4} for i in range(4)), "bad"))
        out = self.path("out")
        command = ["generate", "-m", DEMO, "--batch", source, "-o", out, "--greedy"]
        self.bad_status(FAILED, command, "4 done, 1 failed, 0 there")
        with open(out) as file:
            whole = file.read()
        rows = whole.splitlines(True)
        with open(out, "w") as file:
            file.write(rows[0] + rows[1] + rows[4] + rows[2][:20])
        self.bad_status(FAILED, command, "2 done, 0 failed, 3 there already")
        with open(out) as file:
            again = lines_of(file.read())
        self.assertEqual([(r["index"], r.get("text")) for r in again],
                         [(r["index"], r.get("text")) for r in lines_of(whole)])
        foreign = self.path("foreign", '{"a": 1}\n')
        self.bad(FAILED, *command[:5], "-o", foreign, says="something else than a result")
        with open(foreign) as file:
            self.assertEqual(file.read(), '{"a": 1}\n')

    def test_file_is_in_order_in_the_end(self):
        """Whatever was there in whatever order, by the ids of the input as it is now; unless it is not wanted."""
        def result(name, index):
            return json.dumps({"id": name, "index": index, "text": "old"}) + "\n"

        prompts = [{"id": n, "prompt": "Once", "n": 2} for n in "abcde"] + [{"prompt": "x", "n": 2}]
        source = self.path("in", jsonl(*prompts))
        before = result("gone", 0) + result("e", 0) + result(None, 5) + result("b", 9)
        for order, wanted in (("input", ["a", "b", "c", "d", "e", None, "gone"]),
                              ("as-finished", ["gone", "e", None, "b"])):
            out, link = self.path("out-" + order, before), self.path("link-" + order)
            os.chmod(out, 0o640)
            os.symlink(out, link)
            command = ["generate", "-m", DEMO, "--batch", source, "-o", link, "--greedy", "--order", order]
            self.bad_status(DONE, command, "3 done, 0 failed, 3 there already")
            with open(out) as file:
                rows = lines_of(file.read())
            self.assertEqual([r["id"] for r in rows][:len(wanted)], wanted)
            self.assertEqual(sorted(r["id"] or "" for r in rows), ["", "a", "b", "c", "d", "e", "gone"])
            self.assertEqual(sum(r["text"] == "old" for r in rows), 4)
            self.assertEqual((os.stat(out).st_mode & 0o777, os.path.islink(link)), (0o640, True))
            self.assertEqual([n for n in os.listdir(self.folder.name) if "partial" in n], [])

    def test_interrupted_and_gone_on_with(self):
        """A long line in front holds nothing back when Ctrl-C comes; the later run puts it where it belongs."""
        out = self.path("out")
        lines = [{"id": "long", "prompt": "A", "n": 600, "ignore_eos": True}] + [
            {"id": "s%d" % i, "prompt": "Once", "n": 2} for i in range(4)]
        job = self.start("-o", out, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        job.stdin.write(jsonl(*lines).encode())
        job.stdin.flush()
        time.sleep(0.7)  # the short ones are finished, or nothing is: both must end well
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=SECONDS)
        self.batch(jsonl(*lines), "-o", out)
        with open(out) as file:
            self.assertEqual([r["id"] for r in lines_of(file.read())], [line["id"] for line in lines])

    def bad_status(self, expected, command, says):
        status, _, said = run(*command)
        self.assertEqual(status, expected, said)
        self.assertIn(says, said)

    def start(self, *more, **streams):
        return subprocess.Popen([cli_test.PROGRAM, "generate", "-m", DEMO, "--batch", "-", "--greedy", *more],
                                env=environment(TERM="xterm"), **streams)

    def test_answers_while_the_pipe_is_open(self):
        job = self.start(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for i in range(3):
            job.stdin.write(jsonl({"prompt": "Once", "n": 2}).encode())
            job.stdin.flush()
            self.assertTrue(select.select([job.stdout], [], [], SECONDS)[0])
            self.assertEqual(json.loads(job.stdout.readline())["index"], i)
        job.communicate(timeout=SECONDS)
        self.assertEqual(job.returncode, DONE)

    def test_interrupt_keeps_what_is_finished(self):
        job = self.start(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        job.stdin.write(jsonl({"prompt": "Once", "n": 2}, {"prompt": "A", "n": 100000, "ignore_eos": True}).encode())
        job.stdin.flush()
        first = job.stdout.readline()
        job.send_signal(signal.SIGINT)
        rest, said = job.communicate(timeout=SECONDS)
        self.assertEqual((job.returncode, json.loads(first)["index"], rest), (INTERRUPTED, 0, b""), said)

    def test_progress_on_a_terminal(self):
        main, side = pty.openpty()
        job = self.start(stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=side)
        os.close(side)
        job.stdin.write(jsonl(*({"prompt": "Once", "n": 250, "ignore_eos": True} for _ in range(6))).encode())
        job.stdin.close()
        seen = b""
        try:
            while block := os.read(main, 4096):
                seen += block
        except OSError:  # the other side is closed
            pass
        os.close(main)
        self.assertEqual(job.wait(SECONDS), DONE)
        self.assertRegex(seen.decode(), r"\d/6 \[[# ]+\] +\d+ %, [\d.]+ tok/s")

    def test_refusals(self):
        self.bad(FAILED, "generate", "-m", DEMO, "--batch", "/nowhere", says="/nowhere")
        self.bad(USAGE, "generate", "--batch", "-", "-p", "a", says="not both")
        self.bad(USAGE, "generate", "--batch", "-", "--num-choices", "2", says="not both")
        self.bad(USAGE, "generate", "-p", "a", "-o", "x", says="for --batch")


if __name__ == "__main__":
    cli_test.main()
