"""What fails while nodes fail: the second part of the bench of clusters.

Clients keep asking at a rate. Every half second an object gets a new version at the origin, and is purged. A node is killed,
frozen, unplugged, parted from the other nodes alone, loses most of its core, is the home of an object that gets a tenth of the requests, or all are
restarted in turn. Clients are sent elsewhere while a node is out, as a balancer
would do; requests under way at it are counted apart. A body is wrong if it is not byte for byte a version of what was asked for, and purged if
it is older than a version whose purge was acknowledged before the request was sent. Elsewhere are objects with another first home than the node.
"""

import asyncio
import bisect
import collections
import dataclasses
import random
import sys
import time
import typing

import cluster_counters
import cluster_load
import cluster_setups
import machine
from cluster_ground import Ground

VICTIM = 1
COLUMNS = [
    "set-up", "fault", "requests", "failed", "under way at the node", "wrong", "purged", "purges", "not confirmed",
    "hit ratio before", "worst second", "seconds to 95%", "elsewhere: worst", "elsewhere: seconds to 95%",
]


@dataclasses.dataclass
class Course:
    """A run under way: which nodes take clients, what was purged when, and the origin's count by second."""

    ground: Ground
    # The origin of `cluster.py`.
    origin: typing.Any
    running: cluster_setups.Running
    seconds: float
    out: dict = dataclasses.field(default_factory=dict)
    spans: list = dataclasses.field(default_factory=list)
    purged: dict = dataclasses.field(default_factory=lambda: collections.defaultdict(list))
    unconfirmed: int = 0
    # Time, and the URLs that the origin was asked for since the time before.
    origin_urls: list = dataclasses.field(default_factory=list)
    # URLs with the first home at the node that fails.
    at_victim: set = dataclasses.field(default_factory=set)
    # The request that every tenth one is replaced by.
    hot: typing.Any = None
    requests: list = dataclasses.field(default_factory=list)
    begun: float = 0.0
    ended: float = 0.0

    def take_out(self, node):
        self.out[node] = time.monotonic()

    def take_in(self, node):
        self.spans.append((node, self.out.pop(node), time.monotonic()))

    def processes(self, node):
        return [process for process in self.running.processes if process.host == node]

    def node_for(self, node):
        """The node itself, or the next one that takes clients."""
        count = len(self.running.entries)
        return next((other % count for other in range(node, node + count) if other % count not in self.out), node)

    def was_under_way(self, outcome):
        """Whether a request had been sent to a node, or was just being, when it went out."""
        return any(outcome.node == node and outcome.begun <= at and outcome.begun + outcome.seconds >= at - 0.05 for node, at, _ in self.spans)


def killed(course):
    course.take_out(VICTIM)
    for process in course.processes(VICTIM):
        process.kill()
    time.sleep(min(5, course.seconds))
    restart(course, VICTIM)


def frozen(course):
    course.take_out(VICTIM)
    course.ground.do(f"freeze {VICTIM}")
    time.sleep(course.seconds)
    course.ground.do(f"thaw {VICTIM}")
    course.take_in(VICTIM)


def unplugged(course):
    course.take_out(VICTIM)
    course.ground.do(f"unplug {VICTIM}")
    time.sleep(course.seconds)
    course.ground.do("heal")
    made_up(course)
    course.take_in(VICTIM)


def parted(course):
    course.ground.do(f"split {VICTIM}")
    time.sleep(course.seconds)
    course.ground.do("heal")
    made_up(course)


def made_up(course):
    """Tells how long after a cut healed no node lacked a purge any more."""
    healed = time.monotonic()
    while time.monotonic() < healed + 30:
        ips = course.running.admins or []
        lags = [cluster_counters.metric(ip, "shoal_cluster_purges_lag") for ip in ips]
        # A node that is out has no lag: it must be a member again.
        members = [cluster_counters.metric(ip, "shoal_cluster_members") for ip in ips]
        if all(lag == 0 for lag in lags) and all(count == len(ips) for count in members):
            return print(f"purges made up for {time.monotonic() - healed:.2f} s after the cut healed", file=sys.stderr)
        time.sleep(0.02)
    print("purges not made up for within 30 s", file=sys.stderr)


