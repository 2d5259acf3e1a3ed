"""A registry of container images: skopeo pushes and pulls through Shoal, tags move, and blobs come from the cache."""

import gzip
import hashlib
import io
import json
import random
import tarfile

from ground import Missing, call, free_ports, must, program
from node import Node

SETTINGS = """version: 0.1
log:
  level: warn
storage:
  filesystem:
    rootdirectory: {folder}
  delete:
    enabled: true
http:
  addr: 127.0.0.1:{port}
  secret: only-for-a-trial
"""


def trial(ground):
    registry = registry_program()
    program("skopeo")
    (port,) = free_ports(1)
    settings = ground.folder / "registry.yml"
    settings.write_text(SETTINGS.format(folder=ground.folder / "images", port=port))
    ground.start(registry, "serve", settings, port=port, name="registry")
    node = Node(ground, "Container registry", [port])
    ground.ending.callback(node.stop)
    (ground.folder / "trust").mkdir()
    (ground.folder / "trust/ca.crt").write_text(ground.ca.read_text())
    one, two = image(ground, "one", 1, 8_000_000), image(ground, "two", 2, 3_000_000)
    place = f"docker://localhost:{node.port}/team/app"
    push(ground, one, f"{place}:latest")
    for turn in range(3):
        must(pull(ground, f"{place}:latest", f"a{turn}") == one, "the first image comes back")
    push(ground, two, f"{place}:latest")
    must(pull(ground, f"{place}:latest", "b") == two, "a moved tag is seen at once")
    must(tags(node) == ["latest"], "one tag")
    node.upgrade()
    push(ground, one, f"{place}:v1")
    must(tags(node) == ["latest", "v1"], "a new tag is listed at once")
    since = len(node.lines())
    for turn in range(4):
        must(pull(ground, f"{place}:v1", f"c{turn}") == one and pull(ground, f"{place}:latest", f"d{turn}") == two, "both come back")
    share = node.share(since)
    call("skopeo", "--insecure-policy", "delete", "--cert-dir", ground.folder / "trust", f"{place}:v1")
    done = call("skopeo", "--insecure-policy", "inspect", "--raw", "--cert-dir", ground.folder / "trust", f"{place}:v1", fails=True)
    must("schemaVersion" not in done, "a deleted image is gone at once")
    return [["Container registry (distribution)", "skopeo: two images pushed, pulled, moved, deleted; an upgrade", *share.row()]]


def registry_program():
    for name in ("docker-registry", "registry"):
        try:
            return program(name)
        except Missing:
            continue
    raise Missing("docker-registry")


def tags(node):
    return sorted(json.loads(node.visitor().get("/v2/team/app/tags/list").text)["tags"])


def push(ground, digest, place):
    call("skopeo", "--insecure-policy", "copy", "--quiet", "--dest-cert-dir", ground.folder / "trust", f"oci:{ground.folder}/{digest.rpartition(':')[2]}", place)


def pull(ground, place, name):
    """Pulls into an empty folder; the digest of the image."""
    folder = ground.folder / f"pulled-{name}"
    call("skopeo", "--insecure-policy", "copy", "--quiet", "--src-cert-dir", ground.folder / "trust", place, f"oci:{folder}")
    (manifest,) = json.loads((folder / "index.json").read_text())["manifests"]
    for blob in (folder / "blobs/sha256").iterdir():
        must(hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name, f"{blob.name} is whole")
    return manifest["digest"]


def image(ground, name, seed, size):
    """An image of one layer in a folder that is named for its digest, which is returned."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        member = tarfile.TarInfo(f"{name}.bin")
        member.size = size
        archive.addfile(member, io.BytesIO(random.Random(seed).randbytes(size)))
    folder = ground.folder / f"image-{name}"
    (folder / "blobs/sha256").mkdir(parents=True)

    def blob(data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (folder / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    plain = layer.getvalue()
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(plain).hexdigest()}"]}
    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "rootfs": rootfs}).encode(), "config.v1+json")
    layers = [blob(gzip.compress(plain, 1, mtime=0), "layer.v1.tar+gzip")]
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": layers}
    entry = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    folder.rename(ground.folder / entry["digest"].partition(":")[2])
    return entry["digest"]
