"""Shoal in front of an application: started from a recipe, asked for its log, replaced while it serves."""

import json
import os
import signal
import subprocess
import tempfile
import time

import recipe

from ground import free_ports, must, wait_until
from pathlib import Path
from visitor import Visitor

# Outcomes in the access log of a response that the origin did not send.
FROM_CACHE = {"memory_hit", "hit", "collapsed", "stale_while_revalidate", "stale_if_error"}
VALIDATED = {"refresh_unmodified"}


class Node:
    """One node. Its settings are the section's block, and what a trial needs to look at it."""

    def __init__(self, ground, heading, upstreams, change=lambda text: text):
        self.ground, self.marks = ground, 0
        self.folder = Path(tempfile.mkdtemp(prefix="node-", dir=ground.folder))
        *self.plain, self.port, admin = free_ports(recipe.ports_wanted(heading) + 1)
        ports = [*self.plain, self.port]
        settings = recipe.Trial(heading, self.folder, upstreams, ports, ground.certificate).text
        must("[log]" not in settings, "recipes leave the log to the trial")
        self.log = self.folder / "access.log"
        text = change(settings)
        listen = f'[admin]\nlisten = "127.0.0.1:{admin}"\n'
        text = text.replace("[admin]\n", listen) if "[admin]\n" in text else f"{text}\n{listen}"
        text += f'\n[log]\naccess = "{self.log}"\nformat = "json"\n'
        self.admin, self.settings = f"127.0.0.1:{admin}", self.folder / "shoal.toml"
        self.settings.write_text(text)
        self.start()

    @property
    def url(self):
        return f"https://{recipe.HOST}:{self.port}"

    def start(self):
        """Starts the process; a cache that is there is used again."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SHOAL_")}
        self.errors = open(self.folder / "error.log", "a")
        command = [self.ground.shoal, "run", "--config", str(self.settings)]
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=self.errors, stderr=self.errors, env=environment)
        self.pids = [self.process.pid]
        wait_until("the node serves", lambda: self.command("status", "--health").returncode == 0, self.lives)

    def lives(self):
        must(self.process.poll() is None or len(self.pids) > 1, f"the node goes on:\n{self.error_log()}")

    def error_log(self):
        return (self.folder / "error.log").read_text()

    def command(self, *arguments):
        done = subprocess.run([self.ground.shoal, *arguments, "--admin", self.admin], capture_output=True, text=True)
        return done

    def upgrade(self):
        """Replaces the process by another one of the same program."""
        done = self.command("upgrade")
        must(done.returncode == 0, f"the upgrade: {done.stdout}{done.stderr}")
        status = json.loads(self.command("status", "--json").stdout)
        self.pids.append(status["pid"])

    def explain(self, path):
        return self.command("explain", f"{self.url}{path}").stdout

    def visitor(self):
        return Visitor(self.url, self.ground.ca)

    def lines(self):
        """The access log up to now: asks for a page of its own, and waits until that is written."""
        self.marks += 1
        mark = f"/shoal-trial-mark-{self.marks}"
        self.visitor().get(mark, expect=None)
        read = lambda: [json.loads(line) for line in self.log.read_text().splitlines() if line]
        wait_until("the access log has all", lambda: any(mark in line["url"] for line in read()))
        return [line for line in read() if "/shoal-trial-mark-" not in line["url"]]

    def share(self, since=0):
        """Where the responses came from, beginning with a line of the log."""
        return Share(self.lines()[since:])

    def stop(self):
        """Ends every process of the node; one that panicked fails the trial."""
        for pid in reversed(self.pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.errors.close()
        must("panicked at" not in self.error_log(), f"no panic:\n{self.error_log()}")


class Share:
    """Responses to GET and HEAD, and their bytes, by where they came from."""

    def __init__(self, lines):
        asked = [line for line in lines if line["method"] in ("GET", "HEAD") and line["outcome"] != "tunnel"]
        hits = [line for line in asked if line["outcome"] in FROM_CACHE]
        self.all, self.gets, self.hits = len(lines), len(asked), len(hits)
        self.validated = sum(line["outcome"] in VALIDATED for line in asked)
        self.bytes = sum(line["body_bytes"] for line in asked)
        self.hit_bytes = sum(line["body_bytes"] for line in asked if line["outcome"] in FROM_CACHE | VALIDATED)

    def row(self):
        percent = lambda part, whole: f"{100 * part / whole:.0f}%" if whole else "-"
        shares = [percent(self.hits, self.gets), percent(self.validated, self.gets), percent(self.hit_bytes, self.bytes)]
        return [f"{self.all:,}", f"{self.gets:,}", *shares]
