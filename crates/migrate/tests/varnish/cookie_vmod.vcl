vcl 4.1;
import cookie;
backend default { .host = "10.0.0.2"; .port = "8080"; }
sub vcl_recv {
    if (req.http.Cookie) {
        cookie.parse(req.http.Cookie);
        cookie.keep("PHPSESSID,lang");
        set req.http.Cookie = cookie.get_string();
        if (req.http.Cookie == "") { unset req.http.Cookie; }
    }
}
