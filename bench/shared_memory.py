"""Counts the disk reads and RAM hits of four nodes, one of them busy, with and without shared memory.

Nodes on loopback, each on an address of its own, with placement by digests, so that each stores the objects that its clients ask for. All have memory for
an eighth of the objects. Of five requests four go to the first node, and one to the others in turn. The popularity of objects falls as the reciprocal of
their rank. The first requests warm up and are not counted. Each body is compared.

Set-ups: `off`, `measured` and `always` are values of cluster.shared_memory; `b=0.25` is `always` with that balance; `one` is one node with the memory of all;
`idle` is `always` with a node that is busy at first, and idle from the middle of the warm-up on.
A RAM hit of the fleet is a request that neither a disk nor the origin answered: own RAM, RAM of another node, a page of shared memory, or an object on its
way to the disk. Beside the set-ups stand LRU over the first node's requests, and `shoal plan` over the access logs of each set-up. The plan simulates the
same requests at the same times, and solves the queueing model of Voelker's chapter 3 for the same rates. Its times of a page, a server and a disk are those of the
first set-up with shared memory; the others are predicted.

  python3 bench/shared_memory.py --binary target/release/shoal [--setups off,always,measured,b=0,b=0.25,b=0.5,b=1,one,idle] [--small] [--json FILE]
  python3 bench/shared_memory.py --binary target/release/shoal --slow 200 --clients 4      disks of 200 reads a second; needs root and loop devices

Without --slow the system's page cache answers the reads that are counted, and times say nothing about disks.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import http.client
import http.server
import itertools
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time
import zlib

import disks
import network
import servers

NODES = 4
WAYS = {"own RAM": "memory_hit", "another node": "peer_hit", "own disk or page": "hit"}


def body_of(path, size):
    seed = zlib.crc32(path.encode())
    return (seed.to_bytes(4, "little") * (size // 4 + 1))[:size]


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers with the body of a path; the path names the length. Head and body leave in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    asked = itertools.count()

    def do_GET(self):
        next(Origin.asked)
        body = body_of(self.path, int(self.path.split("/")[1]))
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_):
        pass


class SlowDisk:
    """A file system on a loop device that answers a number of reads a second."""

    GROUPS = pathlib.Path("/sys/fs/cgroup/blkio")

    def __init__(self, undo, options, number):
        image = pathlib.Path(options.folder) / f"image{number}"
        device = disks.loop_device(undo, image, options.objects * options.size * 4 + (256 << 20))
        disks.make_ext4(device)
        self.folder = pathlib.Path(options.folder) / f"disk{number}"
        disks.mount(undo, device, self.folder)
        self.group = self.GROUPS / f"shoal-shared-memory-{os.getpid()}-{number}"
        self.group.mkdir()
        undo.callback(self.leave)
        identity = os.stat(device).st_rdev
        limit = f"{os.major(identity)}:{os.minor(identity)} {options.slow}"
        (self.group / "blkio.throttle.read_iops_device").write_text(limit)

    def leave(self):
        # The processes of the group have ended.
        with contextlib.suppress(OSError):
            self.group.rmdir()

    def enter(self):
        (self.group / "cgroup.procs").write_text(str(os.getpid()))


class Node:
    """A process of Shoal."""

    def __init__(self, options, folder, hosts, number, origin, settings, disk):
        host, self.port, self.admin = hosts[number][0], hosts[number][1], hosts[number][2]
        self.host = host
        store = os.path.join(disk.folder if disk else folder, f"store{number}")
        self.access = os.path.join(folder, f"access{number}.log")
        lines = ["workers = 1", "[[listen]]", f'address = "{host}:{self.port}"', 'mode = "reverse"', "[[site]]", 'hosts = ["*"]',
                 f'upstreams = [{{ url = "http://127.0.0.1:{origin}" }}]', "[admin]", f'listen = "{host}:{self.admin}"', "[store]",
                 f'directory = "{store}"', f'disk = "{options.objects * options.size * 3 // 2**20 + 64} MiB"', "[cache]",
                 f'ram = "{settings["ram"]} B"', "[log]", f'access = "{self.access}"', 'format = "json"', "[cluster]", 'name = "bench"',
                 f'peer = "{host}:{hosts[number][3]}"',
                 f'join = ["{hosts[0][0]}:{hosts[0][3]}"]', 'placement = "directory"', f'shared_memory = "{settings["shared"]}"']
        if settings["b"] is not None:
            lines.append(f'shared_memory_balance = {settings["b"]}')
        path = os.path.join(folder, f"node{number}.toml")
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        log = open(os.path.join(folder, f"node{number}.log"), "w")
        command = [options.binary, "run", "--config", path]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=disk.enter if disk else None)
        self.connections = threading.local()

    def ask(self, port, path):
        connection = http.client.HTTPConnection(self.host, port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, text

    def get(self, path):
        """Asks over this thread's own connection."""
        connection = getattr(self.connections, "own", None)
        if connection is None:
            connection = self.connections.own = http.client.HTTPConnection(self.host, self.port, timeout=30)
        connection.request("GET", path, headers={"Host": "www.example"})
        answer = connection.getresponse()
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
        self.process.wait(60)


