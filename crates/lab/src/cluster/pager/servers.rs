//! The memory that idle nodes give to clients: frames with contents.

/// A frame of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLocation {
    /// Which server, numbered among servers.
    pub server: usize,
    /// Which of its frames.
    pub frame: u32,
}

/// The servers' memories.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    all: Vec<Server>,
    /// Whose turn it is.
    turn: usize,
}

#[derive(Clone, Debug)]
struct Server {
    node: usize,
    is_up: bool,
    /// What each frame says; zero when it is free.
    frames: Vec<u64>,
    free: Vec<u32>,
}

impl Servers {
    /// Servers by node, with so many frames each.
    pub fn new(nodes: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let server = |(node, frames): (usize, usize)| Server {
            node,
            is_up: true,
            frames: vec![0; frames],
            // the lowest frame is given out first
            free: (0..frames as u32).rev().collect(),
        };
        Self { all: nodes.into_iter().map(server).collect(), turn: 0 }
    }

    /// How many there are, up or not.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The node that a server is.
    pub fn node(&self, server: usize) -> usize {
        self.all[server].node
    }

    /// The server that a node is.
    pub fn of_node(&self, node: usize) -> Option<usize> {
        self.all.iter().position(|server| server.node == node && server.is_up)
    }

    /// Whether a server is up.
    pub fn is_up(&self, server: usize) -> bool {
        self.all[server].is_up
    }

    /// How many frames a server has.
    pub fn frames(&self, server: usize) -> usize {
        self.all[server].frames.len()
    }

    /// How many frames of a server are free; none when it is not up.
    pub fn free(&self, server: usize) -> usize {
        if self.all[server].is_up { self.all[server].free.len() } else { 0 }
    }

    /// The next server in turn that is up, has a free frame and is none of these; O(servers).
    pub fn next(&mut self, but: &[usize]) -> Option<usize> {
        let count = self.all.len();
        let found = (0..count)
            .map(|step| (self.turn + step) % count)
            .find(|server| self.free(*server) > 0 && !but.contains(server))?;
        self.turn = found + 1;
        Some(found)
    }

    /// Takes a free frame of a server.
    pub fn take(&mut self, server: usize) -> Option<FrameLocation> {
        if !self.all[server].is_up {
            return None;
        }
        let frame = self.all[server].free.pop()?;
        Some(FrameLocation { server, frame })
    }

    /// Gives a frame back, which says nothing from then on.
    pub fn give_back(&mut self, place: FrameLocation) {
        self.write(place, 0);
        self.all[place.server].free.push(place.frame);
    }

    /// What a frame says.
    pub fn read(&self, place: FrameLocation) -> u64 {
        self.all[place.server].frames[place.frame as usize]
    }

    /// Writes a frame.
    pub fn write(&mut self, place: FrameLocation, contents: u64) {
        self.all[place.server].frames[place.frame as usize] = contents;
    }

    /// A server is no longer up. Its frames say nothing that is true.
    pub(super) fn lose(&mut self, server: usize) {
        self.all[server].is_up = false;
        // whoever reads a lost frame gets what no page says
        self.all[server].frames.fill(LOST);
    }

    /// A lost server has no frames any more.
    pub(super) fn forget(&mut self, server: usize) {
        self.all[server].free.clear();
    }
}

/// What a frame of a lost server says.
const LOST: u64 = 0xdead_dead_dead_dead;
