#!/usr/bin/env python3
"""Prefetching, live: Figure 4.3 of Voelker 2000 on one to five nodes, wrong hints, and package installs with a lockfile's hints.

    python3 bench/prefetch.py                 all three tables
    python3 bench/prefetch.py --write         also put them into docs/experiments/prefetching.md
    python3 bench/prefetch.py --small         a form of seconds, which a debug build passes too
    python3 bench/prefetch.py --only wrong    one of: speedup, wrong, install

Origins, nodes and clients share one machine. An origin stands for a disk: it answers one request at a time, each after a fixed time. Each
node has an origin of its own with the same objects, as each node of the paper has a disk with the same file.
"""

import argparse
import base64
import concurrent.futures
import hashlib
import http.client
import http.server
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

import machine
import network
import page
import programs
import servers

SIZES = {
    "full": dict(references=3200, nodes=5, disk=0.013, computing=0.00025, asked=4000, wrong=2000, packages=120, delay=0.05, rounds=5),
    "small": dict(references=120, nodes=2, disk=0.013, computing=0.00025, asked=300, wrong=200, packages=20, delay=0.05, rounds=1),
}
OBJECT = 8192
PACKAGE = 20_000
JOBS = 8


class Disk(servers.Loopback):
    """Answers /o/N, and /t/N for packages. One request at a time if `serial`; each takes `seconds`."""

    def __init__(self, seconds, serial=True, answers=None):
        self.seconds, self.serial, self.answers = seconds, serial, answers or {}
        self.turn = threading.Lock()
        self.counts = threading.Lock()
        self.asked = self.sent = 0
        super().__init__(DiskHandler)


class DiskHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        server = self.server
        if server.serial:
            with server.turn:
                time.sleep(server.seconds)
        else:
            time.sleep(server.seconds)
        body = server.answers.get(self.path)
        if body is None and self.path.startswith("/o/"):
            body = (self.path.encode() * OBJECT)[:OBJECT]
        with server.counts:
            server.asked += 1
            server.sent += len(body or b"")
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "application/json" if body and body[:1] == b"{" else "application/octet-stream")
        self.send_header("Content-Length", str(len(body or b"")))
        self.send_header("Cache-Control", "public, max-age=86400")
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_):
        pass


