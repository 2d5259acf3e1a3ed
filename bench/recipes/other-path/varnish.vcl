sub vcl_backend_fetch {
    set bereq.url = regsub(bereq.url, "^/npm/", "/registry/");
}
