import vsthrottle;
sub vcl_recv {
    if (req.method == "POST" && req.url ~ "^/login" && vsthrottle.is_denied(client.identity, 1, 5s)) {
        return (synth(429));
    }
}
