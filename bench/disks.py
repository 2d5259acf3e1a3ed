"""What the benches of the disk store share: loop devices and file systems on them, the tools that make them."""

import os
import subprocess
import sys

from pathlib import Path


def loop_device(undo, image, device_bytes=None):
    """A loop device over a file, which is made with so many bytes if they are given; gives its path."""
    if device_bytes:
        with open(image, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, device_bytes)
    device = Path(tool("losetup", "--direct-io=on", "--show", "-f", str(image)).strip())
    undo.callback(subprocess.run, ["losetup", "-d", str(device)])
    return device


def make_ext4(device):
    """An empty file system that does nothing in the background."""
    tool("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard", str(device))


def mount(undo, device, folder):
    """Mounts a device until the bench ends."""
    folder.mkdir(exist_ok=True)
    tool("mount", "-o", "noatime", str(device), str(folder))
    undo.callback(subprocess.run, ["umount", str(folder)])


def tool(*command):
    """What a program writes; a failure ends the bench with what it said."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{Path(sys.argv[0]).name}: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
