"""Latency of set-ups that act as one cache, side by side: the third part of the bench of clusters.

All set-ups run at once, each on hosts of its own, and are warmed up by half of the trace. The other half comes in slices of a second, each slice to
every set-up in turn, so that a slow moment of the machine meets all. Conditions are: as usual; 15% of a core for one node; every tenth request for
one object. Percentiles are of all slices of a condition; beside p99 stand the least and the most of its quarters. Repeats are requests for objects
that were asked for before.
"""

import asyncio
import contextlib
import subprocess
import sys

import cluster_load
import cluster_origin
import machine

SLOWED, SLOWED_PERCENT, HOT_EVERY, QUARTERS = 1, 15, 10, 4
CONDITIONS = ["usual", "slow core", "hot object"]
COLUMNS = ["condition", "set-up", "requests", "failed", "p50 ms", "p90 ms", "p99 ms", "p99 of quarters", "repeats: p99 ms"]


def run(options, started, requests, setups):
    """Prints the table: one row for each condition and set-up."""
    with contextlib.ExitStack() as stack:
        running = {}
        for name, setup in setups.items():
            try:
                ground, _, it = stack.enter_context(started(options, setup, requests))
                running[name] = (ground, it)
            except (RuntimeError, subprocess.CalledProcessError) as why:
                print(f"{name} does not run: {str(why)[:300]}", file=sys.stderr, flush=True)
        rows = asyncio.run(measured(options, requests, running))
    lines = machine.head("nginx", "varnishd", "squid", "traffic_server")
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    print("\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]))


async def measured(options, requests, running):
    """The rows, condition by condition."""
    cluster_origin.keep_memory()
    count, half = 4, len(requests) // 2
    nodes = [cluster_load.node_of(asked.client, count, False) for asked in requests]
    clients = {name: cluster_load.Clients(it.entries, it.absolute) for name, (_, it) in running.items()}
    for name in running:
        await cluster_load.closed_loop(clients[name], requests[:half], nodes[:half], 16)
        print(f"{name} is warm", file=sys.stderr, flush=True)
    await asyncio.sleep(max(it.settle_seconds for _, it in running.values()))
    rows, part, asked_before = [], half // len(CONDITIONS), {asked.url for asked in requests[:half]}
    for number, condition in enumerate(CONDITIONS):
        since = half + number * part
        chosen = under(condition, requests[since : since + part], requests[0])
        with slow_core(condition, [ground for ground, _ in running.values()]):
            outcomes = await in_slices(options, clients, chosen, nodes[since : since + part])
        for name, of_setup in outcomes.items():
            rows.append([condition, name, *cells(of_setup, asked_before)])
            print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
        asked_before |= {asked.url for asked in chosen}
    for it in clients.values():
        it.close()
    return rows


async def in_slices(options, clients, requests, nodes):
    """Sends each slice to all set-ups, every time in another order; the outcomes of each in the order of its requests."""
    outcomes, size, names = {name: [] for name in clients}, max(1, int(options.rate)), list(clients)
    for turn, at in enumerate(range(0, len(requests), size)):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            done = await cluster_load.open_loop(clients[name], requests[at : at + size], nodes[at : at + size], options.rate)
            outcomes[name] += sorted(done, key=lambda outcome: outcome.begun)
    return outcomes


@contextlib.contextmanager
def slow_core(condition, grounds):
    """One node of each set-up has little of a core under the condition of that name."""
    if condition == "slow core":
        for ground in grounds:
            ground.do(f"cpu {SLOWED} {SLOWED_PERCENT}")
    try:
        yield
    finally:
        if condition == "slow core":
            for ground in grounds:
                ground.do(f"cpu {SLOWED} 100")


def under(condition, requests, hot):
    if condition != "hot object":
        return requests
    return [hot if number % HOT_EVERY == 0 else asked for number, asked in enumerate(requests)]


def cells(outcomes, asked_before):
    """The cells of a row, for outcomes in the order of their requests."""
    seen, repeats, every = set(asked_before), [], []
    for outcome in outcomes:
        if not outcome.failure:
            every.append(outcome.seconds)
            if outcome.asked.url in seen:
                repeats.append(outcome.seconds)
        seen.add(outcome.asked.url)
    quarter = max(1, len(every) // QUARTERS)
    tails = [percentile(every[at : at + quarter], 0.99) for at in range(0, quarter * QUARTERS, quarter)]
    told = [f"{percentile(every, share):.2f}" for share in (0.5, 0.9, 0.99)]
    return [len(outcomes), len(outcomes) - len(every), *told, f"{min(tails):.2f} to {max(tails):.2f}", f"{percentile(repeats, 0.99):.2f}"]


def percentile(seconds, share):
    ordered = sorted(seconds)
    return ordered[int(share * (len(ordered) - 1))] * 1000 if ordered else float("nan")
