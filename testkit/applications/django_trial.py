"""A site by Django, gunicorn and WhiteNoise: two users log in, add users, send files, and each sees their own pages beside a cache that is warm."""

import http.client
import json
import re
import ssl
import time

import recipe

from ground import call, free_ports, must
from node import Node
from pathlib import Path

HERE = Path(__file__).resolve().parent / "shop"
PACKAGES = ["django>=5.2,<5.3", "gunicorn==23.0.0", "whitenoise==6.9.0"]
USERS = ("ada", "bob")


def trial(ground):
    python = ground.virtual_environment("django", *PACKAGES)
    environment = {"SHOP_FOLDER": str(ground.folder), "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1"}
    shop = [python, HERE / "manage.py"]
    call(*shop, "migrate", env=environment)
    call(*shop, "collectstatic", "--noinput", env=environment)
    for user in USERS:
        call(*shop, "createsuperuser", "--noinput", "--username", user, "--email", f"{user}@localhost.test",
             env={**environment, "DJANGO_SUPERUSER_PASSWORD": f"{user}-secret"})
    version = call(python, "-c", "import django; print(django.__version__)").strip()
    (port,) = free_ports(1)
    # One process, so that its counter counts all.
    ground.start(python, "-m", "gunicorn", "--threads", "16", "--keep-alive", "5", "--bind", f"127.0.0.1:{port}", "shop:application",
                 port=port, env=environment, name="gunicorn")
    node = Node(ground, "Django", [port])
    ground.ending.callback(node.stop)
    told = json.loads(node.visitor().get("/where").text)
    must(told == {"secure": True, "url": f"{node.url}/where", "client": "127.0.0.1"}, f"Django knows the client's URL: {told}")
    users = {user: log_in(node, user) for user in USERS}
    use(node, users, 0)
    warm = len(node.lines())
    node.upgrade()
    for turn in range(1, 4):
        use(node, users, turn)
    must(node.visitor().get("/news").text == "news 1", "one fetch of what is the same for all")
    ticks(ground, node)
    return [[f"Django {version}", "two users: admin, pages by session, uploads, a stream, an upgrade", *node.share(warm).row()]]


def log_in(node, user):
    visitor = node.visitor()
    page = visitor.get("/admin/login/")
    form = {"username": user, "password": f"{user}-secret", "csrfmiddlewaretoken": token(page), "next": "/admin/"}
    page = visitor.post("/admin/login/", form, Referer=f"{node.url}/admin/login/")
    must(f"<strong>{user}</strong>" in page.text, f"{user} is in")
    must(visitor.cookie("sessionid"), "a session")
    return visitor


def token(page):
    return re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)[1]


def use(node, users, turn):
    """What a user does, both by turns, with a stranger between."""
    stranger = node.visitor()
    for user, visitor in users.items():
        must(visitor.get("/news").text == "news 1" and stranger.get("/news").text == "news 1", "news is one page")
        for path, text in (("/greeting", "hello"), ("/basket", "basket of")):
            for _ in range(3):
                must(visitor.get(path).text == f"{text} {user}", f"{path} of {user}")
                must(stranger.get(path).text == f"{text} AnonymousUser", f"{path} of a stranger")
        page = visitor.get("/admin/auth/user/add/")
        must(f"<strong>{user}</strong>" in page.text, "the administration names its user")
        for file in re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text):
            visitor.get(file)
            stranger.get(file)
        name = f"made-by-{user}-{turn}"
        form = {"csrfmiddlewaretoken": token(page), "username": name, "usable_password": "true", "password1": "long-enough-31", "password2": "long-enough-31"}
        visitor.post("/admin/auth/user/add/", form, Referer=f"{node.url}/admin/auth/user/add/")
        must(all(name in users[each].get("/admin/auth/user/").text for each in users), f"both see {name} at once")
        must("Log in" in stranger.get("/admin/auth/user/").text, "a stranger sees the login")
        sends(visitor, user, node)


def sends(visitor, user, node):
    """A file of a megabyte in a form."""
    csrf = token(visitor.get("/upload"))
    boundary, data = "trial-boundary", b"\0\r\n\xff" * 250_000
    parts = f'--{boundary}\r\nContent-Disposition: form-data; name="csrfmiddlewaretoken"\r\n\r\n{csrf}\r\n--{boundary}\r\n'
    parts += 'Content-Disposition: form-data; name="file"; filename="a.bin"\r\nContent-Type: application/octet-stream\r\n\r\n'
    body = parts.encode() + data + f"\r\n--{boundary}--\r\n".encode()
    answer = visitor.ask("POST", "/upload", body, Content_Type=f"multipart/form-data; boundary={boundary}", Referer=f"{node.url}/upload")
    must(json.loads(answer.text) == {"user": user, "bytes": len(data)}, f"the file of {user} arrives: {answer.text}")


def ticks(ground, node):
    """A streamed response arrives part by part."""
    context = ssl.create_default_context(cafile=str(ground.ca))
    connection = http.client.HTTPSConnection(recipe.HOST, node.port, context=context, timeout=20)
    connection.request("GET", "/ticks")
    response, times = connection.getresponse(), []
    while line := response.readline():
        if line.startswith(b"data"):
            times.append(time.monotonic())
    must(len(times) == 5 and times[-1] - times[0] > 0.5, f"parts arrive one by one: {times}")
