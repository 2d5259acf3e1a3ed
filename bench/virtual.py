#!/usr/bin/env python3
"""A machine with Debian's kernel, made of this one's files: for what the kernel at hand was built without, such as TLS (kTLS).

    python3 bench/virtual.py cargo test -p shoal-proxy tls      a command, from this folder, in the machine
    python3 bench/virtual.py --cores 2 -- python3 bench/tls.py  the same with its own cores

The machine has this one's root folder, in which it may write what is forgotten at its end; what the command says comes back, and so does its
exit code. Loopback is its only network. Needs: qemu-system-x86_64 (Debian: qemu-system-x86), apt-get, dpkg-deb, and root, since the machine
reads what its user may. Two packages are downloaded, not installed: the kernel and a static busybox. Its processor is emulated unless `--kvm`
is said: not every /dev/kvm runs a kernel of Debian's (PVM, which some clouds have, takes only guests made for it).
"""

import argparse
import glob
import lzma
import os
import re
import shlex
import subprocess
import sys
import tempfile

KERNEL = "linux-image-amd64"
# Loaded after those that they need; those that a kernel has built in, or does not have, are left out. The first are for the root folder, the
# others for TLS and its ciphers, whose modules the machine's own folder of modules would not have.
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]
MODULES += ["aesni-intel", "ghash-generic", "ghash-clmulni-intel", "ctr", "gcm", "chacha-x86_64", "poly1305-x86_64", "chacha20poly1305", "tls"]
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /dev /lower /made /new
/bin/busybox mount -t proc none /proc
/bin/busybox mount -t devtmpfs none /dev
for module in {modules}; do /bin/busybox insmod /modules/$module.ko; done
share=trans=virtio,version=9p2000.L,msize=512000
/bin/busybox mount -t 9p -o $share,ro,cache=loose root /lower || exec /bin/busybox poweroff -f
/bin/busybox mount -t tmpfs -o size=75% none /made
/bin/busybox mkdir /made/upper /made/work
/bin/busybox mount -t overlay -o lowerdir=/lower,upperdir=/made/upper,workdir=/made/work none /new
for folder in proc sys dev run; do /bin/busybox mkdir -p /new/$folder; done
/bin/busybox mount -t proc none /new/proc
/bin/busybox mount -t sysfs none /new/sys
/bin/busybox mount -t devtmpfs none /new/dev
/bin/busybox mkdir -p /new/dev/shm /new/dev/pts /new/mnt
/bin/busybox mount -t tmpfs none /new/dev/shm
/bin/busybox mount -t devpts none /new/dev/pts
/bin/busybox mount -t tmpfs none /new/run
/bin/busybox mount -t 9p -o $share,rw,cache=none back /new/mnt
/bin/busybox ip link set lo up
/bin/busybox chroot /new /bin/bash /mnt/command > /new/mnt/said 2>&1
echo $? > /new/mnt/code
/bin/busybox sync
/bin/busybox poweroff -f
"""


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="shoal-virtual-") as folder:
        image, modules = kernel(folder, options.kernel)
        archive = initial(folder, modules)
        sys.exit(run(folder, image, archive, options))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default=KERNEL, help="Debian's package of the kernel (%(default)s)")
    parser.add_argument("--kvm", action="store_true", help="let the processor virtualize, rather than emulate one, which takes some twenty times as long")
    parser.add_argument("--instructions", action="store_true", help="have the machine's clock count instructions, each a nanosecond")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--memory", default="6G")
    parser.add_argument("--minutes", type=float, default=20, help="after which the machine is stopped")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    options.command = options.command[options.command[:1] == ["--"]:]
    if not options.command:
        parser.error("no command")
    return options


def kernel(folder, package):
    """The files of Debian's kernel: its image, and the folder of its modules."""
    depends = subprocess.run(["apt-cache", "depends", "--important", package], capture_output=True, text=True, check=True).stdout
    named = [line.split()[1] for line in depends.splitlines() if "Depends: linux-image-" in line]
    return files(folder, (named or [package])[0])


def files(folder, package):
    unpack(folder, package)
    unpack(folder, "busybox-static")
    (image,) = glob.glob(f"{folder}/root/boot/vmlinuz-*")
    (modules,) = glob.glob(f"{folder}/root/lib/modules/*")
    return image, modules


