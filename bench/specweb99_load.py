#!/usr/bin/env python3
"""SPECweb99's operations as a load on real servers: many connections, static and dynamic GETs, POSTs with the POSTlog.

    python3 bench/specweb99_load.py [--connections 200] [--seconds 30] [--directories 20] [--shoal PATH] [--write]

The rules are those of Kant and Won, section 2: 70% static GETs, 25.2% dynamic ones, which add some 6 KB to their file, 4.8% POSTs of
140 bytes; a connection carries at most 50,000 bytes a second, and 70% of the connections are kept alive for 5 to 15 operations. Which
file comes next is told by `shoal trace convert specweb99:…`. The same load goes to nginx alone, and to Shoal in reverse mode in front of it;
what is dynamic is answered by a program of this file behind either.

The POSTlog is written in the four ways of the model (`shoal lab run specweb99`), a million operations into a run: what a POST then
costs is measured in that program, without the servers. Bounded in time and in connections; loopback only; standard library only.
"""

import argparse
import asyncio
import contextlib
import csv
import getpass
import io
import multiprocessing
import os
import random
import re
import resource
import statistics
import sys
import tempfile
import time

from pathlib import Path

import disk
import machine
import page
import programs
import servers

RATE = 50_000
KEPT, KEPT_FOR = 0.7, (5, 15)
DYNAMIC = 25.2 / 95.2
ADDED = b"<!-- what a program adds -->".ljust(6 * 1024, b" ")
LINE = b"   1000 946684800    12345 00004711 dir00017/class2_3               my_cookie=user_id=10017&last_ad=42".ljust(139)[:139] + b"\n"
# A million operations, of which 4.8% append a line.
LINES_BEFORE = 48_000
CONNECTIONS_MAX = 2000

NGINX_FILE = """
{user}daemon off; worker_processes 1; worker_rlimit_nofile 8192; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_requests 1000; keepalive_timeout 60; sendfile on; open_file_cache max=2000 inactive=1h;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  upstream program {{ server {program}; keepalive 32; }}
  server {{
    listen 127.0.0.1:{port}; root {root}; add_header Cache-Control max-age=86400;
    location /dynamic/ {{ proxy_pass http://program; proxy_http_version 1.1; proxy_set_header Connection ""; }}
  }}
}}
"""

SHOAL_FILE = servers.SHOAL_SITE + """[cache]
ram = "{ram}"
[store]
directory = ""
"""


