# Varnish heeds no Cache-Control of clients.
