sub vcl_recv {
    if (req.http.Cookie ~ "session=") {
        return (pass);
    }
}
