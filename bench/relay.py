"""Passes connections at a loopback port on to a socket in the file system, in threads of the bench.

For programs that listen at such a socket, or that do not find the loopback address where there is no other one.
"""

import socket
import threading
import time


class Relay:
    """Listens at a port for as long as the bench runs."""

    def __init__(self, port, path):
        self.path = path
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server = self.connect()
        for from_, to in ((client, server), (server, client)):
            threading.Thread(target=passes, args=(from_, to), daemon=True).start()

    def connect(self):
        for _ in range(100):
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.path)
                return server
            except OSError:
                server.close()
                time.sleep(0.1)
        raise SystemExit(f"nothing listens at {self.path}")


def passes(from_, to):
    try:
        while data := from_.recv(65536):
            to.sendall(data)
        to.shutdown(socket.SHUT_WR)
    except OSError:
        pass
