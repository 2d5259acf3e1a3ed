sub vcl_backend_response {
    if (beresp.status == 404) {
        set beresp.ttl = 10m;
    }
}
