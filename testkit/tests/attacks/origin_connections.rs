//! Connections to an origin are shared fairly.
