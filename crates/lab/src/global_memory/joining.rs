//! Cost of filling a new idle node at a steady rate instead of at once.
//!
//! Voelker 2000, section 3.4.3 ("Naive Load Balancing", Figure 3.7): one program, two idle nodes,
//! and a third that joins after the first third of the references. [`Policy::StrictLru`] takes the
//! third node's free memory as the oldest, and evicted pages go there until it is full.
//! [`Policy::Naive`] sends each third evicted page there. No request waits for a server here, so
//! that the cost of naive balancing is more than it would be. O(servers) a reference.

use super::recency::Recency;
use super::{Application, Faults};

/// Target of evicted pages once the third node is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// To a free frame, or to the node that holds the oldest page of all.
    StrictLru,
    /// Each third one to the new node, the others as in strict LRU among the first two.
    Naive,
}

/// Pages of the nodes: the program's own, the first two idle nodes', and the third's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySplit {
    /// Pages of the program's own node.
    pub local: usize,
    /// Pages of the idle nodes; the last one joins later.
    pub idle: [usize; 3],
}

impl MemorySplit {
    /// Splits memory: a third of the pages local, a sixth in each of two idle nodes, a third in the
    /// new one.
    pub fn first_of_figure_3_7(application: &Application) -> Self {
        let (third, sixth) = (application.part(1, 3), application.part(1, 6));
        Self { local: third, idle: [sixth, sixth, third] }
    }

    /// Splits memory: a ninth local and in each of two idle nodes, two thirds in the new one.
    pub fn second_of_figure_3_7(application: &Application) -> Self {
        let ninth = application.part(1, 9);
        Self { local: ninth, idle: [ninth, ninth, application.part(2, 3)] }
    }
}

/// Returns the faults of a program while a node joins.
pub fn faults(application: &Application, memories: MemorySplit, policy: Policy) -> Faults {
    let mut run = JoinRun::new(application, memories);
    let joins = application.references.len() / 3;
    for (index, page) in application.references.iter().enumerate() {
        run.reference(index as u64, *page, (index >= joins).then_some(policy));
    }
    run.faults
}

struct JoinRun {
    memories: MemorySplit,
    /// Lists of pages: list 0 is the program's own memory, lists 1 to 3 the idle nodes'.
    lists: Recency,
    /// The list of each page.
    at: Vec<Option<u8>>,
    last_used: Vec<u64>,
    evicted: u64,
    faults: Faults,
}

impl JoinRun {
    fn new(application: &Application, memories: MemorySplit) -> Self {
        Self {
            memories,
            lists: Recency::new(application.pages, 4),
            at: vec![None; application.pages],
            last_used: vec![0; application.pages],
            evicted: 0,
            faults: Faults::default(),
        }
    }

    /// Handles the next reference. `third` is the policy once the third node has joined.
    fn reference(&mut self, now: u64, page: u32, third: Option<Policy>) {
        let at = self.at[page as usize];
        match at {
            Some(0) => {}
            Some(_) => self.faults.getpages += 1,
            None => self.faults.disk += 1,
        }
        if let Some(list) = at {
            self.lists.remove(list.into(), page);
        }
        self.lists.push(0, page);
        self.at[page as usize] = Some(0);
        self.last_used[page as usize] = now;
        if self.lists.len(0) > self.memories.local
            && let Some(evicted) = self.lists.oldest(0)
        {
            self.lists.remove(0, evicted);
            self.put(evicted, third);
        }
    }

    fn put(&mut self, page: u32, third: Option<Policy>) {
        self.evicted += 1;
        let server = match third {
            None => self.oldest_of(2),
            Some(Policy::StrictLru) => self.oldest_of(3),
            Some(Policy::Naive) if self.evicted.is_multiple_of(3) => 2,
            Some(Policy::Naive) => self.oldest_of(2),
        };
        let list = server + 1;
        if self.lists.len(list) >= self.memories.idle[server]
            && let Some(oldest) = self.lists.oldest(list)
        {
            self.lists.remove(list, oldest);
            self.at[oldest as usize] = None;
        }
        self.lists.push(list, page);
        self.at[page as usize] = Some(list as u8);
    }

    /// Returns the one of the first `servers` idle nodes with a free frame, or else with the oldest
    /// page.
    fn oldest_of(&self, servers: usize) -> usize {
        let age = |server: &usize| {
            let is_full = self.lists.len(server + 1) >= self.memories.idle[*server];
            let oldest = self.lists.oldest(server + 1).filter(|_| is_full);
            oldest.map_or(0, |page| 1 + self.last_used[page as usize])
        };
        (0..servers).min_by_key(age).unwrap_or(0)
    }
}
