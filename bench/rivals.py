"""Varnish, Squid and Apache Traffic Server for the table of hits, where Debian's packages are installed.

Each keeps the objects in memory, writes no access log where that can be turned off, and is otherwise as the package has it.
"""

import os
import shutil

from servers import Server, free_port, write

SQUID_FILE = """
http_port 127.0.0.1:{port} accel vhost defaultsite=origin
cache_peer {host} parent {origin_port} 0 no-query no-digest no-netdb-exchange originserver
http_access allow all
access_log none
cache_store_log none
cache_log {folder}/cache.log
pid_filename {folder}/squid.pid
coredump_dir {folder}
pinger_enable off
cache_mem 256 MB
maximum_object_size_in_memory 4 MB
shutdown_lifetime 1 second
"""

VARNISH_FILE = """
vcl 4.1;
backend origin {{ .host = "{host}"; .port = "{origin_port}"; }}
# Requests with a cookie would not be answered from the cache.
sub vcl_recv {{ unset req.http.Cookie; }}
"""

TRAFFIC_SERVER_RECORDS = """
CONFIG proxy.config.http.server_ports STRING {port}:ip-in=127.0.0.1
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.cache.ram_cache.size INT 268435456
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 3600
"""

TRAFFIC_SERVER_ROOT = """
prefix: {folder}
exec_prefix: /usr
bindir: /usr/bin
sbindir: /usr/sbin
sysconfdir: {folder}/etc
datadir: {folder}/share
includedir: /usr/include
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: {folder}/run
runtimedir: {folder}/run
logdir: {folder}/log
cachedir: {folder}/cache
"""


def start(folder, origin):
    """Those that are installed; says of the others that they are not."""
    host, origin_port = origin.removeprefix("http://").rsplit(":", 1)
    started = []
    for name, program, run in (
        ("Varnish", "varnishd", varnish),
        ("Squid", "squid", squid),
        ("Traffic Server", "traffic_server", traffic_server),
    ):
        program = shutil.which(program) or f"/usr/sbin/{program}"
        if not os.path.exists(program):
            print(f"{name} is not installed: left out")
            continue
        own = os.path.join(folder, name.replace(" ", "-").lower())
        os.makedirs(own)
        os.chmod(own, 0o777)
        values = {"port": free_port(), "folder": own, "host": host, "origin_port": origin_port}
        try:
            started.append(run(name, program, own, values))
        except SystemExit as why:
            print(f"{name} does not start: left out\n{why}")
    return started


def varnish(name, program, own, values):
    file = write(own, "default.vcl", VARNISH_FILE.format(**values))
    command = [program, "-F", "-n", os.path.join(own, "work"), "-a", f"127.0.0.1:{values['port']}", "-f", file]
    return Server(name, values["port"], command + ["-s", "malloc,256M"], own)


def squid(name, program, own, values):
    file = write(own, "squid.conf", SQUID_FILE.format(**values))
    return Server(name, values["port"], [program, "-N", "-f", file, "-n", f"bench{values['port']}"], own)


def traffic_server(name, program, own, values):
    for part in ("run", "log", "share", "cache"):
        os.makedirs(os.path.join(own, part))
    etc = shutil.copytree("/etc/trafficserver", os.path.join(own, "etc"))
    with open(os.path.join(etc, "records.config"), "a") as file:
        file.write(TRAFFIC_SERVER_RECORDS.format(**values))
    write(etc, "storage.config", f"{own}/cache 256M\n")
    write(etc, "remap.config", f"map / http://{values['host']}:{values['origin_port']}/\n")
    root = write(own, "runroot.yaml", TRAFFIC_SERVER_ROOT.format(**values))
    return Server(name, values["port"], [program, f"--run-root={root}"], own)
