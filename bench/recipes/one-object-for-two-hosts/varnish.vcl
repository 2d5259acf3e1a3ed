sub vcl_recv {
    if (req.http.Host == "example.org") {
        set req.http.Host = "www.example.org";
    }
}
