"""Counts the instructions and system calls of a hit at home on another node, and of a local hit.

Two nodes on loopback, one worker each, without an access log and without a disk. All objects of the run have their home on the second node. The same
requests go to the second node (local) and to the first one (through), over CONNECTIONS connections at once, each of which sends its next request when
its reply has come. Callgrind counts the instructions of each node's process in user mode for a short and a long run; the difference over the requests
between them is the cost of one, so that starting and joining cancel out. strace counts system calls likewise. The kernel's own instructions are not
counted: system calls stand for them. With --cpu the CPU time of both nodes is taken instead, the kernel's part included: user and system time of all
threads, from the scheduler's statistics, three runs each.

  python3 bench/cluster_cost.py --binary target/counted/shoal [--connections 1,16,64] [--bodies 1024,8192] [--calls | --cpu]

With --hosts beyond loopback and --keys the nodes use TLS between each other. Needs valgrind; --calls needs strace.
"""

import argparse
import contextlib
import http.client
import http.server
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import network
import servers

FEW, MANY = 400, 2000
OBJECTS = 600


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers with as many bytes as the path names."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        size = int(self.path.split("/")[1])
        self.send_response(200)
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("ETag", f'"{self.path}"')
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(b"x" * size)

    def log_message(self, *_):
        pass


class Node:
    """A node, perhaps under a tool that counts."""

    def __init__(self, options, folder, name, host, others, origin, tool):
        self.host, self.folder = host, folder
        self.client, self.admin, self.peer = (servers.free_port(host) for _ in range(3))
        members = ", ".join(f'"{name}"' for name in [f"{host}:{self.peer}", *others])
        key = f'key_file = "{options.keys}"\n' if options.keys else ""
        settings = f"""
workers = 1
[[listen]]
address = "{host}:{self.client}"
mode = "reverse"
[admin]
listen = "{host}:{self.admin}"
[log]
access = "none"
[store]
directory = ""
[cluster]
name = "cost"
node = "{name}"
weight = 1.0
peer = "{host}:{self.peer}"
join = [{members}]
peer_timeout = "60s"
{key}[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://{origin}" }}]
"""
        path = os.path.join(folder, f"{host}.toml")
        with open(path, "w") as out:
            out.write(settings)
        self.log = open(os.path.join(folder, f"{host}.log"), "w")
        self.process = subprocess.Popen([*tool, options.binary, "run", "--config", path], stdout=self.log, stderr=self.log)

    def ask_admin(self, path):
        # The listener ends connections that are slow, and under a tool all are.
        for attempt in range(20):
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection(self.host, self.admin, timeout=60)
                connection.request("GET", path)
                return connection.getresponse().read().decode()
            time.sleep(0.5)
        raise OSError(f"{self.host}: no answer of the admin listener")

    def metric(self, name):
        lines = self.ask_admin("/metrics").splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def members(self):
        with contextlib.suppress(OSError, ValueError):
            members = json.loads(self.ask_admin("/cluster"))["members"]
            return sum(member["state"] == "in" for member in members)
        return 0

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        self.log.close()


def ask(node, paths, count, connections, is_hit):
    """Sends `count` requests for the paths in turn, over connections that each wait for their reply."""
    chosen, want = selectors.DefaultSelector(), [b""] * connections
    sent, done, hits = 0, 0, 0

    def send(stream):
        nonlocal sent
        path = paths[sent % len(paths)]
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: site.test\r\n\r\n".encode())
        sent += 1

    for number in range(connections):
        stream = socket.create_connection((node.host, node.client))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        chosen.register(stream, selectors.EVENT_READ, number)
        if sent < count:
            send(stream)
    while done < count:
        for key, _ in chosen.select(120):
            data = key.fileobj.recv(1 << 17)
            if not data:
                raise SystemExit("a connection was closed")
            want[key.data] += data
            head, end, body = want[key.data].partition(b"\r\n\r\n")
            if not end:
                continue
            if not head.startswith(b"HTTP/1.1 200"):
                raise SystemExit(f"not a hit: {head!r}")
            length = int(re.search(rb"(?i)\r\ncontent-length: (\d+)", head).group(1))
            if len(body) < length:
                continue
            want[key.data] = b""
            hits += is_hit(head)
            done += 1
            if sent < count:
                send(key.fileobj)
    for key in list(chosen.get_map().values()):
        key.fileobj.close()
    return hits


def paths_of_second(entry, home, size):
    """Paths of objects that have their home on the second node, and are in its RAM."""
    paths, number = [], 0
    while len(paths) < OBJECTS:
        batch = [f"/{size}/{number + step}" for step in range(100)]
        number += 100
        for path in batch:
            connection = http.client.HTTPConnection(entry.host, entry.client, timeout=120)
            connection.request("GET", path, headers={"Host": "site.test"})
            answer = connection.getresponse()
            answer.read()
            if "shoal-home" in (answer.getheader("Cache-Status") or ""):
                paths.append(path)
    return paths[:OBJECTS]


