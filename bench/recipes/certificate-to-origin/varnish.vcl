# none: open Varnish speaks no TLS to clients.