def slowed(course):
    course.ground.do(f"cpu {VICTIM} 15")
    time.sleep(course.seconds)
    course.ground.do(f"cpu {VICTIM} 100")


def hot(course):
    at_victim = [asked for asked in course.requests if asked.url in course.at_victim]
    course.hot = (at_victim or course.requests)[0]
    time.sleep(course.seconds)
    if course.running.admins:
        holders = cluster_counters.holders(course.running.admins[0], course.hot.url)
        print(f"the hot object is held by {holders} nodes", file=sys.stderr)
    course.hot = None


def rolling(course):
    for node in range(len(course.running.entries)):
        course.take_out(node)
        # A balancer stops sending before a node is stopped.
        time.sleep(1)
        for process in course.processes(node):
            process.stop()
        restart(course, node)
        time.sleep(2)


def restart(course, node):
    for process in course.processes(node):
        process.start()
    course.take_in(node)


FAULTS = {
    "killed": killed, "frozen": frozen, "unplugged": unplugged, "parted": parted, "slow core": slowed, "hot object": hot, "rolling restart": rolling,
}


def run(options, started):
    words = [word for word in (options.setups or "one node,isolated,cluster").lower().split(",") if word]
    rows = []
    for name, setup in cluster_setups.SETUPS.items():
        if not any(word in name.lower() for word in words):
            continue
        for fault, inflict in FAULTS.items():
            if fault not in options.faults.split(",") or (name.startswith("one node") and fault in ("parted", "hot object")):
                continue
            rows.append([name, fault, *one_row(options, started, setup, inflict)])
            print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    lines = machine.head() + ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    print("\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]))


def one_row(options, started, setup, inflict):
    requests = cluster_load.zipf(options.requests)
    try:
        with started(options, setup, requests) as (ground, origin, running):
            course = Course(ground, origin, running, options.fault_seconds, requests=requests)
            return asyncio.run(one_fault(options, requests, course, inflict))
    except RuntimeError as why:
        return [f"does not run: {str(why)[:300]}"] + [""] * (len(COLUMNS) - 3)


async def one_fault(options, requests, course, inflict):
    running = course.running
    count = len(running.entries)
    clients = cluster_load.Clients(running.entries, running.absolute, limit=10.0)
    nodes = [cluster_load.node_of(asked.client, count, False) for asked in requests]
    await cluster_load.closed_loop(clients, requests, nodes, 16)
    await asyncio.sleep(running.settle_seconds)
    if running.admins:
        urls, ips = sorted({asked.url for asked in requests}), running.admins
        course.at_victim = {url for url in urls if cluster_counters.first_home(ips[0], url) == ips[VICTIM]}
        course.origin.urls()
    stop, outcomes = asyncio.Event(), []
    beside = [asyncio.ensure_future(part) for part in (
        load(clients, requests, nodes, options.rate, course, stop, outcomes), purge(requests, course, stop), count_by_second(course, stop)
    )]
    await asyncio.sleep(BEFORE)
    course.begun = time.monotonic()
    try:
        await asyncio.to_thread(inflict, course)
        course.ended = time.monotonic()
        await asyncio.sleep(AFTER)
    finally:
        stop.set()
        await asyncio.gather(*beside)
        clients.close()
    return counted(course, outcomes)


async def load(clients, requests, nodes, rate, course, stop, outcomes):
    """Asks at a rate, for the trace again and again, at the nodes that take clients."""
    begin, number, under_way = time.monotonic(), 0, set()
    while not stop.is_set():
        if (early := begin + number / rate - time.monotonic()) > 0:
            await asyncio.sleep(early)
        place = number % len(requests)
        asked = course.hot if course.hot and number % 10 == 0 else requests[place]
        task = asyncio.ensure_future(clients.get(asked, course.node_for(nodes[place])))
        under_way.add(task)
        task.add_done_callback(lambda done: (under_way.discard(done), outcomes.append(done.result())))
        number += 1
        if len(under_way) >= cluster_load.AT_ONCE_MAX:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
    while under_way:
        await asyncio.wait(set(under_way))
    await asyncio.sleep(0)


async def purge(requests, course, stop):
    """Makes new versions of popular objects and purges the old ones: through one node where that reaches all, else at each."""
    chance = random.Random(2)
    while not stop.is_set():
        # What is asked for often comes up often here, too. A body must have room for its version.
        asked = chance.choice(requests)
        if asked.size > 200:
            version = await asyncio.to_thread(course.origin.bump, asked.url)
            entries = list(enumerate(course.running.entries))
            live = [node for node, _ in entries if node not in course.out]
            through = [chance.choice(live)] if course.running.purges_spread else [node for node, _ in entries]
            done = [await purge_at(*course.running.entries[node], asked) for node in through]
            if all(done):
                course.purged[asked.url].append((time.monotonic(), version))
            else:
                course.unconfirmed += 1
        await asyncio.sleep(0.5)


async def purge_at(ip, port, asked):
    """Whether a node acknowledges a purge."""
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(ip, port), 2)
        writer.write(f"PURGE {asked.path} HTTP/1.1\r\nHost: {asked.host}\r\nConnection: close\r\n\r\n".encode())
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return line.split()[1:2] in ([b"200"], [b"404"])
    except (OSError, asyncio.TimeoutError):
        return False


