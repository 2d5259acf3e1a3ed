//! Strict HTTP/1 framing and the PROXY protocol as pure functions of bytes.
