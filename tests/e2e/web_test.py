#!/usr/bin/env python3
"""The chat page in a real browser against the real server and the demo model: what it is sent as, talking, stopping,
branches, conversations that are kept, settings, keys, jobs.

usage: web_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import gzip
import json
import os
import re
import unittest

from server_kit import ADMIN, API, wait_until
from web_kit import SHARED, PageKit, main

PROGRAM = ""
LIMIT = 200000  # gzipped bytes of the page
LONG = 15000  # tokens of an answer that is stopped before its end


class Serving(unittest.TestCase):
    """GET / as bytes."""

    server = property(lambda self: SHARED.server(False))

    def test_page(self):
        browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8", "Accept-Encoding": "gzip, deflate, br"}
        status, headers, packed = self.server.get("/", None, browser)
        self.assertEqual((status, headers["Content-Encoding"]), (200, "gzip"))
        self.assertEqual(headers["Content-Type"], "text/html; charset=utf-8")
        self.assertLessEqual(len(packed), LIMIT)
        plain = self.server.get("/", None, {"Accept": "text/html"})
        self.assertIsNone(plain[1]["Content-Encoding"])
        self.assertEqual(gzip.decompress(packed), plain[2])
        self.assertEqual(
            self.server.get("/", None, {"Accept": "text/html", "Accept-Encoding": "gzip;q=0"})[2], plain[2]
        )
        self.assertEqual(int(plain[1]["Content-Length"]), len(plain[2]))
        self.assertIn("Accept-Encoding", headers["Vary"])
        text = plain[2].decode()
        self.assertEqual(re.findall(r"""(?:src|href)=["']?(?:https?:)?//[^"' >]+""", text), [])
        self.assertNotIn("{{", re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.S))

    def test_policy(self):
        policy = self.server.get("/", None, {"Accept": "text/html"})[1]["Content-Security-Policy"]
        for part in (
            "default-src 'none'",
            "connect-src 'self'",
            "img-src data:",
            "frame-ancestors 'none'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        ):
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
        for words in (
            "Vitaly Puzrin",
            "Ivan Sagalaev",
            "Mario Heiderich",
            "Permission is hereby granted",
            "Redistribution and use in source and binary forms",
            "Apache License",
        ):
            self.assertIn(words, text)


class Chatting(PageKit):
    def test_first_paint(self):
        paints = []
        for _ in range(5):
            page = self.open()
            first = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            paints.append(page.wait_for_function(first).json_value())  # it is told some time after it happened
            page.close()
        print("first paint: %s ms" % ", ".join("%.0f" % p for p in paints))
        self.assertLess(min(paints), 500)

    def test_send_and_stream(self):
        self.set(max_tokens=1600, ban_eos_token=True, loop_detect_window=0)
        self.page.evaluate("""window.lengths = new Set(); new MutationObserver(() => window.lengths.add(
            document.querySelector('.message.assistant .prose:not(.small-prose)')?.textContent.length ?? 0))
            .observe(document.getElementById('thread'), {subtree: true, childList: true, characterData: true})""")
        self.say("Once upon a time")
        self.done()
        self.assertGreater(self.page.evaluate("window.lengths.size"), 3, "the text must grow piece by piece")
        self.assertEqual(self.page.locator(".message.user .bubble").inner_text(), "Once upon a time")
        self.assertGreater(len(self.answer()), 60)
        figures = self.last().locator(".figures").inner_text()
        self.assertIn("1,600 tokens", figures)
        self.assertRegex(figures, r"[\d.,]+ per second")
        self.assertIn("cut off by the limit", figures)
        self.assertRegex(self.page.inner_text("#context"), r"^[\d,]+ of [\d,]+ tokens$")
        self.assertEqual(self.page.inner_text("#title"), "Once upon a time")
        self.assertEqual(self.asked()["messages"], [{"role": "user", "content": "Once upon a time"}])

    def test_stop_frees_the_job(self):
        self.set(max_tokens=LONG, ban_eos_token=True, loop_detect_window=0)
        for how in ("key", "button"):
            self.say("Tell me a very long story")
            wait_until(self.jobs, 60)
            wait_until(lambda: len(self.answer()) > 3, 60)
            if how == "key":
                self.page.press("#prompt", "Escape")
            else:
                self.page.click("#send[aria-label=Stop]")
            wait_until(lambda: not self.jobs(), 10)
            self.done()
            self.assertIn("stopped by you", self.last().locator(".figures").inner_text())
            self.assertGreater(len(self.answer()), 3)

    def test_leaving_the_page_frees_the_job_and_keeps_what_was_said(self):
        self.set(max_tokens=LONG, ban_eos_token=True, loop_detect_window=0)
        self.say("Tell me a very long story")
        wait_until(lambda: len(self.answer()) > 10 and self.jobs(), 60)
        with self.server.halted():  # until the page has kept what was said: a fast one would have said it all by then
            self.page.wait_for_timeout(1500)
        self.page.reload()
        wait_until(lambda: not self.jobs(), 10)
        self.page.wait_for_selector(".message.assistant")
        self.assertGreater(len(self.answer()), 10)
        self.assertIn("left unfinished", self.last().locator(".figures").inner_text())

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
        self.has_messages(2)
        self.assertEqual(self.last().locator(".place").inner_text(), "2 / 2")
        self.last().locator("[data-act=previous]").click()
        self.has_messages(4)  # what followed the first answer is there again
        self.assertEqual(
            page.locator(".message.assistant .prose:not(.small-prose)").all_inner_texts(), ["first answer", "follow-up"]
        )
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
        self.has_messages(4)
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
        self.until("document.querySelector('.assistant .place').textContent === '2 / 2'")
        self.assertEqual(self.answer(), "my answer")
        self.play("next")
        self.assertEqual([m["content"] for m in self.asked()["messages"]], ["say it", "my answer", "say it"])

    def test_deleting_and_undo(self):
        self.play("a", question="one")
        self.play("b", question="two")
        self.page.locator(".message.user").last.hover()
        self.page.locator(".message.user").last.locator("[data-act=erase]").click()
        self.has_messages(2)
        self.page.click(".toast button")
        self.has_messages(4)

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
        self.until("document.querySelector('.bubble').textContent === 'first talk'")
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
        self.until("document.querySelectorAll('#list .row').length === 1")
        self.page.click(".toast button")
        self.until("document.querySelectorAll('#list .row').length === 2")

    def test_two_answers_at_once(self):
        self.set(max_tokens=LONG, ban_eos_token=True, loop_detect_window=0)
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
        self.assertEqual(
            [m["text"] for m in told["conversations"][0]["messages"]],
            ["a question to keep", "answer", "another answer"],
        )
        page = self.open(viewport={"width": 1100, "height": 700})
        with page.expect_file_chooser() as chooser:
            page.get_by_role("button", name="Import conversations").click()
        chooser.value.set_files(path)
        page.get_by_text("1 conversation imported").wait_for()
        page.get_by_role("button", name="a question to keep", exact=True).click()
        page.wait_for_selector(".message.assistant")
        self.assertEqual(page.inner_text(".place >> visible=true"), "2 / 2")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                '{"format":"quipu-chat","version":1,"conversations":[{"messages":[{"id":"a","role":"system"}]}]}'
            )
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
        self.page.locator("dialog .setting", has=self.page.locator("#set-top_p")).locator("input[type=range]").fill(
            "0.5"
        )
        self.page.keyboard.press("Escape")
        self.say("hello")
        self.done()
        asked = self.asked()
        expected = {
            "temperature": 0.35,
            "max_tokens": 7,
            "stop": ["THE END", "\n\n"],
            "banned_strings": ["dragon"],
            "ban_eos_token": True,
            "reasoning_effort": "low",
            "top_p": 0.5,
        }
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
        wanted = {
            name
            for name, p in properties.items()
            if p.get("type") in ("number", "integer", "boolean")
            and not p.get("deprecated")
            and not p.get("x-unsupported")
        } - not_shown
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


