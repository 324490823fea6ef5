#!/usr/bin/python3
"""Offline stand-in for Bazel's CoverageOutputGenerator.

Per test:   lcov.py --coverage_dir=DIR --output_file=F --source_file_manifest=M ...
            runs gcov on every .gcda under DIR.
Combined:   lcov.py --reports_file=LIST --output_file=F
            merges the LCOV files named in LIST.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys


class Report:
    def __init__(self):
        self.lines = collections.defaultdict(collections.Counter)  # file -> line -> hits
        self.funcs = collections.defaultdict(dict)  # file -> name -> [line, hits]

    def line(self, path, no, hits):
        self.lines[path][no] += hits

    def func(self, path, name, no, hits):
        entry = self.funcs[path].setdefault(name, [no, 0])
        entry[1] += hits

    def add_gcov(self, doc, keep):
        for f in doc["files"]:
            path = os.path.normpath(f["file"])
            path = re.sub(r"^/proc/self/cwd/", "", path)
            if not keep(path):
                continue
            self.lines[path]  # an entry even when empty
            for fn in f["functions"]:
                self.func(path, fn["demangled_name"], fn["start_line"], fn["execution_count"])
            seen = {}
            for ln in f["lines"]:
                no = ln["line_number"]
                seen[no] = max(seen.get(no, 0), ln["count"])
            for no, hits in seen.items():
                self.line(path, no, hits)

    def add_lcov(self, stream):
        path = None
        decl = {}
        for raw in stream:
            tag, _, rest = raw.rstrip("\n").partition(":")
            if tag == "SF":
                path, decl = rest, {}
                self.lines[path]
            elif tag == "FN":
                no, _, name = rest.partition(",")
                decl[name] = int(no)
                self.func(path, name, int(no), 0)
            elif tag == "FNDA":
                hits, _, name = rest.partition(",")
                self.func(path, name, decl.get(name, 0), int(hits))
            elif tag == "DA":
                no, hits = rest.split(",")[:2]
                self.line(path, int(no), int(hits))

    def write(self, out):
        for path in sorted(self.lines):
            out.write("SF:%s\n" % path)
            funcs = self.funcs.get(path, {})
            for name in sorted(funcs):
                out.write("FN:%d,%s\n" % (funcs[name][0], name))
            for name in sorted(funcs):
                out.write("FNDA:%d,%s\n" % (funcs[name][1], name))
            out.write("FNF:%d\nFNH:%d\n" % (len(funcs), sum(1 for v in funcs.values() if v[1])))
            lines = self.lines[path]
            for no in sorted(lines):
                out.write("DA:%d,%d\n" % (no, lines[no]))
            out.write("LH:%d\nLF:%d\nend_of_record\n"
                      % (sum(1 for v in lines.values() if v), len(lines)))


def main(argv):
    opts = collections.defaultdict(list)
    for arg in argv:
        name, _, value = arg.lstrip("-").partition("=")
        opts[name].append(value)
    report = Report()
    if "reports_file" in opts:
        for name in open(opts["reports_file"][0]).read().split():
            if name.endswith(".dat") and os.path.exists(name):
                with open(name) as f:
                    report.add_lcov(f)
    else:
        drop = [re.compile(p) for p in opts["filter_sources"]]
        wanted = None
        notes = {}
        if opts["source_file_manifest"]:
            entries = open(opts["source_file_manifest"][0]).read().split()
            wanted = {e for e in entries if not e.endswith(".gcno")}
            notes = {e[:-5]: e for e in entries if e.endswith(".gcno")}

        def keep(path):
            if any(r.fullmatch(path) for r in drop):
                return False
            return wanted is None or path in wanted

        gcov = os.environ.get("COVERAGE_GCOV_PATH") or "gcov"
        root = os.environ.get("ROOT", os.getcwd())
        cov = opts["coverage_dir"][0]
        for where, _, names in os.walk(cov):
            for name in names:
                if not name.endswith(".gcda"):
                    continue
                gcda = os.path.join(where, name)
                stem = os.path.relpath(gcda, cov)[:-5]
                gcno = gcda[:-5] + ".gcno"
                if not os.path.exists(gcno):
                    if stem not in notes:
                        continue
                    shutil.copyfile(os.path.join(root, notes[stem]), gcno)
                text = subprocess.run([gcov, "--json-format", "--stdout", gcda], check=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
                for doc in text.splitlines():
                    if doc.startswith(b"{"):
                        report.add_gcov(json.loads(doc), keep)
    with open(opts["output_file"][0], "w") as out:
        report.write(out)


main(sys.argv[1:])
