#!/usr/bin/env python3
"""The program as its users meet it: exit statuses, refusals, what goes to which stream, shapes of JSON, pipes, Ctrl-C.

usage: cli_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import array
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

DEMO = os.path.abspath("models/demo")
SECONDS = 120
PROGRAM, FIXTURES = "", ""
DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def environment(**extra):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("QUIPU_") and k != "NO_COLOR"}
    return dict(clean, **extra)


def run(*arguments, stdin=b"", env=None):
    """Bytes in, (status, stdout, stderr) as text out."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    ran = subprocess.run([PROGRAM, *arguments], input=data, capture_output=True, timeout=SECONDS,
                         env=environment(**(env or {})))
    return ran.returncode, ran.stdout.decode("utf-8", "replace"), ran.stderr.decode("utf-8", "replace")


def read_tensor(path):
    """The shape and values of `logits`."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        start = file.tell()
        tensor = header["logits"]
        assert tensor["dtype"] == "F32"
        file.seek(start + tensor["data_offsets"][0])
        values = array.array("f")
        values.frombytes(file.read(tensor["data_offsets"][1] - tensor["data_offsets"][0]))
    return tensor["shape"], values


def read_golden(path, name):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        first, last = header[name]["data_offsets"]
        file.seek(first, os.SEEK_CUR)
        values = array.array("f")
        values.frombytes(file.read(last - first))
    return values


class Base(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quipu-e2e-")
        self.addCleanup(self.folder.cleanup)

    def path(self, name, content=None):
        path = os.path.join(self.folder.name, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def good(self, *arguments, **more):
        status, out, said = run(*arguments, **more)
        self.assertEqual(status, DONE, "%s\n%s%s" % (" ".join(arguments), out, said))
        return out

    def bad(self, expected, *arguments, says=None, **more):
        status, out, said = run(*arguments, **more)
        self.assertEqual(status, expected, "%s\n%s%s" % (" ".join(arguments), out, said))
        self.assertTrue(said.startswith("quipu: "), said)
        self.assertIn(says or "", said)
        return out


class Usage(Base):
    def test_refusals(self):
        cases = [
            ([], "usage: quipu"), (["chta"], "unknown command 'chta'"), (["server"], "did you mean 'serve'?"),
            (["tokenise"], "did you mean 'tokenize'?"), (["generate", "--temprature", "1"], "--temperature?"),
            (["generate", "-n", "-1"], "allowed are"),
            (["generate", "-p", "a", "--ban", ""], "--ban: the text is empty"),
            (["generate", "-p", "a", "--logprobs", "2"], "--logprobs needs --json"),
            (["generate", "-p", "a", "--dynatemp", "1"], "found 1 numbers"),
            (["generate", "-p", "a", "--dynatemp", "2,1"], "it must be under HIGH"),
            (["generate", "-p", "a", "--negative-prompt", "b"], "needs --cfg-scale"),
            (["generate", "-p"], "needs a value"), (["bench", "bandwidht"], "bandwidth|compute"),
            (["bench", "bandwidth", "-p", "4"], "has no meaning"), (["bench", "--shape", "x"], "tinyllama-1.1b"),
            (["bench", "-m", DEMO, "-p", "0", "-n", "0"], "nothing to measure"), (["help", "x"], "unknown command"),
            (["logits", "-m", DEMO], "needs -o FILE"), (["generate", "-m", DEMO, "-p", "a", "--stop", ""], "--stop"),
            (["template", "-m", DEMO, "--file", "x"], "not both"),
        ]
        for arguments, says in cases:
            status, out, said = run(*arguments)
            self.assertEqual((status, out), (USAGE, ""), arguments)
            self.assertIn(says, said)

    def test_environment_is_checked_too(self):
        self.bad(USAGE, "generate", "-p", "a", env={"QUIPU_TOP_P": "2"}, says="QUIPU_TOP_P: found 2")
        self.bad(FAILED, "tokenize", "-p", "a", env={"QUIPU_MODEL": "/nowhere"}, says="/nowhere")

    def test_help(self):
        self.assertIn("generate", self.good("help"))
        self.assertEqual(self.good("help"), self.good("--help"))
        self.assertEqual(self.good("help", "bench"), self.good("bench", "--help"))
        self.assertIn("\033[1m", self.good("help", "bench", "--color", "always"))
        self.assertTrue(self.good("help", "--man").startswith(".TH QUIPU 1"))
        for shell in ("bash", "zsh", "fish"):
            self.assertIn("detokenize", self.good("help", "--completion", shell))

    def test_version(self):
        self.assertRegex(self.good("version").split("\n")[0], r"^quipu \d+\.\d+\.\d+$")
        self.assertEqual(self.good("version"), self.good("--version"))
        self.assertEqual(set(json.loads(self.good("version", "--json"))), {"version", "build"})

    def test_licences(self):
        """Every library that the build asks for is named, and the terms of those inside are there in full."""
        text = self.good("version", "--licences")
        with open("CMakeLists.txt", encoding="utf-8") as file:
            wanted = re.findall(r"^(?:quipu_external\(|pkg_check_modules\()(\w+)", file.read(), re.M)
        self.assertGreater(len(wanted), 6)
        for name in set(wanted) - {"CMOCKA", "package"}:  # only tests have that
            self.assertRegex(text.lower(), r"(?m)^(lib)?%s " % re.escape(name.lower()))
        for name in ("jansson", "PCRE2", "libedit", "markdown-it", "DOMPurify"):
            self.assertIn("\n---- %s ----\n" % name, text)
        self.assertGreater(text.count("WITHOUT WARRANTY") + text.count("WARRANTIES"), 5)

    def test_full_disk(self):
        if not os.path.exists("/dev/full"):
            self.skipTest("there is no /dev/full")
        with open("/dev/full", "wb") as full:
            ran = subprocess.run([PROGRAM, "help"], stdout=full, stderr=subprocess.PIPE, env=environment(),
                                 timeout=SECONDS)
        self.assertEqual(ran.returncode, FAILED)
        self.assertIn(b"standard output cannot be written", ran.stderr)

    def test_demo_model_beside_the_program(self):
        os.makedirs(self.path("build/bin"))
        os.symlink(os.path.dirname(DEMO), self.path("models"))
        program = self.path("build/bin/quipu")
        with open(PROGRAM, "rb") as file, open(program, "wb") as copy:
            copy.write(file.read())
        os.chmod(program, 0o755)
        ran = subprocess.run([program, "tokenize", "-p", "a"], capture_output=True, env=environment(), timeout=SECONDS)
        self.assertEqual(ran.returncode, DONE, ran.stderr)
        self.assertIn(b"the demo model", ran.stderr)
        quiet = subprocess.run([program, "tokenize", "-p", "a", "-q"], capture_output=True, env=environment(),
                               timeout=SECONDS)
        self.assertEqual((quiet.stdout, quiet.stderr), (ran.stdout, b""))
        alone = self.path("quipu")
        os.rename(program, alone)
        ran = subprocess.run([alone, "tokenize", "-p", "a"], capture_output=True, env=environment(), timeout=SECONDS)
        self.assertEqual(ran.returncode, USAGE)


class Text(Base):
    def test_round_trip(self):
        text = "Hello,  little\nworld \u00e9\u65e5\U0001f600 <|eot_id|>"
        ids = self.good("tokenize", "-m", DEMO, "-p", text)
        self.assertEqual(self.good("detokenize", "-m", DEMO, "--skip-special", stdin=ids),
                         text.replace("<|eot_id|>", "") + "\n")
        plain = self.good("tokenize", "-m", DEMO, "--no-special", "--no-parse-special", stdin=text)
        self.assertEqual(self.good("detokenize", "-m", DEMO, stdin=plain), text + "\n")
        self.assertGreater(len(plain.split()), len(ids.split()))

    def test_sources_agree(self):
        file = self.path("text", "a b\0c\n")
        piped = self.good("tokenize", "-m", DEMO, stdin="a b\0c\n")
        self.assertEqual(self.good("tokenize", "-m", DEMO, "-f", file), piped)
        self.assertEqual(self.good("tokenize", "-m", os.path.join(DEMO, "tokenizer.json"), "-f", file), piped)
        document = json.loads(self.good("tokenize", "-m", DEMO, "--json", "--pieces", stdin="a b\0c\n"))
        self.assertEqual([str(i) for i in document["ids"]], piped.split())
        self.assertEqual(document["count"], len(document["pieces"]))
        back = json.loads(self.good("detokenize", "-m", DEMO, "--json", "--skip-special", stdin=piped))
        self.assertEqual(back, {"text": "a b\0c\n"})

    def test_lines(self):
        texts = ["", "a", "two words\n", "\u00e9\0"]
        lines = "".join(json.dumps(t) + "\n" for t in texts)
        ids = self.good("tokenize", "-m", DEMO, "--jsonl", "--no-special", stdin=lines)
        self.assertEqual(json.loads(ids.split("\n")[0]), [])
        lines = self.good("detokenize", "-m", DEMO, "--jsonl", stdin=ids).splitlines()
        self.assertEqual([json.loads(x) for x in lines], texts)
        chunks = [json.loads(x) for x in self.good("detokenize", "-m", DEMO, "--stream", stdin=ids).splitlines()]
        self.assertEqual(["".join(c or "" for c in line) for line in chunks], texts)
        self.assertEqual([len(line) for line in chunks], [len(json.loads(x)) for x in ids.splitlines()])

    def test_half_a_character_is_never_shown(self):
        ids = json.loads(self.good("tokenize", "-m", DEMO, "--json", "--no-special", "-p", "\u65e5"))["ids"]
        self.assertEqual(json.loads(self.good("detokenize", "-m", DEMO, "--stream", stdin=json.dumps(ids))),
                         [None] * (len(ids) - 1) + ["\u65e5"])

    def test_pieces(self):
        said = self.good("tokenize", "-m", DEMO, "-p", "a\nb\x1b[31m", "--pieces")
        self.assertIn('"\\n"', said)
        self.assertNotIn("\x1b", said)
        self.assertIn("\x1b", self.good("tokenize", "-m", DEMO, "-p", "a", "--pieces", "--color", "always"))

    def test_bad_lines_have_a_number(self):
        out = self.bad(FAILED, "tokenize", "-m", DEMO, "--jsonl", stdin='"a"\n5\n', says="line 2: an integer")
        self.assertEqual(len(out.splitlines()), 1)
        self.bad(FAILED, "tokenize", "-m", DEMO, "--jsonl", stdin='"a\n', says="line 1: not valid JSON")
        self.bad(FAILED, "detokenize", "-m", DEMO, "--jsonl", stdin="[1]\n\n", says="line 2: expected a JSON array")
        self.bad(FAILED, "detokenize", "-m", DEMO, stdin="1 x", says="found 'x' at byte 2")
        self.bad(FAILED, "detokenize", "-m", DEMO, stdin="1 6144", says="id 6144 at place 1, the vocabulary has ids 0")

    def test_bad_tokenizers(self):
        for content in ("", "{}", "[1", "\0\0\0", '{"model": 5}'):
            self.bad(FAILED, "tokenize", "-m", self.path("tokenizer.json", content), "-p", "a")

    def test_template(self):
        lines = [json.dumps({"messages": [{"role": "user", "content": "Hi \u00e9"}], "add_generation_prompt": True}),
                 "{", json.dumps({"messages": []})]
        answers = [json.loads(x) for x in self.good("template", "-m", DEMO, stdin="\n".join(lines)).splitlines()]
        self.assertIn("Hi \u00e9", answers[0]["text"])
        self.assertEqual(answers[1]["error"]["kind"], "engine")
        self.assertEqual(len(answers), 3)

    def test_template_file(self):
        cases = [("{{ raise_exception('no') }}", {"kind": "raise_exception", "message": "no"}),
                 ("{{ nothing.at.all }}", "engine"), ("{% if %}", "engine"), ("{{ x }}{{ bos_token }}", None)]
        line = json.dumps({"messages": [], "x": 5, "tokens": {"bos_token": "<s>"}})
        for source, expected in cases:
            answer = json.loads(self.good("template", "--file", self.path("t.jinja", source), stdin=line,
                                          env={"QUIPU_MODEL": DEMO}))
            if expected is None:
                self.assertEqual(answer, {"text": "5<s>"})
            elif isinstance(expected, dict):
                self.assertEqual(answer["error"], expected)
            else:
                self.assertEqual(answer["error"]["kind"], expected)
        self.bad(FAILED, "template", "--file", "/nowhere", says="/nowhere")


class Generate(Base):
    KEYS = {"text", "ids", "finish_reason", "stop_reason", "prompt_ids", "usage", "timing"}
    TIMES = {"queue_s", "prefill_s", "prefill_tok_s", "first_token_s", "decode_s", "decode_tok_s", "total_s"}

    def document(self, *arguments, **more):
        document = json.loads(self.good("generate", "-m", DEMO, "--json", *arguments, **more))
        self.assertEqual(set(document), self.KEYS)
        self.assertEqual(set(document["timing"]), self.TIMES)
        self.assertEqual(set(document["usage"]), {"prompt_tokens", "cached_tokens", "completion_tokens"})
        self.assertEqual(document["usage"]["prompt_tokens"], len(document["prompt_ids"]))
        self.assertEqual(document["usage"]["completion_tokens"], len(document["ids"]))
        return document

    def test_document(self):
        d = self.document("-p", "The cat sat on", "-n", "8", "--greedy")
        self.assertEqual((d["finish_reason"], d["stop_reason"], len(d["ids"])), ("length", None, 8))
        self.assertGreater(d["timing"]["total_s"], 0)
        self.assertGreaterEqual(d["timing"]["total_s"], d["timing"]["prefill_s"])
        status, out, said = run("generate", "-m", DEMO, "-p", "The cat sat on", "-n", "8", "--greedy")
        self.assertEqual((status, out), (DONE, d["text"] + "\n"))
        self.assertRegex(said, r"^prompt \d+ tokens, [\d.]+ tok/s, 0 cached; new 8 tokens, [\d.]+ tok/s; first tok")
        self.assertEqual(len(said.splitlines()), 1)
        self.assertEqual(run("generate", "-m", DEMO, "-p", "The cat sat on", "-n", "8", "--greedy", "-q")[2], "")

    def test_sources_agree(self):
        d = self.document("-p", "The cat", "-n", "4", "--greedy")
        ids = " ".join(str(i) for i in d["prompt_ids"])
        for more, stdin in [(["-f", self.path("p", "The cat")], ""), ([], "The cat"), (["-f", "-"], "The cat"),
                            (["--ids", "-"], ids), (["--ids", self.path("i", json.dumps(d["prompt_ids"]))], "")]:
            again = self.document(*more, "-n", "4", "--greedy", stdin=stdin)
            self.assertEqual((again["ids"], again["prompt_ids"]), (d["ids"], d["prompt_ids"]), more)

    def test_seeds(self):
        first, again, other = (self.document("-p", "Once", "-n", "24", "--temperature", "1", "--seed", s)["ids"]
                               for s in ("1", "1", "2"))
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        threaded = self.document("-p", "Once", "-n", "24", "--temperature", "1", "--seed", "1", "--threads", "1")
        self.assertEqual(threaded["ids"], first)

    def test_stop(self):
        whole = self.document("-p", "Once upon a time", "-n", "12", "--greedy")
        stop = whole["text"].split()[3]
        d = self.document("-p", "Once upon a time", "-n", "12", "--greedy", "--stop", "@@@", "--stop", stop)
        self.assertEqual((d["finish_reason"], d["stop_reason"]), ("stop", stop))
        self.assertEqual(d["text"], whole["text"][:whole["text"].index(stop)])

    def test_chat_stops_by_itself(self):
        d = self.document("--chat", "-p", "Hello!", "--greedy", "-n", "300")
        self.assertEqual(d["finish_reason"], "stop")
        self.assertIsInstance(d["stop_reason"], int)
        self.assertNotIn("<|", d["text"])
        rendered = json.loads(self.good("template", "-m", DEMO, stdin=json.dumps(
            {"messages": [{"role": "user", "content": "Hello!"}], "add_generation_prompt": True})))["text"]
        ids = json.loads(self.good("tokenize", "-m", DEMO, "--no-special", "--json", "-p", rendered))["ids"]
        self.assertEqual(d["prompt_ids"], ids)

    def test_special_tokens(self):
        self.assertEqual(self.document("-p", "a", "-n", "1")["usage"]["prompt_tokens"],
                         1 + self.document("-p", "a", "-n", "1", "--no-special")["usage"]["prompt_tokens"])

    def test_failures(self):
        self.bad(FAILED, "generate", "-m", DEMO, "-p", "word " * 3000, says="the context holds")
        self.bad(FAILED, "generate", "-m", DEMO, "-p", "word " * 300, "--context", "256", says="the context holds 256")
        self.bad(FAILED, "generate", "-m", DEMO, "--ids", "-", stdin="1 999999", says="id 999999")
        self.bad(FAILED, "generate", "-m", DEMO, "--ids", "-", stdin="", says="at least one")
        self.bad(FAILED, "generate", "-m", DEMO, "--no-special", "-p", "", says="the prompt is empty")
        self.bad(FAILED, "generate", "-m", "/nowhere", "-p", "a", says="/nowhere")
        self.bad(FAILED, "generate", "-m", self.folder.name, "-p", "a", says="config.json")
        self.bad(FAILED, "generate", "-m", DEMO, "-f", "/nowhere", says="/nowhere")

    def test_interrupt(self):
        arguments = [PROGRAM, "generate", "-m", DEMO, "-p", "Once", "--ignore-eos", "--json"]
        for more in ([], ["-v"]):
            job = subprocess.Popen(arguments[:-1] + more, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment())
            first = os.read(job.stdout.fileno(), 1)  # it is running
            job.send_signal(signal.SIGINT)
            out, said = job.communicate(timeout=SECONDS)
            self.assertEqual(job.returncode, INTERRUPTED, said)
            self.assertTrue((first + out).endswith(b"\n"))
            self.assertIn(b"tok/s", said)
            self.assertNotIn(b"quipu:", said)

    def test_model_file_becomes_shorter(self):
        """In the middle of a generation, whichever thread reads the weights at that time."""
        for threads in ("1", "2"):
            model = os.path.join(self.folder.name, "model-" + threads)
            shutil.copytree(DEMO, model)
            job = subprocess.Popen([PROGRAM, "generate", "-m", model, "-p", "Once", "--ignore-eos", "-q", "--threads",
                                    threads], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            os.read(job.stdout.fileno(), 1)  # it is running
            os.truncate(os.path.join(model, "model.safetensors"), 4096)
            said = job.communicate(timeout=SECONDS)[1].decode()
            self.assertEqual((job.returncode, said), (FAILED, "quipu: a mapped file became shorter while in use\n"))

    def test_interrupted_document(self):
        job = subprocess.Popen([PROGRAM, "generate", "-m", DEMO, "-p", "Once", "--ignore-eos", "--json"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        time.sleep(0.8)
        job.send_signal(signal.SIGINT)
        out, said = job.communicate(timeout=SECONDS)
        self.assertEqual(job.returncode, INTERRUPTED, said)
        if out:  # it may have been loading still
            self.assertEqual(json.loads(out)["finish_reason"], "cancelled")

    def test_closed_pipe(self):
        job = subprocess.Popen([PROGRAM, "generate", "-m", DEMO, "-p", "Once", "--ignore-eos"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
        os.read(job.stdout.fileno(), 1)
        job.stdout.close()
        self.assertEqual(job.wait(SECONDS), -signal.SIGPIPE)
        job.stderr.close()

    def terminal(self, *arguments, **env):
        """All that a person at a terminal would see."""
        main, side = pty.openpty()
        job = subprocess.Popen([PROGRAM, *arguments], stdin=side, stdout=side, stderr=side,
                               env=environment(TERM="xterm", **env))
        os.close(side)
        seen = b""
        while select.select([main], [], [], SECONDS)[0]:
            try:
                block = os.read(main, 4096)
            except OSError:  # the other side is closed
                break
            seen += block
        os.close(main)
        return job.wait(SECONDS), seen.decode("utf-8", "replace")

    def test_terminal(self):
        status, seen = self.terminal("generate", "-m", DEMO, "-p", "Once upon", "-n", "4")
        self.assertEqual(status, DONE)
        self.assertIn("\033[1mOnce upon\033[0m", seen)
        status, seen = self.terminal("generate", "-m", DEMO, "-p", "Once upon", "-n", "4", NO_COLOR="1")
        self.assertEqual((status, "\033[1m" in seen), (DONE, False))
        self.assertIn("\033[", self.terminal("help", NO_COLOR="")[1])
        status, seen = self.terminal("generate", "-m", DEMO)
        self.assertEqual(status, USAGE)
        self.assertIn("needs a text", seen)


class Logits(Base):
    def test_file(self):
        out = self.path("l.safetensors")
        said = json.loads(self.good("logits", "-m", DEMO, "--json", "-o", out, stdin="[1, 2, 3]"))
        shape, values = read_tensor(out)
        self.assertEqual((shape, said["shape"], said["tokens"]), ([3, 6144], [3, 6144], 3))
        last = json.loads(self.good("logits", "-m", DEMO, "--json", "-o", out, "--last", "1", stdin="1 2 3"))
        shape, only = read_tensor(out)
        self.assertEqual((shape, only), ([1, 6144], values[2 * 6144:]))
        self.assertNotEqual(said["hash"], last["hash"])
        status, printed, spoken = run("logits", "-m", DEMO, "-o", out, stdin="1 2 3")
        self.assertEqual((status, printed), (DONE, ""))
        self.assertIn(said["hash"], spoken)

    def test_threads_and_repeats_agree(self):
        hashes = {json.loads(self.good("logits", "-m", DEMO, "--json", "-o", self.path("l"), "--precision", p,
                                       "--threads", t, stdin="5 6 7 8 9"))["hash"]
                  for p, t in [("exact", "1"), ("exact", "2"), ("exact", "4"), ("exact", "1")]}
        self.assertEqual(len(hashes), 1)

    def test_failures(self):
        out = self.path("l")
        self.bad(FAILED, "logits", "-m", DEMO, "-o", out, stdin="", says="no ids")
        self.bad(FAILED, "logits", "-m", DEMO, "-o", out, stdin="6144", says="id 6144")
        self.bad(FAILED, "logits", "-m", DEMO, "-o", out, "--last", "4", stdin="1 2 3", says="there are 3 positions")
        self.bad(FAILED, "logits", "-m", DEMO, "-o", out, "--context", "2", stdin="1 2 3", says="3 ids, --context is 2")
        self.bad(FAILED, "logits", "-m", DEMO, "-o", "/nowhere/l", stdin="1", says="/nowhere/l")
        self.assertFalse(os.path.exists(out))

    def test_goldens(self):
        for name in ("llama-mha", "qwen3"):
            folder = os.path.join(FIXTURES, "models", name)
            if not os.path.isdir(folder):
                self.skipTest("fixtures are not there")
            with open(os.path.join(FIXTURES, "models/cases.json")) as file:
                cases = json.load(file)
            bound = next(c for c in cases["cases"] if c["name"] == name)["tolerance"]["fp32_max_abs"]
            with open(os.path.join(folder, "goldens.json")) as file:
                ids = json.load(file)["short_ids"]
            out = self.path("l.safetensors")
            self.good("logits", "-m", folder, "--precision", "exact", "-o", out, stdin=json.dumps(ids))
            golden = read_golden(os.path.join(folder, "goldens.safetensors"), "short_logits")
            values = read_tensor(out)[1]
            self.assertEqual(len(values), len(golden))
            self.assertLessEqual(max(abs(a - b) for a, b in zip(values, golden)), bound)


class Reports(Base):
    def test_inspect(self):
        document = json.loads(self.good("inspect", "-m", DEMO, "--json"))
        self.assertIs(document["supported"], True)
        self.assertNotIn("tensors", document)
        more = json.loads(self.good("inspect", "-m", DEMO, "--json", "--tensors", "--context", "100000"))
        self.assertGreater(len(more["tensors"]), 100)
        rows = more["memory"]["cache"]
        self.assertEqual(rows[-1]["tokens"], 100000)
        self.assertEqual(rows[-1]["fp16_bytes"] * rows[0]["fp32_bytes"], rows[-1]["fp32_bytes"] * rows[0]["fp16_bytes"])
        self.assertIn("model.embed_tokens.weight", self.good("inspect", "-m", DEMO, "--tensors"))
        self.assertIn("LlamaForCausalLM", self.good("inspect", "-m", DEMO))
        self.bad(FAILED, "inspect", "-m", "/nowhere", says="/nowhere")
        self.path("config.json", '{"architectures": ["Nonesuch\\u001b[31m"], "model_type": "none"}')
        said = self.good("inspect", "-m", self.folder.name)
        self.assertNotIn("\x1b", said)
        self.assertRegex(said, r"supported +no")

    def test_devices(self):
        self.assertEqual(json.loads(self.good("devices", "--json"))["used"], "cpu")
        self.assertRegex(self.good("devices"), r"cores used +\d+")

    def test_bench(self):
        document = json.loads(self.good("bench", "--shape", "tiny", "-p", "8,40", "-n", "3", "-b", "1,2", "-d", "0,5",
                                        "--threads", "1,2", "--repeat", "2", "--seconds", "0.02", "--json"))
        rows = document["results"]
        self.assertEqual(len(rows), 2 * 2 * 2 * 3)
        for row in rows:
            self.assertTrue(row["tok_s"]["min"] <= row["tok_s"]["median"] <= row["tok_s"]["max"])
            self.assertGreater(row["share"], 0)
        half = len(rows) // 2  # the number of threads changes no bit
        self.assertEqual([r["hash"] for r in rows[:half]], [r["hash"] for r in rows[half:]])
        self.assertEqual(len({r["hash"] for r in rows}), half)
        self.assertEqual([r["threads"] for r in document["limits"]], [1, 2])
        self.assertGreater(document["peak_memory_bytes"], 1 << 20)

    def test_bench_packed(self):
        """Packed weights are compared with products of whole numbers, where the processor has such."""
        best = [r["name"] for r in json.loads(self.good("bench", "compute", "--seconds", "0.02", "--json"))["results"]
                if r["is_best_whole"]]
        limits = json.loads(self.good("bench", "--shape", "tiny", "--format", "q4_0", "-p", "8", "-n", "0", "--repeat",
                                      "1", "--seconds", "0.02", "--json"))["limits"]
        if best:
            self.assertEqual(limits[0]["compute_before"]["unit"], "GOP/s")

    def test_bench_format(self):
        """Typed without a shape it is a mistake; in the environment it waits for one."""
        quick = ["bench", "-m", DEMO, "-p", "8", "-n", "0", "--repeat", "1", "--seconds", "0.02"]
        self.bad(USAGE, *quick, "--format", "f16", says="--format is for the random weights")
        self.good(*quick, env={"QUIPU_FORMAT": "f16"})

    def test_pack_cache(self):
        model = shutil.copy("tests/golden/gguf/q8_0.gguf", os.path.join(self.folder.name, "a.gguf"))
        words = ["generate", "-m", model, "-p", "hello", "-n", "8", "--greedy", "-q"]
        plain = self.good(*words)
        for _ in range(2):
            self.assertEqual(self.good(*words, "--pack-cache", "model"), plain)
        self.assertTrue(os.path.exists(model + ".packed"))
        self.bad(FAILED, *words, "--pack-cache", "/nowhere", says="pack cache: /nowhere is not a folder")
        self.bad(FAILED, "bench", "--shape", "tiny", "--pack-cache", "model", says="random weights")

    def test_bench_table(self):
        said = self.good("bench", "-m", DEMO, "-p", "8", "-n", "2", "--repeat", "1", "--seconds", "0.02")
        for part in ("limits of the machine", "before", "share", "peak memory", "prompt ", "new "):
            self.assertIn(part, said)

    def test_limits(self):
        rows = json.loads(self.good("bench", "bandwidth", "--threads", "1,2", "--seconds", "0.02", "--json"))["results"]
        self.assertEqual([(r["threads"], r["unit"]) for r in rows], [(1, "GB/s"), (2, "GB/s")])
        rows = json.loads(self.good("bench", "compute", "--seconds", "0.02", "--json"))["results"]
        self.assertEqual(sum(r["is_best"] for r in rows), 1)
        self.assertTrue(all(r["unit"] == "GOP/s" for r in rows if r["is_best_whole"]))
        self.assertIn("best for 16-bit weights", self.good("bench", "compute", "--seconds", "0.02"))


def main():
    global PROGRAM, FIXTURES
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAM, FIXTURES = os.path.abspath(sys.argv[1]), sys.argv[2]
    if not os.path.exists(os.path.join(DEMO, "model.safetensors")):
        print("SKIP: models/demo is missing")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])


if __name__ == "__main__":
    main()
