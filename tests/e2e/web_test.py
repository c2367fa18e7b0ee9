#!/usr/bin/env python3
"""The chat page in a real browser against the real server and the demo model.

Playwright comes from PyPI into the folder of the build (or is in QUIPU_CLIENTS), the browser is Debian's chromium; where
one cannot be had the test is skipped and says so. What a model would hardly say by itself (markdown, thoughts, attacks)
is fed to the page by a stand-in for fetch that streams piece by piece.

usage: web_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from server_kit import ADMIN, API, Server, run, wait_until

PROGRAM = ""
LIMIT = 200000  # gzipped bytes of the page
SECONDS = 240
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SLOW = 60000  # ms that anything may take on a busy machine

# Answers to /v1/chat/completions out of window.script: a list of lists of pieces (strings: text; objects: deltas).
STAND_IN = """
window.script = []; window.asked = []; window.hacked = 0; window.violations = [];
document.addEventListener("securitypolicyviolation", e => window.violations.push(e.violatedDirective + " " + e.blockedURI));
const real = window.fetch;
window.fetch = async (path, options = {}) => {
    if (path === "/v1/chat/completions") window.asked.push(JSON.parse(options.body));
    if (path !== "/v1/chat/completions" || !window.script.length) return real(path, options);
    const pieces = window.script.shift();
    if (pieces.status) return new Response(JSON.stringify({error: pieces}), {status: pieces.status});
    const encoder = new TextEncoder();
    const event = choice => encoder.encode("data: " + JSON.stringify({model: "stand-in", choices: [choice], usage: null}) + "\\n\\n");
    return new Response(new ReadableStream({async start(to) {
        options.signal?.addEventListener("abort", () => to.error(new DOMException("", "AbortError")));
        for (const p of pieces) {
            to.enqueue(event({index: 0, delta: typeof p === "string" ? {content: p} : p, finish_reason: null}));
            await new Promise(done => setTimeout(done, 4));
        }
        to.enqueue(event({index: 0, delta: {}, finish_reason: "stop"}));
        to.enqueue(encoder.encode("data: [DONE]\\n\\n"));
        to.close();
    }}), {headers: {"Content-Type": "text/event-stream"}});
};
"""


def venv():
    given = os.environ.get("QUIPU_CLIENTS")
    return os.path.join(given or os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[1]))), "clients"),
                        "playwright")


def skip(why):
    print("SKIP: " + why)
    sys.exit(77)


def find_playwright():
    """Makes `import playwright` work: here already, or by going on in an environment that has it."""
    try:
        import playwright  # pylint: disable=unused-import,import-outside-toplevel
        return
    except ImportError:
        pass
    python = os.path.join(venv(), "bin", "python3")
    if os.path.abspath(sys.executable) == os.path.abspath(python):
        skip("playwright does not work here")
    try:
        if not os.path.exists(os.path.join(venv(), "done")):
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv()], check=True, timeout=SECONDS,
                           stdout=subprocess.DEVNULL)
            subprocess.run([python, "-m", "pip", "install", "-q", "playwright"], check=True, timeout=SECONDS,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(os.path.join(venv(), "done"), "w", encoding="ascii"):
                pass
    except (OSError, subprocess.SubprocessError):
        skip("playwright cannot be installed")
    os.execv(python, [python] + sys.argv)


class PageKit(unittest.TestCase):
    """One server and one browser for all tests of a class; a new profile for each test."""
    auth = False

    @classmethod
    def setUpClass(cls):
        from playwright.sync_api import sync_playwright  # pylint: disable=import-outside-toplevel
        cls.server = Server(PROGRAM, auth=cls.auth)
        cls.url = "http://127.0.0.1:%d/" % cls.server.port
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        status = cls.server.end()
        cls.server.close()
        if status != 0:
            raise AssertionError("the server ended with %d" % status)

    def setUp(self):
        self.errors, self.allowed = [], r"$^"
        self.context = self.browser.new_context(viewport={"width": 1100, "height": 760}, accept_downloads=True)
        self.page = self.open()

    def tearDown(self):
        self.context.close()
        self.assertEqual([e for e in self.errors if not re.search(self.allowed, e)], [], "the console must be quiet")

    def open(self, **options):
        page = self.context.new_page() if not options else self.browser.new_context(**options).new_page()
        page.set_default_timeout(SLOW)
        page.on("console", lambda m: m.type in ("error", "warning") and self.errors.append(m.text))
        page.on("pageerror", lambda e: self.errors.append("uncaught: " + str(e)))
        page.add_init_script(STAND_IN)
        page.goto(self.url)
        page.wait_for_selector(".card")
        return page

    def say(self, text, page=None):
        page = page or self.page
        page.fill("#prompt", text)
        page.press("#prompt", "Enter")

    def set(self, **settings):
        """Settings as the page keeps them."""
        self.page.evaluate("s => localStorage.setItem('quipu.settings', JSON.stringify(s))", settings)

    def done(self, page=None):
        page = page or self.page
        page.wait_for_selector(".message.assistant:last-child:not(.running)")
        page.wait_for_selector("#send:not(.is-stop)")

    def play(self, *pieces, question="say it"):
        """A question that is answered by these pieces."""
        self.page.evaluate("p => window.script.push(p)", list(pieces))
        self.say(question)
        self.done()

    def last(self):
        return self.page.locator(".message.assistant").last

    def answer(self):
        return self.last().locator(".prose:not(.small-prose)").inner_text()

    def asked(self):
        return self.page.evaluate("window.asked[window.asked.length - 1]")

    def jobs(self):
        return self.server.json("GET", "/v1/jobs", key=ADMIN if self.auth else None)["data"]


class Serving(unittest.TestCase):
    """GET / as bytes."""

    def setUp(self):
        self.server = Server(PROGRAM, auth=False)

    def tearDown(self):
        self.assertEqual(self.server.end(), 0)
        self.server.close()

    def test_page(self):
        browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip, deflate, br"}
        status, headers, packed = self.server.get("/", None, browser)
        self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertLessEqual(len(packed), LIMIT)
        plain = self.server.get("/", None, {"Accept": "text/html"})
        self.assertIsNone(plain[1]["Content-Encoding"])
        self.assertEqual(gzip.decompress(packed), plain[2])
        self.assertEqual(self.server.get("/", None, {"Accept": "text/html", "Accept-Encoding": "gzip;q=0"})[2], plain[2])
        self.assertEqual(int(plain[1]["Content-Length"]), len(plain[2]))
        self.assertIn("Accept-Encoding", headers["Vary"])
        text = plain[2].decode()
        self.assertEqual(re.findall(r"""(?:src|href)=["']?(?:https?:)?//[^"' >]+""", text), [])
        self.assertNotIn("{{", re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.S))

    def test_policy(self):
        policy = self.server.get("/", None, {"Accept": "text/html"})[1]["Content-Security-Policy"]
        for part in ("default-src 'none'", "connect-src 'self'", "img-src data:", "frame-ancestors 'none'", "base-uri 'none'",
                     "form-action 'none'", "require-trusted-types-for 'script'"):
            self.assertIn(part, policy)
        self.assertNotRegex(policy, r"unsafe|\*|https?:")
        self.assertEqual(len(re.findall(r"'sha256-[A-Za-z0-9+/]{43}='", policy)), 3)

    def test_the_same_page_is_not_sent_twice(self):
        browser = {"Accept": "text/html"}
        etag = self.server.get("/", None, browser)[1]["ETag"]
        for known, status in ((etag, 304), ("W/" + etag, 304), ('"x", ' + etag, 304), ('"x"', 200)):
            got, headers, body = self.server.get("/", None, {"If-None-Match": known, **browser})
            self.assertEqual((got, body == b""), (status, status == 304), known)
            self.assertEqual(headers["ETag"], etag)
        status, headers, body = self.server.ask("HEAD", "/", None, None, browser)
        self.assertEqual((status, body), (200, b""))
        self.assertGreater(int(headers["Content-Length"]), 100000)

    def test_others_get_json(self):
        for accept in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}, {"Accept": "text/html;q=0, */*"}):
            told = json.loads(self.server.get("/", None, accept)[2])
            self.assertEqual((told["name"], told["needs_key"]), ("quipu", False))
            self.assertIn("browser", told["page"])
        self.assertEqual(self.server.post("/", {}, None)[0], 405)

    def test_licences(self):
        text = self.server.get("/", None, {"Accept": "text/html"})[2].decode()
        for words in ("Vitaly Puzrin", "Ivan Sagalaev", "Mario Heiderich", "Permission is hereby granted",
                      "Redistribution and use in source and binary forms", "Apache License"):
            self.assertIn(words, text)


