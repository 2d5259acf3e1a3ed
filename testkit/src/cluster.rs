//! Nodes of a cluster under test: their addresses and settings, and the wait until they know each
//! other.

use crate::address::{free_port, fresh_ip};
use crate::{Origin, Request, Setup, Shoal, wait};
use std::net::SocketAddr;

/// Addresses for the peers of nodes, each on an address of its own.
pub fn peers(count: usize) -> Vec<SocketAddr> {
    (0..count).map(|_| free_port(fresh_ip())).collect()
}

/// Settings of a node at `own` that knows these members.
pub fn setup(origin: &Origin, own: SocketAddr, members: &[SocketAddr]) -> Setup {
    member(Setup::to(origin), own, members)
}

/// Makes a node with these settings a member at `own` that knows these members.
pub fn member(setup: Setup, own: SocketAddr, members: &[SocketAddr]) -> Setup {
    let names: Vec<String> = members.iter().map(SocketAddr::to_string).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    setup
        .set("cluster.name", "test")
        .set("cluster.peer", own.to_string())
        .set_list("cluster.join", &names)
        .set("cluster.peer_timeout", "2s")
}

/// Waits until the nodes know each other.
pub fn joined(nodes: Vec<Shoal>) -> Vec<Shoal> {
    wait::until("all nodes know each other", || nodes.iter().all(|node| members(node) == nodes.len()));
    nodes
}

/// Returns the number of living members that a node knows, itself among them.
pub fn members(node: &Shoal) -> usize {
    let status = node.ask_admin(&Request::get("/cluster")).expect_status(200).text();
    let value: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    value["members"].as_array().map_or(0, |all| all.iter().filter(|member| member["state"] != "out").count())
}
