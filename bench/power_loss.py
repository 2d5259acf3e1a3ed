#!/usr/bin/env python3
"""Takes the power from a node that stores, at random instants, and looks what is left.

    python3 bench/power_loss.py [--seconds 60] [--disk ext4,raw] [--seed 1]

A node with the default store runs on a loop device, with ext4 or as a raw block device. Clients have it store objects of many
sizes and replace and purge some. At random instants the file behind the device is copied, as it is at one moment: what the node or the kernel
still held in memory is not in it, and a write on its way may be there in part. The copy is attached to a device of its own, mounted,
which replays the file system's journal, and opened by another node, whose origin refuses everything. Every object is asked for:

- wrong: a body that is not the object's, or is cut off; a version older than one that was replaced, or an object that was
  purged, more than --slack seconds before the copy;
- lost: an object that is missing though it was complete more than --slack seconds before the copy. The device is large enough for all.
  Not kept, and counted apart, is what the running node has in RAM only: a URL that shares its place in the table of purges with one that is being
  purged while it is stored.

Either ends the run with a failure and the seed. What is copied is in one piece: by a clone of the file (FICLONE) on XFS made for that
on another loop device; without mkfs.xfs the node is stopped (SIGSTOP), and the copy begins when the device has nothing left to do, so
that no write is cut in two, which is said. Not simulated is a disk that has acknowledged writes and loses them. Needs root, loop
devices and mkfs.ext4; says which is missing.
"""

import argparse
import contextlib
import hashlib
import http.client
import http.server
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import programs

from disks import loop_device, make_ext4, mount, tool
from pathlib import Path
from servers import free_port

HOST = "power.example"
MIB = 1 << 20
OBJECTS = 4000


def main():
    options = arguments()
    missing = what_is_missing(options)
    if missing:
        sys.exit(f"power_loss.py: cannot be tried: {missing}")
    print("| disk | copies | objects looked at | hits | younger than the limit and lost | oldest of these | not kept | wrong | lost |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    bad = 0
    for kind in options.disk:
        with contextlib.ExitStack() as undo:
            found = tried(undo, options, kind)
        print(f"| {kind} | {found.copies} | {found.looked_at:,} | {found.hits:,} | {found.young:,} | {found.oldest:.2f} s | {found.not_kept} | {len(found.wrong)} | {len(found.lost)} |", flush=True)
        for line in (found.wrong + found.lost)[:20]:
            print(f"power_loss.py: {kind}, seed {options.seed}: {line}", file=sys.stderr)
        bad += len(found.wrong) + len(found.lost)
    sys.exit(1 if bad else 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="of load for each kind of disk")
    parser.add_argument("--disk", type=lambda text: text.split(","), default=["ext4", "raw"])
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--slack", type=float, default=1.0, help="seconds of inserts that may be lost")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for the files behind the devices")
    programs.add_shoal(parser)
    return parser.parse_args()


def what_is_missing(options):
    if os.geteuid() != 0:
        return "needs root"
    for program in ("losetup", "mkfs.ext4", "mount", "umount", options.shoal):
        if not shutil.which(program):
            return f"there is no {program}"
    return None if subprocess.run(["losetup", "-f"], capture_output=True).returncode == 0 else "there are no loop devices"


class Findings:
    def __init__(self):
        self.copies = self.looked_at = self.hits = self.young = self.not_kept = 0
        self.oldest = 0.0
        self.wrong, self.lost = [], []


def tried(undo, options, kind):
    seeded = random.Random(f"{options.seed} {kind}")
    folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="shoal-power-", dir=options.folder)))
    backing, clones = backing_folder(undo, folder)
    device = Device(undo, backing / "disk", 768 * MIB)
    store = device.made_into(undo, kind, folder / "mount")
    origin = Origin()
    undo.callback(origin.shutdown)
    node = Node(options.shoal, folder, "node", store, kind, origin.server_address[1])
    undo.callback(node.kill)
    node.start()
    load = Load(node, origin, seeded.randrange(1 << 30))
    undo.callback(load.stop)
    found = Findings()
    end = time.monotonic() + options.seconds
    while time.monotonic() < end:
        time.sleep(seeded.uniform(0.3, 4.0))
        copy = backing / "copy"
        with node.stopped(device) if not clones else contextlib.nullcontext():
            history, at = load.history(), time.monotonic()
            subprocess.run(["cp", f"--reflink={'always' if clones else 'never'}", device.image, copy], check=True)
            until = time.monotonic()
        with contextlib.ExitStack() as own:
            own.callback(copy.unlink)
            look(own, options, kind, folder, copy, (history, at, until, load), found)
    return found


