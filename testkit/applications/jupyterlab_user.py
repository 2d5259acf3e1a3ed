"""A user of JupyterLab, run by its own Python: edits a notebook, runs cells over the kernel's WebSocket, and keeps it through an upgrade.

Prints UPGRADE when the node may be replaced, and waits for a line then.
"""

import json
import ssl
import sys
import urllib.request
import uuid

import websocket


class User:
    """Calls of the interface with a token."""

    def __init__(self, base, ca, token):
        self.base, self.token, self.ca = base, token, ca
        self.context = ssl.create_default_context(cafile=ca)

    def ask(self, method, path, value=None):
        body = None if value is None else json.dumps(value).encode()
        fields = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, data=body, method=method, headers=fields)
        with urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=self.context)).open(request, timeout=60) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def kernel(self):
        """A new kernel's id and its WebSocket."""
        kernel = self.ask("POST", "/api/kernels", {"name": "python3"})["id"]
        url = f"{self.base.replace('https', 'wss')}/api/kernels/{kernel}/channels?session_id={uuid.uuid4().hex}"
        fields = {"Authorization": f"token {self.token}"}
        return kernel, websocket.create_connection(url, header=fields, sslopt={"ca_certs": self.ca}, timeout=60, origin=self.base)


def run(socket, code):
    """What a cell prints."""
    asked, printed = uuid.uuid4().hex, ""
    header = {"msg_id": asked, "username": "trial", "session": uuid.uuid4().hex, "msg_type": "execute_request", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False, "stop_on_error": True}
    socket.send(json.dumps({"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}))
    while True:
        message = json.loads(socket.recv())
        if message["parent_header"].get("msg_id") != asked:
            continue
        kind, content = message["header"]["msg_type"], message["content"]
        if kind == "stream":
            printed += content["text"]
        elif kind == "error":
            raise AssertionError(content["evalue"])
        elif kind == "status" and content["execution_state"] == "idle":
            return printed


def main():
    user = User(*sys.argv[1:4])
    cell = lambda code: {"cell_type": "code", "source": code, "metadata": {}, "outputs": [], "execution_count": None, "id": uuid.uuid4().hex[:8]}
    # Without a kernel's name the page asks for one.
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    content = lambda codes: {"cells": [cell(code) for code in codes], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    notebook = lambda *codes: {"type": "notebook", "format": "json", "content": content(codes)}
    for turn in range(4):
        user.ask("PUT", "/api/contents/trial.ipynb", notebook(*(f"print({number})" for number in range(turn + 1))))
        saved = user.ask("GET", "/api/contents/trial.ipynb?content=1")["content"]["cells"]
        assert len(saved) == turn + 1, f"the notebook that was saved is read at once: {saved}"
    kernels = [user.kernel() for _ in range(2)]
    for number, (_, socket) in enumerate(kernels):
        assert run(socket, f"mine = {number}; print(6 * 7)") == "42\n"
    assert len(run(kernels[0][1], "print('x' * 600_000)")) == 600_001, "600 kB through the socket"
    assert run(kernels[0][1], "import time\nfor i in range(5): print(i); time.sleep(0.1)") == "0\n1\n2\n3\n4\n"
    print("UPGRADE", flush=True)
    sys.stdin.readline()
    for number, (kernel, socket) in enumerate(kernels):
        assert run(socket, "print(mine)") == f"{number}\n", "a kernel keeps its socket and its variables"
        socket.close()
        assert kernel in [known["id"] for known in user.ask("GET", "/api/kernels")]
        user.ask("DELETE", f"/api/kernels/{kernel}")
    print("DONE", flush=True)


if __name__ == "__main__":
    main()
