"""How long a purge takes until every node of the cluster has confirmed it: the third part of the bench of clusters.

While clients ask at a rate, an object gets a new version at the origin, and one of the nodes is told to purge it. The time runs from the command
to its answer, which says that all nodes have applied the purge and written it down. Then all nodes are asked for the object at once: an older
version counts as stale.
"""

import asyncio
import random
import time

import cluster_faults
import cluster_load
import cluster_setups
import machine

COLUMNS = ["requests a second", "purges", "not confirmed", "stale", "p50 ms", "p90 ms", "p99 ms", "p99.9 ms", "longest ms", "within 100 ms"]


def run(options, started):
    requests = cluster_load.zipf(options.requests)
    rows = []
    for rate in (1.0, options.rate):
        with started(options, cluster_setups.cluster, requests) as (ground, origin, running):
            course = cluster_faults.Course(ground, origin, running, 0)
            rows.append([f"{rate:.0f}", *asyncio.run(measured(options, requests, rate, course))])
    lines = machine.head() + ["| " + " | ".join(COLUMNS) + " |", "|" + "--:|" * len(COLUMNS)]
    print("\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]))


async def measured(options, requests, rate, course):
    """The cells of a row."""
    running, stop = course.running, asyncio.Event()
    clients = cluster_load.Clients(running.entries, running.absolute, limit=10.0)
    nodes = [cluster_load.node_of(asked.client, len(running.entries), False) for asked in requests]
    await cluster_load.closed_loop(clients, requests, nodes, 16)
    await asyncio.sleep(running.settle_seconds)
    load = asyncio.ensure_future(cluster_faults.load(clients, requests, nodes, rate, course, stop, []))
    chance, seconds, unconfirmed, stale = random.Random(3), [], 0, 0
    large = [asked for asked in requests if asked.size > 200]
    for _ in range(options.purges):
        asked = chance.choice(large)
        version = await asyncio.to_thread(course.origin.bump, asked.url)
        begun = time.monotonic()
        done = await cluster_faults.purge_at(*chance.choice(running.entries), asked)
        seconds.append(time.monotonic() - begun)
        unconfirmed += not done
        outcomes = await asyncio.gather(*(clients.get(asked, node) for node in range(len(running.entries))))
        stale += done and any(outcome.wrong or outcome.failure or outcome.version < version for outcome in outcomes)
    stop.set()
    await load
    clients.close()
    seconds.sort()
    at = [f"{seconds[int(share * (len(seconds) - 1))] * 1000:.1f}" for share in (0.5, 0.9, 0.99, 0.999, 1.0)]
    within = sum(second <= 0.1 for second in seconds) / len(seconds)
    return [len(seconds), unconfirmed, stale, *at, f"{within:.1%}"]
