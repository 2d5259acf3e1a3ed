sub vcl_backend_response {
    unset beresp.http.Set-Cookie;
}
