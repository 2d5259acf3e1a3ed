sub vcl_backend_response {
    if (beresp.ttl < 1m) {
        set beresp.ttl = 1m;
    } elsif (beresp.ttl > 1h) {
        set beresp.ttl = 1h;
    }
}
