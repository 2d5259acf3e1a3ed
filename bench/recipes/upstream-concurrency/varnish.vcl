# nearly: nothing waits; backend_wait_limit came with version 7.6.
# in backend
.max_connections = 100;
