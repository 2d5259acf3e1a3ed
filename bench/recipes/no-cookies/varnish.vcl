sub vcl_recv {
    unset req.http.Cookie;
}