def unpack(folder, package):
    subprocess.run(["apt-get", "download", package], cwd=folder, check=True, capture_output=True)
    (archive,) = glob.glob(f"{folder}/{package}_*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, f"{folder}/root"], check=True)
    os.remove(archive)


def initial(folder, modules):
    """What the machine begins with: busybox, the modules, and what mounts the rest."""
    found = {os.path.basename(path).split(".")[0]: path for path in glob.glob(f"{modules}/kernel/**/*.ko*", recursive=True)}
    loaded = {}
    for name in MODULES:
        load(name, found, loaded)
    entries = [("bin", 0o40755, b""), ("modules", 0o40755, b"")]
    with open(f"{folder}/root/bin/busybox", "rb") as file:
        entries.append(("bin/busybox", 0o100755, file.read()))
    entries += [(f"modules/{name}.ko", 0o100644, text) for name, text in loaded.items()]
    entries.append(("init", 0o100755, INIT.format(modules=" ".join(loaded)).encode()))
    path = os.path.join(folder, "initial")
    with open(path, "wb") as file:
        for number, entry in enumerate(entries + [("TRAILER!!!", 0, b"")], 1):
            file.write(cpio_entry(number, *entry))
    return path


def load(name, found, loaded):
    """Adds a module to those that are loaded, behind those that it names in its section `.modinfo`."""
    path = found.get(name) or found.get(name.replace("_", "-"))
    name = os.path.basename(path).split(".")[0] if path else name
    if not path or name in loaded:
        return
    with open(path, "rb") as file:
        text = file.read()
    text = lzma.decompress(text) if path.endswith(".xz") else text
    needed = re.search(rb"\0depends=([^\0]*)\0", text)
    for other in filter(None, needed.group(1).decode().split(",")) if needed else ():
        load(other, found, loaded)
    loaded[name] = text


def cpio_entry(number, name, mode, content):
    """One file of an archive of the form `newc` (initramfs-buffer-format.rst)."""
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name.encode() + b"\0"
    return padded(head) + padded(content)


def padded(text):
    return text + b"\0" * (-len(text) % 4)


def run(folder, image, archive, options):
    """Runs the command in the machine, and says its exit code."""
    back = os.path.join(folder, "back")
    os.mkdir(back)
    # Those which name this workspace's programs and toolchain.
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "CARGO_TARGET_DIR", "CARGO_HOME", "RUSTUP_HOME", "SHOAL_BIN") if name in os.environ}
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in kept.items())
    with open(os.path.join(back, "command"), "w") as file:
        file.write(f"{exports}cd {shlex.quote(os.getcwd())}\n{shlex.join(options.command)}\n")
    # An emulated `rep movsb`, which those two have the kernel copy with, counts as an instruction for each byte.
    how = ["-accel", "kvm", "-cpu", "host"] if options.kvm else ["-accel", "tcg", "-cpu", "max,-erms,-fsrm" if options.instructions else "max"]
    machine = ["qemu-system-x86_64", *how, "-smp", str(options.cores), "-m", options.memory]
    machine += ["-icount", "shift=0,sleep=off"] if options.instructions else []
    machine += ["-kernel", image, "-initrd", archive, "-append", "console=ttyS0 quiet panic=-1 mitigations=auto"]
    machine += ["-nic", "none", "-display", "none", "-no-reboot", "-serial", f"file:{folder}/console"]
    machine += ["-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap", "-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]
    machine += ["-fsdev", f"local,id=back,path={back},security_model=none", "-device", "virtio-9p-pci,fsdev=back,mount_tag=back"]
    try:
        subprocess.run(machine, timeout=options.minutes * 60, check=True)
    except subprocess.TimeoutExpired:
        print(f"stopped after {options.minutes} minutes", file=sys.stderr)
    for name in ("said", "code"):
        if not os.path.exists(os.path.join(back, name)):
            with open(os.path.join(folder, "console"), errors="replace") as file:
                raise SystemExit(f"the machine did not come so far; its console:\n{file.read()[-4000:]}")
    with open(os.path.join(back, "said"), errors="replace") as file:
        sys.stdout.write(file.read())
    with open(os.path.join(back, "code")) as file:
        return int(file.read())


if __name__ == "__main__":
    main()
