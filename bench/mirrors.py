#!/usr/bin/env python3
"""Mirrors beside each other: time of a client's job, requests of the registry, CPU, memory and disk.

    python3 bench/mirrors.py --shoal target/release/shoal [--peers FOLDER] [--write]
    python3 bench/mirrors.py --together 10 [--clients npm,images]

The registries stand on loopback, are made by registries.py and mirror_jobs.py, say nothing about caching, and count requests and bytes. A job is a
client with empty caches. Each mirror serves one cold job, then ROUNDS warm ones; a last one runs after the registry has gone. CPU seconds are of the
mirror's processes, memory is the largest resident set of them together, and the part that is no page of a file. With --together, N cold jobs begin at once instead, and the bytes of the
registry are compared with those of one job. The mirrors are those of mirror_peers.py.

As root the bench runs in a network of its own, which has loopback alone: no client and no mirror can ask anybody else.
"""

import argparse
import concurrent.futures
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading
import time

import machine
import mirror_jobs
import mirror_peers
import network
import page
import programs
import registries
import servers

ROUNDS = 5

# The files themselves: the registry that is written in Python, and nginx with the same files.
ORIGINS = [("the registry itself", None, "", None), ("static nginx", mirror_jobs.static, "", None)]

# The paths of an index for pip below each mirror.
SIMPLE = {"devpi": "/+simple/", "proxpi": "/index/"}


def job(client, name, url):
    """Runs a client in a folder of its own; gives the seconds it took."""
    with tempfile.TemporaryDirectory(prefix="mirrors-") as folder:
        begun = time.monotonic()
        if client == "pip":
            mirror_jobs.pip(url + SIMPLE.get(name, "/simple/"), folder)
        elif client == "cargo" and name in [origin[0] for origin in ORIGINS]:
            registries.cargo(url, folder)
        else:
            mirror_jobs.JOBS[client][0](url, folder)
        return time.monotonic() - begun


