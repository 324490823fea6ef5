"""Judges a load by its record (soak.sh).

    judge.py RECORD

A line for each complaint, "FAIL ...", and status 1; or "ok ...".

Requirements for the library:
 - every line has requests that were answered;
 - its rate stays above 0.9 of its own first minute, if the kernel's does; if the kernel's rate falls,
   above 0.9 of what remains in the same proportion. In less than a minute rates vary with the machine, which
   may lend a processor to another one for a second: the best line of the second half has half of the first half;
 - it has no kind of error that the kernel does not have, nor more than twice as many (five more in less than a
   minute: a busy machine delays a server's start);
 - the same side closes first as with the kernel: at most twice the TIME_WAITs at the client;
 - memory, descriptors, frames, rings and map entries do not grow, except by what the same program
   needs without the library;
 - its packets bypass the kernel, and it prints no warning;
 - nothing is left when the programs have ended.
"""
import sys

SHORT = 60      # seconds of a run: a shorter one shows that nothing breaks, not that nothing fades
KEPT = 0.9
KEPT_SHORT = 0.5
FIRST = 60.0    # seconds of load for the reference rate
WINDOW = 5.0    # minimum of seconds for a rate: shorter rates vary
TIME_WAIT = 60  # seconds
CLOSES = 0.002  # of the clients' connections that the kernel's server closes first
# At 20,000 connections a second a client has ports for 2 %.  On a machine where wake-ups are dear, servers that are
# reloaded each second had 0.9 to 1.2 %.
CLOSES_SHORT = 0.01
KEEPERS = 4096  # limit of descriptors that keep the ports of connections in TIME_WAIT

# Values that must not grow: allowed variation, relative and absolute.
GROWTH = {
    "memory_kb": (0.05, 2048),
    "fds": (0.0, 16),
    "frames": (0.05, 64),
    "rings": (0.0, 2),
    "entries": (0.1, 1000),
}
ERRORS_SHORT = 5
RINGS_SHORT = 8 # those of clients that have just ended count, too, and a third is one line then


class Run:
    def __init__(self, path):
        self.head, self.samples, self.rest = {}, {"ours": [], "kernel": []}, []
        self.finish = {"ours": {}, "kernel": {}}
        with open(path, encoding="utf-8") as record:
            for line in record:
                self.take(line.split())

    def take(self, words):
        if not words:
            return
        if words[0] == "load":
            self.head = dict(zip(words[::2], words[1::2]))
        elif words[0].startswith("line="):
            values = dict(word.split("=", 1) for word in words)
            pair = values.pop("pair")
            self.samples[pair].append({key: float(value or 0) for key, value in values.items()})
        elif words[0] == "finish":
            values = dict(word.split("=", 1) for word in words[1:])
            pair = values.pop("pair")
            self.finish[pair] = {key: float(value) for key, value in values.items()}
        elif words[0] in ("left", "warned"):
            self.rest.append(" ".join(words))


def is_short(run):
    return int(run.head["seconds"]) < SHORT


def rate(samples):
    return sum(s["requests"] for s in samples) * 1000 / sum(s["ms"] for s in samples)


def lines_of(samples, seconds):
    """The number of lines with about this many seconds of load."""
    return max(1, round(seconds * 1000 * len(samples) / sum(s["ms"] for s in samples)))


def is_complete(run):
    samples = run.samples["ours"] + run.samples["kernel"]
    return run.head and all(s["ms"] > 0 for s in samples) and \
        {len(lines) for lines in run.samples.values()} == {int(run.head["lines"])}


def judge_requests(run):
    for s in run.samples["ours"]:
        if not s["requests"]:
            yield "line %d: no request was answered" % s["line"]


def judge_short_rates(run):
    kept = []
    for samples in (run.samples["ours"], run.samples["kernel"]):
        half = len(samples) // 2
        kept.append(max(rate([s]) for s in samples[half:]) / max(rate(samples[:half]), 1e-9))
    if kept[0] < KEPT_SHORT * min(kept[1], 1):
        yield "the rate is at most %.2f of what it was in the first half, the kernel's %.2f" % tuple(kept)


