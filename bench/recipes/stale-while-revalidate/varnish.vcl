# in arguments
-p default_grace=60
