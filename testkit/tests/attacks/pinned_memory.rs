//! Clients that take nothing leave the RAM tier to others.