def descendants(process):
    """The process and everything that it started."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except OSError:
                pass
    found, left = [], [process]
    while left:
        found.append(left.pop())
        left += parents.get(found[-1], [])
    return found


def used(process):
    """CPU seconds so far, resident MB now, and those of them that are no pages of files."""
    seconds, pages, anonymous = 0.0, 0, 0
    for pid in descendants(process):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            pages += int(fields[21])
            with open(f"/proc/{pid}/status") as file:
                anonymous += next((int(line.split()[1]) for line in file if line.startswith("RssAnon")), 0)
        except OSError:
            pass
    return seconds, pages * os.sysconf("SC_PAGE_SIZE") / 1e6, anonymous * 1024 / 1e6


def disk_mb(folder):
    return sum(os.lstat(os.path.join(root, file)).st_blocks * 512 for root, _, files in os.walk(folder) for file in files) / 1e6


class Setup:
    """A registry, and a mirror in front of it in a folder of its own."""

    def __init__(self, options, client, setup):
        self.options, self.client = options, client
        self.name, self.command, path, prepare = setup
        options.answers = mirror_jobs.JOBS[client][1]()
        self.registry = registries.Registry(options.answers)
        self.folder = tempfile.TemporaryDirectory(prefix="mirror-")
        self.mirror, self.peak, self.anonymous, self.over = None, 0.0, 0.0, threading.Event()
        self.url = self.registry.url
        if self.command:
            try:
                self.start(path, prepare)
            except BaseException:
                self.stop()
                raise

    def start(self, path, prepare):
        port = servers.free_port()
        command = self.command(self.options, self.registry.url, port, self.folder.name)
        self.mirror = servers.Server(self.name, port, command, self.folder.name, core="0,1")
        threading.Thread(target=self.watch, daemon=True).start()
        if prepare:
            prepare(self.options, self.registry.url, self.mirror.url)
        self.url = self.mirror.url + path

    def watch(self):
        while not self.over.wait(0.05):
            _, resident, anonymous = used(self.mirror.process.pid)
            self.peak, self.anonymous = max(self.peak, resident), max(self.anonymous, anonymous)

    def job(self):
        return job(self.client, self.name, self.url)

    def stop(self):
        self.over.set()
        if self.mirror:
            self.mirror.stop()
        if self.registry:
            self.registry.stop()
            self.registry = None
        self.folder.cleanup()


def measure(options, client, setup):
    """A row: one cold job, warm ones, and one without the registry."""
    it = Setup(options, client, setup)
    try:
        if it.command is None:
            it.job()
            return [client, it.name, "", "", f"{statistics.median(it.job() for _ in range(ROUNDS)):.2f}", "", "", "", "", "", ""]
        before = it.registry.asked
        cold = it.job()
        asked_cold = it.registry.asked - before
        before, cpu = it.registry.asked, used(it.mirror.process.pid)[0]
        warm = [it.job() for _ in range(ROUNDS)]
        cpu, asked = used(it.mirror.process.pid)[0] - cpu, it.registry.asked - before
        it.registry.stop()
        it.registry = None
        try:
            it.job()
            offline = "yes"
        except SystemExit:
            offline = "no"
        it.over.set()
        figures = [f"{cold:.2f}", asked_cold, f"{statistics.median(warm):.2f}", f"{asked / ROUNDS:.1f}", f"{1000 * cpu / ROUNDS:.0f}", f"{it.peak:.0f}", f"{it.anonymous:.0f}"]
        return [client, it.name, *figures, f"{disk_mb(it.folder.name):.1f}", offline]
    finally:
        it.stop()


def measure_together(options, client, setup):
    """A row: cold jobs that begin at once, and the bytes of the registry beside those of one job at the registry itself."""
    if setup[1] is None or setup[1] is mirror_jobs.static:
        return None
    it = Setup(options, client, setup)
    try:
        job(client, ORIGINS[0][0], it.registry.url)
        alone, asked = it.registry.sent, it.registry.asked
        with concurrent.futures.ThreadPoolExecutor(options.together) as pool:
            begun = time.monotonic()
            ends = [pool.submit(it.job) for _ in range(options.together)]
            failed = sum(end.exception() is not None for end in ends)
            seconds = time.monotonic() - begun
        sent, asked = it.registry.sent - alone, it.registry.asked - asked
        return [client, it.name, options.together, failed, f"{seconds:.1f}", asked, f"{sent / alone:.2f}", f"{1000 * used(it.mirror.process.pid)[0]:.0f}", f"{it.peak:.0f}", f"{it.anonymous:.0f}"]
    finally:
        it.stop()


COLUMNS = ["client", "mirror", "cold s", "requests", "warm s", "requests", "CPU ms a job", "peak RSS MB", "anonymous", "disk MB", "registry gone"]
TOGETHER = ["client", "mirror", "jobs at once", "failed", "s", "requests", "bytes, one job = 1", "CPU ms", "peak RSS MB", "anonymous"]


def is_alone():
    """True in a network that has loopback alone."""
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def stay_alone():
    """Runs this program again in a network with loopback alone, if it may."""
    if os.geteuid() == 0 and not is_alone() and shutil.which("unshare"):
        os.execvp("unshare", network.command([sys.executable, *sys.argv]))


def rows_of(options):
    columns, row_of = (TOGETHER, measure_together) if options.together else (COLUMNS, measure)
    yield columns
    yield ["---"] * 2 + ["--:"] * (len(columns) - 2)
    for client in options.clients.split(","):
        for setup in [*ORIGINS, *mirror_peers.SETUPS[client]]:
            name = setup[0]
            if options.only and name not in ("Shoal", *options.only.split(",")):
                continue
            if not mirror_peers.is_there(options, name):
                print(f"{name} is not there: left out", file=sys.stderr)
                continue
            try:
                row = row_of(options, client, setup)
            except SystemExit as why:
                print(why, file=sys.stderr)
                row = [client, name, f"failed: {str(why).splitlines()[-1][:80]}"] + [""] * (len(columns) - 3)
            if row:
                print("  ".join(map(str, row)), file=sys.stderr, flush=True)
                yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    parser.add_argument("--peers", default="none", help="folder with the peers")
    parser.add_argument("--clients", default=",".join(mirror_peers.SETUPS))
    parser.add_argument("--only", help="Shoal and these set-ups alone, separated by commas")
    parser.add_argument("--together", type=int, default=0, metavar="N", help="N cold jobs at once")
    parser.add_argument("--small", action="store_true", help="few packages and one warm job, for a look")
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/mirrors.md")
    options = parser.parse_args()
    programs.checked(options.shoal)
    stay_alone()
    options.is_alone = is_alone()
    options.peers = os.path.abspath(options.peers)
    registries.NPM_PACKAGES, registries.PIP_PACKAGES, registries.GO_MODULES, registries.CRATES = 100, 30, 60, 60
    if options.small:
        global ROUNDS
        ROUNDS = 1
        registries.NPM_PACKAGES, registries.PIP_PACKAGES, registries.GO_MODULES, registries.CRATES = 10, 5, 6, 6
        mirror_jobs.DEBS, mirror_jobs.IMAGES = 5, 2
    rows = list(rows_of(options))
    text = "\n".join(machine.head("nginx") + [""] + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
    print(text)
    if options.write:
        page.write("mirrors.md", "mirrors.py --together" if options.together else "mirrors.py", text)


if __name__ == "__main__":
    main()
