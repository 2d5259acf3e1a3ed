#!/usr/bin/env python3
"""CPU of hits that are no plain GET, and so go the ordinary way: revalidations and parts, Shoal and nginx in turn.

    python3 bench/ordinary.py                 print the table
    python3 bench/ordinary.py --write         also put it into docs/experiments/hits.md

The servers run on core 0, wrk on core 1; ratios are of one round each, and the median of the rounds is kept. Needs nginx, wrk, taskset and a release build of shoal.
"""

import argparse
import os
import statistics
import tempfile

import load
import machine
import measure
import network
import page
import programs
import servers

NGINX = "nginx, no sendfile, open_file_cache"
SIZE = 1024
# What is asked for, by the fields that ask for it. The origin's ETag and date are those of servers.py.
KINDS = {
    "a plain hit": [],
    "304, by ETag": [f'If-None-Match: "{SIZE}-1"'],
    "304, by date": ["If-Modified-Since: Mon, 01 Jan 2024 00:00:00 GMT"],
    "206, 500 bytes": ["Range: bytes=500-999"],
}


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=int, default=1, help="length of one point")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/hits.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        points = measured(folder, options)
    lines = machine.head("nginx", "wrk")
    lines += [f"| {SIZE // 1024} KB | nginx: µs of CPU (user part) | shoal | per CPU-second, nginx = 1.00 |", "|---|---|---|---|"]
    lines += [row(kind, points[NGINX, kind], points["shoal", kind]) for kind in KINDS]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        page.write("hits.md", "ordinary.py", text)


def measured(folder, options):
    """(server, kind of request) to its points, round by round."""
    origin = servers.Origin()
    running = [
        servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off"),
        servers.start_shoal(folder, origin.url, options.shoal),
    ]
    points = {}
    try:
        for server in running * 3:
            server.get(f"/{SIZE}")
        for number in range(options.rounds):
            for kind, fields in KINDS.items():
                for server in running if number % 2 == 0 else running[::-1]:
                    point = measure.point(server, lambda: load.wrk(server, f"/{SIZE}", options.seconds, fields))
                    points.setdefault((server.name, kind), []).append(point)
    finally:
        for server in running:
            server.stop()
    if origin.asked != len(running):
        raise SystemExit(f"the origin was asked {origin.asked} times: not only hits")
    return points


def row(kind, nginx, shoal):
    median = lambda points, what: statistics.median(point[what] for point in points)
    cells = [f"{median(points, 'us'):.2f} ({median(points, 'user_us'):.2f})" for points in (nginx, shoal)]
    ratio = statistics.median(theirs["us"] / ours["us"] for theirs, ours in zip(nginx, shoal))
    return f"| {kind} | {cells[0]} | {cells[1]} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
