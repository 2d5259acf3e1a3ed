sub vcl_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.body = std.fileread("/etc/varnish/down.html");
    return (deliver);
}