class Chatting(PageKit):
    def test_first_paint(self):
        paints = []
        for _ in range(5):
            page = self.open()
            paints.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
            page.close()
        print("first paint: %s ms" % ", ".join("%.0f" % p for p in paints))
        self.assertLess(min(paints), 500)

    def test_send_and_stream(self):
        self.set(max_tokens=60, ban_eos_token=True)
        self.page.evaluate("""window.lengths = new Set(); new MutationObserver(() => window.lengths.add(
            document.querySelector('.message.assistant .prose:not(.small-prose)')?.textContent.length ?? 0))
            .observe(document.getElementById('thread'), {subtree: true, childList: true, characterData: true})""")
        self.say("Once upon a time")
        self.done()
        self.assertGreater(self.page.evaluate("window.lengths.size"), 3, "the text must grow piece by piece")
        self.assertEqual(self.page.locator(".message.user .bubble").inner_text(), "Once upon a time")
        self.assertGreater(len(self.answer()), 60)
        figures = self.last().locator(".figures").inner_text()
        self.assertIn("60 tokens", figures)
        self.assertRegex(figures, r"[\d.,]+ per second")
        self.assertIn("cut off by the limit", figures)
        self.assertRegex(self.page.inner_text("#context"), r"^[\d,]+ of [\d,]+ tokens$")
        self.assertEqual(self.page.inner_text("#title"), "Once upon a time")
        self.assertEqual(self.asked()["messages"], [{"role": "user", "content": "Once upon a time"}])

    def test_stop_frees_the_job(self):
        self.set(max_tokens=1900, ban_eos_token=True, loop_detect_window=0)
        for how in ("key", "button"):
            self.say("Tell me a very long story")
            wait_until(lambda: any(j["generated"] > 3 for j in self.jobs()), 60)
            if how == "key":
                self.page.press("#prompt", "Escape")
            else:
                self.page.click("#send[aria-label=Stop]")
            wait_until(lambda: not self.jobs(), 10)
            self.done()
            self.assertIn("stopped by you", self.last().locator(".figures").inner_text())
            self.assertGreater(len(self.answer()), 3)

    def test_leaving_the_page_frees_the_job_and_keeps_what_was_said(self):
        self.set(max_tokens=1900, ban_eos_token=True, loop_detect_window=0)
        self.say("Tell me a very long story")
        wait_until(lambda: any(j["generated"] > 30 for j in self.jobs()), 60)
        self.page.wait_for_timeout(1500)
        self.page.reload()
        wait_until(lambda: not self.jobs(), 10)
        self.page.wait_for_selector(".message.assistant")
        self.assertGreater(len(self.answer()), 10)
        self.assertIn("the page was closed meanwhile", self.last().locator(".figures").inner_text())

    def test_go_on(self):
        self.set(max_tokens=8, ban_eos_token=True, temperature=0)
        self.say("Once upon a time")
        self.done()
        before = self.answer()
        self.last().locator("[data-act=goOn]").click()
        self.done()
        self.assertTrue(self.answer().startswith(before) and len(self.answer()) > len(before))
        self.assertTrue(self.asked()["continue_final_message"])
        self.assertEqual(self.asked()["messages"][-1]["role"], "assistant")

    def test_retry_edit_and_branches(self):
        page = self.page
        self.play("first answer", question="one")
        self.play("follow-up", question="two")
        page.locator(".message.assistant").first.hover()
        self.page.evaluate("window.script.push(['second answer'])")
        page.locator(".message.assistant").first.locator("[data-act=retry]").click()
        self.done()
        self.assertEqual(self.answer(), "second answer")
        self.assertEqual(page.locator(".message").count(), 2)
        self.assertEqual(self.last().locator(".place").inner_text(), "2 / 2")
        self.last().locator("[data-act=previous]").click()
        self.assertEqual(page.locator(".message").count(), 4, "what followed the first answer is there again")
        self.assertEqual(page.locator(".message.assistant .prose:not(.small-prose)").all_inner_texts(), ["first answer", "follow-up"])
        self.page.evaluate("window.script.push(['to the edited'])")
        page.locator(".message.user").first.hover()
        page.locator(".message.user").first.locator("[data-act=edit]").click()
        page.fill(".edit-box", "one, edited")
        page.press(".edit-box", "Control+Enter")
        self.done()
        self.assertEqual(self.asked()["messages"], [{"role": "user", "content": "one, edited"}])
        self.assertEqual(page.locator(".message.user .place").inner_text(), "2 / 2")
        page.locator(".message.user").hover()
        page.locator(".message.user [data-act=previous]").click()
        self.assertEqual(page.locator(".bubble").all_inner_texts(), ["one", "two"])

    def test_editing_an_answer_and_leaving_it(self):
        self.play("the answer")
        self.last().locator("[data-act=edit]").click()
        self.page.fill(".edit-box", "nonsense")
        self.page.press(".edit-box", "Escape")
        self.assertEqual(self.answer(), "the answer")
        self.last().locator("[data-act=edit]").click()
        self.page.fill(".edit-box", "my answer")
        self.page.press(".edit-box", "Control+Enter")
        self.page.wait_for_function("document.querySelector('.place').textContent === '2 / 2'")
        self.assertEqual(self.answer(), "my answer")
        self.play("next")
        self.assertEqual([m["content"] for m in self.asked()["messages"]], ["say it", "my answer", "say it"])

    def test_deleting_and_undo(self):
        self.play("a", question="one")
        self.play("b", question="two")
        self.page.locator(".message.user").last.hover()
        self.page.locator(".message.user").last.locator("[data-act=erase]").click()
        self.assertEqual(self.page.locator(".message").count(), 2)
        self.page.click(".toast button")
        self.page.wait_for_function("document.querySelectorAll('.message').length === 4")

    def test_several_conversations_and_reload(self):
        self.play("answer one", question="first talk")
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("n")
        self.play("answer two", question="second talk")
        titles = self.page.locator("#list .open-title")
        self.assertEqual(titles.all_inner_texts(), ["second talk", "first talk"])
        self.page.reload()
        self.page.wait_for_selector(".message.assistant")
        self.assertEqual(self.answer(), "answer two")
        self.page.get_by_role("button", name="first talk", exact=True).click()
        self.page.wait_for_function("document.querySelector('.bubble').textContent === 'first talk'")
        self.assertEqual(self.answer(), "answer one")
        self.page.reload()
        self.page.wait_for_selector(".message.assistant")
        self.assertEqual(self.answer(), "answer one")
        self.page.fill("#search", "second")
        self.assertEqual(titles.all_inner_texts(), ["second talk"])
        self.page.fill("#search", "")
        self.page.locator("#list .row").first.hover()
        self.page.get_by_role("button", name="Rename: second talk").click()
        self.page.fill(".rename", "a better name")
        self.page.press(".rename", "Enter")
        self.page.get_by_text("a better name").wait_for()
        self.page.locator("#list .row").first.hover()
        self.page.get_by_role("button", name="Delete: a better name").click()
        self.page.wait_for_function("document.querySelectorAll('#list .row').length === 1")
        self.page.click(".toast button")
        self.page.wait_for_function("document.querySelectorAll('#list .row').length === 2")

    def test_two_answers_at_once(self):
        self.set(max_tokens=1500, ban_eos_token=True, loop_detect_window=0)
        self.say("a long story")
        wait_until(lambda: len(self.jobs()) == 1, 30)
        self.page.press("#prompt", "Control+k")
        self.page.click("#new")
        self.say("another long story")
        wait_until(lambda: len(self.jobs()) == 2, 30)
        self.page.press("#prompt", "Escape")
        wait_until(lambda: len(self.jobs()) == 1, 30)
        self.page.get_by_role("button", name="a long story", exact=True).click()
        self.page.wait_for_selector("#send.is-stop")
        self.page.click("#send")
        wait_until(lambda: not self.jobs(), 30)

    def test_another_tab_hears_of_it(self):
        other = self.open()
        self.play("hello", question="from the first tab")
        other.wait_for_selector("#list .open-title")
        self.assertEqual(other.inner_text("#list .open-title"), "from the first tab")

    def test_export_and_import(self):
        self.play("answer", question="a question to keep")
        self.page.evaluate("window.script.push(['another answer'])")
        self.last().locator("[data-act=retry]").click()
        self.done()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Export all conversations").click()
        path = os.path.join(self.server.folder, "export.json")
        download.value.save_as(path)
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual([m["text"] for m in told["conversations"][0]["messages"]], ["a question to keep", "answer", "another answer"])
        page = self.open(viewport={"width": 1100, "height": 700})
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Import conversations").click()
        chooser.value.set_files(path)
        page.get_by_text("1 conversation imported").wait_for()
        page.get_by_role("button", name="a question to keep", exact=True).click()
        page.wait_for_selector(".message.assistant")
        self.assertEqual(page.inner_text(".place >> visible=true"), "2 / 2")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"format":"quipu-chat","version":1,"conversations":[{"messages":[{"id":"a","role":"system"}]}]}')
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Import conversations").click()
        chooser.value.set_files(path)
        page.get_by_text("conversation 1, message 1: role is neither user nor assistant").wait_for()
        page.context.close()


