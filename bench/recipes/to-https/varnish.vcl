sub vcl_recv {
    return (synth(308, "https://" + req.http.Host + req.url));
}
sub vcl_synth {
    if (resp.status == 308) {
        set resp.http.Location = resp.reason;
        set resp.reason = "Permanent Redirect";
        return (deliver);
    }
}
