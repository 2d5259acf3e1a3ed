"""Asks `shoal explain` about ten responses as well-known kinds of sites send them, and then the node itself.

    python3 bench/explained.py --shoal target/release/shoal

For each response a fresh node is asked what it would do with it. Then the same request is sent twice, and Cache-Status tells what
the node did. The table sets both side by side, and the command fails where they differ.
"""

import argparse
import http.server
import json
import re
import subprocess
import tempfile
import urllib.request

import programs
import servers

# A name, the request's path, method and fields, and the response's status and fields.
CASES = [
    ("front page of a newspaper", "/", "GET", {"Accept-Encoding": "gzip"},
     200, {"Cache-Control": "s-maxage=30, max-age=0, stale-while-revalidate=60", "Vary": "Accept-Encoding"}),
    ("asset with a hash in its name", "/app.3f9c1a.js", "GET", {},
     200, {"Cache-Control": "public, max-age=31536000, immutable", "ETag": '"3f9c1a"'}),
    ("JSON of an API, to be validated", "/v1/items", "GET", {"Accept": "application/json"},
     200, {"Cache-Control": "no-cache", "ETag": 'W/"77"', "Content-Type": "application/json"}),
    ("page after a login", "/account", "GET", {"Cookie": "sid=1"},
     200, {"Set-Cookie": "sid=2; HttpOnly", "Cache-Control": "max-age=60"}),
    ("segment of a video", "/live/0001.ts", "GET", {},
     200, {"Cache-Control": "max-age=6", "Accept-Ranges": "bytes", "Content-Type": "video/mp2t"}),
    ("index page of a package registry", "/simple/left-pad/", "GET", {"Accept": "application/vnd.pypi.simple.v1+json"},
     200, {"Cache-Control": "max-age=600, public", "Vary": "Accept, Accept-Encoding", "ETag": '"i1"'}),
    ("archive of a package, nothing said", "/packages/left-pad-1.0.tar.gz", "GET", {},
     200, {"Content-Type": "application/gzip"}),
    ("image by what the browser takes", "/photo", "GET", {"Accept": "image/avif,image/webp,*/*"},
     200, {"Cache-Control": "max-age=86400", "Vary": "Accept", "Content-Type": "image/avif"}),
    ("feed with Last-Modified alone", "/feed.xml", "GET", {},
     200, {"Last-Modified": "Mon, 05 Jan 2026 10:00:00 GMT", "Content-Type": "application/rss+xml"}),
    ("query of GraphQL", "/graphql", "POST", {"Content-Type": "application/json"},
     200, {"Cache-Control": "max-age=60", "Content-Type": "application/json"}),
]


class Origin(servers.Loopback):
    """Sends the response of one case to every request."""

    def __init__(self, status, fields):
        self.status, self.fields = status, fields
        super().__init__(OriginHandler)


class OriginHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(self.server.status)
        for name, value in self.server.fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    do_POST = do_GET

    def log_message(self, *_):
        pass


def explained(shoal, admin, url, case):
    """What the node says about the case's request and response."""
    _, _, method, asked, status, fields = case
    command = [shoal, "explain", url, "--admin", admin, "--method", method, "--status", str(status), "--json"]
    for option, given in [("--header", asked), ("--response-header", fields)]:
        for name, value in given.items():
            command += [option, f"{name}: {value}"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout)


def sent(url, method, asked):
    """The word of Cache-Status for one request."""
    request = urllib.request.Request(url, method=method, headers=asked, data=b"{}" if method == "POST" else None)
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()
        return answer.headers["Cache-Status"]


def verdict(explanation):
    """Whether the answer is stored, by what, and for how long."""
    storing = explanation.get("storing")
    if not storing:
        return "not looked up, not stored", explanation["reuse"]["reason"]
    if not storing["stored"]:
        return "not stored", storing["reason"]
    seconds = storing["lifetime_seconds"]
    return (f"fresh for {seconds} s" if seconds else "stored, validated each time"), f"{storing['decided_by']}"


def agree(said, second):
    """Whether the second request went as the verdict wants."""
    if said.startswith("fresh"):
        return bool(re.search(r";\s*hit\b", second))
    if said.startswith("stored"):
        return "fwd=stale" in second or "fwd=request" in second
    return "hit" not in second and "fwd=stale" not in second


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    shoal = programs.checked(parser.parse_args().shoal)
    print("| response | explain says | decided by | the second request |\n|---|---|---|---|")
    differ = 0
    for case in CASES:
        name, path, method, asked, status, fields = case
        origin = Origin(status, fields)
        with tempfile.TemporaryDirectory() as folder:
            port, admin = servers.free_port(), servers.free_port()
            command = [shoal, "run", "--to", origin.url, "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
            node = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                servers.wait_for(port, node)
                url = f"http://127.0.0.1:{port}{path}"
                said, why = verdict(explained(shoal, f"127.0.0.1:{admin}", url, case))
                sent(url, method, asked)
                second = sent(url, method, asked)
            finally:
                node.terminate()
                node.wait()
                origin.stop()
        is_true = agree(said, second)
        differ += not is_true
        second = re.sub(r"^[^;]*; ?", "", second)
        print(f"| {name} | {said} | {why} | `{second}`{'' if is_true else ' **differs**'} |")
    if differ:
        raise SystemExit(f"{differ} of {len(CASES)} differ")


if __name__ == "__main__":
    main()
