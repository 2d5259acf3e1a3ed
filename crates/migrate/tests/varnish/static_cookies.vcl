vcl 4.0;
import std;
backend default { .host = "10.0.0.2"; .port = "80"; .connect_timeout = 5s; .first_byte_timeout = 60s; }
acl purge { "localhost"; "10.0.0.0"/8; }
sub vcl_recv {
    set req.http.Host = regsub(req.http.Host, ":[0-9]+", "");
    if (req.method == "PURGE") {
        if (!client.ip ~ purge) { return (synth(405, "Not allowed.")); }
        return (purge);
    }
    if (req.method != "GET" && req.method != "HEAD") { return (pass); }
    if (req.url ~ "^/(admin|login)") { return (pass); }
    if (req.url ~ "(?i)\.(css|js|png|gif|jpe?g|ico|svg|woff2?)(\?.*)?$") { unset req.http.Cookie; return (hash); }
    if (req.http.Authorization || req.http.Cookie) { return (pass); }
    return (hash);
}
sub vcl_backend_response {
    if (bereq.url ~ "(?i)\.(css|js|png|gif|jpe?g|ico|svg|woff2?)(\?.*)?$") { unset beresp.http.Set-Cookie; set beresp.ttl = 1d; }
    set beresp.grace = 6h;
    return (deliver);
}
sub vcl_deliver {
    if (obj.hits > 0) { set resp.http.X-Cache = "HIT"; } else { set resp.http.X-Cache = "MISS"; }
    unset resp.http.X-Powered-By;
    unset resp.http.Server;
    set resp.http.X-Frame-Options = "SAMEORIGIN";
}
