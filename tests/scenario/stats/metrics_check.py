# SPDX-License-Identifier: BSD-2-Clause
"""Checks texts for metrics_test.sh; exits with 1 and the reason.

    metrics_check.py format < TEXT		OpenMetrics 1.0, as far as counters, gauges and histograms go
    metrics_check.py dashboard FILE < TEXT	metrics of a Grafana dashboard; TEXT has samples of all
    metrics_check.py get URL STATUS TYPE	prints the body; TYPE: of the content, or - for any
"""
import json, re, sys, urllib.error, urllib.request

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\n"])*"'
SAMPLE = re.compile(r"(%s)(?:\{(%s(?:,%s)*)?\})? (\d+(?:\.\d+)?)" % (NAME, LABEL, LABEL))
META = re.compile(r"# (TYPE|HELP|UNIT) (%s) (.*)" % NAME)
SUFFIXES = {
    "counter": ["_total"],
    "gauge": [""],
    "histogram": ["_bucket", "_count", "_sum"],
}


def fail(*why):
    sys.exit("metrics_check.py: " + " ".join(map(str, why)))


class Parser:
    """metrics: of each family all names of its samples; with_samples: those there are."""

    def __init__(self, text):
        self.families, self.series, self.with_samples = {}, set(), set()
        self.family = None
        if not text.endswith("\n# EOF\n") and text != "# EOF\n":
            fail("does not end with # EOF and a line feed")
        for number, line in enumerate(text[:-1].split("\n")[:-1], 1):
            try:
                self.meta(line) if line.startswith("#") else self.sample(line)
            except ValueError as e:
                fail("line %d: %s: %s" % (number, e, line))

    def meta(self, line):
        m = META.fullmatch(line)
        if not m:
            raise ValueError("neither TYPE, HELP nor UNIT")
        what, name, value = m.groups()
        if name != self.family:
            if name in self.families:
                raise ValueError("interleaved families")
            self.family, self.families[name] = name, {}
        of = self.families[name]
        if what in of or "sampled" in of:
            raise ValueError("%s twice, or after a sample" % what)
        if what == "TYPE" and value not in SUFFIXES:
            raise ValueError("unknown type")
        if what == "TYPE" and any(s and name.endswith(s) for s in SUFFIXES[value]):
            raise ValueError("the suffix is not part of a family's name")
        if what == "HELP" and re.search(r'\\(?![\\n"])', value):
            raise ValueError("escaping")
        of[what] = value

    def sample(self, line):
        m = SAMPLE.fullmatch(line)
        if not m:
            raise ValueError("no sample")
        name, labels, _ = m.groups()
        of = self.families.get(self.family)
        if not of or "TYPE" not in of or "HELP" not in of:
            raise ValueError("a sample before TYPE and HELP")
        if name not in [self.family + s for s in SUFFIXES[of["TYPE"]]]:
            raise ValueError("not a sample of %s, a %s" % (self.family, of["TYPE"]))
        pairs = re.findall(LABEL, labels or "")
        keys = [pair.split("=")[0] for pair in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError("a label twice")
        if (name, frozenset(pairs)) in self.series:
            raise ValueError("a sample twice")
        self.series.add((name, frozenset(pairs)))
        self.with_samples.add(name)
        of["sampled"] = True

    def metrics(self):
        return {name + s for name, of in self.families.items() for s in SUFFIXES[of["TYPE"]]}


def expressions(node):
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("expr", "query", "definition") and isinstance(value, str):
                yield value
            else:
                yield from expressions(value)
    elif isinstance(node, list):
        for value in node:
            yield from expressions(value)


def dashboard(path, parser):
    with open(path) as f:
        board = json.load(f)
    used = set()
    for expr in expressions(board):
        used |= set(re.findall(r"\bvma_\w+", expr))
    if not used:
        fail("no metric in", path)
    if used - parser.metrics():
        fail("not printed by vma_stats:", *sorted(used - parser.metrics()))
    for panel in board["panels"]:
        if not panel["targets"] or not all("vma_" in t["expr"] for t in panel["targets"]):
            fail("a panel without metrics:", panel["title"])
    kinds = [v["type"] for v in board["templating"]["list"]]
    if kinds != ["datasource", "query", "query"]:
        fail("variables:", *kinds)


def get(url, status, kind):
    try:
        with urllib.request.urlopen(url, timeout=20) as reply:
            got, body = reply, reply.read()
    except urllib.error.HTTPError as e:
        got, body = e, e.read()
    sys.stdout.write(body.decode("utf-8"))
    sys.stdout.flush()
    if got.getcode() != int(status):
        fail("status", got.getcode())
    if kind not in ("-", got.headers["Content-Type"]):
        fail("content type", got.headers["Content-Type"])


if sys.argv[1] == "get":
    get(*sys.argv[2:])
else:
    parsed = Parser(sys.stdin.buffer.read().decode("utf-8"))
    if sys.argv[1] == "dashboard":
        dashboard(sys.argv[2], parsed)
