#!/usr/bin/env python3
"""What clients notice while disks grow, shrink, come, go and move.

    python3 bench/disk_changes.py [--rate 200] [--mib 1024] [--object-bytes 16384]

A node serves requests at a fixed rate, as in bench/upgrade.py: a tenth are for new objects, the others for an object that was stored more than
a second before. First two volumes are filled to half. Then each step edits the settings and reloads them, waits until the change is made, and asks for
each object once more. Counted are requests that fail in any way, the seconds from the reload to the end of the change, the objects that
the origin had to send again, and the objects that the node says it gave up or evicted since not all fit. Lost are those sent again beyond these.
RAM is small, so that the disks answer.

Prints a Markdown table; --write puts it into docs/experiments/disks.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request

import machine
import network
import page
import programs
import upgrade

from pathlib import Path
from servers import free_port

# The longest wait for one change.
PATIENCE_SECONDS = 1800


def main():
    network.enter()
    options = arguments()
    # Head and body leave as they are written: otherwise each miss waits for an acknowledgement.
    upgrade.OriginHandler.disable_nagle_algorithm = True
    upgrade.BODY = b"0123456789abcdef" * (options.object_bytes // 16)
    with tempfile.TemporaryDirectory(prefix="shoal-disks-", dir=options.folder) as folder:
        rows = measured(options, Path(folder))
    text = table(options, rows)
    print(text)
    if options.write:
        page.write("disks.md", "disk_changes.py", text)
    return 0 if all(row["failed"] == 0 and row["lost"] <= 0 for row in rows) else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200, help="requests a second, all clients together")
    parser.add_argument("--mib", type=int, default=1024, help="size of each of the first two volumes")
    parser.add_argument("--object-bytes", type=int, default=16384)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the volumes")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/disks.md")
    return parser.parse_args()


def steps(mib):
    """Each step: what it is called, and the disks after it, in MiB."""
    return [
        ("grow a volume to twice its size", {"one": 2 * mib, "two": mib}),
        ("add a disk", {"one": 2 * mib, "two": mib, "three": mib}),
        ("move a disk to another path", {"one": 2 * mib, "two": mib, "four": mib}),
        ("remove a disk", {"two": mib, "four": mib}),
        ("shrink a volume to three quarters", {"two": mib, "four": mib * 3 // 4}),
        ("shrink both to a quarter: not all fits", {"two": mib // 4, "four": mib // 4}),
    ]


def measured(options, folder):
    origin = upgrade.Origin()
    node = Node(options, folder, origin.server_address[1])
    load = upgrade.Load(node.port, options.rate)
    rows = []
    try:
        node.start()
        fill(node, load, options)
        load.start()
        time.sleep(3)
        for name, disks in steps(options.mib):
            print(f"{name}...", file=sys.stderr, flush=True)
            rows.append(measured_step(node, load, origin, name, disks))
    finally:
        load.stop()
        node.kill()
        origin.shutdown()
    return rows


def fill(node, load, options):
    """Stores objects until half of both volumes is taken."""
    made = upgrade.connect(node.port)
    for number in range(1, 2 * options.mib * (1 << 20) // 2 // options.object_bytes + 1):
        if upgrade.ask(made, number):
            made.close()
            made = upgrade.connect(node.port)
        load.stored[number] = time.monotonic()
        load.settled.append(number)
        load.next = number
    time.sleep(upgrade.SETTLED_SECONDS)


def measured_step(node, load, origin, name, disks):
    with origin.lock:
        origin.fetched.clear()
    before = {key: getattr(load, key) for key in ("asked", "failures")}
    node.highest.clear()
    evicted, begin = node.evicted(), time.monotonic()
    node.change(disks)
    seconds = time.monotonic() - begin
    with load.lock:
        known = list(load.stored)
    made = upgrade.connect(node.port)
    for number in known:
        if upgrade.ask(made, number):
            made.close()
            made = upgrade.connect(node.port)
    made.close()
    with origin.lock:
        # A client's new object is asked of the origin once, and is not known before.
        again = sum(1 for number in known if origin.fetched.get(number, 0) > (number not in node.known))
    given_up = node.dropped() + max(0, node.evicted() - evicted)
    node.known = set(known)
    return {
        "name": name,
        "asked": load.asked - before["asked"],
        "failed": load.failures - before["failures"],
        "seconds": seconds,
        "objects": len(known),
        "again": again,
        "given_up": given_up,
        "lost": again - given_up,
        "first_failures": list(load.first_failures),
    }


class Node:
    def __init__(self, options, folder, origin_port):
        self.program = programs.checked(options.shoal)
        self.folder, self.port, self.admin = folder, free_port(), free_port()
        self.origin_port, self.process, self.known = origin_port, None, set()
        self.highest = {}
        self.write({"one": options.mib, "two": options.mib})

    def write(self, disks):
        entries = "".join(f'\n[[store.disks]]\npath = "{self.folder / name}"\nbytes = "{mib} MiB"\n' for name, mib in disks.items())
        (self.folder / "shoal.toml").write_text(f"""
[[listen]]
address = "127.0.0.1:{self.port}"
mode = "reverse"

[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://127.0.0.1:{self.origin_port}" }}]

[cache]
ram = "4 MiB"

[admin]
listen = "127.0.0.1:{self.admin}"

[store]
directory = "{self.folder / 'store'}"
admission = "always"
{entries}""")

    def start(self):
        log = open(self.folder / "log", "w", encoding="utf-8")
        command = [self.program, "run", "--config", str(self.folder / "shoal.toml")]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while True:
            try:
                if len(self.disks()) == 2:
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"disk_changes.py: the node does not start:\n{(self.folder / 'log').read_text()}")
            time.sleep(0.05)

    def store(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/status", timeout=60) as answer:
            return json.load(answer)["store"]

    def disks(self):
        return self.store()["disks"]

    def evicted(self):
        """Objects that made room for others, copies among them, on the disks that are there."""
        return self.store()["evictions"]

    def dropped(self):
        """Objects that found no room in the changes of this step, as the node tells while a change lasts."""
        for disk in self.disks():
            told = disk.get("dropped_objects") or 0
            self.highest[disk["path"]] = max(told, self.highest.get(disk["path"], 0))
        return sum(self.highest.values())

    def change(self, disks):
        """Reloads settings with these disks, and waits until they serve as named."""
        self.write(disks)
        reload = urllib.request.Request(f"http://127.0.0.1:{self.admin}/reload", method="POST")
        urllib.request.urlopen(reload, timeout=60).close()
        wanted = {(str(self.folder / name), mib << 20) for name, mib in disks.items()}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            now = self.disks()
            self.dropped()
            if {(disk["path"], disk["space"]["bytes_max"]) for disk in now} == wanted and not any(disk.get("change") for disk in now):
                return
            if time.monotonic() > deadline:
                sys.exit(f"disk_changes.py: the change does not end:\n{now}\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()


def table(options, rows):
    command = f"python3 bench/disk_changes.py --rate {options.rate} --mib {options.mib} --object-bytes {options.object_bytes}"
    lines = [f"Machine: {machine.described()}.", f"Command: `{command}`.", ""]
    lines += ["| step | requests | failed | seconds | objects | given up | lost |", "|---|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        lost = max(0, row["lost"])
        lines.append(
            f"| {row['name']} | {row['asked']:,} | {row['failed']:,} | {row['seconds']:.1f} | {row['objects']:,} | {row['given_up']:,} | {lost:,} |"
        )
    failures = [failure for row in rows for failure in row["first_failures"]][:5]
    if failures:
        lines += ["", "First failures: " + "; ".join(failures)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
