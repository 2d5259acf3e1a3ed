#!/usr/bin/env python3
"""Hit ratio, origin bytes, CPU and latency of four nodes that act as one cache, beside other caches set up to do so.

    python3 bench/cluster.py --trace trace.csv --boston ../shared/traces/bu95-client-nov94-mar95.tsv.zst
    python3 bench/cluster.py --small                         a few thousand requests, to see that all of it works
    python3 bench/cluster.py faults --setups shoal           what fails while nodes are killed, frozen, cut off and restarted
    python3 bench/cluster.py purges                          how long a purge takes until all nodes have confirmed it
    python3 bench/cluster.py latency --trace trace.csv       p99 side by side, also with a slow core and with a hot object

Each node is a host of its own (`shoal-hosts` of testkit: network namespaces, needs root), or a loopback address. The first half of a trace
warms the nodes up, as fast as they answer; the second half comes at a rate and is measured. A client always comes to the same node. Hits are
what the origin does not see: its requests and bytes over those of the clients. Needs `cargo build -p shoal-testkit --bin shoal-hosts`, a release
build of shoal, and squid, varnish, haproxy, nginx and trafficserver where they shall take part. `--trace` is made by `tracegen` of the yardstick.
"""

import argparse
import asyncio
import contextlib
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

import cluster_counters
import cluster_faults
import cluster_latency
import cluster_load
import cluster_purges
import cluster_setups
import machine
import network
import page
import programs
from cluster_ground import Ground, hosts_program

NODES = 4
# The least that each of the caches runs with. Short traces are better measured with a larger share of memory and disk than with unequal ones.
MEMORY_MIN, DISK_MIN = 8 << 20, 64 << 20
# Memory of each host for requests under way, beside what its programs hold at rest and what they cache.
BUFFERS = 16 << 20
COLUMNS = ["trace", "clients", "set-up", "hit ratio", "byte hit ratio", "origin MB", "CPU s", "p50 ms", "p99 ms", "MB between nodes", "failed", "wrong"]


def main():
    network.enter()
    options = arguments()
    if options.what == "faults":
        return cluster_faults.run(options, started)
    if options.what == "purges":
        return cluster_purges.run(options, started)
    if options.what == "latency":
        return cluster_latency.run(options, started, next(iter(traces(options).values())), chosen(options))
    rows = []
    try:
        for row in compared(options):
            rows.append(row)
            print("  ".join(map(str, row)), file=sys.stderr, flush=True)
    finally:
        # A run that is ended early shows what it has.
        text = report(rows)
        print(text, flush=True)
    if options.csv:
        with open(options.csv, "w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
    if options.write:
        page.write("cluster.md", "cluster.py", text)


def compared(options):
    """The rows of the table, one by one."""
    for trace, requests in traces(options).items():
        for clients in options.clients.split(","):
            for name, setup in chosen(options).items():
                yield [trace, clients, name, *one_setup(options, setup, requests, clients == "skewed")]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["bars", "faults", "purges", "latency"], default="bars")
    parser.add_argument("--trace", help="CSV of the yardstick's tracegen")
    parser.add_argument("--boston", help="the Boston trace, as it is shared")
    parser.add_argument("--size", type=int, help="bodies of this many bytes, each asked for twice, instead of a trace")
    parser.add_argument("--requests", type=int, default=40_000, help="requests of each trace, both halves")
    parser.add_argument("--small", action="store_true", help="3,000 requests")
    parser.add_argument("--rate", type=float, default=400, help="requests a second of the measured half")
    parser.add_argument("--clients", default="even,skewed", help="even, skewed (70%% at the first node), or both")
    parser.add_argument("--setups", default="", help="names of set-ups contain one of these words, set apart by commas")
    parser.add_argument("--memory", type=float, default=1 / 8, help="a node's memory, in working sets")
    parser.add_argument("--disk", type=float, default=1.0, help="the disk of all nodes together, in working sets")
    # Squid looks for a neighbour's digest when it starts, and then not for five minutes (PeerDigestReqMinGap).
    parser.add_argument("--digest-wait", type=float, default=330, help="seconds between the halves for Squid's digests to be exchanged")
    parser.add_argument("--loopback", action="store_true", help="loopback addresses, even where there are namespaces")
    parser.add_argument("--hosts", default=hosts_program(), help="the program shoal-hosts")
    parser.add_argument("--csv", help="also write the table into this file")
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/cluster.md")
    parser.add_argument("--fault-seconds", type=float, default=30, help="how long a node is frozen or cut off")
    parser.add_argument("--purges", type=int, default=500, help="purges of which the time is taken")
    parser.add_argument("--faults", default=",".join(cluster_faults.FAULTS), help="those to inflict, by name")
    programs.add_shoal(parser)
    options = parser.parse_args()
    if options.small:
        options.requests, options.digest_wait = min(options.requests, 3000), min(options.digest_wait, 12)
    return options


