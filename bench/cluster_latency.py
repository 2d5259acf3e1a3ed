"""Latency of set-ups that act as one cache, in rounds: the third part of the bench of clusters.

Each round starts every set-up anew, one after the other, so that a slow minute of the machine meets all. A set-up is warmed up by half of the
trace. The other half comes at a rate, a third of it under each condition: as usual; with 15% of a core for one node; with every tenth request for
one object. A row has the median of the rounds, and the least and the most. Repeats are requests for objects that were asked for before.
"""

import asyncio
import statistics
import subprocess
import sys

import cluster_load
import machine

SLOWED, SLOWED_PERCENT, HOT_EVERY = 1, 15, 10
CONDITIONS = ["usual", "slow core", "hot object"]
COLUMNS = ["condition", "set-up", "failed", "p50 ms", "p99 ms", "p99: least to most", "repeats: p99 ms", "repeats: least to most"]


def run(options, started, requests, setups):
    """Prints the table: one row for each condition and set-up."""
    found = {(condition, name): [] for condition in CONDITIONS for name in setups}
    for number in range(options.rounds):
        for name, setup in setups.items():
            try:
                with started(options, setup, requests) as (ground, _, running):
                    latencies = asyncio.run(one_round(options, requests, ground, running))
            except (RuntimeError, subprocess.CalledProcessError) as why:
                print(f"round {number}: {name} does not run: {str(why)[:300]}", file=sys.stderr, flush=True)
                continue
            for condition, of_condition in latencies.items():
                found[condition, name].append(of_condition)
            print(f"round {number}: {name}: {latencies}", file=sys.stderr, flush=True)
    rows = [[condition, name, *cells(rounds)] for (condition, name), rounds in found.items() if rounds]
    lines = machine.head("nginx", "varnishd", "squid", "traffic_server")
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---|---|" + "--:|" * (len(COLUMNS) - 2)]
    print("\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]))


async def one_round(options, requests, ground, running):
    """By condition: the failed requests, and the percentiles in milliseconds."""
    nodes = [cluster_load.node_of(asked.client, len(running.entries), False) for asked in requests]
    clients, half = cluster_load.Clients(running.entries, running.absolute), len(requests) // 2
    await cluster_load.closed_loop(clients, requests[:half], nodes[:half], 16)
    await asyncio.sleep(running.settle_seconds)
    asked_before, found, part = {asked.url for asked in requests[:half]}, {}, half // len(CONDITIONS)
    for number, condition in enumerate(CONDITIONS):
        since = half + number * part
        chosen = under(condition, requests[since : since + part], requests[0])
        if condition == "slow core":
            ground.do(f"cpu {SLOWED} {SLOWED_PERCENT}")
        outcomes = await cluster_load.open_loop(clients, chosen, nodes[since : since + part], options.rate)
        if condition == "slow core":
            ground.do(f"cpu {SLOWED} 100")
            await asyncio.sleep(2)
        found[condition] = told(outcomes, asked_before)
        asked_before |= {asked.url for asked in chosen}
    clients.close()
    return found


def under(condition, requests, hot):
    if condition != "hot object":
        return requests
    return [hot if number % HOT_EVERY == 0 else asked for number, asked in enumerate(requests)]


def told(outcomes, asked_before):
    """The count of failed requests; p50 and p99 of all, and p99 of repeats."""
    done = [outcome for outcome in outcomes if not outcome.failure]
    # Within a part, too, the second ask of a URL is a repeat.
    seen, repeats = set(asked_before), []
    for outcome in sorted(done, key=lambda outcome: outcome.begun):
        if outcome.asked.url in seen:
            repeats.append(outcome.seconds)
        seen.add(outcome.asked.url)
    every = [outcome.seconds for outcome in done]
    return len(outcomes) - len(done), percentile(every, 0.5), percentile(every, 0.99), percentile(repeats, 0.99)


def percentile(seconds, share):
    ordered = sorted(seconds)
    return round(ordered[int(share * (len(ordered) - 1))] * 1000, 2) if ordered else float("nan")


def cells(rounds):
    failed, medians, tails, repeats = zip(*rounds)
    span = lambda values: f"{min(values):.2f} to {max(values):.2f}"
    middle = lambda values: f"{statistics.median(values):.2f}"
    return [sum(failed), middle(medians), middle(tails), span(tails), middle(repeats), span(repeats)]
