#!/usr/bin/env python3
"""Large bodies: CPU and memory of an upload and of downloads, Shoal beside nginx.

    python3 bench/large_bodies.py            print the table
    python3 bench/large_bodies.py --write    also put it into docs/experiments/large_bodies.md

A client sends a body to an origin through each server, and gets bodies from it: one that may not be stored, one that is stored while it is sent,
and the stored one again. Each server has one worker on core 0; the client and the origin have core 1. The servers take turns. Counted are the CPU
of the server per GB, and its highest resident memory. Every byte is counted at its end. Needs nginx, taskset, a release build of shoal, and room
for two copies of the largest body.
"""

import argparse
import getpass
import os
import shutil
import socket
import statistics
import sys
import tempfile
import threading

import load
import machine
import measure
import network
import page
import programs
import servers

BLOCK = bytes(range(256)) * 4096
GB = 1_000_000_000

NGINX = """
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_max_body_size 0; sendfile on;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=large:1m inactive=1d max_size={disk} use_temp_path=off;
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_request_buffering off;
    location / {{ proxy_pass http://{origin}; proxy_max_temp_file_size 0; }}
    location /kept/ {{ proxy_pass http://{origin}; proxy_cache large; proxy_max_temp_file_size {disk}; }}
  }}
}}
"""

SHOAL = servers.SHOAL_SITE + """[cache]
ram = "256 MiB"
[store]
directory = "{folder}/cache"
disk = "{disk}"
object_max = "{disk}"
[log]
access = "none"
"""


class Origin:
    """Swallows what is sent to it, and answers /N and /kept/N with N bytes; the second may be stored for a day."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.received = self.asked = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            while head := head_of(connection):
                line, fields, begun = head
                length = int(fields.get("content-length", 0))
                if length:
                    self.received = len(begun) + swallow(connection, length - len(begun))
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\r\n")
                    continue
                self.asked += 1
                path = line.split()[1]
                rule = "public, max-age=86400" if path.startswith("/kept/") else "no-store"
                size = int(path.rsplit("/", 1)[1])
                answer = f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\nCache-Control: {rule}\r\nETag: \"{size}\"\r\n\r\n"
                connection.sendall(answer.encode())
                send(connection, size)


def head_of(connection):
    """The request or status line, the fields, and what came of the body; None at the end of the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        more = connection.recv(65536)
        if not more:
            return None
        text += more
    head, body = text.split(b"\r\n\r\n", 1)
    line, *fields = head.decode("latin-1").split("\r\n")
    return line, {name.lower(): value.strip() for name, value in (field.split(":", 1) for field in fields)}, body


def send(connection, size):
    view = memoryview(BLOCK)
    while size:
        connection.sendall(view[: min(size, len(view))])
        size -= min(size, len(view))


def swallow(connection, size):
    """Reads and counts up to `size` bytes."""
    got, room = 0, bytearray(1 << 20)
    while got < size:
        count = connection.recv_into(room, min(len(room), size - got))
        if not count:
            break
        got += count
    return got


def upload(server, size, origin):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"PUT /upload HTTP/1.1\r\nHost: bench\r\nContent-Length: {size}\r\n\r\n".encode())
        send(connection, size)
        line, _, _ = head_of(connection)
    if " 200 " not in line or origin.received != size:
        raise SystemExit(f"{server.name}: the upload ended with {line}, and {origin.received} of {size} bytes came")


def download(server, path, size):
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        line, _, begun = head_of(connection)
        got = len(begun) + swallow(connection, size - len(begun))
    if " 200 " not in line or got != size:
        raise SystemExit(f"{server.name}: {path} ended with {line}, and {got} of {size} bytes came")


