"""Set-ups of the mirrors that bench/mirrors.py compares, each with the settings that its documentation gives.

A set-up has a name, a function that writes its settings and gives its command, the path of the clients below its address, and a function that is called
once it runs. FOLDER of --peers has programs that are no packages of the system: npm/node_modules/.bin/verdaccio, py/bin/devpi-server, and in bin/ nora,
goproxy, athens and distribution. apt-cacher-ng, docker-registry and nginx are Debian's packages. A peer that is not there is left out, and said.
"""

import base64
import json
import os
import shutil
import subprocess
import urllib.request

import relay
import servers

# The index of a user of devpi who may make indexes.
DEVPI_INDEX = "/".join(["", "root", "own"])


def shoal(kind, path):
    def command(options, upstream, port, folder):
        mirror = f"{kind}={upstream}{path}"
        return [options.shoal, "run", "--mirror", mirror, "--listen", str(port), "--admin", "none", "--store", f"{folder}/store", "--disk", "256 MB", "--ram", "64 MB"]

    return command, f"/{kind}"


def program(options, name, *others):
    """The program of a peer, in the folder of peers or on the search path; None where there is none."""
    places = [f"{options.peers}/bin/{name}", *(f"{options.peers}/{other}" for other in others)]
    found = next((place for place in places if os.access(place, os.X_OK)), None)
    return found or shutil.which(name) or shutil.which(name, path="/usr/sbin")


def verdaccio(options, upstream, port, folder):
    settings = f"""
storage: {folder}/storage
uplinks: {{ own: {{ url: "{upstream}" }} }}
packages: {{ "**": {{ access: $all, proxy: own }} }}
"""
    servers.write(folder, "config.yaml", settings)
    return [program(options, "verdaccio", "npm/node_modules/.bin/verdaccio"), "--config", f"{folder}/config.yaml", "--listen", f"127.0.0.1:{port}"]


def devpi(options, upstream, port, folder):
    py = f"{options.peers}/py/bin"
    subprocess.run([f"{py}/devpi-init", "--serverdir", f"{folder}/devpi", "--no-root-pypi", "--root-passwd", "x"], check=True, capture_output=True)
    return [f"{py}/devpi-server", "--serverdir", f"{folder}/devpi", "--port", str(port)]


def devpi_index(options, upstream, url):
    """devpi is told of its upstream while it runs."""
    def call(method, path, body, token=None):
        fields = {"Content-Type": "application/json", "Accept": "application/json"} | ({"X-Devpi-Auth": token} if token else {})
        request = urllib.request.Request(url + path, json.dumps(body).encode(), fields, method=method)
        with urllib.request.urlopen(request, timeout=20) as reply:
            return json.loads(reply.read())

    login = call("POST", "/+login", {"user": "root", "password": "x"})["result"]["password"]
    token = base64.b64encode(f"root:{login}".encode()).decode()
    call("PUT", DEVPI_INDEX, {"type": "mirror", "mirror_url": f"{upstream}/simple/", "volatile": True}, token)


def proxpi(options, upstream, port, folder):
    py = f"{options.peers}/py/bin"
    code = f"import waitress, proxpi.server as s; waitress.serve(s.app, listen='127.0.0.1:{port}', threads=8)"
    settings = [f"PROXPI_INDEX_URL={upstream}/simple/", f"PROXPI_CACHE_DIR={folder}/files"]
    return ["env", *settings, f"{py}/python", "-c", code]


def nora(options, upstream, port, folder):
    """One process for all kinds. The kinds that are not measured have upstreams too, which nobody asks."""
    upstream_of = {"npm": upstream, "pypi": f"{upstream}/simple", "cargo": upstream, "go": upstream}
    kinds = "".join(f'[{kind}]\nproxy = "{url}"\n' for kind, url in upstream_of.items())
    settings = f"""
[server]
host = "127.0.0.1"
port = {port}
public_url = "http://127.0.0.1:{port}"
[storage]
mode = "local"
path = "{folder}/storage"
[rate_limit]
enabled = false
[registries]
enable = ["npm", "pypi", "cargo", "go", "docker", "deb"]
{kinds}
[docker]
upstreams = [{{ url = "{upstream}" }}]
[deb.proxies.own]
url = "{upstream}"
"""
    servers.write(folder, "nora.toml", settings)
    return ["env", f"NORA_CONFIG_PATH={folder}/nora.toml", program(options, "nora")]


def goproxy(options, upstream, port, folder):
    where = ["--cacher-dir", f"{folder}/caches", "--temp-dir", folder]
    own = [f"GOPROXY={upstream}", "GOSUMDB=off", f"GOMODCACHE={folder}/modules", "GOFLAGS=-modcacherw", f"HOME={folder}"]
    return ["env", *own, program(options, "goproxy"), "server", "--address", f"127.0.0.1:{port}", *where]


def athens(options, upstream, port, folder):
    """Athens runs the go command, which asks the upstream."""
    os.makedirs(f"{folder}/storage")
    settings = f"""
GoBinary = "go"
GoGetWorkers = 10
ProtocolWorkers = 30
GoBinaryEnvVars = ["GOPROXY={upstream}", "GOSUMDB=off", "GOFLAGS=-modcacherw"]
LogLevel = "error"
StorageType = "disk"
Port = "127.0.0.1:{port}"
NetworkMode = "fallback"
Timeout = 300
StashTimeout = 600
DownloadMode = "sync"
SingleFlightType = "memory"
IndexType = "none"
[Storage]
[Storage.Disk]
RootPath = "{folder}/storage"
"""
    servers.write(folder, "athens.toml", settings)
    return ["env", f"HOME={folder}", program(options, "athens"), "-config_file", f"{folder}/athens.toml"]