def counted(options, size, through, connections, count, tool):
    """Instructions or system calls of both nodes in a run of `count` requests."""
    with tempfile.TemporaryDirectory() as folder:
        origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        address = "{}:{}".format(*origin.server_address)
        outs = [os.path.join(folder, f"out{number}") for number in range(2)]
        home = Node(options, folder, "home", options.hosts[1], [], address, tool(outs[1]))
        entry = Node(options, folder, "entry", options.hosts[0], [f"{home.host}:{home.peer}"], address, tool(outs[0]))
        try:
            deadline = time.time() + 120
            while entry.members() < 2 or home.members() < 2:
                if time.time() > deadline:
                    raise SystemExit("the nodes do not find each other")
                time.sleep(0.2)
            paths = paths_of_second(entry, home, size)
            node = entry if through else home
            is_hit = (lambda head: b"fwd=uri-miss" in head and b";hit;" in head) if through else (lambda head: b";hit;" in head)
            # Valgrind cannot bear the page of metrics.
            before = 0 if tool(None) else home.metric("shoal_cluster_hit_messages_total")
            hits = ask(node, paths, count, connections, is_hit)
            messages = 0 if tool(None) else home.metric("shoal_cluster_hit_messages_total") - before
        finally:
            for each in (entry, home):
                each.stop()
            origin.shutdown()
        if hits < count * 0.95:
            raise SystemExit(f"{hits} hits of {count} requests")
        if not tool(None):
            return [], messages
        return [options.read(folder, out, node) for out, node in zip(outs, (entry, home))], messages


def spent_us(node):
    """CPU time of a node's threads in microseconds."""
    tasks = f"/proc/{node.process.pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1000


def cpu_rows(options, size, numbers):
    """Prints the CPU time of a request, by number of connections."""
    count = 8000
    with tempfile.TemporaryDirectory() as folder:
        origin = http.server.ThreadingHTTPServer((options.hosts[0], 0), Origin)
        threading.Thread(target=origin.serve_forever, daemon=True).start()
        address = "{}:{}".format(*origin.server_address)
        home = Node(options, folder, "home", options.hosts[1], [], address, [])
        entry = Node(options, folder, "entry", options.hosts[0], [f"{home.host}:{home.peer}"], address, [])
        try:
            while entry.members() < 2 or home.members() < 2:
                time.sleep(0.2)
            paths = paths_of_second(entry, home, size)
            for connections in [number for number in numbers for _ in range(3)]:
                before = spent_us(home)
                ask(home, paths, count, connections, lambda head: b";hit;" in head)
                local = (spent_us(home) - before) / count
                messages = home.metric("shoal_cluster_hit_messages_total")
                before = spent_us(entry), spent_us(home)
                ask(entry, paths, count, connections, lambda head: b";hit;" in head)
                at_entry, at_home = ((spent_us(node) - then) / count for node, then in zip((entry, home), before))
                messages = home.metric("shoal_cluster_hit_messages_total") - messages
                cells = [f"{local:.1f}", f"{at_entry:.1f}", f"{at_home:.1f}", f"{(at_entry + at_home) / local:.2f}", f"{count / max(1, messages):.1f}"]
                print(f"| {size} | {connections} | " + " | ".join(cells) + " |", flush=True)
        finally:
            for node in (entry, home):
                node.stop()
            origin.shutdown()


def callgrind(out):
    return ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]


def strace(out):
    return ["strace", "-f", "-c", "-o", out]


def instructions(folder, _, node):
    with open(os.path.join(folder, f"{node.host}.log")) as log:
        return int(re.search(r"Collected : (\d+)", log.read()).group(1))


def calls(_, out, __):
    with open(out) as table:
        rows = [line.split() for line in table if line.strip()]
    total = next(row for row in rows if row[-1] == "total")
    return int(total[2] if total[2].isdigit() else total[3])


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--connections", default="1,16,64")
    parser.add_argument("--bodies", default="1024")
    parser.add_argument("--hosts", default="127.0.0.1,127.0.0.2", help="addresses of the entry and the home")
    parser.add_argument("--keys", default="", help="key file; addresses beyond loopback then use TLS")
    parser.add_argument("--cpu", action="store_true", help="take CPU time in place of instructions")
    parser.add_argument("--calls", action="store_true", help="count system calls in place of instructions")
    options = parser.parse_args()
    options.hosts = options.hosts.split(",")
    tool, options.read = (strace, calls) if options.calls else (callgrind, instructions)
    what = "CPU us" if options.cpu else "system calls" if options.calls else "instructions"
    print(f"| body | connections | local: {what} | through: entry | through: home | both over local | requests a message |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for size in map(int, options.bodies.split(",")):
        if options.cpu:
            cpu_rows(options, size, [int(number) for number in options.connections.split(",")])
            continue
        for connections in map(int, options.connections.split(",")):
            costs = {}
            for through in (False, True):
                few, _ = counted(options, size, through, connections, FEW, tool)
                many, _ = counted(options, size, through, connections, MANY, tool)
                costs[through] = [(more - less) / (MANY - FEW) for less, more in zip(few, many)]
            local, (entry, home) = costs[False][1], costs[True]
            _, messages = counted(options, size, True, connections, MANY, lambda _: [])
            together = MANY / messages if messages > 0 else 0
            print(f"| {size} | {connections} | {local:.1f} | {entry:.1f} | {home:.1f} | {(entry + home) / local:.2f} | {together:.1f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
