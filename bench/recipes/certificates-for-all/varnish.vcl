# none: open Varnish speaks no TLS to clients; Hitch before it asks for certificates.
