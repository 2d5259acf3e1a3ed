#!/usr/bin/env python3
"""Mirrors beside each other: time of a client's job, requests of the registry, CPU, memory and disk.

    python3 bench/mirrors.py --shoal target/release/shoal [--peers FOLDER] [--write]

The registries stand on loopback, are made by registries.py, say nothing about caching, and count requests. A job is a client with empty caches. Each
mirror serves one cold job, then ROUNDS warm ones; a last one runs after the registry has gone. CPU seconds are of the mirror's processes, memory is the
largest resident set of them together. FOLDER has the peers: npm/node_modules/.bin/verdaccio and py/bin/devpi-server (npm i --prefix FOLDER/npm verdaccio;
pip install devpi-server proxpi in FOLDER/py). Peers that are not there are left out, and said.
"""

import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import machine
import page
import programs
import registries
import servers

ROUNDS = 5
# The index of a user of devpi who may make indexes.
DEVPI_INDEX = "/".join(["", "root", "own"])


def shoal(kind, path):
    def command(options, upstream, port, folder):
        mirror = f"{kind}={upstream}{path}"
        return [options.shoal, "run", "--mirror", mirror, "--listen", str(port), "--admin", "none", "--store", f"{folder}/store", "--disk", "256 MB", "--ram", "64 MB"]

    return command, f"/{kind}"


def verdaccio(options, upstream, port, folder):
    settings = f"""
storage: {folder}/storage
uplinks: {{ own: {{ url: "{upstream}" }} }}
packages: {{ "**": {{ access: $all, proxy: own }} }}
"""
    servers.write(folder, "config.yaml", settings)
    return [f"{options.peers}/npm/node_modules/.bin/verdaccio", "--config", f"{folder}/config.yaml", "--listen", f"127.0.0.1:{port}"]


def devpi(options, upstream, port, folder):
    py = f"{options.peers}/py/bin"
    subprocess.run([f"{py}/devpi-init", "--serverdir", f"{folder}/devpi", "--no-root-pypi", "--root-passwd", "x"], check=True, capture_output=True)
    return [f"{py}/devpi-server", "--serverdir", f"{folder}/devpi", "--port", str(port)]


def devpi_index(options, upstream, url):
    """devpi is told of its upstream while it runs."""
    def call(method, path, body, token=None):
        fields = {"Content-Type": "application/json", "Accept": "application/json"} | ({"X-Devpi-Auth": token} if token else {})
        request = urllib.request.Request(url + path, json.dumps(body).encode(), fields, method=method)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.loads(reply.read())

    login = call("POST", "/+login", {"user": "root", "password": "x"})["result"]["password"]
    token = base64.b64encode(f"root:{login}".encode()).decode()
    call("PUT", DEVPI_INDEX, {"type": "mirror", "mirror_url": f"{upstream}/simple/", "volatile": True}, token)


def proxpi(options, upstream, port, folder):
    py = f"{options.peers}/py/bin"
    code = f"import waitress, proxpi.server as s; waitress.serve(s.app, listen='127.0.0.1:{port}', threads=8)"
    settings = [f"PROXPI_INDEX_URL={upstream}/simple/", f"PROXPI_CACHE_DIR={folder}/files"]
    return ["env", *settings, f"{py}/python", "-c", code]


# client: its set-ups, each a name, a command, the path below the mirror's address, and what is done once it runs
SETUPS = {
    "npm": [("Shoal", *shoal("npm", ""), None), ("verdaccio", verdaccio, "", None)],
    "pip": [("Shoal", *shoal("pypi", "/simple"), None), ("devpi", devpi, DEVPI_INDEX, devpi_index), ("proxpi", proxpi, "", None)],
    "go": [("Shoal", *shoal("go", ""), None)],
    "cargo": [("Shoal", *shoal("cargo", "/index"), None)],
}


def pip(url, folder):
    """pip, with the index's own name for its pages."""
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--no-cache-dir"]
    registries.run([*command, "--index-url", url, "--target", f"{folder}/target", "shoal-0"], folder, PIP_CONFIG_FILE="/dev/null")


