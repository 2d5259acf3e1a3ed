#!/usr/bin/env python3
"""What each cache architecture asks of a disk: `shoal replay` on a loop-mounted file system under a memory limit.

    python3 bench/disk.py TRACE [--architectures squid,squidl] [--memory 64] [--store 300MB] [-- MORE OF REPLAY]

Each architecture gets a new ext4 file system on a loop device of its own, so that the kernel's counts of the device are
the architecture's alone, and runs in a memory control group (version 1) together with the page cache that it fills. The
loop device reads and writes its file directly: no page of it is cached outside the limit. Everything is taken down again, also after
a failure or a signal. Needs root, loop devices, mkfs.ext4 and the control groups; says which of these is missing.

Prints a table as markdown with the command and the machine; --write puts it into docs/experiments/replay.md.
"""

import argparse
import contextlib
import ext4_kinds
import json
import machine
import os
import page
import programs
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GROUPS = Path("/sys/fs/cgroup/memory")
MIB = 1 << 20


def main():
    options = arguments()
    missing = what_is_missing(options)
    if missing:
        sys.exit(f"disk.py: cannot measure: {missing}")
    # A signal becomes an exception, so that everything is taken down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("disk.py: stopped"))
    reports = {}
    for round_number in range(options.rounds):
        for architecture in options.architectures or architectures(options):
            print(f"{architecture}, round {round_number + 1} of {options.rounds}", file=sys.stderr)
            report = one_run(options, architecture)
            reports.setdefault(architecture, []).append(report)
            keep(options, architecture, report)
    text = result(options, reports)
    print(text)
    if options.write:
        page.write("replay.md", "disk.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", help="as shoal replay takes it: a file, or synthetic:…")
    parser.add_argument("--architectures", type=lambda text: text.split(","), help="parted by commas; all, when not given")
    parser.add_argument("--policy", default="own")
    parser.add_argument("--store", metavar="SIZE", help="disk space of the store; room for every object, when not given")
    parser.add_argument("--memory", type=int, default=64, metavar="MIB", help="limit of the memory control group; 0 for none")
    parser.add_argument("--device", type=int, default=4096, metavar="MIB", help="size of the loop device")
    parser.add_argument("--journal", action="store_true", help="with ext4's journal; the papers' UFS had none")
    parser.add_argument("--folder", default=".", help="where the file behind the loop device goes")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each; the table shows the median")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/replay.md")
    parser.add_argument("--kinds", action="store_true", help="also tell what the transfers of the whole run hold (needs tracefs; slow for cern, which has a folder for each URL)")
    parser.add_argument("--reports", metavar="FOLDER", help="keep each run's JSON here, for `shoal lab run maltzahn --measured`")
    parser.epilog = "What follows -- is handed to shoal replay."
    own, _, more = cut(sys.argv[1:])
    return parser.parse_args(own, argparse.Namespace(more=more))


def cut(words):
    """The words before the first --, that, and the words after it."""
    at = words.index("--") if "--" in words else len(words)
    return words[:at], words[at:at + 1], words[at + 1:]


def what_is_missing(options):
    """Why nothing can be measured here; None when all is there."""
    if os.geteuid() != 0:
        return "this needs root, for the loop device, the mount and the control group"
    if not os.access(options.shoal, os.X_OK):
        return f"there is no binary {options.shoal}; build it with cargo build --release, or name it with --shoal"
    for tool in ("losetup", "mkfs.ext4", "mount", "umount"):
        if not shutil.which(tool):
            return f"there is no {tool}"
    found = subprocess.run(["losetup", "-f"], capture_output=True, text=True)
    if found.returncode != 0:
        return f"no loop device is free: {found.stderr.strip()}"
    if options.memory and not (GROUPS / "memory.limit_in_bytes").exists():
        return f"{GROUPS} holds no memory control group of version 1; --memory 0 measures without a limit"
    free = shutil.disk_usage(options.folder).free
    if free < options.device * MIB:
        return f"{options.folder} has {free // MIB} MiB free where the loop device takes {options.device}"
    return None


def architectures(options):
    """All names that the binary knows, as it lists them itself."""
    command = [options.shoal, "replay", "-", "--dir", ".", "--architecture", "?"]
    told = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL).stderr
    return told.rsplit(": ", 1)[1].strip().split(", ")


