#!/usr/bin/env python3
"""What SPECweb99's file set costs a real server under a memory limit, beside Kant and Won's model, its estimate and its simulation.

    python3 bench/specweb99.py [--directories 40] [--cache 0.025,0.05,0.1] [--requests 20000] [--shoal PATH] [--write]

Two measurements that the paper left for later, both over one loopback connection with the GETs of `shoal trace convert specweb99:…`:

- nginx serves the files from a loop-mounted ext4 in a memory control group (version 1), so that the page cache is the file
  cache. One request at a time: it hit when the device read nothing meanwhile. The model is asked about the page cache that the group
  held on average over the run, not about the limit.
- Shoal as a reverse proxy with that much RAM and no disk, before the same nginx without a limit, once with `lru` and once with its
  own policy. A hit is what Cache-Status calls one.

Bounded: so many requests, 30 minutes at most. Everything is taken down again. Needs root, nginx, loop devices and the control groups.
"""

import argparse
import contextlib
import csv
import getpass
import http.client
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time

from pathlib import Path

import disk
import machine
import page
import programs
import servers

DIRECTORY_BYTES = 5_119_488
SECTOR = 512

NGINX_FILE = """
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; sendfile on; open_file_cache off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ root {root}; add_header Cache-Control max-age=86400; }} }}
}}
"""

SHOAL_FILE = servers.SHOAL_SITE + """[cache]
ram = "{ram}"
ram_policy = "{policy}"
[store]
directory = ""
"""


