#!/usr/bin/env python3
"""CPU of hits by what is asked: the whole, whether it has changed, a part, the head alone, one of several variants; Shoal and nginx in turn.

    python3 bench/kinds.py                 print the table
    python3 bench/kinds.py --write         also put it into docs/experiments/hits-notebook.md

The servers run on core 0, the load generator on core 1: a closed loop by `shoal-load` at each, which have turns of 30 ms. Every round begins with new
processes; ratios are of one round each, and the median of the rounds is kept. The origin may be asked nothing meanwhile. Needs nginx, taskset and
release builds (`cargo build --release -p shoal -p shoal-testkit`).
"""

import argparse
import os
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
SIZE = 1024
# Target, fields and the rest, by what is asked. The origin's ETag, date, Accept-Ranges and Vary are those of servers.py.
KINDS = {
    "the whole": (f"/{SIZE}", [], {}),
    "304, by ETag": (f"/{SIZE}", [f'If-None-Match: "{SIZE}-1"'], {"status": 304}),
    "304, by date": (f"/{SIZE}", ["If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT"], {"status": 304}),
    "206, 500 bytes": (f"/{SIZE}?parts", ["Range: bytes=500-999"], {"status": 206}),
    "HEAD": (f"/{SIZE}", [], {"method": "HEAD"}),
    "a variant": (f"/{SIZE}?varied", ["Accept-Encoding: gzip, deflate, br, zstd"], {}),
}


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1, help="how long each server is loaded for one point")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/hits-notebook.md")
    options = parser.parse_args()
    points = {}
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            os.chmod(folder, 0o755)
            one_round(folder, number, options, points)
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    lines = machine.head("nginx")
    lines += [f"| {SIZE // 1024} KB | nginx: µs of CPU (user part) | shoal | per CPU-second, nginx = 1.00 |", "|---|---|---|---|"]
    lines += [row(kind, points[NGINX, kind], points["shoal", kind]) for kind in KINDS]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        page.write("hits-notebook.md", "kinds.py", text)


def one_round(folder, number, options, points):
    """Starts both, and adds a point of each kind: (server, kind of request) to its points, round by round."""
    origin = servers.Origin()
    running = [
        servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off"),
        servers.start_shoal(folder, origin.url, options.shoal),
    ]
    try:
        for path, fields, kind in KINDS.values():
            for server in running:
                server.get(path)
            load.closed_in_turn(running, path, 0.1, fields, 1, **kind)
        time.sleep(1)
        asked = origin.asked
        order = running if number % 2 == 0 else running[::-1]
        for name, (path, fields, kind) in KINDS.items():
            measure.wait_until_quiet(20)
            ask = lambda: load.closed_in_turn(order, path, options.seconds, fields, **kind)
            for server, point in zip(order, measure.points(order, ask)):
                points.setdefault((server.name, name), []).append(point)
        if origin.asked != asked:
            raise SystemExit(f"the origin was asked {origin.asked - asked} times: not only hits")
    finally:
        for server in running:
            server.stop()
        origin.stop()


def row(kind, nginx, shoal):
    median = lambda points, what: statistics.median(point[what] for point in points)
    cells = [f"{median(points, 'us'):.2f} ({median(points, 'user_us'):.2f})" for points in (nginx, shoal)]
    ratio = statistics.median(theirs["us"] / ours["us"] for theirs, ours in zip(nginx, shoal))
    return f"| {kind} | {cells[0]} | {cells[1]} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
