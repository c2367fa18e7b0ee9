"""What the tests of the chat page share: a browser, a page with a stand-in for the model, waiting.

Playwright comes from PyPI into the folder of the build (or is in QUIPU_CLIENTS), the browser is Debian's chromium;
where one cannot be had the test is skipped and says so. What a model would hardly say by itself (markdown, thoughts,
attacks) is fed to the page by a stand-in for fetch that streams piece by piece."""
import json
import os
import re
import shutil
import sys
import unittest

from server_kit import ADMIN, Server, run, wait_until
from venv_kit import build_folder, python_with

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SLOW = 60000  # ms that anything may take on a busy machine

# Answers to /v1/chat/completions out of window.script: a list of lists of pieces (strings: text; objects: deltas).
STAND_IN = """
window.script = []; window.asked = []; window.hacked = 0; window.violations = [];
document.addEventListener("securitypolicyviolation",
    e => window.violations.push(e.violatedDirective + " " + e.blockedURI));
const real = window.fetch;
window.fetch = async (path, options = {}) => {
    if (path === "/v1/chat/completions") window.asked.push(JSON.parse(options.body));
    if (path !== "/v1/chat/completions" || !window.script.length) return real(path, options);
    const pieces = window.script.shift();
    if (pieces.status) return new Response(JSON.stringify({error: pieces}), {status: pieces.status});
    const encoder = new TextEncoder();
    const chunk = choice => ({model: "stand-in", choices: [choice], usage: null});
    const event = choice => encoder.encode("data: " + JSON.stringify(chunk(choice)) + "\\n\\n");
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
    folder = os.environ.get("QUIPU_CLIENTS") or os.path.join(build_folder(sys.argv[1]), "clients")
    python = python_with(folder, ["playwright"])
    if not python:
        skip("playwright cannot be installed")
    if os.path.abspath(sys.executable) == os.path.abspath(python):
        skip("playwright does not work here")
    os.execv(python, [python] + sys.argv)


class Shared:
    """One browser, and a server with keys and one without, for all classes of a file: starting them takes longer than
    most tests."""

    def __init__(self):
        self.playwright = self.browser = None
        self.servers = {}

    def start_browser(self):
        from playwright.sync_api import sync_playwright  # pylint: disable=import-outside-toplevel

        if not self.browser:
            self.playwright = sync_playwright().start()
            self.browser = self.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        return self.browser

    def server(self, auth):
        if auth not in self.servers:
            # a thread leaves cores to the browser, which paints without a GPU; there is room for answers that last
            # until they are stopped, however fast the machine
            self.servers[auth] = Server(os.path.abspath(sys.argv[1]), "--threads", "1", "--max-seq-len", "16384",
                                        "--context", "32768", auth=auth)
        return self.servers[auth]

    def close(self):
        if self.browser:
            self.browser.close()
            self.playwright.stop()
        ended = [server.end() for server in self.servers.values()]
        for server in self.servers.values():
            server.close()
        if any(ended):
            raise AssertionError("the servers ended with %s" % ended)


SHARED = Shared()


class PageKit(unittest.TestCase):
    """A new profile of the browser for each test."""

    auth = False

    @classmethod
    def setUpClass(cls):
        cls.server = SHARED.server(cls.auth)
        cls.url = "http://127.0.0.1:%d/" % cls.server.port
        cls.browser = SHARED.start_browser()

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

    def until(self, condition):
        """Waits for an expression in the page (its policy forbids what Playwright does for this)."""
        wait_until(lambda: self.page.evaluate(condition), SLOW / 1000, 0.02)

    def has_messages(self, n):
        self.until("document.querySelectorAll('.message').length === %d" % n)

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


def main(module_globals):
    server = Server(os.path.abspath(sys.argv[1]), "--no-model", auth=False, model=None)
    told = json.loads(server.get("/", None)[2])
    server.close()
    if "without the chat page" in told["page"]:
        skip("the program was built without the chat page")
    if not CHROMIUM:
        skip("chromium is not installed")
    find_playwright()
    try:
        run(module_globals)
    finally:
        SHARED.close()
