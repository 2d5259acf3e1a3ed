"""gRPC: the interoperability cases of grpc-go by TLS to an origin without, and a stream of both directions held while the node is replaced."""

import os
import subprocess
import threading

from ground import Missing, call, end, must, program
from node import Node
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "grpc"
CASES = ["empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream", "timeout_on_sleeping_server",
         "cancel_after_begin", "cancel_after_first_response", "status_code_and_message", "special_status_message", "unimplemented_method",
         "unimplemented_service", "custom_metadata"]


def trial(ground):
    built = build(ground)
    server = subprocess.Popen([built / "server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
    ground.ending.callback(end, server)
    port = int(server.stdout.readline().strip().rpartition(":")[2])
    node = Node(ground, "gRPC", [port])
    ground.ending.callback(node.stop)
    client = [built / "client", "-address", f"127.0.0.1:{node.port}", "-authority", "localhost", "-ca", ground.ca, "-case"]
    for case in CASES:
        call(*client, case)
    held = []
    streams = [threading.Thread(target=lambda: held.append(call(*client, "held_stream", "-hold", "6s"))) for _ in range(3)]
    for stream in streams:
        stream.start()
    # Half of the messages go before the new process serves, half after.
    streams[0].join(timeout=2)
    node.upgrade()
    for case in CASES:
        call(*client, case)
    for stream in streams:
        stream.join(timeout=60)
    must(len(held) == 3 and all(int(said.split()[1]) > 30 for said in held), f"streams go on through an upgrade: {held}")
    return [["gRPC (grpc-go)", "14 cases twice, three streams of both directions, an upgrade", *node.share().row()]]


def build(ground):
    """Builds client and server; what Go fetches and compiles is kept."""
    program("go")
    built = ground.tools / "grpc"
    built.mkdir(parents=True, exist_ok=True)
    environment = {"GOCACHE": os.environ.get("GOCACHE", str(ground.tools / "go-build")), "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    done = subprocess.run(["go", "build", "-o", str(built), "./..."], cwd=SOURCES, env={**os.environ, **environment}, capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"by Go: grpc ({done.stderr.strip().splitlines()[-1]})")
    return built
