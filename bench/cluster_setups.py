"""The set-ups that the bench of clusters compares: what runs on each of the nodes, and where clients come in.

Each set-up is a function of a `Plan`, which says where nodes and origin are and how much memory and disk each node has. Ports are the same on
all nodes, since each has an address of its own: 8000 for clients, 8001 for a cache behind a balancer, 3130 for ICP, 3131 for Shoal's peers.
"""

import dataclasses
import os
import shutil
import socket
import subprocess
import sys

import cluster_counters
import rivals
from cluster_ground import Ground, Node, found
from servers import write

ENTRY, CACHE, ICP, PEER, ADMIN = 8000, 8001, 3130, 3131, 8002


@dataclasses.dataclass
class Plan:
    """Where things are, and how much each node has."""

    ground: Ground
    folder: str
    origin: tuple
    hosts: list
    memory: int
    disk: int
    shoal: str
    digest_wait: float = 12.0

    @property
    def nodes(self):
        return range(len(self.ground.ips))

    def own(self, node, name):
        path = os.path.join(self.folder, f"{name}-{node}")
        os.makedirs(path, exist_ok=True)
        os.chmod(path, 0o777)
        return path


@dataclasses.dataclass
class Running:
    """A set-up that runs: its processes, by node, and the addresses for clients."""

    processes: list
    entries: list
    absolute: bool = False
    settle_seconds: float = 1.0
    # Whether a purge at one node reaches all.
    purges_spread: bool = False
    # Addresses of nodes that count and tell what they do as nodes of a cluster.
    admins: list = dataclasses.field(default_factory=list)
    # Memory of each node in shares of a node's; more where one has that of several.
    memory_shares: int = 1

    def __post_init__(self):
        try:
            for process in self.processes:
                process.wait_until_it_listens()
        except RuntimeError:
            self.stop()
            raise

    def cpu_seconds(self):
        return sum(process.cpu_seconds() for process in self.processes)

    def stop(self):
        for process in self.processes:
            process.process.terminate()
        for process in self.processes:
            process.stop(limit=5)


SHOAL = """
workers = 1
[[listen]]
address = "{ip}:8000"
mode = "reverse"
[[site]]
hosts = ["*"]
upstreams = [{{ url = "http://{origin}" }}]
[cache]
ram = "{memory}"
[store]
directory = "{own}/cache"
disk = "{disk}"
[admin]
listen = "{ip}:8002"
purge_from = ["{network}", "127.0.0.0/8"]
[log]
access = "none"
"""


def shoal(plan, node, disk, memory, more=""):
    own, ip = plan.own(node, "shoal"), plan.ground.ips[node]
    values = {"ip": ip, "origin": "%s:%d" % plan.origin, "own": own, "network": plan.ground.network}
    text = SHOAL.format(memory=memory, disk=disk, **values) + more
    command = [plan.shoal, "run", "--config", write(own, "shoal.toml", text)]
    return Node(plan.ground, node, f"shoal-{node}", command, own, ENTRY)


def one_node(plan):
    """One node with the disk and the memory of all."""
    count = len(plan.ground.ips)
    first = shoal(plan, 0, plan.disk * count, plan.memory * count)
    return Running([first], [(plan.ground.ips[0], ENTRY)] * count, memory_shares=count)


def isolated(plan):
    return Running([shoal(plan, node, plan.disk, plan.memory) for node in plan.nodes], entries(plan))


CLUSTER = """
[cluster]
name = "bench"
peer = "{ip}:3131"
join = [{join}]
trusted_networks = ["{network}"]
key_file = "{key}"
"""


def cluster(plan):
    """Shoal's cluster. Nodes of one network of the bench's own talk in the clear; the key seals membership."""
    key = write(plan.folder, "cluster.key", f"key {'QUJD' * 10}QUE=\nplacement {'QUJD' * 5}QQ==\n")
    os.chmod(key, 0o600)
    nodes = []
    for node in plan.nodes:
        join = ", ".join(f'"{ip}:{PEER}"' for other, ip in enumerate(plan.ground.ips) if other != node)
        more = CLUSTER.format(ip=plan.ground.ips[node], join=join, network=plan.ground.network, key=key)
        nodes.append(shoal(plan, node, plan.disk, plan.memory, more))
    running = Running(nodes, entries(plan), settle_seconds=5.0, purges_spread=True, admins=plan.ground.ips)
    try:
        for ip in plan.ground.ips:
            socket.create_connection((ip, PEER), 5).close()
    except OSError as why:
        running.stop()
        raise RuntimeError("this shoal listens for no peers: it is of before the cluster") from why
    print(f"the nodes have found each other after {cluster_counters.wait_until_all_are_in(plan.ground.ips):.1f} s", file=sys.stderr)
    return running


