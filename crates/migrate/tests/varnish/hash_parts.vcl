vcl 4.1;
backend default { .host = "10.0.0.2"; }
sub vcl_hash {
    hash_data(req.url);
    if (req.http.host) { hash_data(req.http.host); } else { hash_data(server.ip); }
    hash_data(req.http.X-Forwarded-Proto);
    hash_data(req.http.X-Device);
    return (lookup);
}
sub vcl_recv {
    set req.http.X-Device = "desktop";
    if (req.http.User-Agent ~ "Mobile") { set req.http.X-Device = "mobile"; }
}