def judge_rates(run):
    if is_short(run):
        yield from judge_short_rates(run)
        return
    ours, kernel = run.samples["ours"], run.samples["kernel"]
    window = min(lines_of(ours, WINDOW), max(1, len(ours) // 2))
    # A slice is half of the time of a line: 30 s of 60 s.
    first = min(max(lines_of(ours, FIRST / 2), window), max(1, len(ours) // 2))
    for i in range(first, len(ours) - window + 1):
        part = [rate(s[i:i + window]) / max(rate(s[:first]), 1e-9) for s in (ours, kernel)]
        if part[0] < KEPT * min(part[1], 1) or part[0] < KEPT <= part[1]:
            yield "line %d: the rate is %.2f of what it was at first, the kernel's %.2f" % (
                ours[i]["line"], part[0], part[1])


def errors(run, pair):
    sums = {}
    for s in run.samples[pair] + [run.finish[pair]]:
        for key, value in s.items():
            if key.startswith("errors_"):
                sums[key[7:]] = sums.get(key[7:], 0) + value
    return sums


def judge_errors(run):
    kernel = errors(run, "kernel")
    more = ERRORS_SHORT if is_short(run) else 0
    for kind, count in sorted(errors(run, "ours").items()):
        if count > 2 * kernel.get(kind, 0) + more:
            yield "%d errors (%s), the kernel has %d" % (count, kind, kernel.get(kind, 0))


def judge_closers(run):
    """The side that closes first keeps TIME_WAITs: if it is the server, the clients' ports must not run out."""
    if run.head["side"] != "server" or run.head["churns"] != "1":
        return
    part = []
    for samples in (run.samples["ours"], run.samples["kernel"]):
        # For the last minute, like the TIME_WAITs.
        last = samples[-lines_of(samples, TIME_WAIT / 2):]
        part.append(last[-1]["tw_c"] / max(sum(s["requests"] for s in last), 1))
    if part[0] > 2 * part[1] + (CLOSES_SHORT if is_short(run) else CLOSES):
        yield "of %.2f %% of the connections the client waits, with the kernel of %.2f %%" % (
            100 * part[0], 100 * part[1])


def steady(run, key):
    """The first line after which nothing should grow."""
    ours, passed = run.samples["ours"], 0.0
    if run.head["churns"] == "0" or key == "frames":
        return (len(ours) + 2) // 3 - 1
    for i, s in enumerate(ours):
        # Both pairs run in turns.
        passed += 2 * s["ms"]
        if passed > TIME_WAIT * 1000:
            return i
    return len(ours)


def values(run, pair, key):
    return [s[key] for s in run.samples[pair][steady(run, key):]]


def less_keepers(run, pair):
    """Descriptors, less the map entries, each of which may have one that keeps a port."""
    lines = run.samples[pair][steady(run, "fds"):]
    return [s["fds"] - min(s["entries"], KEEPERS) for s in lines]


def trend(lines):
    """The rise from the first to the last value, by least squares."""
    n = len(lines)
    middle, mean = (n - 1) / 2, sum(lines) / n
    slope = sum((i - middle) * (v - mean) for i, v in enumerate(lines)) / \
        sum((i - middle) ** 2 for i in range(n))
    return slope * (n - 1)


def growth(key, ours, kernel, short):
    """By how much a value of ours has grown; 0: not more than it may."""
    part, number = GROWTH[key]
    if short and key == "rings":
        number = RINGS_SHORT
    if len(ours) < 3:
        return 0
    third = (len(ours) + 2) // 3
    # The program itself may need more memory; the kernel's pair then needs as much.
    risen = trend(ours) - max(trend(kernel), 0)
    # A value that varies has no third that is completely above another third.
    grows = min(ours[-third:]) > max(ours[:third]) and risen > abs(ours[0]) * part + number
    return risen if grows else 0


def judge_growth(run):
    for key in GROWTH:
        ours = values(run, "ours", key)
        risen = growth(key, ours, values(run, "kernel", key), is_short(run))
        # Entries come and go without keepers, too: then only the difference seems to grow.
        if key == "fds":
            risen = min(risen, growth(key, less_keepers(run, "ours"), less_keepers(run, "kernel"),
                                      is_short(run)))
        if risen:
            yield "%s grows: by %d, from %d to %d" % (key, risen, ours[0], ours[-1])


def judge_way(run):
    for s in run.samples["ours"]:
        if s["requests"] and s["by_kernel"] * 2 >= s["requests"]:
            yield "line %d: the kernel handled %d packets of %d requests" % (
                s["line"], s["by_kernel"], s["requests"])


def main():
    run = Run(sys.argv[1])
    complaints = []
    if not is_complete(run):
        complaints.append("the record is not complete")
    else:
        for rule in (judge_requests, judge_rates, judge_errors, judge_closers, judge_growth,
                     judge_way):
            complaints += rule(run)
    complaints += run.rest
    name = "%s %s" % (run.head.get("load", "?"), run.head.get("side", "?"))
    for complaint in complaints:
        print("FAIL %s: %s" % (name, complaint))
    if not complaints:
        print("ok   %s" % name)
    sys.exit(bool(complaints))


main()
