#!/usr/bin/env python3
"""Makes the chat page: bundles web/ with esbuild into one HTML file and writes it as C, gzipped, for the program.

Called by CMake. markdown-it, highlight.js and DOMPurify come from Debian's node packages; their licences go into the
page, where its about box shows them. The policy that goes with the page names the hash of each script and style in it,
so that the browser runs these and nothing else. The output depends on the input alone, byte for byte.

usage: make_page.py ESBUILD PACKAGES OUT.c     PACKAGES: the folder with markdown-it and the others
"""

import base64
import gzip
import hashlib
import os
import pathlib
import re
import subprocess
import sys

WEB = pathlib.Path(__file__).resolve().parent.parent / "web"
LIMIT = 200000  # gzipped bytes; the tests hold the page to it
COMMON = pathlib.Path("/usr/share/common-licenses")
# package | which stanzas of its copyright file are about what is bundled | of several licences, ours
BUNDLED = [
    ("markdown-it", ["*", "mdurl/*", "linkify-it/*", "ucmicro/*"], "Expat"),
    ("highlight.js", ["*"], "BSD-3-clause"),
    ("dompurify", ["*"], "Apache-2.0"),
]


def bundle(esbuild, packages, entry, *options):
    """The text of one bundle."""
    command = [
        esbuild,
        str(WEB / entry),
        "--bundle",
        "--minify",
        "--charset=utf8",
        "--target=es2020,safari15",
        "--legal-comments=none",
        "--drop:console",  # highlight.js says at each start that its version is old
        "--log-level=warning",
        *options,
    ]
    ran = subprocess.run(command, env=dict(os.environ, NODE_PATH=packages), stdout=subprocess.PIPE, check=False)
    if ran.returncode != 0:
        sys.exit("make_page.py: esbuild failed on web/%s" % entry)
    # "<!--" would begin a comment inside the script element. It only occurs in strings and expressions, where the
    # escaped form means the same.
    text = ran.stdout.decode().strip().replace("<!--", "\\x3C!--")
    if re.search(r"</style" if entry.endswith(".css") else r"</script", text, re.I):
        sys.exit("make_page.py: web/%s would end the element that it stands in" % entry)
    return text


def mended_purify(packages, folder):
    """DOMPurify without a slip of Debian 12: there, a repair of CVE-2024-47875 took the place of the condition
    FORCE_BODY and names a variable of another function, so that every call throws. Other versions pass unchanged."""
    slip = "if (shadowNode.__depth >= MAX_NESTING_DEPTH || numberIsNaN(shadowNode.__depth)) {\n%s"
    text = (pathlib.Path(packages) / "dompurify/dist/purify.es.js").read_text(encoding="utf-8")
    out = folder / "purify.es.js"
    what = "      _forceRemove(body.firstChild)"
    out.write_text(text.replace(slip % what, "if (body && FORCE_BODY) {\n%s" % what), encoding="utf-8")
    return out


def stanzas(text):
    """A Debian copyright file as a list of {field: value}."""
    for block in re.split(r"\n\s*\n", text):
        fields, name = {}, None
        for line in block.splitlines():
            match = re.match(r"([A-Za-z-]+):\s*(.*)", line)
            if match:
                name = match.group(1)
                fields[name] = match.group(2)
            elif name:
                fields[name] += "\n" + ("" if line.strip() == "." else line.strip())
        yield fields


def notice(package, files, licence):
    """Who wrote what is bundled of a package, and under which terms."""
    path = pathlib.Path("/usr/share/doc/node-%s/copyright" % package)
    if not path.exists():
        return None
    all_of_them = list(stanzas(path.read_text(encoding="utf-8")))
    holders = [s["Copyright"] for s in all_of_them if s.get("Files") in files]
    terms = [
        s["License"].partition("\n")[2]
        for s in all_of_them
        if "Files" not in s and s.get("License", "").split("\n")[0] == licence
    ]
    text = terms[0] if terms else ""
    if str(COMMON) in text:
        text = (COMMON / licence).read_text(encoding="utf-8")
    if not holders or not text:
        return None
    return "%s\n\nCopyright %s\n\n%s" % (package, "\nCopyright ".join(h.strip() for h in holders), text.strip("\n"))


def notices():
    found = [notice(*row) for row in BUNDLED]
    if None in found:
        missing = [row[0] for row, text in zip(BUNDLED, found) if text is None]
        sys.exit("make_page.py: no licence text found for %s; it must be shown with the page" % ", ".join(missing))
    text = "\n\n\n".join(found)
    if re.search(r"</script|<!--", text, re.I):
        sys.exit("make_page.py: a licence would end the element that it stands in")
    return text


def digest(text):
    return "'sha256-%s'" % base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def policy(scripts, styles):
    return "; ".join(
        [
            "default-src 'none'",
            "script-src " + " ".join(map(digest, scripts)),
            "style-src " + " ".join(map(digest, styles)),
            "img-src data:",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types dompurify",
        ]
    )


def c_string(data):
    """Bytes as C string literals. Digits behind an octal escape of three digits are not part of it."""
    lines = []
    for at in range(0, len(data), 96):
        text = "".join(chr(c) if 32 <= c < 127 and c not in b'"\\?' else "\\%03o" % c for c in data[at : at + 96])
        lines.append('    "%s"' % text)
    return "\n".join(lines) or '    ""'


def main():
    esbuild, packages, out = sys.argv[1:]
    purify = mended_purify(packages, pathlib.Path(out).resolve().parent)
    script = bundle(
        esbuild,
        packages,
        "src/main.ts",
        "--format=iife",
        "--alias:dompurify=%s" % purify,
        "--alias:punycode=%s" % (WEB / "src/hosts.ts"),
    )
    early = bundle(esbuild, packages, "src/early.ts", "--format=iife")
    style = bundle(esbuild, packages, "style/page.css")
    page = (WEB / "index.html").read_text(encoding="utf-8")
    terms = notices()
    for mark, text in (("style", style), ("early", early), ("script", script), ("licences", terms)):
        if page.count("{{%s}}" % mark) != 1:
            sys.exit("make_page.py: web/index.html must have {{%s}} once" % mark)
        page = page.replace("{{%s}}" % mark, text)
    plain = page.encode()
    packed = gzip.compress(plain, 9, mtime=0)
    etag = '"%s"' % hashlib.sha256(plain).hexdigest()[:20]
    parts = ["/* Made by tools/make_page.py out of web/. */", '#include "server/page.h"', ""]
    parts += [
        "static const char plain[] =\n%s;" % c_string(plain),
        "static const char packed[] =\n%s;" % c_string(packed),
    ]
    parts += [
        "const page_file page_built = {{plain, sizeof plain - 1},\n                              "
        "{packed, sizeof packed - 1},\n%s,\n%s};"
        % (c_string(etag.encode()), c_string(policy([early, script], [style]).encode()))
    ]
    pathlib.Path(out).write_text("\n".join(parts) + "\n", encoding="utf-8")
    print("chat page: %.1f kB, %.1f kB gzipped (at most %.0f)" % (len(plain) / 1e3, len(packed) / 1e3, LIMIT / 1e3))


if __name__ == "__main__":
    main()
