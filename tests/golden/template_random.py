"""Random templates for make_templates.py: expressions that know what type they give, and programs of statements.

Most of the expressions succeed, so that texts are compared rather than errors; the programs nest every statement with
random white space control.
"""

import random


def make_expression(R):
    """A function of the depth, for an expression of any type."""

    def s(d):
        if d <= 0:
            return R.choice(
                [
                    "s",
                    "e",
                    "sp",
                    "uni",
                    "html",
                    "'a b c'",
                    "'x,y,,z'",
                    "'Hello'",
                    "'éΣ ß'",
                    "'a\\nb\\r\\nc\\n'",
                    "'  pad '",
                    "'%d%%'",
                    "'tab\\tx'",
                    "'12'",
                    "'-3.5'",
                    "'ünï cödé'",
                    "'𝒳y'",
                    "'ǆ'",
                    "'ΑΣ ΣΑΣ'",
                    "'a-b (c) [d] {e} <f>'",
                    "'İI'",
                    "'long-word and well-known hyphen--dash'",
                    "'it\\'s'",
                    "'q\"q'",
                    "'\\x00\\x7f\\u200b'",
                    "ms[0].role",
                    "m['c d']",
                ]
            )
        return R.choice(
            [
                lambda: "(%s ~ %s)" % (s(d - 1), a(d - 1)),
                lambda: "(%s + %s)" % (s(d - 1), s(d - 1)),
                lambda: "(%s * %s)" % (s(d - 1), R.choice(["2", "0", "-1", "3"])),
                lambda: "%s|%s"
                % (
                    s(d - 1),
                    R.choice(
                        [
                            "upper",
                            "lower",
                            "title",
                            "capitalize",
                            "trim",
                            "e",
                            "safe",
                            "string",
                            "reverse",
                            "forceescape",
                            "striptags",
                            "urlencode",
                            "center(%s)" % R.choice(["9", "20", "7"]),
                            "indent",
                            "indent(2,true)",
                            "indent('>',blank=true)",
                            "truncate(%d)" % R.randint(3, 12),
                            "truncate(%d,true,'~',%d)" % (R.randint(1, 9), R.randint(0, 3)),
                            "wordwrap(%d)" % R.randint(1, 9),
                            "wordwrap(%d,false)" % R.randint(1, 9),
                            "replace('a','X')",
                            "replace('','-')",
                            "replace(' ','',2)",
                            "trim('a ')",
                            "tojson",
                            "tojson(true)",
                            "default('q')",
                            "first",
                            "last",
                            "list|join('.')",
                            "escape|safe",
                            "pprint",
                            "title|upper",
                        ]
                    ),
                ),
                lambda: "%s.%s"
                % (
                    s(d - 1),
                    R.choice(
                        [
                            "upper()",
                            "lower()",
                            "title()",
                            "capitalize()",
                            "swapcase()",
                            "casefold()",
                            "strip()",
                            "lstrip('H ')",
                            "rstrip('cd')",
                            "replace('l','LL')",
                            "replace('l','',1)",
                            "replace('','.')",
                            "replace('','.',2)",
                            "center(12,'*')",
                            "center(7)",
                            "ljust(9,'.')",
                            "rjust(9)",
                            "zfill(8)",
                            "expandtabs(4)",
                            "removeprefix('He')",
                            "removesuffix('c')",
                            "join(['p','q','r'])",
                            "join('xyz')",
                            "format(1,2)",
                            "partition(' ')[2]",
                            "rpartition(' ')[0]",
                        ]
                    ),
                ),
                lambda: "%s[%s:%s]"
                % (s(d - 1), R.choice(["", "1", "-3", "2", "-1", "0"]), R.choice(["", "3", "-1", "9"])),
                lambda: "%s[::%s]" % (s(d - 1), R.choice(["-1", "2", "-2"])),
                lambda: "%s[%s]" % (s(d - 1), R.choice(["0", "-1", "1", "2"])),
                lambda: "(%s if %s else %s)" % (s(d - 1), b(d - 1), s(d - 1)),
                lambda: "%s|join(%s)" % (l(d - 1), R.choice(["','", "''", "s", "', '"])),
                lambda: "%s|tojson" % a(d - 1),
                lambda: "%s|tojson(indent=%s)" % (a(d - 1), R.choice(["2", "0", "1", "none", "'\\t'", "4"])),
                lambda: "%s|string" % a(d - 1),
                lambda: "%s|first|string" % l(d - 1),
                lambda: "('%s'|format(%s))" % (R.choice(["%s", "%r", "%5s|", "%-7s|", "%.2s", "%%%s", "%a"]), a(d - 1)),
                lambda: "('%s' %% %s)"
                % (
                    R.choice(
                        [
                            "%d",
                            "%5d|",
                            "%05d",
                            "%x",
                            "%o",
                            "%X",
                            "%+d",
                            "%e",
                            "%.3f",
                            "%g",
                            "%G",
                            "%c",
                            "%i",
                            "%-6d|",
                            "% d",
                            "%#x",
                            "%.0f",
                            "%10.2e",
                            "%5.1f|",
                            "%.10g",
                            "%08.3f",
                            "%u",
                            "%#.3g",
                            "%.3d",
                        ]
                    ),
                    i(d - 1),
                ),
                lambda: "'{:%s}'.format(%s)" % (R.choice([">8", "<8", "^9", "*^11", ".2", "", "s", "10.3"]), s(d - 1)),
                lambda: "'{:%s}'.format(%s)"
                % (
                    R.choice(
                        [
                            "d",
                            "5",
                            "05",
                            "+",
                            "x",
                            "#x",
                            "b",
                            "o",
                            ",",
                            "_",
                            "e",
                            ".2f",
                            "%",
                            "g",
                            "c",
                            "n",
                            "<6",
                            "^7",
                            "=+7",
                            "#b",
                            "X",
                            "010,",
                            "_x",
                            "#010x",
                            ".1%",
                            " ",
                        ]
                    ),
                    i(d - 1),
                ),
                lambda: "'{:%s}'.format(%s)"
                % (
                    R.choice(
                        [
                            "f",
                            ".0f",
                            ".3",
                            ".1e",
                            "g",
                            "G",
                            "%",
                            "+.2f",
                            "08.2f",
                            ",.2f",
                            "012,.3f",
                            "e",
                            "",
                            "5",
                            "#.3g",
                            ".10g",
                            "_.2f",
                            "n",
                            ".0e",
                            "#.0f",
                            "z.1f",
                            ".17g",
                        ]
                    ),
                    f(d - 1),
                ),
                lambda: "'{} {} {x}'.format(%s, %s, x=%s)" % (a(d - 1), a(d - 1), a(d - 1)),
                lambda: "'{0!r:>6}{0}'.format(%s)" % s(d - 1),
                lambda: "'{0[a]}{0[b]}'.format(m)",
                lambda: "'{:{w}}|'.format(%s,w=%s)" % (s(d - 1), R.choice(["5", "12"])),
                lambda: "(%s|round(%s))|string" % (f(d - 1), R.choice(["0", "1", "2", "-1", "3"])),
                lambda: "%s|filesizeformat%s" % (i(d - 1), R.choice(["", "(true)"])),
                lambda: "dict(a=%s)|xmlattr" % a(d - 1),
                lambda: "%s ~ ''" % a(d - 1),
                lambda: "{'q':%s,'a b':%s}|urlencode" % (s(d - 1), i(d - 1)),
                lambda: "%s|string|length|string" % a(d - 1),
            ]
        )()

    def i(d):
        if d <= 0:
            return R.choice(["n", "z", "neg", "0", "1", "2", "-7", "10", "255", "1000", "123456789", "true", "65"])
        return R.choice(
            [
                lambda: "(%s %s %s)" % (i(d - 1), R.choice("+-*"), i(d - 1)),
                lambda: "(%s %s %s)" % (i(d - 1), R.choice(["//", "%"]), R.choice(["3", "-3", "7", "n", "neg"])),
                lambda: "(%s ** %s)" % (i(0), R.choice(["2", "3", "0"])),
                lambda: "(-%s)" % i(d - 1),
                lambda: "%s|length" % R.choice([s, l, dd])(d - 1),
                lambda: "%s|int" % R.choice([f(d - 1), s(d - 1), i(d - 1)]),
                lambda: "%s|abs" % i(d - 1),
                lambda: "%s.count('l')" % s(d - 1),
                lambda: "%s.find(%s)" % (s(d - 1), R.choice(["'l'", "' '", "'é'"])),
                lambda: "%s|wordcount" % s(d - 1),
                lambda: "[%s,%s]|%s" % (i(d - 1), i(d - 1), R.choice(["sum", "min", "max"])),
                lambda: "(%s if %s else %s)" % (i(d - 1), b(d - 1), i(d - 1)),
                lambda: "%s|round|int" % f(d - 1),
                lambda: "l[%s %% 3]" % i(d - 1),
                lambda: "%s.rfind('l')" % s(d - 1),
                lambda: "%s.bit_length()" % i(d - 1),
                lambda: "(%s|round(%s))" % (i(d - 1), R.choice(["0", "-1", "-2", "1"])),
            ]
        )()

    def f(d):
        if d <= 0:
            return R.choice(
                [
                    "f",
                    "0.5",
                    "1.5",
                    "2.675",
                    "-0.125",
                    "1e10",
                    "1e-7",
                    "3.0",
                    "123456.789",
                    "1e22",
                    "0.1",
                    "5e-324",
                    "1.7976931348623157e308",
                    "2.5",
                    "-2.5",
                    "1e16",
                    "9007199254740993.0",
                    "5.684341886080802e-14",
                    "0.3",
                    "100.0",
                    "1/3",
                ]
            )
        return R.choice(
            [
                lambda: "(%s %s %s)" % (f(d - 1), R.choice("+-*"), f(d - 1)),
                lambda: "(%s / %s)" % (i(d - 1), R.choice(["3", "7", "n", "0.1"])),
                lambda: "(%s // %s)" % (f(d - 1), R.choice(["3", "-0.7", "n"])),
                lambda: "(%s %% %s)" % (f(d - 1), R.choice(["3", "-0.7", "n"])),
                lambda: "(%s ** %s)" % (i(0), R.choice(["0.5", "-1", "-2"])),
                lambda: "%s|float" % R.choice([i(d - 1), s(d - 1)]),
                lambda: "%s|round(%s%s)"
                % (f(d - 1), R.choice(["0", "1", "2", "-1", "3", "-2"]), R.choice(["", "", ",'ceil'", ",'floor'"])),
                lambda: "(-%s)" % f(d - 1),
            ]
        )()

    def b(d):
        if d <= 0:
            return R.choice(["t", "true", "false", "e", "n", "undef", "l", "no"])
        return R.choice(
            [
                lambda: "(%s %s %s)" % (a(d - 1), R.choice(["==", "!="]), a(d - 1)),
                lambda: "(%s %s %s)" % (i(d - 1), R.choice(["<", ">", "<=", ">="]), R.choice([i, f])(d - 1)),
                lambda: "(%s %s %s)" % (s(d - 1), R.choice(["<", ">", "<=", ">=", "in", "not in"]), s(d - 1)),
                lambda: "(%s in %s)" % (a(d - 1), l(d - 1)),
                lambda: "(not %s)" % a(d - 1),
                lambda: "(%s %s %s)" % (b(d - 1), R.choice(["and", "or"]), b(d - 1)),
                lambda: "(%s is %s)"
                % (
                    a(d - 1),
                    R.choice(
                        [
                            "defined",
                            "none",
                            "string",
                            "number",
                            "mapping",
                            "sequence",
                            "iterable",
                            "boolean",
                            "integer",
                            "float",
                            "callable",
                            "undefined",
                            "true",
                            "false",
                            "escaped",
                            "upper",
                            "lower",
                        ]
                    ),
                ),
                lambda: "(%s is %s)"
                % (i(d - 1), R.choice(["odd", "even", "divisibleby 3", "eq 1", "gt 2", "in l", "sameas 1"])),
                lambda: "%s.%s"
                % (
                    s(d - 1),
                    R.choice(
                        [
                            "isalpha()",
                            "isdigit()",
                            "isalnum()",
                            "isspace()",
                            "isupper()",
                            "islower()",
                            "istitle()",
                            "isnumeric()",
                            "isdecimal()",
                            "isidentifier()",
                            "isprintable()",
                            "isascii()",
                            "startswith('H')",
                            "endswith(('c','d'))",
                            "startswith('l',2)",
                            "endswith('o',0,5)",
                        ]
                    ),
                ),
                lambda: "(%s < %s <= %s)" % (i(d - 1), i(d - 1), i(d - 1)),
                lambda: "(%s %s %s)" % (l(d - 1), R.choice(["==", "<", "!="]), l(d - 1)),
            ]
        )()

    def l(d):
        if d <= 0:
            return R.choice(
                [
                    "l",
                    "ls",
                    "ms",
                    "nested",
                    "[1,2,3]",
                    "['b','a','B']",
                    "range(4)",
                    "(1,'x')",
                    "[]",
                    "[none,true,2.5]",
                    "[[2,'b'],[1,'a']]",
                    "range(5,0,-2)",
                    "m",
                    "[1,1.0,true,'1']",
                ]
            )
        return R.choice(
            [
                lambda: "%s|%s"
                % (
                    l(d - 1),
                    R.choice(
                        [
                            "list",
                            "reverse|list",
                            "unique|list",
                            "batch(2)|list",
                            "batch(2,'-')|list",
                            "slice(2)|list",
                            "slice(3,0)|list",
                            "map('string')|list",
                            "map('tojson')|list",
                            "select|list",
                            "reject|list",
                            "select('string')|list",
                            "reject('number')|list",
                            "select('defined')|list",
                            "map('default','x')|list",
                            "groupby(0)",
                            "map('first')|list",
                            "map('last')|list",
                            "sort",
                            "sort(reverse=true)",
                            "select('in',[1,'a'])|list",
                            "map('length')|list",
                            "map('upper')|list",
                        ]
                    ),
                ),
                lambda: "ms|%s"
                % R.choice(
                    [
                        "map(attribute='role')|list",
                        "map(attribute='content')|list",
                        "selectattr('content')|list",
                        "selectattr('role','eq','user')|list",
                        "rejectattr('role','equalto','user')|list",
                        "groupby('role')",
                        "groupby('role')|map('list')|list",
                        "groupby('x',default='zz')",
                        "sort(attribute='content')",
                        "sort(attribute='role,content')",
                        "unique(attribute='role')|list",
                        "map(attribute='x',default='q')|list",
                        "selectattr('x','defined')|list",
                        "sum(attribute='content.nope',start=[])",
                        "map('items')|map('list')|list",
                        "map('dictsort')|list",
                        "max(attribute='content')",
                        "min(attribute='role')",
                    ]
                ),
                lambda: "%s.%s"
                % (
                    s(d - 1),
                    R.choice(
                        [
                            "split()",
                            "split(',')",
                            "split(' ',1)",
                            "rsplit(' ',1)",
                            "rsplit()",
                            "rsplit(none,1)",
                            "splitlines()",
                            "splitlines(true)",
                            "partition('l')",
                            "rpartition('l')",
                            "split('l')",
                            "rsplit('l',1)",
                        ]
                    ),
                ),
                lambda: "%s|list" % s(d - 1),
                lambda: "%s[%s:%s]" % (l(d - 1), R.choice(["", "1", "-2"]), R.choice(["", "2", "-1"])),
                lambda: "%s[::-1]" % l(d - 1),
                lambda: "[%s, %s]" % (a(d - 1), a(d - 1)),
                lambda: "(%s, %s)" % (a(d - 1), a(d - 1)),
                lambda: "(%s|list + %s|list)" % (l(d - 1), l(d - 1)),
                lambda: "%s.%s|list" % (dd(d - 1), R.choice(["keys()", "values()", "items()"])),
                lambda: "%s|dictsort%s" % (dd(d - 1), R.choice(["", "(true)", "(reverse=true)"])),
                lambda: "%s|items|list" % dd(d - 1),
                lambda: "([%s] * 2)" % a(d - 1),
                lambda: "range(%s)[%s:%s:%s]"
                % (
                    R.choice(["10", "2,20,3", "9,0,-2"]),
                    R.choice(["", "1", "-2"]),
                    R.choice(["", "3", "-1"]),
                    R.choice(["", "2", "-1"]),
                ),
            ]
        )()

    def dd(d):
        if d <= 0:
            return R.choice(
                [
                    "m",
                    "d2",
                    "{}",
                    "{'a':1,'B':2}",
                    "{1:'x','1':2,2.5:none}",
                    "dict(z=1,y=2)",
                    "ms[1]",
                    "{true:1,1:2}",
                    "{(1,2):3}",
                ]
            )
        return R.choice(
            [
                lambda: "{%s: %s, 'k': %s}" % (R.choice([s, i])(d - 1), a(d - 1), a(d - 1)),
                lambda: "dict(%s, z=%s)" % (dd(0), a(d - 1)),
                lambda: "dict(%s.items())" % dd(d - 1),
                lambda: "dict([['p',%s]])" % a(d - 1),
                lambda: "dict.fromkeys(%s, %s)" % (R.choice(["ls", "'abc'"]), a(d - 1)),
                lambda: "%s.copy()" % dd(d - 1),
            ]
        )()

    def a(d):
        return R.choice(
            [s, i, f, b, l, dd, s, l, lambda d: R.choice(["none", "undef", "m.nope", "true", "''|safe", "'<'|e"])]
        )(d)

    return a


