"""A WebDAV share by WsgiDAV: `public` is read by everybody and written by ada, `team` is for ada and bob."""

import sys

from cheroot import wsgi
from wsgidav.fs_dav_provider import FilesystemProvider
from wsgidav.wsgidav_app import WsgiDAVApp


def main():
    port, folder = int(sys.argv[1]), sys.argv[2]
    users = {"ada": {"password": "ada-secret"}, "bob": {"password": "bob-secret"}}
    settings = {
        "provider_mapping": {"/public": FilesystemProvider(f"{folder}/public"), "/team": FilesystemProvider(f"{folder}/team"),
                             "/open": FilesystemProvider(f"{folder}/public", readonly=True)},
        "simple_dc": {"user_mapping": {"/public": users, "/team": users, "/open": True}},
        "http_authenticator": {"accept_basic": True, "accept_digest": False, "default_to_digest": False},
        "property_manager": True, "lock_storage": True, "verbose": 1,
    }
    server = wsgi.Server(("127.0.0.1", port), WsgiDAVApp(settings), numthreads=16)
    server.start()


if __name__ == "__main__":
    main()
