"""A WebDAV share by WsgiDAV: files written, moved, locked and removed by two users, and read by everybody else, who see each change at once."""

import base64
import random
import shutil
import subprocess

from ground import call, free_ports, must, program
from node import Node
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGES = ["wsgidav==4.4.0", "cheroot==11.1.2"]
LOCK = b"""<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>"""


class Member:
    """A user of the share, who logs in with each request."""

    def __init__(self, node, name):
        self.visitor = node.visitor()
        word = base64.b64encode(f"{name}:{name}-secret".encode()).decode()
        self.login = {"Authorization": f"Basic {word}"}

    def ask(self, method, path, body=None, expect=(200, 201, 204, 207), **fields):
        return self.visitor.ask(method, path, body, expect, **self.login, **fields)

    def send(self, method, path, to, **fields):
        return self.ask(method, path, Destination=self.visitor.base + to, **fields)


def trial(ground):
    python = ground.virtual_environment("webdav", *PACKAGES)
    (port,) = free_ports(1)
    for name in ("public", "team"):
        (ground.folder / "share" / name).mkdir(parents=True)
    ground.start(python, HERE / "webdav_server.py", port, ground.folder / "share", port=port, name="wsgidav")
    node = Node(ground, "WebDAV", [port])
    ground.ending.callback(node.stop)
    ada, bob, anybody = Member(node, "ada"), Member(node, "bob"), node.visitor()
    team(ada, bob)
    readers(ada, anybody)
    node.upgrade()
    readers(ada, anybody, "after")
    large(ground, node, ada)
    used = "two users and readers, locks, moves, 30 MB in chunks, an upgrade"
    if shutil.which("rclone"):
        synchronized(ground, node)
        used += ", rclone"
    return [["WebDAV (WsgiDAV)", used, *node.share().row()]]


def team(ada, bob):
    """What both may write: neither sees an old form of the other's file, and a lock holds."""
    ada.ask("MKCOL", "/team/plans")
    for number in range(5):
        writer, reader = (ada, bob) if number % 2 else (bob, ada)
        writer.ask("PUT", "/team/plans/one.txt", f"plan {number}".encode(), If_None_Match="" if number else "*")
        must(reader.ask("GET", "/team/plans/one.txt").text == f"plan {number}", f"plan {number} is read at once")
    must("one.txt" in bob.ask("PROPFIND", "/team/plans/", Depth="1").text, "the folder lists its file")
    token = ada.ask("LOCK", "/team/plans/one.txt", LOCK, Timeout="Second-300", Content_Type="application/xml").fields["Lock-Token"]
    bob.ask("PUT", "/team/plans/one.txt", b"bob's", expect=423)
    ada.ask("PUT", "/team/plans/one.txt", b"ada's", If=f"({token})")
    ada.ask("UNLOCK", "/team/plans/one.txt", Lock_Token=token)
    must(bob.ask("GET", "/team/plans/one.txt").text == "ada's", "the lock's holder wrote last")
    ada.send("COPY", "/team/plans/one.txt", "/team/plans/two.txt")
    ada.send("MOVE", "/team/plans/two.txt", "/team/plans/three.txt")
    bob.ask("GET", "/team/plans/two.txt", expect=404)
    must(bob.ask("GET", "/team/plans/three.txt").text == "ada's", "the moved file is there")
    etag = bob.ask("GET", "/team/plans/three.txt").fields["ETag"]
    ada.ask("PUT", "/team/plans/three.txt", b"newer, and longer")
    bob.ask("PUT", "/team/plans/three.txt", b"lost update", expect=412, If_Match=etag)


def readers(ada, anybody, run="before"):
    """Readers without a password are served from the cache, and see each change at once."""
    for name, text in (("one", "first"), ("two", "second")):
        ada.ask("PUT", f"/public/{run}-{name}.txt", text.encode())
        for _ in range(4):
            must(anybody.get(f"/open/{run}-{name}.txt").text == text, f"{name} is read")
    ada.ask("PUT", f"/public/{run}-one.txt", b"changed")
    must(anybody.get(f"/open/{run}-one.txt").text == "changed", "a change by another path is seen at once")
    ada.send("MOVE", f"/public/{run}-two.txt", f"/public/{run}-one.txt", Overwrite="T")
    must(anybody.get(f"/open/{run}-one.txt").text == "second", "a file moved over another is seen at once")
    anybody.get(f"/open/{run}-two.txt", expect=404)
    ada.ask("MKCOL", f"/public/{run}-folder")
    ada.ask("PUT", f"/public/{run}-folder/deep.txt", b"deep")
    must(anybody.get(f"/open/{run}-folder/deep.txt").text == "deep", "a file in a folder")
    ada.ask("DELETE", f"/public/{run}-folder")
    anybody.get(f"/open/{run}-folder/deep.txt", expect=404)


def large(ground, node, ada):
    """Thirty megabytes of unknown length by curl, and a part of them."""
    file = ground.folder / "large.bin"
    file.write_bytes(random.Random(31).randbytes(30_000_000))
    command = ["curl", "--silent", "--show-error", "--fail", "--cacert", ground.ca, "--user", "ada:ada-secret", "--upload-file", "-"]
    with open(file, "rb") as body:
        done = subprocess.run([str(part) for part in [*command, f"{node.url}/public/large.bin"]], stdin=body, capture_output=True, text=True)
    must(done.returncode == 0, f"curl sends the file: {done.stderr}")
    for path, asked in (("/public/large.bin", ada.ask), ("/open/large.bin", node.visitor().ask)):
        must(asked("GET", path).body == file.read_bytes(), f"{path} comes back whole")
        part = asked("GET", path, expect=206, Range="bytes=1000000-1999999")
        must(part.body == file.read_bytes()[1_000_000:2_000_000], "a part of it")


def synchronized(ground, node):
    """rclone copies a tree up and down, and finds no difference."""
    source, back, settings = ground.folder / "tree", ground.folder / "back", ground.folder / "rclone.conf"
    made = random.Random(7)
    for number in range(40):
        file = source / f"folder {number % 4}" / f"füle {number}.bin"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(made.randbytes(made.randrange(1, 60_000)))
    secret = call(program("rclone"), "obscure", "bob-secret").strip()
    settings.write_text(f"[share]\ntype = webdav\nurl = {node.url}/team\nvendor = other\nuser = bob\npass = {secret}\n")
    rclone = ["rclone", "--config", settings, "--ca-cert", ground.ca]
    call(*rclone, "sync", source, "share:tree")
    call(*rclone, "check", "--download", source, "share:tree")
    shutil.rmtree(source / "folder 1")
    call(*rclone, "sync", source, "share:tree")
    call(*rclone, "copy", "share:tree", back)
    call("diff", "-r", source, back)
