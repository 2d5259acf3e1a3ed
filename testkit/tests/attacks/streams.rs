//! What an HTTP/2 connection can make the node hold.
