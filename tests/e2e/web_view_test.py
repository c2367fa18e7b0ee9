#!/usr/bin/env python3
"""How the chat page draws and looks, in a real browser: markdown while it streams, attacks in texts and files, light
and dark, contrast, names, a phone, the keyboard alone.

usage: web_view_test.py PROGRAM FIXTURES [unittest options]     run from the root of the repository
"""
import json
import os

from web_kit import PageKit, main

PROGRAM = ""

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

[a](javascript:window.hacked=4) [b](vbscript:x) [c](data:text/html,<script>window.hacked=5</script>)
<javascript:window.hacked=6>

![x](https://evil.example/pixel.png) ![y](javascript:window.hacked=7)
![z](data:image/png;base64,AA== "onerror=window.hacked=8")

```html" onmouseover="window.hacked=9
<script>window.hacked=10</script><style>*{display:none}</style>
```

| <img src=x onerror=window.hacked=11> | <b onclick=window.hacked=12>x</b> |
|---|---|
| <iframe srcdoc="<script>parent.hacked=13</script>"></iframe> | x |

<math><mtext></mtext><mglyph><style><img src onerror=window.hacked=14></style></mglyph></math>

<form action=https://evil.example><input name=attributes><button formaction=javascript:window.hacked=15>x</button>
</form> <a href="&#106;avascript:window.hacked=16">x</a> <base href=https://evil.example/>
<template><img src=x onerror=window.hacked=17></template> <details open ontoggle=window.hacked=18>
[x](https://e.example/"onmouseover="window.hacked=19) &lt;img src=x onerror=window.hacked=20&gt;
"""


class Drawing(PageKit):
    def html(self):
        return self.page.evaluate(
            "document.querySelector('.message.assistant:last-child .prose:not(.small-prose)').innerHTML"
        )

    def test_markdown_while_it_streams(self):
        """Piece by piece it becomes the same as at once, and finished blocks are left alone."""
        self.play(TEXT, question="whole")
        whole = self.html()
        for tag in (
            "<h1>",
            "<em>",
            "<strong>",
            "<table>",
            'class="right"',
            "<ol>",
            "<blockquote>",
            "hljs-keyword",
            "hljs-comment",
            'href="https://example.net/late"',
            'rel="noopener noreferrer"',
        ):
            self.assertIn(tag, whole)
        self.page.evaluate("p => window.script.push(p)", [TEXT[i : i + 3] for i in range(0, len(TEXT), 3)])
        self.say("in pieces")
        self.page.wait_for_selector(".message.assistant:last-child table")
        self.page.evaluate("window.title = document.querySelector('.message.assistant:last-child h1')")
        self.done()
        self.assertEqual(self.html(), whole)
        self.assertTrue(
            self.page.evaluate("window.title === document.querySelector('.message.assistant:last-child h1')"),
            "the title must not be made anew",
        )
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
        self.assertEqual(
            self.asked()["messages"][1],
            {"role": "assistant", "content": "the answer", "reasoning_content": "let me *see*" * 5},
        )

    def check_harmless(self, page=None):
        page = page or self.page
        page.wait_for_timeout(300)
        self.assertEqual(page.evaluate("window.hacked"), 0)
        self.assertEqual(page.evaluate("window.violations"), [], "the policy is a second wall, nothing may come so far")
        bad = page.evaluate(
            """[...document.querySelectorAll('#thread *, #list *')].filter(e =>
            /^(script|img|iframe|style|form|base|math|object|embed|template|input)$/i.test(e.localName) ||
            [...e.attributes].some(a => /^on|^style$|^srcdoc$|^formaction$/i.test(a.name) ||
                (/^(href|src)$/.test(a.name) && !/^(https?|mailto):/i.test(a.value))))
            .map(e => e.outerHTML.slice(0, 200))"""
        )
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
        file = {
            "format": "quipu-chat",
            "version": 1,
            "conversations": [
                {
                    "id": evil,
                    "title": evil,
                    "system": evil,
                    "chosen": {"root": "a", "__proto__": {"x": 1}},
                    "messages": [
                        {"id": "a", "role": "user", "text": ATTACKS},
                        {
                            "id": "b",
                            "parent": "a",
                            "role": "assistant",
                            "text": ATTACKS,
                            "reasoning": ATTACKS,
                            "model": evil,
                            "ending": evil,
                            "figures": {"tokens": evil, "perSecond": evil},
                            "fault": {"status": 400, "message": evil, "code": evil},
                        },
                    ],
                }
            ],
        }
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
    const behind = e => {
        for (; e; e = e.parentElement) {
            const c = parse(getComputedStyle(e).backgroundColor);
            if (c[3] > .9) return c;
        }
        return [255, 255, 255, 1];
    };
    const faint = [];
    for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.nodeValue.trim());
        const isSeen = e.checkVisibility({opacityProperty: true, visibilityProperty: true});
        if (!own || !isSeen || e.closest('[disabled], .unseen, .skip, [inert], script')) continue;
        const style = getComputedStyle(e), a = light(parse(style.color)), b = light(behind(e));
        const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), large = parseFloat(style.fontSize) >= 24;
        if (ratio < (large ? 3 : 4.5)) faint.push([e.className, e.localName, e.textContent.slice(0, 30), ratio]);
    }
    return faint;
}"""
NAMELESS = """() => [...document.querySelectorAll('button, input, textarea, select, a[href], summary')]
    .filter(e => e.checkVisibility() && !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length))
    .map(e => e.outerHTML.slice(0, 120))"""


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
        wide = (
            "document.documentElement.scrollWidth > 360 || "
            "[...document.querySelectorAll('.scroll, .activity, .dialog-body')].some("
            "e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)"
        )
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
            self.assertTrue(
                page.evaluate(
                    """document.activeElement === document.body ||
                getComputedStyle(document.activeElement).outlineStyle !== 'none' ||
                !!document.activeElement.closest('.box')"""
                ),
                "the focus must be seen on " + page.evaluate("document.activeElement.outerHTML.slice(0, 80)"),
            )

    def test_single_keys_can_be_switched_off(self):
        self.page.click("#settings")
        self.page.locator("#single-keys").uncheck()
        self.page.keyboard.press("Escape")
        self.page.wait_for_selector("dialog", state="detached")
        self.page.evaluate("document.activeElement.blur()")
        self.page.keyboard.press("?")
        self.assertEqual(self.page.locator("dialog").count(), 0)


if __name__ == "__main__":
    main(globals())
