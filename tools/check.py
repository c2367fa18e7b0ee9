#!/usr/bin/env python3
"""The whole of `make check`: builds every kind, runs its tests, and adds them up.

Each kind is one row of KINDS: a preset of CMakePresets.json, what to build and which tests to run. The unit tests are
counted one by one (a cmocka program holds several), so that a skipped one cannot hide in a program that passed. The
last line is `N passed, N failed, N skipped`; above it stands each skipped test with its reason.

usage: check.py [KIND...]

Without names: the kinds without sanitizers, which take a dozen minutes on two cores; where CI is set all of them, and
"kernels", which compiles those for GPUs.
"""
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

Kind = collections.namedtuple("Kind", "name folder needs targets tests what")
KINDS = [
    Kind("release", "build", "gcc", ["all", "bench_programs"], [],
         "gcc, optimised: all tests, the checks of the house, bench programs"),
    Kind("clang", "build-clang", "clang", [], ["-L", "unit"], "clang, optimised: all unit tests"),
    Kind("fuzz", "build-fuzz", "clang", [], ["-L", "unit"], "clang with ASan and UBSan: all unit tests"),
    Kind("tsan", "build-tsan", "gcc", ["thread_tests"], ["-L", "threads"], "ThreadSanitizer: tests that use threads"),
]
ONLY_IN_CI = ("fuzz", "tsan", "kernels")
FUZZ_SECONDS = 5
FUZZ_SEED = 1  # the same inputs in every check; `make fuzz` looks further
ARCHITECTURES = "80;90a"  # of GPUs: an old one and one with kernels of its own; `make kernels` compiles for all
Tally = collections.namedtuple("Tally", "passed failed skipped")  # lists of names; skipped: (name, reason)


def run_logged(command, log):
    """Runs with all output in `log`; the status."""
    with open(log, "w") as out:
        return subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode


def fail_with(log, what):
    print("\n".join(pathlib.Path(log).read_text(errors="replace").splitlines()[-60:]))
    print("check: %s failed; all of its output: %s" % (what, log))


def compiles_kernels_once():
    """CI without a GPU compiles kernels in their own kind: a toolchain that one run left must not slow the next."""
    return bool(os.environ.get("CI")) and not os.path.exists("/dev/nvidiactl")


def build(kind):
    os.makedirs(kind.folder, exist_ok=True)
    log = os.path.join(kind.folder, "check-build.log")
    options = [] if kind.needs == "clang" else ["-DCMAKE_C_COMPILER=gcc"]
    if compiles_kernels_once():
        options.append("-DQUIPU_CUDA=OFF")
    if run_logged(["cmake", "--preset", kind.name] + options, log) != 0:
        return fail_with(log, "configuring %s" % kind.name)
    command = ["cmake", "--build", kind.folder] + (["--target"] + kind.targets if kind.targets else [])
    if run_logged(command, log) != 0:
        return fail_with(log, "building %s" % kind.name)
    return True


def count_units(output):
    """The cmocka tests in a program's output as a Tally, or None where it is no cmocka program."""
    passed, failed, skipped, said = [], [], [], []
    for line in output.splitlines():
        match = re.match(r"\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] (\w+)$", line)
        if not match or line.startswith("[  FAILED  ] tests"):
            said.append(line)
        elif match.group(1) == "RUN":
            said = []
        elif match.group(1) == "OK":
            passed.append(match.group(2))
        elif match.group(1) == "FAILED" and match.group(2) not in failed:
            failed.append(match.group(2))
        elif match.group(1) == "SKIPPED" and match.group(2) not in [name for name, _ in skipped]:
            skipped.append((match.group(2), reason_in(said)))
    return Tally(passed, failed, skipped) if passed or failed or skipped else None


def reason_in(lines):
    """What a test said about being skipped."""
    said = [line.split("SKIP:", 1)[1].strip() for line in lines if "SKIP:" in line]
    return said[-1] if said else " ".join(line.strip() for line in lines if line.strip())[:200] or "it did not say why"


def add_program(tally, kind, case):
    """Adds one CTest entry: its cmocka tests one by one, or itself."""
    name, status = case.get("name"), case.get("status")
    output = (case.findtext("system-out") or "") + (case.findtext("system-err") or "")
    units = count_units(output)
    label = "%s/%s" % (kind.name, name)
    if units:
        tally.passed.extend("%s.%s" % (label, unit) for unit in units.passed)
        tally.failed.extend("%s.%s" % (label, unit) for unit in units.failed)
        tally.skipped.extend(("%s.%s" % (label, unit), why) for unit, why in units.skipped)
        if status == "fail" and not units.failed:
            tally.failed.append("%s (it ended with an error)" % label)
    elif status == "run":
        tally.passed.append(label)
    elif status == "fail" or not is_skipped(case):
        tally.failed.append(label)
    else:
        tally.skipped.append((label, reason_in(output.splitlines())))
    if status == "fail":
        print("---- %s\n%s\n----" % (label, output.strip()[-6000:]))


