//! Keys that collide lead to nobody else's response.
