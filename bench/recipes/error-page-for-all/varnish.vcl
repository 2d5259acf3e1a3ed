sub vcl_backend_response {
    if (beresp.status >= 400) {
        return (error(beresp.status, beresp.reason));
    }
}
sub vcl_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.body = std.fileread("/etc/varnish/error.html");
    return (deliver);
}
sub vcl_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.body = std.fileread("/etc/varnish/error.html");
    return (deliver);
}
