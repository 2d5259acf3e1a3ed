import cookie;
sub vcl_recv {
    cookie.parse(req.http.Cookie);
    cookie.keep("lang");
    set req.http.Cookie = cookie.get_string();
}
sub vcl_req_cookie {
    return;
}
sub vcl_hash {
    hash_data(req.http.Cookie);
}
