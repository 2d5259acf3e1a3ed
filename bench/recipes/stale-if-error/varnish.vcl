# nearly: grace serves stale at once; a probe of the backend limits it to failures.
# in backend
.probe = { .url = "/"; }
# in vcl
sub vcl_recv {
    if (std.healthy(req.backend_hint)) {
        set req.grace = 0s;
    }
}
sub vcl_backend_response {
    set beresp.grace = 1h;
    if (bereq.is_bgfetch && beresp.status >= 500) {
        return (abandon);
    }
}