class Settings(PageKit):
    def open_settings(self):
        self.page.click("#settings")
        self.page.wait_for_selector("dialog .group")
        self.page.evaluate("document.querySelectorAll('dialog details').forEach(d => d.open = true)")

    def test_settings_reach_the_request(self):
        self.open_settings()
        self.page.fill("#system", "Speak like a pirate.")
        self.page.fill("#set-temperature", "0.35")
        self.page.fill("#set-max_tokens", "7")
        self.page.fill("#set-stop", "THE END\n\\n\\n")
        self.page.fill("#set-banned_strings", "dragon")
        self.page.check("#set-ban_eos_token")
        self.page.select_option("#set-reasoning_effort", "low")
        self.page.locator("dialog .setting", has=self.page.locator("#set-top_p")).locator("input[type=range]").fill("0.5")
        self.page.keyboard.press("Escape")
        self.say("hello")
        self.done()
        asked = self.asked()
        expected = {"temperature": 0.35, "max_tokens": 7, "stop": ["THE END", "\n\n"], "banned_strings": ["dragon"], "ban_eos_token": True,
                    "reasoning_effort": "low", "top_p": 0.5}
        self.assertEqual({k: asked.get(k) for k in expected}, expected)
        self.assertEqual(set(asked) - set(expected), {"messages", "stream", "stream_options", "return_progress"})
        self.assertEqual(asked["messages"][0], {"role": "system", "content": "Speak like a pirate."})
        self.page.reload()
        self.page.wait_for_selector(".message")
        self.open_settings()
        self.assertEqual(self.page.input_value("#set-temperature"), "0.35")
        self.assertEqual(self.page.input_value("#set-stop"), "THE END\n\\n\\n")
        self.assertEqual(self.page.input_value("#system"), "Speak like a pirate.")
        self.page.get_by_role("button", name="Temperature: back to the server's own").click()
        self.page.get_by_role("button", name="Server's own nothing is sent").click()
        self.page.keyboard.press("Escape")
        self.play("x")
        self.assertEqual(set(self.asked()), {"messages", "stream", "stream_options", "return_progress"})

    def test_what_the_server_would_refuse_is_not_taken(self):
        self.open_settings()
        for wrong, words in (("11", "The most is 10."), ("-1", "The least is 0."), ("warm", "not a number")):
            self.page.fill("#set-temperature", wrong)
            self.page.get_by_text(words).wait_for()
            self.assertEqual(self.page.get_attribute("#set-temperature", "aria-invalid"), "true")
        self.page.fill("#set-top_k", "1.5")
        self.page.get_by_text("must be a whole number").wait_for()
        self.page.keyboard.press("Escape")
        self.play("x")
        self.assertNotIn("temperature", self.asked())
        self.assertNotIn("top_k", self.asked())

    def test_every_sampler_of_the_server_is_explained(self):
        """The page has words for each number and switch that the server takes, and none that it does not take."""
        properties = self.server.json("GET", "/openapi.json")["components"]["schemas"]["ChatRequest"]["properties"]
        with open("web/src/samplers.ts", encoding="utf-8") as file:
            not_shown = set(re.findall(r'"(\w+)"', file.read().split("NOT_SHOWN = ", 1)[1]))
        wanted = {name for name, p in properties.items() if p.get("type") in ("number", "integer", "boolean")
                  and not p.get("deprecated") and not p.get("x-unsupported")} - not_shown
        self.open_settings()
        shown = set(self.page.locator("dialog .setting-head code").all_inner_texts())
        self.assertEqual(wanted - shown, {"max_tokens"} & (wanted - shown))
        self.assertIn("max_tokens", shown)
        self.assertLessEqual(shown, set(properties))
        for part in self.page.locator("dialog details .setting").all():
            self.assertGreater(len(part.locator("p.quiet").inner_text()), 25)

    def test_a_refused_setting_is_told_in_words(self):
        self.allowed = "400"
        self.set(temperature=99)
        self.say("hello")
        self.done()
        fault = self.last().locator(".fault")
        self.assertIn("temperature", fault.inner_text())
        fault.get_by_role("button", name="Open the settings").click()
        self.page.wait_for_selector("dialog .group")


