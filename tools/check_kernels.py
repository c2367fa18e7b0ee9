#!/usr/bin/env python3
"""Checks what ptxas said of every GPU kernel: no spilled registers, no stack frame, beyond what is listed here, and no
warpgroup products that wait for each other.

usage: check_kernels.py BUILD      one line per offence, status 1 if there is any; 77 where no kernel was compiled
"""
import pathlib
import re
import sys

# Bytes of stack that a kernel may have, and why.
ALLOWED = {
    r"k_attend_\w+": 40,  # around the calls for divisions and exponentials, not in a loop over inputs
    r"k_matvec_\w+": 288,  # its arguments, whose parts are found by number; copied once
    r"k_experts_few_3_16_SUPER": 8,  # one number, on sm_80 alone
    r"k_exact_\w+_8": 192,  # addresses of rows, set up once
    r"k_program_plain": 16,  # at the entry, once
    r"k_program_plain_coded": 72,  # likewise; in attention at most 20 bytes
    r"k_turn_128": 16,  # on sm_120 alone
}


def allowance(kernel):
    return max((most for pattern, most in ALLOWED.items() if re.fullmatch(pattern, kernel)), default=0)


def check(text):
    """[(kernel, architecture, bytes, allowed)] of those beyond their allowance, and how many kernels there were."""
    offences, n, current = [], 0, None
    for line in text.splitlines():
        found = re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line)
        if found:
            current, n = found.groups(), n + 1
        found = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line)
        if found and current:
            most = max(map(int, found.groups()))
            if most > allowance(current[0]):
                offences.append((*current, most, allowance(current[0])))
            current = None
    return offences, n


def find_waiting(text):
    """Kernels whose warpgroup products ptxas has put one after the other, which costs half their speed."""
    return re.findall(r"wgmma\.mma_async instructions are serialized .* in the function '(\w+)'", text)


def main():
    logs = sorted(pathlib.Path(sys.argv[1], "cuda").glob("*.fatbin.log"))
    if not logs:
        print("SKIP: this build has compiled no GPU kernels")
        return 77
    total, wrong = 0, 0
    for log in logs:
        offences, n = check(log.read_text())
        total, wrong = total + n, wrong + len(offences)
        for kernel, architecture, found, allowed in offences:
            print(f"{log.name}: {kernel} for {architecture} needs {found} bytes of stack, allowed are {allowed}")
        for kernel in find_waiting(log.read_text()):
            wrong += 1
            print(f"{log.name}: the warpgroup products of {kernel} wait for each other")
    print(f"kernels: {total} in {len(logs)} files, {wrong} beyond their allowance")
    return 1 if wrong or not total else 0


if __name__ == "__main__":
    sys.exit(main())
