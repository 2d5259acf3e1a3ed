"""Hit ratios of an old cache and of Shoal with the migrated settings, on the same requests.

Usage: python3 bench/migrated.py [--shoal PATH] [--only NAME,...] [--trace FILE] [--requests N]
                                 [--cache MB] [--ram MB]

Runs Squid, nginx, Varnish and Traffic Server (where they are installed) and Shoal one after the
other on loopback, with a small origin. A request that the origin does not see is a hit. Nothing
else should run meanwhile.

Without --trace: 4,000 requests with Zipf popularity, for answers with max-age, with Last-Modified
alone, without any word, with no-store, and a few reloads. Everything fits into each cache, so that
the rules of freshness decide.

With --trace FILE: the requests of a trace as the yardstick's `tracegen` writes it (CSV with the
columns time_ms, client, url, size_bytes), one after the other, as fast as they are answered. Host
and path become one path. All answers are fresh for a year, and the caches are smaller than the
objects together, so that replacement decides. --cache is the size of each cache, --ram that of the
memory beside a disk.
"""

import argparse, csv, http.client, http.server, os, random, shutil, signal, subprocess, tempfile, threading, time
from email.utils import formatdate

import network
import servers

REQUESTS, OBJECTS, SEED = 4000, 800, 26
SETTLED = 200  # requests between two looks of nginx at the size of its cache
PEERS = {"squid": "squid", "nginx": "nginx", "varnish": "varnishd", "trafficserver": "traffic_server"}
FILES = {"squid": "squid.conf", "nginx": "nginx.conf", "varnish": "default.vcl", "trafficserver": "remap.config"}
HOST = "www.example.org"


class Origin(http.server.BaseHTTPRequestHandler):
    """Answers a path `/<kind>/<name>`, or one of a trace by the size in its name."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536
    seen = 0

    def do_GET(self):
        Origin.seen += 1
        body = body_of(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        kind = self.path.strip("/").split("/")[0]
        if kind == "trace":
            self.send_header("Cache-Control", "public, max-age=31536000")
            self.send_header("ETag", f'"{self.path}"')
        elif kind == "0":
            self.send_header("Cache-Control", "max-age=600")
        elif kind == "1":
            self.send_header("Last-Modified", formatdate(time.time() - 10 * 86400, usegmt=True))
        elif kind == "3":
            self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def body_of(path):
    if path.startswith("/trace/"):
        size = int(path.rsplit("_s", 1)[1].split(".")[0])
        return (path.encode() * (size // len(path) + 1))[:size]
    return (path * 50).encode()


def mixed():
    chance = random.Random(SEED)
    weights = [1 / (rank + 1) ** 0.9 for rank in range(OBJECTS)]
    ranks = chance.choices(range(OBJECTS), weights, k=REQUESTS)
    return [(f"/{rank % 4}/{rank}", chance.random() < 0.02) for rank in ranks]


def traced(name, most):
    with open(name, newline="") as file:
        urls = [row["url"] for row in csv.DictReader(file)]
    urls = urls[:most] if most else urls
    return [("/trace/" + url.split("://", 1)[1], False) for url in urls]


def replay(port, requests, settle):
    """Returns the hit ratios, in percent, of all requests and of their second half. `settle` is
    called now and then."""
    before = middle = Origin.seen
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    for number, (path, reload) in enumerate(requests):
        if number == len(requests) // 2:
            middle = Origin.seen
        if number % SETTLED == 0:
            settle()
        fields = {"Cache-Control": "no-cache"} if reload else {}
        connection.request("GET", path, headers={"Host": HOST, **fields})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200 and body == body_of(path), (path, answer.status, len(body))
    rest = len(requests) - len(requests) // 2
    ratio = lambda misses, count: 100 * (1 - misses / count)
    return ratio(Origin.seen - before, len(requests)), ratio(Origin.seen - middle, rest)


def manager_of(process):
    """Returns the process of nginx that removes files, or nothing."""
    with open(f"/proc/{process}/task/{process}/children") as file:
        for child in file.read().split():
            try:
                with open(f"/proc/{child}/cmdline", "rb") as command:
                    if b"cache manager" in command.read():
                        return int(child)
            except OSError:
                continue  # It has ended meanwhile.
    return None


def remove_files(process):
    """Has nginx bring its cache down to its size.

    nginx looks at the size every ten seconds, and the replay is far faster than clients are: without
    this its cache would be half as large again. A new manager looks at once.
    """
    old = manager_of(process)
    if old:
        os.kill(old, signal.SIGTERM)
    for _ in range(200):
        if manager_of(process) not in (None, old):
            time.sleep(0.05)
            return
        time.sleep(0.01)


def run(command, port, requests, environment=None):
    environment = {**os.environ, **(environment or {})}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment)
    try:
        servers.wait_for(port, process)
        time.sleep(1)
        is_nginx = command[0] == "nginx" and len(requests) > REQUESTS
        return replay(port, requests, (lambda: remove_files(process.pid)) if is_nginx else (lambda: None))
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def squid(port, origin, folder, cache, ram):
    disk = f"cache_dir ufs {folder}/disk {cache} 16 256\nmaximum_object_size 16 MB\n" if cache else ""
    return f"""http_port 127.0.0.1:{port} accel defaultsite={HOST}
