vcl 4.1;
include "absent.vcl";
backend default none;
backend site { .host = "site.example.org"; .port = "443"; .ssl = 1; .host_header = "site.example.org"; }
C{ #include <stdio.h> }C
sub vcl_recv {
    if (req.url ~ "^/a") { return (pass); } elseif (req.url ~ "^/b") { return (synth(403)); } else { set req.http.X-Rest = "1"; }
    set req.http.X-Client = client.ip;
    std.log("x");
    return (restart);
}