TEXT = """# A title

Some *soft* and **strong** words, `code`, a [link](https://example.org/x) and https://example.com too.

| left | right |
|:-----|------:|
| a    | 1     |

1. one
   - inner
2. two

> a quote
> goes on

```python
def f(x):
    return "text" + str(x)  # note
```

Last words.[^1] See [the reference].

[the reference]: https://example.net/late
"""

ATTACKS = """<script>window.hacked=1</script> <img src=x onerror="window.hacked=2"> <svg onload="window.hacked=3"></svg>

[a](javascript:window.hacked=4) [b](vbscript:x) [c](data:text/html,<script>window.hacked=5</script>) <javascript:window.hacked=6>

![x](https://evil.example/pixel.png) ![y](javascript:window.hacked=7) ![z](data:image/png;base64,AA== "onerror=window.hacked=8")

```html" onmouseover="window.hacked=9
<script>window.hacked=10</script><style>*{display:none}</style>
```

| <img src=x onerror=window.hacked=11> | <b onclick=window.hacked=12>x</b> |
|---|---|
| <iframe srcdoc="<script>parent.hacked=13</script>"></iframe> | <math><mtext></mtext><mglyph><style><img src onerror=window.hacked=14></style></mglyph></math> |

<form action=https://evil.example><input name=attributes><button formaction=javascript:window.hacked=15>x</button></form>
<a href="&#106;avascript:window.hacked=16">x</a> <base href=https://evil.example/> <template><img src=x onerror=window.hacked=17></template>
<details open ontoggle=window.hacked=18> [x](https://e.example/"onmouseover="window.hacked=19) &lt;img src=x onerror=window.hacked=20&gt;
"""


