"""Puts what a bench found into its place on a page of docs/experiments."""

import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write(page, script, text):
    """Replaces what stands between the marks of `script` on docs/experiments/`page`."""
    begin, end = f"<!-- result: written by bench/{script} --write -->", "<!-- end of result -->"
    path = os.path.join(ROOT, "docs", "experiments", page)
    with open(path) as file:
        whole = file.read()
    if begin not in whole:
        raise SystemExit(f"docs/experiments/{page} has no place for the result of bench/{script}")
    head, rest = whole.split(begin, 1)
    _, tail = rest.split(end, 1)
    with open(path, "w") as file:
        file.write(f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}")