def traces(options):
    """The traces by name."""
    found = {}
    if options.trace:
        found["yardstick"] = cluster_load.yardstick(options.trace, options.requests)
    if options.boston:
        found["Boston"] = cluster_load.boston(options.boston, options.requests)
    if options.size:
        found[f"{options.size} bytes"] = cluster_load.of_one_size(options.requests, options.size)
    return found or {"Zipf": cluster_load.zipf(options.requests)}


def chosen(options):
    words = [word for word in options.setups.lower().split(",") if word]
    return {name: setup for name, setup in cluster_setups.SETUPS.items() if not words or any(word in name.lower() for word in words)}


@contextlib.contextmanager
def started(options, setup, requests):
    """Hosts, the origin and one set-up, until the end of the block."""
    working_set = sum({asked.url: asked.size for asked in requests}.values())
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, contextlib.ExitStack() as stack:
        os.chmod(folder, 0o755)
        ground = Ground(NODES, options.hosts, options.loopback)
        stack.callback(ground.stop)
        origin = Origin(ground.outside, folder)
        stack.callback(origin.stop)
        hosts = sorted({asked.host for asked in requests})
        memory = max(int(working_set * options.memory), MEMORY_MIN)
        disk = max(int(working_set * options.disk / NODES), DISK_MIN)
        place, shoal = (ground.outside, origin.port), programs.checked(options.shoal)
        plan = cluster_setups.Plan(ground, folder, place, hosts, memory, disk, shoal, options.digest_wait)
        running = setup(plan)
        stack.callback(running.stop)
        # What a program needs at rest is its own; page cache is memory of the node like any other.
        for node in running.processes:
            ground.limit_memory(node.host, node.process.pid, running.memory_shares * memory + BUFFERS)
        yield ground, origin, running


class Origin:
    """`cluster_origin.py` as a process of its own."""

    def __init__(self, ip, folder):
        self.ip, self.port = ip, 9000
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cluster_origin.py")
        with open(os.path.join(folder, "origin.output"), "w") as log:
            self.process = subprocess.Popen([sys.executable, script, ip, str(self.port)], stdout=log, stderr=log)
        for _ in range(200):
            try:
                self.counts()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit(f"the origin does not listen on {ip}")

    def ask(self, path):
        with urllib.request.urlopen(f"http://{self.ip}:{self.port}{path}", timeout=10) as reply:
            return reply.read()

    def counts(self):
        return json.loads(self.ask("/-/counts"))

    def urls(self):
        """The URLs that were asked for since this was called last."""
        return json.loads(self.ask("/-/urls"))

    def bump(self, url):
        """Makes a new version of a URL; its number."""
        return int(self.ask(f"/-/bump?{url}"))

    def stop(self):
        self.process.terminate()
        self.process.wait()


def one_setup(options, setup, requests, skewed):
    """The cells of one row; why there are none where the set-up does not run."""
    try:
        with started(options, setup, requests) as (ground, origin, running):
            return asyncio.run(measured(options, requests, skewed, ground, origin, running))
    except (RuntimeError, subprocess.CalledProcessError) as why:
        return [f"does not run: {str(why)[:300]}"] + [""] * (len(COLUMNS) - 4)


async def measured(options, requests, skewed, ground, origin, running):
    nodes = [cluster_load.node_of(asked.client, NODES, skewed) for asked in requests]
    clients, half = cluster_load.Clients(running.entries, running.absolute), len(requests) // 2
    warm = await cluster_load.closed_loop(clients, requests[:half], nodes[:half], 16)
    await asyncio.sleep(running.settle_seconds)
    told = cluster_counters.counters(running.admins)
    counts, cpu, between = origin.counts(), running.cpu_seconds(), ground.bytes_between()
    outcomes = await cluster_load.open_loop(clients, requests[half:], nodes[half:], options.rate)
    cpu, after = running.cpu_seconds() - cpu, origin.counts()
    if running.admins:
        print(cluster_counters.told(told, cluster_counters.counters(running.admins)), file=sys.stderr, flush=True)
    between = None if between is None else ground.bytes_between() - between
    clients.close()
    asked_bytes = sum(outcome.asked.size for outcome in outcomes)
    origin_requests, origin_bytes = after["requests"] - counts["requests"], after["body_bytes"] - counts["body_bytes"]
    seconds = sorted(outcome.seconds for outcome in outcomes if not outcome.failure)
    at = lambda share: f"{seconds[int(share * (len(seconds) - 1))] * 1000:.1f}" if seconds else "-"
    return [
        f"{1 - origin_requests / len(outcomes):.2%}",
        f"{1 - origin_bytes / asked_bytes:.2%}",
        f"{origin_bytes / 1e6:.1f}",
        f"{cpu:.1f}",
        at(0.5),
        at(0.99),
        "-" if between is None else f"{between / 1e6:.1f}",
        sum(bool(outcome.failure) for outcome in outcomes + warm),
        sum(outcome.wrong for outcome in outcomes + warm),
    ]


def report(rows):
    lines = machine.head("nginx", "varnishd", "squid", "traffic_server")
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---|---|---|" + "--:|" * (len(COLUMNS) - 3)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
