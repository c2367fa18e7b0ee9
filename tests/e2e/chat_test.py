#!/usr/bin/env python3
"""quipu chat: at a terminal (a pseudo one) and out of a pipe, every slash command, a context that is full, files.

usage: chat_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

import cli_test
from cli_test import DEMO, DONE, FAILED, INTERRUPTED, SECONDS, USAGE, Base, environment, run

READY = b"\033[?2004h> "  # the editor waits for a message ...
MORE = b"\033[?2004h. "  # ... or for its next line
CTRL_C, CTRL_D, UP, ENTER = b"\x03", b"\x04", b"\033[A", b"\r"
PATIENCE = 120  # seconds
QUIET_ANSWERS = ["--greedy", "-n", "24"]


def message(role, text):
    return {"role": role, "content": text}


class Terminal:
    """A person in front of a pseudo terminal."""

    def __init__(self, state, *arguments, **env):
        self.seen, self.mark, self.turns = b"", 0, 0
        variables = environment(TERM="xterm", XDG_STATE_HOME=state, **env)
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(cli_test.PROGRAM, [cli_test.PROGRAM, "chat", "-m", DEMO, *arguments], variables)

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            block = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.seen += block
        return bool(block)

    def wait(self, *texts):
        """Until all of them have come since the last wait; what came."""
        end = time.monotonic() + PATIENCE
        while not all(t in self.seen[self.mark:] for t in texts):
            if time.monotonic() > end or not self.read(end - time.monotonic()):
                raise AssertionError("%r is missing in %r" % (texts, self.seen[self.mark:]))
        found = self.seen[self.mark:]
        self.mark = len(self.seen)
        return found.decode("utf-8", "replace")

    def type(self, keys):
        os.write(self.fd, keys if isinstance(keys, bytes) else keys.encode())

    def say(self, text, then=READY):
        """A line, and what is shown until the next one can be typed."""
        self.type(text)
        self.type(ENTER)
        return self.wait(then)

    def end(self, keys=CTRL_D):
        self.type(keys)
        while self.read(PATIENCE):
            pass
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Chat(Base):
    def chat(self, lines, *arguments, expected=DONE, **more):
        """Standard output and standard error of lines out of a pipe."""
        source = "".join(line + "\n" for line in lines)
        status, out, said = run("chat", "-m", DEMO, *arguments, stdin=source, **more)
        self.assertEqual(status, expected, out + said)
        return out, said

    def answers(self, lines, *arguments, **more):
        return [json.loads(x) for x in self.chat(lines, "--json", *arguments, **more)[0].splitlines()]

    def terminal(self, *arguments, **env):
        shown = Terminal(self.path("state"), *arguments, **env)
        shown.wait(READY)
        return shown

    def rendered(self, messages):
        line = json.dumps({"messages": messages, "add_generation_prompt": True})
        return json.loads(self.good("template", "-m", DEMO, stdin=line))["text"]

    def tokens(self, messages):
        return len(json.loads(self.good("tokenize", "-m", DEMO, "--json", "--no-special",
                                        stdin=self.rendered(messages)))["ids"])

    def generated(self, messages, *arguments):
        """The answer of `generate` to the same messages."""
        return json.loads(self.good("generate", "-m", DEMO, "--batch", "-", *arguments,
                                    stdin=json.dumps({"messages": messages}) + "\n"))["text"]

    def without_template(self, source=None):
        """A copy of the model, with another template or none."""
        model = self.path("model-%d" % len(os.listdir(self.folder.name)))
        os.makedirs(model)
        for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
            os.symlink(os.path.join(DEMO, name), os.path.join(model, name))
        with open(os.path.join(DEMO, "tokenizer_config.json")) as file:
            config = json.load(file)
        config.pop("chat_template", None)
        with open(os.path.join(model, "tokenizer_config.json"), "w") as file:
            json.dump(config, file)
        if source:
            with open(os.path.join(model, "chat_template.jinja"), "w") as file:
                file.write(source)
        return model


class Pipes(Chat):
    def test_each_answer_as_generate_gives_it(self):
        messages = [message("system", "You are kind.")]
        got = self.answers(["Hello!", "Tell me about the sea.", "Why?"], "--system", "You are kind.", *QUIET_ANSWERS)
        for said, question in zip(got, ["Hello!", "Tell me about the sea.", "Why?"]):
            messages.append(message("user", question))
            self.assertEqual(said["text"], self.generated(messages, *QUIET_ANSWERS))
            self.assertEqual(said["usage"]["prompt_tokens"], self.tokens(messages))
            messages.append(message("assistant", said["text"]))
        self.assertEqual([a["usage"]["cached_tokens"] > 0 for a in got], [False, True, True])

    def test_only_answers_go_to_stdout(self):
        got = self.answers(["Hello!", "Why?"], *QUIET_ANSWERS)
        out, said = self.chat(["Hello!", "", "Why?", "/help"], *QUIET_ANSWERS)
        self.assertEqual(out, "".join(a["text"] + "\n" for a in got))
        self.assertNotIn(">", said.split("/help")[0])
        self.assertEqual(self.chat(["Hello!"], "-q", *QUIET_ANSWERS)[1], "")
        self.assertRegex(self.chat(["Hello!"], "--stats", *QUIET_ANSWERS)[1], r"prompt \d+ tokens, 0 cached, ")

    def test_nothing_to_say(self):
        self.assertEqual(self.chat([])[0], "")
        self.assertEqual(self.chat(["", ""])[0], "")

    def test_last_line_without_end(self):
        status, out, _ = run("chat", "-m", DEMO, *QUIET_ANSWERS, stdin="Hello!")
        self.assertEqual((status, out), (DONE, self.chat(["Hello!"], *QUIET_ANSWERS)[0]))

    def test_many_lines(self):
        whole = self.answers(["one\\", "two"], *QUIET_ANSWERS)
        self.assertEqual(len(whole), 1)
        for lines in (['"""', "one", "two", '"""'], ['"""one', 'two"""']):
            self.assertEqual(self.answers(lines, *QUIET_ANSWERS)[0]["ids"], whole[0]["ids"])
        self.assertEqual(whole[0]["usage"]["prompt_tokens"], self.tokens([message("user", "one\ntwo")]))
        slash = self.answers(["//help"], *QUIET_ANSWERS)[0]["usage"]["prompt_tokens"]
        self.assertEqual(slash, self.tokens([message("user", "/help")]))
        self.assertEqual(self.answers(['"""/help"""'], *QUIET_ANSWERS)[0]["usage"]["prompt_tokens"], slash)

    def test_seeds(self):
        lines = ["Hello!", "Why?", "/retry"]
        first, again, other = (self.answers(lines, "--seed", s, "--temperature", "1", "-n", "16")
                               for s in ("5", "5", "6"))
        self.assertEqual([(a["text"], a["seed"]) for a in first], [(a["text"], a["seed"]) for a in again])
        self.assertEqual([a["seed"] for a in first], [5, 6, 7])
        self.assertNotEqual([a["text"] for a in first], [a["text"] for a in other])
        self.assertNotEqual(first[1]["text"], first[2]["text"])

    def test_amnesia(self):
        for lines in (["Hello!", "Why?", "Hello!"], ["Hello!", "/amnesia", "Why?", "Hello!"]):
            got = self.answers(lines, *QUIET_ANSWERS, *(["--amnesia"] if len(lines) == 3 else []))
            self.assertEqual(got[2]["text"], got[0]["text"])
            self.assertEqual(got[2]["usage"]["prompt_tokens"], got[0]["usage"]["prompt_tokens"])
        remembered = self.answers(["Hello!", "Why?", "Hello!"], *QUIET_ANSWERS)
        self.assertGreater(remembered[2]["usage"]["prompt_tokens"], remembered[0]["usage"]["prompt_tokens"])

    def test_interrupt_ends_a_pipe(self):
        job = subprocess.Popen([cli_test.PROGRAM, "chat", "-m", DEMO, "--ignore-eos"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        job.stdin.write(b"Hello!\nWhy?\n")
        job.stdin.flush()
        os.read(job.stdout.fileno(), 1)  # it is talking
        job.send_signal(signal.SIGINT)
        out, said = job.communicate(timeout=SECONDS)
        self.assertEqual((job.returncode, out.count(b"\n") >= 1), (INTERRUPTED, True), said)

    def test_refusals(self):
        self.bad(USAGE, "chat", "-m", DEMO, "--mode", "nosuch", says="raw|script|chatml")
        self.bad(USAGE, "chat", "-m", DEMO, "--logprobs", "2", says="needs --json")
        self.bad(USAGE, "chat", "-m", DEMO, "--stop", "", says="the text is empty")
        self.bad(USAGE, "chat", "-m", DEMO, "-p", "a", says="unknown option")
        self.bad(FAILED, "chat", "-m", "/nowhere", says="/nowhere")

    def test_adapter(self):
        """Of random numbers, for one layer's queries: every answer is another one, and that of `generate`."""
        folder, chance = self.path("adapter"), random.Random(7)
        os.makedirs(folder)
        with open(os.path.join(folder, "adapter_config.json"), "w") as file:
            json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 32, "target_modules": ["q_proj"]}, file)
        name, header, data = "base_model.model.model.layers.0.self_attn.q_proj.lora_%s.weight", {}, b""
        for part, shape in (("A", [4, 256]), ("B", [256, 4])):
            values = struct.pack("<1024f", *(chance.gauss(0, 0.5) for _ in range(1024)))
            header[name % part] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4096]}
            data += values
        head = json.dumps(header).encode()
        with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(head)) + head + data)
        lines = ["Hello!", "Tell me about the sea."]
        plain, got = (self.answers(lines, *more, *QUIET_ANSWERS) for more in ([], ["--lora", folder]))
        messages = []
        for question, answer, other in zip(lines, got, plain):
            messages.append(message("user", question))
            self.assertEqual(answer["text"], self.generated(messages, "--lora", folder, *QUIET_ANSWERS))
            self.assertNotEqual(answer["text"], other["text"])
            messages.append(message("assistant", answer["text"]))
        self.bad(FAILED, "chat", "-m", DEMO, "--lora", "/nowhere", says="/nowhere")

    def test_closed_output(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "wb") as full:
            ran = subprocess.run([cli_test.PROGRAM, "chat", "-m", DEMO], input=b"Hello!\nWhy?\n", stdout=full,
                                 stderr=subprocess.PIPE, env=environment(), timeout=SECONDS)
        self.assertEqual(ran.returncode, FAILED)
        self.assertEqual(ran.stderr.count(b"standard output cannot be written"), 1, ran.stderr)


