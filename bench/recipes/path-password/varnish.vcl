# nearly: users and passwords stand in the settings, in plain Base64.
sub vcl_recv {
    if (req.url ~ "^/private") {
        if (req.http.Authorization !~ "^Basic (YW5uOnNlY3JldA==|Ym9iOndvcmQ=)$") {
            return (synth(401));
        }
        unset req.http.Authorization;
    }
}
sub vcl_synth {
    if (resp.status == 401) {
        set resp.http.WWW-Authenticate = "Basic realm=private";
    }
}
