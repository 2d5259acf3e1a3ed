#!/usr/bin/env python3
"""What viewers of the dashboard cost a node: CPU of one viewer by view, and the p99 of hits with fifty.

    python3 bench/viewers.py                 print the tables

A viewer reads the server-sent events of one view, as the page does. The node runs on core 0; viewers and the load generator run on core 1. CPU
is of the node over `--seconds` with one viewer, less that of the same time without, at a load of 500 hits a second. The p99 is of an open loop; rounds with and without the fifty viewers follow each other, and the median of the rounds' ratios is kept. Needs taskset, and
release builds: `cargo build --release -p shoal -p shoal-testkit`.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import threading
import time

import load
import machine
import measure
import programs
import servers

VIEWS = ["now", "reasons", "disk", "size", "origins", "objects", "cluster", "log"]
PATH = "/1024?{}"
OBJECTS = 20000
LIGHT = {"rate": 500, "path": PATH, "objects": OBJECTS, "connections": 16}
SLICE_MS = 100


def main():
    options = arguments()
    os.sched_setaffinity(0, {int(load.CORE)})
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        origin = servers.Origin()
        shoal = servers.start_shoal(folder, origin.url, options.shoal)
        try:
            load.in_turn([(shoal, [{**LIGHT, "rate": 2000}])], 2 * OBJECTS / 2000, 1, SLICE_MS)
            parts = {"one": one_viewer, "many": many_viewers}
            tables = [["", *parts[part](shoal, options)] for part in options.parts]
            text = "\n".join(machine.head() + sum(tables, [])) + "\n"
        finally:
            shoal.stop()
    print(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=10, help="how long each point takes")
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--rate", type=int, default=20000, help="hits a second while the p99 is taken")
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["one", "many"])
    programs.add_shoal(parser)
    return parser.parse_args()


class Viewers:
    """So many readers of the events of `view`, each over a connection of its own, while the block runs."""

    def __init__(self, shoal, view, count):
        self.shoal, self.view, self.count, self.bytes, self.open = shoal, view, count, 0, []

    def __enter__(self):
        for number in range(self.count):
            view = self.view or VIEWS[number % len(VIEWS)]
            connection = socket.create_connection(("127.0.0.1", self.shoal.admin_port))
            connection.sendall(f"GET /ui/live?page={view} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            self.open.append(connection)
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()
        time.sleep(2)
        if self.count and not self.bytes:
            raise SystemExit("no event came within two seconds")
        return self

    def read(self, connection):
        try:
            while got := connection.recv(1 << 18):
                self.bytes += len(got)
        except OSError:
            pass

    def __exit__(self, *_):
        for connection in self.open:
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        time.sleep(1)


def one_viewer(shoal, options):
    """The rows by view: percent of a core that one viewer takes, and the bytes that it is sent."""
    lines = ["| one viewer of | % of a core | KB a second |", "|---|--:|--:|"]
    for view in VIEWS:
        shares, sent = [], 0
        for _ in range(3):
            without = spent(shoal, options)
            with Viewers(shoal, view, 1) as viewers:
                before = viewers.bytes
                with_one = spent(shoal, options)
                sent = (viewers.bytes - before) / options.seconds
            shares.append((with_one - without) / options.seconds * 100)
        lines.append(f"| {view} | {statistics.median(shares):.2f} | {sent / 1000:.1f} |")
        print(f"{view}: {shares}", file=sys.stderr)
    return lines


def spent(shoal, options):
    """CPU seconds of the node over so many seconds of light load."""
    before = sum(measure.cpu_seconds(shoal.process.pid))
    load.in_turn([(shoal, [LIGHT])], options.seconds, 1, SLICE_MS)
    return sum(measure.cpu_seconds(shoal.process.pid)) - before


def many_viewers(shoal, options):
    """The rows of the p99 without and with many viewers, spread over the views."""
    load.prefer(shoal.process.pid)
    stream = {"rate": options.rate, "path": PATH, "objects": OBJECTS, "connections": 64}
    without, with_them = [], []
    for number in range(options.rounds):
        for count, kept in ((0, without), (options.viewers, with_them)):
            with Viewers(shoal, None, count):
                kept.append(load.in_turn([(shoal, [stream])], options.seconds / 2, number + 1, SLICE_MS)[0][0])
        print(f"p99: round {number + 1} of {options.rounds}", file=sys.stderr)
    titles = "p50 µs | p99 µs | p99, none = 1 | quartiles | p99 of the middle turn, none = 1 | quartiles"
    lines = [f"| hits of 1 KB at {options.rate} a second | {titles} |", "|---" + "|--:" * 6 + "|"]
    for name, own in (("no viewer", without), (f"{options.viewers} viewers", with_them)):
        cells = [f"{load_median(own, 'p50_us'):.0f}", f"{load_median(own, 'p99_us'):.0f}"]
        for what in ("p99_us", "turn_p99_us"):
            ratios = [mine[what] / theirs[what] for mine, theirs in zip(own, without)]
            cuts = " – ".join(f"{cut:.2f}" for cut in statistics.quantiles(ratios)[::2])
            cells += [f"{statistics.median(ratios):.2f}", cuts]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def load_median(points, name):
    return statistics.median(point[name] for point in points)


if __name__ == "__main__":
    main()