class Context(Chat):
    def test_oldest_turns_drop_out(self):
        system, questions = "You are kind.", ["Question %d: tell me about the sea." % i for i in range(14)]
        arguments = ["--context", "256", "--greedy", "-n", "24"]
        got = self.answers(questions, "--system", system, *arguments)
        self.assertEqual(len(got), 14)
        messages, first = [], 0
        for answer, question in zip(got, questions):
            messages.append(message("user", question))
            first += 2 * answer["dropped_turns"]
            seen = [message("system", system)] + messages[first:]
            self.assertEqual(answer["usage"]["prompt_tokens"], self.tokens(seen))
            self.assertLessEqual(answer["usage"]["prompt_tokens"] + 24, 256)
            messages.append(message("assistant", answer["text"]))
        self.assertGreater(first, 8)
        said = self.chat(questions + ["/stats"], "--system", system, *arguments)[1]
        self.assertRegex(said, r"the context is full: the oldest \d turns? (is|are) no longer seen")
        self.assertRegex(said, r"turns +14, of which the model sees %d\n" % (14 - first // 2))

    def test_one_message_is_too_long(self):
        got = self.answers(["Hello!", "word " * 400, "Why?"], "--context", "256", *QUIET_ANSWERS, expected=FAILED)
        self.assertIn("the message makes a prompt of", got[1]["error"])
        self.assertIn("the context of 256 has room for", got[1]["error"])
        alone = self.answers(["Hello!", "Why?"], "--context", "256", *QUIET_ANSWERS)
        self.assertEqual([got[0]["ids"], got[2]["ids"]], [a["ids"] for a in alone])

    def test_message_is_not_text(self):
        status, out, said = run("chat", "-m", DEMO, "--json", *QUIET_ANSWERS, stdin=b"a\xff\nHello!\n")
        kinds = ["error" in json.loads(x) for x in out.splitlines()]
        self.assertEqual((status, kinds), (FAILED, [True, False]))
        self.assertIn("the message is not UTF-8", said)

    def test_answer_reaches_the_end(self):
        out, said = self.chat(["Hello!", "Why?"], "--context", "256", "--greedy", "--ignore-eos")
        self.assertEqual(said.count("the context is full, the answer is cut off here"), 2)
        self.assertIn("the oldest 1 turn is no longer seen", said)
        self.assertTrue(out)

    def test_guidance_needs_room_too(self):
        lines = ["Question %d: tell me about the sea." % i for i in range(12)]
        got = self.answers(lines, "--context", "512", "--greedy", "-n", "24", "--cfg-scale", "1.5",
                           "--negative-prompt", "Once upon a time")
        self.assertEqual(len([a for a in got if "error" not in a]), 12)

    def test_template_without_a_place_for_system(self):
        source = ("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}"
                  "{% endif %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content }}<|eot_id|>{% endfor %}"
                  "<|start_header_id|>assistant<|end_header_id|>\n\n")
        model = self.without_template(source)
        got = self.answers(["Hello!", "Why?"], "-m", model, "--system", "Be kind.", *QUIET_ANSWERS)
        folded = self.answers(['"""Be kind.', "", 'Hello!"""', "Why?"], "-m", model, *QUIET_ANSWERS)
        self.assertEqual([a["ids"] for a in got], [a["ids"] for a in folded])

    def test_template_refuses(self):
        model = self.without_template("{{ raise_exception('never') }}")
        got = self.answers(["Hello!"], "-m", model, expected=FAILED)
        self.assertIn("never", got[0]["error"])


class Modes(Chat):
    def test_needed_without_a_template(self):
        model = self.without_template()
        self.bad(USAGE, "chat", "-m", model, stdin="Hello!\n", says="choose the format of its prompts with --mode")
        own = self.answers(["Hello!", "Why?"], *QUIET_ANSWERS)
        for folder in (model, DEMO):  # the demo's own template is that of llama3
            got = self.answers(["Hello!", "Why?"], "-m", folder, "--mode", "llama3", *QUIET_ANSWERS)
            self.assertEqual([a["ids"] for a in got], [a["ids"] for a in own])

    def test_raw_goes_on_with_the_text(self):
        got = self.answers(["Once upon a time"], "--mode", "raw", *QUIET_ANSWERS)[0]
        alone = json.loads(self.good("generate", "-m", DEMO, "-p", "Once upon a time", "--json", *QUIET_ANSWERS))
        self.assertEqual((got["text"], got["usage"]["prompt_tokens"]),
                         (alone["text"], alone["usage"]["prompt_tokens"]))

    def test_all_of_them_answer(self):
        modes = re.search(r"--mode +([\w|-]+\|[\w|-]+)", self.good("help", "chat")).group(1).split("|")
        self.assertGreater(len(modes), 10)
        for mode in modes:
            got = self.answers(["Hello!", "Why?"], "--mode", mode, "--system", "Be kind.", *QUIET_ANSWERS)
            self.assertEqual(["error" in a for a in got], [False, False], mode)
            self.assertGreater(got[1]["usage"]["cached_tokens"], 0, mode)

    def test_stop_texts(self):
        """What the format would go on with ends the answer: the bias makes the model say it."""
        ids = json.loads(self.good("tokenize", "-m", DEMO, "--json", "--no-special", "-p", "\nUser:"))["ids"]
        got = self.answers(["Hello!"], "--mode", "script", "--greedy", "-n", "40",
                           *[x for i in ids for x in ("--logit-bias", "%d:30" % i)], "--repetition-penalty", "100")[0]
        self.assertNotIn("\nUser:", got["text"])
        with open(os.path.join(DEMO, "chat_template.jinja")) as file:
            model = self.without_template(file.read())
        with open(os.path.join(DEMO, "config.json")) as file:
            config = dict(json.load(file), eos_token_id=6129)
        for name, content in (("config.json", config), ("generation_config.json", {"eos_token_id": 6129})):
            os.remove(os.path.join(model, name))
            with open(os.path.join(model, name), "w") as file:
                json.dump(content, file)
        for more in ([], ["--mode", "llama3"]):
            got = self.answers(["Hello!"], "-m", model, *more, "--greedy", "-n", "60")[0]
            self.assertEqual(got["finish_reason"], "stop")  # <|eot_id|>, which this model does not call an end
            self.assertLess(got["usage"]["completion_tokens"], 60)
            got = self.answers(["Hello!"], "-m", model, *more, "--greedy", "-n", "60", "--ignore-eos")[0]
            self.assertEqual(got["usage"]["completion_tokens"], 60)


class Reasoning(Chat):
    OPEN = ("{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>\n\n{{ m.content.split('</think>')"
            "[-1] }}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>\n\n<think>\n")

    def test_a_member_of_its_own(self):
        model = self.without_template(self.OPEN)
        got = self.answers(["Hello!"], "-m", model, *QUIET_ANSWERS)[0]
        self.assertTrue(got["reasoning"])
        self.assertEqual(got["text"], "")
        closed = self.without_template(self.OPEN.replace("<think>\n", ""))
        got = self.answers(["Hello!"], "-m", closed, *QUIET_ANSWERS)[0]
        self.assertTrue(got["text"])
        self.assertEqual(got["reasoning"], "")
        self.assertNotIn("reasoning", self.answers(["Hello!"], *QUIET_ANSWERS)[0])

    def test_dim_on_a_terminal_only(self):
        model = self.without_template(self.OPEN)
        shown = self.terminal("-m", model, *QUIET_ANSWERS)
        seen = shown.say("Hello!")
        self.assertRegex(seen, r"\033\[2m[^\033\[]+\033\[0m")
        self.assertNotIn("<think>", seen)
        self.assertEqual(shown.end(), DONE)
        shown = self.terminal("-m", model, *QUIET_ANSWERS, NO_COLOR="1")
        self.assertIn("<think>", shown.say("Hello!"))
        self.assertEqual(shown.end(), DONE)
        self.assertEqual(self.chat(["Hello!"], "-m", model, *QUIET_ANSWERS)[0].strip(), "")


class Slash(Chat):
    def test_unknown(self):
        _, said = self.chat(["/hlep", "/", "/save", "/clear x", "/load /nowhere/x"], expected=FAILED)
        for part in ("no command is called '/hlep'; did you mean /help?", "no command is called '/'",
                     "/save needs a FILE", "/clear takes nothing, found 'x'", "/nowhere/x", "5 of the lines failed"):
            self.assertIn(part, said)

    def test_help_has_all(self):
        said = self.chat(["/help"])[1]
        for name in "help clear undo retry save load system set stats amnesia quit".split():
            self.assertRegex(said, r"(?m)^  /%s\b.* [a-z]" % name)

    def test_clear_and_undo(self):
        once = self.answers(["Hello!"], *QUIET_ANSWERS)[0]["ids"]
        for command in ("/clear", "/undo"):
            got = self.answers(["Hello!", command, "Hello!"], *QUIET_ANSWERS)
            self.assertEqual([a["ids"] for a in got], [once, once])
            self.assertGreater(got[1]["usage"]["cached_tokens"], 0)
        two = self.answers(["Hello!", "Why?"], *QUIET_ANSWERS)
        got = self.answers(["Hello!", "What?", "/undo", "Why?"], *QUIET_ANSWERS)
        self.assertEqual(got[2]["ids"], two[1]["ids"])
        said = self.chat(["Hello!", "/undo", "/undo"], *QUIET_ANSWERS, expected=FAILED)[1]
        self.assertIn("taken back: Hello!", said)
        self.assertIn("/undo: there is no turn yet", said)

    def test_retry(self):
        got = self.answers(["Hello!", "Why?", "/retry", "What?"], *QUIET_ANSWERS)
        self.assertEqual(got[1]["ids"], got[2]["ids"])  # greedy
        plain = self.answers(["Hello!", "Why?", "What?"], *QUIET_ANSWERS)
        self.assertEqual(got[3]["ids"], plain[2]["ids"])
        self.assertIn("/retry: there is no answer yet", self.chat(["/retry"], expected=FAILED)[1])

    def test_system(self):
        typed = self.answers(["Hello!"], "--system", "You are a pirate.", *QUIET_ANSWERS)[0]
        got = self.answers(["/system You are a pirate.", "Hello!", "/clear", "/system -", "Hello!"], *QUIET_ANSWERS)
        self.assertEqual(got[0]["ids"], typed["ids"])
        self.assertEqual(got[1]["ids"], self.answers(["Hello!"], *QUIET_ANSWERS)[0]["ids"])
        said = self.chat(["/system", "/system A\\", "B", "/system"])[1]
        self.assertEqual(said, "  no system prompt\n" + 2 * "  system prompt: A\nB\n")

    def test_set_changes_answers(self):
        got = self.answers(["/set new-tokens 3", "Hello!", "/set new_tokens=5", "/retry", "/set new-tokens default",
                            "/retry"], "--greedy", "-n", "7", "--ignore-eos")
        self.assertEqual([a["usage"]["completion_tokens"] for a in got], [3, 5, 7])
        whole = self.answers(["Hello!"], "--greedy", "-n", "24")[0]["text"]
        cut = whole.split()[1]
        got = self.answers(["/set stop " + cut, "Hello!", "/set stop default", "/retry"], "--greedy", "-n", "24")
        self.assertEqual([a["text"] for a in got], [whole[:whole.index(cut)], whole])
        got = self.answers(["/set temperature 1", "/set seed 9", "Hello!", "/set seed 9", "/retry"], "-n", "24",
                           "--greedy")
        self.assertEqual([a["seed"] for a in got], [9, 9])
        self.assertEqual(got[0]["text"], got[1]["text"])

    def test_set_knows_every_setting(self):
        said = self.chat(["/set"])[1]
        names = said.split("there are:\n")[1].split()
        values = {"stop": '"\\n"', "ban": "x", "dynatemp": "0.5,1.5", "logit-bias": "5:-inf", "ban-token": "7",
                  "negative-prompt": "no", "ignore-eos": "true", "show-special": "true", "greedy": "true",
                  "temperature-last": "true", "new-tokens": "5", "logprobs": "2"}
        self.assertGreater(len(names), 30)
        for name in names:
            lines = ["/set cfg-scale 2", "/set %s %s" % (name, values.get(name, "1")), "/set"]
            _, said = self.chat(lines, "--json")
            self.assertRegex(said.split("there are")[0], r"(?m)^  %s +\S" % name)
        shown = self.good("help", "chat")
        groups = shown.split("\nAnswer\n")[1].split("\nMachine\n")[0].replace("\nSampling\n", "\n")
        self.assertEqual(re.findall(r"(?m)^  (?:-\w,|   ) --([a-z-]+)", groups), names)  # the same table

    def test_set_refuses(self):
        cases = [("/set tempratur 1", "did you mean 'temperature'?"),
                 ("/set threads 1", "no setting is called 'threads'"),
                 ("/set top-p 2", "found 2, allowed are 0 to 1"), ("/set top-k x", "not a whole number"),
                 ("/set logprobs 2", "logprobs needs --json"), ("/set stop \"", "not valid JSON"),
                 ("/set dynatemp 2,1", "it must be under HIGH"), ("/set negative-prompt a", "needs --cfg-scale"),
                 ("/set ignore-eos 7", "true, false")]
        _, said = self.chat([line for line, _ in cases] + ["/set"], expected=FAILED)
        for _, says in cases:
            self.assertIn(says, said)
        self.assertIn("  nothing is set;", said)  # a refusal changes nothing

    def test_stats(self):
        said = self.chat(["/stats", "Hello!", "Why?", "/stats"], *QUIET_ANSWERS)[1]
        self.assertIn("turns          0, of which the model sees 0", said)
        self.assertRegex(said, r"answers +2; prompts \d+ tokens, [1-9]\d* of them cached; new \d+ tokens")
        self.assertRegex(said, r"last answer +prompt \d+ tokens, [1-9]\d* cached")
        self.assertRegex(said, r"context +\d+ of 2048 tokens")

    def test_quit(self):
        out, _ = self.chat(["Hello!", "/quit", "Why?"], *QUIET_ANSWERS)
        self.assertEqual(out, self.chat(["Hello!"], *QUIET_ANSWERS)[0])

    def test_amnesia_words(self):
        said = self.chat(["/amnesia on", "/amnesia off", "/amnesia", "/amnesia maybe"], expected=FAILED)[1]
        self.assertEqual(re.findall(r"\[(no )?amnesia", said), ["", "no ", ""])
        self.assertIn("found 'maybe', allowed are on and off", said)


class Files(Chat):
    def test_round_trip(self):
        first, second = self.path("first"), self.path("second")
        straight = self.answers(["Hello!", "Why?"], "--system", "You are kind.", "--greedy", "-n", "24", "--top-k", "7",
                                "--stop", "\n", "--logit-bias", "5:-inf", "--dynatemp", "0.5,1.5")
        self.chat(["Hello!", "/save " + first], "--system", "You are kind.", "--greedy", "-n", "24", "--top-k", "7",
                  "--stop", "\n", "--logit-bias", "5:-inf", "--dynatemp", "0.5,1.5")
        got = self.answers(["/load " + first, "/save " + second, "Why?"], "--temperature", "1")
        with open(first) as a, open(second) as b:
            saved = a.read()
            self.assertEqual(saved, b.read())
        self.assertEqual(got[0]["ids"], straight[1]["ids"])
        document = json.loads(saved)
        self.assertEqual(document["messages"], [message("user", "Hello!"), message("assistant", straight[0]["text"])])
        self.assertEqual(document["system"], "You are kind.")
        self.assertEqual(document["settings"], {"greedy": True, "new_tokens": 24, "top_k": 7, "stop": ["\n"],
                                                "logit_bias": {"5": "-inf"}, "dynatemp": [0.5, 1.5]})

    def test_hostile_files(self):
        good = {"messages": [message("user", "a"), message("assistant", "b")]}
        cases = [("", "not valid JSON"), ("[]", "expected an object"), ("{}", '"messages"'),
                 (json.dumps({"messages": [5]}), "message 1: found an integer"),
                 (json.dumps({"messages": good["messages"] + [message("tool\033[2J", "x")]}),
                  'message 3: "role" is "tool?[2J"'),
                 (json.dumps(dict(good, settings={"tempratur": 1})), "did you mean --temperature?"),
                 (json.dumps(dict(good, settings={"top\033[2J": 7})), '"top?[2J" is no option'),
                 (json.dumps(dict(good, settings={"top_p": 7})), "allowed are 0 to 1"),
                 (json.dumps(dict(good, settings={"logprobs": 7})), "needs --json"), ("[" * 100000, "not valid JSON")]
        lines = ["Hello!"]
        for i, (content, _) in enumerate(cases):
            lines.append("/load " + self.path("bad%d" % i, content))
        lines += ["/load " + self.folder.name, "/set", "Why?"]
        out, said = self.chat(lines, *QUIET_ANSWERS, expected=FAILED)
        for i, (_, says) in enumerate(cases):
            line = next(x for x in said.splitlines() if "/bad%d" % i in x)
            self.assertIn(says, line)
        self.assertNotIn("\033", said)
        self.assertIn("  greedy               true\n", said)
        self.assertEqual(out, self.chat(["Hello!", "Why?"], *QUIET_ANSWERS)[0])  # nothing of them has come in

    def test_nothing_else_is_overwritten(self):
        thesis = self.path("thesis", "years of work")
        self.assertIn("it is left alone", self.chat(["/save " + thesis], expected=FAILED)[1])
        with open(thesis) as file:
            self.assertEqual(file.read(), "years of work")

    def test_home(self):
        home = self.path("home")
        os.makedirs(home)
        self.chat(["Hello!", "/save ~/talk"], *QUIET_ANSWERS, env={"HOME": home})
        self.assertTrue(os.path.exists(os.path.join(home, "talk")))


class AtATerminal(Chat):
    def test_answer_is_stopped_and_the_session_stays(self):
        shown = self.terminal("--greedy", "--ignore-eos", "--context", "16384")  # far longer than anybody waits
        shown.type(b"Hello!\r")
        shown.wait(b"Hello!", b"How")
        streamed = len(shown.seen)
        while len(shown.seen) < streamed + 40:  # it comes piece by piece
            self.assertTrue(shown.read(PATIENCE))
        shown.type(CTRL_C)
        self.assertIn("[stopped]", shown.wait(READY))
        self.assertRegex(shown.say("/stats"), r"turns +1, ")
        shown.type(b"Why?\r")
        shown.wait(b"Why?")
        time.sleep(0.1)
        shown.type(CTRL_C * 5)
        shown.wait(b"stopped", READY)
        shown.type(b"/stats\r")
        shown.wait(b"turns", b"last answer")
        self.assertEqual(shown.end(), DONE)

    def test_keys(self):
        shown = self.terminal("--greedy", "-n", "24")
        shown.type(b"half a line" + CTRL_C)
        self.assertNotIn("nothing runs", shown.wait(b"^C", READY))
        shown.type(CTRL_C)
        self.assertIn("nothing runs; Ctrl-D or /quit ends", shown.wait(READY))
        self.assertIn("Hello! How can I help", shown.say("Hello!"))
        self.assertIn("taken back: Hello!", shown.say("/undo"))
        shown.type(UP + UP)
        self.assertIn("Hello! How can I help", shown.say(""))
        self.assertIn("taken back: abX\u00e9", shown.say("abc\x7fX\u00e9") + shown.say("/undo"))
        self.assertEqual(shown.end(), DONE)

    def test_quit(self):
        self.assertEqual(self.terminal().end(b"/quit\r"), DONE)
        self.assertEqual(self.terminal().end(CTRL_D), DONE)
        shown = self.terminal("--greedy", "--ignore-eos", "-n", "200")
        shown.type(b"Hello!\r")
        shown.wait(b"How")
        self.assertEqual(shown.end(CTRL_D), DONE)  # typed ahead

    def test_many_lines(self):
        shown = self.terminal("--greedy", "-n", "24")
        shown.say("one\\", MORE)
        shown.say("two")
        self.assertIn("taken back: one?two", shown.say("/undo"))
        shown.say('"""', MORE)
        shown.say("/help", MORE)
        shown.say('"""')
        self.assertIn("taken back: /help", shown.say("/undo"))
        shown.type(b"\033[200~pasted\rin one\rpiece\033[201~")
        shown.wait(b"piece")
        shown.say("")
        self.assertIn("taken back: pasted?in one?piece", shown.say("/undo"))
        shown.say('"""', MORE)
        shown.type(CTRL_C)  # out of the message, not out of the session
        shown.wait(READY)
        self.assertIn("there is no turn yet", shown.say("/undo"))
        self.assertEqual(shown.end(), DONE)

    def test_tab(self):
        shown = self.terminal()
        shown.type(b"/sta\t")
        shown.wait(b"ts ")
        self.assertIn("turns          0", shown.say(""))
        shown.type(b"/set dry-m\t")
        shown.wait(b"ultiplier ")
        self.assertRegex(shown.say("0.5"), r"dry-multiplier +0\.5")
        self.assertEqual(shown.end(), DONE)

    def test_refused_message_keeps_the_session(self):
        shown = self.terminal("--greedy", "-n", "24", "--context", "256")
        shown.type(b"\033[200~" + b"word " * 300 + b"\033[201~")
        self.assertIn("the message makes a prompt of", shown.say(""))
        self.assertIn("Hello! How can I help", shown.say("Hello!"))
        self.assertEqual(shown.end(), DONE)

    def test_history_is_kept(self):
        shown = self.terminal("--greedy", "-n", "2")
        shown.say("remember me")
        self.assertEqual(shown.end(), DONE)
        history = self.path("state/quipu/chat_history")
        self.assertEqual(os.stat(history).st_mode & 0o777, 0o600)
        shown = self.terminal("--greedy", "-n", "2")
        shown.type(UP)
        shown.wait(b"remember me")
        self.assertEqual(shown.end(CTRL_C + CTRL_D), DONE)
        with open(history) as file:
            self.assertEqual(file.read(), '"remember me"\n')

    def test_no_home_no_history(self):
        home = self.path("home")
        os.makedirs(home)
        shown = Terminal("", "--greedy", "-n", "2", HOME="")
        shown.wait(READY)
        shown.say("Hello!")
        self.assertEqual(shown.end(), DONE)
        shown = Terminal("", "--greedy", "-n", "2", HOME=home)
        shown.wait(READY)
        shown.say("Hello!")
        self.assertEqual(shown.end(), DONE)
        self.assertTrue(os.path.exists(os.path.join(home, ".local/state/quipu/chat_history")))

    def test_colours(self):
        shown = self.terminal("--greedy", "-n", "8", "--stats")
        shown.say("Hello!")
        self.assertIn(b"\033[2m", shown.seen)
        self.assertEqual(shown.end(), DONE)
        shown = self.terminal("--greedy", "-n", "8", "--stats", NO_COLOR="1")
        shown.say("Hello!")
        self.assertNotRegex(shown.seen.decode(), r"\033\[\d*m")
        self.assertEqual(shown.end(), DONE)

    def test_stopped_and_going_on(self):
        """The line is there again after a stop and after Ctrl-Z, which stops nothing that has no shell above it."""
        shown = self.terminal("--greedy", "-n", "8")
        shown.type(b"abc")
        shown.wait(b"abc")
        os.kill(shown.pid, signal.SIGSTOP)
        self.assertTrue(os.WIFSTOPPED(os.waitpid(shown.pid, os.WUNTRACED)[1]))
        os.kill(shown.pid, signal.SIGCONT)
        shown.wait(b"abc")
        shown.type(b"\x1a")
        shown.wait(b"abc")
        shown.say("d")
        self.assertIn("taken back: abcd", shown.say("/undo"))
        self.assertEqual(shown.end(), DONE)

    def test_window_size(self):
        shown = self.terminal("--greedy", "-n", "8")
        shown.type(b"abc")
        shown.wait(b"abc")
        fcntl.ioctl(shown.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        os.kill(shown.pid, signal.SIGWINCH)
        shown.say("d")
        self.assertIn("taken back: abcd", shown.say("/undo"))
        self.assertEqual(shown.end(), DONE)


if __name__ == "__main__":
    cli_test.main()
