# nearly: slashes and dot segments, no percent-encoding; each client sends few dots.
sub vcl_recv {
    set req.url = regsuball(req.url, "/(\.?/)+", "/");
    set req.url = regsub(req.url, "^(.*?)/(?!\.\.)[^/?]+/\.\./", "\1/");
}
