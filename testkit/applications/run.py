#!/usr/bin/env python3
"""Real applications behind Shoal, used as their users use them.

    python3 testkit/applications/run.py [NAME…] [--shoal PATH] [--write]

Each trial starts an application and a node, whose settings are the block of that application on docs/APPLICATIONS.md. It uses the application
over https with a cold and with a warm cache, by two users whose answers must not mix, and while the node is replaced. Whatever does not hold
ends the trial with an error. Without names all trials run. Applications come by pip and npm into `--tools`, or are programs of the system;
a trial without its application is skipped, and says so: exit code 3 if that was the only one.

Prints a Markdown table; --write puts the rows of the trials that ran into docs/experiments/applications.md.
"""

import argparse
import importlib
import os
import sys
import tempfile
import time
import traceback

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "experiments" / "applications.md"
BEGIN, END = "<!-- result: written by testkit/applications/run.py --write -->", "<!-- end of result -->"
HEAD = [["application", "used", "responses", "GET", "from the cache", "validated", "bytes spared"], ["---", "---", *["--:"] * 5]]
SKIPPED = 3

# Name of a trial: its module.
TRIALS = {
    "jupyterlab": "jupyterlab_trial",
    "django": "django_trial",
    "git": "git_trial",
    "registry": "registry_trial",
    "grpc": "grpc_trial",
    "socketio": "socketio_trial",
    "events": "events_trial",
    "webdav": "webdav_trial",
    "hls": "hls_trial",
    "mediawiki": "mediawiki_trial",
}


def main():
    options = arguments()
    results = {name: one(name, options) for name in options.names or TRIALS}
    rows = {name: result for name, result in results.items() if isinstance(result, list)}
    print(table([row for result in rows.values() for row in result]))
    if options.write:
        write(rows)
    if "failed" in results.values():
        return 1
    return SKIPPED if not rows else 0


def one(name, options):
    """Rows of a trial; `skipped` or `failed` without any."""
    from ground import Ground, Missing
    begun = time.monotonic()
    options.tools.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"shoal-{name}-", ignore_cleanup_errors=True) as folder:
        try:
            ground = Ground(folder, options.shoal, options.tools)
            with ground.ending:
                rows = importlib.import_module(TRIALS[name]).trial(ground)
        except Missing as missing:
            print(f"{name}: skipped: {missing} is not installed", file=sys.stderr)
            return "skipped"
        except Exception:
            print(f"{name}: FAILED\n{traceback.format_exc()}{logs(Path(folder))}", file=sys.stderr)
            return "failed"
    print(f"{name}: done in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return rows


def logs(folder):
    """The ends of the logs of a trial that failed."""
    said = ""
    for log in sorted(folder.rglob("*.log")):
        lines = log.read_text(errors="replace").splitlines()
        said += f"--- {log.relative_to(folder)}\n" + "\n".join(line[:300] for line in lines[-12:]) + "\n"
    return said


def table(rows):
    return "\n".join("| " + " | ".join(row) + " |" for row in [*HEAD, *rows])


def write(rows):
    """Replaces the rows of these trials on the page, and keeps the others."""
    before, rest = PAGE.read_text().split(BEGIN, 1)
    old, after = rest.split(END, 1)
    kept = [line.strip().strip("|").split("|") for line in old.splitlines() if line.startswith("| ")][2:]
    kept = [[cell.strip() for cell in row] for row in kept]
    fresh = {row[0].split(" ")[0] for result in rows.values() for row in result}
    found = [row for row in kept if row[0].split(" ")[0] not in fresh] + [row for result in rows.values() for row in result]
    PAGE.write_text(f"{before}{BEGIN}\n\n{table(sorted(found, key=lambda row: row[0].lower()))}\n\n{END}{after}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*TRIALS, []], metavar="NAME", help=", ".join(TRIALS))
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    default = os.environ.pop("SHOAL_BIN", None) or target / "debug" / "shoal"
    parser.add_argument("--shoal", type=os.path.abspath, default=default, help="the binary; by default SHOAL_BIN, or the debug build")
    parser.add_argument("--tools", type=Path, default=target / "applications", help="folder for what pip, npm and Go bring")
    parser.add_argument("--write", action="store_true", help="put the rows into docs/experiments/applications.md")
    options = parser.parse_args()
    options.tools = options.tools.absolute()
    return options


if __name__ == "__main__":
    sys.exit(main())
