#!/usr/bin/env python3
"""Disk I/O of Shoal beside other caches, on more than one trace.

    python3 bench/yardstick/grid.py --yardstick DIR --case infinite
    python3 bench/yardstick/grid.py --yardstick DIR --case finite --peers shoal,squid-aufs,ats --boston BU.tsv.zst
    python3 bench/yardstick/grid.py --yardstick DIR --rows default --peers shoal,shoal-alone,squid-aufs

DIR is the yardstick's folder, which must be writable: its README says what it measures and what it needs (root, Go, loop
devices, control groups). Shoal's profile is copied into it, and variants of it that each switch one idea off. `shoal` is
taken from the PATH. A row takes a minute or so for each peer; reports are kept in DIR/out and not measured again unless
--again is given. Prints a Markdown table, per 1,000 requests of the measured part, with Shoal's operations as a share of
each peer's.
"""
import argparse
import csv
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

# name: options of tracegen, share of the working set that is memory
ROWS = {
    "default": ([], 8),
    "seed 2": (["-seed", "2"], 8),
    "seed 3": (["-seed", "3"], 8),
    "alpha 0.6": (["-alpha", "0.6"], 8),
    "alpha 0.9": (["-alpha", "0.9"], 8),
    "memory 1/4": ([], 4),
    "memory 1/16": ([], 16),
    "memory 1/32": ([], 32),
    "Boston": (None, 8),
}

# One idea of the store switched off each, or another architecture.
VARIANTS = {
    "shoal-alone": ("store", "neighbourhood_percent = 0"),
    "shoal-always": ("store", 'admission = "always"'),
    "shoal-small-stripes": ("store", 'stripe = "256 KiB"'),
    "shoal-gdsf": ("cache", 'ram_policy = "gdsf"'),
    "shoal-lru": ("cache", 'ram_policy = "lru"'),
    "shoal-squid": ("store", 'architecture = "squid"'),
    "shoal-squidmla": ("store", 'architecture = "squidmla"'),
}


def main():
    options = arguments()
    profiles(options.yardstick)
    subprocess.run(["go", "build", "-o", "bin/", "./cmd/..."], cwd=options.yardstick, check=True)
    os.makedirs(os.path.join(options.yardstick, "out"), exist_ok=True)
    reports = {}
    for row in options.rows:
        trace = made_trace(options, row)
        if trace is None:
            print(f"grid: {row} is skipped: name its trace with --boston", file=sys.stderr)
            continue
        for peer in options.peers:
            report = measured(options, row, trace, peer)
            if report:
                reports[row, peer] = report
    print(table(options, reports))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = lambda text: text.split(",")
    parser.add_argument("--yardstick", required=True, help="folder of the yardstick")
    parser.add_argument("--case", choices=["infinite", "finite"], default="infinite")
    parser.add_argument("--peers", type=names, default=["shoal", "squid-aufs", "ats"])
    parser.add_argument("--rows", type=names, default=list(ROWS), help=", ".join(ROWS))
    parser.add_argument("--requests", type=int, default=240000, help="of a made trace, or at most of a real one")
    parser.add_argument("--boston", help="the Boston University trace, tab-separated and compressed with zstd")
    parser.add_argument("--rate", type=int, default=3000, help="requests a second in the measured part")
    parser.add_argument("--again", action="store_true", help="measure what has been measured before")
    options = parser.parse_args()
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        parser.error(f"no row is called {', '.join(unknown)}; known are: {', '.join(ROWS)}")
    return options


