#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Serves the output of `vma_stats --openmetrics` to Prometheus.

    exporter.py [--listen ADDR:PORT] [--command COMMAND] [--timeout SECONDS]

GET /metrics runs the command, and answers 200 with its output, or 503 with its error. Requests
are served one at a time. SIGTERM and SIGINT end the exporter, and a command that runs.
"""
import argparse
import http.server
import os
import shlex
import signal
import subprocess
import sys

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CLIENT_SECONDS = 5  # a client that is silent for longer is disconnected


class CommandError(Exception):
    pass


def run(command, seconds):
    """The output of the command; CommandError says why there is none."""
    try:
        # A group of its own: when the time is over, its children end as well.
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, start_new_session=True)
    except OSError as e:
        raise CommandError("%s: %s" % (command[0], e.strerror))
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise CommandError("%s: no answer within %g seconds" % (command[0], seconds))
    finally:
        end(child)
    if child.returncode:
        message = err.decode("utf-8", "replace").strip()
        raise CommandError(message or "%s: exit status %d" % (command[0], child.returncode))
    if not out.endswith(b"# EOF\n"):
        raise CommandError("%s: the output is not complete" % command[0])
    return out


def end(child):
    if child.returncode is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    child.stdout.close()
    child.stderr.close()


class Handler(http.server.BaseHTTPRequestHandler):
    timeout = CLIENT_SECONDS

    def do_GET(self):
        if self.path.split("?")[0] != "/metrics":
            self.answer(404, "text/plain; charset=utf-8", b"only /metrics is here\n")
            return
        try:
            out = run(self.server.command, self.server.seconds)
        except CommandError as e:
            print(e, file=sys.stderr, flush=True)
            self.answer(503, "text/plain; charset=utf-8", str(e).encode() + b"\n")
            return
        self.answer(200, CONTENT_TYPE, out)

    def answer(self, status, content_type, body):
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass  # Prometheus logs its scrapes


class Server(http.server.HTTPServer):  # not threaded: one scrape at a time
    def __init__(self, address, command, seconds):
        self.command, self.seconds = command, seconds
        super().__init__(address, Handler)

    def server_bind(self):
        """As in HTTPServer, but does not ask DNS for the name of the address."""
        http.server.socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    def handle_error(self, request, client_address):
        # The client went away, or sent nothing.
        print("%s: %s" % (client_address[0], sys.exc_info()[1]), file=sys.stderr, flush=True)


def address(text):
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError("%s is not ADDR:PORT" % text)
    return host or "0.0.0.0", int(port)


def stop(signum, frame):
    raise SystemExit(0)


def main():
    parser = argparse.ArgumentParser(description="vma_stats --openmetrics over HTTP")
    parser.add_argument("--listen", type=address, default=("127.0.0.1", 9797),
                        metavar="ADDR:PORT", help="127.0.0.1:9797; port 0: any free one")
    parser.add_argument("--command", type=shlex.split, default=["vma_stats", "--openmetrics"],
                        help="instead of vma_stats --openmetrics")
    parser.add_argument("--timeout", type=float, default=8, metavar="SECONDS",
                        help="limit for the command (8)")
    options = parser.parse_args()
    if not options.command:
        parser.error("--command is empty")
    try:
        server = Server(options.listen, options.command, options.timeout)
    except OSError as e:
        sys.exit("exporter.py: %s:%d: %s" % (*options.listen, e.strerror))
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print("ready: http://%s:%d/metrics" % server.server_address[:2], flush=True)
    with server:
        server.serve_forever()


if __name__ == "__main__":
    main()