def one_run(options, architecture):
    """The JSON report of one replay on a new file system."""
    with contextlib.ExitStack() as undo:
        device = loop_device(undo, options)
        mount = mounted(undo, options, device)
        group = memory_group(undo, options, device)
        store = mount / "store"
        store.mkdir()
        command = [options.shoal, "replay", options.trace, "--dir", str(store), "--json"]
        command += ["--architecture", architecture, "--policy", options.policy]
        command += ["--disk-bytes", options.store] if options.store else []
        watch = ext4_kinds.Watch(undo, device) if options.kinds else None
        done = run_in(group, command + options.more)
        if done.returncode != 0:
            sys.exit(f"disk.py: {architecture}: {done.stderr.strip() or f'ended with {done.returncode}'}")
        report = json.loads(done.stdout)
        if report["device"] is None or report["device"]["name"] != Path(device).name:
            sys.exit(f"disk.py: the replay did not see the loop device: {report['device'] or report['no_device']}")
        if watch:
            os.sync()
            report["kinds"] = watch.by_kind()
        return report


def keep(options, architecture, report):
    """Writes the report of the latest round to the folder for reports, if there is one."""
    if options.reports:
        Path(options.reports).mkdir(parents=True, exist_ok=True)
        memory = f"{options.memory} MiB for process and page cache" if options.memory else "no limit on memory"
        journal = "with" if options.journal else "without"
        report["ground"] = f"ext4 {journal} a journal on a loop device of {options.device} MiB, {memory}"
        (Path(options.reports) / f"{architecture}.json").write_text(json.dumps(report, indent=1) + "\n")


def loop_device(undo, options):
    """A loop device over a file of its own, with direct I/O and the settings of a plain disk."""
    number, image = tempfile.mkstemp(prefix="shoal-disk-", dir=options.folder)
    undo.callback(os.unlink, image)
    os.posix_fallocate(number, 0, options.device * MIB)
    os.close(number)
    device = tool("losetup", "--direct-io=on", "--show", "-f", image).strip()
    undo.callback(tool, "losetup", "-d", device)
    queue = Path("/sys/block") / Path(device).name
    if (queue / "loop/dio").read_text().strip() != "1":
        sys.exit(f"disk.py: {device} does no direct I/O: choose --folder on another file system")
    (queue / "queue/scheduler").write_text("mq-deadline")
    (queue / "queue/read_ahead_kb").write_text("128")
    return device


