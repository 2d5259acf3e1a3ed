#!/usr/bin/env python3
"""CPU per hit, Shoal against nginx at its best, on this machine, in turn.

    python3 bench/hits.py                 print the tables
    python3 bench/hits.py --write         also put them into docs/experiments/hits.md

The servers run on core 0 and the load generator on core 1: a closed loop by `shoal-load` of testkit at each server, which have turns of 30 ms, so that
what changes from second to second on a shared machine is the same for all. Every round begins with new processes, since how their memory lies decides
too, and goes through all sizes and kinds of request. The origin may be asked nothing meanwhile. Ratios are of points of one round, to the
nginx setting that the *other* rounds found best, so that none is chosen for its luck; their median is kept. Needs nginx, taskset and release builds (`cargo
build --release -p shoal -p shoal-testkit`); Varnish, Squid and Traffic Server take part where they are installed.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import load
import machine
import measure
import misses
import network
import page
import programs
import rivals
import servers

SHOAL = "shoal"
REQUESTS = {"bare": measure.BARE, "browser": measure.BROWSER}


def main():
    network.enter()
    options = arguments()
    if not shutil.which("taskset"):
        raise SystemExit("taskset is not installed (Debian: apt-get install util-linux)")
    if not options.only_nginx:
        programs.checked(options.shoal)
    names, points, memory = [], {}, ""
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, contextlib.ExitStack() as stack:
            os.chmod(folder, 0o755)
            memory = one_round(folder, stack, number, options, names, points)
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    text = report(options, names, points)
    print(text, flush=True)
    if memory:
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
            os.chmod(folder, 0o755)
            text += misses.report(folder, options, ["may not be stored"]) + memory
    print(text)
    if options.write:
        page.write("hits.md", "hits.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2, help="how long each server is loaded for one point")
    parser.add_argument("--connections", type=int, default=64, help="to each server")
    parser.add_argument("--tries", type=int, default=3, help="repeat points that others disturbed so often at most")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for a quiet machine before each")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 8192, 65536, 1048576])
    programs.add_shoal(parser)
    parser.add_argument("--no-rivals", action="store_true", help="leave out Varnish, Squid and Traffic Server")
    parser.add_argument("--only-nginx", action="store_true", help="leave out Shoal too")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/experiments/hits.md")
    return parser.parse_args()


def one_round(folder, stack, number, options, names, points):
    """Starts all servers and adds their points: (server, size, kind of request) to a list of measurements. The report of Shoal's memory, where it
    takes part."""
    origin = servers.Origin()
    stack.callback(origin.stop)
    running = []
    for server in started(folder, origin.url, options):
        stack.callback(server.stop)
        running.append(server)
    names[:] = [server.name for server in running]
    shoal = next((server for server in running if server.name == SHOAL), None)
    if shoal:
        time.sleep(2)
        idle = measure.resident_bytes(shoal.process.pid)
    warm(running, options.sizes)
    turn = number % len(running)
    order = running[turn:] + running[:turn]
    for size in options.sizes:
        for kind, headers in REQUESTS.items():
            asked = origin.asked
            measured = quiet_points(order, size, headers, options)
            if origin.asked != asked:
                raise SystemExit(f"the origin was asked during {size} {kind}: not only hits")
            for server, point in zip(order, measured):
                points.setdefault((server.name, size, kind), []).append(point)
    return memory_report(options, shoal, idle) if shoal else ""


def started(folder, origin, options):
    """All servers that take part, one by one."""
    yield from servers.start_nginx(folder, origin)
    if not options.only_nginx:
        yield servers.start_shoal(folder, origin, options.shoal, SHOAL)
        yield servers.start_shoal(folder, origin, options.shoal, f"{SHOAL}, no access log", logged=False)
        if not options.no_rivals:
            yield from rivals.start(folder, origin)


def warm(running, sizes):
    """Fetches each object through each server, checks its length, and asks for it often enough that it is kept as what is asked for often."""
    for server in running:
        for size in sizes:
            for _ in range(20):
                if len(server.get(f"/{size}")) != size:
                    raise SystemExit(f"{server.name} answers /{size} with another length")
    # Shoal moves such bodies into large pages once a second.
    time.sleep(2)


def quiet_points(running, size, headers, options):
    """A point of each server, while others left the machine alone, or the quietest of a few."""
    tries = []
    while len(tries) < options.tries:
        measure.wait_until_quiet(options.patience)
        ask = lambda: load.closed_in_turn(running, f"/{size}", options.seconds, headers, options.connections)
        tries.append(measure.points(running, ask))
        if tries[-1][0]["others"] <= measure.OTHERS_MAX:
            break
    return min(tries, key=lambda tried: tried[0]["others"])


def report(options, names, points):
    """The machine, the command, and the tables of CPU per hit and of ratios to the best nginx."""
    columns = [(size, kind) for size in options.sizes for kind in REQUESTS]
    titles = " | ".join(f"{size // 1024} KB {kind}" for size, kind in columns)
    table = lambda title, cell: [f"| {title} | {titles} |", "|---|" + "---|" * len(columns)] + [
        f"| {name} | {' | '.join(cell(name, column) for column in columns)} |" for name in names
    ]
    median = lambda what, name, column: statistics.median(measured[what] for measured in points[(name, *column)])
    lines = machine.head("nginx", *([] if options.no_rivals else ["varnishd", "squid", "traffic_server"]))
    lines += table("µs of CPU a hit (user part)", lambda *cell: f"{median('us', *cell):.2f} ({median('user_us', *cell):.2f})")
    best = {column: best_by_other_rounds(names, points, column) for column in columns}
    against_best = lambda name, column: statistics.median(
        theirs / measured["us"] for theirs, measured in zip(best[column], points[(name, *column)])
    )
    lines += [""] + table("hits per CPU-second, best nginx = 1.00", lambda *cell: f"{against_best(*cell):.2f}")
    every = [measured for cell in points.values() for measured in cell]
    disturbed = sum(measured["others"] > measure.OTHERS_MAX for measured in every)
    spreads = [(max(us) - min(us)) / statistics.median(us) for us in ([m["us"] for m in cell] for cell in points.values())]
    busy = {name: statistics.median(median("busy", name, column) for column in columns) for name in names}
    ratios = {column: [theirs / measured["us"] for theirs, measured in zip(best[column], points[(SHOAL, *column)])] for column in columns if SHOAL in names}
    if ratios:
        lines += [f"| {SHOAL}: the rounds' quartiles | " + " | ".join(quartiles(ratios[column]) for column in columns) + " |"]
        lines += [f"| {SHOAL}: round by round | " + " | ".join(" ".join(f"{ratio:.2f}" for ratio in ratios[column]) for column in columns) + " |"]
    lines += ["", f"Spread of one cell over its rounds: {statistics.median(spreads):.0%} of its median (middle), {max(spreads):.0%} (widest)."]
    lines += [f"Share of its core that a server was busy (middle cell): {', '.join(f'{name} {share:.0%}' for name, share in busy.items())}."]
    lines += [f"Other processes took more than a tenth of a core in {disturbed} of {len(every)} points."]
    return "\n".join(lines) + "\n"


def quartiles(values):
    """The lower and the upper, where there are enough."""
    return f"{statistics.quantiles(values)[0]:.2f} – {statistics.quantiles(values)[2]:.2f}" if len(values) > 2 else "–"


def best_by_other_rounds(names, points, column):
    """Round by round the CPU per hit of the nginx setting that took least in the other rounds."""
    settings = [[measured["us"] for measured in points[(name, *column)]] for name in names if name.startswith("nginx")]
    without = lambda us, number: us[:number] + us[number + 1 :] or us
    rounds = range(len(settings[0]))
    return [min(settings, key=lambda us: statistics.median(without(us, number)))[number] for number in rounds]


def memory_report(options, shoal, idle):
    """What Shoal takes: memory when idle and after the load, and its index per object."""
    lines = ["", "| memory | |", "|---|---|"]
    lines.append(f"| resident, idle | {idle / 1e6:.1f} MB |")
    lines.append(f"| resident, after the load | {measure.resident_bytes(shoal.process.pid) / 1e6:.1f} MB |")
    status = subprocess.run(
        [options.shoal, "status", "--config", shoal.settings_file, "--json"], capture_output=True, text=True
    )
    if status.returncode != 0:
        raise SystemExit(f"shoal status failed: {status.stderr}")
    most = find_number(json.loads(status.stdout), "objects_max")
    index = os.path.getsize(os.path.join(shoal.store_folder, "volume.index"))
    lines.append(f"| index file / objects it can hold | {index} B / {most} = {index / most:.1f} B |")
    return "\n".join(lines) + "\n"


def find_number(tree, name):
    """The first number called `name` anywhere in a JSON value."""
    if isinstance(tree, dict):
        if isinstance(tree.get(name), (int, float)):
            return tree[name]
        tree = list(tree.values())
    if isinstance(tree, list):
        for part in tree:
            found = find_number(part, name)
            if found is not None:
                return found
    return None


if __name__ == "__main__":
    main()
