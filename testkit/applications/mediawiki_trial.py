"""MediaWiki: readers without an account come from the cache, an edit is seen at once, since the wiki purges its pages, and users see their own.

PHP serves the wiki itself; the database is a file.
"""

import json
import re
import urllib.parse

import recipe

from ground import Missing, call, free_ports, must, program, wait_until
from node import Node
from pathlib import Path

WIKIS = [Path("/usr/share/mediawiki"), Path("/var/lib/mediawiki")]
CDN = """
$wgUseCdn = true;
$wgCdnServers = [ '127.0.0.1:{plain}' ];
$wgInternalServer = 'http://{host}:{port}';
$wgCdnMaxAge = 3600;
$wgJobRunRate = 5;
"""


def trial(ground):
    php, wiki = program("php"), next((wiki for wiki in WIKIS if (wiki / "index.php").exists()), None)
    if not wiki:
        raise Missing("mediawiki")
    (port,) = free_ports(1)
    node = Node(ground, "MediaWiki", [port])
    ground.ending.callback(node.stop)
    settings = install(ground, php, wiki, node)
    environment = {"MW_CONFIG_FILE": str(settings), "PHP_CLI_SERVER_WORKERS": "6", "TMPDIR": str(ground.folder)}
    for user in ("Ada", "Bob"):
        call(php, wiki / "maintenance/createAndPromote.php", user, f"{user}-secret-31", env=environment)
    ground.start(php, "-S", f"127.0.0.1:{port}", "-t", wiki, port=port, env=environment, name="mediawiki")
    users = {user: log_in(node, user) for user in ("Ada", "Bob")}
    edits(node, users, "before")
    node.upgrade()
    since = len(node.lines())
    edits(node, users, "after")
    readers(node)
    version = re.search(r'MediaWiki ([\d.]+)', node.visitor().get("/index.php/Special:Version").text)
    version = version[1] if version else ""
    return [[f"MediaWiki {version}".strip(), "two users edit, readers read at once, purges by the wiki, an upgrade", *node.share(since).row()]]


def install(ground, php, wiki, node):
    """Settings of a new wiki."""
    place = ground.folder / "wiki"
    place.mkdir()
    call(php, wiki / "maintenance/install.php", "--dbtype=sqlite", f"--dbpath={place}", "--dbname=wiki", f"--server={node.url}", "--scriptpath=",
         f"--confpath={place}", "--pass=Root-secret-31", "Trial", "Root", env={"TMPDIR": str(ground.folder)}, seconds=300)
    settings = place / "LocalSettings.php"
    settings.write_text(settings.read_text() + CDN.format(plain=node.plain[0], host=recipe.HOST, port=node.port))
    return settings


def api(visitor, method, **parameters):
    parameters = {"format": "json", "formatversion": "2", **parameters}
    if method == "GET":
        return json.loads(visitor.get(f"/api.php?{urllib.parse.urlencode(parameters)}").text)
    return json.loads(visitor.post("/api.php", parameters).text)


def log_in(node, user):
    visitor = node.visitor()
    token = api(visitor, "GET", action="query", meta="tokens", type="login")["query"]["tokens"]["logintoken"]
    said = api(visitor, "POST", action="clientlogin", username=user, password=f"{user}-secret-31", logintoken=token, loginreturnurl=node.url)
    must(said.get("clientlogin", {}).get("status") == "PASS", f"{user} is in: {said}")
    return visitor


def edit(visitor, title, text):
    token = api(visitor, "GET", action="query", meta="tokens")["query"]["tokens"]["csrftoken"]
    said = api(visitor, "POST", action="edit", title=title, text=text, token=token)
    must(said.get("edit", {}).get("result") == "Success", f"{title} is saved: {said}")


def edits(node, users, run):
    """Each edit is seen by the other user and by readers, whose pages were in the cache."""
    title = f"/index.php/Page_{run}"
    for turn in range(3):
        for user, visitor in users.items():
            text = f"text {run} {turn} of {user}"
            edit(visitor, f"Page {run}", text)
            for each, other in users.items():
                page = other.get(title).text
                must(text in page and f"User:{each}" in page, f"{each} sees the edit, and their own name")
            reader = node.visitor()
            wait_until("readers see the edit", lambda: text in reader.get(title).text, seconds=10)
            for _ in range(3):
                # Cookies of the page's scripts do not make a reader a user.
                answer = node.visitor().get(title, Cookie=f"_ga={turn}; wikimwuser-sessionId=x")
                must(text in answer.text, "a reader sees the newest text")
                must(not any(f"User:{each}" in answer.text and f'"wgUserName":"{each}"' in answer.text for each in users), "no user's page for a reader")
                must('"wgUserName":null' in answer.text, "a reader has no name")
            must(answer.outcome == "hit", f"a reader's page comes from the cache, not {answer.outcome}")


def readers(node):
    """Pages with their styles and scripts, five times."""
    for _ in range(5):
        visitor = node.visitor()
        for title in ("Main_Page", "Page_before", "Page_after"):
            page = visitor.get(f"/index.php/{title}").text
            for file in sorted(set(re.findall(r'(?:src|href)="(/(?:load\.php|resources|skins)[^"]+)"', page))):
                visitor.get(file.replace("&amp;", "&"))
