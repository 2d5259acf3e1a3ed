"""The ground of the bench of clusters: hosts in network namespaces where they may be had, else loopback addresses; processes on them."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import measure
import programs


class Ground:
    """Hosts of `shoal-hosts` (testkit), or loopback addresses."""

    def __init__(self, count, program, loopback):
        self.program, self.process = program, None
        told = None if loopback else self.made(count)
        if told is None or told["lacks"]:
            print(f"nodes on loopback addresses: {told['lacks'] if told else 'asked for'}", file=sys.stderr)
            told = {"outside": "127.77.0.1", "network": "127.0.0.0/8", "lacks": "asked for" if loopback else told and told["lacks"]}
            told["hosts"] = [{"ip": f"127.77.0.{11 + host}", "prefix": []} for host in range(count)]
        self.outside, self.network, self.lacks = told["outside"], told["network"], told["lacks"]
        self.ips = [host["ip"] for host in told["hosts"]]
        self.prefixes = [host["prefix"] for host in told["hosts"]]

    def made(self, count):
        if not os.access(self.program, os.X_OK):
            return {"lacks": f"{self.program} is not built"}
        self.process = subprocess.Popen([self.program, "serve", str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return json.loads(self.process.stdout.readline())

    def do(self, command):
        """Has the hosts cut, healed, frozen or thawed; the words of the answer."""
        if self.process is None:
            raise RuntimeError(f"no hosts that could {command}")
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        word, _, rest = self.process.stdout.readline().strip().partition(" ")
        if word != "ok":
            raise RuntimeError(f"{command}: {rest}")
        return rest

    def limit_memory(self, host, process, more):
        """Limits a host, page cache included, to what it has now and `more`. A loopback address has no control group, and no limit."""
        used = memory_used(process) if self.process else None
        if used is not None:
            self.do(f"memory {host} {used + more}")

    def bytes_between(self):
        """Bytes that hosts have sent each other, where they are counted."""
        try:
            return int(self.do("bytes"))
        except RuntimeError:
            return None

    def stop(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait(60)


def memory_used(process):
    """Bytes that the control group of a process holds, page cache included; None where none counts them."""
    with open(f"/proc/{process}/cgroup") as file:
        places = dict(line.strip().split(":", 2)[1:] for line in file)
    for controllers, path in places.items():
        folder, name = ("/sys/fs/cgroup/memory", "memory.usage_in_bytes") if "memory" in controllers.split(",") else ("/sys/fs/cgroup", "memory.current")
        try:
            with open(f"{folder}{path}/{name}") as file:
                return int(file.read())
        except OSError:
            continue
    return None


class Node:
    """A process on a host, which may be killed and started again."""

    def __init__(self, ground, host, name, command, folder, port, environment=None):
        self.ground, self.host, self.name, self.command, self.folder, self.port = ground, host, name, command, folder, port
        self.environment = {**os.environ, **(environment or {})}
        self.spent = 0.0
        # Whoever starts several waits for all of them afterwards.
        self.start(wait=False)

    def start(self, wait=True):
        with open(os.path.join(self.folder, f"{self.name}.output"), "a") as log:
            command = self.ground.prefixes[self.host] + self.command
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=self.environment)
        if wait:
            self.wait_until_it_listens()

    def wait_until_it_listens(self):
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                return socket.create_connection((self.ground.ips[self.host], self.port), 1).close()
            except OSError:
                time.sleep(0.05)
        with open(os.path.join(self.folder, f"{self.name}.output")) as log:
            raise RuntimeError(f"{self.name} does not listen on {self.port}; it said: {log.read()[-600:]}")

    def cpu_seconds(self):
        return self.spent + sum(measure.cpu_seconds(self.process.pid))

    def kill(self):
        """As a power failure would."""
        self.spent = self.cpu_seconds()
        for process in measure.processes(self.process.pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def stop(self, limit=15):
        """In peace: what is in flight finishes."""
        self.spent = self.cpu_seconds()
        self.process.terminate()
        try:
            self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill()


def found(program):
    """A program of the system, or a failure that a set-up is left out for."""
    path = shutil.which(program) or f"/usr/sbin/{program}"
    if not os.path.exists(path):
        raise RuntimeError(f"{program} is not installed")
    return path


def hosts_program():
    """Where `shoal-hosts` stands: the release build, else the debug build."""
    release = programs.release("shoal-hosts")
    return release if os.access(release, os.X_OK) else release.replace("/release/", "/debug/")
