#!/usr/bin/env python3
"""Memory of idle connections: plain, TLS, and HTTP/2 over TLS, Shoal beside nginx.

    python3 bench/idle.py                 print the table
    python3 bench/idle.py --write         also put it into docs/experiments/hits-notebook.md

Each connection is served one hit of 1 KB and then left alone. Counted is what the server's resident memory has grown by.
Needs nginx, openssl, taskset, a release build of shoal, and as many file descriptors as connections.
"""

import argparse
import os
import resource
import socket
import ssl
import sys
import tempfile
import time

import measure
import machine
import page
import programs
import servers

NGINX = "nginx, no sendfile, open_file_cache"
REQUEST = b"GET /1024 HTTP/1.1\r\nHost: bench\r\n\r\n"


def main():
    options = arguments()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, options.connections + 1000), hard))
    grown = {}
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        pair = servers.certificate(folder, "P-256")
        for kind, secured in (("HTTP/1.1", None), ("HTTP/1.1 over TLS", pair), ("HTTP/2 over TLS", pair)):
            running = [
                servers.one_nginx(folder, origin.url, NGINX, servers.NGINX_SETTINGS[NGINX], "off", secured),
                servers.start_shoal(folder, origin.url, options.shoal, pair=secured),
            ]
            try:
                grown[kind] = [idle(server, kind, options.connections) for server in running]
                print(kind, grown[kind], file=sys.stderr)
            finally:
                for server in running:
                    server.stop()
    lines = machine.head("nginx") + [f"| {options.connections} idle connections | nginx | shoal |", "|---|---|---|"]
    lines += [f"| {kind} | {nginx / 1e6:.1f} MB | {shoal / 1e6:.1f} MB |" for kind, (nginx, shoal) in grown.items()]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        page.write("hits-notebook.md", "idle.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10000)
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/hits-notebook.md")
    return parser.parse_args()


def idle(server, kind, count):
    """Bytes by which the server has grown with so many connections, after some that warm it up."""
    context = ssl._create_unverified_context()
    context.set_alpn_protocols(["h2" if "HTTP/2" in kind else "http/1.1"])
    for _ in range(2):
        server.get("/1024")
    for connection in [connect(server, kind, context) for _ in range(50)]:
        connection.close()
    time.sleep(1)
    before = measure.resident_bytes(server.process.pid)
    connections = [connect(server, kind, context) for _ in range(count)]
    time.sleep(2)
    after = measure.resident_bytes(server.process.pid)
    for connection in connections:
        connection.close()
    return after - before


def connect(server, kind, context):
    """A connection that was served one hit."""
    connection = socket.create_connection(("127.0.0.1", server.port), 10)
    if server.secure:
        connection = context.wrap_socket(connection)
    if "HTTP/2" in kind:
        ask_http2(connection)
        return connection
    connection.sendall(REQUEST)
    received = 0
    while received < 1024:
        received += len(connection.recv(65536))
    return connection


def ask_http2(connection):
    """The preface, empty SETTINGS, one request on stream 1; reads until that stream has ended, and acknowledges SETTINGS."""
    frame = lambda kind, flags, stream, payload: len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    # RFC 7541: indexed :method GET and :scheme https, then :path and :authority as literals with indexed names.
    fields = b"\x82\x87" + b"\x04\x05/1024" + b"\x01\x05bench"
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, fields))
    buffer, ended = b"", False
    while not ended:
        received = connection.recv(65536)
        if not received:
            raise SystemExit("an HTTP/2 connection was closed")
        buffer += received
        while len(buffer) >= 9 and len(buffer) >= 9 + int.from_bytes(buffer[:3], "big"):
            length, kind, flags = int.from_bytes(buffer[:3], "big"), buffer[3], buffer[4]
            ended |= kind == 0 and flags & 1 == 1
            if kind == 4 and not flags & 1:
                connection.sendall(frame(4, 1, 0, b""))
            buffer = buffer[9 + length :]


if __name__ == "__main__":
    main()
