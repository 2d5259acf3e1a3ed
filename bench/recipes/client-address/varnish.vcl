sub vcl_recv {
    set req.http.X-Real-IP = client.ip;
}
