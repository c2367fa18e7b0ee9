"""tools/setup.sh on made-up machines: a PATH of stand-ins for dpkg-query, apt-get, sudo and id says what is installed,
what may be done and what fails; the test looks at the status, the words and the calls."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/setup.sh")
TOOLS = ["bash", "env", "sed", "grep", "head", "tail", "mktemp", "rm", "cat"]
DEMO = ["gcc", "libc6-dev", "cmake", "ninja-build", "pkg-config", "libjansson-dev", "libpcre2-dev", "libutf8proc-dev",
        "libxxhash-dev", "libyaml-dev", "libmicrohttpd-dev", "libedit-dev"]


class Machine:
    """installed: packages. update, install: what apt-get says and its status; a successful install really adds."""

    def __init__(self, installed, root=True, sudo=True, dpkg=True, update="", install=""):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        for tool in TOOLS:
            os.symlink(shutil.which(tool), self.path / tool)
        (self.path / "installed").write_text("".join(p + "\n" for p in installed))
        if dpkg:
            self.stand_in("dpkg-query", 'sed "s/$/:amd64 installed/" $HERE/installed')
        self.stand_in("id", "echo %d" % (0 if root else 1000))
        self.stand_in("apt-cache", "exit 1")
        self.stand_in("apt-get", 'echo "$@" >>$HERE/calls\n'
                      'case "$*" in *update*) what="%s" ;; *) what="%s" ;; esac\n'
                      'if [ -n "$what" ]; then echo "$what" >&2; exit 100; fi\n'
                      'for p; do case $p in [a-z]*) echo $p >>$HERE/installed ;; esac; done\n' % (update, install))
        if sudo:
            self.stand_in("sudo", 'echo "sudo" >>$HERE/calls\nexec "$@"')

    def stand_in(self, name, text):
        file = self.path / name
        file.write_text("#!%s\nHERE=%s\n%s\n" % (shutil.which("bash"), self.path, text))
        file.chmod(0o755)

    def run(self, *arguments, **variables):
        ran = subprocess.run([str(self.path / "bash"), SCRIPT] + list(arguments), capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, env=dict({"PATH": str(self.path)}, **variables))
        calls = self.path / "calls"
        return ran.returncode, ran.stdout + ran.stderr, calls.read_text() if calls.exists() else ""


class Setup(unittest.TestCase):
    def check(self, machine, arguments, status, words, calls, **variables):
        with machine.folder:
            got, said, called = machine.run(*arguments, **variables)
        self.assertEqual(status, got, said)
        for word in words:
            self.assertIn(word, said)
        for word in calls:
            self.assertIn(word, called)
        if not calls:
            self.assertEqual("", called)
        return said

    def test_nothing_missing(self):
        self.assertEqual("", self.check(Machine(DEMO, root=False, sudo=False), [], 0, [], []))

    def test_root_installs_only_what_is_missing(self):
        without = [p for p in DEMO if p not in ("cmake", "libjansson-dev")]
        self.check(Machine(without), ["demo"], 0, ["cmake: finds the libraries", "libjansson-dev: JSON", "done"],
                   ["install --no-install-recommends cmake libjansson-dev\n"])

    def test_a_command_that_is_there_is_enough(self):
        machine = Machine([p for p in DEMO if p != "cmake"])
        machine.stand_in("cmake", "")
        self.check(machine, [], 0, [], [])

    def test_only_telling(self):
        self.check(Machine(DEMO[1:]), ["-n"], 1, ["gcc: the C compiler"], [])

    def test_no_terminal_and_no_yes(self):
        self.check(Machine(DEMO[1:], root=False), [], 1,
                   ["no terminal", "sudo apt-get update && sudo apt-get install --no-install-recommends gcc"], [])

    def test_yes_and_ci_use_sudo(self):
        self.check(Machine(DEMO[1:], root=False), ["-y"], 0, ["done"], ["sudo", "install"])
        self.check(Machine(DEMO[1:], root=False), [], 0, ["done"], ["sudo", "install"], CI="1")

    def test_no_sudo(self):
        self.check(Machine(DEMO[1:], root=False, sudo=False), ["-y"], 1, ["there is no sudo", "apt-get install"], [])

    def test_no_network(self):
        self.check(Machine(DEMO[1:], update="E: Could not resolve host", install="E: Unable to locate package"), [], 1,
                   ["Could not resolve", "is the network there"], ["install", "update"])

    def test_unknown_package(self):
        self.check(Machine(DEMO[1:], install="E: Unable to locate package gcc"), [], 1,
                   ["Unable to locate package gcc", "apt-get install failed", "Wanted: gcc"], ["install", "update"])

    def test_apt_that_lies(self):
        machine = Machine(DEMO[1:])
        machine.stand_in("apt-get", "exit 0")
        self.check(machine, [], 1, ["still not there: gcc"], [])

    def test_the_page_is_no_condition(self):
        said = self.check(Machine(DEMO, install="E: Unable to locate package esbuild"), ["demo", "page"], 0,
                          ["no package node-markdown-it, going on"], ["install", "update"])
        self.assertNotIn("done", said)
        self.check(Machine(DEMO, root=False), ["demo", "page"], 0, ["no terminal", "going on without: esbuild"], [])
        self.check(Machine(DEMO, root=False, sudo=False), ["-y", "demo", "page", "browser"], 0,
                   ["there is no sudo", "going on without"], [])
        self.check(Machine(DEMO[1:], root=False, sudo=False), ["-y", "demo", "page"], 1, ["there is no sudo"], [])
        self.check(Machine(DEMO), ["demo", "page"], 0, ["esbuild: bundles", "done"],
                   ["install --no-install-recommends esbuild python3 node-markdown-it"])

    def test_the_page_alone(self):
        self.check(Machine(DEMO, install="E: Unable to locate package esbuild"), ["page"], 1,
                   ["apt-get install failed"], ["update"])

    def test_another_distribution(self):
        self.check(Machine([], dpkg=False), [], 0, ["no Debian or Ubuntu", "libjansson-dev"], [])

    def test_wrong_usage(self):
        self.check(Machine(DEMO), ["everything"], 2, ["'everything' is neither"], [])


if __name__ == "__main__":
    unittest.main()