def mounted(undo, options, device):
    """An ext4 file system that has nothing left to initialise later, mounted without access times."""
    features = [] if options.journal else ["-O", "^has_journal"]
    tool("mkfs.ext4", "-q", "-m", "0", "-i", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", *features, device)
    mount = tempfile.mkdtemp(prefix="shoal-disk-")
    undo.callback(os.rmdir, mount)
    tool("mount", "-o", "noatime", device, mount)
    undo.callback(tool, "umount", mount)
    return Path(mount)


def memory_group(undo, options, device):
    """A memory control group with the limit; dirty pages of the device may take a fifth of it. None without a limit."""
    if not options.memory:
        return None
    group = GROUPS / f"shoal-disk-{os.getpid()}"
    group.mkdir()
    undo.callback(group.rmdir)
    (group / "memory.limit_in_bytes").write_text(str(options.memory * MIB))
    # Otherwise dirty pages fill the group, and the kernel ends the process for want of memory.
    number = os.stat(device).st_rdev
    limits = Path(f"/sys/class/bdi/{os.major(number)}:{os.minor(number)}")
    if (limits / "max_bytes").exists():
        (limits / "strict_limit").write_text("1")
        (limits / "max_bytes").write_text(str(options.memory * MIB // 5))
    return group


def run_in(group, command):
    """Runs a command inside the group, from its first instruction on."""
    def enter():
        if group:
            (group / "cgroup.procs").write_text(str(os.getpid()))
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=enter, stdin=subprocess.DEVNULL)


def tool(*command):
    """Runs a tool of the system and gives what it prints."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"disk.py: {shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout


ROWS = [
    ("hit ratio, %", lambda part: part["hit_ratio"] * 100, ".1f"),
    ("device reads", lambda part: part["device"]["reads"], ",.0f"),
    ("device writes", lambda part: part["device"]["writes"], ",.0f"),
    ("reads and writes", lambda part: part["device"]["reads"] + part["device"]["writes"], ",.0f"),
    ("MB read", lambda part: part["device"]["bytes_read"] / 1e6, ",.0f"),
    ("MB written", lambda part: part["device"]["bytes_written"] / 1e6, ",.0f"),
    ("KB a transfer", lambda part: transfer_bytes(part["device"]) / 1e3, ".1f"),
    ("device busy, s", lambda part: part["device"]["busy_ms"] / 1e3, ".1f"),
    ("wall time with sync, s", lambda part: part["seconds"] + part["sync_seconds"], ".1f"),
    ("creates", lambda part: part["system_calls"]["create"]["calls"], ",.0f"),
    ("opens", lambda part: part["system_calls"]["open"]["calls"], ",.0f"),
    ("unlinks", lambda part: part["system_calls"]["unlink"]["calls"], ",.0f"),
    ("create p50 / p99, µs", lambda part: latency(part, "create"), None),
    ("open p50 / p99, µs", lambda part: latency(part, "open"), None),
    ("unlink p50 / p99, µs", lambda part: latency(part, "unlink"), None),
    ("major page faults", lambda part: part["process"]["major_faults"], ",.0f"),
    ("CPU user / system, s", lambda part: cpu(part["process"]), None),
]


def transfer_bytes(device):
    return (device["bytes_read"] + device["bytes_written"]) / max(1, device["reads"] + device["writes"])


def latency(part, call):
    found = part["system_calls"][call]
    return f"{found['p50_ns'] / 1e3:.0f} / {found['p99_ns'] / 1e3:.0f}" if found["calls"] else "-"


def cpu(process):
    return f"{process['user_seconds']:.2f} / {process['system_seconds']:.2f}"


def result(options, reports):
    """The table with what is needed to repeat it."""
    first = next(iter(reports.values()))[0]
    trace, measured = first["trace"], first["parts"]["measured"]
    limit = f"{options.memory} MiB for process and page cache" if options.memory else "no limit on memory"
    lines = [
        f"Machine: {machine.described()}.",
        f"Command: `{shown()}`.",
        f"Trace: {trace['requests']:,} requests for {trace['objects']:,} objects, of which {measured['requests']:,} are measured. "
        f"ext4 {'with' if options.journal else 'without'} journal; {limit}; {rounds_told(options)}.",
        "",
        "| measured part | " + " | ".join(reports) + " |",
        "|---|" + "--:|" * len(reports),
    ]
    for name, value, form in ROWS:
        cells = [cell([value(report["parts"]["measured"]) for report in runs], form) for runs in reports.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    if options.kinds:
        lines += ["", *kinds_told(reports)]
    return "\n".join(lines)


def kinds_told(reports):
    """What the transfers of the last round hold, warm-up included."""
    last = {name: runs[-1]["kinds"] for name, runs in reports.items()}
    yield "| whole run: reads + writes (blocks of 4 KB written) | " + " | ".join(last) + " |"
    yield "|---|" + "--:|" * len(last)
    for kind in ext4_kinds.KINDS:
        told = "{reads:,} + {writes:,} ({blocks_written:,})"
        yield f"| {kind} | " + " | ".join(told.format(**kinds["transfers"][kind]) for kinds in last.values()) + " |"
    for row, name in [("folders", "folders"), ("blocks of folders", "folder_blocks"), ("groups they are in", "folder_groups")]:
        yield f"| {row} | " + " | ".join(f"{kinds[name]:,}" for kinds in last.values()) + " |"


def cell(values, form):
    """The median of the rounds; of what is no number, the last."""
    return values[-1] if form is None else format(statistics.median(values), form)


def rounds_told(options):
    return "one run each" if options.rounds == 1 else f"median of {options.rounds} runs"


def shown():
    """The command without what only names places on this machine."""
    own, dashes, more = cut(sys.argv[1:])
    places = ("--shoal", "--folder", "--reports")
    own = [word for at, word in enumerate(own) if word not in places and (at == 0 or own[at - 1] not in places)]
    words = [Path(word).name if os.path.exists(word) else word for word in own if word != "--write"]
    return "python3 bench/disk.py " + shlex.join(words + dashes + more)


if __name__ == "__main__":
    main()
