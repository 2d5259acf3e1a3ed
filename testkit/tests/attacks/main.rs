//! Attacks: each test gives a client, an origin or a file one way to harm others, and holds what
//! must not happen. `docs/THREATS.md` lists the doors and the worst behind each.

mod access;
mod bounds;
mod clocks;
mod cluster;
mod collisions;
mod credentials;
mod forwarded;
mod frames;
mod interception;
mod lifetimes;
mod mirror_bodies;
mod mirror_documents;
mod mirror_names;
mod mirror_rights;
mod modes;
mod origin_connections;
mod pinned_memory;
mod published;
mod published_http2;
mod purged_and_killed;
mod purges;
mod reloads;
mod requests;
mod rules;
mod sessions;
mod streams;
