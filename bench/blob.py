#!/usr/bin/env python3
"""One cold blob of an image for many clients at once: bytes of the registry, and memory of the mirror.

    python3 bench/blob.py --shoal target/release/shoal [--megabytes 1000] [--clients 50]

The registry stands on loopback, and makes the blob as it sends it. Half of the clients take the whole, half take it in four parallel ranges. One client
of each half leaves half-way. Each other client checks the number of its bytes. It tells how often the registry sent each byte, and by how much the
mirror's resident memory grew.
"""

import argparse
import hashlib
import http.client
import http.server
import subprocess
import tempfile
import threading

import measure
import programs
import servers

BLOCK = bytes(range(256)) * 4096
RANGES = 4


class Registry(servers.Loopback):
    def __init__(self, megabytes):
        self.megabytes, self.sent = megabytes, 0
        digest = hashlib.sha256()
        for _ in range(megabytes):
            digest.update(BLOCK)
        self.path = f"/v2/a/b/blobs/sha256:{digest.hexdigest()}"
        super().__init__(RegistryHandler)


class RegistryHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        is_blob = self.path == self.server.path
        self.send_response(200 if is_blob else 404)
        self.send_header("Content-Length", str(self.server.megabytes * len(BLOCK) if is_blob else 0))
        self.end_headers()
        for _ in range(self.server.megabytes if is_blob else 0):
            self.wfile.write(BLOCK)
            self.server.sent += len(BLOCK)

    def log_message(self, *_):
        pass


def take(port, path, length, span=None, leaves=False):
    """Reads the blob, or bytes `span` of it, and returns the number of its bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=3600)
    connection.request("GET", path, headers={"Range": f"bytes={span[0]}-{span[1]}"} if span else {})
    answer, taken = connection.getresponse(), 0
    while piece := answer.read(1 << 20):
        taken += len(piece)
        if leaves and taken > length // 2:
            break
    connection.close()
    return taken


def client(number, port, path, length, faults):
    leaves = number < 2
    if number % 2 == 0:
        taken = take(port, path, length, leaves=leaves)
    else:
        part = length // RANGES
        spans = [(start * part, length - 1 if start == RANGES - 1 else (start + 1) * part - 1) for start in range(RANGES)]
        parts = [0] * RANGES

        def one(index):
            parts[index] = take(port, path, length, spans[index], leaves)

        threads = [threading.Thread(target=one, args=(index,)) for index in range(RANGES)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        taken = sum(parts)
    if not leaves and taken != length:
        faults.append(f"client {number} has {taken} of {length} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=50)
    options = parser.parse_args()
    registry = Registry(options.megabytes)
    with tempfile.TemporaryDirectory() as folder:
        port, store = servers.free_port(), f"{2 * options.megabytes + 200} MB"
        command = [options.shoal, "run", "--mirror", f"oci={registry.url}", "--listen", str(port), "--admin", "none"]
        command += ["--store", f"{folder}/store", "--disk", store, "--ram", "64 MB"]
        with open(f"{folder}/log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            servers.wait_for(port, process)
            length, faults, peak, over = options.megabytes * len(BLOCK), [], [0], threading.Event()
            before = measure.resident_bytes(process.pid)

            def watch():
                while not over.wait(0.05):
                    peak[0] = max(peak[0], measure.resident_bytes(process.pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            arguments = (port, registry.path, length, faults)
            clients = [threading.Thread(target=client, args=(number, *arguments)) for number in range(options.clients)]
            [thread.start() for thread in clients]
            [thread.join() for thread in clients]
            over.set()
            watcher.join()
        finally:
            process.terminate()
            process.wait()
    for fault in faults:
        print(fault)
    times, grown = registry.sent / length, (peak[0] - before) / 1e6
    print(f"{options.clients} clients, {options.megabytes} MiB: the registry sent each byte {times:.2f} times; memory grew by {grown:.0f} MB")
    raise SystemExit(1 if faults or times > 1 else 0)


if __name__ == "__main__":
    main()
