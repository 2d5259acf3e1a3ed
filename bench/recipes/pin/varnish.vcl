# nearly: open Varnish has no storage that outlasts a restart.
# in arguments
-s pinned=malloc,1G
# in vcl
sub vcl_backend_response {
    if (bereq.url ~ "^/releases/") {
        set beresp.storage = storage.pinned;
    }
}
