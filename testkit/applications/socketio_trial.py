"""Socket.IO: two users at once by long polling, by WebSocket, and from the one to the other, while the node is replaced."""

import os
import subprocess

from ground import free_ports, must
from node import Node


def trial(ground):
    folder = ground.node_modules("socketio")
    (port,) = free_ports(1)
    ground.start("node", "server.mjs", port, port=port, cwd=folder, name="socketio")
    node = Node(ground, "Socket.IO", [port])
    ground.ending.callback(node.stop)
    for _ in range(3):
        node.visitor().get("/")
        must("socket.io" in node.visitor().get("/socket.io/socket.io.js").text, "the client's script")
    environment = {**os.environ, "NODE_EXTRA_CA_CERTS": str(ground.ca)}
    with subprocess.Popen(["node", "client.mjs", node.url], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=environment) as client:
        said = client.stdout.readline()
        if said == "UPGRADE\n":
            node.upgrade()
            client.stdin.write("done\n")
            client.stdin.flush()
        out, faults = client.communicate(timeout=120)
    must(client.returncode == 0 and out == "DONE\n", f"the clients: {said}{out}{faults}")
    polls = [line for line in node.lines() if "/socket.io/?" in line["url"]]
    must(polls and all(line["outcome"] in ("pass", "miss", "tunnel") for line in polls), "no message comes from the cache")
    tunnels = [line for line in polls if line["outcome"] == "tunnel"]
    must(len(tunnels) >= 4, f"{len(tunnels)} WebSockets")
    return [["Socket.IO", "two users by polling, WebSocket and both, an upgrade", *node.share().row()]]
