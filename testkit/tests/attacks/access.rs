//! Access lists hold on every listener.
