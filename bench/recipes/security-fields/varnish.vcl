sub vcl_backend_response {
    set beresp.http.X-Content-Type-Options = "nosniff";
}