SQUID = """
http_port {ip}:8000
icp_port 3130
udp_incoming_address {ip}
visible_hostname node{node}
unique_hostname node{node}
hosts_file {own}/hosts
dns_nameservers 127.0.0.1
cache_peer {origin_ip} parent {origin_port} 0 no-query no-digest no-netdb-exchange originserver name=origin
{siblings}
never_direct allow all
icp_access allow all
http_access allow all
access_log none
cache_store_log none
cache_log {own}/cache.log
pid_filename {own}/squid.pid
coredump_dir {own}
pinger_enable off
digest_generation {digests}
digest_rebuild_period 10 seconds
digest_rewrite_period 10 seconds
shutdown_lifetime 0 seconds
cache_mem {memory} KB
maximum_object_size_in_memory 512 KB
maximum_object_size 16 MB
cache_dir aufs {own}/cache {disk} 16 256
"""


def squid(plan, sibling, digests):
    """Squid with siblings whose answers are not stored again."""
    program, nodes = found("squid"), []
    for node in plan.nodes:
        own, ips = plan.own(node, "squid"), plan.ground.ips
        siblings = "\n".join(f"cache_peer {ips[other]} sibling 8000 {sibling} name=node{other}" for other in plan.nodes if other != node)
        write(own, "hosts", "".join(f"{plan.origin[0]} {host}\n" for host in plan.hosts))
        values = {"memory": plan.memory >> 10, "disk": max(plan.disk >> 20, 1), "origin_ip": plan.origin[0], "origin_port": plan.origin[1]}
        text = SQUID.format(ip=ips[node], node=node, own=own, siblings=siblings, digests="on" if digests else "off", **values)
        file, name = write(own, "squid.conf", text), f"bench{os.getpid()}n{node}"
        subprocess.run([program, "-N", "-z", "-n", name, "-f", file], check=True, capture_output=True)
        nodes.append(Node(plan.ground, node, "squid", [program, "-N", "-n", name, "-f", file], own, ENTRY))
    return Running(nodes, entries(plan), absolute=True, settle_seconds=plan.digest_wait if digests else 1.0)


def squid_icp(plan):
    return squid(plan, "3130 proxy-only no-digest no-netdb-exchange", False)


def squid_digests(plan):
    return squid(plan, "0 proxy-only no-query no-netdb-exchange", True)


HAPROXY = """
global
  nbthread 1
  maxconn 4000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend clients
  bind {ip}:8000
  default_backend caches
backend caches
  balance uri whole
  hash-type consistent
{servers}
"""

VARNISH = """
vcl 4.1;
backend origin {{ .host = "{ip}"; .port = "{port}"; }}
"""


def varnish_haproxy(plan):
    """On each node a HAProxy that hashes, and a Varnish that caches on disk."""
    haproxy, varnishd, nodes = found("haproxy"), found("varnishd"), []
    servers = "\n".join(f"  server node{node} {ip}:{CACHE}" for node, ip in enumerate(plan.ground.ips))
    for node in plan.nodes:
        own, ip = plan.own(node, "varnish"), plan.ground.ips[node]
        vcl = write(own, "default.vcl", VARNISH.format(ip=plan.origin[0], port=plan.origin[1]))
        storage = ["-s", f"file,{own}/cache.bin,{plan.disk >> 20}M"]
        options = ["-p", "vsl_space=1M", "-p", "thread_pools=1", "-p", "thread_pool_min=20", "-p", "default_grace=0", "-p", "nuke_limit=1000"]
        command = [varnishd, "-F", "-n", os.path.join(own, "work"), "-a", f"{ip}:{CACHE}", "-f", vcl, *storage, *options]
        nodes.append(Node(plan.ground, node, "varnish", command, own, CACHE))
    for node in plan.nodes:
        own, ip = plan.own(node, "haproxy"), plan.ground.ips[node]
        file = write(own, "haproxy.cfg", HAPROXY.format(ip=ip, servers=servers))
        nodes.append(Node(plan.ground, node, "haproxy", [haproxy, "-db", "-f", file], own, ENTRY))
    return Running(nodes, entries(plan))


