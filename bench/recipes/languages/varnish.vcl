# nearly: de-AT is not taken for de.
import accept;
sub vcl_init {
    new languages = accept.rule("");
    languages.add("de");
    languages.add("en");
}
sub vcl_recv {
    set req.http.Accept-Language = languages.filter(req.http.Accept-Language);
}
sub vcl_hash {
    hash_data(req.http.Accept-Language);
}
