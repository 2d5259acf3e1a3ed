"""The programs of this workspace that a bench runs.

Every bench that starts shoal takes `--shoal PATH`; without it the environment variable SHOAL_BIN names the binary, and without that it is
the release build. So one built by `cargo xtask release` is measured by naming it.
"""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def add_shoal(parser):
    """The option that names the binary. The path is absolute, since servers are started in folders of their own; and the variable does not reach
    them, since shoal takes it for a setting and refuses it."""
    default = os.environ.pop("SHOAL_BIN", None) or release("shoal")
    parser.add_argument("--shoal", type=os.path.abspath, default=default, metavar="PATH", help="the binary; by default SHOAL_BIN, or the release build")


def release(name):
    """Where the release build of a program stands."""
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return os.path.join(ROOT, target, "release", name)


def checked(path):
    """The path, when there is a program."""
    if not os.access(path, os.X_OK):
        raise SystemExit(f"{path} is not there: cargo build --release -p shoal -p shoal-testkit, or name another shoal by --shoal or SHOAL_BIN")
    return path
