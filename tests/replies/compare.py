# SPDX-License-Identifier: BSD-2-Clause
"""Compares two transcripts of replies.py, input by input.

	compare.py KERNEL LIBRARY INTENDED FAMILY PORT

A line of INTENDED allows one difference: "WHERE | INPUT | KERNEL'S LINE | LIBRARY'S LINE". WHERE is
"all", or the family (4, 6), the port (xdp, card), or both (6 card). The input is written as in the
transcript, and either line may be "nothing".  An entry that no input needs is an error, too.
"""
import difflib
import sys


def read(path):
    inputs, name = {}, None
    for line in open(path):
        line = line.rstrip("\n")
        if line.startswith("# "):
            name = line[2:]
            assert name not in inputs, f"{name} is there twice"
            inputs[name] = []
        else:
            inputs[name].append(line)
    return inputs


def read_intended(path, here):
    intended = set()
    for line in open(path):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        where, *rest = (part.strip() for part in line.split(" | "))
        if where == "all" or set(where.split()) <= here:
            intended.add(tuple(rest))
    return intended


def pairs(kernel, library):
    """The lines that differ: one of both, or one and nothing."""
    for what, a, b, c, d in difflib.SequenceMatcher(None, kernel, library, autojunk=False).get_opcodes():
        if what == "equal":
            continue
        for i in range(max(b - a, d - c)):
            yield (kernel[a + i] if a + i < b else "nothing", library[c + i] if c + i < d else "nothing")


def main():
    kernel, library = read(sys.argv[1]), read(sys.argv[2])
    intended, used, bad = read_intended(sys.argv[3], set(sys.argv[4:])), set(), 0
    if kernel.keys() != library.keys():
        sys.exit(f"other inputs: {kernel.keys() ^ library.keys()}")
    for name, lines in kernel.items():
        for pair in pairs(lines, library[name]):
            if (name, *pair) in intended:
                used.add((name, *pair))
                continue
            print(f"{name} | {pair[0]} | {pair[1]}")
            bad += 1
    for waiver in intended - used:
        print("not needed: " + " | ".join(waiver))
        bad += 1
    print(f"{len(kernel)} inputs, {bad} differences that are not intended")
    sys.exit(bad > 0)


main()
