vcl 4.1;
backend default { .host = "10.0.0.2"; }
sub vcl_hash { hash_data(geoip.country_code(client.ip)); }
sub vcl_recv {
    if (geoip.country_code(client.ip) == "XX") { return (synth(451)); }
    if (req.restarts > 0) { return (pass); }
}