def is_skipped(case):
    """A test that ended with 77 skipped itself; one whose program is missing did not run at all."""
    said = case.find("skipped")
    return said is not None and "SKIP_RETURN_CODE" in said.get("message", "")


def run_tests(kind, tally):
    report = os.path.abspath(os.path.join(kind.folder, "check-tests.xml"))
    log = os.path.join(kind.folder, "check-tests.log")
    if os.path.exists(report):
        os.remove(report)
    run_logged(["tools/fixed_addresses.sh", "ctest", "--test-dir", kind.folder, "--no-tests=error",
                "-j", str(len(os.sched_getaffinity(0))), "--output-junit", report,
                "--test-output-size-passed", "4000000", "--test-output-size-failed", "4000000"] + kind.tests, log)
    if not os.path.exists(report):
        fail_with(log, "running the tests of %s" % kind.name)
        tally.failed.append("%s/tests" % kind.name)
        return
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        add_program(tally, kind, case)


def run_fuzzers(tally):
    log = "build-fuzz/check-fuzz.log"
    status = run_logged(["tools/fuzz.sh", str(FUZZ_SECONDS), str(FUZZ_SEED)], log)
    output = pathlib.Path(log).read_text(errors="replace")
    for mark, name in re.findall(r"^\[\s*(OK|FAILED)\s*\] (fuzz_\w+)", output, re.M):
        (tally.passed if mark == "OK" else tally.failed).append("fuzz/%s for %d s" % (name, FUZZ_SECONDS))
    if status == 77:
        tally.skipped.append(("fuzz/fuzzing", reason_in(output.splitlines())))
    elif status != 0:
        print(output[-6000:])
        tally.failed.append("fuzz/fuzzing")


def run_kernels(tally):
    """Every GPU kernel compiled and none with spilled registers, where nvcc is there or can be fetched."""
    start, log = time.monotonic(), "build-kernels.log"
    print("== kernels: nvcc, for %s: no spills" % ARCHITECTURES, flush=True)
    status = run_logged(["tools/kernels.sh", ARCHITECTURES], log)
    if status == 0:
        tally.passed.append("kernels/no spills")
    elif status == 77:
        tally.skipped.append(("kernels", reason_in(pathlib.Path(log).read_text(errors="replace").splitlines())))
    else:
        fail_with(log, "compiling the kernels")
        tally.failed.append("kernels/no spills")
    print("   ended with %d after %.0f s" % (status, time.monotonic() - start), flush=True)


def run_kind(kind, tally):
    start = time.monotonic()
    print("== %s: %s" % (kind.name, kind.what), flush=True)
    if not shutil.which(kind.needs):
        tally.skipped.append((kind.name, "%s is not installed" % kind.needs))
        return
    if not build(kind):
        tally.failed.append("%s/build" % kind.name)
        return
    built, before = time.monotonic(), Tally(*map(len, tally))
    run_tests(kind, tally)
    if kind.name == "fuzz":
        run_fuzzers(tally)
    n = [len(now) - was for now, was in zip(tally, before)]
    print("   built in %.0f s, tested in %.0f s: %d passed, %d failed, %d skipped" %
          (built - start, time.monotonic() - built, *n), flush=True)


def summarise(tally, seconds):
    reasons = collections.OrderedDict()
    for name, why in tally.skipped:
        reasons.setdefault((name.split("/", 1)[-1], why), []).append(name.split("/")[0])
    for (name, why), kinds in reasons.items():
        print("skipped: %s (%s): %s" % (name, ", ".join(kinds), why))
    for name in tally.failed:
        print("failed: %s" % name)
    print("check took %d min %d s" % divmod(round(seconds), 60))
    print("%d passed, %d failed, %d skipped" % tuple(map(len, tally)))


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    names = [kind.name for kind in KINDS] + ["kernels"]
    wanted = sys.argv[1:] or [name for name in names if os.environ.get("CI") or name not in ONLY_IN_CI]
    unknown = set(wanted) - set(names)
    if unknown:
        sys.exit("check.py: no such kind: %s (there are %s)" % (" ".join(unknown), " ".join(names)))
    start, tally = time.monotonic(), Tally([], [], [])
    for kind in KINDS:
        if kind.name in wanted:
            run_kind(kind, tally)
    if "kernels" in wanted:
        run_kernels(tally)
    if not sys.argv[1:] and len(wanted) < len(names):
        print("left to CI: the same under sanitizers (`make fuzz`) and the GPU kernels (`make kernels`)")
    summarise(tally, time.monotonic() - start)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
