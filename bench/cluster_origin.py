"""The origin of the bench of clusters: every body carries its URL and its version.

    python3 bench/cluster_origin.py ADDRESS PORT

The size is in the path, as in the yardstick's traces (`/e3_s10234.gif`). `GET /-/counts` gives the counts of requests and bytes of bodies,
`GET /-/bump?URL` makes a new version of a URL and gives its number. `GET /-/urls` gives the URLs asked for since the last such request.
"""

import asyncio
import ctypes
import email.utils
import json
import re
import sys

SIZE = re.compile(r"_s(\d{1,9})(?=\.|$|\?)")


def keep_memory():
    """Has the C library keep what this process frees. Else it may give each large body back to the system and get it anew, in one run and not in
    another, and that takes longer than a cache does."""
    library, trim, map_from = ctypes.CDLL(None), -1, -3
    for parameter in (trim, map_from) if hasattr(library, "mallopt") else ():
        library.mallopt(parameter, 1 << 30)


def body(url, version, size):
    """The body of one version: a line with both, again and again, cut at the size."""
    line = f"{url} v{version}\n".encode()
    return (line * (size // len(line) + 1))[:size]


def size_of(path):
    found = SIZE.search(path)
    return int(found.group(1)) if found else None


class Counts:
    requests = 0
    body_bytes = 0
    not_modified = 0
    versions = {}
    urls = []


class OriginConnection(asyncio.Protocol):
    def __init__(self):
        self.buffer = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.buffer += data
        while b"\r\n\r\n" in self.buffer:
            head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
            self.answer(lines[0].split(" "), fields)

    def answer(self, words, fields):
        method, target = words[0], words[1] if len(words) > 1 else "/"
        if target.startswith("http://"):
            host, _, path = target.removeprefix("http://").partition("/")
            fields["host"], target = host, "/" + path
        if target == "/-/counts":
            told = {"requests": Counts.requests, "body_bytes": Counts.body_bytes, "not_modified": Counts.not_modified}
            return self.send(200, [], json.dumps(told).encode())
        if target == "/-/urls":
            Counts.urls, urls = [], Counts.urls
            return self.send(200, [], json.dumps(urls).encode())
        if target.startswith("/-/bump?"):
            url = target.partition("?")[2]
            Counts.versions[url] = Counts.versions.get(url, 0) + 1
            return self.send(200, [], str(Counts.versions[url]).encode())
        size = size_of(target)
        if size is None or method not in ("GET", "HEAD"):
            # Some caches ask their parents for digests and other things of their own.
            return self.send(404, [], b"no size in this path")
        Counts.requests += 1
        url = fields.get("host", "") + target
        Counts.urls.append(url)
        version = Counts.versions.get(url, 0)
        tag = f'"{size}-{version}"'
        kept = [f"ETag: {tag}", "Cache-Control: public, max-age=86400", "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT"]
        if fields.get("if-none-match") == tag:
            Counts.not_modified += 1
            return self.send(304, kept, b"")
        whole = body(url, version, size)
        Counts.body_bytes += size if method == "GET" else 0
        return self.send(200, kept + ["Content-Type: application/octet-stream"], whole, method == "HEAD")

    def send(self, status, fields, content, without_body=False):
        # Squid validates what has no date each time.
        lines = [f"HTTP/1.1 {status} {'OK' if status == 200 else 'Other'}", f"Date: {email.utils.formatdate(usegmt=True)}", *fields]
        if status != 304:
            lines.append(f"Content-Length: {len(content)}")
        self.transport.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if without_body else content))


async def main(address, port):
    keep_memory()
    server = await asyncio.get_running_loop().create_server(OriginConnection, address, int(port), backlog=1024)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
