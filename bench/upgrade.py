#!/usr/bin/env python3
"""Whether clients notice that a running node is replaced by a new process, again and again.

    python3 bench/upgrade.py [--rate 1000] [--upgrades 10] [--older PATH]

A node serves requests at a fixed rate while `shoal upgrade` replaces it by the same program at another path, or by an older one
(`--older`), and back: ten upgrades and ten rollbacks. A tenth of the requests are for new objects, which the node fetches and stores; the others
are for an object that was stored more than a second before. Half of the clients keep their connections until a response announces the end, the others open
one for each request. Counted are the requests that fail in any way (refused, reset, cut, another status or body), the objects that were stored for more than a second and
are fetched from the origin again, and the connections that ended with and without notice. A connection that ends without notice before a
request is sent is no failure: the client opens another, as clients do; one that ends after the request was sent counts as a failure. Times are told for orientation only.

Prints a Markdown table; --write puts it into docs/experiments/upgrade.md.
"""

import argparse
import http.server
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import machine
import network
import page
import programs

from pathlib import Path
from servers import free_port

BODY = b"0123456789abcdef" * 128
CLIENTS = 16
SETTLED_SECONDS = 1.2
# Between two upgrades.
PAUSE_SECONDS = 2.0


def main():
    network.enter()
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-upgrade-", dir=options.folder) as folder:
        result = measured(options, Path(folder))
    text = table(options, result)
    print(text)
    if options.write:
        page.write("upgrade.md", "upgrade.py", text)
    return 0 if result["failures"] == 0 and result["lost"] == 0 else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=1000, help="requests a second, all clients together")
    parser.add_argument("--upgrades", type=int, default=10, help="and as many rollbacks")
    parser.add_argument("--older", help="the program of the rollbacks; a copy of the binary without it")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the store")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/upgrade.md")
    return parser.parse_args()


def measured(options, folder):
    origin = Origin()
    node = Node(options, folder, origin.server_address[1])
    load = Load(node.port, options.rate)
    try:
        node.start()
        load.start()
        time.sleep(3)
        took = []
        for turn in range(2 * options.upgrades):
            program = node.other if turn % 2 == 0 else node.program
            took.append(node.upgrade(program))
            time.sleep(PAUSE_SECONDS)
        load.stop()
        time.sleep(SETTLED_SECONDS)
        lost = load.ask_all_again(origin)
    finally:
        load.stop()
        node.kill()
        origin.shutdown()
    return {**load.counts(), "lost": lost, "took": took, "objects": len(load.stored)}


class Node:
    def __init__(self, options, folder, origin_port):
        self.program = programs.checked(options.shoal)
        self.other = options.older or str(folder / "shoal-other")
        if not options.older:
            shutil.copy2(self.program, self.other)
        self.folder, self.port, self.admin = folder, free_port(), free_port()
        self.pids = []
        (folder / "shoal.toml").write_text(f"""
[[listen]]
address = "127.0.0.1:{self.port}"
mode = "reverse"

[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://127.0.0.1:{origin_port}" }}]

[cache]
ram = "64 MiB"

[store]
directory = "{folder / 'store'}"
disk = "1 GiB"

[admin]
listen = "127.0.0.1:{self.admin}"
""")

    def start(self):
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            command = [self.program, "run", "--config", str(self.folder / "shoal.toml")]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 5).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"upgrade.py: the node does not start:\n{(self.folder / 'log').read_text()}")
                time.sleep(0.01)

    def upgrade(self, program):
        """Replaces the node; gives the seconds that the command took."""
        begin = time.monotonic()
        command = [self.program, "upgrade", "--admin", f"127.0.0.1:{self.admin}", "--program", program]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"upgrade.py: no upgrade:\n{done.stderr}{(self.folder / 'log').read_text()[-2000:]}")
        self.pids.append(int(done.stdout.rsplit("process ", 1)[1].split(")")[0]))
        return time.monotonic() - begin

    def kill(self):
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.kill()
        self.process.wait()


