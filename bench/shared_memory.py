"""Counts the disk reads of four nodes, one of them busy, with and without shared memory.

Nodes on loopback, each on an address of its own, with placement by digests, so that each stores the objects that its clients ask for. All have memory for
an eighth of the objects. Of five requests four go to the first node, and one to the others in turn. The popularity of objects falls as the reciprocal of
their rank. The first requests warm up and are not counted. Each body is compared.

Set-ups: `off`, `measured` and `always` are values of cluster.shared_memory; `b=0.25` is `always` with that balance; `one` is one node with the memory of all.
Beside them stands a model: LRU over the first node's requests, with its own memory, and with that of all nodes.

  python3 bench/shared_memory.py --binary target/release/shoal [--setups off,always,measured,b=0,b=0.25,b=0.5,b=1,one] [--small] [--json FILE]

A slow disk is the operator's part: --directory names a folder on it for the stores, and the page cache must be kept small (a memory limit of the group),
or the reads that are counted cost nothing. Latencies are told, and mean nothing on a machine that does other work.
"""

import argparse
import collections
import http.client
import http.server
import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
import zlib

import servers

NODES = 4


def body_of(path, size):
    seed = zlib.crc32(path.encode())
    return (seed.to_bytes(4, "little") * (size // 4 + 1))[:size]


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers with the body of a path; the path names the length."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = body_of(self.path, int(self.path.split("/")[1]))
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Node:
    """A process of Shoal."""

    def __init__(self, options, folder, hosts, number, origin, settings):
        host, self.port, self.admin = hosts[number][0], hosts[number][1], hosts[number][2]
        self.host = host
        store = os.path.join(folder, f"store{number}")
        lines = ["workers = 1", "[[listen]]", f'address = "{host}:{self.port}"', 'mode = "reverse"', "[[site]]", 'hosts = ["*"]',
                 f'upstreams = [{{ url = "http://127.0.0.1:{origin}" }}]', "[admin]", f'listen = "{host}:{self.admin}"', "[store]",
                 f'directory = "{store}"', f'disk = "{options.objects * options.size * 4 // 2**20 + 64} MiB"', "[cache]",
                 f'ram = "{settings["ram"]} B"', "[cluster]", 'name = "bench"', f'peer = "{host}:{hosts[number][3]}"',
                 f'join = ["{hosts[0][0]}:{hosts[0][3]}"]', 'placement = "directory"', f'shared_memory = "{settings["shared"]}"']
        if settings["b"] is not None:
            lines.append(f'shared_memory_balance = {settings["b"]}')
        path = os.path.join(folder, f"node{number}.toml")
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        log = open(os.path.join(folder, f"node{number}.log"), "w")
        self.process = subprocess.Popen([options.binary, "run", "--config", path], stdout=log, stderr=log)
        self.connection = None

    def ask(self, port, path):
        connection = http.client.HTTPConnection(self.host, port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def get(self, path):
        if self.connection is None:
            self.connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        self.connection.request("GET", path, headers={"Host": "www.example"})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def metrics(self):
        found = collections.Counter()
        for line in self.ask(self.admin, "/metrics")[1].decode().splitlines():
            if not line.startswith("#"):
                name, value = line.rsplit(" ", 1)
                found[name] += float(value)
        return found

    def cluster(self):
        try:
            return json.loads(self.ask(self.admin, "/cluster")[1])
        except (OSError, ValueError):
            return {}

    def stop(self):
        self.process.terminate()
        self.process.wait(30)


def wait_until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise SystemExit(f"not within {seconds} s: {what}")


def requests_of(options):
    draws = random.Random(options.seed)
    for number in range(options.warming + options.requests):
        rank = int(options.objects ** draws.random()) - 1
        node = 0 if number % 5 < 4 else 1 + number % (NODES - 1)
        yield node, f"/{options.size}/{rank}"


def lru_misses(options, pages):
    """Misses of the first node's requests in an LRU of as many objects, in the measured part."""
    kept, seen, misses = collections.OrderedDict(), set(), 0
    for number, (node, path) in enumerate(requests_of(options)):
        if node != 0:
            continue
        if path in kept:
            kept.move_to_end(path)
            continue
        if number >= options.warming and path in seen:
            misses += 1
        seen.add(path)
        kept[path] = True
        if len(kept) > pages:
            kept.popitem(last=False)
    return misses


def run(options, name, origin):
    shared = name if name in ("off", "measured", "always") else "off" if name == "one" else "always"
    b = float(name[2:]) if name.startswith("b=") else None
    count = 1 if name == "one" else NODES
    ram = options.ram * (NODES if name == "one" else 1)
    folder = tempfile.mkdtemp(prefix="shoal-shared-memory-", dir=options.directory)
    hosts = [(f"127.0.{options.net}.{number + 1}", *(servers.free_port("127.0.0.1") for _ in range(3))) for number in range(count)]
    nodes = [Node(options, folder, hosts, number, origin, {"shared": shared, "b": b, "ram": ram}) for number in range(count)]
    try:
        wait_until("all nodes know each other", lambda: all(len(node.cluster().get("members", [])) == count for node in nodes))
        if shared != "off":
            on = lambda node: sum(row["state"] == "on" for row in (node.cluster().get("shared_memory") or {}).get("servers", []))
            wait_until("all nodes share memory", lambda: all(on(node) == count - 1 for node in nodes))
        wrong, times = 0, []
        before = [collections.Counter()] * count
        for number, (node, path) in enumerate(requests_of(options)):
            if number == options.warming:
                before = [node.metrics() for node in nodes]
            begun = time.perf_counter()
            status, body = nodes[node % count].get(path)
            if node == 0 and number >= options.warming:
                times.append(time.perf_counter() - begun)
            wrong += status != 200 or body != body_of(path, options.size)
        after = [node.metrics() for node in nodes]
        total = lambda metric: int(sum(now[metric] - then[metric] for now, then in zip(after, before)))
        times.sort()
        report = nodes[0].cluster().get("shared_memory") or {}
        hits = total('shoal_responses_total{result="memory_hit"}')
        gets = total('shoal_memory_gets_total{result="hit"}')
        return {
            "setup": name, "wrong": wrong, "disk_reads": total("shoal_disk_object_reads_total"), "gets": gets,
            "gone": total('shoal_memory_gets_total{result="gone"}'), "puts": total('shoal_memory_puts_total{result="kept"}'),
            "ram_hit_ratio": (hits + gets) / options.requests, "b": report.get("balance"), "disk_us": report.get("disk_us"),
            "page_us": [row["page_us"] for row in report.get("servers", [])],
            "p50_us": times[len(times) // 2] * 1e6, "p99_us": times[len(times) * 99 // 100] * 1e6,
        }
    finally:
        for node in nodes:
            node.stop()
        shutil.rmtree(folder, ignore_errors=True) if not options.keep else print(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--setups", default="off,always,measured,b=0,b=0.25,b=0.5,b=1,one")
    parser.add_argument("--objects", type=int, default=32_000)
    parser.add_argument("--size", type=int, default=16_000)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--warming", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--net", type=int, default=77, help="third part of the nodes' addresses")
    parser.add_argument("--directory", help="folder for the stores")
    parser.add_argument("--small", action="store_true", help="2,000 objects and 8,000 requests")
    parser.add_argument("--keep", action="store_true", help="keep the folders with settings and logs")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    if options.small:
        options.objects, options.requests, options.warming = 2_000, 5_000, 3_000
    options.ram = max(options.objects * options.size // 8, 4 << 20)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # A page takes its bytes, and about 1,500 for its head and places.
    pages = options.ram // (options.size + 1_500)
    warm, cold = set(), set()
    for number, (_, path) in enumerate(requests_of(options)):
        if number < options.warming:
            warm.add(path)
        elif path not in warm:
            cold.add(path)
    print("objects asked for first in the measured part:", len(cold))
    model = {"own memory": lru_misses(options, pages), "all memory": lru_misses(options, pages * NODES)}
    print("model, LRU over the busy node's requests, disk reads:", model, flush=True)
    results = []
    for name in options.setups.split(","):
        results.append(run(options, name, server.server_port))
        print(json.dumps(results[-1]), flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "model": model, "results": results}, file, indent=1)
    if any(result["wrong"] for result in results):
        raise SystemExit("wrong bodies")


if __name__ == "__main__":
    main()
