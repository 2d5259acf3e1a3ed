"""What a bench ran on, what it ran, and how it was called, for the head of its result."""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys

import network
import programs

# How each program tells its version, and where in what it says.
VERSIONS = {
    "nginx": ("-v", r"nginx/(\S+)"),
    "varnishd": ("-V", r"varnish-(\S+)"),
    "squid": ("-v", r"Version (\S+)"),
    "traffic_server": ("--version", r"Traffic Server (\S+)"),
    "wrk": ("-v", r"wrk (\S+)"),
    "h2load": ("--version", r"nghttp2/(\S+)"),
    "openssl": ("version", r"OpenSSL (\S+)"),
}

# What of a command line says nothing about what is measured, and whether a word follows it.
UNSAID = {"--write": False, "--shoal": True, network.OF_MACHINE: False}


def described():
    """CPU, cores and kernel, without the name of the host."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}"


def head(*others):
    """The lines above a result: the machine, the versions of shoal and of `others`, as far as they are installed, and the command."""
    versions = ["shoal " + commit()] + [f"{name} {found}" for name in others if (found := version(name))]
    return [
        f"Machine: {described()}, {network.congestion_control()}.",
        f"Versions: {', '.join(versions)}.",
        f"Command: `{command()}`.",
        "",
    ]


def version(name):
    """What a program says of itself; `None` where it is not installed."""
    option, pattern = VERSIONS[name]
    program = shutil.which(name) or f"/usr/sbin/{name}"
    if not os.path.exists(program):
        return None
    said = subprocess.run([program, option], capture_output=True, text=True)
    found = re.search(pattern, said.stdout + said.stderr)
    return found.group(1) if found else None


def commit():
    """The commit that this working copy began from, which a release is built of."""
    try:
        told = subprocess.run(["git", "-C", programs.ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "of no known commit"
    return f"at {told.stdout.strip()}"


def command():
    """The bench as it was called."""
    words, said = iter(sys.argv[1:]), []
    for word in words:
        if word not in UNSAID:
            said.append(word)
        elif UNSAID[word]:
            next(words, None)
    return shlex.join(["python3", f"bench/{os.path.basename(sys.argv[0])}", *said])
