#!/usr/bin/env python3
"""TLS: CPU per handshake, full and resumed, and per hit, Shoal beside nginx.

    python3 bench/tls.py                 print the tables
    python3 bench/tls.py --write         also put them into docs/experiments/hits-notebook.md

The server runs on core 0, its clients on core 1: handshakes come from Python's ssl module, hits are asked for by wrk.
Counted is the CPU of the server, so the speed of the clients does not matter. Needs nginx, wrk, openssl, taskset and a
release build of shoal.
"""

import argparse
import os
import socket
import ssl
import statistics
import sys
import tempfile
import time

import load
import machine
import measure
import network
import page
import programs
import servers

NGINX = "nginx, no sendfile, open_file_cache"
VERSIONS = {"TLS 1.2": ssl.TLSVersion.TLSv1_2, "TLS 1.3": ssl.TLSVersion.TLSv1_3}
SIZES = [1024, 65536, 1048576]


def main():
    network.enter()
    options = arguments()
    os.sched_setaffinity(0, {int(load.CORE)})
    text = "\n".join(machine.head("nginx", "openssl", "wrk")) + "\n"
    text += "\n"
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        pairs = {kind: servers.certificate(folder, kind) for kind in ("P-256", "RSA 2048")}
        handshakes, hits = [], []
        for kind, pair in pairs.items():
            running = [
                servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off", pair),
                servers.start_shoal(folder, origin.url, options.shoal, pair=pair),
            ]
            try:
                if "handshakes" in options.parts:
                    handshakes += handshake_rows(running, kind, options)
                if not hits and "hits" in options.parts:
                    hits = hit_rows(running, options)
            finally:
                for server in running:
                    server.stop()
    text += "\n".join(["| µs of CPU a handshake | nginx | shoal | handshakes per CPU-second, nginx = 1.00 |", "|---|---|---|---|"] + handshakes)
    text += "\n\n" + "\n".join(["| µs of CPU a hit over TLS | nginx | shoal | hits per CPU-second, nginx = 1.00 |", "|---|---|---|---|"] + hits) + "\n"
    print(text)
    if options.write:
        page.write("hits-notebook.md", "tls.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1, help="length of one point")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["handshakes", "hits"])
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/experiments/hits-notebook.md")
    return parser.parse_args()


def handshake_rows(running, kind, options):
    """Full and resumed handshakes with one kind of key, in both versions."""
    rows = []
    for version, number in VERSIONS.items():
        for resumed in (False, True):
            points = {server.name: [] for server in running}
            for turn in range(options.rounds):
                for server in running if turn % 2 == 0 else running[::-1]:
                    points[server.name].append(handshakes(server, number, resumed, options.seconds))
            what = "resumed" if resumed else f"full, {kind}"
            if not (resumed and kind != "P-256"):
                rows.append(row(f"{version}, {what}", [points[server.name] for server in running], 0))
    return rows


def handshakes(server, version, resumed, seconds):
    """µs of CPU that the server takes for a handshake, the connection around it included."""
    context = ssl._create_unverified_context()
    context.minimum_version = context.maximum_version = version
    context.set_alpn_protocols(["http/1.1"])
    session = earlier_session(context, server) if resumed else None
    before, count, end = sum(measure.cpu_seconds(server.process.pid)), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.create_connection(("127.0.0.1", server.port)) as plain:
            with context.wrap_socket(plain, session=session) as secured:
                if secured.session_reused != resumed:
                    raise SystemExit(f"{server.name}: a handshake was {'full' if resumed else 'resumed'}")
                if secured.selected_alpn_protocol() != "http/1.1":
                    raise SystemExit(f"{server.name} does not answer ALPN")
        count += 1
    return (sum(measure.cpu_seconds(server.process.pid)) - before) / count * 1e6


def earlier_session(context, server):
    """A session to resume. In TLS 1.3 its ticket comes after the handshake, so something is asked for."""
    with socket.create_connection(("127.0.0.1", server.port)) as plain:
        with context.wrap_socket(plain) as secured:
            secured.sendall(b"GET /1024 HTTP/1.1\r\nHost: bench\r\n\r\n")
            secured.recv(1)
            return secured.session


def hit_rows(running, options):
    """Hits over kept connections."""
    rows = []
    for size in SIZES:
        points = {server.name: [] for server in running}
        for server in running * 2:
            server.get(f"/{size}")
        for turn in range(options.rounds):
            for server in running if turn % 2 == 0 else running[::-1]:
                # What is half sent at the end of a point is not counted, so few large responses may be under way.
                connections = 64 if size < 100_000 else 8
                measured = measure.point(server, lambda: load.wrk(server, f"/{size}", max(1, int(options.seconds)), measure.BARE, connections))
                points[server.name].append(measured["us"])
        rows.append(row(f"{size // 1024} KB", [points[server.name] for server in running], 1))
        print(rows[-1], file=sys.stderr)
    return rows


def row(what, points, digits):
    nginx, shoal = map(statistics.median, points)
    ratio = statistics.median(theirs / ours for theirs, ours in zip(*points))
    return f"| {what} | {nginx:.{digits}f} | {shoal:.{digits}f} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
