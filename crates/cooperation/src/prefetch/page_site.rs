//! Place of a page that one program uses, and its way between disks and memories.
//!
//! Voelker 2000, sections 4.2 and 4.3: a page is on every disk, and in one memory at most.
//!
//! ```text
//!            ask               begin               fetched
//!     Disk ───────► Requested ───────► Fetching ────────────► Global ◄───┐ put
//!      ▲ ▲  refuse      │                                      │ │ ▲      │
//!      │ └──────────────┤                                  get │ │ └─ put │
//!      │                │ read                                 ▼ │        │
//!      │                └──────────────────────────► Incoming ───┼─────► Local
//!      │                        read from the own disk      arrive        │
//!      └──────────────────────── drop ───────────────────────────┴────────┘
//! ```
//!
//! Each message about a page may come late: the request that it answers was withdrawn, or the page
//! went elsewhere. A move that does not fit the place changes nothing and returns `false`. O(1).

use super::AccessTimes;

/// Place of a page. Nodes have numbers from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSite {
    /// On disks alone.
    #[default]
    Disk,
    /// On disks alone, and this node was asked to read it.
    Requested(usize),
    /// This node's disk reads it, into its memory.
    Fetching(usize),
    /// In the memory of this node, for the program's node.
    Global(usize),
    /// On the way into the memory of the program's node.
    Incoming,
    /// In the memory of the program's node.
    Local,
}

/// Step of a program that needs a page at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultStep {
    /// The page is here.
    Use,
    /// The page is on its way: the program waits, and a read that is queued goes to the front.
    Hurry,
    /// This node's disk is reading the page: the program waits, and then gets it.
    AwaitFetch(usize),
    /// The page comes from the memory of this node.
    Get(usize),
    /// The own disk reads the page. The request to this node is withdrawn.
    Read {
        /// Node that was asked for the page.
        withdrawn: Option<usize>,
    },
}

impl PageSite {
    /// Returns the step of a program that needs the page at once.
    pub fn fault(self) -> FaultStep {
        match self {
            Self::Local => FaultStep::Use,
            Self::Incoming => FaultStep::Hurry,
            Self::Fetching(node) => FaultStep::AwaitFetch(node),
            Self::Global(node) => FaultStep::Get(node),
            Self::Requested(node) => FaultStep::Read { withdrawn: Some(node) },
            Self::Disk => FaultStep::Read { withdrawn: None },
        }
    }

    /// Returns the node with the page in a frame, if there is one; `home` is the program's node.
    pub fn holder(self, home: usize) -> Option<usize> {
        match self {
            Self::Local => Some(home),
            Self::Global(node) => Some(node),
            _ => None,
        }
    }

    /// Returns `true` if the page is neither local nor on its way there.
    pub fn is_missing(self) -> bool {
        !matches!(self, Self::Local | Self::Incoming)
    }

    /// Returns the time to bring a missing page here, in seconds: F_G for a page that global memory
    /// has or gets, otherwise F_D.
    pub fn fetch_seconds(self, times: &AccessTimes) -> f64 {
        match self {
            Self::Global(_) | Self::Fetching(_) => times.global_seconds(),
            _ => times.disk_seconds(),
        }
    }

    /// Records that a node was asked to read the page.
    pub fn ask(&mut self, node: usize) -> bool {
        self.step(*self == Self::Disk, Self::Requested(node))
    }

    /// Records that a node begins to read the page that it was asked for.
    pub fn begin(&mut self, node: usize) -> bool {
        self.step(*self == Self::Requested(node), Self::Fetching(node))
    }

    /// Records that a node does not read the page that it was asked for.
    pub fn refuse(&mut self, node: usize) -> bool {
        self.step(*self == Self::Requested(node), Self::Disk)
    }

    /// Records that a node's memory has the page that its disk read.
    pub fn fetched(&mut self, node: usize) -> bool {
        self.step(*self == Self::Fetching(node), Self::Global(node))
    }

    /// Records that the page leaves a node's memory for that of the program's node.
    pub fn get(&mut self, node: usize) -> bool {
        self.step(*self == Self::Global(node), Self::Incoming)
    }

    /// Records that the own disk reads the page. A request to another node is withdrawn by it.
    pub fn read(&mut self) -> bool {
        self.step(matches!(self, Self::Disk | Self::Requested(_)), Self::Incoming)
    }