def wait_until(what, condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.1)
    raise SystemExit(f"not within {seconds} s: {what}")


def requests_of(options, name=""):
    """The node and the path of each request."""
    draws = random.Random(options.seed)
    for number in range(options.warming + options.requests):
        rank = int(options.objects ** draws.random()) - 1
        node = 0 if number % 5 < 4 else 1 + number % (NODES - 1)
        if name == "idle" and number < options.warming // 2 and number % 5 == 0:
            node = NODES - 1
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


def ask_all(options, nodes, requests):
    """Sends requests over the connections of all clients, each of which takes every n-th. Gives wrong bodies, and times at the first node."""

    def client(number):
        wrong, times = 0, []
        for place, (node, path) in enumerate(requests[number::options.clients]):
            if options.rate:
                time.sleep(max(0.0, since + (place * options.clients + number) / options.rate - time.perf_counter()))
            begun = time.perf_counter()
            status, body = nodes[node % len(nodes)].get(path)
            if node == 0:
                times.append(time.perf_counter() - begun)
            wrong += status != 200 or body != body_of(path, options.size)
        return wrong, times

    since = time.perf_counter()
    if options.clients == 1:
        return client(0)
    with concurrent.futures.ThreadPoolExecutor(options.clients) as pool:
        found = list(pool.map(client, range(options.clients)))
    return sum(wrong for wrong, _ in found), [time for _, times in found for time in times]


@contextlib.contextmanager
def cold_pages(is_slow):
    """Has the system forget the pages of files, so that reads reach the disks."""
    ended = threading.Event()

    def forget():
        while not ended.wait(0.1):
            with open("/proc/sys/vm/drop_caches", "w") as file:
                file.write("1")

    thread = threading.Thread(target=forget)
    if is_slow:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if is_slow:
            thread.join()


def planned(options, nodes, more=()):
    """Words of `shoal plan` about the logs of the nodes."""
    share = options.warming / (options.warming + options.requests)
    command = [options.binary, "plan", nodes[0].access, "--ram", str(options.ram), "--warm-up", str(share), "--json", *more]
    for node in nodes[1:]:
        command += ["--node", node.access]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(told.stdout)


def pages_of(reports):
    """Getpages, their time, and the servers' time for one, as all nodes tell."""
    rows = [row for report in reports for row in report.get("servers", [])]
    return {"gets": sum(row["gets"] for row in rows), "gets_us": sum(row["gets_us"] for row in rows), "puts": sum(row["puts"] for row in rows),
            "service_us": [row["service_us"] for row in rows if row["service_us"]]}


def compared_setup(options, result, nodes):
    """The plan of a set-up with shared memory: the same requests, and times as first measured."""
    name = result["setup"]
    balance = ["--balance", name[2:] if name.startswith("b=") else "tuned"]

    def plan(page_us):
        service_us, disk_us = options.times["service_us"], options.times["disk_us"]
        times = ["--page-us", str(max(page_us, service_us)), "--service-us", str(service_us), "--disk-us", str(disk_us)]
        return planned(options, nodes, [*balance, *times, "--clients", str(options.clients)])

    if not options.times:
        if not (result["getpage_us"] and result["service_us"] and result["disk_us"]):
            return None
        options.times = {"setup": name, "service_us": result["service_us"], "disk_us": result["disk_us"], "page_us": result["getpage_us"]}
        # The measured time has the wait in it.
        waited = plan(result["getpage_us"])["getpage"]["simulated_us"]
        options.times["page_us"] = max(2 * result["getpage_us"] - waited, result["service_us"])
    return plan(options.times["page_us"])


