#!/usr/bin/env python3
"""Latency of hits under an open-loop load: at 70% of saturation beside nginx and a server that does nothing, and beside reads from disk.

    python3 bench/latency.py                 print the tables
    python3 bench/latency.py --write         also put them into docs/experiments/hits-notebook.md

The server runs on core 0 and the load generator (`shoal-load` of testkit) on core 1; both run before other processes
where this user may ask for that. Requests are due at the instants of a Poisson process, and a latency counts from when
its request was due. What is compared has turns of 100 ms, so that what changes from second to second on a shared machine is the same for all; a
percentile is of all turns of a round, or of the middle one of them, which tells of turns that nobody disturbed; the median of the rounds is kept, as of their ratios.
The server's part ends when the kernel has the response, and begins when the request leaves: the load generator takes time of its own, the more the more
it asks for. Needs nginx, taskset, and release builds: `cargo build --release -p shoal -p shoal-testkit`.
"""

import argparse
import http.client
import os
import statistics
import sys
import tempfile
import time

import floor
import measure
import load
import machine
import network
import page
import programs
import servers

SHARE = 0.70

# Rounds of the closed loops that say what a server's saturation is: on it the rates depend, and on these a p99 more than on anything else.
SATURATION_ROUNDS = 7

# What p99_cells has.
QUARTILES = "quartiles of the rounds"
P99_TITLES = f"p99 µs | p99, {{0}} = 1 | {QUARTILES} | p99 of the middle turn µs | the same, {{0}} = 1 | {QUARTILES} | the server's part of that µs | the same, {{0}} = 1 | {QUARTILES}"
NGINX = "nginx, no sendfile, open_file_cache"

# Long beside what a turn's first requests take more, short beside the machine's changes.
SLICE_MS = 100

# What hits in RAM are measured beside: size of the objects and requests a second; and how many objects there are for each request of a round, so
# that few are asked for twice and found in memory.
FROM_DISK = {"8 KB": (8192, 1000), "64 KB": (65536, 250)}
OBJECTS_A_REQUEST = 4
RAM_HITS = {"rate": 20000, "path": "/1024", "connections": 64}


def main():
    network.enter()
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        text = "\n".join(machine.head("nginx")) + "\n"
        if "saturated" in options.parts:
            text += saturated(folder, origin, options)
        if "disk" in options.parts:
            text += beside_disk(folder, origin, options)
    print(text)
    if options.write:
        page.write("hits-notebook.md", "latency.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3, help="how long each has its turns in a round")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 65536])
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["saturated", "disk"])
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/experiments/hits-notebook.md")
    return parser.parse_args()


def saturated(folder, origin, options):
    """p50 and p99 of nginx and Shoal, each at 70% of its own saturation, and both at 70% of nginx's; and of a server that does nothing at Shoal's rate."""
    running = [
        servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off"),
        servers.start_shoal(folder, origin.url, options.shoal),
    ]
    try:
        for server in running:
            load.prefer(server.process.pid)
        lines = [f"| hits at 70% of saturation | a core serves | rate | p50 µs | {P99_TITLES.format('nginx')} | load generator late, p99 µs |", "|---|" + "---|" * 13]
        for size in options.sizes:
            nothing = next(floor.start_floors(folder, running[1], size, None))
            try:
                load.prefer(nothing.process.pid)
                lines += saturated_rows(running, nothing, size, options)
            finally:
                nothing.stop()
    finally:
        for server in running:
            server.stop()
    return "\n".join(lines) + "\n\n"


def saturated_rows(running, nothing, size, options):
    """The rows of one size."""
    path = f"/{size}"
    for server in running * 2:
        server.get(path)
    nginx, shoal = running
    most = saturations(running, path, options)
    ways = [(nginx, nginx, "its own"), (shoal, shoal, "its own"), (shoal, nginx, "nginx's"), (nothing, shoal, "Shoal's")]
    stream = lambda whose: {"rate": int(SHARE * most[whose.name]), "path": path, "connections": 64}
    points = rounds([(server, [stream(whose)]) for server, whose, _ in ways], options, f"{size} bytes")
    lines = []
    for (server, whose, named), own in zip(ways, points):
        what = f"{server.name}, {size // 1024} KB, at 70% of {named}"
        latencies = f"{median(own, 'p50_us'):.0f} | {p99_cells(own, points[0])} | {median(own, 'late_p99_us'):.0f}"
        lines.append(f"| {what} | {f'{most[server.name]:.0f}/s' if server.name in most else ''} | {stream(whose)['rate']}/s | {latencies} |")
    return lines


