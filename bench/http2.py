#!/usr/bin/env python3
"""CPU per hit over HTTP/2 beside HTTP/1.1, Shoal and nginx.

    python3 bench/http2.py                 print the table
    python3 bench/http2.py --write         also put it into docs/experiments/hits-notebook.md

h2load (Debian: nghttp2-client) asks on core 1, over the same number of connections in every case; the server runs on
core 0, and its CPU is counted. Over TLS as clients speak HTTP/2, and in the clear, where it is the protocol alone.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import load
import machine
import measure
import network
import page
import programs
import servers

NGINX = "nginx, no sendfile, open_file_cache"
# How requests are sent: a name, and h2load's options.
WAYS = {
    "HTTP/1.1": ["--h1"],
    "HTTP/2, 1 stream": ["-m1"],
    "HTTP/2, 10 streams": ["-m10"],
    "HTTP/2, 100 streams": ["-m100"],
}
CONNECTIONS = 32


def main():
    network.enter()
    options = arguments()
    if not shutil.which("h2load"):
        raise SystemExit("h2load is not installed (Debian: apt-get install nghttp2-client)")
    lines = []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        pair = servers.certificate(folder, "P-256")
        for secured in (pair, None):
            running = [servers.start_shoal(folder, origin.url, options.shoal, pair=secured)]
            if secured:
                running.append(servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off", secured))
            try:
                for size in options.sizes:
                    lines += rows(running, size, options)
            finally:
                for server in running:
                    server.stop()
    head = ["| µs of CPU a hit | " + " | ".join(WAYS) + " |", "|---|" + "---|" * len(WAYS)]
    text = "\n".join(machine.head("nginx", "h2load") + head + lines) + "\n"
    print(text)
    if options.write:
        page.write("hits-notebook.md", "http2.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=1, help="length of one point")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 65536])
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/hits-notebook.md")
    return parser.parse_args()


def rows(running, size, options):
    """A row for each server: CPU per hit in each way, and how it compares with HTTP/1.1; medians of the rounds."""
    for server in running * 2:
        server.get(f"/{size}")
    points = {}
    for number in range(options.rounds):
        for way in list(WAYS)[:: 1 if number % 2 == 0 else -1]:
            for server in running:
                points.setdefault((server.name, way), []).append(point(server, size, way, options.seconds))
    lines = []
    for server in running:
        first, *others = [points[server.name, way] for way in WAYS]
        ratio = lambda own: statistics.median(ours / theirs for ours, theirs in zip(own, first))
        shown = [f"{statistics.median(first):.2f}"] + [f"{statistics.median(own):.2f} ({ratio(own):.2f})" for own in others]
        lines.append(f"| {server.name}, {size // 1024} KB{', TLS' if server.secure else ''} | " + " | ".join(shown) + " |")
        print(lines[-1], file=sys.stderr)
    return lines


def point(server, size, way, seconds):
    """µs of CPU that the server takes for a hit."""
    command = ["taskset", "-c", load.CORE, "h2load", "-t1", f"-c{CONNECTIONS}", f"-D{seconds}"] + WAYS[way]
    before = sum(measure.cpu_seconds(server.process.pid))
    text = subprocess.run(command + [f"{server.url}/{size}"], capture_output=True, text=True, check=True).stdout
    spent = sum(measure.cpu_seconds(server.process.pid)) - before
    done, failed, errored = (int(re.search(rf"(\d+) {what}", text).group(1)) for what in ("succeeded", "failed", "errored"))
    # What is under way when the time is over counts as failed in some versions of h2load.
    if not done or failed + errored > CONNECTIONS * 100:
        raise SystemExit(f"h2load saw failures at {server.name}:\n{text}")
    return spent / done * 1e6


if __name__ == "__main__":
    main()