class Running(PageKit):
    def test_activity(self):
        self.set(max_tokens=LONG, ban_eos_token=True, loop_detect_window=0)
        self.say("Tell me a very long story")
        wait_until(lambda: self.jobs(), 30)
        self.page.evaluate("location.hash = '#/activity'")
        self.page.wait_for_selector(".activity tbody tr")
        self.page.get_by_role("button", name=re.compile("^Cancel job")).click()
        wait_until(lambda: not self.jobs(), 10)
        self.page.get_by_text("No jobs now.").wait_for()
        self.until("/^0 of \\d+$/.test([...document.querySelectorAll('.tile strong')].pop().textContent)")
        written = self.page.locator(".tile").nth(1).inner_text()
        self.assertRegex(written, r"[\d,]+ since the start")

    def test_model(self):
        self.page.wait_for_selector("#model-dot[data-state=ready]")
        self.page.click("#model")
        self.page.wait_for_selector("dialog .facts")
        text = self.page.inner_text("dialog")
        for words in ("demo", "million", "16,384 tokens", "There are no other models"):
            self.assertIn(words, text)

    def test_errors_in_words(self):
        self.allowed = "503"
        self.page.evaluate(
            "window.script.push({status: 503, code: 'model_loading', message: 'the model is being loaded'}, ['there'])"
        )
        self.say("hello")
        self.done()
        self.assertIn("The model is still loading", self.last().inner_text())
        self.last().get_by_role("button", name="Try again").click()
        self.done()
        self.assertEqual(self.answer(), "there")
        self.has_messages(2)  # the attempt that failed is gone

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
        self.until("document.querySelector('.message.assistant .prose:not(.small-prose)')?.textContent.length > 1")
        self.done()


if __name__ == "__main__":
    main(globals())