class Load:
    """Clients that ask at a fixed rate, and know what was stored and since when."""

    def __init__(self, port, rate):
        self.port, self.pause = port, CLIENTS / rate
        self.lock = threading.Lock()
        self.stored = {}
        self.settled = []
        self.next = 0
        self.asked = self.failures = self.noticed = self.unnoticed = self.late = 0
        self.first_failures = []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,), daemon=True) for number in range(CLIENTS)]

    def start(self):
        self.begin = time.monotonic()
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.is_over.set()
        for thread in self.threads:
            if thread.is_alive():
                thread.join(30)
        self.end = time.monotonic()

    def counts(self):
        with self.lock:
            names = ("asked", "failures", "noticed", "unnoticed", "late", "first_failures")
            return {**{name: getattr(self, name) for name in names}, "seconds": self.end - self.begin}

    def choose(self, seeded):
        """An object that has been stored for long enough, or a new one."""
        with self.lock:
            now = time.monotonic()
            if self.settled and seeded.random() < 0.9:
                for _ in range(20):
                    number = seeded.choice(self.settled)
                    if now - self.stored[number] > SETTLED_SECONDS:
                        return number
            self.next += 1
            return self.next

    def run(self, number):
        seeded = random.Random(number)
        keeps, made = number % 2 == 0, None
        due = time.monotonic() + seeded.random() * self.pause
        while not self.is_over.is_set():
            left = due - time.monotonic()
            if left > 0:
                time.sleep(left)
            else:
                self.late += 1
            due += self.pause
            wanted = self.choose(seeded)
            if made and has_ended(made):
                made.close()
                made = None
                with self.lock:
                    self.unnoticed += 1
            try:
                made = made or connect(self.port)
                closes = ask(made, wanted)
            except (OSError, ValueError) as error:
                with self.lock:
                    self.asked += 1
                    self.failures += 1
                    self.first_failures = (self.first_failures + [f"{wanted}: {error!r}"])[:5]
                made = None
                continue
            with self.lock:
                self.asked += 1
                self.noticed += closes and keeps
                if wanted not in self.stored:
                    self.stored[wanted] = time.monotonic()
                    self.settled.append(wanted)
            if closes or not keeps:
                made.close()
                made = None

    def ask_all_again(self, origin):
        """Asks for each object once more. Gives how many were fetched more than once in all."""
        made = None
        for number in list(self.stored):
            made = made or connect(self.port)
            if ask(made, number):
                made.close()
                made = None
        with origin.lock:
            return sum(1 for number in self.stored if origin.fetched.get(number, 0) > 1)


def connect(port):
    made = socket.create_connection(("127.0.0.1", port), 30)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def has_ended(made):
    """Whether the node has closed an idle connection."""
    made.setblocking(False)
    try:
        return made.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        made.settimeout(30)


def ask(made, number):
    """Asks for an object; gives whether the response announces the end of the connection."""
    made.sendall(f"GET /{number} HTTP/1.1\r\nHost: upgrade.example\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        more = made.recv(65536)
        if not more:
            raise ValueError(f"cut after {len(data)} bytes")
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.lower().split(b"\r\n")
    if not lines[0].startswith(b"http/1.1 200"):
        raise ValueError(lines[0].decode())
    while len(body) < len(BODY):
        more = made.recv(65536)
        if not more:
            raise ValueError("cut within the body")
        body += more
    if body != BODY:
        raise ValueError("another body")
    return b"connection: close" in lines


class Origin(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), OriginHandler)
        self.lock, self.fetched = threading.Lock(), {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class OriginHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with self.server.lock:
            number = int(self.path[1:])
            self.server.fetched[number] = self.server.fetched.get(number, 0) + 1
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("Cache-Control", "public, max-age=31536000")
        self.end_headers()
        self.wfile.write(BODY)

    def log_message(self, *_):
        pass


def table(options, result):
    rate = result["asked"] / result["seconds"]
    took = sorted(result["took"])
    older = "an older program" if options.older else "a copy of the program"
    rows = [
        ("upgrades and rollbacks", f"{len(took)}, between the program and {older}"),
        ("requests", f"{result['asked']:,} in {result['seconds']:.0f} s, {rate:,.0f} a second"),
        ("failed requests", f"{result['failures']:,}"),
        ("objects stored", f"{result['objects']:,}"),
        ("objects stored for over a second and fetched again", f"{result['lost']:,}"),
        ("kept connections that ended with notice (`Connection: close`)", f"{result['noticed']:,}"),
        ("kept connections that ended without", f"{result['unnoticed']:,}"),
        ("`shoal upgrade`, median and longest", f"{took[len(took) // 2]:.2f} s, {took[-1]:.2f} s"),
    ]
    lines = [f"Machine: {machine.described()}.", f"Command: `python3 bench/upgrade.py --rate {options.rate} --upgrades {options.upgrades}`.", ""]
    lines += ["| counted | value |", "|---|--:|"] + [f"| {name} | {value} |" for name, value in rows]
    if result["first_failures"]:
        lines += ["", "First failures: " + "; ".join(result["first_failures"])]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
