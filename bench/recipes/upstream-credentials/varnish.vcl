# nearly: the password stands in the settings.
sub vcl_recv {
    unset req.http.Authorization;
}
sub vcl_backend_fetch {
    set bereq.http.Authorization = "Basic dXNlcjpwYXNzd29yZA==";
}
