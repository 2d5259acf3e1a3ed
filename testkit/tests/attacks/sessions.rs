//! A cookie set for one client reaches no other.
