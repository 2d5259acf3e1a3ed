vcl 4.1;
backend default { .host = "10.0.0.2"; }
sub vcl_recv {
    if (req.http.host == "example.org") { return (synth(301, "https://www.example.org" + req.url)); }
    if (req.http.X-Forwarded-Proto !~ "https") { return (synth(750, "https://" + req.http.host + req.url)); }
    if (req.url == "/old") { return (synth(302, "https://www.example.org/new")); }
}
sub vcl_synth {
    if (resp.status == 750) { set resp.http.Location = resp.reason; set resp.status = 301; return (deliver); }
}