def saturations(running, path, options):
    """Hits a second that a whole core of each server would serve: those of closed loops in turn, over the CPU that they took."""
    measured = [measure.points(running, lambda: load.closed_in_turn(running, path, options.seconds / 2)) for _ in range(SATURATION_ROUNDS)]
    return {server.name: 1e6 / median(own, "us") for server, own in zip(running, zip(*measured))}


def rounds(cases, options, title, before=lambda: None):
    """For each of `cases` what became of its first stream, in each round."""
    points = [[] for _ in cases]
    for number in range(options.rounds):
        before()
        for own, outcomes in zip(points, load.in_turn(cases, options.seconds, number + 1, SLICE_MS)):
            own.append(outcomes[0])
        print(f"{title}: round {number + 1} of {options.rounds} done", file=sys.stderr)
    return points


def median(points, what):
    return statistics.median(point[what] for point in points)


def p99_cells(own, others):
    """The p99 of all turns, of the middle one, and of the server's part in that: of its own, over the others' by rounds, and the quartiles of that."""
    cells = []
    for what in ("p99_us", "turn_p99_us", "turn_server_p99_us"):
        ratios = [mine[what] / theirs[what] for mine, theirs in zip(own, others)]
        quartiles = " – ".join(f"{cut:.2f}" for cut in statistics.quantiles(ratios)[::2]) if len(ratios) > 2 and own is not others else ""
        cells += [f"{median(own, what):.0f}", f"{statistics.median(ratios):.2f}", quartiles]
    return " | ".join(cells)


def beside_disk(folder, origin, options):
    """p99 of hits in RAM alone and while other requests are served from the disk, whose pages are dropped before each round."""
    shoal = servers.start_shoal(folder, origin.url, options.shoal, ram="4 MiB")
    try:
        load.prefer(shoal.process.pid)
        cases = [(shoal, [RAM_HITS])]
        for size, rate in FROM_DISK.values():
            objects = int(rate * options.seconds * OBJECTS_A_REQUEST)
            fill(shoal, size, objects)
            cases.append((shoal, [RAM_HITS, {"rate": rate, "path": f"/{size}?{{}}", "objects": objects, "connections": 64}]))
        shoal.get("/1024")
        # What was inserted is on disk after a second at most.
        time.sleep(3)
        asked, hits, read = origin.asked, disk_hits(shoal), disk_bytes(shoal)
        alone, *beside = rounds(cases, options, "beside the disk", lambda: drop_pages(shoal))
        if origin.asked != asked:
            raise SystemExit(f"the origin was asked {origin.asked - asked} times beside hits on disk")
        hits, read = disk_hits(shoal) - hits, disk_bytes(shoal) - read
    finally:
        shoal.stop()
    lines = [f"| hits in RAM, 1 KB, 20000 a second | p50 µs | {P99_TITLES.format('alone')} |", "|---|" + "---|" * 10]
    lines.append(f"| shoal, alone | {median(alone, 'p50_us'):.0f} | {p99_cells(alone, alone)} |")
    for (name, (_, rate)), own in zip(FROM_DISK.items(), beside):
        what = f"shoal, beside {rate} of {name} a second from disk"
        lines.append(f"| {what} | {median(own, 'p50_us'):.0f} | {p99_cells(own, alone)} |")
    asked_in_all = options.rounds * options.seconds * sum(rate for _, rate in FROM_DISK.values())
    lines += ["", f"Of some {asked_in_all:.0f} requests for what was on disk {hits:.0f} were served from there, for which the device read {read / 1e6:.0f} MB."]
    return "\n".join(lines) + "\n"


def disk_hits(shoal):
    return servers.metric(shoal, "shoal_responses_total", 'result="hit"')


def disk_bytes(shoal):
    """What the process had read from devices."""
    with open(f"/proc/{shoal.process.pid}/io") as file:
        return int(dict(line.split(": ") for line in file)["read_bytes"])


def fill(shoal, size, objects):
    """Has every object fetched and stored, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", shoal.port, timeout=10)
    for number in range(objects):
        connection.request("GET", f"/{size}?{number}")
        if len(connection.getresponse().read()) != size:
            raise SystemExit(f"{shoal.name} answers with another length")
    connection.close()


def drop_pages(shoal):
    """Has the kernel forget the store's files, so that the disk is read."""
    for folder, _, names in os.walk(shoal.store_folder):
        for name in names:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


if __name__ == "__main__":
    main()