def job(client, name, url):
    """Runs a client in a folder of its own; gives the seconds it took."""
    with tempfile.TemporaryDirectory(prefix="mirrors-") as folder:
        begun = time.monotonic()
        if client == "pip":
            pip(url + {"devpi": "/+simple/", "proxpi": "/index/"}.get(name, "/simple/"), folder)
        elif client == "cargo" and name != "the registry itself":
            registries.cargo(url, folder, "/")
        else:
            registries.CLIENTS[client][0](url, folder)
        return time.monotonic() - begun


def descendants(process):
    """The process and everything that it started."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(entry))
            except OSError:
                pass
    found, left = [], [process]
    while left:
        found.append(left.pop())
        left += parents.get(found[-1], [])
    return found


def used(process):
    """CPU seconds so far, and resident MB now."""
    seconds, pages = 0.0, 0
    for pid in descendants(process):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            pages += int(fields[21])
        except OSError:
            pass
    return seconds, pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def disk_mb(folder):
    return sum(os.lstat(os.path.join(root, file)).st_blocks * 512 for root, _, files in os.walk(folder) for file in files) / 1e6


def measure(options, client, name, command, path, prepare):
    registry = registries.Registry(registries.CLIENTS[client][1]())
    with tempfile.TemporaryDirectory(prefix="mirror-") as folder:
        port = servers.free_port()
        if command is None:
            job(client, name, registry.url)
            return [client, name, "", "", f"{statistics.median(job(client, name, registry.url) for _ in range(ROUNDS)):.2f}", "", "", "", "", ""]
        mirror = servers.Server(name, port, command(options, registry.url, port, folder), folder, core="0,1")
        peak, stop = [0.0], threading.Event()

        def watch():
            while not stop.wait(0.05):
                peak[0] = max(peak[0], used(mirror.process.pid)[1])

        threading.Thread(target=watch, daemon=True).start()
        try:
            if prepare:
                prepare(options, registry.url, mirror.url)
            before = registry.asked
            cold = job(client, name, mirror.url + path)
            asked_cold = registry.asked - before
            before, cpu = registry.asked, used(mirror.process.pid)[0]
            warm = [job(client, name, mirror.url + path) for _ in range(ROUNDS)]
            cpu, asked = used(mirror.process.pid)[0] - cpu, registry.asked - before
            registry.stop()
            registry = None
            try:
                job(client, name, mirror.url + path)
                offline = "yes"
            except SystemExit:
                offline = "no"
            stop.set()
            return [client, name, f"{cold:.2f}", asked_cold, f"{statistics.median(warm):.2f}", f"{asked / ROUNDS:.1f}", f"{1000 * cpu / ROUNDS:.0f}", f"{peak[0]:.0f}", f"{disk_mb(folder):.1f}", offline]
        finally:
            stop.set()
            mirror.stop()
            if registry:
                registry.stop()


COLUMNS = ["client", "mirror", "cold s", "requests", "warm s", "requests", "CPU ms a job", "peak RSS MB", "disk MB", "registry gone"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    parser.add_argument("--peers", default="none", help="folder with the peers")
    parser.add_argument("--clients", default=",".join(SETUPS))
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/mirrors.md")
    options = parser.parse_args()
    programs.checked(options.shoal)
    registries.NPM_PACKAGES, registries.PIP_PACKAGES, registries.GO_MODULES, registries.CRATES = 100, 30, 60, 60
    rows = [COLUMNS, ["---"] * 2 + ["--:"] * (len(COLUMNS) - 3) + ["---"]]
    for client in options.clients.split(","):
        for name, command, path, prepare in [("the registry itself", None, "", None), *SETUPS[client]]:
            if name not in ("Shoal", "the registry itself") and not os.path.isdir(options.peers):
                print(f"{name} is not there: left out", file=sys.stderr)
                continue
            try:
                rows.append(measure(options, client, name, command, path, prepare))
            except SystemExit as why:
                rows.append([client, name, f"failed: {str(why).splitlines()[-1][:80]}"] + [""] * 7)
            print("  ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    text = "\n".join(machine.head() + [""] + ["| " + " | ".join(map(str, row)) + " |" for row in rows])
    print(text)
    if options.write:
        page.write("mirrors.md", "mirrors.py", text)


if __name__ == "__main__":
    main()
