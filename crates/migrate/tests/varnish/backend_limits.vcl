vcl 4.1;
backend one {
    .host = "10.0.0.2";
    .max_connections = 50;
    .host_header = "www.example.org";
    .probe = { .url = "/up"; }
}
backend two { .host = "10.0.0.3"; .max_connections = 30; }
backend lone { .host = "10.0.0.4"; }
sub vcl_init {
    new both = directors.round_robin();
    both.add_backend(one);
    both.add_backend(two);
}
sub vcl_recv {
    set req.backend_hint = both.backend();
    if (req.url ~ "^/lone/") { set req.backend_hint = lone; }
}
sub vcl_backend_fetch {
    set bereq.http.Host = "origin.example.org";
}
sub vcl_backend_response {
    if (beresp.status >= 500 && bereq.is_bgfetch) { return (abandon); }
    set beresp.grace = 6h;
}
sub vcl_backend_error {
    set beresp.http.Content-Type = "text/html";
    synthetic({"<h1>Soon back</h1>"});
    return (deliver);
}
