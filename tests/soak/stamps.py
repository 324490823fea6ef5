"""Messages that contain the time at which they were sent, for mosquitto_pub and mosquitto_sub.

    stamps.py write COUNT RATE      COUNT lines, RATE a second
    stamps.py read FILE COUNT       FILE has lines "received sent"; prints the result of COUNT lines as a
                                    line of tests/soak
"""
import sys
import time


def write(count, rate):
    began = time.monotonic()
    for i in range(count):
        late = began + i / rate - time.monotonic()
        if late > 0:
            time.sleep(late)
        print("%.6f" % time.time(), flush=True)


def read(path, count):
    times = []
    with open(path, encoding="ascii") as lines:
        for line in lines:
            received, sent = line.split()
            times.append(float(received) - float(sent))
    times.sort()
    print("result requests=%d" % len(times), end="")
    if times:
        print(" p99_us=%d max_us=%d" % (times[len(times) * 99 // 100] * 1e6, times[-1] * 1e6), end="")
    print(" errors_lost=%d" % max(count - len(times), 0))


if sys.argv[1] == "write":
    write(int(sys.argv[2]), int(sys.argv[3]))
else:
    read(sys.argv[2], int(sys.argv[3]))