    /// Records that the page has come into the memory of the program's node.
    pub fn arrive(&mut self) -> bool {
        self.step(*self == Self::Incoming, Self::Local)
    }

    /// Records that a memory passes the page on to this node; `home` is the program's node.
    pub fn put(&mut self, node: usize, home: usize) -> bool {
        let to = if node == home { Self::Local } else { Self::Global(node) };
        self.step(self.holder(home).is_some_and(|from| from != node), to)
    }

    /// Records that a memory has given the page up, for no other.
    pub fn drop_page(&mut self) -> bool {
        self.step(matches!(self, Self::Local | Self::Global(_)), Self::Disk)
    }

    fn step(&mut self, fits: bool, to: Self) -> bool {
        if fits {
            debug_assert!(*self != to, "a page moves to {to:?} from there");
            *self = to;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Move = fn(&mut PageSite) -> bool;

    /// Moves that concern node 1, of a program on node 0.
    const MOVES: [(&str, Move); 10] = [
        ("ask", |site| site.ask(1)),
        ("begin", |site| site.begin(1)),
        ("refuse", |site| site.refuse(1)),
        ("fetched", |site| site.fetched(1)),
        ("get", |site| site.get(1)),
        ("read", PageSite::read),
        ("arrive", PageSite::arrive),
        ("put", |site| site.put(1, 0)),
        ("put home", |site| site.put(0, 0)),
        ("drop", PageSite::drop_page),
    ];

    #[test]
    fn only_the_drawn_moves_change_a_place() {
        use PageSite::{Disk, Fetching, Global, Incoming, Local, Requested};
        let drawn = [
            (Disk, "ask", Requested(1)),
            (Disk, "read", Incoming),
            (Requested(1), "begin", Fetching(1)),
            (Requested(1), "refuse", Disk),
            (Requested(1), "read", Incoming),
            (Requested(2), "read", Incoming),
            (Fetching(1), "fetched", Global(1)),
            (Global(1), "get", Incoming),
            (Global(1), "put home", Local),
            (Global(1), "drop", Disk),
            (Global(2), "put", Global(1)),
            (Global(2), "put home", Local),
            (Global(2), "drop", Disk),
            (Incoming, "arrive", Local),
            (Local, "put", Global(1)),
            (Local, "drop", Disk),
        ];
        let sites = [
            Disk,
            Requested(1),
            Requested(2),
            Fetching(1),
            Fetching(2),
            Global(1),
            Global(2),
            Incoming,
            Local,
        ];
        for (site, (name, step)) in sites.into_iter().flat_map(|site| MOVES.map(|one| (site, one))) {
            let expected = drawn.iter().find(|(from, by, _)| *from == site && *by == name);
            let mut found = site;
            assert_eq!(step(&mut found), expected.is_some(), "{name} of {site:?}");
            assert_eq!(found, expected.map_or(site, |(_, _, to)| *to), "{name} of {site:?}");
        }
    }

    #[test]
    fn late_answers_of_a_withdrawn_request_are_ignored() {
        let mut site = PageSite::default();
        assert!(site.ask(3));
        assert_eq!(site.fault(), FaultStep::Read { withdrawn: Some(3) });
        assert!(site.read() && site.arrive());
        assert!(!site.begin(3) && !site.refuse(3) && !site.fetched(3));
        assert_eq!((site, site.holder(7)), (PageSite::Local, Some(7)));
        assert!(site.put(3, 7) && site.holder(7) == Some(3) && site.is_missing());
        assert!(!site.put(3, 7), "it is there");
    }

    #[test]
    fn pages_in_global_memory_are_near() {
        let times = AccessTimes::TESTBED;
        for (site, seconds, step) in [
            (PageSite::Disk, 13e-3, FaultStep::Read { withdrawn: None }),
            (PageSite::Fetching(2), 370e-6, FaultStep::AwaitFetch(2)),
            (PageSite::Global(2), 370e-6, FaultStep::Get(2)),
        ] {
            assert!(site.is_missing());
            assert_eq!((site.fetch_seconds(&times), site.fault()), (seconds, step));
        }
        assert_eq!([PageSite::Incoming.fault(), PageSite::Local.fault()], [FaultStep::Hurry, FaultStep::Use]);
        assert!(!PageSite::Incoming.is_missing() && !PageSite::Local.is_missing());
    }
}
