sub vcl_recv {
    if (req.url ~ "^/admin/") {
        return (pass);
    }
}