def main():
    options = arguments()
    missing = disk.what_is_missing(options) or (None if shutil.which("nginx") else "nginx is not installed")
    if missing:
        sys.exit(f"specweb99.py: cannot measure: {missing}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("specweb99.py: stopped"))
    options.deadline = time.monotonic() + 1800
    paths = gets(options)
    with contextlib.ExitStack() as undo:
        device = disk.loop_device(undo, options)
        mount = disk.mounted(undo, options, device)
        files = mount / "file_set"
        disk.tool(options.shoal, "lab", "files", str(files), "--directories", str(options.directories))
        rows = [row for fraction in options.cache for row in measure(options, paths, device, mount, fraction)]
    text = result(options, rows)
    print(text)
    if options.write:
        page.write("specweb99.md", "specweb99.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--directories", type=int, default=40)
    parser.add_argument("--cache", type=lambda text: [float(part) for part in text.split(",")], default=[0.025, 0.05, 0.1])
    parser.add_argument("--requests", type=int, default=20000, help="half of them warm the cache up")
    parser.add_argument("--folder", default=".", help="where the file behind the loop device goes")
    programs.add_shoal(parser)
    parser.add_argument("--proxy", help="the binary that is the reverse proxy, when it is another one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/specweb99.md")
    options = parser.parse_args()
    options.proxy = options.proxy or options.shoal
    # what bench/disk.py wants to know
    options.device = options.directories * DIRECTORY_BYTES * 13 // 10 // disk.MIB + 64
    options.journal, options.memory = False, 1
    return options


def gets(options):
    """The paths that are asked for, in order."""
    values = f"specweb99:directories={options.directories},requests={options.requests},seed={options.seed}"
    text = disk.tool(options.shoal, "trace", "convert", values, "--to", "csv")
    rows = csv.DictReader(io.StringIO(text))
    return ["/" + row["url"].split("/", 3)[3] for row in rows if row["method"] == "GET"]


def measure(options, paths, device, mount, fraction):
    """The rows of one cache size: nginx under the limit, the predictions for it, and Shoal with as much RAM."""
    files = options.directories * DIRECTORY_BYTES
    wanted = int(fraction * files)
    print(f"{fraction:.1%} of {files / 1e6:.0f} MB", file=sys.stderr)
    found = nginx_under_limit(options, paths, device, mount, wanted)
    yield {"of": f"{fraction:.1%}", "by": "nginx, page cache", "policy": "Linux", **found}
    yield from predicted(options, fraction, found["cache"], "lru")
    for policy in ("lru", "s3_fifo"):
        # below this Shoal takes no setting
        ram = max(wanted, 4 << 20)
        yield {"of": f"{fraction:.1%}", "by": "Shoal, RAM", "policy": policy, **shoal_before(options, paths, mount, ram, policy)}
        yield from (row for row in predicted(options, fraction, ram, policy) if policy != "lru" or row["by"] != "model")


def nginx_under_limit(options, paths, device, mount, cache):
    with contextlib.ExitStack() as undo:
        group = disk.GROUPS / f"shoal-specweb99-{os.getpid()}"
        group.mkdir()
        undo.callback(removed, group)
        limit = group / "memory.limit_in_bytes"
        limit.write_text(str(cache + SERVER_BYTES))
        server = nginx(undo, mount, group)
        disk.tool("sync")
        Path("/proc/sys/vm/drop_caches").write_text("3")
        stat = open(Path("/sys/block") / Path(device).name / "stat", buffering=1)
        undo.callback(stat.close)

        def reads():
            stat.seek(0)
            fields = stat.read().split()
            return int(fields[0]), int(fields[2])

        held, hits, transfers, sectors, counted = [], 0, 0, 0, 0
        before = reads()
        for turn, (path, _, _) in enumerate(asked(options, server, paths)):
            after = reads()
            if turn >= len(paths) // 2:
                counted += 1
                hits += after == before
                transfers += after[0] - before[0]
                sectors += after[1] - before[1]
                if turn % 200 == 0:
                    held.append(page_cache(group))
            before = after
        mean = sum(held) / len(held)
        return {"cache": mean, "hits": hits / counted, "kb": sectors * SECTOR / counted / 1e3, "ios": transfers / counted}


def removed(group):
    """Removes a group once its last process is gone."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def page_cache(group):
    lines = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(dict(lines)["cache"])


def shoal_before(options, paths, mount, ram, policy):
    with contextlib.ExitStack() as undo:
        origin = nginx(undo, mount, None)
        folder = undo.enter_context(tempfile.TemporaryDirectory())
        port, admin_port = servers.free_port(), servers.free_port()
        text = SHOAL_FILE.format(port=port, origin=origin.url, ram=ram, policy=policy, admin_port=admin_port)
        file = servers.write(folder, "shoal.toml", text)
        server = servers.Server("shoal", port, [options.proxy, "run", "--config", file], folder)
        undo.callback(server.stop)
        hits, missed, counted = 0, 0, 0
        for turn, (_, status, length) in enumerate(asked(options, server, paths)):
            if turn >= len(paths) // 2:
                counted += 1
                hit = "hit" in status.replace(" ", "").split(";")
                hits += hit
                missed += 0 if hit else length
        return {"cache": ram, "hits": hits / counted, "kb": missed / counted / 1e3, "ios": None}


def nginx(undo, mount, group):
    """nginx over the files, inside the group from its first instruction on."""
    folder = undo.enter_context(tempfile.TemporaryDirectory())
    os.chmod(folder, 0o755)
    os.chmod(mount, 0o755)
    port = servers.free_port()
    user = f"user {getpass.getuser()}; "
    file = servers.write(folder, "nginx.conf", NGINX_FILE.format(user=user, folder=folder, port=port, root=mount))
    command = ["nginx", "-p", folder, "-c", file]
    if group:
        command = ["sh", "-c", f"echo $$ > {group}/cgroup.procs; exec \"$@\"", "sh", *command]
    server = servers.Server("nginx", port, command, folder)
    undo.callback(server.stop)
    return server


def asked(options, server, paths):
    """Asks for each path over one connection; gives it with Cache-Status and the body's length."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for path in paths:
        if time.monotonic() > options.deadline:
            sys.exit("specweb99.py: the time is up; fewer --requests take less")
        connection.request("GET", path)
        reply = connection.getresponse()
        length = len(reply.read())
        if reply.status != 200:
            sys.exit(f"specweb99.py: {server.name} answers {path} with {reply.status}")
        yield path, reply.headers.get("Cache-Status", ""), length
    connection.close()


def predicted(options, fraction, cache, policy):
    """What the binary predicts for a cache of so many bytes."""
    command = ["model", "specweb99", "--directories", str(options.directories), "--cache", str(int(cache))]
    command += ["--policy", policy, "--requests", str(max(1000, options.requests)), "--json"]
    for row in json.loads(disk.tool(options.shoal, *command)):
        if policy != "lru" and row["by"] != "simulation":
            continue
        answer = {"cache": cache, "hits": row["hit_ratio"], "kb": row["bytes_read"] / 1e3, "ios": row["transfers"]}
        yield {"of": f"{fraction:.1%}", "by": row["by"], "policy": policy, **answer}


def result(options, rows):
    lines = [
        f"Machine: {machine.described()}.",
        f"Command: `{disk.shown().replace('bench/disk.py', 'bench/specweb99.py')}`.",
        f"{options.directories} directories, {options.directories * DIRECTORY_BYTES / 1e6:.0f} MB; {options.requests:,} operations, of which "
        "the GETs are asked for and the second half counts.",
        "",
        "| cached | by | policy | cache, MB | hit ratio, % | KB read an access | transfers an access |",
        "|---|---|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        ios = "–" if row["ios"] is None else f"{row['ios']:.3f}"
        lines.append(
            f"| {row['of']} | {row['by']} | {row['policy']} | {row['cache'] / 1e6:.1f} | {row['hits'] * 100:.1f} | {row['kb']:.2f} | {ios} |"
        )
    return "\n".join(lines)


# nginx's own memory and what the kernel charges the group beside the page cache.
SERVER_BYTES = 6 << 20

if __name__ == "__main__":
    main()