class Node:
    """A Shoal in front of one origin."""

    def __init__(self, folder, program, settings):
        self.port, self.admin = servers.free_port(), servers.free_port()
        own = tempfile.mkdtemp(prefix="node-", dir=folder)
        text = f"""
workers = 1
[[listen]]
address = "127.0.0.1:{self.port}"
mode = "reverse"
[cache]
ram = "256 MiB"
[store]
directory = ""
[log]
access = "none"
level = "warn"
[admin]
listen = "127.0.0.1:{self.admin}"
{settings}"""
        file = servers.write(own, "shoal.toml", text)
        self.server = servers.Server("shoal", self.port, [programs.checked(program), "run", "--config", file], own)

    def stop(self):
        self.server.stop()

    def ask_admin(self, method, path, body=b""):
        request = urllib.request.Request(f"http://127.0.0.1:{self.admin}{path}", data=body or None, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.loads(reply.read())

    def hint(self, paths, pace_ms=None):
        """Sends a list of hints; a client asks for the host `bench.test`."""
        lines = [json.dumps({"pace_ms": pace_ms})] if pace_ms else []
        lines += [json.dumps({"url": f"http://bench.test{path}"}) for path in paths]
        return self.ask_admin("POST", "/hints", "\n".join(lines).encode())

    def sources(self):
        return {row["source"]: row for row in self.ask_admin("GET", "/hints")["sources"]}


class Client:
    """One connection that asks one request after the other."""

    def __init__(self, port):
        self.link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def get(self, path):
        """The body and the seconds that it took."""
        began = time.perf_counter()
        self.link.request("GET", path, headers={"Host": "bench.test"})
        reply = self.link.getresponse()
        body = reply.read()
        if reply.status != 200:
            raise SystemExit(f"{path} answers {reply.status}")
        return body, time.perf_counter() - began


def wait_until(what, condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise SystemExit(f"not within 30 s: {what}")


def cluster(folder, options, size, number):
    """Nodes with a disk each that know each other."""
    disks = [Disk(size["disk"]) for _ in range(number)]
    peers = [f"127.0.0.1:{servers.free_port()}" for _ in range(number)]
    nodes = []
    for disk, peer in zip(disks, peers):
        site = f'[[site]]\nhosts = ["*"]\nupstreams = [{{ url = "{disk.url}" }}]\n'
        prefetch = '[prefetch]\nrequests = 8\ntrial = "1 GiB"\n'
        members = json.dumps([other for other in peers if other != peer])
        joined = f'[cluster]\nname = "bench"\npeer = "{peer}"\njoin = {members}\n' if number > 1 else ""
        nodes.append(Node(folder, options.shoal, site + prefetch + joined))
    if number > 1:
        def is_joined(node):
            members = node.ask_admin("GET", "/cluster")["members"]
            return sum(member["state"] == "in" for member in members) == number

        wait_until("the nodes know each other", lambda: all(map(is_joined, nodes)))
    return nodes, disks


def program_time(nodes, size, is_hinted):
    """Seconds of a program that reads each object once and computes before each."""
    paths = [f"/o/{number * 7919 % size['references']}" for number in range(size["references"])]
    if is_hinted:
        nodes[0].hint(paths)
    client = Client(nodes[0].port)
    began = time.perf_counter()
    for path in paths:
        end = time.perf_counter() + size["computing"]
        while time.perf_counter() < end:
            pass
        body, _ = client.get(path)
        assert len(body) == OBJECT
    return time.perf_counter() - began


def speedup(folder, options, size):
    """Figure 4.3: the speedup of a hinted program on one to N nodes, over one node without hints."""
    lines = ["| nodes | seconds | speedup | one disk each, if nothing else took time | origin requests |", "|---|---|---|---|---|"]
    alone = None
    for number in range(1, size["nodes"] + 1):
        for is_hinted in [False, True] if number == 1 else [True]:
            nodes, disks = cluster(folder, options, size, number)
            try:
                seconds = program_time(nodes, size, is_hinted)
                asked = sum(disk.asked for disk in disks)
            finally:
                for it in nodes + disks:
                    it.stop()
            alone = alone or seconds
            ideal = size["references"] * max(size["disk"] / number, size["computing"]) if is_hinted else size["references"] * (size["disk"] + size["computing"])
            told = f"{number}" if is_hinted else f"{number}, no hints"
            lines.append(f"| {told} | {seconds:.2f} | {alone / seconds:.2f} | {ideal:.2f} | {asked} |")
    simulated = simulation(options, size)
    return "\n".join(["", "### Speedup by full hints (Figure 4.3)", "", *lines, "", simulated, ""])


def simulation(options, size):
    """The same setting in the lab: pages of 8 KB, read once in no order, with enough frames."""
    command = [options.shoal, "model", "pgms", "--program", "random", "--idle", f"0-{size['nodes'] - 1}", "--scale", "16" if size["references"] < 3000 else "4"]
    command += ["--disk-ms", str(size["disk"] * 1000), "--sequential-ms", str(size["disk"] * 1000), "--computing-us", str(size["computing"] * 1e6)]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        return f"`{' '.join(command[1:])}` ended with: {told.stderr.strip()}"
    shown = " ".join(command[1:]).replace(" --disk-ms", " \\\n    --disk-ms")
    return f"The same setting in the lab:\n\n```text\n$ shoal {shown}\n{told.stdout.strip()}\n```"


def wrong(folder, options, size):
    """Clients' times and an origin's bytes with wrong hints only, beside none."""
    rows = ["| hints | client p50, ms | p99, ms | origin bytes | fetched ahead | wasted |", "|---|---|---|---|---|---|"]
    found = {}
    for _ in range(size["rounds"]):
        for is_hinted in (False, True):
            disk = Disk(0.005, serial=False)
            site = f'[[site]]\nhosts = ["*"]\nupstreams = [{{ url = "{disk.url}" }}]\n'
            trial = size["asked"] * OBJECT // 50
            settings = f'[prefetch]\ntrial = {trial}\nwaste = 2\nuse_within = "2s"\n'
            node = Node(folder, options.shoal, site + settings)
            try:
                if is_hinted:
                    node.hint([f"/o/wrong-{number}" for number in range(size["wrong"])])
                clients = [Client(node.port) for _ in range(JOBS)]

                def ask(number):
                    paths = [f"/o/{at}" for at in range(number, size["asked"], JOBS)]
                    return [clients[number].get(path)[1] for path in paths]

                with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
                    times = [time for times in pool.map(ask, range(JOBS)) for time in times]
                account = node.sources().get("list", {})
                point = (times, disk.sent, account.get("prefetched", 0), account.get("wasted_bytes", 0))
                found.setdefault(is_hinted, []).append(point)
            finally:
                node.stop()
                disk.stop()
    medians = {}
    for is_hinted, points in found.items():
        p50 = statistics.median(statistics.quantiles(times, n=100)[49] for times, *_ in points) * 1000
        p99 = statistics.median(statistics.quantiles(times, n=100)[98] for times, *_ in points) * 1000
        sent = statistics.median(point[1] for point in points)
        medians[is_hinted] = (p99, sent)
        rows.append(f"| {'wrong only' if is_hinted else 'none'} | {p50:.2f} | {p99:.2f} | {sent:,.0f} | {points[-1][2]} | {points[-1][3]:,} bytes |")
    ratio = [wrong / none for wrong, none in zip(medians[True], medians[False])]
    rows += ["", f"p99 {ratio[0]:.3f} and origin bytes {ratio[1]:.3f} of those without hints; the bar is 1.05 for each."]
    return "\n".join(["", "### Wrong hints only", "", *rows, ""])


def npm_answers(number, base):
    """Documents and tarballs of packages, and their lockfile."""
    answers, packages = {}, {}
    for at in range(number):
        name = f"part-{at}"
        tarball = (hashlib.sha512(name.encode()).digest() * (PACKAGE // 64 + 1))[:PACKAGE]
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        file = f"/{name}/-/{name}-1.0.0.tgz"
        version = {"name": name, "version": "1.0.0", "dist": {"tarball": base + file, "integrity": integrity}}
        answers[file] = tarball
        answers[f"/{name}"] = json.dumps({"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}).encode()
        packages[f"node_modules/{name}"] = {"version": "1.0.0", "resolved": base + file, "integrity": integrity}
    return answers, json.dumps({"lockfileVersion": 3, "packages": packages}).encode()


def install(folder, options, size):
    """The time in which JOBS clients fetch all packages of a lockfile through an npm mirror, each after some work of its own."""
    rows = ["| hints | job, seconds | of which waiting for the mirror | origin requests |", "|---|---|---|---|"]
    medians = {}
    for is_hinted in (False, True):
        points = []
        for _ in range(size["rounds"]):
            registry = Disk(size["delay"], serial=False)
            registry.answers, lock = npm_answers(size["packages"], registry.url)
            mirror = f'[[mirror]]\nkind = "npm"\nupstream = "{registry.url}"\n[prefetch]\nrequests = 32\n'
            node = Node(folder, options.shoal, mirror)
            try:
                points.append(install_once(node, registry, lock, size, is_hinted))
            finally:
                node.stop()
                registry.stop()
        seconds, waiting, asked = (statistics.median(column) for column in zip(*points))
        medians[is_hinted] = seconds
        rows.append(f"| {'the lockfile' if is_hinted else 'none'} | {seconds:.2f} | {waiting:.2f} | {asked:.0f} |")
    rows += ["", f"The job takes {medians[True] / medians[False]:.2f} of the time without hints; the bar is 0.50. {size['packages']} packages, {JOBS // 2} at a time."]
    return "\n".join(["", "### Package installs with a lockfile's hints", "", *rows, ""])


def install_once(node, registry, lock, size, is_hinted):
    began = time.perf_counter()
    if is_hinted:
        node.ask_admin("POST", "/warm?file=package-lock.json&ahead", lock)
    jobs = JOBS // 2

    def fetch(number):
        client, waited = Client(node.port), 0.0
        for at in range(number, size["packages"], jobs):
            body, seconds = client.get(f"/npm/part-{at}/-/part-{at}-1.0.0.tgz")
            assert len(body) == PACKAGE
            waited += seconds
            time.sleep(0.005)  # unpacks
        return waited

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waited = sum(pool.map(fetch, range(jobs))) / jobs
    return time.perf_counter() - began, waited, registry.asked


PARTS = {"speedup": speedup, "wrong": wrong, "install": install}


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a form of seconds")
    parser.add_argument("--only", choices=PARTS, action="append", help="one table; may be given again")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    size = SIZES["small" if options.small else "full"]
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        text = "\n".join(machine.head()) + "".join(PARTS[name](folder, options, size) for name in options.only or PARTS)
    print(text)
    if options.write:
        page.write("prefetching.md", "prefetch.py", text)


if __name__ == "__main__":
    main()
