"""A network of the bench's own: a loopback device with the kernel's usual settings, whatever those of the machine are."""

import os
import shutil
import subprocess
import sys

# What Linux comes with, and what every network namespace may choose: the former not where the machine allows others only
# (net.ipv4.tcp_allowed_congestion_control). Another, BBR, spaces segments by timers, which a network between machines may want, and loopback does not.
CONGESTION_CONTROLS = ["cubic", "reno"]
INSIDE = "SHOAL_BENCH_NETWORK"
# An option of every bench that calls `enter`.
OF_MACHINE = "--network-of-machine"


def enter():
    """Starts this bench again in a network namespace of its own, where this user may make one; else it stays where it is.

    To be called before anything is read of the environment, which starting again would lose.
    """
    if OF_MACHINE in sys.argv:
        sys.argv.remove(OF_MACHINE)
        return
    inside = os.environ.pop(INSIDE, None)
    if inside or os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip"):
        return
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode:
        return
    inner = command([sys.executable, *sys.orig_argv[1:]])
    os.execvpe(inner[0], inner, {**os.environ, INSIDE: "1"})


def command(words):
    """The command that runs `words` in a network namespace of its own."""
    choices = " || ".join(f"echo {name} > /proc/sys/net/ipv4/tcp_congestion_control" for name in CONGESTION_CONTROLS)
    prepared = f"ip link set lo up && {{ {choices}; }} 2>/dev/null; exec \"$@\""
    return ["unshare", "--net", "sh", "-c", prepared, "sh", *words]


def congestion_control():
    """The one that connections of this bench have."""
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        return file.read().strip()
