"""JupyterLab: the page in two browsers, a notebook edited and run over WebSockets, while the node is replaced.

With Chromium and npm a browser opens the notebook and runs a cell, once with a cold and once with a warm cache.
"""

import re
import shutil
import subprocess

from ground import call, free_ports, must
from node import Node
from pathlib import Path

HERE = Path(__file__).resolve().parent
TOKEN = "only-for-a-trial"


def trial(ground):
    python = ground.virtual_environment("jupyterlab", "jupyterlab==4.6.6", "ipykernel")
    (port,) = free_ports(1)
    notebooks = ground.folder / "notebooks"
    notebooks.mkdir()
    ground.start(python, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}", "--ServerApp.ip=127.0.0.1", f"--ServerApp.root_dir={notebooks}",
                 f"--IdentityProvider.token={TOKEN}", "--ServerApp.allow_remote_access=True", "--ServerApp.trust_xheaders=True",
                 port=port, env={"HOME": str(ground.folder), "JUPYTER_PLATFORM_DIRS": "1", "PATH": f"{python.parent}:/usr/bin:/bin"}, name="jupyterlab")
    node = Node(ground, "JupyterLab", [port])
    ground.ending.callback(node.stop)
    strangers(node)
    page(node)
    cells(ground, node, python)
    since = len(node.lines())
    used = "a notebook edited and run over WebSockets, an upgrade"
    if shutil.which("chromium") and shutil.which("npm"):
        browser(ground, node)
        since = len(node.lines())
        browser(ground, node)
        used += ", Chromium"
    else:
        page(node)
    version = call(python, "-c", "import jupyterlab; print(jupyterlab.__version__)").strip()
    return [[f"JupyterLab {version}", used, *node.share(since).row()]]


def strangers(node):
    """Pages and files are for a client that has logged in, also once the cache is warm."""
    known = node.visitor()
    must("jupyter-config-data" in known.get(f"/lab?token={TOKEN}").text, "the page")
    for path in ("/lab", "/api/contents", "/api/sessions", "/api/kernelspecs", "/lab/api/settings"):
        for _ in range(2):
            known.get(path)
        unknown = node.visitor()
        answer = unknown.get(path, expect=None)
        must(answer.status == 403 or "/login" in answer.url, f"{path} is not for a stranger: {answer.status} {answer.url}")
        must(TOKEN not in answer.text, f"{path} tells the token")


def page(node):
    """The page and its scripts, as a browser without a cache reads them."""
    visitor = node.visitor()
    text = visitor.get(f"/lab?token={TOKEN}").text
    for file in sorted(set(re.findall(r'(?:src|href)="(/static/[^"]+)"', text))):
        visitor.get(file)


def cells(ground, node, python):
    """The notebook and its kernels."""
    with subprocess.Popen([str(python), str(HERE / "jupyterlab_user.py"), node.url, str(ground.ca), TOKEN], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as user:
        said = user.stdout.readline()
        if said == "UPGRADE\n":
            node.upgrade()
            user.stdin.write("done\n")
            user.stdin.flush()
        out, faults = user.communicate(timeout=180)
    must(user.returncode == 0 and out == "DONE\n", f"the user: {said}{out}{faults}")


def browser(ground, node):
    """Opens a notebook in Chromium, writes a cell, runs it, and reads the result."""
    folder = ground.node_modules("browser")
    call("node", "jupyterlab.mjs", f"{node.url}/lab/tree/trial.ipynb?token={TOKEN}&reset", cwd=folder, seconds=240)