class Drawing(PageKit):
    def html(self):
        return self.page.evaluate("document.querySelector('.message.assistant:last-child .prose:not(.small-prose)').innerHTML")

    def test_markdown_while_it_streams(self):
        """Piece by piece it becomes the same as at once, and finished blocks are left alone."""
        self.play(TEXT, question="whole")
        whole = self.html()
        for tag in ("<h1>", "<em>", "<strong>", "<table>", 'class="right"', "<ol>", "<blockquote>", "hljs-keyword", "hljs-comment",
                    'href="https://example.net/late"', 'rel="noopener noreferrer"'):
            self.assertIn(tag, whole)
        self.page.evaluate("p => window.script.push(p)", [TEXT[i:i + 3] for i in range(0, len(TEXT), 3)])
        self.say("in pieces")
        self.page.wait_for_selector(".message.assistant:last-child table")
        self.page.evaluate("window.title = document.querySelector('.message.assistant:last-child h1')")
        self.done()
        self.assertEqual(self.html(), whole)
        self.assertTrue(self.page.evaluate("window.title === document.querySelector('.message.assistant:last-child h1')"),
                        "the title must not be made anew")
        self.page.reload()
        self.page.wait_for_selector(".message.assistant")
        self.assertEqual(self.html(), whole)

    def test_copying_code(self):
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.play("```js\nlet a = '<b>';\n```")
        self.page.click(".code [data-copy]")
        self.page.get_by_text("Copied.").wait_for()
        self.assertEqual(self.page.evaluate("navigator.clipboard.readText()"), "let a = '<b>';\n")

    def test_thoughts_are_folded(self):
        self.page.evaluate("p => window.script.push(p)", [{"reasoning_content": "let me *see*"}] * 5 + ["the answer"])
        self.say("think")
        self.done()
        fold = self.last().locator("details.thought")
        self.assertIsNone(fold.get_attribute("open"))
        self.assertRegex(fold.locator("summary").inner_text(), r"^Thought for ")
        self.assertEqual(self.answer(), "the answer")
        fold.locator("summary").click()
        fold.locator("em").first.wait_for()
        self.play("x")
        self.assertEqual(self.asked()["messages"][1], {"role": "assistant", "content": "the answer", "reasoning_content": "let me *see*" * 5})

    def check_harmless(self, page=None):
        page = page or self.page
        page.wait_for_timeout(300)
        self.assertEqual(page.evaluate("window.hacked"), 0)
        self.assertEqual(page.evaluate("window.violations"), [], "the policy is a second wall, nothing may come so far")
        bad = page.evaluate("""[...document.querySelectorAll('#thread *, #list *')].filter(e =>
            /^(script|img|iframe|style|form:not(.edit)|base|math|object|embed|template|input)$/i.test(e.localName) ||
            [...e.attributes].some(a => /^on|^style$|^srcdoc$|^formaction$/i.test(a.name) ||
                (/^(href|src)$/.test(a.name) && !/^(https?|mailto):/i.test(a.value)))).map(e => e.outerHTML.slice(0, 200))""")
        self.assertEqual(bad, [])

    def test_attacks_in_a_model_s_text(self):
        self.play(ATTACKS)
        self.check_harmless()
        self.play(*ATTACKS)
        self.check_harmless()
        self.play({"reasoning_content": ATTACKS}, "x")
        self.last().locator("summary").click()
        self.check_harmless()
        for link in self.page.locator("#thread a").all():
            self.assertRegex(link.get_attribute("href") or "https:", "^(https?|mailto):")

    def test_attacks_in_a_prompt(self):
        self.play("fine", question=ATTACKS)
        self.assertEqual(self.page.locator(".bubble").inner_text().strip(), ATTACKS.strip())
        self.check_harmless()
        self.page.reload()
        self.page.wait_for_selector(".bubble")
        self.check_harmless()

    def test_attacks_in_a_file(self):
        evil = "<img src=x onerror=window.hacked=1>"
        file = {"format": "quipu-chat", "version": 1, "conversations": [
            {"id": evil, "title": evil, "system": evil, "chosen": {"root": "a", "__proto__": {"x": 1}}, "messages": [
                {"id": "a", "role": "user", "text": ATTACKS}, {"id": "b", "parent": "a", "role": "assistant", "text": ATTACKS,
                 "reasoning": ATTACKS, "model": evil, "ending": evil, "figures": {"tokens": evil, "perSecond": evil},
                 "fault": {"status": 400, "message": evil, "code": evil}}]}]}
        path = os.path.join(self.server.folder, "evil.json")
        with open(path, "w", encoding="utf-8") as out:
            json.dump(file, out)
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_role("button", name="Import conversations").click()
        chooser.value.set_files(path)
        self.page.get_by_text("1 conversation imported").wait_for()
        self.page.locator("#list .open").click()
        self.page.wait_for_selector(".message.assistant")
        self.check_harmless()
        self.page.click("#settings")
        self.page.wait_for_selector("#system")
        self.assertEqual(self.page.input_value("#system"), evil)
        self.assertEqual(self.page.evaluate("window.hacked"), 0)


