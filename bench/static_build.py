#!/usr/bin/env python3
"""CPU per hit of the static binary (musl) beside the package's one (glibc), in turn, and their sizes.

    cargo xtask package
    cargo build --release -p shoal-testkit
    python3 bench/static_build.py [--packages target/packages] [--write]

Takes both binaries out of what `cargo xtask package` wrote, so that the same source in the same profile is compared. Each round begins with new
processes on core 0; the load generator has core 1, and gives all turns of 30 ms. The glibc binary takes part twice, as
two servers: the difference of these two is noise. Ratios are of points of one round; their median is kept. `--write` puts the
table into docs/experiments/package.md. `--static` and `--dynamic` name binaries instead, to try the script. Needs taskset, dpkg-deb and tar.
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

import load
import machine
import measure
import network
import page
import programs
import servers

from pathlib import Path

DYNAMIC, AGAIN, STATIC = "glibc", "glibc again", "musl, static"
BAR = 1.05


def main():
    network.enter()
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        binaries = {DYNAMIC: dynamic(options, folder), STATIC: static(options, folder)}
        binaries[AGAIN] = binaries[DYNAMIC]
        points = {}
        for number in range(options.rounds):
            with contextlib.ExitStack() as stack:
                one_round(folder, stack, number, options, binaries, points)
            print(f"round {number + 1} of {options.rounds} done", file=sys.stderr)
        text = report(options, binaries, points)
    print(text)
    if options.write:
        page.write("package.md", "static_build.py", text)


def dynamic(options, folder):
    """The binary of the Debian package."""
    if options.dynamic:
        return programs.checked(options.dynamic)
    into = os.path.join(folder, "deb")
    subprocess.run(["dpkg-deb", "-x", the_one(options.packages, "shoal_*_amd64.deb"), into], check=True)
    return programs.checked(os.path.join(into, "usr/bin/shoal"))


def static(options, folder):
    """The binary of the static archive."""
    if options.static:
        return programs.checked(options.static)
    archive = the_one(options.packages, "shoal-*-x86_64-unknown-linux-musl.tar.gz")
    into = os.path.join(folder, "static")
    os.mkdir(into)
    subprocess.run(["tar", "xzf", archive, "-C", into, "--strip-components=1"], check=True)
    return programs.checked(os.path.join(into, "usr/bin/shoal"))


def the_one(folder, pattern):
    found = sorted(Path(folder).glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"{len(found)} files {pattern} in {folder}: run `cargo xtask package` first")
    return str(found[0])


def one_round(folder, stack, number, options, binaries, points):
    """Starts all servers and adds their points: (server, size) to a list of measurements."""
    origin = servers.Origin()
    stack.callback(origin.stop)
    running = []
    for name, binary in binaries.items():
        server = servers.start_shoal(folder, origin.url, binary, name)
        stack.callback(server.stop)
        running.append(server)
    for server in running:
        for size in options.sizes:
            for _ in range(20):
                if len(server.get(f"/{size}")) != size:
                    raise SystemExit(f"{server.name} answers /{size} with another length")
    # Shoal moves such bodies into large pages once a second.
    time.sleep(2)
    turn = number % len(running)
    order = running[turn:] + running[:turn]
    for size in options.sizes:
        asked = origin.asked
        measure.wait_until_quiet(options.patience)
        ask = lambda: load.closed_in_turn(order, f"/{size}", options.seconds, measure.BROWSER, options.connections)
        measured = measure.points(order, ask)
        if origin.asked != asked:
            raise SystemExit(f"the origin was asked during {size}: not only hits")
        for server, point in zip(order, measured):
            points.setdefault((server.name, size), []).append(point)


def report(options, binaries, points):
    """The machine, the command and the table of CPU, ratios and sizes."""
    ratio = lambda name, size: statistics.median(
        mine["us"] / theirs["us"] for mine, theirs in zip(points[(name, size)], points[(DYNAMIC, size)])
    )
    median = lambda name, size: statistics.median(point["us"] for point in points[(name, size)])
    titles = " | ".join(f"{size // 1024} KB" for size in options.sizes)
    lines = machine.head()
    lines += [f"| µs of CPU a hit (glibc = 1) | {titles} | binary |", "|---|" + "---|" * (len(options.sizes) + 1)]
    for name in [DYNAMIC, AGAIN, STATIC]:
        cells = " | ".join(f"{median(name, size):.2f} ({ratio(name, size):.3f})" for size in options.sizes)
        lines.append(f"| {name} | {cells} | {os.path.getsize(binaries[name]) / 1e6:.1f} MB |")
    worst = max(ratio(STATIC, size) for size in options.sizes)
    holds = "holds" if worst <= BAR else "is missed"
    lines += ["", f"The bar of {BAR - 1:.0%} more CPU {holds}: {worst - 1:+.1%} at the worst size."]
    every = [point for cell in points.values() for point in cell]
    disturbed = sum(point["others"] > measure.OTHERS_MAX for point in every)
    lines += [f"Other processes took more than a tenth of a core in {disturbed} of {len(every)} points."]
    return "\n".join(lines) + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", default="target/packages", help="folder that `cargo xtask package` wrote")
    parser.add_argument("--dynamic", type=os.path.abspath, help="a binary in place of the package's")
    parser.add_argument("--static", type=os.path.abspath, help="a binary in place of the archive's")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2, help="how long each server is loaded for one point")
    parser.add_argument("--connections", type=int, default=64, help="to each server")
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for a quiet machine before each point")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 8192, 65536])
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/package.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
