"""Jobs of bench/mirrors.py beside those of registries.py: apt and skopeo with registries of their own, and the same files behind a static file server.

    apt      Release, Packages by name and by digest, packages
    images   manifests by tag and by digest, configurations, layers; each image shares its first layer with the others
"""

import gzip
import hashlib
import json
import os
import subprocess
import sys

import mirror_peers
import registries
import servers

DEBS = 40
IMAGES = 6

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def sha256(body):
    return hashlib.sha256(body).hexdigest()


def apt_archive():
    """An archive without signatures, which clients are told to trust."""
    answers, index = {}, ""
    for number in range(DEBS):
        name, body = f"shoal-{number}", registries.noise(f"deb {number}", 60_000)
        path = f"pool/{name}_1.0_all.deb"
        answers[f"/{path}"] = {"application/vnd.debian.binary-package": body}
        index += f"Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: {name}\n"
        index += f"Filename: {path}\nSize: {len(body)}\nSHA256: {sha256(body)}\n\n"
    lists = {"Packages": index.encode(), "Packages.gz": gzip.compress(index.encode(), mtime=0)}
    release = "Origin: bench\nSuite: stable\nCodename: stable\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nArchitectures: amd64\n"
    release += "Components: main\nAcquire-By-Hash: yes\nSHA256:\n"
    for name, body in lists.items():
        folder = "main/binary-amd64"
        release += f" {sha256(body)} {len(body)} {folder}/{name}\n"
        for path in (f"{folder}/{name}", f"{folder}/by-hash/SHA256/{sha256(body)}"):
            answers[f"/dists/stable/{path}"] = {"application/octet-stream": body}
    answers["/dists/stable/Release"] = {"text/plain": release.encode()}
    return answers


def apt(url, folder):
    """apt with folders of its own, as a user who may not write the system's."""
    for part in ("state/lists/partial", "cache/archives/partial", "etc", "debs"):
        os.makedirs(f"{folder}/{part}")
    servers.write(folder, "status", "")
    servers.write(folder, "etc/sources.list", f"deb [trusted=yes] {url} stable main\n")
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    servers.write(folder, "apt.conf", f"""
Dir::State "{folder}/state"; Dir::State::status "{folder}/status"; Dir::Cache "{folder}/cache"; Dir::Log "{folder}";
Dir::Etc::main "/dev/null"; Dir::Etc::parts "/dev/null"; Dir::Etc::sourcelist "{folder}/etc/sources.list";
Dir::Etc::sourceparts "/dev/null"; Dir::Etc::preferencesparts "/dev/null";
Acquire::Languages "none"; Acquire::Retries "0"; APT::Architecture "amd64"; APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "{user}";
""")
    own = {"APT_CONFIG": f"{folder}/apt.conf"}
    registries.run(["apt-get", "-qq", "update", "-o", "APT::Update::Error-Mode=any"], folder, **own)
    names = [f"shoal-{number}" for number in range(DEBS)]
    registries.run(["sh", "-c", f"cd debs && apt-get -qq download {' '.join(names)}"], folder, **own)
    for number in range(DEBS):
        with open(f"{folder}/debs/shoal-{number}_1.0_all.deb", "rb") as file:
            assert file.read() == registries.noise(f"deb {number}", 60_000), number


def layers_of(number):
    return [registries.noise(name, 300_000) for name in ("layer base", f"layer {number} a", f"layer {number} b")]


def image_registry():
    answers = {"/v2/": {"application/json": b"{}"}}
    for number in range(IMAGES):
        repository = f"/v2/lib/image-{number}"

        def blob(kind, body, at=repository):
            answers[f"{at}/blobs/sha256:{sha256(body)}"] = {"application/octet-stream": body}
            return {"mediaType": kind, "digest": f"sha256:{sha256(body)}", "size": len(body)}

        layers = [blob("application/vnd.oci.image.layer.v1.tar+gzip", layer) for layer in layers_of(number)]
        config = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}, "number": number}
        config = blob("application/vnd.oci.image.config.v1+json", json.dumps(config).encode())
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}).encode()
        for name in ("1", f"sha256:{sha256(manifest)}"):
            answers[f"{repository}/manifests/{name}"] = {MANIFEST: manifest}
    return answers


def images(url, folder):
    place = url.split("://")[1]
    for number in range(IMAGES):
        image = f"docker://{place}/lib/image-{number}:1"
        registries.run(["skopeo", "copy", "--insecure-policy", "--src-tls-verify=false", image, f"dir:{folder}/image-{number}"], folder)
        for layer in layers_of(number):
            assert os.path.getsize(f"{folder}/image-{number}/{sha256(layer)}") == len(layer)


def pip(url, folder):
    """pip, with the index's own name for its pages."""
    command = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install", "--no-cache-dir"]
    registries.run([*command, "--index-url", url, "--target", f"{folder}/target", "shoal-0"], folder, PIP_CONFIG_FILE="/dev/null")


JOBS = {
    "npm": (registries.npm, registries.npm_registry),
    "pip": (pip, registries.pip_index),
    "go": (registries.go, registries.go_proxy),
    "cargo": (lambda url, folder: registries.cargo(url, folder, "/"), registries.cargo_registry),
    "apt": (apt, apt_archive),
    "images": (images, image_registry),
}

# Kinds of documents whose type clients look at, and the endings that stand for them.
ENDINGS = {"application/vnd.npm.install-v1+json": "short", "application/json": "json", "text/html": "html", "text/plain": "txt", MANIFEST: "image"}

STATIC_SETTINGS = mirror_peers.NGINX_HEAD + """    sendfile on;
    types {{ {types} }}
    default_type application/octet-stream;
    map $http_accept $form {{ default 1; "~install-v1" 0; }}
    server {{
        listen 127.0.0.1:{port};
        root {folder}/files;
        location /-/npm/v1/security/ {{ default_type application/json; return 200 '{{}}'; }}
        location / {{ try_files {places} =404; }}
    }}
}}
"""


def static(options, _upstream, port, folder):
    """nginx with the same files: a form for short documents of npm, another for everything else. The type of a file follows from its ending."""
    for path, kinds in options.answers.items():
        for form in (0, 1):
            kind = list(kinds)[form if form < len(kinds) else -1]
            place = f"{folder}/files/{form}{path}"
            os.makedirs(place, exist_ok=True)
            with open(f"{place}/_.{ENDINGS.get(kind, 'bin')}", "wb") as file:
                file.write(kinds[kind].replace(b"{base}", f"http://127.0.0.1:{port}".encode()))
    types = "".join(f"{kind} {ending}; " for kind, ending in ENDINGS.items())
    places = " ".join(f"/$form$uri/_.{ending}" for ending in ["bin", *ENDINGS.values()])
    user = servers.getpass.getuser()
    return mirror_peers.nginx_with(folder, STATIC_SETTINGS.format(user=user, folder=folder, port=port, types=types, places=places))