async def count_by_second(course, stop):
    while not stop.is_set():
        urls = await asyncio.to_thread(course.origin.urls)
        course.origin_urls.append((time.monotonic(), urls))
        await asyncio.sleep(1)


def counted(course, outcomes):
    """The cells of a row."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    under_way = sum(course.was_under_way(outcome) for outcome in failed)
    for outcome in [outcome for outcome in failed if not course.was_under_way(outcome)][:5]:
        since = f"{outcome.begun - course.begun:.1f} s after the fault began, for {outcome.seconds:.1f} s"
        print(f"failed at node {outcome.node}, {since}: {outcome.failure}", file=sys.stderr)
    purged = [outcome for outcome in outcomes if not outcome.failure and is_purged(course, outcome)]
    for outcome in purged[:5]:
        since = f"{outcome.begun - course.begun:.1f} s after the fault began, {outcome.begun - course.ended:+.1f} s from its end"
        print(f"purged body at node {outcome.node}, {since}", file=sys.stderr)
    return [
        len(outcomes), len(failed) - under_way, under_way, sum(outcome.wrong for outcome in outcomes), len(purged),
        sum(map(len, course.purged.values())), course.unconfirmed, *fall(course, outcomes, set()), *fall(course, outcomes, course.at_victim)[1:],
    ]


def fall(course, outcomes, without):
    """The hit ratio before the fault, the worst second since, and the longest time from a node's fault to a second below 95% of before."""
    ratios = hit_ratios(course, outcomes, without)
    before = [ratio for at, ratio in ratios if at <= course.begun]
    before = sum(before) / max(1, len(before))
    later = [(at, ratio) for at, ratio in ratios if at > course.begun]
    # In a rolling restart each node has a fault of its own.
    begins = [course.begun] + [out for _, out, _ in course.spans]
    low = [at - max(begin for begin in begins if begin <= at) for at, ratio in later if ratio < 0.95 * before]
    worst = min((ratio for _, ratio in later), default=0)
    return [f"{before:.2%}", f"{worst:.2%}", f"{max(low):.0f}" if low else "0"]


def is_purged(course, outcome):
    """Whether a body is older than a version whose purge was acknowledged before it was asked for."""
    known = [version for at, version in course.purged.get(outcome.asked.url, ()) if at < outcome.begun]
    return bool(known) and not outcome.wrong and outcome.version < max(known)


def hit_ratios(course, outcomes, without):
    """The share of requests that the origin did not see, second by second, but for some URLs: time and ratio."""
    ends, found = sorted(outcome.begun + outcome.seconds for outcome in outcomes if outcome.asked.url not in without), []
    for (since, _), (until, urls) in zip(course.origin_urls, course.origin_urls[1:]):
        answered = bisect.bisect_right(ends, until) - bisect.bisect_right(ends, since)
        if answered:
            found.append((until, 1 - sum(url not in without for url in urls) / answered))
    return found


# Seconds of load before and after a fault.
BEFORE, AFTER = 8, 15
