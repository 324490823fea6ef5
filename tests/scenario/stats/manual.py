# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of a document, and compares what they print with what it shows.

    manual.py DOCUMENT LIBRARY PROGRAMS [--write]	PROGRAMS: a directory that is searched first;
						--write: into the document

A block of a document:

    ```console
    HOST$ COMMAND	in a shell of this host, which is one for the whole document
    what it prints	compared by its shape: see shape()
    ```
"""
import os
import re
import subprocess
import sys
import time

NAMESPACES = {"10.9.0.1": "c", "10.9.0.2": "s"}
MARK = "-- done --"
WAIT = 60  # seconds, for a command


class Shell:
    def __init__(self, host, library, programs, directory):
        env = dict(os.environ, PATH=programs + ":" + os.environ["PATH"], PS1="")
        os.makedirs(directory, exist_ok=True)
        self.library = library
        self.directory = directory
        self.process = subprocess.Popen(
            ["nsenter", "--net=/run/netns/" + NAMESPACES[host], "bash"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=directory,
        )

    def run(self, command):
        command = command.replace("libvma.so", self.library)
        log = re.search(r"sockperf .* > (\S+) 2>&1 &$", command)
        if log and os.path.exists(os.path.join(self.directory, log.group(1))):
            os.unlink(os.path.join(self.directory, log.group(1)))  # of an earlier server
        self.process.stdin.write(command + "\necho '%s'\n" % MARK)
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.endswith(MARK + "\n"):
                break
            lines.append(line.rstrip())
        if log:
            self.await_text(log.group(1), "to block on socket" if "sockperf server" in command else "Starting test")
        return lines

    def await_text(self, log, text):
        """A server's sockets are bound, listening, and in their groups; or a client begins to send."""
        end, log = time.monotonic() + WAIT, os.path.join(self.directory, log)
        while not os.path.exists(log) or text not in open(log).read():
            if time.monotonic() > end:
                raise SystemExit("sockperf does not start")
            time.sleep(0.01)


def mask(text, rates):
    """Numbers; with rates, 0 is one, too."""
    return re.sub(r"\d+(\.\d+)?%?", lambda n: "N" if rates or n.group(0) != "0" else "0", text)


def shape(line, rates):
    """
    A number becomes N unless it is 0, and spaces one; addresses and words stay.  What is queued now,
    how often a thread waits, and what happens within a second, may be 0 or not.
    """
    rates = rates or "[miss/hit]" in line or "Sender data" in line
    line = re.sub(r"(cur |max |Timeouts:)0\b", r"\g<1>1", line)
    line = re.sub(r"(10\.9\.0\.\d:)(?!1111)\d+", r"\1PORT", line)
    parts = re.split(r"(\d+\.\d+\.\d+\.\d+(?::\d+)?)", line)  # the odd ones are addresses
    line = "".join(part if i % 2 else mask(part, rates) for i, part in enumerate(parts))
    return re.sub(r" +", " ", line).strip()


def blocks(text):
    return re.finditer(r"```console\n(.*?)```\n", text, re.S)


def commands(block):
    """(host, command, [lines it prints]) of a block."""
    found = []
    for line in block.splitlines():
        prompt = re.match(r"(10\.9\.0\.\d)\$ (.*)", line)
        if prompt:
            found.append((*prompt.groups(), []))
        else:
            found[-1][2].append(line.rstrip())
    return found


def main(document, library, programs, *write):
    text = open(document).read()
    base = os.path.abspath(os.environ["MANUAL_TMP"])
    shells = {host: Shell(host, library, programs, base + "/" + host) for host in NAMESPACES}
    written, bad = text, 0
    for block in blocks(text):
        out = ""
        for host, command, shown in commands(block.group(1)):
            printed = shells[host].run(command)
            out += "".join(line + "\n" for line in ["%s$ %s" % (host, command)] + printed)
            rates = "-d 2" in command
            same = [shape(line, rates) for line in shown] == [shape(line, rates) for line in printed]
            if not write:
                print("ok  " if same else "FAIL", "%s$ %s" % (host, command))
            if not same:
                bad += 1
                print("shown:", *shown, "printed:", *printed, sep="\n")
        written = written.replace(block.group(0), "```console\n" + out + "```\n")
    if write:
        open(document, "w").write(written)
        return 0
    return bad != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
