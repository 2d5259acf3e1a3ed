#!/usr/bin/env python3
"""Can the planner be believed? Plans on the first half of a trace, serves all of it with Shoal and with nginx, and compares the second half.

    python3 bench/planned.py TRACE... [--sizes 0.05,0.15,0.4] [--connections 4] [--by shoal,nginx] [--shoal PATH] [--write]

Each trace (any format that `shoal trace` reads) is cut into two halves by requests. For each size, a part of the bytes of the first
half's objects, with a quarter as much RAM:

- `shoal plan --ram … --disk …` says of the first half what a cache of that size will hit of as many requests again (the forecast), and of the
  whole trace, warmed by its first half, what it should have hit of the second (the model alone, which knows what came);
- `shoal run` serves the trace in reverse mode with the very `shoal.toml` that the plan printed, from an origin on loopback
  that sends as many bytes as the trace says; a hit is what Cache-Status calls one, and the second half is counted. Time is compressed: a request
  follows as soon as one of the connections is free;
- nginx does the same with `proxy_cache` of that size. Its cache manager looks after the size every ten seconds at worst, which is
  long where time is compressed: a reload wakes it whenever a twentieth of the cache is new. It is compared with the plan's LRU for the
  bytes that it was seen to hold.

Bounded: so many requests a trace, 30 minutes. Standard library only.
"""

import argparse
import contextlib
import csv
import getpass
import io
import json
import math
import multiprocessing
import os
import shutil
import signal
import socket
import socketserver
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from pathlib import Path

import disk
import machine
import page
import programs
import servers

LEAST_RAM = 4 << 20
ATTEMPTS = 6
LEAST_DISK = 8 << 20
HEADS = (
    "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: origin/1.0\r\nContent-Type: text/html; charset=utf-8\r\n"
    "Last-Modified: Mon, 01 Dec 2025 00:00:00 GMT\r\nETag: \"5f3c-62a1b0c9d4e80\"\r\nCache-Control: public, max-age=31536000\r\n"
    "Content-Length: {}\r\n\r\n"
)

NGINX_FILE = """
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 256; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=plan:64m inactive=30d max_size={bytes} use_temp_path=off;
  upstream origin {{ server {origin}; keepalive 16; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://origin; proxy_cache plan; proxy_http_version 1.1; proxy_set_header Connection "";
      add_header Cache-Status $upstream_cache_status always;
    }}
  }}
}}
"""

SHOAL_MORE = """
[[listen]]
address = "127.0.0.1:{port}"
mode = "reverse"
[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://{origin}" }}]
[admin]
listen = "127.0.0.1:{admin_port}"
"""


def main():
    options = arguments()
    if not Path(options.shoal).exists():
        sys.exit(f"planned.py: cannot measure: {options.shoal} is missing; build it, or name another with --shoal")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("planned.py: stopped"))
    options.deadline = time.monotonic() + 1800
    with contextlib.ExitStack() as undo:
        origin = start_origin(undo)
        rows = [row for trace in options.traces for row in compare(options, trace, origin)]
    text = result(options, rows)
    print(text)
    if options.write:
        page.write("planner.md", "planned.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--sizes", type=lambda text: [float(part) for part in text.split(",")], default=[0.05, 0.15, 0.4])
    parser.add_argument("--connections", type=int, default=4, help="clients that take the next request in turn")
    parser.add_argument("--by", type=lambda text: text.split(","), default=["shoal", "nginx"], help="who serves: shoal, nginx or both")
    parser.add_argument("--requests", type=int, default=400_000, help="of each trace at most")
    parser.add_argument("--folder", help="where the caches' files go; a temporary one otherwise")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/planner.md")
    return parser.parse_args()


