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


def in_turn(cases, seconds, seed=1, slice_ms=SLICE_MS):
    """Gives each of `cases`, which are pairs of a server and its streams, turns of so many milliseconds until it had so many seconds; what
    became of each one's streams."""
    turns = max(1, round(seconds * 1000 / slice_ms))
    told = [json.dumps({"address": f"127.0.0.1:{server.port}", "streams": streams}) for server, streams in cases]
    outcomes = shoal_load([str(slice_ms), str(turns), str(seed)] + told, ", ".join(server.name for server, _ in cases))
    for (server, _), of_streams in zip(cases, outcomes):
        none_failed(server, of_streams)
    return outcomes


def closed_in_turn(servers, path, seconds, fields=(), connections=64, **kind):
    """A closed loop at each server, which have turns, and are asked for more than those measured here can answer: requests made in all, and a
    second, of each. `kind` may name another method than GET, and another status than 200."""
    stream = {**closed_loop(path, fields, connections), **kind}
    outcomes = in_turn([(server, [stream]) for server in servers], seconds)
    return [(outcome["answered"], outcome["rate"]) for (outcome,) in outcomes]


def closed(server, path, seconds, fields=(), connections=64):
    """The same of one server, all the time."""
    (measured,) = closed_in_turn([server], path, seconds, fields, connections)
    return measured


def closed_loop(path, fields=(), connections=64):
    """The stream of a closed loop."""
    return {"rate": 0, "path": path, "connections": connections, "fields": list(fields)}


def shoal_load(arguments, whom):
    """Runs it; the objects that it prints."""
    command = ["taskset", "-c", CORE, programs.checked(programs.release("shoal-load"))]
    ran = subprocess.run(command + arguments, capture_output=True, text=True)
    if ran.returncode != 0:
        raise SystemExit(f"shoal-load at {whom}: {ran.stderr}")
    return [json.loads(line) for line in ran.stdout.splitlines()]


def none_failed(server, outcomes):
    for outcome in outcomes:
        if outcome["failed"]:
            raise SystemExit(f"{server.name} failed {outcome['failed']} requests, and answered {outcome['answered']}")


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
