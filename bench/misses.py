#!/usr/bin/env python3
"""CPU per miss: one URL of 8 KB that may not be stored, or is stale at once, so that the origin is asked for every request; Shoal against
nginx, in turn.

    python3 bench/misses.py                 print the table
    python3 bench/misses.py --write         also put it into docs/experiments/hits-notebook.md

The server runs on core 0; wrk and the origin, an nginx, share core 1. Both servers are up throughout and take turns; the medians of
the rounds are kept, and the quartiles of what Shoal takes less or more in one and the same round. Needs nginx, wrk, taskset, and
`cargo build --release`. bench/hits.py measures the same in fewer rounds.
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
KINDS = {
    "may not be stored": ("/8192", measure.BARE),
    "may not be stored, asked as a browser does": ("/8192", measure.BROWSER),
    "lifetime 0, ETag": ("/stale/8192", measure.BARE),
    "lifetime 0, no validator": ("/stale-unmarked/8192", measure.BARE),
}


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--seconds", type=int, default=1, help="length of one point")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for a quiet machine before each")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        text = "\n".join(machine.head("nginx", "wrk")) + report(folder, options)
    print(text)
    if options.write:
        page.write("hits-notebook.md", "misses.py", text)


def report(folder, options, kinds=tuple(KINDS)):
    """The table of misses."""
    lines = [
        "| 8 KB from the origin | nginx: µs of CPU a miss | shoal | misses per CPU-second, nginx = 1.00 | quartiles of the rounds "
        "| misses a second, nginx = 1.00 |",
        "|---|---|---|---|---|---|",
    ]
    points = measured(folder, options, kinds)
    for kind in kinds:
        nginx, shoal = ([point["us"] for point in points[name, kind]] for name in (NGINX, "shoal"))
        ratios = [theirs / ours for theirs, ours in zip(nginx, shoal)]
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        theirs, ours = statistics.median(nginx), statistics.median(shoal)
        rates = statistics.median(ours["rate"] / theirs["rate"] for theirs, ours in zip(points[NGINX, kind], points["shoal", kind]))
        lines.append(f"| {kind} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.2f} | {low:.2f}, {middle:.2f}, {high:.2f} | {rates:.2f} |")
    return "\n" + "\n".join(lines) + f"\n\n{options.rounds} rounds of {options.seconds} s.\n"


def measured(folder, options, kinds):
    """What each server and kind of request took, round by round."""
    origin = servers.start_miss_origin(folder)
    running = [origin]
    points = {}
    try:
        rivals = [
            servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off"),
            servers.start_shoal(folder, origin.url, options.shoal),
        ]
        running += rivals
        for number in range(options.rounds):
            for kind in kinds:
                path, fields = KINDS[kind]
                for server in rivals if number % 2 == 0 else rivals[::-1]:
                    measure.wait_until_quiet(options.patience)
                    server.get(path)
                    point = measure.point(server, lambda: load.wrk(server, path, options.seconds, fields))
                    points.setdefault((server.name, kind), []).append(point)
    finally:
        for server in running[::-1]:
            server.stop()
    return points


if __name__ == "__main__":
    main()
