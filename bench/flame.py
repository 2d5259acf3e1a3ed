#!/usr/bin/env python3
"""A flame graph of a hit in RAM: where the CPU time of 1 KB over HTTP/1.1 goes, in Shoal and in the kernel.

    python3 bench/flame.py                 docs/hit.svg, and a table of the parts above 3%

perf samples the server on core 0 while `shoal-load` asks on core 1. Needs perf, taskset and release builds of shoal and testkit; for
the kernel's part root, or kernel.perf_event_paranoid of at most 1 and kernel.kptr_restrict 0.
"""

import argparse
import collections
import html
import os
import re
import shutil
import subprocess
import tempfile

import load
import measure
import programs
import servers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--svg", default=os.path.join(ROOT, "docs", "hit.svg"))
    programs.add_shoal(parser)
    options = parser.parse_args()
    if not shutil.which("perf"):
        raise SystemExit("perf is not installed (Debian: apt-get install linux-perf)")
    stacks = sampled(options)
    total = sum(stacks.values())
    with open(options.svg, "w") as file:
        file.write(drawn(stacks, f"CPU time of a hit of {options.size} bytes in RAM, {total} samples"))
    print(table(stacks))


def sampled(options):
    """Stacks, from the outermost function on, and how often each was seen."""
    with tempfile.TemporaryDirectory(prefix="shoal-bench-") as folder:
        os.chmod(folder, 0o755)
        origin = servers.Origin()
        shoal = servers.start_shoal(folder, origin.url, options.shoal)
        data = os.path.join(folder, "perf.data")
        try:
            for _ in range(2):
                shoal.get(f"/{options.size}")
            record = ["perf", "record", "-q", "-F", "997", "-e", "cpu-clock", "--call-graph", "dwarf,16384", "-o", data]
            recorder = subprocess.Popen(record + ["-p", str(shoal.process.pid), "sleep", str(options.seconds)])
            load.closed(shoal, f"/{options.size}", options.seconds + 1, measure.BROWSER)
            recorder.wait()
            script = ["perf", "script", "-i", data, "-F", "comm,ip,sym", "--no-inline"]
            text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
        finally:
            shoal.stop()
    return fold(text)


def fold(text):
    """perf's samples as stacks. Only the workers' are taken."""
    stacks = collections.Counter()
    for sample in text.split("\n\n"):
        head, *lines = sample.strip().split("\n")
        if not head.startswith("worker-"):
            continue
        names = [shown(line) for line in reversed(lines)]
        # Frames between a task and its runtime that cannot be unwound say nothing.
        stacks[tuple(named for named in names if named not in ("", "unknown"))] += 1
    if not stacks:
        raise SystemExit("perf saw nothing of the workers")
    return stacks


def shown(line):
    """A function's name without its hash, its arguments and the crate's path in front."""
    name = line.strip().split(" ", 1)[-1].strip()
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"\+0x[0-9a-f]+$", "", name)
    while re.search(r"<[^<>]*>", name):
        inner = re.match(r"^<(\S+) as [^<>]*>(.*)$", name)
        name = f"{inner.group(1)}{inner.group(2)}" if inner else re.sub(r"<[^<>]*>", "", name)
    return name.removeprefix("[").removesuffix("]")


def table(stacks):
    """Every function above 3%, with what it calls, and its own part."""
    total, inclusive, own = sum(stacks.values()), collections.Counter(), collections.Counter()
    for stack, count in stacks.items():
        for name in set(stack):
            inclusive[name] += count
        own[stack[-1]] += count
    lines = ["| function | share with what it calls | its own |", "|---|---|---|"]
    for name, count in inclusive.most_common():
        if count / total > 0.03:
            lines.append(f"| `{name}` | {count / total:.1%} | {own[name] / total:.1%} |")
    return "\n".join(lines)


WIDTH, ROW, FONT = 1200, 16, 11


def drawn(stacks, title):
    """The flame graph: a row for each depth of the stack, outermost below, as wide as its share."""
    tree = grown(stacks)
    depth = deepest(tree)
    height = (depth + 3) * ROW
    boxes = []
    place(tree, 0, 0, tree["count"], boxes)
    body = [box(name, x, level, width, share, height) for name, x, level, width, share in boxes if width >= 0.4]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" font-size="{FONT}">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fffdf7"/>\n'
        f'<text x="{WIDTH / 2}" y="{ROW}" text-anchor="middle" font-size="13">{html.escape(title)}</text>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def grown(stacks):
    """Stacks with a common beginning as one tree."""
    root = {"count": 0, "children": {}}
    for stack, count in stacks.items():
        node = root
        node["count"] += count
        for name in stack:
            node = node["children"].setdefault(name, {"count": 0, "children": {}})
            node["count"] += count
    return root


def deepest(node):
    return 1 + max((deepest(child) for child in node["children"].values()), default=0)


def place(node, level, start, total, boxes):
    """Appends (name, x, level, width, share) of everything below a node."""
    for name, child in sorted(node["children"].items()):
        width = child["count"] / total * WIDTH
        boxes.append((name, start / total * WIDTH, level, width, child["count"] / total))
        place(child, level + 1, start, total, boxes)
        start += child["count"]


def box(name, x, level, width, share, height):
    top = height - (level + 1.5) * ROW
    letters = int(width / (FONT * 0.62)) - 1
    text = name if len(name) <= letters else name[: max(letters - 1, 0)] + "…"
    label = f'<text x="{x + 3:.1f}" y="{top + ROW - 4:.1f}">{html.escape(text)}</text>' if letters >= 3 else ""
    whole = f"{html.escape(name)}: {share:.1%}"
    return f'<g><title>{whole}</title><rect x="{x:.1f}" y="{top:.1f}" width="{max(width - 0.5, 0.3):.1f}" height="{ROW - 1}" fill="{colour(name)}"/>{label}</g>'


def colour(name):
    """Rust warm, the kernel cool, with a shade for each name."""
    shade = sum(name.encode()) % 40
    return f"hsl({20 + shade},80%,70%)" if "::" in name else f"hsl({190 + shade},45%,75%)"


if __name__ == "__main__":
    main()
