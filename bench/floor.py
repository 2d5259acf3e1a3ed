#!/usr/bin/env python3
"""What any server could reach: CPU per hit of nginx, of Shoal, and of a server that does nothing, in turn.

    python3 bench/floor.py                 print the table
    python3 bench/floor.py --write         also put it into docs/experiments/hits-notebook.md

The server that does nothing (`shoal-floor` of testkit) sends the bytes that Shoal answers with, one read and one write for each, and asks the kernel itself who is ready. Where
its ratio is below a bar, the kernel's part of a hit is the obstacle. The servers take turns as in `hits.py`. With a C compiler and liburing (Debian's `liburing-dev`) there is a second
server that does nothing, over io_uring (`floor_ring.c`). Needs nginx, taskset, and `cargo build --release -p shoal -p shoal-testkit`.
"""

import argparse
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import load
import machine
import measure
import network
import page
import programs
import servers

NGINX = "nginx, no sendfile, open_file_cache"
FLOOR = "a server that does nothing"
RING = "the same over io_uring"
KINDS = {"bare": measure.BARE, "browser": measure.BROWSER}


def main():
    network.enter()
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        options.ring = built_ring(folder)
        text = table(options)
    print(text)
    if options.write:
        page.write("hits-notebook.md", "floor.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="how long each server is loaded for one point")
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


def table(options):
    """Hits per CPU-second of each server at each size and kind of request."""
    columns, rows, others = [], {NGINX: [], "shoal": [], FLOOR: []} | ({RING: []} if options.ring else {}), []
    for size in options.sizes:
        points = measured(size, options)
        for kind in KINDS:
            columns.append(f"{size // 1024} KB {kind}")
            theirs = [point["us"] for point in points[NGINX, kind]]
            others += [point["others"] for point in points[NGINX, kind]]
            for name, cells in rows.items():
                us = [point["us"] for point in points[name, kind]]
                ratio = statistics.median(nginx / own for nginx, own in zip(theirs, us))
                cells.append(f"{statistics.median(us):.2f} ({ratio:.2f})")
    lines = machine.head("nginx") + [f"| µs of CPU a hit (hits per CPU-second, nginx = 1.00) | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items()]
    busy = sum(other > measure.OTHERS_MAX for other in others)
    return "\n".join(lines) + f"\n\nOther processes took more than a tenth of a core in {busy} of {len(others)} points.\n"


def measured(size, options):
    """(server, kind of request) to its points, one of each round, which begins with new processes."""
    points = {}
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder, contextlib.ExitStack() as stack:
            os.chmod(folder, 0o755)
            origin, running = servers.Origin(), []
            stack.callback(origin.stop)
            for server in started(folder, origin.url, size, options):
                stack.callback(server.stop)
                running.append(server)
            order = running if number % 2 == 0 else running[::-1]
            for kind, fields in KINDS.items():
                measure.wait_until_quiet(options.patience)
                ask = lambda: load.closed_in_turn(order, f"/{size}", options.seconds, fields, options.connections)
                for server, point in zip(order, measure.points(order, ask)):
                    points.setdefault((server.name, kind), []).append(point)
    return points


def started(folder, origin, size, options):
    """All servers, one by one, with the object in their caches."""
    nginx = servers.one_nginx(folder, origin, NGINX, servers.NGINX_SETTINGS[NGINX], "off")
    yield nginx
    shoal = servers.start_shoal(folder, origin, options.shoal)
    yield shoal
    for _ in range(20):
        nginx.get(f"/{size}")
        shoal.get(f"/{size}")
    # Shoal moves what is asked for so often into large pages once a second.
    time.sleep(2)
    yield from start_floors(folder, shoal, size, options.ring)


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