def look(undo, options, kind, folder, copy, told, found):
    """Opens a copy and compares what is served with what was stored."""
    history, at, until, load = told
    device = Device(undo, copy, None)
    store = device.mounted(undo, folder / "copy-mount") if kind == "ext4" else device.path
    node = Node(options.shoal, folder, "survivor", store, kind, free_port())
    undo.callback(node.kill)
    node.start()
    client = node.client()
    found.copies += 1
    node.wait_until_recovered()
    for number, events in history.items():
        found.looked_at += 1
        was_hit, content = ask(client, number)
        # The last event that had to be on disk, and what may have come of it since.
        settled = [event for event in events if event.done <= at - options.slack]
        floor = settled[-1] if settled else None
        allowed = {event.version for event in load.events(number, until) if floor is None or event.began >= floor.began}
        if was_hit:
            found.hits += 1
            version = version_of(number, content)
            if version is None:
                found.wrong.append(f"object {number}: {len(content)} bytes that are not its own, copied at {at:.3f}")
            elif version not in allowed:
                found.wrong.append(f"object {number}: version {version} where {sorted(map(str, allowed))} could be")
        elif floor is not None and None not in allowed and not is_on_disk(load.node, number):
            found.not_kept += 1
        elif floor is not None and None not in allowed:
            found.lost.append(f"object {number}: version {floor.version}, complete {at - floor.done:.2f} s before the copy")
        elif events and events[-1].version is not None:
            found.young += 1
            found.oldest = max(found.oldest, at - events[-1].done)


def is_on_disk(node, number):
    """Whether the node that runs has the object on its disk by now."""
    command = [node.program, "store", "get", "--store", str(node.store), url(number)]
    return subprocess.run(command, capture_output=True).returncode == 0


class Event:
    """A version that was stored, or None for a purge: from when to when the request ran."""

    def __init__(self, version, began, done):
        self.version, self.began, self.done = version, began, done


