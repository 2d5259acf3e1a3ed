"""Server-sent events: each event arrives before the origin has another, each user gets their own, an end at either side is seen.

The origin sends the next event only when the client has said, by a request of its own, that it has the one before. So no part of the way may
wait for more bytes.
"""

import http.client
import queue
import ssl
import subprocess
import threading

import recipe

from ground import Missing, must, program, wait_until
from node import Node
from origin import Origin

ROUNDS = 20


class Board:
    """Streams of events by user, each with a queue from which its origin sends."""

    def __init__(self):
        self.queues, self.ended, self.encodings = {}, [], set()

    def answer(self, asked):
        user = asked.cookie("user") or "nobody"
        if asked.path == "/":
            return asked.whole(200, b"<script>new EventSource('/events')</script>", Cache_Control="max-age=60", Content_Type="text/html")
        if asked.path.startswith("/next"):
            self.queues[user].put(asked.path.partition("?")[2])
            return asked.whole(204, b"")
        if asked.path != "/events":
            return asked.whole(404, b"not here")
        self.encodings.add(asked.headers.get("Accept-Encoding"))
        mailbox = self.queues.setdefault(user, queue.Queue())
        asked.begin(200, Content_Type="text/event-stream", Cache_Control="no-cache")
        number = int(asked.headers.get("Last-Event-ID", "0"))
        try:
            while True:
                asked.chunk(f"id: {number}\ndata: {user} {number}\n\n".encode())
                number += 1
                while True:
                    try:
                        if mailbox.get(timeout=0.2) == "end":
                            asked.chunk(b"")
                            return
                        break
                    except queue.Empty:
                        # A comment, so that a client that has left is noticed.
                        asked.chunk(b": \n\n")
        except OSError:
            self.ended.append(user)
            raise


class Source:
    """A browser's EventSource over HTTP/1.1."""

    def __init__(self, node, ground, user, last=None):
        self.node, self.user = node, user
        context = ssl.create_default_context(cafile=str(ground.ca))
        self.connection = http.client.HTTPSConnection(recipe.HOST, node.port, context=context, timeout=20)
        fields = {"Accept": "text/event-stream", "Cookie": f"user={user}", "Accept-Encoding": "gzip, br", "Cache-Control": "no-cache"}
        self.connection.request("GET", "/events", headers={**fields, **({"Last-Event-ID": last} if last else {})})
        self.response = self.connection.getresponse()
        must(self.response.status == 200, f"{user} gets a stream, not {self.response.status}")
        must(not self.response.headers["Content-Encoding"], "a stream is not compressed")

    def event(self):
        """The data of the next event; `None` at the end."""
        data = None
        while line := self.response.readline():
            line = line.decode().rstrip("\n")
            if line.startswith("data: "):
                data = line[6:]
            elif not line and data:
                return data
        return None

    def next(self, word=""):
        self.node.visitor().ask("POST", f"/next?{word}", b"", expect=204, Cookie=f"user={self.user}")


def trial(ground):
    board = Board()
    origin = Origin(board.answer)
    ground.ending.callback(origin.stop)
    node = Node(ground, "Server-sent events", [origin.port])
    ground.ending.callback(node.stop)
    users = {name: Source(node, ground, name) for name in ("ada", "bob")}
    for number in range(ROUNDS):
        for name, source in users.items():
            must(source.event() == f"{name} {number}", f"event {number} of {name} comes at once")
            source.next()
        if number == ROUNDS // 2:
            # The streams stay with the process that began them.
            node.upgrade()
    for name, source in users.items():
        must(source.event() == f"{name} {ROUNDS}", f"{name} after the upgrade")
    users["ada"].next("end")
    must(users["ada"].event() is None, "the origin's end is the client's")
    again = Source(node, ground, "ada", last="41")
    must(again.event() == "ada 41", "a client goes on where it was")
    users["bob"].connection.close()
    wait_until("the origin learns that the client has left", lambda: "bob" in board.ended)
    over_http2(ground, node)
    crowd(ground, node)
    for _ in range(2):
        node.visitor().get("/")
    lines = node.lines()
    streams = [line for line in lines if line["url"].endswith("/events")]
    must(all(line["outcome"] not in ("hit", "memory_hit", "collapsed") for line in streams), "each client has a stream of its own")
    return [["Server-sent events", "two users, HTTP/1.1 and HTTP/2, an upgrade", *node.share().row()]]


def over_http2(ground, node):
    """curl reads a stream over HTTP/2, line by line."""
    if "HTTP2" not in subprocess.run([program("curl"), "--version"], capture_output=True, text=True).stdout:
        raise Missing("curl with HTTP/2")
    command = ["curl", "--silent", "--no-buffer", "--http2", "--cacert", ground.ca, "--cookie", "user=eve", f"{node.url}/events"]
    with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, text=True) as curl:
        for number in range(5):
            line = next(line for line in curl.stdout if line.startswith("data: "))
            must(line.strip() == f"data: eve {number}", f"event {number} over HTTP/2, not {line}")
            node.visitor().ask("POST", "/next?", b"", expect=204, Cookie="user=eve")
        curl.kill()


def crowd(ground, node):
    """Thirty clients at once, and a page beside them."""
    sources = []
    opened = threading.Thread(target=lambda: sources.extend(Source(node, ground, f"user{number}") for number in range(30)))
    opened.start()
    opened.join(timeout=20)
    must(len(sources) == 30, f"{len(sources)} of 30 streams are open")
    must(all(source.event() == f"{source.user} 0" for source in sources), "each gets their own first event")
    node.visitor().get("/")
    for source in sources:
        source.connection.close()