# Text whose contrast to what is behind it is under 4.5 to 1 (3 to 1 where it is large).
FAINT = """() => {
    const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return [m[0], m[1], m[2], m[3] ?? 1]; };
    const light = c => { const f = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
                         return .2126 * f(c[0]) + .7152 * f(c[1]) + .0722 * f(c[2]); };
    const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > .9) return c; }
                          return [255, 255, 255, 1]; };
    const faint = [];
    for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.nodeValue.trim());
        if (!own || !e.checkVisibility({opacityProperty: true, visibilityProperty: true}) || e.closest('[disabled], .unseen, .skip, [inert], script')) continue;
        const style = getComputedStyle(e), a = light(parse(style.color)), b = light(behind(e));
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), large = parseFloat(style.fontSize) >= 24;
        if (ratio < (large ? 3 : 4.5)) faint.push([e.className || e.localName, e.textContent.slice(0, 30), ratio.toFixed(2)]);
    }
    return faint;
}"""
NAMELESS = """() => [...document.querySelectorAll('button, input, textarea, select, a[href], summary')].filter(e => e.checkVisibility() &&
    !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML.slice(0, 120))"""


class Looks(PageKit):
    def background(self, page):
        return page.evaluate("getComputedStyle(document.body).backgroundColor")

    def test_dark_and_light(self):
        light = self.background(self.page)
        self.page.emulate_media(color_scheme="dark")
        dark = self.background(self.page)
        self.assertNotEqual(light, dark)
        self.page.locator("#theme").click()
        self.assertEqual(self.background(self.page), light, "light is chosen")
        self.page.locator("#theme").click()
        self.page.emulate_media(color_scheme="light")
        self.assertEqual(self.background(self.page), dark, "dark is chosen")
        self.page.reload()
        self.assertEqual(self.background(self.page), dark, "and kept")

    def test_contrast_and_names(self):
        self.play(TEXT)
        self.play({"reasoning_content": "hm"}, "x")
        for scheme in ("light", "dark"):
            self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            for view in ("chat", "settings", "model", "help", "activity"):
                if view == "activity":
                    self.page.evaluate("location.hash = '#/activity'")
                    self.page.wait_for_selector(".tile")
                elif view == "help":
                    self.page.get_by_role("button", name="Keys and help").click()
                elif view != "chat":
                    self.page.click("#" + view)
                    self.page.wait_for_selector("dialog .stack > *")
                self.page.wait_for_timeout(250)
                self.page.evaluate("document.querySelectorAll('dialog details').forEach(d => d.open = true)")
                self.assertEqual(self.page.evaluate(FAINT), [], (scheme, view))
                self.assertEqual(self.page.evaluate(NAMELESS), [], (scheme, view))
                if view not in ("chat", "activity"):
                    self.page.keyboard.press("Escape")
            self.page.evaluate("history.back()")
            self.page.wait_for_selector(".message.assistant")

    def test_phone(self):
        page = self.open(viewport={"width": 360, "height": 720}, has_touch=True, is_mobile=True)
        wide = "document.documentElement.scrollWidth > 360 || [...document.querySelectorAll('.scroll, .activity, .dialog-body')].some(" \
               "e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)"
        self.assertFalse(page.evaluate(wide), "the start")
        self.assertFalse(page.locator("#sidebar").is_visible())
        page.evaluate("p => window.script.push(p)", [TEXT + "\n```\n" + "x" * 300 + "\n```\n" + "y" * 300])
        page.fill("#prompt", "hello " + "z" * 200)
        page.click("#send")
        self.done(page)
        self.assertFalse(page.evaluate(wide), "a conversation")
        self.assertGreaterEqual(page.locator("#send").bounding_box()["height"], 40)
        page.click("#settings")
        page.wait_for_selector("dialog .group")
        page.evaluate("document.querySelectorAll('dialog details').forEach(d => d.open = true)")
        self.assertFalse(page.evaluate(wide), "the settings")
        page.locator("dialog .close").click()
        page.click("#show-sidebar")
        page.wait_for_selector("#sidebar >> visible=true")
        self.assertTrue(page.evaluate("document.querySelector('.stage').inert"))
        page.get_by_role("button", name="Activity of the server").click()
        page.wait_for_selector(".tile")
        self.assertFalse(page.locator("#sidebar").is_visible())
        self.assertFalse(page.evaluate(wide), "the activity")
        page.context.close()

    def test_keyboard_alone(self):
        """A whole visit without the mouse."""
        page, keys = self.page, self.page.keyboard
        self.page.evaluate("window.script.push(['one'], ['two'], ['three'])")
        keys.type("a question")
        keys.press("Enter")
        self.done()
        keys.press("Escape")
        keys.press("r")
        self.done()
        self.assertEqual(self.answer(), "two")
        keys.press("[")
        self.assertEqual(self.answer(), "one")
        keys.press("Escape")
        keys.press("e")
        keys.type(", edited")
        keys.press("Control+Enter")
        self.done()
        self.assertEqual(self.asked()["messages"][0]["content"], "a question, edited")
        for key, title in (("s", "Settings"), ("m", "Model"), ("?", "Keys and help")):
            page.evaluate("document.activeElement.blur()")
            keys.press(key)
            page.wait_for_selector("dialog[aria-label='%s']" % title)
            keys.press("Tab")
            self.assertTrue(page.evaluate("!!document.activeElement.closest('dialog')"))
            keys.press("Escape")
            page.wait_for_selector("dialog", state="detached")
        page.evaluate("document.activeElement.blur()")
        keys.press("j")
        page.wait_for_selector(".tile")
        keys.press("j")
        page.wait_for_selector(".message.assistant")
        keys.press("n")
        page.wait_for_selector(".card")
        self.assertEqual(page.evaluate("document.activeElement.id"), "prompt")
        keys.press("Control+k")
        self.assertEqual(page.evaluate("document.activeElement.id"), "search")
        keys.type("question")
        keys.press("Tab")
        keys.press("Enter")
        page.wait_for_selector(".message.assistant")
        self.assertEqual(self.answer(), "three")
        for _ in range(60):
            keys.press("Tab")
            self.assertTrue(page.evaluate("""document.activeElement === document.body ||
                getComputedStyle(document.activeElement).outlineStyle !== 'none' || !!document.activeElement.closest('.box')"""),
                            "the focus must be seen on " + page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))

    def test_single_keys_can_be_switched_off(self):
        self.page.click("#settings")
        self.page.locator("#single-keys").uncheck()
        self.page.keyboard.press("Escape")
        self.page.evaluate("document.activeElement.blur()")
        self.page.keyboard.press("?")
        self.assertEqual(self.page.locator("dialog").count(), 0)


