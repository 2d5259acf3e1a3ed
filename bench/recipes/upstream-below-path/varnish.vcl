# nearly: Location is not rewritten.
sub vcl_backend_fetch {
    set bereq.url = "/simple" + bereq.url;
}
