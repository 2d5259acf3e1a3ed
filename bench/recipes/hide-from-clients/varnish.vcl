sub vcl_backend_response {
    unset beresp.http.X-Powered-By;
}
