#!/usr/bin/env python3
"""The Debian package as a new user meets it: a clean chroot, from `apt-get install` to the first hit, an upgrade, a purge.

    cargo xtask package
    python3 bench/package.py [--packages target/packages] [--chroot FOLDER]

Makes a chroot of the running release with `mmdebstrap` (or takes one that exists, as it is), installs the package there with apt-get,
starts the node with the package's settings as the package's user, and asks twice for a file of an origin on loopback. Then it installs
the same package as a newer version with changed units, over changed settings, a drop-in and a filled cache. It checks that the new unit and
the operator's drop-in are there and hold together, and which commands systemd would get (a stand-in writes them down). It asks again, removes
the package, purges it, and lists what is left. Needs root, apt-get with an archive that answers, and mmdebstrap. Prints a Markdown table; `--write` puts it into
docs/experiments/package.md. Fails if any step does.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

import page

from pathlib import Path
from servers import Origin

PROXY = 3128


def main():
    options = arguments()
    package = next(iter(sorted(Path(options.packages).glob("shoal_*_amd64.deb"))), None)
    if not package:
        sys.exit(f"no package in {options.packages}: run `cargo xtask package` first")
    with contextlib.ExitStack() as stack:
        folder = options.chroot or stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-chroot-"))
        chroot = Chroot(Path(folder))
        if not options.chroot:
            chroot.make()
        origin = Origin()
        stack.callback(origin.stop)
        rows = trial(chroot, package, origin)
    table = "\n".join("| " + " | ".join(row) + " |" for row in [["step", "seen"], ["---", "---"], *rows])
    print(table)
    if options.write:
        page.write("package.md", "package.py", table)


def trial(chroot, package, origin):
    """Every step in order; each raises if what must hold does not."""
    before = chroot.files()
    begun = time.monotonic()
    chroot.install(package)
    settings = chroot.root / "etc/shoal/shoal.toml"
    user = chroot.run("id", "-u", "shoal").strip()
    with chroot.node(origin):
        first, second = ask(origin), ask(origin)
        seconds = time.monotonic() - begun
        must(first == "miss" and second == "hit", f"first {first}, then {second}")
        status = chroot.run("shoal", "status")
    rows = [["`apt-get install` to the first hit", f"{seconds:.1f} s"]]
    rows.append(["the node's user", f"`shoal`, uid {user}; `shoal status` says: {status.splitlines()[0]}"])
    rows.append(["files", f"{len(chroot.files() - before)}, {installed_mb(chroot):.1f} MB"])

    settings.write_text(settings.read_text() + "\n# the operator's own line\n")
    with chroot.systemd() as told:
        dropin = chroot.dropin("[Service]\nReadWritePaths=/srv\n")
        chroot.install(newer(package, chroot.root))
        commands = told()
    must("the operator's own line" in settings.read_text(), "an upgrade keeps the operator's settings")
    check_units(chroot, dropin, commands)
    with chroot.node(origin):
        after = ask(origin)
        must(after == "hit", f"after the upgrade {after}")
    rows.append(["upgrade over changed settings", "settings kept, the cache's object is a hit"])
    rows.append(["upgrade with changed units", "new unit in place, drop-in kept, `systemd-analyze verify` has no complaint, units read again, then a restart"])
    shutil.rmtree(dropin.parent)

    chroot.run("apt-get", "-qq", "-y", "remove", "shoal")
    must(settings.exists(), "a removal keeps the settings")
    must((chroot.root / "var/cache/shoal").exists(), "a removal keeps the cache")
    rows.append(["`apt-get remove`", "program gone, settings and cache kept"])
    chroot.run("apt-get", "-qq", "-y", "purge", "shoal")
    left = sorted(str(path) for path in chroot.files() - before if "shoal" in str(path).lower())
    must(not left, f"a purge leaves {left}")
    must(subprocess.run(["chroot", chroot.root, "id", "shoal"], capture_output=True).returncode != 0, "the user is gone")
    rows.append(["`apt-get purge`", "nothing left, the user neither"])
    return rows


class Chroot:
    """A clean Debian in a folder."""

    def __init__(self, root):
        self.root = root

    def make(self):
        release = os_release()["VERSION_CODENAME"]
        sources = [path for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")] if path.exists()]
        print(f"making a chroot of {release}, a minute", file=sys.stderr)
        call("mmdebstrap", "--quiet", "--variant=apt", release, self.root, *sources)

    def run(self, *command):
        environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
        return call("chroot", self.root, *command, env=environment)

    def install(self, package):
        # How this machine reaches its archive.
        for place in Path("/etc/apt/apt.conf.d").iterdir():
            if "Acquire::" in place.read_text():
                shutil.copy(place, self.root / "etc/apt/apt.conf.d")
        shutil.copy(package, self.root / "srv/shoal.deb")
        self.run("apt-get", "-qq", "update")
        self.run("apt-get", "-qq", "-y", "--no-install-recommends", "install", "/srv/shoal.deb")

    @contextlib.contextmanager
    def systemd(self):
        """A stand-in for systemd while the block runs: gives a function that returns the commands it got."""
        booted, log = self.root / "run/systemd/system", self.root / "srv/systemctl.log"
        booted.mkdir(parents=True)
        # An active service, of which `shoal upgrade` finds no process: the package falls back to a restart.
        write_program(self.root / "usr/local/bin/systemctl", f'echo "systemctl $*" >> /{log.relative_to(self.root)}\n')
        write_program(self.root / "usr/local/bin/deb-systemd-invoke", f'echo "invoke $*" >> /{log.relative_to(self.root)}\n')
        try:
            yield lambda: log.read_text().splitlines() if log.exists() else []
        finally:
            booted.rmdir()
            for program in ["systemctl", "deb-systemd-invoke"]:
                (self.root / "usr/local/bin" / program).unlink()
            log.unlink(missing_ok=True)

    def dropin(self, text):
        """A drop-in as `systemctl edit shoal` writes it."""
        path = self.root / "etc/systemd/system/shoal.service.d/override.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    @contextlib.contextmanager
    def node(self, origin):
        """The node as the unit starts it, for as long as the block runs."""
        command = ["chroot", "--userspec=shoal:shoal", str(self.root), "/usr/bin/shoal", "run", "--config", "/etc/shoal/shoal.toml"]
        command += ["--set", 'forward.allow_private_destinations=["127.0.0.1/32"]']
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as node:
            try:
                wait(lambda: self.answers(), lambda: node.poll() is None)
                yield
            finally:
                node.send_signal(signal.SIGTERM)
                said, _ = node.communicate(timeout=60)
        must(node.returncode == 0, f"the node ended with {node.returncode}: {said}")

    def answers(self):
        return subprocess.run(["chroot", self.root, "shoal", "status", "--health"], capture_output=True).returncode == 0

    def files(self):
        kept = ["etc", "usr", "var", "lib", "opt", "home"]
        found = set()
        for top in kept:
            for folder, names, files in os.walk(self.root / top):
                found.update(Path(folder, name).relative_to(self.root) for name in names + files)
        return found


def check_units(chroot, dropin, commands):
    """The units after an upgrade that changed them."""
    unit = next(path for path in [chroot.root / "lib/systemd/system/shoal.service", chroot.root / "usr/lib/systemd/system/shoal.service"] if path.exists())
    must(LATER_LINE in unit.read_text(), "the unit is the newer package's")
    must("ReadWritePaths=/srv" in dropin.read_text(), "the operator's drop-in is kept")
    left = [path for path in unit.parent.iterdir() if "dpkg" in path.name]
    must(not left, f"no copy of a unit stays behind: {left}")
    verified = subprocess.run(["systemd-analyze", "verify", "--root", chroot.root, "shoal.service"], capture_output=True, text=True)
    complaints = [line for line in verified.stderr.splitlines() if "shoal" in line]
    must(not complaints, f"systemd-analyze verify: {complaints}")
    reloads = [at for at, command in enumerate(commands) if "daemon-reload" in command]
    starts = [at for at, command in enumerate(commands) if command.startswith("invoke restart") and "shoal.service" in command]
    must(reloads and starts and reloads[0] < starts[0], f"units are read again before the restart: {commands}")
    must(not any("stop" in command for command in commands), f"an upgrade stops nothing: {commands}")


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


# What the units of the newer package have and those of this one do not.
LATER_LINE = "Environment=SHOAL_TRIAL_OF_A_LATER_UNIT=1"


def newer(package, root):
    """The same package, as if built from a later version, with another line in its unit."""
    stage = root / "srv/newer"
    call("dpkg-deb", "-R", package, stage)
    control = stage / "DEBIAN/control"
    lines = [f"{line}+later" if line.startswith("Version: ") else line for line in control.read_text().splitlines()]
    control.write_text("\n".join(lines) + "\n")
    for unit in stage.rglob("shoal.service"):
        unit.write_text(unit.read_text().replace("[Service]\n", f"[Service]\n{LATER_LINE}\n", 1))
    later = root / "srv/later.deb"
    call("dpkg-deb", "--root-owner-group", "-Znone", "-b", stage, later)
    shutil.rmtree(stage)
    return later


def ask(origin):
    """`hit` or `miss`, by what the node says of one request."""
    proxy = urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{PROXY}"})
    with urllib.request.build_opener(proxy).open(f"{origin.url}/4096", timeout=10) as answer:
        must(len(answer.read()) == 4096, "the body is whole")
        return "hit" if ";hit" in answer.headers["Cache-Status"] else "miss"


def installed_mb(chroot):
    names = chroot.run("dpkg", "-L", "shoal").split()
    sizes = [(chroot.root / name.lstrip("/")).stat().st_size for name in names if (chroot.root / name.lstrip("/")).is_file()]
    return sum(sizes) / 1e6


def wait(ready, lives, seconds=30):
    end = time.monotonic() + seconds
    while not ready():
        must(lives() and time.monotonic() < end, "the node answers")
        time.sleep(0.05)


def call(*command, env=None):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=env)
    must(done.returncode == 0, f"{' '.join(str(part) for part in command)}: {done.stdout}{done.stderr}")
    return done.stdout


def must(holds, what):
    if not holds:
        sys.exit(f"does not hold: {what}")


def os_release():
    lines = Path("/etc/os-release").read_text().splitlines()
    return {name: value.strip('"') for name, _, value in (line.partition("=") for line in lines)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", default="target/packages", help="folder that `cargo xtask package` wrote")
    parser.add_argument("--chroot", help="a chroot that exists, used as it is")
    parser.add_argument("--write", action="store_true", help="put the table into docs/experiments/package.md")
    return parser.parse_args()


if __name__ == "__main__":
    main()