def run(options, name, origin):
    shared = name if name in ("off", "measured", "always") else "off" if name == "one" else "always"
    b = float(name[2:]) if name.startswith("b=") else None
    count = 1 if name == "one" else NODES
    ram = options.ram * (NODES if name == "one" else 1)
    with contextlib.ExitStack() as undo:
        folder = tempfile.mkdtemp(prefix="shoal-shared-memory-", dir=options.directory)
        undo.callback(print, folder) if options.keep else undo.callback(shutil.rmtree, folder, ignore_errors=True)
        options.folder = folder
        slow = [SlowDisk(undo, options, number) if options.slow else None for number in range(count)]
        hosts = [(f"127.0.{options.net}.{number + 1}", *(servers.free_port("127.0.0.1") for _ in range(3))) for number in range(count)]
        settings = {"shared": shared, "b": b, "ram": ram}
        nodes = []
        undo.callback(lambda: [node.stop() for node in nodes])
        for number in range(count):
            nodes.append(Node(options, folder, hosts, number, origin, settings, slow[number]))
        wait_until("all nodes know each other", lambda: all(len(node.cluster().get("members", [])) == count for node in nodes))
        if shared != "off":
            on = lambda node: sum(row["state"] == "on" for row in (node.cluster().get("shared_memory") or {}).get("servers", []))
            wait_until("all nodes share memory", lambda: all(on(node) == count - 1 for node in nodes))
        undo.enter_context(cold_pages(options.slow))
        requests = list(requests_of(options, name))
        wrong_before, _ = ask_all(options, nodes, requests[:options.warming])
        told = lambda: pages_of([node.cluster().get("shared_memory") or {} for node in nodes])
        before, asked, pages_before = [node.metrics() for node in nodes], next(Origin.asked), told()
        begun = time.perf_counter()
        wrong, times = ask_all(options, nodes, requests[options.warming:])
        seconds = time.perf_counter() - begun
        after, asked, pages = [node.metrics() for node in nodes], next(Origin.asked) - asked - 1, told()
        gets = pages["gets"] - pages_before["gets"]
        total = lambda metric: int(sum(now[metric] - then[metric] for now, then in zip(after, before)))
        times.sort()
        report = nodes[0].cluster().get("shared_memory") or {}
        reads = total("shoal_disk_object_reads_total")
        result = {
            "setup": name, "wrong": wrong + wrong_before, "disk_reads": reads, "origin": asked,
            "ram_hit_ratio": round(1 - (reads + asked) / options.requests, 4),
            "ways": {way: total(f'shoal_responses_total{{result="{told}"}}') for way, told in WAYS.items()},
            "gets": {way: total(f'shoal_memory_gets_total{{result="{way}"}}') for way in ("hit", "gone", "failed", "wrong")},
            "puts": {way: total(f'shoal_memory_puts_total{{result="{way}"}}') for way in ("kept", "left", "late", "refused", "failed", "dropped")},
            "held": {way: total(f'shoal_memory_kept_total{{result="{way}"}}') for way in ("kept", "declined")},
            "b": report.get("balance"), "disk_us": report.get("disk_us"),
            "page_us": [row["page_us"] for row in report.get("servers", [])],
            "getpages": gets, "putpages": pages["puts"] - pages_before["puts"],
            "getpage_us": (pages["gets_us"] - pages_before["gets_us"]) / gets if gets else None,
            "service_us": sum(pages["service_us"]) / len(pages["service_us"]) if pages["service_us"] else None,
            "servers": [{"share": row["share"], "gets": row["gets"], "puts": row["puts"]} for row in report.get("servers", [])],
            "requests_a_second": round(options.requests / seconds),
            "p50_us": round(times[len(times) // 2] * 1e6), "p99_us": round(times[len(times) * 99 // 100] * 1e6),
        }
        # The access logs are whole once the nodes have ended.
        for node in nodes:
            node.stop()
        result["planned"] = planned(options, nodes) if name == "off" else None
        if shared == "always":
            result["planned"] = compared_setup(options, result, nodes)
        return result


def beside(results, times):
    """Table of disk reads and getpage's time: measured, simulated, and by the models."""
    lines = ["", f"Times of the set-up `{times['setup']}`: a page {times['page_us']:.0f} us, its server {times['service_us']:.0f} us, the disk {times['disk_us']:.0f} us." if times else "",
             "", "| set-up | disk reads | simulated | ratio | one LRU list | getpage us | simulated | ratio | modelled | ratio | b | simulated |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    off = []
    for row in results:
        plan = row["planned"]
        if not plan:
            continue
        form = plan["apart" if row["setup"] == "off" else "shared"]
        reads = row["disk_reads"] / max(form["disk_reads"], 1)
        cells = [f"`{row['setup']}`", row["disk_reads"], form["disk_reads"], f"{reads:.2f}", plan["ideal_disk_reads"]]
        ratios = [reads]
        getpage = plan["getpage"] or {}
        for way in ("simulated_us", "modelled_us"):
            if not (row["getpage_us"] and getpage.get(way)):
                cells += ["", "", ""][: 3 if way == "simulated_us" else 2]
                continue
            ratios.append(row["getpage_us"] / getpage[way])
            cells += [f"{row['getpage_us']:.0f}"] if way == "simulated_us" else []
            cells += [f"{getpage[way]:.0f}", f"{ratios[-1]:.2f}"]
        cells += ["" if row["b"] is None else f"{row['b']:.2f}", f"{plan['balance']:.2f}" if row["b"] is not None else ""]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
        off += [row["setup"]] if any(abs(ratio - 1) > 0.2 for ratio in ratios) else []
    lines += ["", f"Beyond 20%: {', '.join(off) or 'none'}. The bar: getpage's time and disk reads within 20% of simulation and model."]
    return "\n".join(lines)


def compared(results):
    """Tables of the bars, and of the plan beside the measurement."""
    found = {result["setup"]: result for result in results}
    lines = ["", "| set-up | disk reads | origin | RAM hits | page us | p50 us | p99 us | b |", "|---|--:|--:|--:|--:|--:|--:|--:|"]
    for name, row in found.items():
        pages = [us for us in row["page_us"] if us]
        page = f"{sum(pages) / len(pages):.0f}" if pages else ""
        b = "" if row["b"] is None else f"{row['b']:.2f}"
        lines.append(f"| `{name}` | {row['disk_reads']} | {row['origin']} | {row['ram_hit_ratio']:.3f} | {page} | {row['p50_us']} | {row['p99_us']} | {b} |")
    off, always, one = (found.get(name) for name in ("off", "always", "one"))
    if off and always:
        lines += ["", f"disk reads: {always['disk_reads'] / max(off['disk_reads'], 1):.3f} of those without; bar 0.5",
                  f"p99: {always['p99_us'] / off['p99_us']:.3f} of that without; bar: below 1"]
    if always and one:
        lines.append(f"RAM hits: {(one['ram_hit_ratio'] - always['ram_hit_ratio']) * 100:.2f} points below one node; bar 2")
    if off and off["planned"]:
        plan = off["planned"]
        lines += ["", "| RAM hits | planned from the logs of `off` | measured | points |", "|---|--:|--:|--:|"]
        for name, form in (("off", "apart"), ("always", "shared"), ("one", "one_node")):
            if name in found:
                told, seen = plan[form]["ram_hit_ratio"], found[name]["ram_hit_ratio"]
                lines.append(f"| `{name}` | {told:.3f} | {seen:.3f} | {(told - seen) * 100:+.1f} |")
    fixed = [row for name, row in found.items() if name.startswith("b=")]
    if always and fixed:
        best = min(row["disk_reads"] for row in fixed)
        lines += ["", f"tuned: {always['disk_reads'] / best:.3f} of the disk reads of the best fixed b; bar 1.05"]
    return "\n".join(lines)


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--setups", default="off,always,measured,b=0,b=0.25,b=0.5,b=1,one,idle")
    parser.add_argument("--objects", type=int, default=32_000)
    parser.add_argument("--size", type=int, default=16_000)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--warming", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--net", type=int, default=77, help="third part of the nodes' addresses")
    parser.add_argument("--directory", help="folder for the stores")
    parser.add_argument("--slow", type=int, help="reads a second of each node's disk")
    parser.add_argument("--clients", type=int, default=1, help="connections that ask at the same time")
    parser.add_argument("--rate", type=float, help="requests a second of all clients; as fast as they are answered without")
    parser.add_argument("--small", action="store_true", help="4,000 objects and 20,000 requests")
    parser.add_argument("--keep", action="store_true", help="keep the folders with settings and logs")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    if options.small:
        options.objects, options.requests, options.warming = 4_000, 12_000, 8_000
    options.times = {}
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
    print(compared(results))
    if any(row["planned"] for row in results):
        print(beside(results, options.times))
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"options": vars(options), "model": model, "results": results}, file, indent=1)
    if any(result["wrong"] for result in results):
        raise SystemExit("wrong bodies")


if __name__ == "__main__":
    main()
