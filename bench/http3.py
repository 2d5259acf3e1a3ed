#!/usr/bin/env python3
"""CPU per hit over HTTP/3: Shoal beside nginx and Caddy.

    python3 bench/http3.py --nginx PATH --caddy PATH      print the table
    python3 bench/http3.py --write                        also put it into docs/experiments/edge.md

The clients (`cargo build --release -p shoal-testkit --bin shoal-h3-load`) run on core 1, the server on core 0, and its CPU is counted, so the speed
of the clients does not matter. nginx must have been built with `--with-http_v3_module`: that of Debian 12 was not, and is then left out. Caddy serves
files, since it has no cache: that is less work than a cache's. A program that is not named and not found is left out.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import load
import machine
import measure
import network
import page
import programs
import servers

# Connections, and requests under way on each.
WAYS = {"1 stream": (32, 1), "10 streams": (32, 10)}

NGINX_H3 = """ ssl; listen 127.0.0.1:{port} quic reuseport; http3 on; quic_gso on; ssl_certificate {pair[0]}; ssl_certificate_key {pair[1]};
    ssl_protocols TLSv1.3"""

CADDY_FILE = """
{{
  admin off
  auto_https off
  servers {{
    protocols h1 h2 h3
  }}
}}
https://localhost:{port} {{
  bind 127.0.0.1
  tls {pair[0]} {pair[1]}
  root * {root}
  file_server
}}
"""


def main():
    network.enter()
    options = arguments()
    lines = []
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        pair = servers.certificate(folder, "P-256")
        running = [start_shoal(folder, origin.url, options.shoal, pair)]
        for start, program in ((start_nginx, options.nginx), (start_caddy, options.caddy)):
            if program:
                running.append(start(folder, origin.url, program, pair, options.sizes))
        try:
            for size in options.sizes:
                lines += rows(running, size, options)
        finally:
            for server in running:
                server.stop()
    head = ["| µs of CPU a hit over HTTP/3 | " + " | ".join(WAYS) + " |", "|---|" + "---|" * len(WAYS)]
    text = "\n".join(machine.head() + head + lines) + "\n"
    print(text)
    if options.write:
        page.write("edge.md", "http3.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2, help="length of one point")
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], default=[1024, 8192, 65536])
    parser.add_argument("--nginx", type=os.path.abspath, default=with_http3(shutil.which("nginx") or "/usr/sbin/nginx"), metavar="PATH")
    parser.add_argument("--caddy", type=os.path.abspath, default=shutil.which("caddy"), metavar="PATH")
    parser.add_argument("--client", type=os.path.abspath, default=programs.release("shoal-h3-load"), metavar="PATH")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/edge.md")
    return parser.parse_args()


def with_http3(program):
    """The path of an nginx that has HTTP/3."""
    if not os.access(program, os.X_OK):
        return None
    built = subprocess.run([program, "-V"], capture_output=True, text=True, check=False).stderr
    if "http_v3_module" in built:
        return program
    print(f"{program} has no HTTP/3: left out", file=sys.stderr)
    return None


def start_shoal(folder, origin, program, pair):
    server = servers.start_shoal(folder, origin, program, logged=False, pair=pair)
    with open(server.settings_file) as file:
        text = file.read().replace('mode = "reverse"', 'mode = "reverse"\nhttp3 = true', 1)
    server.stop()
    file = servers.write(os.path.dirname(server.settings_file), "http3.toml", text)
    again = servers.Server("shoal", server.port, [programs.checked(program), "run", "--config", file], os.path.dirname(file))
    again.secure = True
    return again


def start_nginx(folder, origin, program, pair, _sizes):
    own = tempfile.mkdtemp(prefix="nginx-", dir=folder)
    os.chmod(own, 0o755)
    port = servers.free_port()
    values = {
        "folder": own,
        "port": port,
        "origin_address": origin.removeprefix("http://"),
        "setting": servers.NGINX_SETTINGS["nginx, no sendfile, open_file_cache"].format(open_files=servers.OPEN_FILES),
        "log": "off",
        "tls": NGINX_H3.format(port=port, pair=pair),
        "user": "user root; " if os.geteuid() == 0 else "",
    }
    file = servers.write(own, "nginx.conf", servers.NGINX_FILE.format(**values))
    server = servers.Server("nginx", port, [program, "-p", own, "-c", file], own)
    server.secure = True
    return server


def start_caddy(folder, _origin, program, pair, sizes):
    own = tempfile.mkdtemp(prefix="caddy-", dir=folder)
    for size in sizes:
        with open(os.path.join(own, str(size)), "wb") as file:
            file.write(servers.BODY[:size])
    port = servers.free_port()
    file = servers.write(own, "Caddyfile", CADDY_FILE.format(port=port, pair=pair, root=own))
    command = [program, "run", "--config", file, "--adapter", "caddyfile"]
    server = servers.Server("Caddy, files", port, command, own, {"GOMAXPROCS": "1", "HOME": own})
    server.secure = True
    return server


def rows(running, size, options):
    """A row for each server: CPU per hit in each way, and hits per CPU-second as a multiple of the first; medians of the rounds."""
    points = {}
    for number in range(options.rounds + 1):
        for way in list(WAYS)[:: 1 if number % 2 == 0 else -1]:
            for server in running:
                spent = point(server, size, way, options)
                if number:
                    # The first round fills the caches.
                    points.setdefault((server.name, way), []).append(spent)
    lines = []
    for server in running:
        shown = []
        for way in WAYS:
            own, first = points[server.name, way], points[running[0].name, way]
            ratio = statistics.median(ours / theirs for ours, theirs in zip(own, first))
            shown.append(f"{statistics.median(own):.2f} ({ratio:.2f})")
        lines.append(f"| {server.name}, {size // 1024} KB | " + " | ".join(shown) + " |")
        print(lines[-1], file=sys.stderr)
    return lines


def point(server, size, way, options):
    """µs of CPU that the server takes for a hit."""
    connections, streams = WAYS[way]
    command = ["taskset", "-c", load.CORE, options.client, f"127.0.0.1:{server.port}", f"/{size}"]
    before = sum(measure.cpu_seconds(server.process.pid))
    ran = subprocess.run(command + [str(connections), str(streams), str(options.seconds)], capture_output=True, text=True, check=False)
    spent = sum(measure.cpu_seconds(server.process.pid)) - before
    outcome = json.loads(ran.stdout) if ran.returncode == 0 else {}
    if not outcome.get("done") or outcome["failed"] or outcome["bytes"] < outcome["done"] * size:
        raise SystemExit(f"{server.name}, {size} bytes: {outcome} {ran.stderr}")
    return spent / outcome["done"] * 1e6


if __name__ == "__main__":
    main()
