//! Drivers over real UDP sockets on loopback, with calls in memory.

use super::*;
use crate::keys::KeyFile;
use crate::{CallError, CallFuture, Caller};
use bytes::Bytes;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU8;

/// Calls in memory: the services of all nodes by address.
#[derive(Default)]
struct MemoryCalls {
    services: Mutex<HashMap<SocketAddr, Arc<dyn PeerService>>>,
}

impl PeerCalls for MemoryCalls {
    fn call(&self, to: SocketAddr, name: &'static str, body: Bytes) -> CallFuture<'_> {
        let service = self.services.lock().get(&to).cloned();
        Box::pin(async move {
            let service = service.ok_or_else(|| CallError::Unreachable("nobody listens".into()))?;
            service.answer(Caller { name: None, address: to }, name, body).await
        })
    }
}

/// Nodes of a test.
struct Nodes {
    calls: Arc<MemoryCalls>,
    key_file: Option<std::path::PathBuf>,
    /// Address of their own in the loopback network: other tests' nodes never get their ports.
    host: Ipv4Addr,
    ports: Vec<u16>,
}

impl Nodes {
    fn new(count: usize, key_file: Option<std::path::PathBuf>) -> Self {
        let host = own_host();
        let sockets: Vec<_> =
            (0..count).map(|_| std::net::UdpSocket::bind((host, 0)).expect("a free port")).collect();
        let port = |socket: &std::net::UdpSocket| socket.local_addr().expect("bound").port();
        Self { calls: Arc::default(), key_file, host, ports: sockets.iter().map(port).collect() }
    }

    fn options(&self, number: usize) -> ClusterOptions {
        let address = |port: &u16| SocketAddr::from((self.host, *port));
        ClusterOptions {
            cluster: "test".into(),
            node: format!("node-{number}"),
            peer: address(&self.ports[number]),
            join: self.ports.iter().map(|port| address(port).to_string()).collect(),
            key_file: self.key_file.clone(),
            level: 0,
            weight: 1.0,
            state: MemberState::In,
        }
    }

    fn start(&self, options: ClusterOptions) -> Cluster {
        let address = options.peer;
        let cluster = Cluster::start(options, Arc::clone(&self.calls) as Arc<_>).expect("a node");
        self.calls.services.lock().insert(address, cluster.service());
        cluster
    }
}

/// An address in 127.0.0.0/8 for this process and call.
fn own_host() -> Ipv4Addr {
    static CALLS: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 1 + CALLS.fetch_add(1, Relaxed) % 250, high, low.clamp(1, 254))
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn agree(clusters: &[&Cluster], count: usize) -> bool {
    let views: Vec<_> = clusters.iter().map(|cluster| cluster.view()).collect();
    views.iter().all(|view| view.members().len() == count && view.fingerprint() == views[0].fingerprint())
}

#[test]
fn three_nodes_join_rotate_drain_and_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    let file = KeyFile::generate().expect("randomness");
    file.create(&path).expect("a key file");
    let nodes = Nodes::new(3, Some(path.clone()));
    let all: Vec<_> = (0..3).map(|number| nodes.start(nodes.options(number))).collect();
    let [one, two, three] = &all[..] else { panic!("three nodes") };
    until("all know all", || agree(&[one, two, three], 3));

    let homes = |cluster: &Cluster| cluster.view().homes(b"http://a.test/").iter().collect::<Vec<_>>();
    assert_eq!(homes(one), homes(three));
    let steps = [file.clone().with_key_added(), Ok(file)];
    let added = steps.into_iter().next().expect("a step").expect("randomness");
    let turned = added.clone().with_second_first().expect("two keys");
    for step in [added, turned.clone(), turned.with_first_alone().expect("two keys")] {
        step.replace(&path).expect("the file is ours");
        for cluster in &all {
            let before = cluster.status().datagrams.received;
            cluster.reload_keys(Some(&path)).expect("a good file");
            until("it hears others", || cluster.status().datagrams.received > before + 2);
        }
    }
    assert_eq!(one.status().key, three.status().key);
    assert!(agree(&[one, two, three], 3));