class Running(PageKit):
    def test_activity(self):
        self.set(max_tokens=1900, ban_eos_token=True, loop_detect_window=0)
        self.say("Tell me a very long story")
        wait_until(lambda: self.jobs(), 30)
        self.page.evaluate("location.hash = '#/activity'")
        self.page.wait_for_selector(".activity tbody tr")
        self.page.get_by_role("button", name=re.compile("^Cancel job")).click()
        wait_until(lambda: not self.jobs(), 10)
        self.page.get_by_text("No jobs now.").wait_for()
        self.page.wait_for_function("/^0 of \\d+ pages$/.test([...document.querySelectorAll('.tile strong')].pop().textContent)")
        written = self.page.locator(".tile").nth(1).inner_text()
        self.assertRegex(written, r"[\d,]+ since the start")

    def test_model(self):
        self.page.wait_for_selector("#model-dot[data-state=ready]")
        self.page.click("#model")
        self.page.wait_for_selector("dialog .facts")
        text = self.page.inner_text("dialog")
        for words in ("demo", "million", "2,048 tokens", "There are no other models"):
            self.assertIn(words, text)

    def test_errors_in_words(self):
        self.allowed = "503"
        self.page.evaluate("window.script.push({status: 503, code: 'model_loading', message: 'the model is being loaded'}, ['there'])")
        self.say("hello")
        self.done()
        self.assertIn("The model is still loading", self.last().inner_text())
        self.last().get_by_role("button", name="Try again").click()
        self.done()
        self.assertEqual(self.answer(), "there")
        self.assertEqual(self.page.locator(".message").count(), 2, "the attempt that failed is gone")

    def test_server_that_went_away(self):
        self.allowed = "ERR_|Failed to load"
        self.page.route("**/v1/**", lambda route: route.abort())
        self.say("hello")
        self.done()
        self.assertIn("The server is not there", self.last().inner_text())


