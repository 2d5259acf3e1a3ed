sub vcl_recv {
    if (req.url ~ "^/old/") {
        return (synth(301, "https://" + req.http.Host + "/new" + req.url));
    }
}
sub vcl_synth {
    if (resp.status == 301) {
        set resp.http.Location = resp.reason;
        set resp.reason = "Moved Permanently";
        return (deliver);
    }
}