class Load:
    """Clients that have objects stored, replaced and purged. Each has objects of its own, so that their order is known."""

    def __init__(self, node, origin, seed):
        self.node, self.origin = node, origin
        self.lock = threading.Lock()
        self.done = {}
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self.work, args=(share, seed + share), daemon=True) for share in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def work(self, share, seed):
        seeded = random.Random(seed)
        client, admin = self.node.client(), self.node.admin()
        while not self.stopping.wait(PAUSE):
            number = seeded.randrange(OBJECTS // CLIENTS) * CLIENTS + share
            purges = number in self.done and seeded.random() < 0.3
            began = time.monotonic()
            try:
                if purges:
                    event = self.begun(number, None, began)
                    admin.request("POST", "/purge", json.dumps({"url": url(number)}))
                    answer = admin.getresponse()
                    assert answer.status == 200, answer.read()
                    answer.read()
                else:
                    event = self.begun(number, self.origin.versions.get(number, 0), began)
                    was_hit, content = ask(client, number)
                    assert version_of(number, content) == event.version, f"object {number} is served wrong"
                    if was_hit:
                        self.withdraw(number, event)
                        continue
            except (OSError, http.client.HTTPException):
                return
            event.done = time.monotonic()
            if purges:
                # The next answer is another version: one that comes back from before the purge can be told.
                self.origin.versions[number] = self.origin.versions.get(number, 0) + 1

    def begun(self, number, version, began):
        event = Event(version, began, float("inf"))
        with self.lock:
            self.done.setdefault(number, []).append(event)
        return event

    def withdraw(self, number, event):
        with self.lock:
            self.done[number].remove(event)

    def history(self):
        """What has been done with each object so far: events that were complete."""
        now = time.monotonic()
        with self.lock:
            return {number: [event for event in events if event.done <= now] for number, events in self.done.items()}

    def events(self, number, until):
        """What had begun with an object by an instant."""
        with self.lock:
            return [event for event in self.done[number] if event.began <= until]

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(10)


class Device:
    """A loop device over a file."""

    def __init__(self, undo, image, device_bytes):
        self.image = image
        self.path = loop_device(undo, image, device_bytes)

    def made_into(self, undo, kind, folder):
        if kind == "raw":
            return self.path
        make_ext4(self.path)
        return self.mounted(undo, folder)

    def mounted(self, undo, folder):
        mount(undo, self.path, folder)
        return folder / "store"

    def is_idle(self):
        inflight = Path("/sys/block") / self.path.name / "inflight"
        return inflight.read_text().split() == ["0", "0"]


class Node:
    def __init__(self, program, folder, name, store, kind, origin_port):
        self.program = program
        self.port, self.admin_port = free_port(), free_port()
        self.store = store
        self.settings, self.log = folder / f"{name}.toml", folder / f"{name}.log"
        self.process = None
        # Purges by URL are in the store; those by tag are in a file of the folder, which raw devices leave elsewhere.
        disk = f'directory = "{store}"\ndisk = "640 MiB"'
        if kind == "raw":
            disk = f'directory = "{folder / name}"\ndisks = [{{ path = "{store}", bytes = "640 MiB" }}]'
        self.settings.write_text(f"""
[[listen]]
address = "127.0.0.1:{self.port}"
mode = "reverse"

[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://127.0.0.1:{origin_port}" }}]

[cache]
ram = "4 MiB"

[store]
{disk}

[admin]
listen = "127.0.0.1:{self.admin_port}"
""")

    def start(self):
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([self.program, "run", "--config", str(self.settings)], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.admin_port), 1):
                if "serving from RAM only" in self.log.read_text():
                    break
                return
            time.sleep(0.005)
        sys.exit(f"power_loss.py: the node does not start:\n{self.log.read_text()}")

    def client(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)

    def admin(self):
        return http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=20)

    def wait_until_recovered(self):
        """The end of the log is looked for in the background; it says when that has been found."""
        deadline = time.monotonic() + 10
        while "the end of the log has been found" not in self.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)

    @contextlib.contextmanager
    def stopped(self, device):
        """The process stands still, and so does its disk."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            while not device.is_idle():
                time.sleep(0.001)
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait(20)
            self.process = None


class Origin(http.server.ThreadingHTTPServer):
    """Answers with the latest version of each object."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), OriginHandler)
        self.versions = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()


class OriginHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        number = int(self.path.rsplit("/", 1)[1])
        content = body(number, self.server.versions.get(number, 0))
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "public, max-age=31536000")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def url(number):
    return f"http://{HOST}/object/{number}"


def ask(client, number):
    """Whether it was a hit, and the body."""
    client.request("GET", f"/object/{number}", headers={"Host": HOST})
    answer = client.getresponse()
    content = answer.read()
    return ";hit" in (answer.getheader("Cache-Status") or ""), content


def body(number, version):
    """Bytes that the number and the version determine: mostly a few kilobytes, now and then many pieces."""
    seeded = random.Random(f"length {number}")
    length = seeded.choice([seeded.randrange(600), seeded.randrange(12_000), seeded.randrange(12_000), seeded.randrange(60_000), seeded.randrange(400_000) if number % 16 == 0 else 2000])
    name = f"{number} {version}\n".encode()
    line = hashlib.sha256(name).hexdigest().encode()
    return name + (line * (length // len(line) + 1))[:length]


def version_of(number, content):
    """The version whose body this is, whole. None when it is no such body."""
    words = content.split(b"\n", 1)[0].split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or int(words[0]) != number:
        return None
    return int(words[1]) if content == body(number, int(words[1])) else None


def backing_folder(undo, folder):
    """Where files can be cloned: XFS on a loop device of its own. Otherwise the folder itself, and that they cannot."""
    if not shutil.which("mkfs.xfs"):
        print("power_loss.py: there is no mkfs.xfs: no write is cut in two by these copies", file=sys.stderr)
        return folder, False
    device = loop_device(undo, folder / "backing", 3072 * MIB)
    tool("mkfs.xfs", "-q", "-m", "reflink=1", str(device))
    mount(undo, device, folder / "backing-mount")
    return folder / "backing-mount", True


CLIENTS = 4
# Seconds between two requests of a client, so that the device holds all that is stored in a minute.
PAUSE = 0.004


if __name__ == "__main__":
    main()
