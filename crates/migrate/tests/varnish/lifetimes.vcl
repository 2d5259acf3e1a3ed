vcl 4.1;
backend default { .host = "10.0.0.2"; }
sub vcl_backend_response {
    if (beresp.status >= 500) { set beresp.uncacheable = true; set beresp.ttl = 0s; return (deliver); }
    if (beresp.status == 404) { set beresp.ttl = 30s; }
    if (beresp.http.Content-Type ~ "^image/") { set beresp.ttl = 7d; }
    if (beresp.http.Content-Type ~ "text|javascript") { set beresp.do_gzip = true; }
    if (bereq.url ~ "^/feed") { set beresp.ttl = 5m; set beresp.grace = 1h; set beresp.keep = 1d; }
    if (beresp.ttl <= 0s || beresp.http.Set-Cookie || beresp.http.Vary == "*") { set beresp.ttl = 120s; set beresp.uncacheable = true; }
    unset beresp.http.Server;
    set beresp.http.X-Url = bereq.url;
    set beresp.do_esi = true;
}