    let stranger = folder.path().join("other");
    KeyFile::generate().and_then(|file| file.create(&stranger)).expect("another key file");
    let peer = Nodes::new(1, None).options(0).peer;
    let options =
        ClusterOptions { key_file: Some(stranger), node: "stranger".into(), peer, ..nodes.options(0) };
    let stranger = nodes.start(options);
    until("a wrong key is refused", || stranger.status().refused.is_some_and(|why| why.contains("key")));
    assert_eq!(stranger.view().members().len(), 1);
    drop(stranger);

    two.drain();
    let is_draining = |cluster: &Cluster| {
        cluster.view().member(two.own()).is_some_and(|member| member.state == MemberState::Draining)
    };
    until("the drain is known", || is_draining(one) && is_draining(three));
    let status = one.status();
    assert_eq!(status.members.len(), 3);
    assert!(!status.datagrams.dropped.contains_key("forged"), "{status:?}");
    two.leave();
    until("the leave is known", || agree(&[one, three], 2));
}

#[test]
fn strangers_and_twins_are_refused_aloud() {
    let nodes = Nodes::new(4, None);
    let (one, two) = (nodes.start(nodes.options(0)), nodes.start(nodes.options(1)));
    until("both know both", || agree(&[&one, &two], 2));
    let seeds = nodes.options(0).join[..2].to_vec();
    let twin = nodes.start(ClusterOptions { node: "node-1".into(), join: seeds.clone(), ..nodes.options(2) });
    let other = nodes.start(ClusterOptions { cluster: "other".into(), join: seeds, ..nodes.options(3) });
    for (cluster, why) in [(&twin, "cluster.node"), (&other, "cluster.name")] {
        until(why, || cluster.status().refused.is_some_and(|refused| refused.contains(why)));
        assert_eq!(cluster.view().members().len(), 1, "it goes on alone");
    }
    assert!(agree(&[&one, &two], 2), "{:?} {:?}", one.view().members(), two.view().members());
    assert!(one.status().datagrams.joins_refused + two.status().datagrams.joins_refused >= 2);
}

#[test]
fn node_that_died_comes_back_and_garbage_is_counted() {
    let nodes = Nodes::new(2, None);
    let (one, two) = (nodes.start(nodes.options(0)), nodes.start(nodes.options(1)));
    until("both know both", || agree(&[&one, &two], 2));
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket
        .send_to(b"garbage that is no datagram of ours, and long enough", nodes.options(0).peer)
        .expect("sent");
    socket.send_to(&[0; 1400], nodes.options(0).peer).expect("sent");
    until("garbage is counted", || one.status().datagrams.dropped.len() == 2);
    let life = two.status().life;
    drop(two);
    until("the leave is known", || agree(&[&one], 1));
    let two = nodes.start(nodes.options(1));
    until("it is back", || agree(&[&one, &two], 2));
    assert!(two.status().life > life);
}

#[test]
fn options_without_sense_are_refused() {
    let nodes = Nodes::new(1, None);
    for (options, why) in [
        (ClusterOptions { cluster: "a b".into(), ..nodes.options(0) }, "cluster.name"),
        (ClusterOptions { node: "a/b".into(), ..nodes.options(0) }, "cluster.node"),
        (ClusterOptions { peer: ([10, 0, 0, 1], 1).into(), ..nodes.options(0) }, "shoal cluster init"),
        (ClusterOptions { key_file: Some("/nowhere/keys".into()), ..nodes.options(0) }, "/nowhere/keys"),
    ] {
        let refused = Cluster::start(options, Arc::clone(&nodes.calls) as Arc<_>).err().expect("refused");
        assert!(refused.to_string().contains(why), "{refused}");
    }
}
