# nearly: stale answers also come at once, while the backend is asked; time-outs by the same way.
sub vcl_backend_response {
    set beresp.grace = 1h;
    if (bereq.is_bgfetch && beresp.status >= 500) {
        return (abandon);
    }
}