def apt_cacher_ng(options, upstream, port, folder):
    """The remap of its manual: clients name a path, and the cache knows the archive behind it. Clients come to its socket in the file system."""
    relay.Relay(port, f"{folder}/socket")
    settings = f"""
CacheDir: {folder}/cache
LogDir: {folder}/log
SupportDir: /usr/lib/apt-cacher-ng
SocketPath: {folder}/socket
Port: {servers.free_port()}
Remap-own: /debian ; {upstream}/
ForeGround: 1
ExThreshold: 4
"""
    for part in ("cache", "log", "etc"):
        os.makedirs(f"{folder}/{part}")
    servers.write(folder, "etc/acng.conf", settings)
    return [program(options, "apt-cacher-ng"), "-c", f"{folder}/etc"]


def distribution(options, upstream, port, folder):
    settings = f"""
version: 0.1
log: {{ level: error, accesslog: {{ disabled: true }} }}
storage: {{ filesystem: {{ rootdirectory: {folder}/storage }} }}
http: {{ addr: "127.0.0.1:{port}" }}
proxy: {{ remoteurl: "{upstream}" }}
"""
    servers.write(folder, "config.yml", settings)
    own = program(options, "distribution") or program(options, "docker-registry")
    return [own, "serve", f"{folder}/config.yml"]


# Beginning of the settings of an nginx in a folder of its own.
NGINX_HEAD = """
daemon off;
worker_processes 2;
user {user};
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/temp;
    fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u;
    scgi_temp_path {folder}/s;
"""

# The recipe of nginx for a mirror: a lock for misses, stale answers while the registry fails, files for long and indexes for minutes. Documents that
# name the registry are rewritten for each client, as they leave the cache.
NGINX_RECIPE = NGINX_HEAD + """    proxy_cache_path {folder}/cache levels=1:2 keys_zone=mirror:10m max_size=256m inactive=30d use_temp_path=off;
    upstream registry {{ server {authority}; keepalive 16; }}
    server {{
        listen 127.0.0.1:{port};
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_set_header Host {authority};
        proxy_set_header Accept-Encoding "";
        proxy_cache mirror;
        proxy_cache_key $request_uri;
        proxy_cache_lock on;
        proxy_cache_use_stale error timeout updating http_500 http_502 http_503 http_504 http_429;
        proxy_cache_valid 404 410 1m;
        location / {{
            proxy_pass http://registry;
            proxy_cache_valid 200 5m;
            sub_filter "{upstream}" "http://$http_host";
            sub_filter_once off;
            sub_filter_types application/json application/vnd.npm.install-v1+json text/plain;
        }}
        location ~ (\\.(tgz|whl|crate|zip|mod|info|deb)|/by-hash/.*|/blobs/.*|/manifests/sha256:.*)$ {{
            proxy_pass http://registry;
            proxy_cache_valid 200 30d;
        }}
    }}
}}
"""


def nginx(options, upstream, port, folder):
    return nginx_with(folder, NGINX_RECIPE.format(user=servers.getpass.getuser(), folder=folder, port=port, upstream=upstream, authority=upstream.split("://")[1]))


def nginx_with(folder, settings):
    servers.write(folder, "nginx.conf", settings)
    return ["nginx", "-e", f"{folder}/start.log", "-p", folder, "-c", f"{folder}/nginx.conf"]


# client: its set-ups, each a name, a command, the path below the mirror's address, and what is done once it runs
SETUPS = {
    "npm": [("Shoal", *shoal("npm", ""), None), ("verdaccio", verdaccio, "", None), ("NORA", nora, "/npm", None), ("nginx", nginx, "", None)],
    "pip": [("Shoal", *shoal("pypi", "/simple"), None), ("devpi", devpi, DEVPI_INDEX, devpi_index), ("proxpi", proxpi, "", None), ("NORA", nora, "", None), ("nginx", nginx, "", None)],
    "go": [("Shoal", *shoal("go", ""), None), ("goproxy", goproxy, "", None), ("Athens", athens, "", None), ("NORA", nora, "/go", None), ("nginx", nginx, "", None)],
    "cargo": [("Shoal", *shoal("cargo", "/index"), None), ("NORA", nora, "/cargo/index", None), ("nginx", nginx, "/index", None)],
    "apt": [("Shoal", *shoal("deb", ""), None), ("apt-cacher-ng", apt_cacher_ng, "/debian", None), ("NORA", nora, "/deb/own", None), ("nginx", nginx, "", None)],
    "images": [("Shoal", *shoal("oci", ""), None), ("distribution", distribution, "", None), ("NORA", nora, "", None), ("nginx", nginx, "", None)],
}

# The program that each set-up needs.
PROGRAMS = {
    "verdaccio": ("verdaccio", "npm/node_modules/.bin/verdaccio"),
    "devpi": ("devpi-server", "py/bin/devpi-server"),
    "proxpi": ("proxpi", "py/bin/waitress-serve"),
    "NORA": ("nora",),
    "goproxy": ("goproxy",),
    "Athens": ("athens",),
    "apt-cacher-ng": ("apt-cacher-ng",),
    "distribution": ("distribution",),
    "nginx": ("nginx",),
}


def is_there(options, name):
    if name == "apt-cacher-ng" and not options.is_alone:
        return False
    if name == "distribution" and program(options, "docker-registry"):
        return True
    return name not in PROGRAMS or program(options, *PROGRAMS[name]) is not None
