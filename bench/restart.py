#!/usr/bin/env python3
"""How soon a killed node serves what it has on disk, with up to ten million objects.

    python3 bench/restart.py [--objects 200000,1000000,10000000] [--end kill,close,power]

For each number of objects and each end: a node stores one object and is stopped; `cargo bench -p shoal-store --bench fill` stores the
others like it, through the store's own calls; it is killed with signal 9, closed in order by a node that is then stopped, or loses
its power. Its index is put out of the page cache, and then `shoal run` is started and asked at once for objects chosen at random, one on each
of sixteen connections, and then on one. Told are the time from exec to the first hit and to the sixteenth, the share of hits among the next thousand answers, when
all of a thousand were hits, and the RAM of the index, once 20,000 more objects have been asked for.

For a loss of power the store lies on ext4 on a loop device, and the file system is shut down at once (EXT4_IOC_SHUTDOWN
without a flush of its log), so that whatever was not synced is gone; that needs root and is skipped, and said, without. Ten million
objects take 7 GB of disk and a few minutes. Prints a Markdown table; --write puts it into docs/experiments/restart.md.
"""

import argparse
import contextlib
import fcntl
import http.client
import http.server
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import machine
import network
import page
import programs

from disks import loop_device, make_ext4, mount, tool
from pathlib import Path
from servers import free_port

ROOT = Path(__file__).resolve().parent.parent
HOST = "restart.example"
BODY_BYTES = 100
# That ask at once.
CONNECTIONS = 16
# A record of such an object with its line in the contents, generously.
RECORD_BYTES = 720
MIB = 1 << 20


