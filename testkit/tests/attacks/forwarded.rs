//! Only a trusted proxy speaks for a client.
