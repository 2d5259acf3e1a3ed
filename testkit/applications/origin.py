"""An HTTP origin within the trial, for what needs no program of its own: HTTP/1.1, a thread for each connection."""

import http.server
import threading


class Origin(http.server.ThreadingHTTPServer):
    """Serves by `answer(handler)` at a port of its own, and counts requests by path."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer, port=0):
        self.counts, self.guard = {}, threading.Lock()
        self.answer = answer
        super().__init__(("127.0.0.1", port), Handler)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def count(self, path):
        with self.guard:
            return self.counts.get(path, 0)

    def stop(self):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    """One request; what it may do is up to the origin's `answer`."""

    protocol_version = "HTTP/1.1"

    def handle_any(self):
        with self.server.guard:
            self.server.counts[self.path] = self.server.counts.get(self.path, 0) + 1
        try:
            self.server.answer(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

    def whole(self, status, body, **fields):
        """Sends a response of known length."""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def begin(self, status, **fields):
        """Begins a response that is sent in chunks."""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data):
        """Sends a chunk; an empty one ends the response."""
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def body(self):
        """The request's body, of known length or in chunks."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return whole

    def cookie(self, name):
        pairs = (pair.strip().partition("=") for pair in self.headers.get("Cookie", "").split(";"))
        return next((value for given, _, value in pairs if given == name), None)

    def log_message(self, *_):
        pass
