sub vcl_backend_fetch {
    set bereq.http.Host = "packages.example";
}
