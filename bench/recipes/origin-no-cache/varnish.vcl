sub vcl_backend_response {
    set beresp.http.Cache-Control = regsuball(beresp.http.Cache-Control, "(?i)no-cache,?\s*", "");
}
