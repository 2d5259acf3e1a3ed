#!/usr/bin/env python3
"""What a random read of the volume costs, by the way in which Linux is asked for it.

    python3 bench/read_paths.py [--seconds 6] [--file-gib 3] [--rounds 3]

The same random reads of 16, 32 and 64 KiB, by fio, from a file of its own:

- `pread, direct`: eight threads, each with one O_DIRECT read at a time. What Shoal does.
- `io_uring, direct`: one thread with up to eight O_DIRECT reads at a time; and the same with registered buffers and file.
- `preadv2, page cache`: eight threads that read through the page cache, which does not have what they read.
- `io_uring, page cache`: one thread with up to eight of these; the kernel hands them to threads of its own.
- `preadv2, resident`: everything is in the page cache: what that spares where it hits, as RWF_NOWAIT would find out.

Told are reads a second and the CPU time of fio for each read; what the kernel's own threads take is not in it. The ways take
turns; each value is the median of the rounds. Needs fio. Prints a Markdown table; --write puts it into docs/experiments/read_paths.md.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import machine
import page

SIZES = [16, 32, 64]
READERS = 8

# name: options of fio, and whether the file is in the page cache beforehand
WAYS = {
    "pread, direct": (["--ioengine=psync", "--direct=1", f"--numjobs={READERS}"], False),
    "io_uring, direct": (["--ioengine=io_uring", "--direct=1", f"--iodepth={READERS}"], False),
    "io_uring, direct, registered": (
        ["--ioengine=io_uring", "--direct=1", f"--iodepth={READERS}", "--fixedbufs=1", "--registerfiles=1"],
        False,
    ),
    "preadv2, page cache": (["--ioengine=pvsync2", "--direct=0", f"--numjobs={READERS}"], False),
    "io_uring, page cache": (["--ioengine=io_uring", "--direct=0", f"--iodepth={READERS}"], False),
    "preadv2, resident": (["--ioengine=pvsync2", "--direct=0", f"--numjobs={READERS}"], True),
}


def main():
    options = arguments()
    if not shutil.which("fio"):
        sys.exit("read_paths.py: cannot measure: there is no fio")
    with tempfile.TemporaryDirectory(prefix="shoal-reads-", dir=options.folder) as folder:
        files = {False: made(folder, "cold", options.file_gib << 30), True: made(folder, "resident", RESIDENT_BYTES)}
        found = {}
        for _ in range(options.rounds):
            for size in SIZES:
                for way in WAYS:
                    values = one(options, way, size, files)
                    print(f"read_paths.py: {size} KiB, {way}: {values[0]:.0f} a second, {values[1] * 1e6:.1f} us", file=sys.stderr)
                    found.setdefault((way, size), []).append(values)
    text = table(options, found)
    print(text)
    if options.write:
        page.write("read_paths.md", "read_paths.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6, help="of reads in each round")
    parser.add_argument("--file-gib", type=int, default=3, help="of the file that is read from the disk")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the files that are read")
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/read_paths.md")
    return parser.parse_args()


def made(folder, name, length):
    """A file of bytes that no file system could leave out."""
    path = os.path.join(folder, name)
    block = os.urandom(1 << 20)
    with open(path, "wb") as file:
        for _ in range(length >> 20):
            file.write(block)
        os.fsync(file.fileno())
    return path


def one(options, way, size, files):
    """Reads a second, and seconds of CPU for each."""
    flags, is_resident = WAYS[way]
    path = files[is_resident]
    if is_resident:
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass
    command = ["fio", "--name=reads", f"--filename={path}", "--readonly", "--rw=randread", f"--bs={size}k", "--group_reporting"]
    command += ["--output-format=json", f"--runtime={options.seconds}", "--fadvise_hint=random"]
    # Nothing is read twice, which would be found in the page cache: each thread has a part of the file, once.
    share = 100 // READERS if f"--numjobs={READERS}" in flags else 100
    command += ["--time_based"] if is_resident else [f"--size={share}%", f"--offset_increment={share}%"]
    command += ["--thread", f"--invalidate={int(not is_resident)}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    job = json.loads(done.stdout[done.stdout.index("{") :])["jobs"][0]
    assert job["error"] == 0, done.stdout
    reads = job["read"]["total_ios"]
    process = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["job_runtime"] / 1000
    return job["read"]["iops"], process / reads


def table(options, found):
    lines = [
        f"Machine: {machine.described()}.",
        f"Command: `python3 bench/read_paths.py --seconds {options.seconds} --file-gib {options.file_gib} --rounds {options.rounds}`, fio {version()}.",
        "",
        "| way | " + " | ".join(f"{size} KiB: reads/s | µs of CPU a read" for size in SIZES) + " |",
        "|---|" + "--:|" * (2 * len(SIZES)),
    ]
    for way in WAYS:
        cells = []
        for size in SIZES:
            rate, process = (statistics.median(values) for values in zip(*found[way, size]))
            cells += [f"{rate:,.0f}", f"{process * 1e6:.1f}"]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def version():
    return subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip().removeprefix("fio-")


# The file that is in the page cache.
RESIDENT_BYTES = 256 << 20


if __name__ == "__main__":
    main()
