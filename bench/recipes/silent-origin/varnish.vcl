# in arguments
-p default_ttl=600