def main():
    network.enter()
    options = arguments()
    rows = []
    for objects in options.objects:
        for end in options.end:
            if end == "power" and os.geteuid() != 0:
                print("restart.py: a loss of power is skipped: a file system can be shut down by root only", file=sys.stderr)
                continue
            print(f"restart.py: {objects} objects, {end}", file=sys.stderr)
            with contextlib.ExitStack() as undo:
                rows.append((objects, end, one(undo, options, objects, end)))
            print(row_of(*rows[-1]), file=sys.stderr)
    text = table(rows)
    print(text)
    if options.write:
        page.write("restart.md", "restart.py", text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--objects", type=numbers, default=[200_000, 1_000_000, 10_000_000])
    parser.add_argument("--end", type=lambda text: text.split(","), default=["kill", "close", "power"])
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for stores and loop devices")
    parser.add_argument("--fill", help="the program that fills volumes, where cargo need not build it")
    programs.add_shoal(parser)
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/restart.md")
    return parser.parse_args()


def one(undo, options, objects, end):
    folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="shoal-restart-", dir=options.folder)))
    disk_bytes = objects * RECORD_BYTES + objects * 10 + 64 * MIB
    device = None
    store = folder / "store"
    if end == "power":
        # With what a node wants left free beside its store.
        device, store = ext4(undo, folder, disk_bytes + disk_bytes // 8 + 512 * MIB)
    node = Node(options.shoal, folder, store, disk_bytes, objects)
    undo.callback(node.kill)
    origin = Origin()
    node.write_settings(origin.server_address[1])
    node.start()
    first = node.ask(0)
    assert first == (False, body(0)), f"the first request came out as {first}"
    time.sleep(2.5)
    node.stop()
    origin.shutdown()
    origin.server_close()
    filled = fill(undo, options, store, disk_bytes, objects)
    if end == "power":
        forget_marks(store)
        shut_down(store)
    filled.kill()
    filled.wait()
    if end == "power":
        tool("umount", str(store.parent))
        tool("mount", "-o", "noatime", str(device), str(store.parent))
    if end == "close":
        node.start()
        node.wait_until_all_hit(objects)
        node.stop()
    forget(store)
    return measured(node, objects, store)


def measured(node, objects, store):
    """Starts the node and tells what it serves, and when."""
    seeded = random.Random(objects)
    begin = node.start(waits=False)
    times = sorted(side_by_side(node, [seeded.randrange(1, objects + 1) for _ in range(CONNECTIONS)]))
    first_hit, last_of_first = (time - begin for time in (times[0], times[-1]))
    hits = 0
    for _ in range(1000):
        number = seeded.randrange(1, objects + 1)
        was_hit, content = node.ask(number)
        if was_hit:
            assert content == body(number), f"object {number} has another's bytes"
            hits += 1
    first_thousand = time.monotonic() - begin
    all_hit = node.wait_until_all_hit(objects) - begin
    before = node.memory()
    for _ in range(20_000):
        node.ask(seeded.randrange(1, objects + 1))
    index = node.index_resident()
    result = {
        "first_hit": first_hit,
        "last_of_first": last_of_first,
        "hits": hits,
        "first_thousand": first_thousand,
        "all_hit": all_hit,
        "index_resident": index,
        "index_bytes": (store / "volume.index").stat().st_size,
        "memory": before,
    }
    node.stop()
    return result


def side_by_side(node, numbers):
    """Asks for each object on a connection of its own; gives the instants at which they were hits."""
    times = []

    def ask(number):
        connection = http.client.HTTPConnection("127.0.0.1", node.port)
        # One of many thousands found no place in the index.
        for _ in range(1000):
            connection.request("GET", f"/object/{number}", headers={"Host": HOST})
            answer = connection.getresponse()
            content = answer.read()
            if ";hit" in (answer.getheader("Cache-Status") or ""):
                times.append(time.monotonic())
                assert content == body(number), f"object {number} has another's bytes"
                return

    threads = [threading.Thread(target=ask, args=(number,)) for number in numbers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


class Node:
    """A node of one volume that asks an origin which is there for the first object alone."""

    def __init__(self, program, folder, store, disk_bytes, objects):
        self.program = programs.checked(program)
        self.folder, self.store, self.disk_bytes, self.objects = folder, store, disk_bytes, objects
        self.port = free_port()
        self.process = self.connection = None

    def write_settings(self, origin_port):
        (self.folder / "shoal.toml").write_text(f"""
[[listen]]
address = "127.0.0.1:{self.port}"
mode = "reverse"

[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://127.0.0.1:{origin_port}" }}]

[cache]
ram = "32 MiB"

[store]
directory = "{self.store}"
disk = "{self.disk_bytes} B"
max_objects = {self.objects}

[admin]
listen = "none"
""")

    def start(self, waits=True):
        """Starts it; gives the instant of exec."""
        begin = time.monotonic()
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            command = [self.program, "run", "--config", str(self.folder / "shoal.toml")]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.connect()
        return begin

    def connect(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                made = socket.create_connection(("127.0.0.1", self.port), 5)
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"restart.py: the node does not start:\n{(self.folder / 'log').read_text()}")
                time.sleep(0.0005)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port)
        self.connection.sock = made

    def ask(self, number):
        """Whether it was a hit, and the body."""
        self.connection.request("GET", f"/object/{number}", headers={"Host": HOST})
        answer = self.connection.getresponse()
        content = answer.read()
        return ";hit" in (answer.getheader("Cache-Status") or ""), content

    def wait_until_all_hit(self, objects):
        """Gives the instant at which a thousand objects in a row were hits."""
        seeded = random.Random(1)
        deadline = time.monotonic() + 120
        since, row = time.monotonic(), 0
        while row < 1000:
            was_hit, _ = self.ask(seeded.randrange(1, objects + 1))
            if not was_hit:
                since, row = time.monotonic(), -1
            row += 1
            if time.monotonic() > deadline:
                sys.exit("restart.py: objects are missing two minutes after the start")
        return since

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("Rss")}

    def index_resident(self):
        """Bytes of the mapped index that are in RAM, its own copies of pages included."""
        resident, is_index = 0, False
        for line in Path(f"/proc/{self.process.pid}/smaps").read_text().splitlines():
            if "-" in line.split(" ", 1)[0]:
                is_index = line.endswith("volume.index")
            elif is_index and line.startswith("Rss:"):
                resident += int(line.split()[1]) * 1024
        return resident

    def stop(self):
        self.end(signal.SIGTERM)

    def kill(self):
        self.end(signal.SIGKILL)

    def end(self, number):
        if self.process:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None


