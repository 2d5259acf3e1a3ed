"""A git server by `git http-backend`: two users push and everybody clones, also packs of unknown length, and all see the newest commit."""

import base64
import os
import random
import subprocess

from ground import Missing, call, must, program
from node import Node
from origin import Origin
from pathlib import Path


class Forge:
    """`git http-backend` for the repositories of a folder: reading is free, pushing needs a password."""

    def __init__(self, folder):
        self.folder, self.chunked = folder, 0
        self.backend = Path(call(program("git"), "--exec-path").strip()) / "git-http-backend"
        if not self.backend.exists():
            raise Missing("git http-backend")

    def answer(self, asked):
        self.chunked += asked.headers.get("Transfer-Encoding", "").lower() == "chunked"
        path, _, query = asked.path.partition("?")
        body = asked.body()
        login = base64.b64decode(asked.headers.get("Authorization", "").removeprefix("Basic ")).decode()
        user, _, secret = login.partition(":")
        if "git-receive-pack" in asked.path and secret != f"{user}-secret":
            return asked.whole(401, b"who?", WWW_Authenticate='Basic realm="git"')
        environment = {"GIT_PROJECT_ROOT": str(self.folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
                       "REQUEST_METHOD": asked.command, "CONTENT_TYPE": asked.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
                       "REMOTE_USER": user, "REMOTE_ADDR": "127.0.0.1", "HTTP_CONTENT_ENCODING": asked.headers.get("Content-Encoding", ""),
                       "GIT_PROTOCOL": asked.headers.get("Git-Protocol", ""), "PATH": os.environ["PATH"], "HOME": str(self.folder),
                       "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run([self.backend], input=body, capture_output=True, env=environment)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        status = int(fields.pop("Status", "200").split()[0])
        asked.whole(status, content, **{name.replace("-", "_"): value for name, value in fields.items()})


def trial(ground):
    forge = Forge(ground.folder / "repositories")
    call("git", "init", "--quiet", "--bare", "--initial-branch=main", forge.folder / "demo.git")
    call("git", "-C", forge.folder / "demo.git", "config", "http.receivepack", "true")
    origin = Origin(forge.answer)
    ground.ending.callback(origin.stop)
    node = Node(ground, "Git", [origin.port])
    ground.ending.callback(node.stop)
    users = {user: User(ground, node, user) for user in ("ada", "bob")}
    users["ada"].begin()
    users["bob"].clone()
    for number in range(3):
        for user in users.values():
            user.pull()
            user.push(f"{user.name} {number}")
            for other in users.values():
                other.pull()
                must(other.newest() == f"{user.name} {number}", f"{other.name} has the commit of {user.name}")
        if number == 1:
            node.upgrade()
    must(not users["ada"].tries("push", "--quiet", node.url.replace("https://", "https://bob:wrong@") + "/demo.git", "main"), "a password is needed")
    # Above `http.postBuffer` git sends a pack without its length, and asks first. By HTTP/2 the
    # git of Debian 12 may hang then (docs/APPLICATIONS.md): it reads on behind the pack's end.
    before = forge.chunked
    users["ada"].push("chunks", 5_000_000, "http.version=HTTP/1.1")
    must(forge.chunked > before, "the large pack came in chunks")
    users["ada"].push("large", 5_000_000, "http.postBuffer=8000000")
    fresh = User(ground, node, "eve")
    fresh.clone("--depth", "1")
    must(fresh.newest() == "large", "a shallow clone has the newest commit")
    call("git", "-C", forge.folder / "demo.git", "fsck", "--strict")
    must(not any(line["outcome"] in ("hit", "memory_hit", "collapsed") for line in node.lines()), "nothing of git comes from the cache")
    return [["Git (http-backend)", "two users push by turns, 5 MB twice, once in chunks, clones, an upgrade", *node.share().row()]]


class User:
    """A clone with the user's own settings."""

    def __init__(self, ground, node, name):
        self.name, self.folder = name, ground.folder / f"work-{name}"
        self.remote = f"https://{name}:{name}-secret@{node.url.removeprefix('https://')}/demo.git"
        self.environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_TERMINAL_PROMPT": "0", "HOME": str(ground.folder),
                            "GIT_SSL_CAINFO": str(ground.ca), "LC_ALL": "C.UTF-8"}
        for role in ("AUTHOR", "COMMITTER"):
            self.environment |= {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": f"{name}@localhost.test"}

    def git(self, *arguments, fails=False):
        return call("git", "-C", self.folder, *arguments, env=self.environment, fails=fails)

    def tries(self, *arguments):
        """Says if a command works."""
        command = ["git", "-C", str(self.folder), *arguments]
        return subprocess.run(command, capture_output=True, env={**os.environ, **self.environment}).returncode == 0

    def begin(self):
        self.folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("remote", "add", "origin", self.remote)
        self.push("first")

    def clone(self, *options):
        call("git", "clone", "--quiet", *options, self.remote, self.folder, env=self.environment)

    def pull(self):
        self.git("pull", "--quiet", "--rebase", "origin", "main")

    def push(self, message, size=20_000, setting="http.version=HTTP/2"):
        (self.folder / f"{message}.bin").write_bytes(random.Random(message).randbytes(size))
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", message)
        self.git("-c", setting, "push", "--quiet", "origin", "main")

    def newest(self):
        return self.git("log", "--format=%s", "-1").strip()
