"""A user of an application: cookies of their own, one page after the other, redirects followed."""

import http.cookiejar
import ssl
import urllib.error
import urllib.parse
import urllib.request

from ground import must


class Answer:
    """Status, fields and body of a response."""

    def __init__(self, response):
        self.status, self.fields, self.body, self.url = response.status, response.headers, response.read(), response.url

    @property
    def text(self):
        return self.body.decode("utf-8", "replace")

    @property
    def outcome(self):
        """`hit` or the reason for going to the origin, by the node's own word."""
        status = self.fields.get("Cache-Status", "").split(",")[-1]
        words = [word.strip() for word in status.split(";")[1:]]
        return "hit" if "hit" in words else next((word.partition("=")[2] for word in words if word.startswith("fwd=")), status)


class Visitor:
    """One user with a browser's cookies."""

    def __init__(self, base, ca, follow=True):
        self.base, self.cookies = base, http.cookiejar.CookieJar()
        secure = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(ca)))
        handlers = [urllib.request.ProxyHandler({}), secure, urllib.request.HTTPCookieProcessor(self.cookies)]
        self.opener = urllib.request.build_opener(*handlers, *([] if follow else [Staying()]))

    def get(self, path, expect=200, **fields):
        return self.ask("GET", path, expect=expect, **fields)

    def post(self, path, form, expect=200, **fields):
        """Sends a form."""
        return self.ask("POST", path, urllib.parse.urlencode(form).encode(), expect, **fields)

    def ask(self, method, path, body=None, expect=200, limit=60, **fields):
        """A request; names of fields are written with `_` for `-`. `expect` is the status, or `None` for any."""
        url = path if path.startswith("http") else self.base + path
        lines = {name.replace("_", "-"): value for name, value in fields.items()}
        request = urllib.request.Request(url, data=body, method=method, headers={"Accept-Encoding": "identity", **lines})
        try:
            with self.opener.open(request, timeout=limit) as response:
                answer = Answer(response)
        except urllib.error.HTTPError as error:
            with error:
                answer = Answer(error)
        allowed = expect if isinstance(expect, (tuple, list)) else (expect,)
        must(expect is None or answer.status in allowed, f"{method} {path} gives {answer.status}, not {expect}: {answer.text[:600]}")
        return answer

    def cookie(self, name):
        return next((cookie.value for cookie in self.cookies if cookie.name == name), None)


class Staying(urllib.request.HTTPRedirectHandler):
    """Follows no redirect."""

    def redirect_request(self, *_):
        return None
