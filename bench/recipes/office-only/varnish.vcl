acl office {
    "192.0.2.0"/24;
}
sub vcl_recv {
    if (req.url ~ "^/office" && client.ip !~ office) {
        return (synth(403));
    }
}
