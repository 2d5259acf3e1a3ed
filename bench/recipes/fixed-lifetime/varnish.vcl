sub vcl_backend_response {
    set beresp.ttl = 10m;
}
