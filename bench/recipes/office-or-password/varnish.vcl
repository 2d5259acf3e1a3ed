# nearly: users and passwords stand in the settings, in plain Base64.
acl office {
    "192.0.2.0"/24;
}
sub vcl_recv {
    if (client.ip !~ office && req.http.Authorization !~ "^Basic (YW5uOnNlY3JldA==|Ym9iOndvcmQ=)$") {
        return (synth(401));
    }
    unset req.http.Authorization;
}
sub vcl_synth {
    if (resp.status == 401) {
        set resp.http.WWW-Authenticate = "Basic realm=private";
    }
}