def main():
    options = arguments()
    for what in (options.shoal, "/usr/sbin/nginx"):
        if not Path(what).exists():
            sys.exit(f"specweb99_load.py: cannot measure: {what} is missing")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 4 * CONNECTIONS_MAX), limit[1]))
    with contextlib.ExitStack() as undo:
        folder = undo.enter_context(tempfile.TemporaryDirectory(dir=options.folder))
        os.chmod(folder, 0o755)
        files = os.path.join(folder, "www", "file_set")
        os.mkdir(os.path.dirname(files))
        disk.tool(options.shoal, "lab", "files", files, "--directories", str(options.directories))
        paths = gets(options)
        log = os.path.join(folder, "post.log")
        program = start_program(undo, os.path.join(folder, "www"), log)
        nginx = start_nginx(undo, folder, program)
        shoal = start_shoal(undo, folder, nginx, options)
        rows = [loaded(options, server, paths) for server in (nginx, shoal)]
        posted = os.path.getsize(log) // len(LINE)
        if posted != sum(row["posts"] for row in rows):
            sys.exit(f"specweb99_load.py: the POSTlog has {posted} lines, and {sum(row['posts'] for row in rows)} POSTs were answered")
        posts = [post_cost(folder, way) for way in WAYS]
    text = result(options, rows, posts)
    print(text)
    if options.write:
        page.write("specweb99.md", "specweb99_load.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--connections", type=int, default=200, help=f"at once, at most {CONNECTIONS_MAX}")
    parser.add_argument("--seconds", type=float, default=30, help="for each server, at most 600")
    parser.add_argument("--directories", type=int, default=20)
    parser.add_argument("--ram", default="16 MiB", help="Shoal's cache")
    parser.add_argument("--folder", help="where files and POSTlog go; a temporary folder otherwise")
    programs.add_shoal(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/experiments/specweb99.md")
    options = parser.parse_args()
    if not 1 <= options.connections <= CONNECTIONS_MAX or not 1 <= options.seconds <= 600:
        parser.error(f"from 1 to {CONNECTIONS_MAX} connections, from 1 to 600 seconds")
    return options


def gets(options):
    """The files' paths in the order in which they are asked for."""
    operations = int(options.connections * RATE / 14_727 * options.seconds) + 10_000
    values = f"specweb99:directories={options.directories},requests={operations},seed={options.seed}"
    rows = csv.DictReader(io.StringIO(disk.tool(options.shoal, "trace", "convert", values, "--to", "csv")))
    return ["/" + row["url"].split("/", 3)[3] for row in rows if row["method"] == "GET"]


def loaded(options, server, paths):
    """What the load did to one server."""
    load = Load(options, server.port, paths)
    asyncio.run(load.run())
    operations = sum(load.counts.values())
    times = sorted(load.times)
    return {
        "by": server.name,
        "operations": operations,
        "rate": operations / options.seconds,
        "posts": load.counts["post"],
        "failed": load.failed,
        "conforming": load.conforming / max(1, load.finished),
        "opened": load.opened,
        "hits": load.hits / max(1, load.counts["static"]),
        "p50": times[len(times) // 2] * 1e3,
        "p99": times[len(times) * 99 // 100] * 1e3,
    }


class Load:
    """All connections at once."""

    def __init__(self, options, port, paths):
        self.options, self.port = options, port
        self.paths, self.random = iter(paths), random.Random(options.seed)
        self.counts = {"static": 0, "dynamic": 0, "post": 0}
        self.failed = self.hits = self.opened = self.finished = self.conforming = 0
        self.times = []

    async def run(self):
        self.deadline = time.monotonic() + self.options.seconds
        clients = [asyncio.create_task(self.client(number)) for number in range(self.options.connections)]
        await asyncio.wait(clients)
        for client in clients:
            client.result()

    async def client(self, number):
        # not all in the same instant
        await asyncio.sleep(number / self.options.connections)
        while time.monotonic() < self.deadline:
            kept = self.random.random() < KEPT
            await self.connection(self.random.randint(*KEPT_FOR) if kept else 1)

    async def connection(self, operations):
        """One TCP connection: so many operations, at most 50,000 bytes a second."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            self.failed += 1
            await asyncio.sleep(0.1)
            return
        self.opened += 1
        started, carried, asked = time.monotonic(), 0, 0.0
        try:
            for left in range(operations, 0, -1):
                begun = time.monotonic()
                carried += await asyncio.wait_for(self.operation(reader, writer, left == 1), 30)
                ended = time.monotonic()
                self.times.append(ended - begun)
                asked += ended - begun
                pause = carried / RATE - (ended - started)
                if ended + max(0, pause) > self.deadline:
                    return
                await asyncio.sleep(max(0, pause))
            self.finished += 1
            # SPECweb99 counts connections that carry 40,000 bytes a second.
            self.conforming += carried / (time.monotonic() - started) >= 40_000
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.TimeoutError):
            self.failed += 1
        finally:
            writer.close()

    async def operation(self, reader, writer, is_last):
        """One request; the bytes of its answer."""
        close = "Connection: close\r\n" if is_last else ""
        kind, draw = "static", self.random.random()
        path = next(self.paths, None)
        if path is None:
            raise ValueError("there are no more operations")
        if draw < 0.048:
            kind = "post"
            head = f"POST /dynamic/post HTTP/1.1\r\nHost: site\r\nContent-Length: {len(LINE)}\r\n{close}\r\n".encode() + LINE
        else:
            if self.random.random() < DYNAMIC:
                kind, path = "dynamic", "/dynamic" + path
            head = f"GET {path} HTTP/1.1\r\nHost: site\r\n{close}\r\n".encode()
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        fields = answer.lower()
        length = int(re.search(rb"content-length: *(\d+)", fields).group(1))
        rest = length
        while rest:
            part = await reader.read(min(rest, 1 << 16))
            if not part:
                raise asyncio.IncompleteReadError(b"", rest)
            rest -= len(part)
        if b" 200 " not in answer.split(b"\r\n", 1)[0]:
            raise ValueError(answer)
        self.counts[kind] += 1
        self.hits += kind == "static" and re.search(rb"cache-status:[^\r]*; *hit", fields) is not None
        return length


def start_program(undo, root, log):
    """What answers dynamic GETs and POSTs, in a process of its own; its address."""
    port = servers.free_port()
    process = multiprocessing.get_context("fork").Process(target=answer, args=(port, root, log), daemon=True)
    process.start()
    undo.callback(process.terminate)
    return f"127.0.0.1:{port}"


def answer(port, root, log):
    post_log = open(log, "ab", buffering=0)

    async def client(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b" ", 2)
                if method == b"POST":
                    length = re.search(rb"(?i)content-length: *(\d+)", head)
                    post_log.write(await reader.readexactly(int(length.group(1))))
                    body = b"<html>your data are in the log</html>"
                else:
                    with open(root + path.decode().removeprefix("/dynamic"), "rb") as file:
                        body = file.read() + ADDED
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nCache-Control: no-store\r\nContent-Length: %d\r\n\r\n" % len(body))
                writer.write(body)
                await writer.drain()
        writer.close()

    async def serve():
        server = await asyncio.start_server(client, "127.0.0.1", port, backlog=512)
        await server.serve_forever()

    asyncio.run(serve())


def start_nginx(undo, folder, program):
    own = os.path.join(folder, "nginx")
    os.mkdir(own)
    port = servers.free_port()
    user = f"user {getpass.getuser()}; " if os.geteuid() == 0 else ""
    values = {"user": user, "folder": own, "port": port, "program": program, "root": os.path.join(folder, "www")}
    file = servers.write(own, "nginx.conf", NGINX_FILE.format(**values))
    server = servers.Server("nginx", port, ["nginx", "-p", own, "-c", file], own)
    undo.callback(server.stop)
    return server


def start_shoal(undo, folder, origin, options):
    own = os.path.join(folder, "shoal")
    os.mkdir(own)
    port, admin_port = servers.free_port(), servers.free_port()
    text = SHOAL_FILE.format(port=port, origin=origin.url, ram=options.ram, admin_port=admin_port)
    file = servers.write(own, "shoal.toml", text)
    server = servers.Server("Shoal before nginx", port, [os.path.abspath(options.shoal), "run", "--config", file], own)
    undo.callback(server.stop)
    return server


def open_and_written_behind(path):
    file = open(path, "ab", buffering=0)
    return lambda: file.write(LINE)


def open_and_forced(path):
    file = open(path, "ab", buffering=0)

    def post():
        file.write(LINE)
        os.fdatasync(file.fileno())

    return post


def closed_and_last_page_read(path):
    def post():
        with open(path, "r+b", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(end & ~4095)
            file.read()
            file.write(LINE)

    return post


def closed_and_read_whole(path):
    def post():
        with open(path, "r+b", buffering=0) as file:
            while file.read(1 << 16):
                pass
            file.write(LINE)

    return post


WAYS = {
    "kept open, written behind": open_and_written_behind,
    "kept open, each line forced": open_and_forced,
    "closed, last page read back": closed_and_last_page_read,
    "closed, whole file read back": closed_and_read_whole,
}


def post_cost(folder, way):
    """What a POST costs the program in one way: µs, its part of the CPU, KB read through calls, KB and calls to the disk."""
    path = os.path.join(folder, "cost.log")
    with open(path, "wb") as file:
        file.write(LINE * LINES_BEFORE)
        os.fsync(file.fileno())
    post, times, before, cpu = WAYS[way](path), [], process_io(), time.process_time()
    deadline = time.monotonic() + 5
    while len(times) < 20_000 and time.monotonic() < deadline:
        begun = time.perf_counter()
        post()
        times.append(time.perf_counter() - begun)
    cpu = (time.process_time() - cpu) / len(times)
    after = {key: (value - before[key]) / len(times) for key, value in process_io().items()}
    return {"way": way, "us": statistics.median(times) * 1e6, "cpu": cpu * 1e6, "read": after["rchar"] / 1e3, "written": after["write_bytes"] / 1e3}


def process_io():
    with open("/proc/self/io") as file:
        return {key: int(value) for key, value in (line.split(": ") for line in file)}


def result(options, rows, posts):
    command = disk.shown().replace("bench/disk.py", "bench/specweb99_load.py")
    lines = [
        f"Machine: {machine.described()}, servers on one core.",
        f"Command: `{command}`: {options.connections} connections at most {RATE:,} bytes a second each, {options.seconds:.0f} s for each server, "
        f"{options.directories} directories, {options.ram} of RAM for Shoal.",
        "",
        "| | " + " | ".join(row["by"] for row in rows) + " |",
        "|---|" + "--:|" * len(rows),
    ]
    for what, cell in (
        ("operations, POSTs among them", lambda row: f"{row['operations']:,}, {row['posts']:,}"),
        ("operations a second", lambda row: f"{row['rate']:.0f}"),
        ("connections opened", lambda row: f"{row['opened']:,}"),
        ("failed", lambda row: f"{row['failed']}"),
        ("connections of 40,000 bytes a second or more, %", lambda row: f"{row['conforming'] * 100:.1f}"),
        ("static GETs that hit, %", lambda row: f"{row['hits'] * 100:.1f}" if row["hits"] else "–"),
        ("answer, median and 99%, ms", lambda row: f"{row['p50']:.1f}, {row['p99']:.1f}"),
    ):
        lines.append(f"| {what} | " + " | ".join(cell(row) for row in rows) + " |")
    lines += ["", "| the POSTlog is | µs a POST, median | CPU µs | KB read | KB written to the disk |", "|---|--:|--:|--:|--:|"]
    for post in posts:
        lines.append(f"| {post['way']} | {post['us']:.0f} | {post['cpu']:.0f} | {post['read']:.1f} | {post['written']:.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
