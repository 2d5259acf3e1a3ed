#!/usr/bin/env python3
"""TLS by the kernel (kTLS): instructions per hit, Shoal and nginx, each with the kernel's TLS and without.

    python3 bench/virtual.py --instructions -- python3 bench/ktls.py      in a machine that has it

The clock of that machine counts instructions, the kernel's included, a nanosecond each: what is measured as microseconds of CPU are thousands of
instructions of the server, and the same at every run but for some percent. They are not time: on a real processor an instruction of AES takes another
than one that moves bytes. Without `--instructions`, or on a real machine, the figures are microseconds. Needs nginx, wrk, openssl,
taskset, a release build of shoal, and a kernel with TLS.
"""

import argparse
import os
import statistics
import tempfile

import load
import machine
import measure
import programs
import servers
import tls

NGINX = "sendfile on; {open_files}"
KTLS = " ssl_conf_command Options KTLS;"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    programs.add_shoal(parser)
    options = parser.parse_args()
    if not tls.has_kernel_tls():
        raise SystemExit("this kernel has no TLS: see bench/virtual.py")
    os.sched_setaffinity(0, {int(load.CORE)})
    print("\n".join(machine.head("nginx", "openssl", "wrk")))
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        pair = servers.certificate(folder, "P-256")
        running = [
            servers.start_shoal(folder, origin.url, options.shoal, "shoal", pair=pair),
            servers.start_shoal(folder, origin.url, options.shoal, "shoal, kTLS", pair=pair, kernel_tls=True),
            servers.one_nginx(folder, origin.url, "nginx", NGINX, "off", pair),
            servers.one_nginx(folder, origin.url, "nginx, kTLS", NGINX + KTLS, "off", pair),
        ]
        try:
            print("| a hit over TLS | " + " | ".join(server.name for server in running) + " |\n|---|" + "---|" * len(running))
            for size in tls.SIZES:
                row(running, size, options)
        finally:
            for server in running:
                server.stop()


def row(running, size, options):
    """One size, measured in turns; and how many sockets the kernel encrypted meanwhile."""
    cells = {server.name: [] for server in running}
    for server in running * 2:
        server.get(f"/{size}")
    for turn in range(options.rounds):
        for server in running if turn % 2 == 0 else running[::-1]:
            before = encrypted_by_kernel()
            connections = 16 if size < 100_000 else 4
            measured = measure.point(server, lambda: load.wrk(server, f"/{size}", 1, measure.BARE, connections))
            cells[server.name].append((measured["us"], encrypted_by_kernel() - before))
    text = [f"{statistics.median(us for us, _ in found):.1f} ({found[0][1]} sockets)" for found in cells.values()]
    print(f"| {size // 1024} KB | " + " | ".join(text) + " |", flush=True)


def encrypted_by_kernel():
    """Sockets that were ever given keys to send with, of this machine."""
    with open("/proc/net/tls_stat") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("TlsTxSw"))


if __name__ == "__main__":
    main()
