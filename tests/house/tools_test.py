"""The checkers are checked: each is shown a small tree with one offence and must name it, and a clean one."""
import os
import sys
import tempfile
import unittest
from xml.etree import ElementTree

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import check            # noqa: E402
import check_layers     # noqa: E402
import check_style      # noqa: E402
import check_symbols    # noqa: E402
import run_docs         # noqa: E402
import sizes            # noqa: E402

LAYERS = "base: quipu.h\nformat: base\ntext: base\ncli: base quipu.h\ndev: base\n"


def tree(files):
    """A folder with these files; the caller closes it."""
    folder = tempfile.TemporaryDirectory()
    for path, text in files.items():
        full = os.path.join(folder.name, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as out:
            out.write(text)
    return folder


class Layers(unittest.TestCase):
    base = {"tools/layers.txt": LAYERS, "include/quipu.h": "", "src/base/mem.h": "", "src/text/tok.h": "",
            "tests/harness.h": ""}

    def offences(self, files):
        with tree(dict(self.base, **files)) as root:
            return check_layers.check(root)

    def test_clean(self):
        self.assertEqual([], self.offences({
            "src/format/a.c": '#include "base/mem.h"\n#include "a.h"\n', "src/format/a.h": "",
            "src/format/a_test.c": '#include "harness.h"\nint x(void) { malloc(p); }\n',
            "src/base/mem.c": '#include "mem.h"\nvoid f(void) { malloc(p); }\n',
            "src/dev/cpu/avx2_x.c": "#include <immintrin.h>\n",
            "src/base/c.c": '/* malloc(x) and getenv("A") in a comment */ const char *s = "malloc(1)";\n'}))

    def test_offences(self):
        cases = [
            ("src/format/a.c", '#include "text/tok.h"\n', "format may see only: base"),
            ("src/format/a.c", '#include "quipu.h"\n', "format may see only"),
            ("src/base/a.c", '\n\n#include "text/tok.h"\n', "src/base/a.c:3:"),
            ("src/format/a.c", '#include "nowhere.h"\n', "does not exist"),
            ("src/format/a.c", '#include "harness.h"\n', "tests only"),
            ("src/odd/a.c", "\n", "not in tools/layers.txt"),
            ("src/dev/cpu/ref_x.c", "#include <immintrin.h>\n", "instruction-set"),
            ("src/format/a.c", "int f(void) { return cuInit(0); }\n", "libcuda"),
            ("src/format/a.c", "void f(void) { p = malloc(3); }\n", "base/mem.h"),
            ("src/format/a.c", 'void f(void) { getenv("X"); }\n', "environment"),
            ("src/format/a.c", "#include <pcre2.h>\n", "PCRE2"),
        ]
        for path, text, wanted in cases:
            found = self.offences({path: text})
            self.assertEqual(1, len(found), (text, found))
            self.assertIn(wanted, found[0])

    def test_cycles(self):
        found = self.offences({"src/base/x.h": '#include "y.h"\n', "src/base/y.h": '#include "x.h"\n'})
        self.assertTrue(any("go round" in f for f in found), found)
        with tree({"tools/layers.txt": "a: b\nb: c\nc: a\n"}) as root:
            self.assertTrue(any("cycle a -> b -> c -> a" in f for f in check_layers.check(root)))


class Style(unittest.TestCase):
    def offences(self, files):
        with tree(files) as root:
            return check_style.check(root)

    def test_clean(self):
        clean = {"src/a.c": "/* a.c \u2014 adds. */\nint x;\n", "x/README.md": "", "y/README.md": ""}
        self.assertEqual([], self.offences(clean))

    def test_offences(self):
        story = "/* a.c \u2014 adds. */\n"
        cases = [({"a.c": story + "x" * 121}, "121 columns"), ({"a.c": "int x;\n"}, "expected"),
                 ({"a.c": "/* b.c \u2014 wrong name. */\n"}, "expected"), ({"a.c": story + "int x; \n"}, "blanks"),
                 ({"a.c": story + "// TO" + "DO later\n"}, "unfinished"),
                 ({"p/a.c": story, "q/a.c": story}, "the name is taken by p/a.c")]
        for files, wanted in cases:
            found = self.offences(files)
            self.assertEqual(1, len(found), (files, found))
            self.assertIn(wanted, found[0])


class Symbols(unittest.TestCase):
    def test_declared(self):
        text = "#define QP_API x\n/* QP_API int qp_not(void); */\nQP_API const char *qp_a(int x);\n" \
               "QP_API qp_status qp_b(qp_x **out,\n   int y);\nint qp_inner(void);\n"
        with tree({"q.h": text}) as root:
            self.assertEqual({"qp_a", "qp_b"}, check_symbols.declared(os.path.join(root, "q.h")))

    def test_compare(self):
        self.assertEqual(2, len(list(check_symbols.compare("so", {"qp_a", "x"}, {"qp_a", "qp_b"}))))


class Docs(unittest.TestCase):
    text = "# t\n```sh\necho one\n```\n```output\no...e\n```\n```\nfalse\n```\n" \
           "```sh\nfalse\necho never\n```\n```sh\necho b\n```\n```output\na\n```\n"

    def test_blocks_run_and_fail(self):
        with tree({"a.md": self.text}) as root:
            found = list(run_docs.blocks(os.path.join(root, "a.md")))
            self.assertEqual([2, 11, 15], [line for line, _, _ in found])
            n, failures = run_docs.run_file(os.path.join(root, "a.md"), root, root)
        self.assertEqual((3, 2), (n, len(failures)))
        self.assertIn("status 1", failures[0])
        self.assertIn("printed something else", failures[1])


class Counting(unittest.TestCase):
    def test_units(self):
        output = "[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\nSKIP: no file\n" \
                 "[  SKIPPED ] b\n[ RUN      ] c\nboom\n[  FAILED  ] c\n[==========] 3 test(s) run.\n" \
                 "[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n[  SKIPPED ] b\n[  FAILED  ] c\n"
        self.assertEqual((["a"], ["c"], [("b", "no file")]), tuple(check.count_units(output)))
        self.assertIsNone(check.count_units("hello\n"))

    def test_a_missing_program_is_a_failure(self):
        def add(message):
            tally = check.Tally([], [], [])
            case = ElementTree.fromstring('<testcase name="t" status="notrun"><skipped message="%s"/>'
                                          '<system-out>SKIP: no file</system-out></testcase>' % message)
            check.add_program(tally, check.KINDS[0], case)
            return tally
        self.assertEqual(["release/t"], add("Unable to find executable").failed)
        self.assertEqual([("release/t", "no file")], add("SKIP_RETURN_CODE=77").skipped)


class Sizes(unittest.TestCase):
    def test_functions(self):
        text = "int a(void) { return 1; }\n\nstatic int b(int x,\n             int y) {\n    return x;\n}\n" \
               "struct s {\n    int x;\n};\nint c(void) {\n    if (x) {\n    }\n    return 2;\n}\n"
        self.assertEqual([("a", 1, 1), ("b", 3, 4), ("c", 10, 5)], list(sizes.functions(text)))


if __name__ == "__main__":
    unittest.main()
