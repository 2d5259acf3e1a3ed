#!/usr/bin/env python3
"""CPU per hit, Shoal against nginx at its best, on this machine, in turn.

    python3 bench/hits.py                 print the tables
    python3 bench/hits.py --write         also put them into docs/experiments/hits.md

The server runs on core 0 and the load generator on core 1: a closed loop by `shoal-load` of testkit, or wrk (`--load wrk`), which is slower than a quick
server. All servers are up throughout; every round visits each of them at each size with each kind of request, in an order that turns round by
round. A point counts only if the origin was asked nothing meanwhile. Ratios are of points of one round, to the nginx setting that the *other* rounds
found best, so that none is chosen for its luck; their median is kept. Needs nginx, taskset and release builds (`cargo build --release -p shoal -p
shoal-testkit`); Varnish, Squid and Traffic Server take part where they are installed.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import load
import measure
import misses
import network
import page
import programs
import rivals
import servers

REQUESTS = {"bare": measure.BARE, "browser": measure.BROWSER}
LOADS = {"shoal-load": load.closed, "wrk": load.wrk}


def main():
    network.enter()
    options = arguments()
    for tool in ["taskset"] + ["wrk"] * (options.load is load.wrk):
        if not shutil.which(tool):
            raise SystemExit(f"{tool} is not installed (Debian: apt-get install wrk util-linux)")
    if not options.only_nginx:
        programs.checked(options.shoal)
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        origin = servers.Origin()
        running = []
        os.chmod(folder, 0o755)
        try:
            running += servers.start_nginx(folder, origin.url)
            idle = None
            if not options.only_nginx:
                shoal = servers.start_shoal(folder, origin.url, options.shoal)
                running.append(shoal)
                silent = servers.start_shoal(folder, origin.url, options.shoal, "shoal, no access log", logged=False)
                running.append(silent)
                if not options.no_rivals:
                    running += rivals.start(folder, origin.url)
                time.sleep(2)
                idle = measure.resident_bytes(shoal.process.pid)
            warm(running, options.sizes)
            points = rounds(running, origin, options)
            text = report(options, running, points)
            print(text, flush=True)
            if idle is not None:
                text += misses.report(folder, options, ["bare"])
                text += memory_report(options, shoal, idle)
        finally:
            for server in running:
                server.stop()
    print(text)
    if options.write:
        page.write("hits.md", "hits.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4, help="length of one point")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--load", type=LOADS.get, choices=LOADS.values(), default=load.closed, metavar="|".join(LOADS))
    parser.add_argument("--tries", type=int, default=3, help="repeat a point that others disturbed so often at most")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for a quiet machine before each")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 8192, 65536, 1048576])
    programs.add_shoal(parser)
    parser.add_argument("--no-rivals", action="store_true", help="leave out Varnish, Squid and Traffic Server")
    parser.add_argument("--only-nginx", action="store_true")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/experiments/hits.md")
    return parser.parse_args()


def warm(running, sizes):
    """Fetches each object twice through each server and checks its length."""
    for server in running:
        for size in sizes:
            for _ in range(2):
                if len(server.get(f"/{size}")) != size:
                    raise SystemExit(f"{server.name} answers /{size} with another length")


def rounds(running, origin, options):
    """Every point of every round: (server, size, kind of request) to a list of measurements."""
    points = {}
    for number in range(options.rounds):
        turn = number % len(running)
        order = running[turn:] + running[:turn]
        for size in options.sizes:
            for kind, headers in REQUESTS.items():
                for server in order:
                    asked = origin.asked
                    measured = quiet_point(server, size, headers, options)
                    if origin.asked != asked:
                        raise SystemExit(f"{server.name} asked the origin during {size} {kind}: not only hits")
                    points.setdefault((server.name, size, kind), []).append(measured)
        print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
    return points


def quiet_point(server, size, headers, options):
    """A point during which others left the machine alone, or the quietest of a few."""
    tries = []
    while len(tries) < options.tries:
        measure.wait_until_quiet(options.patience)
        tries.append(measure.point(server, lambda: options.load(server, f"/{size}", options.seconds, headers, options.connections)))
        if tries[-1]["others"] <= measure.OTHERS_MAX:
            break
    return min(tries, key=lambda tried: tried["others"])


def report(options, running, points):
    """The machine, the command, and the tables of CPU per hit and of ratios to the best nginx."""
    columns = [(size, kind) for size in options.sizes for kind in REQUESTS]
    titles = " | ".join(f"{size // 1024} KB {kind}" for size, kind in columns)
    table = lambda title, cell: [f"| {title} | {titles} |", "|---|" + "---|" * len(columns)] + [
        f"| {server.name} | {' | '.join(cell(server.name, column) for column in columns)} |" for server in running
    ]
    median = lambda what, name, column: statistics.median(measured[what] for measured in points[(name, *column)])
    lines = [f"Machine: {machine()}.", f"Command: `python3 bench/hits.py {shown(options)}`.", ""]
    lines += table("µs of CPU a hit (user part)", lambda *cell: f"{median('us', *cell):.2f} ({median('user_us', *cell):.2f})")
    best = {column: best_by_other_rounds(running, points, column) for column in columns}
    against_best = lambda name, column: statistics.median(
        theirs / measured["us"] for theirs, measured in zip(best[column], points[(name, *column)])
    )
    lines += [""] + table("hits per CPU-second, best nginx = 1.00", lambda *cell: f"{against_best(*cell):.2f}")
    every = [measured for cell in points.values() for measured in cell]
    disturbed = sum(measured["others"] > measure.OTHERS_MAX for measured in every)
    spreads = [(max(us) - min(us)) / statistics.median(us) for us in ([m["us"] for m in cell] for cell in points.values())]
    busy = {server.name: statistics.median(median("busy", server.name, column) for column in columns) for server in running}
    lines += ["", f"Spread of one cell over its rounds: {statistics.median(spreads):.0%} of its median (middle), {max(spreads):.0%} (widest)."]
    lines += [f"Share of its core that a server was busy (middle cell): {', '.join(f'{name} {share:.0%}' for name, share in busy.items())}."]
    lines += [f"Other processes took more than a tenth of a core in {disturbed} of {len(every)} points."]
    return "\n".join(lines) + "\n"


def best_by_other_rounds(running, points, column):
    """Round by round the CPU per hit of the nginx setting that took least in the other rounds."""
    settings = [[measured["us"] for measured in points[(server.name, *column)]] for server in running if server.name.startswith("nginx")]
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


def shown(options):
    name = next(name for name, run in LOADS.items() if run is options.load)
    return f"--rounds {options.rounds} --seconds {options.seconds} --connections {options.connections} --load {name}"


def machine():
    """CPU, cores, kernel and versions, without the name of the host."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    nginx = subprocess.run([shutil.which("nginx") or "/usr/sbin/nginx", "-v"], capture_output=True, text=True).stderr
    nginx = nginx.strip().removeprefix("nginx version: ")
    model = models[0] if models else platform.machine()
    release = platform.release().split("-")[0]
    return f"{model}, {os.cpu_count()} cores, Linux {release}, {network.congestion_control()}, {nginx}"


if __name__ == "__main__":
    main()
