# nearly: stale answers also come at once, while the backend is asked.
sub vcl_backend_response {
    set beresp.grace = 1h;
    if (bereq.is_bgfetch && (beresp.status >= 500 || beresp.status == 429 || beresp.status == 404)) {
        return (abandon);
    }
}
