# Varnish rewrites no Location.
