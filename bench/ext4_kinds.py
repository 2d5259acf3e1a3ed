"""What the transfers of an ext4 device hold: data, folders, inodes or maps. For disk.py --kinds.

The kernel's block tracepoint tells every request that is handed to a device, merged as the device sees it; dumpe2fs and debugfs tell
where the file system keeps what. Needs root, tracefs and e2fsprogs.
"""

import bisect
import os
import re
import subprocess

from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
KINDS = ("data", "folders", "inodes", "maps and the like")


class Watch:
    """Counts the requests of one device while it is entered."""

    def __init__(self, undo, device):
        if not (TRACING / "trace").exists():
            subprocess.run(["mount", "-t", "tracefs", "tracefs", str(TRACING)], check=True)
        number = os.stat(device).st_rdev
        self.device = device
        self.event = TRACING / "events/block/block_rq_issue"
        (TRACING / "buffer_size_kb").write_text("65536")
        (TRACING / "trace").write_text("")
        # The kernel's own numbering of devices, in which tracepoints speak: 20 bits of minor.
        (self.event / "filter").write_text(f"dev == {os.major(number) << 20 | os.minor(number)}")
        (self.event / "enable").write_text("1")
        undo.callback(self.stop)

    def stop(self):
        (self.event / "enable").write_text("0")
        (self.event / "filter").write_text("0")
        (TRACING / "trace").write_text("")
        (TRACING / "buffer_size_kb").write_text("1408")

    def requests(self):
        """Each request as (is it a read, first sector, sectors)."""
        lost = [int(text.split(":")[1]) for cpu in (TRACING / "per_cpu").iterdir()
                for text in (cpu / "stats").read_text().splitlines() if text.startswith("overrun")]
        if sum(lost):
            raise SystemExit(f"disk.py: the trace buffer lost {sum(lost)} events")
        found = re.compile(r"block_rq_issue: \S+ (\w+) \d+ \([^)]*\) (\d+) \+ (\d+)")
        for line in (TRACING / "trace").read_text().splitlines():
            match = found.search(line)
            if match and ("R" in match[1] or "W" in match[1]):
                yield "W" not in match[1], int(match[2]), int(match[3])

    def by_kind(self):
        """For each kind the reads and writes of the whole run and the blocks written, and in how many groups of blocks the folders are."""
        layout = Layout(self.device)
        counts = {kind: {"reads": 0, "writes": 0, "blocks_written": 0} for kind in KINDS}
        for is_read, sector, sectors in self.requests():
            count = counts[layout.kind(sector // layout.sectors)]
            count["reads" if is_read else "writes"] += 1
            count["blocks_written"] += 0 if is_read else sectors // layout.sectors
        return {"transfers": counts, "folders": layout.folder_count, "folder_groups": layout.folder_groups,
                "folder_blocks": len(layout.folders)}


class Layout:
    """Where an ext4 file system keeps what, as it stands on the device now."""

    def __init__(self, device):
        text = subprocess.run(["dumpe2fs", device], capture_output=True, text=True, check=True).stdout
        block_bytes = int(re.search(r"Block size:\s+(\d+)", text)[1])
        self.sectors = block_bytes // 512
        group_blocks = int(re.search(r"Blocks per group:\s+(\d+)", text)[1])
        tables = [(int(first), int(last)) for first, last in re.findall(r"Inode table at (\d+)-(\d+)", text)]
        self.inodes = Ranges(tables)
        maps = {int(at) for at in re.findall(r"[Bb]lock bitmap at (\d+)|[Ii]node bitmap at (\d+)", text) for at in at if at}
        for first, last in re.findall(r"(?:superblock|Group descriptors) at (\d+)(?:-(\d+))?", text):
            maps.update(range(int(first), int(last or first) + 1))
        self.maps = maps
        self.folders, self.folder_count = folder_blocks(device)
        self.folder_groups = len({block // group_blocks for block in self.folders})

    def kind(self, block):
        if self.inodes.holds(block):
            return "inodes"
        if block in self.maps:
            return "maps and the like"
        return "folders" if block in self.folders else "data"


class Ranges:
    """Stretches of blocks."""

    def __init__(self, ranges):
        self.ranges = sorted(ranges)
        self.firsts = [first for first, _ in self.ranges]

    def holds(self, block):
        at = bisect.bisect_right(self.firsts, block) - 1
        return at >= 0 and block <= self.ranges[at][1]


def folder_blocks(device):
    """The blocks of all folders, and how many folders there are."""
    blocks, count, waiting = set(), 0, [2]
    while waiting:
        commands = "".join(f"blocks <{inode}>\nls -l <{inode}>\n" for inode in waiting)
        told = subprocess.run(["debugfs", "-f", "/dev/stdin", device], input=commands, capture_output=True, text=True).stdout
        count += len(waiting)
        waiting = []
        for line in told.splitlines():
            words = line.split()
            if line.startswith("debugfs") or not words:
                continue
            if len(words) > 2 and words[1].startswith("40") and words[-1] not in (".", "..", "lost+found"):
                waiting.append(int(words[0]))
            elif all(word.isdigit() for word in words):
                blocks.update(map(int, words))
    return blocks, count
