import vsthrottle;
sub vcl_recv {
    if (vsthrottle.is_denied(client.identity, 20, 2s)) {
        return (synth(429));
    }
}
