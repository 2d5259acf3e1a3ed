# nearly: it leaves the marks between parameters that are not there.
sub vcl_recv {
    set req.http.X-Page = regsub(req.url, "^[^?]*\?(?:.*&)?(page=[^&]*).*$|^.*$", "\1");
    set req.http.X-Sort = regsub(req.url, "^[^?]*\?(?:.*&)?(sort=[^&]*).*$|^.*$", "\1");
    set req.url = regsub(req.url, "\?.*$", "") + "?" + req.http.X-Page + "&" + req.http.X-Sort;
}
