"""Counts the bytes that clients get of a text site, as the origin sends it and compressed at the edge, and the CPU time of hits.

    python3 bench/text_site.py --shoal target/release/shoal
    python3 bench/text_site.py --shoal target/release/shoal --site /usr/share/doc/python3.11-doc/html

Without --site the site is made from this repository: each page of docs as text/html, the dashboard's styles, scripts and pictures.
With it, it is the pages, styles, scripts and drawings in a folder. The origin sends everything as it is. Clients ask for each file
ROUNDS times with the Accept-Encoding of a browser, of an old client, and of one that takes no coding. The program waits until a
coding is there, as a site that runs for a day has it, and counts from the first request on and afterwards.

CPU time is of the node, for hits over one connection: those of the coded forms of a browser, and of the bodies as they are, in
turn at one node.
"""

import argparse
import http.server
import mimetypes
import pathlib
import socket
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request

import measure
import network
import servers

ROOT = pathlib.Path(__file__).parent.parent
ROUNDS = 100
# Seconds without another byte count after which all codings are there.
SETTLED = 15
TEXT = {".html", ".css", ".js", ".svg"}
# Hits of which the CPU time is taken, and how often for each kind.
HITS, TURNS = 10_000, 7
CLIENTS = [("a browser", "gzip, deflate, br, zstd"), ("an old client", "gzip"), ("no coding", "identity")]


def site(folder):
    """Paths, media types and bodies."""
    files = {}
    if folder:
        root = pathlib.Path(folder).resolve()
        for path in sorted(root.rglob("*")):
            if path.suffix in TEXT and path.is_file():
                files["/" + str(path.relative_to(root))] = (mimetypes.guess_type(path.name)[0] or "text/plain", path.read_bytes())
        return files
    for path in sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "crates/dashboard/assets").iterdir()):
        kind = "text/html" if path.suffix == ".md" else mimetypes.guess_type(path.name)[0] or "text/plain"
        files["/" + str(path.relative_to(ROOT))] = (kind, path.read_bytes())
    return files


def origin(files):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            kind, body = files[self.path]
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "max-age=86400")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


def start(shoal, folder, upstream):
    port = servers.free_port()
    settings = pathlib.Path(folder) / "shoal.toml"
    settings.write_text(
        f"""[[listen]]
address = "127.0.0.1:{port}"
mode = "reverse"
[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://127.0.0.1:{upstream}" }}]
[compress]
codings = ["br", "zstd", "gzip"]
bytes_max = "4 MiB"
[cache]
ram_object_max = "4 MiB"
[store]
directory = "{folder}/store"
disk = "64 MiB"
[admin]
listen = "127.0.0.1:{servers.free_port()}"
[log]
access = "none"
"""
    )
    node = subprocess.Popen([shoal, "run", "--config", str(settings)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return node, port
        except OSError:
            time.sleep(0.1)
    raise SystemExit("the node does not start")


def ask(port, path, codings):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept-Encoding": codings})
    with urllib.request.urlopen(request) as reply:
        return reply.headers.get("Content-Encoding"), len(reply.read())


def count(port, files, codings):
    """Bytes of the bodies from the first request on, the bytes of one round at the end, and the codings seen."""
    total, last, seen, since = 0, 0, {}, time.monotonic()
    rounds = 0
    while rounds < ROUNDS or time.monotonic() - since < SETTLED:
        before, last, seen = last, 0, {}
        for path in files:
            coding, size = ask(port, path, codings)
            last += size
            seen[coding or "as it is"] = seen.get(coding or "as it is", 0) + 1
        total += last if rounds < ROUNDS else 0
        rounds += 1
        if last != before:
            since = time.monotonic()
        if rounds > ROUNDS:
            time.sleep(0.5)
    return total, last, seen


def cpu_of_hits(process, port, files):
    """Microseconds of the node's CPU for a hit in RAM: of a coded form, and of the body as it is."""
    paths = [path for path, (_, body) in files.items() if 2_000 < len(body) < 60_000][:50]
    kinds = {"coded": CLIENTS[0][1], "as it is": CLIENTS[-1][1]}
    times = {kind: [] for kind in kinds}
    with socket.create_connection(("127.0.0.1", port)) as link:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = link.makefile("rb")

        def hits(count, codings):
            for number in range(count):
                link.sendall(f"GET {paths[number % len(paths)]} HTTP/1.1\r\nHost: site.test\r\nAccept-Encoding: {codings}\r\n\r\n".encode())
                length = 0
                while (line := stream.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                stream.read(length)

        for turn in range(TURNS):
            for kind, codings in list(kinds.items())[:: 1 if turn % 2 else -1]:
                hits(len(paths), codings)
                before = sum(measure.cpu_seconds(process.pid))
                hits(HITS, codings)
                times[kind].append((sum(measure.cpu_seconds(process.pid)) - before) / HITS * 1e6)
    return {kind: statistics.median(found) for kind, found in times.items()}


def main():
    network.enter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shoal", required=True)
    parser.add_argument("--site", help="folder of a site")
    parser.add_argument("--most", type=int, default=400, help="files of the site at most")
    arguments = parser.parse_args()
    files = dict(list(site(arguments.site).items())[: arguments.most])
    plain = sum(len(body) for _, body in files.values())
    print(f"{len(files)} files, {plain:,} bytes")
    upstream = origin(files)
    for name, codings in CLIENTS:
        with tempfile.TemporaryDirectory() as folder:
            node, port = start(arguments.shoal, folder, upstream)
            try:
                total, last, seen = count(port, files, codings)
                if name == CLIENTS[0][0]:
                    told = ", ".join(f"{kind} {micros:.1f} us" for kind, micros in cpu_of_hits(node, port, files).items())
                    print(f"CPU of a hit: {told}", flush=True)
            finally:
                node.terminate()
                node.wait()
        told = ", ".join(f"{number} {coding}" for coding, number in sorted(seen.items()))
        print(f"{name}: {total / plain / ROUNDS:.3f} of the bytes over {ROUNDS} rounds, {last / plain:.3f} at the end ({told})")


if __name__ == "__main__":
    main()
