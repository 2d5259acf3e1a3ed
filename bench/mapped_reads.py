#!/usr/bin/env python3
"""How much of a file Linux reads for random accesses by calls and through memory.

    python3 bench/mapped_reads.py [--accesses 2000] [--file-mib 1024]

The page cache has nothing of the file beforehand. The same random pages of 4 KiB are read, and in a second run overwritten
whole, in three ways: by `pread` and `pwrite`, through a map, and through a map with MADV_RANDOM. Told are the bytes that the
kernel read from the disk for this process (/proc/self/io), and the page faults that waited for the disk. Prints a Markdown
table; --write puts it into docs/experiments/read_paths.md.
"""

import argparse
import mmap
import os
import random
import resource
import tempfile

import machine
import page

PAGE = 4096
WAYS = {"pread, pwrite": None, "mmap": mmap.MADV_NORMAL, "mmap, MADV_RANDOM": mmap.MADV_RANDOM}


def main():
    options = arguments()
    with tempfile.NamedTemporaryFile(prefix="shoal-mapped-", dir=options.folder) as file:
        block = os.urandom(1 << 20)
        for _ in range(options.file_mib):
            file.write(block)
        file.flush()
        rows = {way: [accessed(file.fileno(), options, advice, writes) for writes in (False, True)] for way, advice in WAYS.items()}
        ahead = read_ahead_kib(file.fileno())
    text = table(options, rows, ahead)
    print(text)
    if options.write:
        page.write("read_paths.md", "mapped_reads.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accesses", type=int, default=2000)
    parser.add_argument("--file-mib", type=int, default=1024)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the file")
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/read_paths.md")
    return parser.parse_args()


def accessed(number, options, advice, writes):
    """Bytes read from the disk, and page faults that waited for it."""
    os.fsync(number)
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    pages = random.Random(1).sample(range(options.file_mib * (1 << 20) // PAGE), options.accesses)
    content = os.urandom(PAGE)
    mapped = None
    if advice is not None:
        mapped = mmap.mmap(number, options.file_mib << 20)
        mapped.madvise(advice)
    before = counts()
    for at in pages:
        offset = at * PAGE
        if mapped is None and writes:
            os.pwrite(number, content, offset)
        elif mapped is None:
            os.pread(number, PAGE, offset)
        elif writes:
            mapped[offset : offset + PAGE] = content
        else:
            mapped[offset : offset + PAGE]
    found = [now - then for now, then in zip(counts(), before)]
    if mapped is not None:
        mapped.close()
    return found


def counts():
    with open("/proc/self/io") as file:
        read = next(int(line.split()[1]) for line in file if line.startswith("read_bytes"))
    return read, resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def read_ahead_kib(number):
    """The most that the device's file system reads ahead."""
    device = os.fstat(number).st_dev
    with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb") as file:
        return int(file.read())


def table(options, rows, ahead):
    lines = [
        f"Machine: {machine.described()}; the device's read-ahead is {ahead:,} KiB.",
        f"Command: `python3 bench/mapped_reads.py --accesses {options.accesses} --file-mib {options.file_mib}`.",
        "",
        "| way | reads: MB from the disk | major faults | whole pages written: MB read | major faults |",
        "|---|--:|--:|--:|--:|",
    ]
    for way, found in rows.items():
        cells = [cell for bytes_read, faults in found for cell in (f"{bytes_read / 1e6:,.1f}", f"{faults:,}")]
        lines.append(f"| {way} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