def compare(options, trace, origin):
    """The rows of one trace: for each size what was planned and what happened."""
    requests, objects_bytes = storable(options, trace)
    middle = len(requests) // 2
    for size in options.sizes:
        disk_bytes = max(LEAST_DISK, int(objects_bytes * size))
        ram_bytes = max(LEAST_RAM, disk_bytes // 4)
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            first = plan(options, folder, requests[:middle], ram_bytes, disk_bytes, 0.3)
            model = plan(options, folder, requests, ram_bytes, disk_bytes, middle / len(requests))
            forecast = first["choice"]["forecast"]
            row = {"trace": name(trace), "ram": ram_bytes, "disk": disk_bytes}
            if "shoal" in options.by:
                hits, told = run_shoal(options, folder, (requests, middle), first["shoal.toml"], origin)
                yield row | {
                    "by": f"Shoal, {first['choice']['architecture']}",
                    "forecast": forecast["hit_ratio"],
                    "bar": forecast["hit_ratio_error"],
                    "model": model["choice"]["hit_ratio"],
                    "measured": hits,
                    "told": told,
                }
            if "nginx" not in options.by or not shutil.which("nginx"):
                continue
            hits, held = run_nginx(options, folder, (requests, middle), disk_bytes, origin)
            (before, bar), (after, _) = lru_at(first, held), lru_at(model, held)
            yield row | {"by": "nginx", "forecast": before, "bar": bar, "model": after, "measured": hits, "told": f"held {held / 1e6:.1f} MB"}


def name(trace):
    return Path(trace).name.split(".")[0]


def storable(options, trace):
    """(path, bytes) of the requests that a cache may answer, and the bytes of the first half's objects."""
    log(f"{name(trace)}: reading")
    text = tool(options, "trace", "filter", trace, "--rules", "cacheable", "--to", "csv")
    requests, sizes = [], {}
    for row in csv.DictReader(io.StringIO(text)):
        length = int(row["bytes"] or -1)
        # A 304 and a HEAD carry no body: they ask for what the object has.
        if row.get("status") in ("304", "204") or row.get("method") == "HEAD" or length < 0:
            length = sizes.get(row["url"], 0)
        sizes[row["url"]] = length
        requests.append((row["url"], length, row["time_ms"]))
        if len(requests) >= options.requests:
            break
    half = {url: length for url, length, _ in requests[: len(requests) // 2]}
    return requests, sum(half.values())


def plan(options, folder, part, ram_bytes, disk_bytes, warm_up):
    """What the planner says of a part of the trace."""
    path = os.path.join(folder, "part.csv")
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time_ms", "url", "bytes"])
        writer.writerows((moment, url, length) for url, length, moment in part)
    wishes = ["--ram", str(ram_bytes), "--disk", str(disk_bytes), "--warm-up", str(warm_up)]
    return json.loads(tool(options, "plan", path, "--json", *wishes))


def lru_at(planned, size):
    """The plan's LRU curve at a size, with its error: straight lines over the size's logarithm."""
    points = planned["ram"]["curves"]["lru"]
    after = next((at for at, point in enumerate(points) if point["bytes"] >= size), len(points) - 1)
    if after == 0 or points[after]["bytes"] < size:
        return points[after]["hit_ratio"], points[after]["hit_ratio_error"]
    low, high = points[after - 1], points[after]
    along = math.log(size / low["bytes"]) / math.log(high["bytes"] / low["bytes"])
    return tuple(low[key] + (high[key] - low[key]) * along for key in ("hit_ratio", "hit_ratio_error"))


def run_shoal(options, folder, work, settings, origin):
    """Shoal with the plan's settings; its hit ratio, and where the hits came from."""
    own = os.path.join(folder, "shoal")
    os.mkdir(own)
    port, admin_port = servers.free_port(), servers.free_port()
    more = SHOAL_MORE.format(port=port, origin=origin, admin_port=admin_port)
    file = servers.write(own, "shoal.toml", settings.replace('"access.log"', '"none"') + more)
    server = servers.Server("shoal", port, [os.path.abspath(options.shoal), "run", "--config", file], own)
    try:
        hits, counted = replay(options, server, work, lambda _: None)
    finally:
        server.stop()
    return hits["hit"] / counted, f"{hits['collapsed']} collapsed" if hits["collapsed"] else ""


def run_nginx(options, folder, work, disk_bytes, origin):
    """nginx with a cache of so many bytes; its hit ratio, and the bytes that it held on average."""
    own = os.path.join(folder, "nginx")
    os.mkdir(own)
    os.chmod(folder, 0o755)
    os.chmod(own, 0o755)
    port = servers.free_port()
    user = f"user {getpass.getuser()}; " if os.geteuid() == 0 else ""
    text = NGINX_FILE.format(user=user, folder=own, port=port, bytes=disk_bytes, origin=origin)
    file = servers.write(own, "nginx.conf", text)
    server = servers.Server("nginx", port, ["nginx", "-p", own, "-c", file], own)
    keeper = Keeper(server, os.path.join(own, "cache"), disk_bytes)
    try:
        hits, counted = replay(options, server, work, keeper.missed)
    finally:
        server.stop()
    return hits["hit"] / counted, statistics.mean(keeper.seen or [keeper.held()])


class Keeper:
    """Has nginx's cache manager look after the size as often as it would where time is not compressed."""

    def __init__(self, server, folder, limit):
        self.server, self.folder, self.limit = server, folder, limit
        self.fresh, self.seen = 0, []

    def missed(self, length):
        """Takes note of a miss; when a twentieth of the cache is new, wakes the manager by a reload, and waits for it."""
        self.fresh += length
        if self.fresh < self.limit / 20:
            return
        self.fresh = 0
        before = self.held()
        self.seen.append(before)
        if before <= self.limit:
            return
        self.server.process.send_signal(signal.SIGHUP)
        for _ in range(20):
            time.sleep(0.1)
            if (after := self.held()) <= self.limit:
                break
        self.seen[-1] = (before + after) / 2

    def held(self):
        """Bytes of all files, in blocks as nginx counts them."""
        blocks = 0
        for at, _, files in os.walk(self.folder):
            for file in files:
                with contextlib.suppress(OSError):
                    blocks += os.stat(os.path.join(at, file)).st_blocks
        return blocks * 512


def replay(options, server, work, missed):
    """Asks for all of it in order, telling `missed` of each miss; the counts of the second half."""
    requests, middle = work
    log(f"  {server.name}: {len(requests):,} requests")
    lock, following = threading.Lock(), iter(enumerate(requests))
    hits, counted, failed = {"hit": 0, "collapsed": 0}, len(requests) - middle, []

    def client():
        with contextlib.closing(Connection(server.port)) as connection:
            while not failed:
                with lock:
                    at, (url, length, _) = next(following, (None, (None, None, None)))
                if at is None:
                    return
                if time.monotonic() > options.deadline:
                    failed.append("the time is up; fewer --requests take less")
                    return
                status, cached = connection.get(url, length)
                if status != 200:
                    failed.append(f"{server.name} answers {url} with {status}")
                    return
                words = {word.strip().lower() for word in cached.split(";")}
                with lock:
                    if "hit" not in words:
                        missed(length)
                    if at >= middle:
                        hits["hit"] += "hit" in words
                        hits["collapsed"] += "collapsed" in words

    def guarded():
        try:
            client()
        except (OSError, ValueError) as why:
            failed.append(f"{server.name}: {why}")

    clients = [threading.Thread(target=guarded) for _ in range(options.connections)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    if failed:
        sys.exit(f"planned.py: {failed[0]}")
    return hits, counted


class Connection:
    """A client's kept-alive connection: as little HTTP as it takes, since the client must not be what is slow."""

    def __init__(self, port):
        self.port = port
        self.buffer = bytearray(256 * 1024)
        self.connect()

    def connect(self):
        self.socket = socket.create_connection(("127.0.0.1", self.port), 30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get(self, url, length):
        """The status and the Cache-Status of the answer; again where the server has closed the connection meanwhile, as nginx does at each reload."""
        for attempt in range(ATTEMPTS):
            try:
                return self.ask(url, length)
            except (ConnectionError, ValueError):
                if attempt + 1 == ATTEMPTS:
                    raise
                time.sleep(0.05 * attempt)
                self.close()
                self.connect()

    def ask(self, url, length):
        # Names of hosts stand in the path, since those of old traces are not all valid.
        head = f"GET /{escaped(url.lstrip('/'))} HTTP/1.1\r\nHost: trace\r\nX-Bytes: {length}\r\n\r\n"
        self.socket.sendall(head.encode("latin-1", "replace"))
        received = 0
        view = memoryview(self.buffer)
        while (end := self.buffer.find(b"\r\n\r\n", 0, received)) < 0:
            got = self.socket.recv_into(view[received:]) if received < len(view) else 0
            if got == 0:
                raise ValueError("the connection ends within a head")
            received += got
        lines = bytes(view[:end]).decode("latin-1").split("\r\n")
        fields = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
        rest = int(fields["content-length"]) - (received - end - 4)
        while rest > 0:
            got = self.socket.recv_into(view[: min(rest, len(view))])
            if got == 0:
                raise ValueError("the connection ends within a body")
            rest -= got
        return int(lines[0].split(" ")[1]), fields.get("cache-status", "")

    def close(self):
        self.socket.close()


def escaped(text):
    """What a trace has in its names and a request line may not."""
    return "".join(byte if "!" <= byte <= "~" and byte not in '"<>\\^`{|}#%' else f"%{ord(byte) & 255:02X}" for byte in text)


def start_origin(undo):
    """An origin in a process of its own; its address."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    process = multiprocessing.get_context("fork").Process(target=serve, args=(listener,), daemon=True)
    process.start()
    undo.callback(process.terminate)
    return f"127.0.0.1:{listener.getsockname()[1]}"


def serve(listener):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    body = bytes(1 << 20)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pending = b""
            while True:
                while b"\r\n\r\n" not in pending:
                    if not (got := self.request.recv(65536)):
                        return
                    pending += got
                head, pending = pending.split(b"\r\n\r\n", 1)
                fields = head.lower().split(b"x-bytes:", 1)
                left = int(fields[1].split(b"\r\n", 1)[0]) if len(fields) == 2 else 0
                self.request.sendall(HEADS.format(left).encode() + body[: min(left, 65536)])
                left -= min(left, 65536)
                while left > 0:
                    self.request.sendall(body[: min(left, len(body))])
                    left -= min(left, len(body))

    class Origin(socketserver.ThreadingMixIn, socketserver.TCPServer):
        daemon_threads = True

        def __init__(self):
            super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=False)
            self.socket.close()
            self.socket = listener

        def handle_error(self, *_):
            pass

    Origin().serve_forever()


def result(options, rows):
    lines = [
        f"Machine: {machine.described()}.",
        f"Command: `{disk.shown().replace('bench/disk.py', 'bench/planned.py')}`.",
        "",
        "| trace | RAM, MB | disk, MB | by | forecast, % | measured, % | off, points | knowing what came, % | off, points | |",
        "|---|--:|--:|---|--:|--:|--:|--:|--:|---|",
    ]
    for row in rows:
        percent = {key: row[key] * 100 for key in ("forecast", "bar", "model", "measured")}
        off, off_model = percent["measured"] - percent["forecast"], percent["measured"] - percent["model"]
        lines.append(
            f"| {row['trace']} | {row['ram'] / 1e6:.1f} | {row['disk'] / 1e6:.1f} | {row['by']} | {percent['forecast']:.1f} ± {percent['bar']:.1f} "
            f"| {percent['measured']:.1f} | {off:+.1f} | {percent['model']:.1f} | {off_model:+.1f} | {row['told']} |"
        )
    lines.append("")
    for by in ("Shoal", "nginx"):
        for trace in [*dict.fromkeys(row["trace"] for row in rows), "all"]:
            own = [row for row in rows if row["by"].startswith(by) and trace in (row["trace"], "all")]
            if own:
                error = {key: statistics.mean(abs(row["measured"] - row[key]) * 100 for row in own) for key in ("forecast", "model")}
                lines.append(
                    f"- Mean absolute error, {by}, {trace}: {error['forecast']:.1f} points of the forecast, {error['model']:.1f} of the plan that knows what came."
                )
    return "\n".join(lines)


def tool(options, *arguments):
    done = subprocess.run([options.shoal, *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"planned.py: shoal {' '.join(arguments[:2])}: {done.stderr.strip()}")
    return done.stdout


def log(text):
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
