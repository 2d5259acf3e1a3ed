#!/usr/bin/env python3
"""What any server could reach: CPU per hit of nginx, of Shoal, and of a server that does nothing, in turn.

    python3 bench/floor.py                 print the table
    python3 bench/floor.py --write         also put it into docs/experiments/hits.md

The server that does nothing (`shoal-floor` of testkit) sends the bytes that Shoal answers with, one read and one write for each, and asks the kernel itself who is ready. Where
its ratio is below a bar, the kernel's part of a hit is the obstacle. The first table is of servers that always have requests to answer; the second of servers under
wrk, which is the slower side of a pair with a quick server, so that this sleeps between requests and pays for waking up. With a C compiler and liburing (Debian's `liburing-dev`) there is a second server that does nothing, over io_uring
(`floor_ring.c`). Needs nginx, wrk, taskset, and `cargo build --release -p shoal -p shoal-testkit`.
"""

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile

import load
import measure
import network
import page
import programs
import servers

NGINX = "nginx, no sendfile, open_file_cache"
FLOOR = "a server that does nothing"
RING = "the same over io_uring"
LOADS = {"saturated": load.closed, "under wrk": load.wrk}
KINDS = {"bare": measure.BARE, "browser": measure.BROWSER}


def main():
    network.enter()
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        options.ring = built_ring(folder)
        text = "\n\n".join(table(folder, name, options) for name in LOADS)
    print(text)
    if options.write:
        page.write("hits.md", "floor.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="length of one point")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 8192, 65536, 1048576])
    parser.add_argument("--patience", type=float, default=20, help="seconds to wait for a quiet machine before each")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true")
    return parser.parse_args()


def built_ring(folder):
    """The server that does nothing over io_uring; `None` where it cannot be built."""
    program = os.path.join(folder, "floor_ring")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "floor_ring.c")
    if not shutil.which("cc") or subprocess.run(["cc", "-O2", "-o", program, source, "-luring"]).returncode:
        print("left out: a server that does nothing over io_uring, which needs cc and liburing")
        return None
    return program


def table(folder, name_of_load, options):
    """Hits per CPU-second of each server at each size and kind of request, under one of the loads."""
    columns, rows, others = [], {NGINX: [], "shoal": [], FLOOR: []} | ({RING: []} if options.ring else {}), []
    for size in options.sizes:
        points = measured(folder, size, name_of_load, options)
        for kind in KINDS:
            columns.append(f"{size // 1024} KB {kind}")
            medians = {name: statistics.median(point["us"] for point in points[name, kind]) for name in rows}
            others += [point["others"] for name in rows for point in points[name, kind]]
            for name, median in medians.items():
                rows[name].append(f"{median:.2f} ({medians[NGINX] / median:.2f})")
    lines = [f"| servers {name_of_load}: µs of CPU a hit (hits per CPU-second, nginx = 1.00) | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    busy = sum(other > measure.OTHERS_MAX for other in others)
    return "\n".join(lines) + f"\n\nOther processes took more than a tenth of a core in {busy} of {len(others)} points."


def measured(folder, size, name_of_load, options):
    origin = servers.Origin()
    with contextlib.ExitStack() as stack:
        running = [
            servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off"),
            servers.start_shoal(folder, origin.url, options.shoal),
        ]
        for server in running:
            stack.callback(server.stop)
            server.get(f"/{size}")
            server.get(f"/{size}")
        for floor in start_floors(folder, running[1], size, options.ring):
            stack.callback(floor.stop)
            running.append(floor)
        points = {}
        for number in range(options.rounds):
            for server in running if number % 2 == 0 else running[::-1]:
                for kind, fields in KINDS.items():
                    measure.wait_until_quiet(options.patience)
                    ask = lambda: LOADS[name_of_load](server, f"/{size}", options.seconds, fields, options.connections)
                    point = measure.point(server, ask)
                    points.setdefault((server.name, kind), []).append(point)
        return points


def start_floors(folder, shoal, size, ring):
    """The servers that do nothing, with Shoal's answer."""
    with socket.create_connection(("127.0.0.1", shoal.port)) as client:
        client.sendall(f"GET /{size} HTTP/1.1\r\nHost: 127.0.0.1:{shoal.port}\r\n\r\n".encode())
        answer = b""
        while b"\r\n\r\n" not in answer or len(answer.split(b"\r\n\r\n", 1)[1]) < size:
            answer += client.recv(1 << 20)
    path = os.path.join(folder, f"answer-{size}")
    with open(path, "wb") as file:
        file.write(answer)
    own = tempfile.mkdtemp(prefix="floor-", dir=folder)
    port = servers.free_port()
    yield servers.Server(FLOOR, port, [programs.checked(programs.release("shoal-floor")), f"127.0.0.1:{port}", path], own)
    if ring:
        port = servers.free_port()
        yield servers.Server(RING, port, [ring, "127.0.0.1", str(port), path], own)


if __name__ == "__main__":
    main()
