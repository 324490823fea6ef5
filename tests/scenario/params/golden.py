"""golden.py NAME: standard input against an example of the manuals, NAME.seed.

The differences must be those of NAME.intended, in this order: "-" what the manual has, "+" what
the library has, and "#" in front of each group the reason. Exit status 0: just so.
"""
import difflib
import os
import re
import sys

FRAME = re.compile(r"\*{5,}$")


def lines_of(text):
    """What is said; not how a line of a frame begins and ends, which the manuals vary."""
    for line in text.splitlines():
        line = re.sub(r"^ *VMA:? *_?(?=[A-Z]+ *:)", "VMA ", line.replace("VMA_WARNING", "VMA WARNING"))
        line = re.sub(r"^VMA ([A-Z_]+) *: ?", r"VMA \1: ", line.replace("VMA _", "VMA "))
        level, _, said = line.partition(": ")
        if FRAME.match(said.strip()) or not said:
            continue
        if said.startswith("*"):
            said = said.strip().strip("*").strip()
        said = re.sub(r"max locked memory is: \d+", "max locked memory is: N", said)
        said = re.sub(r"^Interface \S+ ", "Interface IF ", said)
        said = re.sub(r"^(Cmd Line|Node): .*", r"\1: ...", said)
        said = re.sub(r"^Pid: +\d+$", "Pid: ...", said)
        said = re.sub(r"^(Current Time: ).{24}", r"\1...", said)
        yield "%s: %s" % (level, said.rstrip())


def main(name):
    base = os.path.join(os.path.dirname(__file__), "golden", name)
    with open(base + ".seed") as file:
        seed = list(lines_of(file.read()))
    with open(base + ".intended") as file:
        intended = [line.rstrip("\n") for line in file]
    if intended and not intended[0].startswith("#"):
        sys.exit("%s.intended: the first line is no reason" % base)
    wanted = [line for line in intended if not line.startswith("#")]
    ours = list(lines_of(sys.stdin.read()))
    found = [
        line.rstrip("\n")
        for line in difflib.unified_diff(seed, ours, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    ]
    if found == wanted:
        return
    print("\n".join(difflib.unified_diff(wanted, found, name + ".intended", "found", lineterm="")))
    sys.exit(1)


main(sys.argv[1])
