vcl 4.0;
import std;
import directors;
backend m1 { .host = "10.0.0.2"; .port = "8080"; .probe = { .url = "/health_check.php"; .interval = 10s; .threshold = 5; } }
acl purge { "localhost"; }
sub normalise { set req.http.host = std.tolower(req.http.host); }
sub vcl_recv {
    call normalise;
    if (req.method == "PURGE") {
        if (client.ip !~ purge) { return (synth(405, "Method not allowed")); }
        ban("obj.http.X-Tags ~ " + req.http.X-Tags-Pattern);
        return (synth(200, "Purged"));
    }
    if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" && req.method != "POST") { return (pipe); }
    if (req.url ~ "/checkout" || req.url ~ "/customer") { return (pass); }
    if (req.url ~ "^/(pub/)?(media|static)/") { unset req.http.Https; unset req.http.Cookie; }
    if (req.http.Cookie ~ "X-Magento-Vary=") { return (pass); }
    return (hash);
}
sub vcl_backend_response {
    set beresp.grace = 3d;
    if (beresp.http.Cache-Control ~ "private") { set beresp.uncacheable = true; set beresp.ttl = 86400s; return (deliver); }
    if (beresp.http.X-Debug) { set beresp.http.X-Grace = "yes"; }
}
