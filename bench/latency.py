#!/usr/bin/env python3
"""Latency of hits under an open-loop load: at 70% of saturation beside nginx, and beside reads from disk.

    python3 bench/latency.py                 print the tables
    python3 bench/latency.py --write         also put them into docs/experiments/hits.md

The server runs on core 0 and the load generator (`shoal-load` of testkit) on core 1; both run before other processes
where this user may ask for that. Requests are due at the instants of a Poisson process, and a latency counts from
when its request was due. Needs nginx, taskset, and release builds: `cargo build --release -p shoal -p shoal-testkit`.
"""

import argparse
import http.client
import os
import statistics
import sys
import tempfile
import time

import measure
import load
import network
import page
import programs
import servers

SHARE = 0.70
NGINX = "nginx, no sendfile, open_file_cache"


def main():
    network.enter()
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        text = ""
        if "saturated" in options.parts:
            text += saturated(folder, origin, options)
        if "disk" in options.parts:
            text += beside_disk(folder, origin, options)
    print(text)
    if options.write:
        page.write("hits.md", "latency.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="length of one point")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 65536])
    parser.add_argument("--parts", type=lambda text: text.split(","), default=["saturated", "disk"])
    parser.add_argument("--objects", type=int, default=1500, help="objects of each size on disk")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/experiments/hits.md")
    return parser.parse_args()


def saturated(folder, origin, options):
    """p50 and p99 of nginx and Shoal, each at 70% of its own saturation, and both at 70% of nginx's."""
    running = [
        servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off"),
        servers.start_shoal(folder, origin.url, options.shoal),
    ]
    try:
        for server in running:
            load.prefer(server.process.pid)
        lines = ["| hits at 70% of saturation | a core serves | rate | p50 µs | p99 µs | core busy |", "|---|---|---|---|---|---|"]
        for size in options.sizes:
            lines += saturated_rows(running, size, options)
    finally:
        for server in running:
            server.stop()
    return "\n".join(lines) + "\n\n"


def saturated_rows(running, size, options):
    """The rows of one size."""
    path = f"/{size}"
    for server in running * 2:
        server.get(path)
    measured = {server.name: [] for server in running}
    for _ in range(3):
        for server in running:
            measured[server.name].append(load.saturation(server, path, options.seconds / 2))
    most = {name: statistics.median(rates) for name, rates in measured.items()}
    rates = {(server.name, "its own"): SHARE * most[server.name] for server in running}
    rates[(running[1].name, "nginx's")] = SHARE * most[running[0].name]
    points = {key: [] for key in rates}
    for number in range(options.rounds):
        keys = list(rates) if number % 2 == 0 else list(rates)[::-1]
        for name, whose in keys:
            server = next(server for server in running if server.name == name)
            stream = {"rate": int(rates[name, whose]), "path": path, "connections": 64}
            (outcome,), busy = load.run(server, options.seconds, [stream], seed=number + 1)
            points[name, whose].append({**outcome, "busy": busy})
        print(f"{size} bytes: round {number + 1} of {options.rounds} done", file=sys.stderr)
    middle = lambda key, what: statistics.median(point[what] for point in points[key])
    return [
        f"| {key[0]}, {size // 1024} KB, at 70% of {key[1]} | {most[key[0]]:.0f}/s | {rates[key]:.0f}/s"
        f" | {middle(key, 'p50_us'):.0f} | {middle(key, 'p99_us'):.0f} | {middle(key, 'busy'):.0%} |"
        for key in rates
    ]


def beside_disk(folder, origin, options):
    """p99 of hits in RAM alone and while other requests are served from the disk, whose pages are dropped before."""
    lines = ["| hits in RAM, 1 KB, 20000 a second | p50 µs | p99 µs | p99, alone = 1 | served from disk |", "|---|---|---|---|---|"]
    shoal = servers.start_shoal(folder, origin.url, options.shoal, ram="4 MiB")
    try:
        load.prefer(shoal.process.pid)
        for size in (8192, 65536):
            fill(shoal, size, options.objects)
        shoal.get("/1024")
        # What was inserted is on disk after a second at most.
        time.sleep(3)
        # The alternatives are measured in turn.
        cases = {"alone": (), "8 KB": (8192, 1000), "64 KB": (65536, 250)}
        points = {name: [] for name in cases}
        for number in range(options.rounds):
            for name, case in cases.items():
                points[name].append(one_beside_disk(shoal, origin, options, case, number + 1))
    finally:
        shoal.stop()
    middle = lambda name, what: statistics.median(point[what] for point in points[name])
    for name, case in cases.items():
        beside = f", beside {case[1]} of {name} a second from disk" if case else ", alone"
        growth = middle(name, "p99_us") / middle("alone", "p99_us")
        from_disk = f"{middle(name, 'disk'):.0f}/s" if case else ""
        lines.append(f"| shoal{beside} | {middle(name, 'p50_us'):.0f} | {middle(name, 'p99_us'):.0f} | {growth:.2f} | {from_disk} |")
    return "\n".join(lines) + "\n"


def fill(shoal, size, objects):
    """Has every object fetched and stored, over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", shoal.port, timeout=10)
    for number in range(objects):
        connection.request("GET", f"/{size}?{number}")
        if len(connection.getresponse().read()) != size:
            raise SystemExit(f"{shoal.name} answers with another length")
    connection.close()


def one_beside_disk(shoal, origin, options, case, seed):
    """One point: the latencies of hits in RAM, and how many requests a second were hits on disk."""
    drop_pages(shoal)
    streams = [{"rate": 20000, "path": "/1024", "connections": 64}]
    if case:
        size, rate = case
        streams.append({"rate": rate, "path": f"/{size}?{{}}", "objects": options.objects, "connections": 64})
    asked, disk = origin.asked, servers.metric(shoal, "shoal_responses_total", 'result="hit"')
    outcomes, _ = load.run(shoal, options.seconds, streams, seed)
    if origin.asked != asked:
        raise SystemExit(f"the origin was asked {origin.asked - asked} times beside hits on disk")
    served = servers.metric(shoal, "shoal_responses_total", 'result="hit"') - disk
    return {**outcomes[0], "disk": served / (options.seconds * 1.1)}


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
