#!/usr/bin/env python3
"""Runs what the documentation shows. Each fenced block tagged `sh` in README.md and docs/*.md is run by bash (stopping
at the first failing command) in a throw-away folder that has the repository's files, with the demo model and the
freshly built program. A block tagged `output` right behind it must match what was printed; `...` in it stands for
anything, also for whole lines. Other blocks are left alone.

usage: run_docs.py BUILD_FOLDER [FILE...]     status 77 where there is no program or no demo model
"""
import glob
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

FENCE = re.compile(r"^```(\w*)[ \t]*\n(.*?)^```[ \t]*$", re.S | re.M)
SECONDS = 240  # for one block


def blocks(path):
    """(line, commands, expected output or None) of each sh block."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for match, after in zip(found, found[1:] + [None]):
        if match.group(1) != "sh":
            continue
        shown = after is not None and after.group(1) == "output"
        yield text.count("\n", 0, match.start()) + 1, match.group(2), after.group(2) if shown else None


def matches(expected, printed):
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


def run_block(commands, folder, build):
    environment = dict(os.environ, PATH=os.path.join(build, "bin") + os.pathsep + os.environ["PATH"], NO_COLOR="1")
    for name in [n for n in environment if n.startswith("QUIPU_")]:
        del environment[name]
    try:
        ran = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment, text=True,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, "", "not done within %d seconds" % SECONDS
    return ran.returncode, ran.stdout, ran.stderr


def run_file(path, folder, build):
    """How many blocks ran, and the failures among them."""
    n, failures = 0, []
    for line, commands, expected in blocks(path):
        start = time.monotonic()
        status, printed, said = run_block(commands, folder, build)
        n += 1
        where = "%s:%d" % (os.path.relpath(path), line)
        if status != 0:
            failures.append("%s: status %s\n%s--- printed\n%s--- said\n%s" % (where, status, commands, printed, said))
        elif expected is not None and not matches(expected, printed):
            failures.append("%s: printed something else\n--- expected\n%s--- printed\n%s" % (where, expected, printed))
        print("%s %-32s %5.1f s" % ("ok    " if not failures or not failures[-1].startswith(where) else "FAILED", where,
                                    time.monotonic() - start))
    return n, failures


def main():
    build = os.path.abspath(sys.argv[1])
    paths = sys.argv[2:] or ["README.md"] + sorted(glob.glob("docs/*.md"))
    for needed in (os.path.join(build, "bin/quipu"), "models/demo/config.json"):
        if not os.path.exists(needed):
            print("SKIP: %s is missing" % os.path.relpath(needed))
            return 77
    total, failures = 0, []
    with tempfile.TemporaryDirectory(prefix="quipu-docs-") as folder:
        for name in os.listdir("."):
            if not name.startswith(".") and not name.startswith("build"):
                os.symlink(os.path.abspath(name), os.path.join(folder, name))
        os.symlink(build, os.path.join(folder, "build"))
        for path in paths:
            n, failed = run_file(path, folder, build)
            total, failures = total + n, failures + failed
    print("\n".join(failures) if failures else "docs: %d blocks did what they say" % total)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
