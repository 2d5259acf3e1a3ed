"""Running `shoal-load`, the open-loop load generator of testkit, and keeping other processes out of a latency."""

import atexit
import json
import os
import subprocess

import measure
import programs

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
    arguments = [",".join(f"{name}={value}" for name, value in stream.items()) for stream in streams]
    command = ["taskset", "-c", measure.LOAD_CORE, programs.checked(programs.release("shoal-load")), f"127.0.0.1:{server.port}", str(seconds), str(seed)]
    before = sum(measure.cpu_seconds(server.process.pid))
    ran = subprocess.run(command + arguments, capture_output=True, text=True)
    spent = sum(measure.cpu_seconds(server.process.pid)) - before
    if ran.returncode != 0:
        raise SystemExit(f"shoal-load at {server.name}: {ran.stderr}")
    outcomes = [json.loads(line) for line in ran.stdout.splitlines()]
    for outcome in outcomes:
        if outcome["failed"]:
            raise SystemExit(f"{server.name} failed {outcome['failed']} requests: {streams}")
    return outcomes, spent / (seconds * 1.1)


def saturation(server, path, seconds, connections=64):
    """Hits a second that a whole core would serve: those of a closed loop, over the CPU that they took."""
    (outcome,), busy = run(server, seconds, [{"rate": 0, "path": path, "connections": connections}])
    return outcome["rate"] / busy
