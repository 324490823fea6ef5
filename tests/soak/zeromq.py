"""Publish and subscribe by ZeroMQ.

    zeromq.py relay HOST PORT           publishes at PORT + 1 the messages pushed to PORT
    zeromq.py ask HOST PORT SECONDS     pushes, and subscribes

ask keeps WINDOW messages in transit, and ends with a line of tests/soak.
"""
import struct
import sys
import time

import zmq

WINDOW = 32
PATIENCE = 2000  # ms


def relay(context, url, port):
    pull, publish = context.socket(zmq.PULL), context.socket(zmq.PUB)
    pull.bind(url % port)
    publish.bind(url % (port + 1))
    zmq.proxy(pull, publish)


def subscribed(push, subscriber):
    """Messages that are published before the relay has the subscription are lost, by design."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        push.send(b"hello")
        if subscriber.poll(50):
            while subscriber.poll(200):
                subscriber.recv()
            return True
    return False


def ask(context, url, port, seconds):
    push, subscriber = context.socket(zmq.PUSH), context.socket(zmq.SUB)
    push.connect(url % port)
    subscriber.connect(url % (port + 1))
    subscriber.setsockopt(zmq.SUBSCRIBE, b"")
    times, lost, sent, expected = [], 0, 0, 0
    if not subscribed(push, subscriber):
        print("result requests=0 errors_connect=1")
        return
    end = time.monotonic() + seconds
    while time.monotonic() < end or expected < sent:
        while sent < expected + WINDOW and time.monotonic() < end:
            push.send(struct.pack("!Qd", sent, time.monotonic()))
            sent += 1
        if not subscriber.poll(PATIENCE):
            lost += sent - expected
            expected = sent
            continue
        number, began = struct.unpack("!Qd", subscriber.recv())
        if number >= expected:
            lost += number - expected
            expected = number + 1
        times.append(time.monotonic() - began)
    times.sort()
    print("result requests=%d p99_us=%d max_us=%d errors_lost=%d" % (
        len(times), times[len(times) * 99 // 100] * 1e6, times[-1] * 1e6, lost))


def main():
    context = zmq.Context()
    url, port = "tcp://" + sys.argv[2] + ":%d", int(sys.argv[3])
    if sys.argv[1] == "relay":
        relay(context, url, port)
    else:
        ask(context, url, port, float(sys.argv[4]))
        context.destroy(linger=1000)


main()
