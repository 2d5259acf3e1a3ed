sub vcl_recv {
    if (req.url ~ "^/wp-admin/") {
        return (synth(404));
    }
}
