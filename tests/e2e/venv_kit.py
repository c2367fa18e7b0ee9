"""A virtual environment in the folder of the build that several tests share: made once, filled as each needs it.

Tests run side by side, so making and filling happens behind a lock. Where it cannot be done (no network, no venv
module), callers get None and say that they are skipped.
"""
import fcntl
import os
import subprocess
import sys

SECONDS = 240
QUICKLY = ["install", "-q", "--no-compile", "--no-input", "--disable-pip-version-check"]


def run_quietly(command, cwd=None):
    """Whether it ended well."""
    try:
        return subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=SECONDS,
                check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def build_folder(program):
    """The folder that holds bin/quipu."""
    return os.path.dirname(os.path.dirname(os.path.abspath(program)))


def python_with(folder, packages):
    """The interpreter of `folder`/venv with all of these packages of PyPI installed, or None."""
    where = os.path.join(folder, "venv")
    python = os.path.join(where, "bin", "python3")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "venv.lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(python) and not run_quietly([sys.executable, "-m", "venv", where]):
            return None
        done = os.path.join(folder, "venv.installed")
        with open(done, "a+", encoding="utf-8") as file:
            file.seek(0)
            there = file.read().split()
            missing = [package for package in packages if package not in there]
            if missing and not run_quietly([python, "-m", "pip", *QUICKLY, *missing]):
                return None
            file.write("".join(package + "\n" for package in missing))
    return python