def start(options, folder, origin, turn):
    """Both servers, each in a folder of its own. Every second turn the order changes."""
    # Shoal stores no body above a quarter of its disk.
    disk = (options.stored * 9 // 2 + (1 << 30)) >> 20
    running = []
    for name in ("nginx", "shoal") if turn % 2 == 0 else ("shoal", "nginx"):
        own = tempfile.mkdtemp(prefix=f"{name}-", dir=folder)
        os.chmod(own, 0o755)
        values = {"folder": own, "port": servers.free_port(), "origin": origin.address, "disk": f"{disk} MiB"}
        if name == "nginx":
            values |= {"disk": f"{disk}m", "user": f"user {getpass.getuser()}; " if os.geteuid() == 0 else ""}
            file = servers.write(own, "nginx.conf", NGINX.format(**values))
            program = shutil.which("nginx") or "/usr/sbin/nginx"
            command = [program, "-p", own, "-c", file]
        else:
            file = servers.write(own, "shoal.toml", SHOAL.format(**values | {"origin": f"http://{origin.address}"}, admin_port=servers.free_port()))
            command = [programs.checked(options.shoal), "run", "--config", file]
        running.append(servers.Server(name, values["port"], command, own))
    return running


def peak_bytes(root):
    """The highest resident memory of a process and of its descendants, from /proc."""
    total = 0
    for process in measure.processes(root):
        with open(f"/proc/{process}/status") as file:
            total += sum(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
    return total


def rounds(options, folder):
    """CPU seconds per GB of each step and server, and the peaks of memory."""
    origin, cpu, peaks = Origin(), {}, {}
    get, kept = options.download, options.stored
    steps = {
        f"upload of {options.upload / GB:g} GB": (options.upload, lambda server: upload(server, options.upload, origin)),
        f"download of {get / GB:g} GB, not stored": (get, lambda server: download(server, f"/{get}", get)),
        f"download of {kept / GB:g} GB, stored meanwhile": (kept, lambda server: download(server, f"/kept/{kept}", kept)),
        f"download of {kept / GB:g} GB, a hit on disk": (kept, lambda server: download(server, f"/kept/{kept}", kept)),
    }
    for turn in range(options.rounds):
        running = start(options, folder, origin, turn)
        try:
            for step, (size, act) in steps.items():
                for server in running:
                    asked = origin.asked
                    before = sum(measure.cpu_seconds(server.process.pid))
                    act(server)
                    if "a hit" in step and origin.asked != asked:
                        raise SystemExit(f"{server.name}: {step}: it had to ask the origin")
                    spent = (sum(measure.cpu_seconds(server.process.pid)) - before) / size * GB
                    cpu.setdefault(step, {}).setdefault(server.name, []).append(spent)
                    peaks.setdefault(step, {}).setdefault(server.name, []).append(peak_bytes(server.process.pid))
                    print(f"{turn + 1}: {server.name}: {step}: {spent:.3f} s per GB", file=sys.stderr)
        finally:
            for server in running:
                server.stop()
                shutil.rmtree(os.path.dirname(server.log), ignore_errors=True)
    return cpu, peaks


def table(cpu, peaks):
    lines = ["| step | nginx, s of CPU a GB | shoal | shoal to nginx | nginx, peak MB | shoal |", "|---|--:|--:|--:|--:|--:|"]
    for step, points in cpu.items():
        nginx, shoal = (statistics.median(points[name]) for name in ("nginx", "shoal"))
        ratio = statistics.median(ours / theirs for ours, theirs in zip(points["shoal"], points["nginx"]))
        memory = [max(peaks[step][name]) / 1e6 for name in ("nginx", "shoal")]
        lines.append(f"| {step} | {nginx:.3f} | {shoal:.3f} | {ratio:.2f} | {memory[0]:.0f} | {memory[1]:.0f} |")
    return "\n".join(lines)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--upload", type=int, default=2 * GB, help="bytes of the body that is sent")
    parser.add_argument("--download", type=int, default=5 * GB, help="bytes of the body that is got and not stored")
    parser.add_argument("--stored", type=int, default=2 * GB, help="bytes of the body that is stored")
    parser.add_argument("--directory", help="folder for both caches")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/large_bodies.md")
    return parser.parse_args()


def main():
    network.enter()
    options = arguments()
    os.sched_setaffinity(0, {int(load.CORE)})
    with tempfile.TemporaryDirectory(prefix="shoal-bench-", dir=options.directory) as folder:
        os.chmod(folder, 0o755)
        text = "\n".join(machine.head("nginx")) + "\n\n" + table(*rounds(options, folder)) + "\n"
    print(text)
    if options.write:
        page.write("large_bodies.md", "large_bodies.py", text)


if __name__ == "__main__":
    main()
