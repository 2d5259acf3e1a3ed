"""Counts the hits of pip, npm, Go and cargo through Shoal, before registries that say nothing about caching.

    python3 bench/registries.py --shoal target/release/shoal

The registries stand on loopback and are made here. They send no Cache-Control, Expires, ETag, Last-Modified or Date, so that
nothing tells a cache how long an answer is good for. Each client runs twice, with caches of its own that are empty, against
one Shoal. Requests that go past Shoal to the registry count as misses.
"""

import argparse
import base64
import hashlib
import http.server
import io
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import zipfile

import programs
import servers

PIP_PACKAGES = 10
NPM_PACKAGES = 25
GO_MODULES = 10
CRATES = 12

FLAGS = [
    ("`--fresh 10m --ignore-client-no-cache`", ["--fresh", "10m", "--ignore-client-no-cache"]),
    ("`--fresh 10m`", ["--fresh", "10m"]),
    ("neither", []),
]


class Registry(servers.Loopback):
    """Serves `answers`, bodies by path and kind, and counts what it was asked and by whom."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = self.past_shoal = self.sent = 0
        super().__init__(RegistryHandler)


class RegistryHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        self.server.asked += 1
        self.server.past_shoal += "Via" not in self.headers
        path = self.path.split("?")[0].replace("%2f", "/").replace("%2F", "/")
        kinds = self.server.answers.get(path)
        if kinds is None:
            return self.answer(404, "text/plain", b"nothing here\n", False)
        accept = self.headers.get("Accept", "*/*")
        kind = next((kind for kind in kinds if kind in accept), list(kinds)[-1])
        # Registries name their files by the name that the client asked for.
        base = f"http://{self.headers.get('X-Forwarded-Host') or self.headers['Host']}"
        self.answer(200, kind, kinds[kind].replace(b"{base}", base.encode()), len(kinds) > 1)

    do_HEAD = do_GET

    def do_POST(self):
        """npm asks for advisories about what it installs; there are none."""
        self.server.asked += 1
        self.server.past_shoal += "Via" not in self.headers
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, "application/json", b"{}", False)

    def answer(self, status, kind, body, varies):
        self.send_response_only(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if varies:
            self.send_header("Vary", "Accept")
        if "image.manifest" in kind:
            self.send_header("Docker-Content-Digest", f"sha256:{hashlib.sha256(body).hexdigest()}")
        self.end_headers()
        if self.command != "HEAD":
            self.server.sent += len(body)
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def noise(name, size):
    return random.Random(name).randbytes(size)


def zipped(files):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return made.getvalue()


def tarred(files):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return made.getvalue()


def pip_index():
    """Pages of a simple index (PEP 503) with a wheel each; each package needs the next."""
    answers = {}
    for number in range(PIP_PACKAGES):
        name, info = f"shoal_{number}", f"shoal_{number}-1.0.dist-info"
        needs = f"Requires-Dist: shoal-{number + 1}\n" if number + 1 < PIP_PACKAGES else ""
        files = {
            f"{name}/__init__.py": b"",
            f"{name}/data.bin": noise(name, 30_000),
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"]).encode()
        wheel, file = zipped(files), f"{name}-1.0-py3-none-any.whl"
        link = f'<!DOCTYPE html><a href="../../packages/{file}#sha256={hashlib.sha256(wheel).hexdigest()}">{file}</a>\n'
        answers[f"/simple/shoal-{number}/"] = {"text/html": link.encode()}
        answers[f"/packages/{file}"] = {"application/octet-stream": wheel}
    names = [f"shoal-{number}" for number in range(PIP_PACKAGES)]
    answers["/simple/"] = {"text/html": "".join(f'<a href="{name}/">{name}</a>\n' for name in names).encode()}
    return answers


def npm_registry():
    """Packuments, full and abbreviated, and a tarball each; each package needs the next."""
    answers = {}
    for number in range(NPM_PACKAGES):
        name = f"@shoal/part-{number}" if number % 5 == 4 else f"shoal-{number}"
        after = number + 1
        needs = {(f"@shoal/part-{after}" if after % 5 == 4 else f"shoal-{after}"): "^1.0.0"} if after < NPM_PACKAGES else {}
        manifest = {"name": name, "version": "1.0.0", "main": "index.js", "dependencies": needs}
        files = {"package/package.json": json.dumps(manifest).encode(), "package/index.js": noise(name, 20_000)}
        tarball, file = tarred(files), f"/{name}/-/{name.split('/')[-1]}-1.0.0.tgz"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()
        version = manifest | {"dist": {"tarball": "{base}" + file, "integrity": integrity}}
        short = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}, "modified": "2024-01-01T00:00:00Z"}
        full = short | {"_id": name, "time": {"1.0.0": "2024-01-01T00:00:00Z"}, "readme": "A part.\n" * 200}
        answers[f"/{name}"] = {
            "application/vnd.npm.install-v1+json": json.dumps(short).encode(),
            "application/json": json.dumps(full).encode(),
        }
        answers[file] = {"application/octet-stream": tarball}
    return answers


def go_proxy():
    """The files of a module proxy."""
    answers = {}
    for number in range(GO_MODULES):
        path = f"example.test/shoal{number}"
        module = f"module {path}\n\ngo 1.19\n".encode()
        source = f"package shoal\n\nconst Text = \"{noise(path, 10_000).hex()}\"\n".encode()
        answers[f"/{path}/@v/list"] = {"text/plain": b"v1.0.0\n"}
        answers[f"/{path}/@v/v1.0.0.info"] = {"application/json": b'{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}'}
        answers[f"/{path}/@v/v1.0.0.mod"] = {"text/plain": module}
        archive = zipped({f"{path}@v1.0.0/go.mod": module, f"{path}@v1.0.0/one.go": source})
        answers[f"/{path}/@v/v1.0.0.zip"] = {"application/zip": archive}
    return answers


def cargo_registry():
    """A sparse index and its crates; each needs the next."""
    answers = {"/index/config.json": {"application/json": b'{"dl":"{base}/crates/{crate}-{version}.crate"}'}}
    for number in range(CRATES):
        name, folder = f"shoal-demo-{number}", f"shoal-demo-{number}-1.0.0"
        after = f"shoal-demo-{number + 1}" if number + 1 < CRATES else None
        manifest = f'[package]\nname = "{name}"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n'
        manifest += f'{after} = "1"\n' if after else ""
        files = {f"{folder}/Cargo.toml": manifest.encode(), f"{folder}/src/lib.rs": b"", f"{folder}/data": noise(name, 20_000)}
        archive = tarred(files)
        need = {"req": "^1", "features": [], "optional": False, "default_features": True, "target": None, "kind": "normal"}
        entry = {"name": name, "vers": "1.0.0", "deps": [need | {"name": after}] if after else [], "features": {}, "yanked": False}
        entry["cksum"] = hashlib.sha256(archive).hexdigest()
        answers[f"/index/sh/oa/{name}"] = {"text/plain": json.dumps(entry).encode() + b"\n"}
        # NORA looks for a crate at the second place.
        for path in (f"/crates/{folder}.crate", f"/api/v1/crates/{name}/1.0.0/download"):
            answers[path] = {"application/gzip": archive}
    return answers


def run(command, folder, **environment):
    """Runs a client with nothing of the user's settings and caches."""
    os.makedirs(f"{folder}/tmp", exist_ok=True)
    own = {"PATH": os.environ["PATH"], "HOME": folder, "TMPDIR": f"{folder}/tmp", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=folder, env=own | environment, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")


def pip(url, folder):
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--cache-dir", f"{folder}/cache"]
    run([*command, "--index-url", f"{url}/simple/", "--target", f"{folder}/target", "shoal-0"], folder, PIP_CONFIG_FILE="/dev/null")
    assert os.path.exists(f"{folder}/target/shoal_{PIP_PACKAGES - 1}/data.bin")


def npm(url, folder):
    servers.write(folder, "package.json", json.dumps({"name": "app", "version": "1.0.0", "dependencies": {"shoal-0": "^1.0.0"}}))
    settings = [f"--userconfig={folder}/none", f"--globalconfig={folder}/no", f"--cache={folder}/cache"]
    run(["npm", "install", f"--registry={url}/", *settings], folder)
    assert os.path.exists(f"{folder}/node_modules/@shoal/part-{NPM_PACKAGES - 1}/index.js")


def go(url, folder):
    needs = "".join(f"require example.test/shoal{number} v1.0.0\n" for number in range(GO_MODULES))
    servers.write(folder, "go.mod", f"module app\n\ngo 1.19\n\n{needs}")
    own = {"GOPROXY": url, "GOSUMDB": "off", "GOFLAGS": "-modcacherw", "GOTOOLCHAIN": "local", "GOPATH": f"{folder}/go"}
    run(["go", "mod", "download"], folder, GOCACHE=f"{folder}/build", **own)
    run(["go", "list", "-m", "-versions", "example.test/shoal0"], folder, GOCACHE=f"{folder}/build", **own)


def cargo(url, folder, path="/index/"):
    os.makedirs(f"{folder}/src")
    servers.write(folder, "src/lib.rs", "")
    needs = 'shoal-demo-0 = { version = "1", registry = "local" }'
    servers.write(folder, "Cargo.toml", f'[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n{needs}\n')
    os.makedirs(f"{folder}/cargo")
    servers.write(folder, "cargo/config.toml", f'[registries.local]\nindex = "sparse+{url}{path}"\n')
    toolchain = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    run([f"{toolchain}/bin/cargo", "fetch"], folder, CARGO_HOME=f"{folder}/cargo", RUSTC=f"{toolchain}/bin/rustc")


CLIENTS = {
    "pip": (pip, pip_index, f"`pip install` of {PIP_PACKAGES} wheels"),
    "npm": (npm, npm_registry, f"`npm install` of {NPM_PACKAGES} packages, with audit"),
    "go": (go, go_proxy, f"`go mod download` of {GO_MODULES} modules, `go list -versions`"),
    "cargo": (cargo, cargo_registry, f"`cargo fetch` of {CRATES} crates, sparse index"),
}


def counts(log):
    """Requests so far, and how many the cache answered, with those it did not answer."""
    lines = [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]
    missed = [line for line in lines if line["outcome"] not in ("memory_hit", "hit")]
    return len(lines), len(lines) - len(missed), missed


def measure(program, flags, client, answers):
    """Requests, hits and the requests that missed, of two runs."""
    registry = Registry(answers())
    with tempfile.TemporaryDirectory(prefix="registries-") as folder:
        log, port = os.path.join(folder, "access.log"), servers.free_port()
        command = [program, "run", "--to", registry.url, "--listen", str(port), "--store", os.path.join(folder, "store"), *flags]
        command += ["--disk", "256 MB", "--ram", "64 MB", "--admin", "none", "--set", f"log.access={log}", "--set", "log.format=json"]
        shoal = servers.Server("shoal", port, command, folder)
        runs, before = [], (0, 0, [])
        try:
            for number in (1, 2):
                own = os.path.join(folder, f"run-{number}")
                os.makedirs(own)
                past = registry.past_shoal
                client(shoal.url, own)
                threading.Event().wait(1.5)
                after = counts(log)
                past = registry.past_shoal - past
                runs.append((after[0] - before[0] + past, after[1] - before[1], after[2][len(before[2]) :], past))
                before = after
        finally:
            shoal.stop()
            registry.stop()
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    parser.add_argument("--misses", action="store_true", help="name what the second run missed")
    arguments = parser.parse_args()
    program = programs.checked(arguments.shoal)
    print("| client | options | requests | hits, run 1 | hits, run 2 | |")
    print("|---|---|--:|--:|--:|--:|")
    for name, (client, answers, task) in CLIENTS.items():
        if not shutil.which(sys.executable if name == "pip" else name):
            print(f"{name} is not installed: left out", file=sys.stderr)
            continue
        for label, flags in FLAGS:
            (_, first, _, _), (requests, second, missed, past) = measure(program, flags, client, answers)
            print(f"| {task} | {label} | {requests} | {first} | {second} | {100 * second / requests:.1f}% |", flush=True)
            if past:
                print(f"{name}: {past} requests went past Shoal", file=sys.stderr)
            if arguments.misses:
                for line in missed:
                    print(name, label, *(line[key] for key in ("method", "url", "cache_status")), file=sys.stderr)


if __name__ == "__main__":
    main()