def make_program(R, expr):
    V = ["a", "b", "c", "x", "n", "s", "l", "m", "ms", "ns", "loop", "e", "t"]

    def name():
        return R.choice(V)

    def iexpr():
        return R.choice(
            [
                "1",
                "2",
                "n",
                "loop.index",
                "loop.index0",
                "a",
                "x",
                "(a or 0)",
                "l|length",
                "loop.length",
                "loop.revindex",
                "3",
                "x|default(4)",
                "ns.c",
                "loop.depth",
            ]
        )

    def lexpr():
        return R.choice(
            [
                "l",
                "ms",
                "[1,2,3]",
                "range(3)",
                "'abc'",
                "m",
                "m.items()",
                "[[1,2],[3,4]]",
                "l|sort",
                "ls",
                "l|select('odd')",
                "ms|map(attribute='role')",
                "[]",
                "range(4) if t else []",
                "l|batch(2)",
                "[x,a]",
                "undef",
                "[(1,2),(3,4)]",
                "ls|unique",
                "l|reverse",
                "nested",
            ]
        )

    def sexpr():
        return R.choice(
            [
                "a",
                "b",
                "c",
                "x",
                "n",
                "s",
                "loop.index",
                "loop.first",
                "loop.last",
                "loop.previtem",
                "loop.nextitem",
                "loop.cycle('p','q')",
                "loop.changed(x)",
                "loop.length",
                "ns.c",
                "ns.s",
                "a ~ b",
                "x ~ ':'",
                "loop",
                "x|default('D')",
                "caller()",
                "f()",
                "f(1)",
                "f(1,2)",
                "f(b=3)",
                "f(1,c=2)",
                "g(2)",
                "varargs",
                "kwargs",
                "loop(l[1:]) if loop.depth < 3 else ''",
                "loop.revindex0",
                "loop.depth0",
                "a is defined",
                "b is defined",
                "x is defined",
                "loop is defined",
                "expr",
            ]
        )

    def ex():
        s = sexpr()
        return expr(1) if s == "expr" else s

    ws = lambda: R.choice(["", "", "", "-", "+"])

    def tag(t):
        return "{%" + ws() + " " + t + " " + ws() + "%}"

    def text():
        return R.choice(["", " ", "\n", "  \n", "t", "\n  ", "  ", "x\n", "\n\n", " y "])

    def out():
        s = R.choice(["", "", "-"])
        e = R.choice(["", "", "-"])
        return "{{" + s + " " + ex() + " " + e + "}}"

    def cond():
        return R.choice(
            [
                "t",
                "not t",
                "x",
                "a is defined",
                "loop.first",
                "loop.index > 1",
                "n > 5",
                "x == 2",
                "b",
                "loop.last",
                "e",
                "a and b",
                "x in l",
                "undef",
                "ns.c",
            ]
        )

    def target():
        return R.choice(["a", "b", "x", "c", "n"])

    def body(d, inloop):
        return "".join(stmt(d, inloop) + text() for _ in range(R.randint(1, 3)))

    def stmt(d, inloop):
        c = R.random()
        if d <= 0 or c < 0.25:
            return text() + out()
        if c < 0.42:
            k = R.random()
            if k < 0.5:
                return tag("set %s = %s" % (target(), R.choice([iexpr(), ex(), lexpr()])))
            if k < 0.6:
                return tag("set ns = namespace(c=%s, s='')" % iexpr())
            if k < 0.75:
                return tag("set ns.c = %s" % ex())
            if k < 0.85:
                return tag("set %s, %s = %s" % (target(), target(), R.choice(["1, 2", "(a, b)", "l", "[1,2]", "x, x"])))
            return (
                tag("set %s%s" % (target(), R.choice(["", "|upper", "|trim", "|replace('x','Y')|length"])))
                + body(d - 1, inloop)
                + tag("endset")
            )
        if c < 0.60:
            tg = R.choice(["x", "x", "x", "a", "a, b", "i"])
            if tg == "a, b":
                it = R.choice(
                    ["m.items()", "[[1,2],[3,4]]", "[(1,2),(3,4)]", "m|dictsort", "m|items", "ms|groupby('role')"]
                )
            else:
                it = lexpr()
            cnd = R.choice(["", "", "", " if " + cond(), " if x != 1", " if x"])
            rec = R.choice(["", "", "", " recursive"])
            el = R.choice(["", "", tag("else") + body(d - 1, inloop and not rec)])
            return tag("for %s in %s%s%s" % (tg, it, cnd, rec)) + text() + body(d - 1, True) + el + tag("endfor")
        if c < 0.72:
            r = tag("if " + cond()) + body(d - 1, inloop)
            if R.random() < 0.3:
                r += tag("elif " + cond()) + body(d - 1, inloop)
            if R.random() < 0.5:
                r += tag("else") + body(d - 1, inloop)
            return r + tag("endif")
        if c < 0.80:
            sig = R.choice(["", "a", "a, b=2", "a=1, b=x", "x, c='z'", "a=b, b=3", "a, caller=none"])
            return tag("macro %s(%s)" % (R.choice("fg"), sig)) + body(d - 1, False) + tag("endmacro")
        if c < 0.84:
            return (
                tag(
                    "call%s %s(%s)"
                    % (R.choice(["", "(x)", "(x, a=1)"]), R.choice("fg"), R.choice(["", "1", "1,2", "a=1"]))
                )
                + body(d - 1, False)
                + tag("endcall")
            )
        if c < 0.87:
            return (
                tag("filter " + R.choice(["upper", "trim", "replace('x','y')", "indent(2)", "length", "upper|trim"]))
                + body(d - 1, inloop)
                + tag("endfilter")
            )
        if c < 0.91:
            return (
                tag("with " + R.choice(["", "a = 1", "a = x, b = a", "x = 5"])) + body(d - 1, inloop) + tag("endwith")
            )
        if c < 0.93:
            return tag("generation") + body(d - 1, False) + tag("endgeneration")
        if c < 0.95 and inloop:
            return tag("if " + cond()) + tag(R.choice(["break", "continue"])) + tag("endif")
        if c < 0.96:
            return "{%" + ws() + " raw " + R.choice(["", "-"]) + "%} {{ x }} \n {%" + ws() + " endraw " + ws() + "%}"
        if c < 0.98:
            return "{#" + ws() + " c " + ws() + "#}"
        return (
            tag("block b%d%s" % (R.randint(0, 9999), R.choice(["", " scoped"]))) + body(d - 1, False) + tag("endblock")
        )

    pre = R.choice(
        [
            "",
            "{% macro f(a, b=2, c='z') %}({{ a }},{{ b }},{{ c }}){% endmacro %}",
            "{% macro f() %}<{{ caller() if caller else varargs }}>{% endmacro %}",
            "{% macro f(x) %}{{ caller(x) }}{{ kwargs }}{% endmacro %}",
        ]
    )
    pre2 = R.choice(["", "{% set ns = namespace(c=0, s='q') %}"])
    return pre + pre2 + body(3, False)


def programs(count, seed):
    R = random.Random(seed)
    expression = make_expression(R)
    for i in range(count):
        if i % 2:
            yield "{{ " + expression(R.randint(1, 4)) + " }}"
        else:
            yield make_program(R, expression)
