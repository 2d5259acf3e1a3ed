"""The blocks of docs/APPLICATIONS.md, and the same settings made to run on this machine.

Each application has a section with one block of settings. What is tried is that block: only its addresses, files, and the host become those
of the trial.
"""

import re

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "APPLICATIONS.md"
HOST = "localhost"


def block(heading):
    """The first block of settings below a heading of the page."""
    text = PAGE.read_text()
    parts = re.split(rf"^## {re.escape(heading)}$", text, flags=re.MULTILINE)
    if len(parts) != 2:
        raise SystemExit(f"{PAGE.name} has {len(parts) - 1} sections {heading!r}")
    section = re.split(r"^## ", parts[1], flags=re.MULTILINE)[0]
    found = re.search(r"^```toml\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    if not found:
        raise SystemExit(f"{PAGE.name}: the section {heading!r} has no block of settings")
    return found.group(1)


class Trial:
    """A block with the addresses, files and host of one trial."""

    def __init__(self, heading, folder, upstreams, ports, certificate):
        text, listeners, urls = block(heading), iter(ports), iter(upstreams)
        text = re.sub(r'^address = "[^"]*"', lambda _: f'address = "127.0.0.1:{next(listeners)}"', text, flags=re.MULTILINE)
        text = re.sub(r'url = "(https?)://[^"/]*', lambda found: f'url = "{found[1]}://127.0.0.1:{next(urls)}', text)
        text = re.sub(r'certificate = "[^"]*"', f'certificate = "{certificate}.pem"', text)
        text = re.sub(r'key = "/[^"]*"', f'key = "{certificate}.key"', text)
        text = re.sub(r'^directory = "[^"]*"', f'directory = "{folder}/store"', text, flags=re.MULTILINE)
        text = re.sub(r'^disk = "[^"]*"', 'disk = "512 MiB"', text, flags=re.MULTILINE)
        text = re.sub(r'^object_max = "[^"]*"', 'object_max = "256 MB"', text, flags=re.MULTILINE)
        text = re.sub(r"\b[a-z]+\.example\b", HOST, text)
        text = re.sub(r"^redirect_https = \d+$", f"redirect_https = {ports[-1]}", text, flags=re.MULTILINE)
        self.text = text


def ports_wanted(heading):
    """How many addresses the block listens at, the one of https last."""
    return len(re.findall(r'^address = "', block(heading), flags=re.MULTILINE))
