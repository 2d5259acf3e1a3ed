//! A page for one client reaches no other.
