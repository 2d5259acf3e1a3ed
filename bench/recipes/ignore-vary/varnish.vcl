sub vcl_backend_response {
    set beresp.http.Vary = regsuball(beresp.http.Vary, "(?i)user-agent,?\s*", "");
}
