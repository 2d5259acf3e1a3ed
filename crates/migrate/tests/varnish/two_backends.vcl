vcl 4.1;
import directors;
probe health { .url = "/health"; .interval = 5s; .timeout = 1s; .window = 5; .threshold = 3; }
backend a { .host = "10.0.0.2"; .port = "8080"; .probe = health; }
backend b { .host = "10.0.0.3"; .port = "8080"; .probe = health; }
backend api { .host = "10.0.1.1"; .port = "443"; }
backend img { .host = "10.0.2.1"; .max_connections = 100; }
sub vcl_init {
    new web = directors.round_robin();
    web.add_backend(a);
    web.add_backend(b);
}
sub vcl_recv {
    set req.backend_hint = web.backend();
    if (req.http.host ~ "^img\.example\.org$") { set req.backend_hint = img; }
    if (req.url ~ "^/api/") { set req.backend_hint = api; return (pass); }
}
