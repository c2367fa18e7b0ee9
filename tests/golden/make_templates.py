"""Renders templates of our own with jinja2 as transformers configures it, and writes down what comes out.

    python3 tests/golden/make_templates.py                 # writes tests/golden/templates/{cases,random}.json
    python3 tests/golden/make_templates.py --random 5000 7 > found.json    # seed 7; run with: tmpl_test found.json

Needs jinja2 3.1.6 (Python 3.11). `cases.json` has each statement, filter, test, method and kind of error;
`random.json` random programs, which is how differences are found.
"""

import datetime
import json
import os
import signal
import sys
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

import template_random
from template_cases import CASES

CONTEXT = {
    "n": 7,
    "z": 0,
    "neg": -3,
    "f": 2.5,
    "t": True,
    "no": None,
    "s": "Hello World",
    "e": "",
    "sp": "  pad \n",
    "l": [3, 1, 2],
    "ls": ["b", "A", "c", "a"],
    "m": {"b": 1, "a": [1, {"k": "v"}], "c d": "x"},
    "ms": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "yo", "x": None},
        {"role": "user", "content": ""},
    ],
    "uni": "caf\u00e9 \U0001f600 \u00df",
    "html": "<b>&\"'",
    "nested": [[1, 2], [3, [4]]],
    "big": 9007199254740993,
    "d2": {"items": 5, "keys": {"get": 1}},
}
NOW = "2024-07-26T12:34:56"


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_pass"), [], [], body).set_lineno(line)

    @jinja2.pass_eval_context
    def _pass(self, context, caller):
        return caller()


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        check_name(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)


def check_name(name):
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(name)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals.update(
        raise_exception=raise_exception,
        dict=Dict(),
        namespace=Namespace,
        strftime_now=lambda text: datetime.datetime.fromisoformat(NOW).strftime(text),
    )
    return env


ENV = environment()


def give_up(*_):
    raise TimeoutError


def render(template):
    """What comes out, or None where that says nothing: too slow, too deep, an address in the text."""
    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        text = ENV.from_string(template).render(**json.loads(json.dumps(CONTEXT)))
        return None if " at 0x" in text.lower() or "g.e.n.e.r" in text else {"text": text}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"error": "raise_exception", "message": str(error)}
        return {"error": "engine", "type": type(error).__name__}
    except (TimeoutError, RecursionError, MemoryError):
        return None
    except Exception as error:
        return {"error": "engine", "type": type(error).__name__}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def rendered(templates):
    out = []
    for template in templates:
        if "map('string'))|wordcount" in template:  # counts the words of an address
            continue
        result = render(template)
        if result is not None:
            out.append({"template": template, **result})
    return out


def document(cases):
    head = {
        "made_with": f"jinja2 {jinja2.__version__}, Python {sys.version.split()[0]}",
        "now": NOW,
        "context": CONTEXT,
    }
    lines = ",\n".join("  " + json.dumps(case) for case in cases)
    return json.dumps(head)[:-1] + ',\n "cases": [\n' + lines + "\n ]}\n"


def main():
    warnings.simplefilter("ignore")
    if len(sys.argv) > 2 and sys.argv[1] == "--random":
        seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
        sys.stdout.write(document(rendered(template_random.programs(int(sys.argv[2]), seed))))
        return
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "templates")
    for name, templates in (("cases", CASES), ("random", template_random.programs(700, 20240726))):
        with open(os.path.join(folder, name + ".json"), "w") as file:
            file.write(document(rendered(templates)))


if __name__ == "__main__":
    main()
