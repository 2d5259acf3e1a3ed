#!/usr/bin/env python3
"""CPU time that a page of shared memory costs its server, beside a client's hit in RAM: put, get, in the clear and with TLS.

Two nodes with placement by digests. The busy one has little RAM, the server much. All objects go through the busy node, and then half of them again:

    load     each object comes from the origin, and an older one goes to the server: a put
    again    each object comes back from the server, and another one goes there: a get and a put
    hits     a client asks the server itself for its own objects in RAM

The CPU time of the server's threads is read from the scheduler's statistics, without its time at rest. With --tls the nodes have addresses beyond loopback
and a key, so that they speak TLS, and so does the client: this needs root, for a network of the bench's own.

With --calls the server's system calls are counted by strace instead, and times say nothing. Page faults are counted in any case.

  python3 bench/page_cost.py --binary target/release/shoal [--tls] [--calls] [--size 8192] [--connections 1,16] [--json FILE]
"""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import signal
import socket
import ssl
import statistics
import subprocess
import tempfile
import threading
import time

import network
import servers

BUSY_RAM = "16 MiB"
SERVER_RAM = "512 MiB"
BARS = {"get": 1.3, "put": 1.0}


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers with as many bytes as the path names, in one write."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self):
        size = int(self.path.split("/")[1])
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(os.urandom(16) * (size // 16))
        self.wfile.flush()

    def log_message(self, *_):
        pass


class Node:
    """A node with one worker, without a disk and an access log."""

    def __init__(self, options, folder, host, ram, other, origin):
        self.host, self.folder = host, folder
        self.client, self.admin = servers.free_port(host), servers.free_port("127.0.0.1")
        self.peer = options.peers[host]
        self.context = None
        lines = ["workers = 1", "[[listen]]", f'address = "{host}:{self.client}"', 'mode = "reverse"']
        if options.tls:
            pair = servers.certificate(folder, "P-256")
            lines.append('tls = [{{ certificate = "{}", key = "{}" }}]'.format(*pair))
            self.context = ssl.create_default_context()
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
        lines += ["[[site]]", 'hosts = ["*"]', f'upstreams = [{{ url = "http://127.0.0.1:{origin}" }}]', "[admin]", f'listen = "127.0.0.1:{self.admin}"',
                  "[log]", 'access = "none"', "[store]", 'directory = ""', "[cache]", f'ram = "{ram}"', "[cluster]", 'name = "cost"',
                  f'peer = "{host}:{self.peer}"', f'join = ["{other}:{options.peers[other]}"]', 'placement = "directory"', 'shared_memory = "always"',
                  'peer_timeout = "60s"']
        if options.tls:
            lines.append(f'key_file = "{options.keys}"')
        path = servers.write(folder, f"{host}.toml", "\n".join(lines) + "\n")
        self.log = open(os.path.join(folder, f"{host}.log"), "w")
        self.process = subprocess.Popen([options.binary, "run", "--config", path], stdout=self.log, stderr=self.log)

    def ask_admin(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=60)
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def metric(self, name):
        lines = self.ask_admin("/metrics").splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def shares(self):
        with contextlib.suppress(OSError, ValueError):
            rows = (json.loads(self.ask_admin("/cluster")).get("shared_memory") or {}).get("servers", [])
            return any(row["state"] == "on" for row in rows)
        return False

    def spent_us(self):
        """CPU time of all threads so far."""
        tasks = f"/proc/{self.process.pid}/task"
        return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1000

    def faults(self):
        """Page faults of all threads so far that needed no disk."""
        return int(open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()[7])

    def connect(self):
        stream = socket.create_connection((self.host, self.client))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(stream) if self.context else stream

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.close()


class CallCount:
    """System calls of a process, by name."""

    def __init__(self, process, folder):
        self.file = os.path.join(folder, "calls")
        command = ["strace", "-f", "-c", "-o", self.file, "-p", str(process.pid)]
        self.strace = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        # It tells that it is attached.
        self.strace.stderr.readline()

    def end(self):
        self.strace.send_signal(signal.SIGINT)
        self.strace.communicate()
        rows = [line.split() for line in open(self.file)]
        return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}


def ask(node, paths, connections):
    """Asks for all paths, over connections that each wait for their reply. Gives the number of answers with a hit."""
    hits, waiting = 0, iter(paths)
    done = threading.Lock()

    def client():
        nonlocal hits
        stream = node.connect()
        reader = stream.makefile("rb", 1 << 16)
        while True:
            with done:
                path = next(waiting, None)
            if path is None:
                break
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode())
            status, length, is_hit = reader.readline(), 0, False
            if b" 200 " not in status:
                raise SystemExit(f"{path}: {status!r}")
            while (line := reader.readline().strip()):
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
                is_hit = is_hit or name.lower() == b"cache-status" and b";hit" in value
            reader.read(length)
            with done:
                hits += is_hit
        stream.close()

    threads = [threading.Thread(target=client) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return hits


def measured(options, connections):
    """CPU time of the server for a put, a get and a hit, in microseconds."""
    with tempfile.TemporaryDirectory(prefix="shoal-page-cost-") as folder:
        origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        if options.tls:
            options.keys = os.path.join(folder, "cluster.keys")
            subprocess.run([options.binary, "cluster", "init", options.keys], check=True, capture_output=True)
        options.peers = {host: servers.free_port(host) for host in options.hosts}
        busy_host, server_host = options.hosts
        server = Node(options, folder, server_host, SERVER_RAM, busy_host, origin.server_port)
        busy = Node(options, folder, busy_host, BUSY_RAM, server_host, origin.server_port)
        try:
            deadline = time.time() + 60
            while not (server.shares() and busy.shares()):
                if time.time() > deadline:
                    raise SystemExit("the nodes do not share memory")
                time.sleep(0.2)
            return costs(options, connections, (busy, server))
        finally:
            busy.stop()
            server.stop()
            origin.shutdown()


def costs(options, connections, nodes):
    busy, server = nodes
    own = [f"/{options.size}/own{number}" for number in range(200)]
    ask(server, own, 1)
    time.sleep(2)
    began, before = time.time(), server.spent_us()
    time.sleep(options.rest)
    at_rest = (server.spent_us() - before) / (time.time() - began)

    def spent(work):
        names = {"put": 'shoal_memory_kept_total{result="kept"}', "get": 'shoal_memory_served_total{result="hit"}',
                 "messages": 'shoal_memory_messages_total{way="at_once"}'}
        counts = {name: server.metric(metric) for name, metric in names.items()}
        calls = CallCount(server.process, server.folder) if options.calls else None
        began, before, faults = time.time(), server.spent_us(), server.faults()
        work()
        # Puts follow at once, and within a second at most.
        time.sleep(1)
        micros = server.spent_us() - before - at_rest * (time.time() - began)
        found = {name: server.metric(metric) - counts[name] for name, metric in names.items()}
        found["faults"] = server.faults() - faults
        if calls:
            named = calls.end()
            found["calls"] = sum(named.values())
            shown = {name: round(count / max(found["messages"], 1), 2) for name, count in named.items() if count > found["messages"] / 10}
            print(f"  {found['put']:.0f} puts, {found['get']:.0f} gets, {found['messages']:.0f} messages; calls a message: {shown}")
        return micros, found

    paths = [f"/{options.size}/{number}" for number in range(options.objects)]
    ask(busy, paths[: options.objects // 4], connections)
    micros, counts = spent(lambda: ask(busy, paths[options.objects // 4 :], connections))
    if counts["put"] < options.objects // 2:
        raise SystemExit(f"{counts} for {options.objects} objects: pages do not travel")
    put = micros / counts["put"]
    together = counts["put"] / max(counts["messages"], 1)
    faults, calls = (counts.get(name, 0) / counts["put"] for name in ("faults", "calls"))
    # The very first ones are still in the busy node's RAM.
    again = paths[options.objects // 4 : options.objects * 3 // 4]
    micros, counts = spent(lambda: ask(busy, again, connections))
    if counts["get"] < options.objects // 4:
        raise SystemExit(f"{counts} for {len(again)} requests: pages do not come back")
    get = (micros - counts["put"] * put) / counts["get"]
    hits = own * (options.objects // len(own))
    micros, _ = spent(lambda: ask(server, hits, connections))
    return {"put": put, "get": get, "hit": micros / len(hits), "together": together, "faults": faults, "calls": calls}


def beyond_loopback(options):
    """Gives the bench's own network two addresses that are not of loopback."""
    options.hosts = ["10.77.0.1", "10.77.0.2"]
    for host in options.hosts:
        subprocess.run(["ip", "addr", "add", f"{host}/32", "dev", "lo"], check=True)


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--calls", action="store_true", help="count system calls by strace")
    parser.add_argument("--size", type=int, default=8192)
    parser.add_argument("--objects", type=int, default=20_000)
    parser.add_argument("--connections", default="1,16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rest", type=float, default=3, help="seconds at rest that are measured")
    parser.add_argument("--json", help="file for the results")
    options = parser.parse_args()
    options.hosts = ["127.0.0.1", "127.0.0.2"]
    if options.tls:
        beyond_loopback(options)
    print("| connections | pages a put | page faults a page put | put, us | get, us | hit, us | put over hit | get over hit |\n|--:|--:|--:|--:|--:|--:|--:|--:|")
    results = []
    for connections in map(int, options.connections.split(",")):
        rounds = [measured(options, connections) for _ in range(options.rounds)]
        found = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        ratios = {name: found[name] / found["hit"] for name in BARS}
        results.append({"connections": connections, **found, "rounds": rounds})
        print(f"| {connections} | {found['together']:.1f} | {found['faults']:.2f} | {found['put']:.1f} | {found['get']:.1f} | {found['hit']:.1f} | {ratios['put']:.2f} | {ratios['get']:.2f} |", flush=True)
        if options.calls:
            print(f"  system calls a page put: {found['calls']:.2f}")
    print(f"\nBars: put {BARS['put']}, get {BARS['get']} of a hit{', with TLS' if options.tls else ''}.")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
