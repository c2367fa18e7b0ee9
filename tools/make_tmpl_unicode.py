"""Writes src/text/tmpl_unicode_data.h: what utf8proc does not know and Python's str methods do.

    python3 tools/make_tmpl_unicode.py > src/text/tmpl_unicode_data.h
"""
import unicodedata

CHARS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(keep):
    out = []
    for ch in CHARS:
        if keep(ch):
            if out and out[-1][1] == ord(ch) - 1:
                out[-1][1] = ord(ch)
            else:
                out.append([ord(ch), ord(ch)])
    return out


def table(name, comment, keep):
    print(f"/* {comment} */\nstatic const uint32_t {name}[][2] = {{")
    rows = ranges(keep)
    for i in range(0, len(rows), 6):
        print("    " + " ".join(f"{{0x{a:x}, 0x{b:x}}}," for a, b in rows[i : i + 6]))
    print("};\n")


def text(s):
    return "{" + ", ".join(f"0x{ord(c):x}" for c in s) + "}"


version = unicodedata.unidata_version
print(f"/* tmpl_unicode_data.h — made by tools/make_tmpl_unicode.py (Unicode {version}); do not edit. */")
print("#ifndef TEXT_TMPL_UNICODE_DATA_H\n#define TEXT_TMPL_UNICODE_DATA_H\n\n#include <stdint.h>\n")
table("decimal_ranges", "str.isdecimal(): whole rows of ten, from a zero", str.isdecimal)
table("digit_ranges", "str.isdigit() but not isdecimal()", lambda c: c.isdigit() and not c.isdecimal())
table("numeric_letter_ranges", "str.isnumeric() although no number by category",
      lambda c: c.isnumeric() and unicodedata.category(c)[0] != "N")
table("other_upper_ranges", "str.isupper() although not Lu", lambda c: c.isupper() and unicodedata.category(c) != "Lu")
table("other_lower_ranges", "str.islower() although not Ll", lambda c: c.islower() and unicodedata.category(c) != "Ll")
table("case_ignorable_ranges", "skipped when a final sigma looks around",
      lambda c: ("A\u03a3" + c).lower()[1] == "\u03c2" and ("A\u03a3" + c + "A").lower()[1] == "\u03c3")
print("typedef struct case_row {\n    uint32_t from, upper[3], lower[3], title[3];\n} case_row;")
print("/* Mappings to several characters. */\nstatic const case_row case_rows[] = {")
for ch in CHARS:
    u, l, t = ch.upper(), ch.lower(), ch.title()
    if max(len(u), len(l), len(t)) > 1:
        print(f"    {{0x{ord(ch):x}, {text(u)}, {text(l)}, {text(t)}}},")
print("};\n\n#endif")
