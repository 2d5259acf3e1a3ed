//! Settings of a cluster: several nodes that act as one cache.

use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

section! {
    /// Several nodes that act as one cache.
    pub struct Cluster {
        /// Name of the cluster. Empty means that this node is in none.
        #[takes_effect(restart)]
        pub name: String = String::new(),
        /// Name of this node, unique in the cluster and the same after each start. Empty means the
        /// address of `cluster.peer`.
        #[takes_effect(restart)]
        pub node: String = String::new(),
        /// Address at which the other nodes reach this one, over TCP and UDP.
        #[takes_effect(restart)]
        pub peer: Option<SocketAddr> = None,
        /// Members to join: addresses and ports, or DNS names and ports, such as a headless service
        /// of Kubernetes. All addresses of a name are asked. This node's own address may be among
        /// them.
        pub join: Vec<String> = Vec::new(),
        /// File of the cluster's keys, one a line. The first key seals, all keys are accepted.
        /// Needed unless all peers are on loopback. Shoal reads the file again on reload.
        pub key_file: Option<PathBuf> = None,
        /// Networks in which nodes talk to each other without TLS. The key still seals messages of
        /// membership.
        #[takes_effect(restart)]
        pub trusted_networks: Vec<IpNet> = Vec::new(),
        /// Rule that says which nodes are asked for an object.
        pub placement: Placement = Placement::Hash,
        /// Level of this node with `placement = "hierarchy"`. 0 is nearest to the clients, 2 is
        /// nearest to the origins. A miss asks nodes of a higher level.
        #[limits(0..=2)]
        pub level: u16 = 0,
        /// Rules that name the parents for some hosts, with `placement = "hierarchy"`. The first
        /// rule with the host counts. Without one, the parents are the nodes of the next level.
        pub parent: Vec<ParentNodes> = Vec::new(),
        /// Share of the objects that this node keeps, relative to the other nodes'. `none` means
        /// the GiB of its disk and RAM.
        #[takes_effect(restart)]
        #[limits(Some(0.001)..=Some(1_000_000.0))]
        pub weight: Option<f64> = None,
        /// Use of the idle RAM of other nodes. All nodes that say more than `off` take part.
        pub shared_memory: SharedMemory = SharedMemory::Off,
        /// Load balancing rate b of shared memory: 0 puts objects where memory is oldest, 1 where
        /// most of it is spare. `none` lets each node find the best rate while it runs.
        #[limits(Some(0.0)..=Some(1.0))]
        pub shared_memory_balance: Option<f64> = None,
        /// Time for which a node that stops hands over its objects before it leaves. New homes take
        /// those that clients ask for, and the hottest ones in RAM. `0s` leaves at once.
        #[limits(Duration::ZERO..=Duration::from_secs(60))]
        pub hand_over: Duration = Duration::from_secs(2),
        /// Longest wait for the head of a peer's answer. The wait is shorter for a peer that
        /// usually answers sooner. After it the next home or the origin is asked.
        #[limits(Duration::from_millis(5)..=Duration::from_secs(60))]
        pub peer_timeout: Duration = Duration::from_secs(1),
        /// Time without word from most nodes after which this node validates all responses stored
        /// until then, again and again. A purge is then true everywhere after this time, confirmed
        /// or not. `none` goes on serving fresh responses.
        #[limits(Some(Duration::from_secs(5))..=Some(Duration::from_secs(86_400)))]
        pub validate_after: Option<Duration> = None,
    }
}

choice! {
    /// Use of the idle RAM of other nodes.
    pub enum SharedMemory {
        /// Objects that leave RAM are on disk alone.
        Off = "off",
        /// Objects that leave RAM go to nodes with older memory. They are asked for there if that
        /// is faster than the own disk, as measured.
        Measured = "measured",
        /// As `measured`, but the disk is spared at any cost.
        Always = "always",
    }
}

choice! {
    /// Rule that says which nodes are asked for an object.
    pub enum Placement {
        /// Each object has a home, by hash of its key and by the nodes' weights.
        Hash = "hash",
        /// Any node may hold an object; digests of the nodes' contents say which.
        Directory = "directory",
        /// A miss goes up from level to level, and each node on the way keeps a copy.
        Hierarchy = "hierarchy",
        /// Nodes ask no other node. Membership and purges work.
        None = "none",
    }
}

entry! {
    /// Parents of this node for some hosts.
    pub struct ParentNodes {
        /// Hosts, as in `site.hosts`: names, `*.example.com` for all below a name, `*` for all.
        pub hosts: Vec<String>,
        /// Names of the parents. Those of them on a higher level than this node are asked.
        pub nodes: Vec<String> = Vec::new(),
        /// Level of the parents, in place of their names. `none` means the next level.
        #[limits(Some(1)..=Some(2))]
        pub level: Option<u16> = None,
        /// Ask the origin at once.
        pub direct: bool = false,
    }
    example { Self { hosts: vec!["*.example.com".into()], nodes: Vec::new(), level: None, direct: true } }
}