cache_peer 127.0.0.1 parent {origin} 0 no-query no-digest originserver
http_access allow all
cache_mem {ram} MB
{disk}maximum_object_size_in_memory 512 KB
pid_filename none
shutdown_lifetime 1 second
access_log none
cache_log /dev/null
cache_store_log none
coredump_dir {folder}
pinger_enable off
refresh_pattern -i (/cgi-bin/|\\?) 0 0% 0
refresh_pattern . 0 20% 4320
"""


def nginx(port, origin, folder, cache, ram):
    size = f"max_size={cache or 100}m inactive=1d manager_files=2000"
    return f"""pid {folder}/pid;
error_log /dev/null;
events {{ worker_connections 64; }}
http {{
    access_log off;
    proxy_temp_path {folder}/temp;
    proxy_cache_path {folder}/disk levels=1:2 keys_zone=z:16m use_temp_path=off {size};
    upstream origin {{ server 127.0.0.1:{origin}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_cache z;
            proxy_cache_valid 200 10m;
            proxy_cache_key $scheme$host$request_uri;
        }}
    }}
}}
"""


def varnish(port, origin, folder, cache, ram):
    return f"""vcl 4.1;
backend origin {{ .host = "127.0.0.1"; .port = "{origin}"; }}
"""


def trafficserver(port, origin, folder, cache, ram):
    """Makes a run root in the folder, and returns remap.config."""
    root = f"{folder}/ats"
    shutil.copytree("/etc/trafficserver", f"{folder}/etc", symlinks=True, dirs_exist_ok=True)
    for name in ("run", "log", "share", "cache"):
        os.makedirs(f"{root}/{name}")
    names = {"prefix": root, "exec_prefix": "/usr", "bindir": "/usr/bin", "sbindir": "/usr/sbin",
             "sysconfdir": f"{folder}/etc", "datadir": f"{root}/share", "includedir": "/usr/include",
             "libdir": "/usr/lib/trafficserver", "libexecdir": "/usr/lib/trafficserver/modules",
             "localstatedir": f"{root}/run", "runtimedir": f"{root}/run", "logdir": f"{root}/log",
             "cachedir": f"{root}/cache"}
    put(f"{root}/runroot.yaml", "".join(f"{name}: {path}\n" for name, path in names.items()))
    put(f"{folder}/etc/storage.config", f"{root}/cache {cache or 100}M\n")
    put(f"{folder}/etc/records.config", f"""CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.url_remap.pristine_host_hdr INT 1
