"""The servers that are compared: an origin, nginx in several settings, and Shoal.

Each is started in a folder of its own, pinned to one core, listening on a free loopback port.
"""

import getpass
import http.server
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import programs

SERVER_CORE = "0"

# Settings of a Shoal with one worker in front of one origin; tables of a bench follow.
SHOAL_SITE = """
workers = 1
[[listen]]
address = "127.0.0.1:{port}"
mode = "reverse"
[[site]]
hosts = ["*"]
upstreams = [{{ url = "{origin}" }}]
[admin]
listen = "127.0.0.1:{admin_port}"
"""

# A bench that is told to end stops its servers and removes their folders, as one that fails does.
signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))

# The bodies of hits are at most as large as the origin makes them.
BODY = b"0123456789abcdef" * 65536


# The certificates of a bench are its own.
UNVERIFIED = ssl._create_unverified_context()


class Loopback(http.server.ThreadingHTTPServer):
    """Listens on a free loopback port, on threads of its own."""

    daemon_threads = True
    # With the five of the standard library, a burst of connections waits a second for its next SYN.
    request_queue_size = 128

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stop(self):
        self.shutdown()
        self.server_close()


class Origin(Loopback):
    """Answers /N and /N?… with N bytes that stay fresh for a day, and counts what it was asked."""

    def __init__(self):
        self.asked = 0
        super().__init__(OriginHandler)


class OriginHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body are two writes.
    disable_nagle_algorithm = True

    def do_GET(self):
        length = self.path.split("?")[0].strip("/")
        if not length.isdecimal():
            # Some caches ask their parents for more than objects.
            return self.send_error(404)
        self.server.asked += 1
        body = BODY[: int(length)]
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "public, max-age=86400")
        self.send_header("ETag", f'"{len(body)}-1"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        if self.path.endswith("?parts"):
            # Without it nginx gives no parts.
            self.send_header("Accept-Ranges", "bytes")
        if self.path.endswith("?varied"):
            self.send_header("Vary", "Accept-Encoding")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server:
    """A running server: its name, its address, and its process with all descendants."""

    def __init__(self, name, port, command, folder, environment=None, core=SERVER_CORE):
        self.name = name
        self.port = port
        self.secure = False
        self.log = os.path.join(folder, "output.log")
        with open(self.log, "w") as log:
            pinned = ["taskset", "-c", core] + command
            self.process = subprocess.Popen(
                pinned, stdout=log, stderr=log, cwd=folder, env={**os.environ, **(environment or {})}
            )
        self.wait_until_it_listens()

    @property
    def url(self):
        return f"{'https' if self.secure else 'http'}://127.0.0.1:{self.port}"

    def wait_until_it_listens(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        with open(self.log) as log:
            raise SystemExit(f"{self.name} does not listen on {self.port}; it said:\n{log.read()}")

    def get(self, path):
        """The whole body of one GET."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=10, context=UNVERIFIED) as reply:
                return reply.read()
        except (urllib.error.URLError, TimeoutError) as why:
            raise SystemExit(f"{self.name}: GET {path}: {why}") from why

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


NGINX_SETTINGS = {
    "nginx, sendfile": "sendfile on; tcp_nopush off; open_file_cache off;",
    "nginx, sendfile, open_file_cache": "sendfile on; tcp_nopush off; {open_files}",
    "nginx, sendfile, tcp_nopush, open_file_cache": "sendfile on; tcp_nopush on; {open_files}",
    "nginx, no sendfile": "sendfile off; open_file_cache off;",
    "nginx, no sendfile, open_file_cache": "sendfile off; {open_files}",
}

OPEN_FILES = "open_file_cache max=1000 inactive=1h; open_file_cache_valid 1h;"

NGINX_FILE = """
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log; worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
  access_log {log}; keepalive_requests 1000000000; keepalive_timeout 1h;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/temp; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  {setting}
  proxy_cache_path {folder}/cache levels=1:2 keys_zone=hits:10m inactive=1d max_size=1g;
  upstream origin {{ server {origin_address}; keepalive 64; }}
  server {{
    listen 127.0.0.1:{port}{tls};
    location / {{
      proxy_pass http://origin; proxy_cache hits; proxy_http_version 1.1; proxy_set_header Connection "";
    }}
  }}
}}
"""

# Follows the address that is listened on.
NGINX_TLS = """ ssl http2; ssl_certificate {0}; ssl_certificate_key {1};
    ssl_protocols TLSv1.2 TLSv1.3; ssl_session_tickets on; ssl_session_cache shared:sessions:10m"""

SHOAL_FILE = """
workers = 1
[[listen]]
address = "127.0.0.1:{port}"
mode = "reverse"
{tls}
[[site]]
hosts = ["*"]
upstreams = [{{ url = "{origin}" }}]
[cache]
ram = "{ram}"
[store]
directory = "{folder}/cache"
disk = "2 GB"
[admin]
listen = "127.0.0.1:{admin_port}"
[log]
access = "{log}"
"""

# What answers misses: 8 KB that may not be stored, or are stale at once, with and without a validator, from a server that is faster than those in
# front of it.
MISS_FILE = """
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 1h; sendfile on;
  open_file_cache max=10 inactive=1h; open_file_cache_valid 1h;
  server {{
    listen 127.0.0.1:{port}; root {folder}; add_header Cache-Control no-store;
    location /stale/ {{ alias {folder}/; add_header Cache-Control max-age=0; }}
    location /stale-unmarked/ {{ alias {folder}/; etag off; add_header Last-Modified ""; add_header Cache-Control max-age=0; }}
  }}
}}
"""


def start_nginx(folder, origin):
    """nginx in every setting of the table, and once with a buffered access log in the setting that needs the fewest calls."""
    settings = [(name, setting, "off") for name, setting in NGINX_SETTINGS.items()]
    plain = "nginx, no sendfile, open_file_cache"
    settings.append((f"{plain}, access log", NGINX_SETTINGS[plain], "{folder}/access.log combined buffer=64k flush=1s"))
    return [one_nginx(folder, origin, *setting) for setting in settings]


def one_nginx(folder, origin, name, setting, log, pair=None):
    """One nginx that caches on disk; with TLS, HTTP/2, tickets and a session cache when there is a `pair` of files of
    certificate and key."""
    own = tempfile.mkdtemp(prefix="nginx-", dir=folder)
    os.chmod(own, 0o755)
    values = {
        "folder": own,
        "port": free_port(),
        "origin_address": origin.removeprefix("http://"),
        "setting": setting.format(open_files=OPEN_FILES),
        "log": log.format(folder=own),
        "tls": NGINX_TLS.format(*pair) if pair else "",
    }
    server = nginx(name, own, NGINX_FILE, values)
    server.secure = pair is not None
    return server


def start_miss_origin(folder):
    """An nginx beside the load generator whose `/8192` may not be stored; `/stale/8192` has a lifetime of zero and an ETag,
    `/stale-unmarked/8192` no validator either."""
    own = tempfile.mkdtemp(prefix="origin-", dir=folder)
    with open(os.path.join(own, "8192"), "wb") as file:
        file.write(BODY[:8192])
    return nginx("origin", own, MISS_FILE, {"folder": own, "port": free_port()}, core="1")


def nginx(name, own, template, values, core=SERVER_CORE):
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(program):
        raise SystemExit("nginx is not installed (Debian: apt-get install nginx-light)")
    user = f"user {getpass.getuser()}; " if os.geteuid() == 0 else ""
    file = write(own, "nginx.conf", template.format(user=user, **values))
    return Server(name, values["port"], [program, "-p", own, "-c", file], own, core=core)


def start_shoal(folder, origin, program, name="shoal", logged=True, ram="256 MiB", pair=None):
    """Shoal as a reverse proxy with one worker, an access log unless told otherwise, 2 GB of disk, and else its defaults; with TLS when there
    is a `pair` of files of certificate and key."""
    own = tempfile.mkdtemp(prefix="shoal-", dir=folder)
    values = {
        "folder": own,
        "port": free_port(),
        "admin_port": free_port(),
        "origin": origin,
        "log": os.path.join(own, "access.log") if logged else "none",
        "ram": ram,
        "tls": 'tls = [{{ certificate = "{}", key = "{}" }}]'.format(*pair) if pair else "",
    }
    file = write(own, "shoal.toml", SHOAL_FILE.format(**values))
    server = Server(name, values["port"], [programs.checked(program), "run", "--config", file], own)
    server.secure = pair is not None
    server.settings_file = file
    server.store_folder = os.path.join(own, "cache")
    server.admin_port = values["admin_port"]
    return server


def metric(shoal, name, label):
    """The sum of a running Shoal's counters called `name` whose labels contain `label`."""
    with urllib.request.urlopen(f"http://127.0.0.1:{shoal.admin_port}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith(name + "{"))
    return sum(float(value) for series, value in found if label in series)


def certificate(folder, kind):
    """The files of a certificate for 127.0.0.1 and its key: "P-256" or "RSA 2048"."""
    pair = [os.path.join(folder, f"{kind.replace(' ', '-')}.{end}") for end in ("pem", "key")]
    new = {"P-256": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"], "RSA 2048": ["rsa:2048"]}[kind]
    command = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(command + ["-out", pair[0], "-keyout", pair[1], "-newkey"] + new, check=True, capture_output=True)
    return pair


def free_port(host="127.0.0.1"):
    with socket.socket() as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def wait_for(port, process):
    """Waits until the process listens on the port."""
    for _ in range(300):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.1)
    raise SystemExit(f"nothing listens on {port}: {' '.join(process.args)}")


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path