class Keys(PageKit):
    auth = True

    def setUp(self):
        super().setUp()
        self.allowed = "401|403"

    def test_key_is_asked_once(self):
        self.assertEqual(self.errors, [], "asking for the key is no error")
        dialog = self.page.locator("dialog")
        dialog.wait_for()
        self.page.fill("#key", "wrong")
        self.page.press("#key", "Enter")
        self.page.get_by_text("does not know this key").wait_for()
        self.page.fill("#key", API)
        self.page.press("#key", "Enter")
        self.page.wait_for_selector("#model-dot[data-state=ready]")
        self.set(max_tokens=4)
        self.say("hello")
        self.done()
        self.assertGreater(len(self.answer()), 1)
        self.page.reload()
        self.page.wait_for_selector("#model-dot[data-state=ready]")
        self.assertEqual(dialog.count(), 0)

    def test_admin_key(self):
        self.page.fill("#key", API)
        self.page.press("#key", "Enter")
        self.page.wait_for_selector("#model-dot[data-state=ready]")
        self.page.evaluate("location.hash = '#/activity'")
        self.page.get_by_text("You see the jobs of your own key").wait_for()
        self.page.get_by_role("button", name="Enter the key").click()
        self.page.fill("#key", API)
        self.page.press("#key", "Enter")
        self.page.get_by_text("here the admin key is needed").wait_for()
        self.page.fill("#key", ADMIN)
        self.page.press("#key", "Enter")
        self.page.get_by_text("You see the jobs of your own key").wait_for(state="hidden")
        self.page.click("#settings")
        self.page.get_by_role("button", name="Forget the keys").click()
        self.assertEqual(self.page.evaluate("[localStorage['quipu.key'], localStorage['quipu.admin']]"), [None, None])

    def test_key_that_is_no_longer_good(self):
        self.page.fill("#key", API)
        self.page.press("#key", "Enter")
        self.page.wait_for_selector("#model-dot[data-state=ready]")
        self.page.evaluate("localStorage.setItem('quipu.key', 'old')")
        self.say("hello")
        self.done()
        self.assertIn("The server wants a key", self.last().inner_text())
        self.last().get_by_role("button", name="Enter the key").click()
        self.page.fill("#key", API)
        self.set(max_tokens=4)
        self.page.press("#key", "Enter")
        self.page.wait_for_function("document.querySelector('.message.assistant .prose:not(.small-prose)')?.textContent.length > 1")
        self.done()


def main():
    server = Server(os.path.abspath(sys.argv[1]), "--no-model", auth=False, model=None)
    told = json.loads(server.get("/", None)[2])
    server.close()
    if "without the chat page" in told["page"]:
        skip("the program was built without the chat page")
    if not CHROMIUM:
        skip("chromium is not installed")
    find_playwright()
    run(globals())


if __name__ == "__main__":
    main()