CONFIG proxy.config.cache.ram_cache.size INT {ram}M
CONFIG proxy.config.admin.user_id STRING trafficserver
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 2
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 300
""")
    text = f"map http://{HOST}/ http://127.0.0.1:{origin}/\n"
    put(f"{folder}/etc/remap.config", text)
    subprocess.run(["chown", "-R", "trafficserver", folder], check=False)
    return text


def put(name, text):
    with open(name, "w") as file:
        file.write(text)


def command(name, conf, folder, port, cache):
    if name == "squid":
        if cache:
            subprocess.run(["squid", "-N", "-z", "-f", conf], stderr=subprocess.DEVNULL, check=True)
        return ["squid", "-N", "-f", conf]
    if name == "nginx":
        return ["nginx", "-p", folder, "-c", conf, "-e", "/dev/null", "-g", "daemon off;"]
    if name == "varnish":
        return ["varnishd", "-F", "-n", f"{folder}/work", "-a", f"127.0.0.1:{port}", "-f", conf,
                "-s", f"malloc,{cache or 100}M", "-p", "nuke_limit=1000"]
    return ["traffic_server", f"--run-root={folder}/ats"]


def compare(name, origin, requests, options):
    folder = tempfile.mkdtemp(prefix="shoal-migrated-")
    os.chmod(folder, 0o777)
    try:
        os.makedirs(f"{folder}/disk")
        os.chmod(f"{folder}/disk", 0o777)
        port, made = servers.free_port(), f"{folder}/shoal.toml"
        cache, ram = (options.cache, options.ram) if options.trace else (0, 64)
        text = globals()[name](port, origin, folder, cache, ram)
        conf = f"{folder}/etc/remap.config" if name == "trafficserver" else f"{folder}/{FILES[name]}"
        put(conf, text)
        migrate = [options.shoal, "migrate", conf, "--from", name, "-o", made]
        subprocess.run(migrate, stderr=subprocess.DEVNULL)
        old = run(command(name, conf, folder, port, cache), port, requests)
        environment = {"SHOAL_ADMIN__LISTEN": "none", "SHOAL_STORE__DIRECTORY": f"{folder}/store"}
        if not cache:
            environment["SHOAL_STORE__DISK"] = "100MB"
        if name == "nginx":
            # The kernel's memory stands for that of Shoal.
            environment["SHOAL_CACHE__RAM"] = f"{ram}MiB"
        if name == "varnish":
            # VCL names neither address nor storage.
            environment["SHOAL_LISTEN"] = f'[{{ address = "127.0.0.1:{port}", mode = "reverse" }}]'
            environment["SHOAL_STORE__DIRECTORY"] = "none"
            environment["SHOAL_CACHE__RAM"] = f"{cache or 100}MiB"
        new = run([options.shoal, "run", "--config", made], port, requests, environment)
        parts = [f"{old[at]:.1f}% | {new[at]:.1f}% | {new[at] - old[at]:+.1f}" for at in (0, 1)]
        print(f"| {name} | {' | '.join(parts)} |", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    network.enter()
    parser = argparse.ArgumentParser(description="Compares hit ratios before and after `shoal migrate`.")
    parser.add_argument("--shoal", default="target/release/shoal", help="the shoal binary")
    parser.add_argument("--only", default=",".join(PEERS), help="peers, by name")
    parser.add_argument("--trace", help="CSV of the yardstick's tracegen")
    parser.add_argument("--requests", type=int, default=0, help="requests of the trace; 0 is all")
    parser.add_argument("--cache", type=int, default=64, help="size of each cache, in MiB, with a trace")
    parser.add_argument("--ram", type=int, default=8, help="memory beside a disk, in MiB, with a trace")
    options = parser.parse_args()
    requests = traced(options.trace, options.requests) if options.trace else mixed()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Origin)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    objects = {path for path, _ in requests}
    size = sum(len(body_of(path)) for path in objects) / (1 << 20)
    print(f"{len(requests)} requests for {len(objects)} objects of {size:.0f} MiB\n")
    print("| old cache | its hits | Shoal's | points | second half: its hits | Shoal's | points |")
    print("|---|---|---|---|---|---|---|")
    for name in options.only.split(","):
        if shutil.which(PEERS[name]):
            compare(name, server.server_address[1], requests, options)


if __name__ == "__main__":
    main()
