vcl 4.1;
backend default { .host = "10.0.0.2"; }
acl office { "192.0.2.0"/24; }
acl bad { "198.51.100.0"/24; }
sub vcl_recv {
    if (req.url ~ "^/internal/" && client.ip !~ office) { return (synth(403, "no")); }
    if (req.http.User-Agent ~ "(?i)badbot") { return (synth(403)); }
    if (req.url ~ "/\.git") { return (synth(404)); }
    if (req.method == "TRACE") { return (synth(405)); }
    if (std.ip(req.http.X-Client, "0.0.0.0") ~ bad) { return (synth(403)); }
}