class Origin(http.server.ThreadingHTTPServer):
    """Answers everything with the body of object 0, to be kept for a year."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), OriginHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class OriginHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(BODY_BYTES))
        self.send_header("Cache-Control", "public, max-age=31536000")
        self.send_header("ETag", '"5f3a-1"')
        self.end_headers()
        self.wfile.write(body(0))

    def log_message(self, *_):
        pass


def body(number):
    """As the bench `fill` makes it."""
    return (f"{number} " * BODY_BYTES)[:BODY_BYTES].encode()


def fill(undo, options, store, disk_bytes, objects):
    """Fills the store and gives the process that has it open."""
    begin = time.monotonic()
    process = subprocess.Popen([options.fill or built(), str(store), str(disk_bytes), str(objects)], stdout=subprocess.PIPE, text=True)
    undo.callback(process.wait)
    undo.callback(process.kill)
    said = process.stdout.readline().split()
    if not said or said[0] != "filled":
        sys.exit("restart.py: the volume could not be filled")
    print(f"restart.py: {said[1]} objects stored in {time.monotonic() - begin:.1f} s", file=sys.stderr)
    # What waits in RAM is on disk after a second.
    time.sleep(2.5)
    return process


def built():
    """The program that fills volumes."""
    command = ["cargo", "bench", "-q", "-p", "shoal-store", "--bench", "fill", "--no-run", "--message-format=json"]
    messages = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    programs = [json.loads(line).get("executable") for line in messages.splitlines()]
    return [program for program in programs if program][-1]


def forget(store):
    """Puts the store's files out of the page cache, as far as they are on disk."""
    for path in store.iterdir():
        if path.is_file():
            with open(path, "rb+") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def ext4(undo, folder, device_bytes):
    """A new file system on a loop device; gives the device and a folder for the store."""
    device = loop_device(undo, folder / "image", device_bytes)
    make_ext4(device)
    mount(undo, device, folder / "mount")
    return device, folder / "mount" / "store"


def shut_down(store):
    """Ends all I/O of the store's file system at once."""
    shutdown, without_flush = 0x8004587D, 2
    number = os.open(store, os.O_RDONLY)
    fcntl.ioctl(number, shutdown, struct.pack("I", without_flush))
    os.close(number)


def forget_marks(store):
    """Takes from shared memory what a loss of power takes: the marks of changed objects."""
    with open(store / "volume", "rb") as volume:
        (number,) = struct.unpack("<16xQ", volume.read(24))
    for marks in Path(f"/dev/shm/shoal-{os.geteuid()}").glob(f"{number:016x}-*"):
        marks.unlink()


def table(rows):
    lines = [f"Machine: {machine.described()}.", f"Command: `python3 bench/restart.py {' '.join(shown())}`.".replace(" `.", "`."), ""]
    lines += ["| objects | ended by | first hit after | sixteenth | hits among the next 1,000 | these took | all hit from | index | B an object | of it resident | RSS of the process |"]
    lines += ["|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    return "\n".join(lines + [row_of(*row) for row in rows])


def row_of(objects, end, found):
    return (
        f"| {objects:,} | {ENDS[end]} | {seconds(found['first_hit'])} | {seconds(found['last_of_first'])} | {found['hits'] / 10:.1f}% | {seconds(found['first_thousand'])} "
        f"| {seconds(found['all_hit'])} | {found['index_bytes'] / 1e6:.1f} MB | {found['index_bytes'] / objects:.2f} "
        f"| {found['index_resident'] / 1e6:.1f} MB | {found['memory']['RssAnon'] / 1e6:.0f} MB anonymous, {found['memory']['RssFile'] / 1e6:.0f} MB of files |"
    )


ENDS = {"kill": "kill -9", "close": "close in order", "power": "loss of power"}


def seconds(value):
    return "never" if value is None else f"{value:.3f} s"


def shown():
    """Arguments without what only names places on this machine."""
    words, skip = [], False
    for word in sys.argv[1:]:
        if not skip and word not in ("--folder", "--fill", "--shoal", "--write"):
            words.append(word)
        skip = word in ("--folder", "--fill", "--shoal")
    return words


if __name__ == "__main__":
    main()