NGINX = """
{user}daemon off; worker_processes 1; pid {own}/nginx.pid; error_log {own}/error.log warn;
events {{ worker_connections 2048; }}
http {{
  access_log off; sendfile on; keepalive_requests 1000000000;
  client_body_temp_path {own}/b; fastcgi_temp_path {own}/f; uwsgi_temp_path {own}/u; scgi_temp_path {own}/s;
  proxy_temp_path {own}/temp;
  proxy_cache_path {own}/cache levels=1:2 keys_zone=c:16m max_size={disk} inactive=30d use_temp_path=off;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
  upstream origin {{ server {origin}; keepalive 32; }}
  upstream caches {{ hash $host$request_uri consistent; {servers} keepalive 32; }}
  server {{ listen {ip}:8000; location / {{ proxy_pass http://caches; }} }}
  server {{ listen {ip}:8001; location / {{ proxy_pass http://origin; proxy_cache c; proxy_cache_key $host$request_uri; }} }}
}}
"""


def nginx(plan):
    """On each node one nginx: a listener that hashes, and one that caches."""
    program, nodes = found("nginx"), []
    servers = " ".join(f"server {ip}:{CACHE};" for ip in plan.ground.ips)
    user = "user root; " if os.geteuid() == 0 else ""
    for node in plan.nodes:
        own = plan.own(node, "nginx")
        values = {"user": user, "own": own, "ip": plan.ground.ips[node], "origin": "%s:%d" % plan.origin, "disk": plan.disk, "servers": servers}
        file = write(own, "nginx.conf", NGINX.format(**values))
        nodes.append(Node(plan.ground, node, "nginx", [program, "-p", own, "-c", file, "-e", f"{own}/error.log"], own, ENTRY))
    return Running(nodes, entries(plan))


TRAFFIC_SERVER = """
CONFIG proxy.config.http.server_ports STRING {port}:ip-in={ip}
CONFIG proxy.config.reverse_proxy.enabled INT 0
CONFIG proxy.config.url_remap.remap_required INT 0
CONFIG proxy.config.http.no_dns_just_forward_to_parent INT 1
CONFIG proxy.config.http.uncacheable_requests_bypass_parent INT 0
CONFIG proxy.config.http.parent_proxy.self_detect INT 0
CONFIG proxy.config.http.cache.http INT {caches}
CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT 1
CONFIG proxy.config.task_threads INT 1
CONFIG proxy.config.cache.ram_cache.size INT {memory}
CONFIG proxy.config.log.logging_enabled INT 0
CONFIG proxy.config.admin.user_id STRING #-1
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 300
"""


def traffic_server(plan):
    """On each node a child that hashes and keeps nothing, and a parent that caches."""
    ips = plan.ground.ips
    origin = 'dest_domain=. parent="%s:%d" parent_is_proxy=false go_direct=false\n' % plan.origin
    hashed = ";".join(f"{ip}:{CACHE}" for ip in ips)
    parents = f'dest_domain=. parent="{hashed}" round_robin=consistent_hash parent_is_proxy=true go_direct=false\n'
    nodes = [one_traffic_server(plan, node, "parent", CACHE, origin, plan.disk) for node in plan.nodes]
    nodes += [one_traffic_server(plan, node, "child", ENTRY, parents, 0) for node in plan.nodes]
    return Running(nodes, entries(plan), absolute=True, settle_seconds=3.0)


def one_traffic_server(plan, node, role, port, parent, disk):
    program, own = found("traffic_server"), plan.own(node, f"traffic-{role}")
    for part in ("run", "log", "share", "cache"):
        os.makedirs(os.path.join(own, part), exist_ok=True)
    etc = shutil.copytree("/etc/trafficserver", os.path.join(own, "etc"))
    records = TRAFFIC_SERVER.format(port=port, ip=plan.ground.ips[node], caches=int(disk > 0), memory=plan.memory if disk else 1 << 20)
    with open(os.path.join(etc, "records.config"), "a") as file:
        file.write(records)
    write(etc, "parent.config", parent)
    write(etc, "remap.config", "\n")
    write(etc, "storage.config", f"{own}/cache {max(disk >> 20, 32)}M\n")
    root = write(own, "runroot.yaml", rivals.TRAFFIC_SERVER_ROOT.format(folder=own))
    return Node(plan.ground, node, f"traffic-{role}", [program, f"--run-root={root}"], own, port)


def entries(plan):
    return [(ip, ENTRY) for ip in plan.ground.ips]


# In the order of the table.
SETUPS = {
    "one node with all the disk": one_node,
    "four isolated nodes": isolated,
    "Shoal's cluster": cluster,
    "Squid siblings, ICP": squid_icp,
    "Squid siblings, digests": squid_digests,
    "Varnish behind HAProxy's hash": varnish_haproxy,
    "nginx behind nginx's hash": nginx,
    "Traffic Server, parent by hash": traffic_server,
}
