"""What a trial stands on: a folder, a certificate, ports, programs that may be missing, processes that end with it."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from pathlib import Path

HERE = Path(__file__).resolve().parent


class Missing(Exception):
    """A program or package that a trial needs is not there."""


class Ground:
    """Folder, certificate and processes of one trial."""

    def __init__(self, folder, shoal, tools):
        self.folder, self.shoal, self.tools = Path(folder), shoal, Path(tools)
        self.ending = contextlib.ExitStack()
        self.certificate, self.ca = self.folder / "site", self.folder / "ca.pem"
        self.issue()

    def issue(self):
        """An authority, and a certificate for localhost that it has signed."""
        program("openssl")
        at = lambda name: str(self.folder / name)
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30"]
        call("openssl", "req", "-x509", *curve, "-keyout", at("ca.key"), "-out", at("ca.pem"), "-subj", "/CN=Trial",
             "-addext", "keyUsage=critical,keyCertSign", "-addext", "basicConstraints=critical,CA:TRUE")
        call("openssl", "req", *curve, "-keyout", at("site.key"), "-out", at("site.csr"), "-subj", "/CN=localhost")
        (self.folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
        call("openssl", "x509", "-req", "-in", at("site.csr"), "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-CAcreateserial",
             "-days", "30", "-extfile", at("names"), "-out", at("site.pem"))

    def start(self, *command, port=None, cwd=None, env=None, name="application", ready=None):
        """Starts a process that ends with the trial, and waits until its port is open, or until `ready`."""
        log = self.folder / f"{name}.log"
        file = self.ending.enter_context(open(log, "a"))
        process = subprocess.Popen([str(part) for part in command], cwd=cwd or self.folder, stdout=file, stderr=file,
                                   stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})}, start_new_session=True)
        self.ending.callback(end, process)
        alive = lambda: must(process.poll() is None, f"{name} goes on:\n{log.read_text()[-4000:]}")
        if port or ready:
            wait_until(f"{name} serves", ready or (lambda: is_open(port)), alive, seconds=120)
        return process

    def virtual_environment(self, name, *packages):
        """A Python with these packages, made once and kept beside the trials."""
        folder = self.tools / f"venv-{name}"
        python, made = folder / "bin/python", folder / "packages"
        wanted = "\n".join(packages)
        if made.exists() and made.read_text() == wanted:
            return python
        if subprocess.run([sys.executable, "-c", "import venv, ensurepip"], capture_output=True).returncode:
            raise Missing("python3 with venv")
        call(sys.executable, "-m", "venv", "--clear", folder)
        asked = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1", *packages]
        done = subprocess.run([str(part) for part in asked], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"by pip: {' '.join(packages)} ({done.stderr.strip().splitlines()[-1]})")
        made.write_text(wanted)
        return python

    def node_modules(self, name):
        """A folder with the scripts of `testkit/applications/NAME`, and the packages that its lockfile pins."""
        program("node"), program("npm")
        source, folder = HERE / name, self.tools / f"node-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        lock = folder / "package-lock.json"
        fresh = lock.exists() and lock.read_text() == (source / "package-lock.json").read_text() and (folder / "node_modules").exists()
        for file in source.iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        if not fresh:
            done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=folder, capture_output=True, text=True)
            if done.returncode:
                lock.unlink()
                raise Missing(f"by npm: {name} ({done.stderr.strip().splitlines()[-1]})")
        return folder


def program(name):
    """The path of a program."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")
    if not path:
        raise Missing(name)
    return path


def call(*command, fails=False, env=None, cwd=None, text=None, seconds=300):
    """The output of a command that must succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, **(env or {})},
                          cwd=cwd, input=text, timeout=seconds)
    must(fails or done.returncode == 0, f"{' '.join(str(part) for part in command)}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def must(holds, what):
    """Fails the trial, with what was to hold."""
    if not holds:
        raise AssertionError(f"does not hold: {what}")


def wait_until(what, ready, alive=lambda: None, seconds=60):
    """Waits for a condition, looking every 20 ms."""
    deadline = time.monotonic() + seconds
    while not ready():
        alive()
        must(time.monotonic() < deadline, f"in {seconds} s: {what}")
        time.sleep(0.02)


def free_ports(count):
    """Ports of 127.0.0.1 that nobody listens at."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def is_open(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def end(process):
    """Ends a process and those that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
