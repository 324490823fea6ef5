"""The server of curl_test.sh: ADDRESS PORT FILE."""
import hashlib
import http.server
import sys
import threading

content = open(sys.argv[3], "rb").read()
ended = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, status=200, length=None):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/large":
            asked = self.headers.get("Range")
            if asked:
                first, last = asked.removeprefix("bytes=").split("-")
                return self.answer(content[int(first) : int(last) + 1], 206)
            return self.answer(content)
        if self.path == "/cut":
            self.answer(content[:100_000], length=200_000)
            self.close_connection = True
            return
        if self.path == "/slow":
            ended.wait(5)
            self.close_connection = True
            return
        self.answer(b"path %s\n" % self.path.encode())

    def do_PUT(self):
        hashed = hashlib.sha256()
        left = int(self.headers["Content-Length"])
        if self.headers.get("Expect") == "100-continue":
            self.send_response_only(100)
            self.end_headers()
        while left:
            got = self.rfile.read(min(left, 1 << 16))
            left -= len(got)
            hashed.update(got)
        self.answer(hashed.hexdigest().encode() + b"\n")

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128


Server((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
