# SPDX-License-Identifier: BSD-2-Clause
"""Compares two transcripts of replies.py, input by input.

	compare.py KERNEL LIBRARY INTENDED

A line of INTENDED allows one difference: "INPUT | KERNEL'S LINE | LIBRARY'S LINE", where the input
is written as in the transcript, and either line may be "nothing".  An entry that no input
needs is an error, too.
"""
import itertools
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


def read_intended(path):
    intended = set()
    for line in open(path):
        line = line.strip()
        if line and not line.startswith("#"):
            intended.add(tuple(part.strip() for part in line.split(" | ")))
    return intended


def main():
    kernel, library = read(sys.argv[1]), read(sys.argv[2])
    intended, used, bad = read_intended(sys.argv[3]), set(), 0
    if kernel.keys() != library.keys():
        sys.exit(f"other inputs: {kernel.keys() ^ library.keys()}")
    for name, lines in kernel.items():
        for pair in itertools.zip_longest(lines, library[name], fillvalue="nothing"):
            if pair[0] == pair[1]:
                continue
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
