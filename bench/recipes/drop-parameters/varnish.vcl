sub vcl_recv {
    set req.url = regsuball(req.url, "&(utm_[^&=]*|fbclid|gclid)(=[^&]*)?", "");
    set req.url = regsuball(req.url, "\?(utm_[^&=]*|fbclid|gclid)(=[^&]*)?(&|$)", "?");
    set req.url = regsub(req.url, "\?$", "");
}
