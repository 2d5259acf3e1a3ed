"""Running load generators: `shoal-load` of testkit as an open or a closed loop, and wrk; keeping other processes out of a latency."""

import atexit
import json
import os
import re
import subprocess

import measure
import programs

# Where a load generator runs, alone unless a bench says otherwise.
CORE = "1"

# How long one of several servers is loaded before the next is. What a hit costs on a shared machine changes within a second, and not alike for all.
SLICE_MS = 30

# Before all that others run on the same cores, where that may be asked for.
NICE = -20


def prefer(process):
    """Lets a server's threads run before all others, and the rest of this session, where the load generator is, before other
    sessions, as far as this user may. Niceness alone would not do where the kernel groups tasks by session (sched(7))."""
    prefer_session(NICE)
    atexit.register(prefer_session, 0)
    for each in measure.processes(process):
        for thread in os.listdir(f"/proc/{each}/task"):
            try:
                os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))
            except (PermissionError, ProcessLookupError):
                return


def prefer_session(nice):
    try:
        with open("/proc/self/autogroup", "w") as file:
            file.write(str(nice))
    except OSError:
        # There are no such groups here, or this user may not.
        return


def run(server, seconds, streams, seed=1):
    """Loads `server` with streams of requests; what became of each, and the server's CPU seconds a second."""
    command = ["taskset", "-c", CORE, programs.checked(programs.release("shoal-load")), f"127.0.0.1:{server.port}", str(seconds), str(seed)]
    before = sum(measure.cpu_seconds(server.process.pid))
    ran = subprocess.run(command + [json.dumps(stream) for stream in streams], capture_output=True, text=True)
    spent = sum(measure.cpu_seconds(server.process.pid)) - before
    if ran.returncode != 0:
        raise SystemExit(f"shoal-load at {server.name}: {ran.stderr}")
    outcomes = [json.loads(line) for line in ran.stdout.splitlines()]
    for outcome in outcomes:
        if outcome["failed"]:
            raise SystemExit(f"{server.name} failed {outcome['failed']} requests: {streams}")
    return outcomes, spent / (seconds * 1.1)


def closed(server, path, seconds, fields=(), connections=64):
    """A closed loop by `shoal-load`, which asks for more than the servers measured here can answer: requests made in all, and a second."""
    (outcome,), _ = run(server, seconds, [{"rate": 0, "path": path, "connections": connections, "fields": list(fields)}])
    return outcome["answered_in_all"], outcome["rate"]


def in_turn(servers, path, seconds, fields=(), connections=64):
    """A closed loop at each server, which has turns of SLICE_MS until it had so many seconds: requests made in all, and a second, of each."""
    turns = max(1, round(seconds * 1000 / SLICE_MS))
    stream = {"rate": 0, "path": path, "connections": connections, "fields": list(fields)}
    addresses = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    command = ["taskset", "-c", CORE, programs.checked(programs.release("shoal-load")), "in-turn", addresses, str(SLICE_MS), str(turns)]
    ran = subprocess.run(command + [json.dumps(stream)], capture_output=True, text=True)
    outcomes = [json.loads(line) for line in ran.stdout.splitlines()]
    if ran.returncode != 0 or any(outcome["failed"] for outcome in outcomes):
        raise SystemExit(f"shoal-load at {', '.join(server.name for server in servers)}: {ran.stderr or 'requests failed'}")
    return [(outcome["answered_in_all"], outcome["rate"]) for outcome in outcomes]


def wrk(server, path, seconds, fields=(), connections=64):
    """The same by wrk, which sleeps while it waits, and can ask over TLS."""
    command = ["taskset", "-c", CORE, "wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s"]
    for field in fields:
        command += ["-H", field]
    text = subprocess.run(command + [server.url + path], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in text or "Socket errors" in text:
        raise SystemExit(f"wrk saw failures at {server.url}{path}:\n{text}")
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    return requests, float(re.search(r"Requests/sec:\s*([\d.]+)", text).group(1))


def saturation(server, path, seconds):
    """Hits a second that a whole core would serve: those of a closed loop, over the CPU that they took."""
    (outcome,), busy = run(server, seconds, [{"rate": 0, "path": path, "connections": 64}])
    return outcome["rate"] / busy
