"""A site by Django in one file: a public page, pages by session, an upload, a stream, the administration, static files with hashes.

`manage.py` has Django's commands; `shop:application` is for a WSGI server.
"""

import os
import time

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse, StreamingHttpResponse
from django.shortcuts import HttpResponse

FOLDER = os.environ["SHOP_FOLDER"]

settings.configure(
    DEBUG=False,
    SECRET_KEY="only for a trial",
    ROOT_URLCONF="shop",
    BASE_DIR=FOLDER,
    # Behind Shoal: the host that clients ask for, and the scheme by which they do.
    ALLOWED_HOSTS=["localhost"],
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    SESSION_COOKIE_SECURE=True,
    CSRF_COOKIE_SECURE=True,
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions",
                    "django.contrib.messages", "django.contrib.staticfiles"],
    MIDDLEWARE=["django.middleware.security.SecurityMiddleware", "whitenoise.middleware.WhiteNoiseMiddleware",
                "django.contrib.sessions.middleware.SessionMiddleware", "django.middleware.common.CommonMiddleware",
                "django.middleware.csrf.CsrfViewMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": [
        "django.template.context_processors.request", "django.contrib.auth.context_processors.auth",
        "django.contrib.messages.context_processors.messages"]}}],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{FOLDER}/shop.sqlite", "OPTIONS": {"timeout": 20}}},
    STORAGES={"staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
              "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"}},
    STATIC_URL="/static/",
    STATIC_ROOT=f"{FOLDER}/static",
    USE_TZ=True,
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.decorators import login_required  # noqa: E402
from django.middleware.csrf import get_token  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.cache import cache_control  # noqa: E402

COUNT = {"news": 0}


@cache_control(public=True, max_age=60)
def news(request):
    """The same for all."""
    COUNT["news"] += 1
    return HttpResponse(f"news {COUNT['news']}")


@cache_control(max_age=60)
def basket(request):
    """By session, with a lifetime, and without the word private: Django says `Vary: Cookie`."""
    request.session["visits"] = request.session.get("visits", 0) + 1
    return HttpResponse(f"basket of {request.user}")


@cache_control(max_age=60)
def greeting(request):
    """Reads the session, and sets no cookie."""
    return HttpResponse(f"hello {request.user}")


@login_required(login_url="/admin/login/")
def upload(request):
    """A form with a file; its answer tells the bytes that arrived."""
    if request.method == "POST":
        file = request.FILES["file"]
        return JsonResponse({"user": request.user.username, "bytes": sum(len(part) for part in file.chunks())})
    return HttpResponse(f'<input name="csrfmiddlewaretoken" value="{get_token(request)}">')


def where(request):
    """The request as Django understands it."""
    return JsonResponse({"secure": request.is_secure(), "url": request.build_absolute_uri(), "client": request.META.get("HTTP_X_FORWARDED_FOR")})


def ticks(request):
    """Five parts, one each 0.2 s."""
    def parts():
        for number in range(5):
            yield f"data: {number}\n\n"
            time.sleep(0.2)
    return StreamingHttpResponse(parts(), content_type="text/event-stream", headers={"Cache-Control": "no-cache"})


urlpatterns = [path("admin/", admin.site.urls), path("news", news), path("basket", basket), path("greeting", greeting), path("upload", upload),
               path("where", where), path("ticks", ticks)]
application = get_wsgi_application()