def profiles(yardstick):
    """Shoal's profile and its variants, where the yardstick looks for them."""
    base = os.path.join(yardstick, "profiles", "shoal")
    shutil.copytree(os.path.join(HERE, "shoal"), base, dirs_exist_ok=True)
    with open(os.path.join(base, "shoal.toml"), encoding="utf-8") as file:
        settings = file.read()
    for name, (section, line) in VARIANTS.items():
        key = line.split(" = ")[0]
        kept = [old for old in settings.splitlines() if not old.startswith(f"{key} = ")]
        folder = os.path.join(yardstick, "profiles", name)
        shutil.copytree(base, folder, dirs_exist_ok=True)
        with open(os.path.join(folder, "shoal.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(kept).replace(f"[{section}]\n", f"[{section}]\n{line}\n") + "\n")


def made_trace(options, row):
    """The row's trace, made once. Returns its path and the bytes of all objects in MiB."""
    flags, _ = ROWS[row]
    out = os.path.join(options.yardstick, "out")
    if flags is None:
        if not options.boston:
            return None
        path = os.path.join(out, f"boston-{options.requests}.csv")
        if not os.path.exists(path):
            convert_boston(options, path)
    else:
        path = os.path.join(out, f"trace-{options.requests}{''.join(flags)}.csv")
        if not os.path.exists(path):
            command = ["bin/tracegen", "-requests", str(options.requests), *flags, "-o", path]
            subprocess.run(command, cwd=options.yardstick, check=True, stdout=subprocess.DEVNULL)
    sizes = {}
    with open(path, encoding="utf-8") as file:
        for line in csv.DictReader(file):
            sizes[line["url"]] = int(line["size_bytes"])
    return path, sum(sizes.values()) // 2**20


def convert_boston(options, path):
    """URLs that carry their size, as the yardstick's origin needs them: another size is another object."""
    text = subprocess.run(["zstd", "-dc", options.boston], check=True, capture_output=True, text=True, errors="replace").stdout
    lines = csv.DictReader(text.splitlines(), delimiter="\t")
    begin, count = None, 0
    with open(path + ".part", "w", encoding="utf-8") as file:
        file.write("time_ms,client,url,size_bytes\n")
        for line in lines:
            size, url = int(line["bytes"]), line["url"]
            plain = url.startswith("http://") and "?" not in url and not set(url) & set(' ",#%')
            if line["browser_hit"] != "0" or not plain or not 0 < size <= 16_000_000:
                continue
            host, _, rest = url[len("http://") :].partition("/")
            time_ms = int(line["time_us"]) // 1000
            begin = time_ms if begin is None else begin
            name = "".join(c if c.isalnum() or c in "/-." else "-" for c in rest)
            file.write(f"{time_ms - begin},{line['machine']},http://{host}/{name}_s{size}.x,{size}\n")
            count += 1
            if count == options.requests:
                break
    os.rename(path + ".part", path)


def measured(options, row, trace, peer):
    path, megabytes = trace
    memory = max((megabytes + ROWS[row][1] // 2) // ROWS[row][1], 24)
    cache = megabytes * 4 if options.case == "infinite" else megabytes // 4
    out = os.path.join(options.yardstick, "out", f"grid-{options.case}-{row}-{options.requests}-{peer}.json".replace("/", "_").replace(" ", "_"))
    if options.again or not os.path.exists(out):
        if peer.startswith("shoal"):
            share_memory(options.yardstick, peer, memory, cache)
        command = ["bin/iometer", "-profile", f"profiles/{peer}", "-trace", path, "-mem", str(memory), "-cache", str(cache)]
        command += ["-rate", str(options.rate), "-label", f"{options.case}, {row}", "-o", out]
        ended = subprocess.run(command, cwd=options.yardstick, capture_output=True, text=True)
        if ended.returncode != 0 or not os.path.exists(out):
            print(f"grid: {peer} gave no report for {row}: {ended.stderr.strip()[-300:]}", file=sys.stderr)
            return None
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def share_memory(yardstick, peer, memory, cache):
    """How much of so many MiB is `cache.ram`: beside bodies stand 23 MiB, ten bytes of index for each 8 KB of disk (at least 5 MiB), and
    a twelfth of `cache.ram`."""
    path = os.path.join(yardstick, "profiles", peer, "profile.json")
    with open(path, encoding="utf-8") as file:
        profile = json.load(file)
    beside = 23 + max(5, cache * 10.1 / 8192)
    profile["RAMShare"] = round(0.92 * (memory - beside) / memory, 3)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(profile, file)


def operations(report):
    thousands = report["measure"]["requests"] / 1000
    disk = report["disk"]
    return disk["Reads"] / thousands, disk["Writes"] / thousands


def table(options, reports):
    lines = ["| trace | peer | reads + writes | Shoal's share | MB read / written | hit % | byte hit % | CPU ms a request | peak RSS MB | p99 ms |"]
    lines += ["|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for (row, peer), report in reports.items():
        reads, writes = operations(report)
        thousands = report["measure"]["requests"] / 1000
        share = ""
        if (row, "shoal") in reports and peer != "shoal":
            share = f"{sum(operations(reports[row, 'shoal'])) / (reads + writes):.2f}"
        disk, processes = report["disk"], report["processes"]
        transferred = [disk[f"Sectors{way}"] * 512 / 1e6 / thousands for way in ("Read", "Written")]
        lines.append(
            f"| {row} | {peer} | {reads:.0f} + {writes:.0f} | {share} | {transferred[0]:.1f} / {transferred[1]:.1f} "
            f"| {report['hit_ratio'] * 100:.1f} | {report['byte_hit_ratio'] * 100:.1f} "
            f"| {processes['CPUSeconds'] / report['measure']['requests'] * 1000:.3f} | {processes['RSSMax'] / 1e6:.0f} "
            f"| {report['measure']['p99_ms']:.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
