#!/usr/bin/env python3
"""Writes src/text/uni_table.c: the facts about characters that tokenizers depend on.

The reference library `tokenizers` mixes several Unicode versions (its regular expressions know Unicode 16, its normal
forms Unicode 12, its punctuation Unicode 8), so the facts are asked from the library itself, character by character;
Python's unicodedata only helps where the library's answer implies more than it says (composition pairs, combining
classes), checked against the library. Needs: pip install tokenizers==0.23.3. Run from the project's root:

    python3 tools/make_unicode_table.py > src/text/uni_table.c
"""
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CATEGORIES = "Cc Cf Cn Co Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
# Nothing but private use and unassigned characters up there: what is true of one is true of all.
FIRST_DULL = 0x323B0


def matched(pattern):
    """Characters that a one-character regular expression matches."""
    strip, out = normalizers.Replace(Regex(pattern), ""), set()
    for i in range(0, len(ALL), 4096):
        part = ALL[i:i + 4096]
        kept = set(strip.normalize_str("".join(map(chr, part))))
        out.update(c for c in part if chr(c) not in kept)
    return out


def removed(normalizer):
    return {c for c in ALL if normalizer.normalize_str("a" + chr(c) + "b") == "ab"}


def isolated(pre_tokenizer):
    return {c for c in ALL if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "b")) == 3}


def word_characters():
    t = Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, "<unk>"))
    t.add_tokens([AddedToken("QQ", single_word=True)])
    return {c for c in ALL if len(t.encode("QQ" + chr(c)).ids) == 1}


def scripts():
    """Numbers scripts in order of appearance; 0 is the one that joins every other."""
    split = pre_tokenizers.UnicodeScripts()

    def joins(a, b):
        return len(split.pre_tokenize_str(chr(a) + chr(b))) == 1

    heads, label = [ord("a"), 0x4EAC], {}
    for c in ALL:
        if joins(heads[0], c) and joins(heads[1], c):
            label[c] = 0
            continue
        found = [i for i, h in enumerate(heads) if joins(h, c)]
        if not found:
            heads.append(c)
            found = [len(heads) - 1]
        label[c] = found[0] + 1
    return label


def combining_classes():
    nfd, out = normalizers.NFD(), {}
    for c in ALL:
        ccc = unicodedata.combining(chr(c))
        if not ccc:
            continue
        after, before = chr(c) + "\u0334", "\u0345" + chr(c)  # classes 1 and 240
        if nfd.normalize_str(after) != after or nfd.normalize_str(before) != before or ccc in (1, 240):
            out[c] = ccc
    return out


def mapped(normalizer):
    out = {}
    for c in ALL:
        if c >= FIRST_DULL or 0xAC00 <= c < 0xD7A4:
            continue
        to = normalizer.normalize_str(chr(c))
        if to != chr(c):
            out[c] = [ord(x) for x in to]
    return out


def compositions(nfd):
    nfc, out = normalizers.NFC(), {}
    for c in nfd:
        parts = unicodedata.decomposition(chr(c)).split()
        is_pair = len(parts) == 2 and parts[0][0] != "<"
        if is_pair and nfc.normalize_str("".join(chr(int(p, 16)) for p in parts)) == chr(c):
            out[(int(parts[0], 16), int(parts[1], 16))] = c
    return out


def stable(forms):
    """Characters that the normal forms leave alone, whatever stands beside them."""
    tables = [getattr(normalizers, f)() for f in forms]
    classes = combining_classes()
    vowels_and_finals = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))
    seconds = {b for a, b in compositions(mapped(normalizers.NFD()))} | vowels_and_finals
    return {c for c in ALL if c not in classes and c not in seconds and
            all(t.normalize_str(chr(c)) == chr(c) for t in tables)}


