#!/usr/bin/env python3
"""Makes docs/api.md from include/quipu.h: the header is the reference, this is its readable form.

usage: make_api.py [--check]
--check writes nothing and ends with 1 if docs/api.md is not what the header says.

The header's shape is the format: `/* ---- title ---- */` begins a section, a comment at the left margin belongs to the
declarations after it, an empty line or the next such comment ends them."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER, PAGE = ROOT / "include/quipu.h", ROOT / "docs/api.md"
SECTION = re.compile(r"/\* -{4} (.+?) -{4,} \*/")
SHOWN = re.compile(r"^#define QP_(?!API)")
HIDDEN = re.compile(r"^(#|extern \"C\"|\}$)")  # what only the compiler needs
NAMES = (
    re.compile(r"^QP_API [^;(]*?\b(qp_\w+)\(", re.M),
    re.compile(r"^typedef (?:struct|enum|union) (qp_\w+)", re.M),
    re.compile(r"^typedef [^;{]*?\(\*?(qp_\w+)\)\(", re.M),
    re.compile(r"^#define (QP_[A-Z]\w*)", re.M),
    re.compile(r"^enum (?:qp_\w+ )?\{\s*(?:/\*.*?\*/\s*)?(QP_\w+)", re.M),
)


def prose(comment):
    """The words of a comment; what is indented by four or more is code, what begins with ' - ' a list."""
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in comment[2:-2].strip("\n").split("\n")]
    return re.sub(r"([^\n])\n( - )", r"\1\n\n\2", "\n".join(lines).strip(), count=1)


def blocks(text):
    """(comment, code) of each declaration or group of them."""
    code, comment, inside = [], "", None
    for line in text.split("\n") + [""]:
        if inside is not None:
            inside.append(line)
        elif line.startswith("/*"):
            yield comment, "\n".join(code)
            code, comment, inside = [], "", [line]
        elif not line.strip() and not open_brace(code):
            yield comment, "\n".join(code)
            code, comment = [], ""
        elif not HIDDEN.match(line) or open_brace(code) or SHOWN.match(line):
            code.append(re.sub(r" +\\$", " \\\\", line))
        if inside is not None and line.endswith("*/"):
            comment, inside = "\n".join(inside), None


def open_brace(code):
    return sum(line.count("{") - line.count("}") for line in code) > 0


def names(code):
    found = [(m.start(), m.group(1)) for pattern in NAMES for m in pattern.finditer(code)]
    return [name for _, name in sorted(found)]


def sections(text):
    parts = SECTION.split(text)
    yield "Overview", parts[0]
    yield from zip(parts[1::2], parts[2::2])


def anchor(title):
    return re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-")


def render(text):
    page, contents = [], []
    for title, body in sections(text):
        title = title[0].upper() + title[1:]
        found = []
        page.append(f"## {title}\n")
        for comment, code in blocks(body):
            declared = names(code)
            if not declared and not (comment and not code):
                continue
            found += declared
            if declared:
                page.append("### " + ", ".join(f"`{name}`" for name in declared) + "\n")
            if comment:
                page.append(prose(comment) + "\n")
            if declared:
                page.append(f"```c\n{code}\n```\n")
        contents.append(f"- [{title}](#{anchor(title)})" + (": " if found else "") + ", ".join(f"`{n}`" for n in found))
    shown = set(re.findall(r"`(qp_\w+)`", "\n".join(page)))
    missing = sorted(set(NAMES[0].findall(text)) - shown)
    if missing:
        sys.exit(f"make_api: without a place in the page: {', '.join(missing)}")
    head = "# The C API\n\nMade from `include/quipu.h` by `tools/make_api.py`; change the header, then run it.\n"
    return head + "\n" + "\n".join(contents) + "\n\n" + "\n".join(page).rstrip() + "\n"


def main():
    page = render(HEADER.read_text())
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page:
            sys.exit("docs/api.md is not what include/quipu.h says: run tools/make_api.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        PAGE.write_text(page)


main()
