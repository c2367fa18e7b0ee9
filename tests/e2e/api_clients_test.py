#!/usr/bin/env python3
"""Real clients against the server: openai-python (strict), openai-node, anthropic-sdk-python, LangChain's ChatOpenAI.
Acceptance tests T14 and T70-T72 of the server's specification.

The clients are taken from QUIPU_CLIENTS, or else installed from PyPI and npm into the folder of the build; where that
cannot be done, the tests are skipped and say so.

usage: api_clients_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import glob
import os
import shutil
import subprocess
import sys
import unittest

from server_kit import API, Server, run
from venv_kit import build_folder, python_with

PROGRAM = ""
PACKAGES = ["openai", "anthropic", "langchain-openai"]
SECONDS = 240


def folder():
    return os.environ.get("QUIPU_CLIENTS") or os.path.join(build_folder(PROGRAM), "clients")


def install(command, done, cwd=None):
    """False where it fails, which a missing network or tool may cause."""
    if glob.glob(done):
        return True
    try:
        os.makedirs(cwd or folder(), exist_ok=True)
        result = subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS,
                                check=False)
        return result.returncode == 0 and bool(glob.glob(done))
    except (OSError, subprocess.TimeoutExpired):
        return False


def python_clients():
    return python_with(folder(), PACKAGES)


def node_clients():
    where = os.path.join(folder(), "node")
    if not shutil.which("node") or not shutil.which("npm"):
        return None
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "package.json"), "w", encoding="utf-8") as file:
        file.write("{}")
    return where if install(["npm", "install", "openai"], os.path.join(where, "node_modules", "openai"),
            where) else None


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM)
        cls.url = "http://127.0.0.1:%d" % cls.server.port

    @classmethod
    def tearDownClass(cls):
        cls.server.close()

    def script(self, command, text, cwd=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("OPENAI", "ANTHROPIC", "LANG"))}
        clean.update(URL=self.url, KEY=API, NO_PROXY="127.0.0.1")
        result = subprocess.run(command, input=text, capture_output=True, text=True, cwd=cwd, env=clean,
                timeout=SECONDS,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stdout[-2000:] + result.stderr[-4000:])
        return result.stdout

    def python(self, text):
        python = python_clients()
        if not python:
            self.skipTest("the Python clients cannot be installed")
        return self.script([python, "-"], text)

    def test_T70_openai_python(self):
        out = self.python(OPENAI)
        self.assertIn("all is well", out)

    def test_T72_anthropic(self):
        self.assertIn("all is well", self.python(ANTHROPIC))

    def test_langchain(self):
        self.assertIn("all is well", self.python(LANGCHAIN))

    def test_T71_openai_node(self):
        where = node_clients()
        if not where:
            self.skipTest("the Node client cannot be installed")
        self.assertIn("all is well", self.script(["node", "--input-type=module", "-"], NODE, where))


OPENAI = r'''
import os
import openai
client = openai.OpenAI(base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], _strict_response_validation=True)
loose = openai.OpenAI(base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"])
hello = [{"role": "user", "content": "Hello! Who are you?"}]

assert [m.id for m in client.models.list().data] == ["demo"]
assert client.models.retrieve("demo").id == "demo"

chat = client.chat.completions.create(model="demo", messages=hello, max_tokens=12, temperature=0, logprobs=True,
        top_logprobs=2)
assert chat.choices[0].message.content and chat.usage.total_tokens and chat.choices[0].logprobs.content[0].top_logprobs
raw = client.chat.completions.with_raw_response.create(model="demo", messages=hello, max_tokens=1)
assert raw.headers["x-request-id"]

text, usage, finish = "", None, None
for chunk in client.chat.completions.create(model="demo", messages=hello, max_tokens=12, temperature=0, stream=True,
                                            stream_options={"include_usage": True}):
    if chunk.choices:
        text += chunk.choices[0].delta.content or ""
        finish = chunk.choices[0].finish_reason or finish
    usage = chunk.usage or usage
assert text == chat.choices[0].message.content, (text, chat)
assert finish == chat.choices[0].finish_reason and usage.completion_tokens == chat.usage.completion_tokens

with client.chat.completions.stream(model="demo", messages=hello, max_tokens=300, temperature=0) as stream:
    for event in stream:
        pass
    assert stream.get_final_completion().choices[0].message.content.startswith(text)

done = client.completions.create(model="demo", prompt=["Once upon", "The dog"], max_tokens=5, n=2, logprobs=1)
assert [c.index for c in done.choices] == [0, 1, 2, 3]
scored = loose.completions.create(model="demo", prompt="Once upon a time", max_tokens=0, echo=True, logprobs=1)
assert scored.choices[0].logprobs.token_logprobs[0] is None and scored.choices[0].logprobs.token_logprobs[1] < 0
# Its strict mode wants a finish_reason in every chunk of a completion, which nobody sends.
assert "".join(c.choices[0].text for c in loose.completions.create(model="demo", prompt="Once", max_tokens=5,
        stream=True))

answer = client.responses.create(model="demo", input="Hello!", max_output_tokens=5, temperature=0)
assert answer.output_text and answer.status == "incomplete"
with client.responses.stream(model="demo", input="Hello!", max_output_tokens=60, temperature=0) as stream:
    kinds = [event.type for event in stream]
    final = stream.get_final_response()
assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and final.output_text
assert client.responses.input_tokens.count(model="demo", input="Hello!").input_tokens > 3

def raised(kind, call):
    try:
        call()
    except kind as e:
        return e
    raise AssertionError(kind)

e = raised(openai.BadRequestError, lambda: client.chat.completions.create(model="demo", messages=hello, temperature=99))
assert e.param == "temperature" and e.request_id
e = raised(openai.BadRequestError, lambda: client.completions.create(model="demo", prompt="word " * 5000))
assert e.code == "context_length_exceeded"
e = raised(openai.AuthenticationError, lambda: openai.OpenAI(base_url=os.environ["URL"] + "/v1",
        api_key="no").models.list())
assert e.code == "invalid_api_key"
e = raised(openai.NotFoundError, lambda: client.models.retrieve("none"))
form = {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": {"enum": ["yes", "no"]}}}
answer = client.chat.completions.create(model="demo", messages=hello, response_format=form)
assert answer.choices[0].message.content in ('"yes"', '"no"')
form["json_schema"]["schema"] = {"type": "string", "format": "zodiac"}
e = raised(openai.BadRequestError, lambda: client.chat.completions.create(
    model="demo", messages=hello, response_format=form))
assert e.code == "invalid_schema"
# Its strict mode refuses the base64 that it asks for itself.
texts = ["The cat sat on the mat.", "Once upon a time"]
coded = loose.embeddings.create(model="demo", input=texts)
plain = client.embeddings.create(model="demo", input=texts, encoding_format="float", dimensions=64)
assert [d.index for d in coded.data] == [0, 1] and len(plain.data[0].embedding) == 64
assert abs(sum(x * x for x in coded.data[1].embedding) - 1) < 1e-5
assert coded.usage.prompt_tokens == plain.usage.total_tokens > 0
scale = coded.data[0].embedding[0] / plain.data[0].embedding[0]
assert all(abs(a - b * scale) < 1e-5 for a, b in zip(coded.data[0].embedding, plain.data[0].embedding))
tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
assert client.chat.completions.create(model="demo", messages=hello, tools=tools, max_tokens=5).choices[0].message
print("all is well")
'''

ANTHROPIC = r'''
import os
import anthropic
client = anthropic.Anthropic(base_url=os.environ["URL"], api_key=os.environ["KEY"], _strict_response_validation=True)
hello = [{"role": "user", "content": "Hello!"}]
answer = client.messages.create(model="demo", messages=hello, max_tokens=5, extra_body={"temperature": 0})
assert answer.content[0].text and answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 5
with client.messages.stream(model="demo", messages=hello, max_tokens=60, extra_body={"temperature": 0},
        system="Be kind.") as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()
assert text == final.content[0].text and final.stop_reason == "end_turn"
count = client.messages.count_tokens(model="demo", messages=hello)
usage = answer.usage
assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
try:
    client.messages.create(model="demo", messages=[], max_tokens=5)
    raise AssertionError("no error")
except anthropic.BadRequestError as e:
    assert e.request_id or e.body["request_id"], e
try:
    anthropic.Anthropic(base_url=os.environ["URL"], api_key="no").messages.create(model="demo", messages=hello,
            max_tokens=5)
    raise AssertionError("no error")
except anthropic.AuthenticationError:
    pass
print("all is well")
'''

LANGCHAIN = r'''
import os
from langchain_openai import ChatOpenAI
llm = ChatOpenAI(base_url=os.environ["URL"] + "/v1", api_key=os.environ["KEY"], model="demo", temperature=0,
        max_tokens=12)
answer = llm.invoke("Hello! Who are you?")
assert answer.content and answer.usage_metadata["output_tokens"] > 0, answer
assert "".join(part.content for part in llm.stream("Hello! Who are you?")) == answer.content
assert len(llm.batch(["Hello!", "Goodbye!"])) == 2
print("all is well")
'''

NODE = r'''
import OpenAI from "openai";
import assert from "node:assert";
const client = new OpenAI({baseURL: process.env.URL + "/v1", apiKey: process.env.KEY});
const messages = [{role: "user", content: "Hello! Who are you?"}];
const models = [];
for await (const m of client.models.list()) models.push(m.id);
assert.deepEqual(models, ["demo"]);
const chat = await client.chat.completions.create({model: "demo", messages, max_tokens: 12, temperature: 0});
let text = "", usage = null;
const stream = await client.chat.completions.create({model: "demo", messages, max_tokens: 12, temperature: 0,
        stream: true,
                                                     stream_options: {include_usage: true}});
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta?.content ?? "";
  usage = chunk.usage ?? usage;
}
assert.equal(text, chat.choices[0].message.content);
assert.equal(usage.total_tokens, chat.usage.total_tokens);
const runner = client.chat.completions.stream({model: "demo", messages, max_tokens: 12, temperature: 0});
assert.equal((await runner.finalChatCompletion()).choices[0].message.content, text);
const events = client.responses.stream({model: "demo", input: "Hello!", max_output_tokens: 60, temperature: 0});
assert.ok((await events.finalResponse()).output_text);
const done = await client.completions.create({model: "demo", prompt: "Once upon", max_tokens: 5});
assert.ok(done.choices[0].text);
await assert.rejects(client.chat.completions.create({model: "demo", messages, temperature: 99}),
                     (e) => e instanceof OpenAI.BadRequestError && e.param === "temperature" &&
                            e.requestID.length === 32);
console.log("all is well");
'''


if __name__ == "__main__":
    run(globals())