def put_array(kind, name, values, per_line=20, form="%d"):
    print(f"const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per_line):
        print("    " + ",".join(form % v for v in values[i:i + per_line]) + ",")
    print("};\n")


def put_properties():
    category = {}
    for name in CATEGORIES:
        for c in matched(r"\p{%s}" % name):
            category[c] = name
    flags = [
        ("SPACE", matched(r"\s")), ("WORD", word_characters()), ("WORD_RE", matched(r"\w")),
        ("PUNCT", isolated(pre_tokenizers.Punctuation())),
        ("CONTROL", removed(normalizers.BertNormalizer(True, False, False, False))),
        ("ACCENT", removed(normalizers.BertNormalizer(False, False, True, False))),
        ("MARK", removed(normalizers.StripAccents())), ("ALPHABETIC", matched(r"\p{Alphabetic}")),
        ("NFC_SAFE", stable(["NFC"])), ("NF_SAFE", stable(["NFC", "NFD", "NFKC", "NFKD"])),
    ]
    records, blocks, stage1, stage2 = {}, {}, [], []
    for base in range(0, 0x110000, 256):
        block = []
        for c in range(base, base + 256):
            bits = 1 << CATEGORIES.index(category[c]) if c in category else 0
            for i, (_, members) in enumerate(flags):
                bits |= (c in members) << (32 + i)
            block.append(records.setdefault(bits, len(records)))
        block = tuple(block)
        if block not in blocks:
            blocks[block] = len(blocks)
            stage2.extend(block)
        stage1.append(blocks[block])
    assert len(records) <= 256 and len(blocks) <= 65535
    put_array("uint16_t", "uni_stage1", stage1)
    put_array("uint8_t", "uni_stage2", stage2, 32)
    print(f"const int uni_n_records = {len(records)};")
    put_array("uint64_t", "uni_records", list(records), 6, "0x%xu")
    put_young(category)


def put_young(category):
    """Assigned in the reference, not yet in Unicode 14: general regular-expression libraries may lack them."""
    assert unicodedata.unidata_version == "14.0.0", "run with a Python that has Unicode 14 (3.11)"
    young = [c for c in ALL if category[c] != "Cn" and unicodedata.category(chr(c)) == "Cn"]
    ranges = []
    for c in young:
        if ranges and ranges[-1][1] == c - 1:
            ranges[-1][1] = c
        else:
            ranges.append([c, c])
    print(f"const int uni_n_young = {len(ranges)};")
    put_array("uint32_t", "uni_young", [x for r in ranges for x in r], 14, "0x%x")


def put_scripts():
    label, ranges = scripts(), []
    for c in range(0x110000):
        n = label.get(c, 0)
        if not ranges or ranges[-1][1] != n:
            ranges.append((c, n))
    print(f"const int uni_n_scripts = {len(ranges)};")
    put_array("uint32_t", "uni_script_start", [c for c, _ in ranges], 14, "0x%x")
    put_array("uint8_t", "uni_script", [n for _, n in ranges], 32)


def put_maps():
    nfd = mapped(normalizers.NFD())
    tables = [("nfd", nfd), ("nfkd", mapped(normalizers.NFKD())), ("lower", mapped(normalizers.Lowercase()))]
    pool = []
    for name, table in tables:
        rows = []
        for c, to in sorted(table.items()):
            text = tuple(to)
            at = next((i for i in range(len(pool) - len(to) + 1) if tuple(pool[i:i + len(to)]) == text), None)
            if at is None:
                at = len(pool)
                pool.extend(to)
            rows += [c, at << 8 | len(to)]
        print(f"const int uni_n_{name} = {len(rows) // 2};")
        put_array("uint32_t", f"uni_{name}", rows, 12, "0x%x")
    put_array("uint32_t", "uni_pool", pool, 14, "0x%x")
    pairs = sorted(compositions(nfd).items())
    print(f"const int uni_n_compose = {len(pairs)};")
    put_array("uint32_t", "uni_compose", [v for (a, b), c in pairs for v in (a, b, c)], 12, "0x%x")
    classes = sorted(combining_classes().items())
    print(f"const int uni_n_class = {len(classes)};")
    put_array("uint32_t", "uni_class", [c << 8 | n for c, n in classes], 12, "0x%x")


def main():
    origin = f"tokenizers {tokenizers.__version__}"
    print(f"""/* uni_table.c — generated by tools/make_unicode_table.py from what {origin} shows: categories of
 * Unicode 16.0, normal forms of Unicode 12.0. Data only; uni.c reads it. */
/* clang-format off */
#include "uni_table.h"
""")
    put_properties()
    put_scripts()
    put_maps()
    print("/* clang-format on */")


if __name__ == "__main__":
    sys.exit(main())
