sub vcl_recv {
    set req.url = std.querysort(req.url);
}
