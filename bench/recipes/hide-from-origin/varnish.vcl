sub vcl_recv {
    unset req.http.X-Debug;
}
