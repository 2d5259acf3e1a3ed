//! Attacks published against other caches.
