//! The memory that idle nodes give to clients: frames with contents.

/// A frame of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLocation {
    /// Number of the server among servers.
    pub server: usize,
    /// Number of the frame on its server.
    pub frame: u32,
}

/// The servers' memories.
#[derive(Clone, Debug, Default)]
pub struct Servers {
    all: Vec<PageServer>,
    /// Next server in turn.
    turn: usize,
}

#[derive(Clone, Debug)]
struct PageServer {
    node: usize,
    is_up: bool,
    /// Contents of each frame; zero when it is free.
    frames: Vec<u64>,
    free: Vec<u32>,
}

impl Servers {
    /// Creates servers from pairs of node and number of frames.
    pub fn new(nodes: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let server = |(node, frames): (usize, usize)| PageServer {
            node,
            is_up: true,
            frames: vec![0; frames],
            // The lowest frame is given out first.
            free: (0..frames as u32).rev().collect(),
        };
        Self { all: nodes.into_iter().map(server).collect(), turn: 0 }
    }

    /// Returns the number of servers, up or not.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns `true` if there is no server.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the node of a server.
    pub fn node(&self, server: usize) -> usize {
        self.all[server].node
    }

    /// Returns the server of a node, if it is up.
    pub fn of_node(&self, node: usize) -> Option<usize> {
        self.all.iter().position(|server| server.node == node && server.is_up)
    }

    /// Returns `true` if a server is up.
    pub fn is_up(&self, server: usize) -> bool {
        self.all[server].is_up
    }

    /// Returns the number of frames of a server.
    pub fn frames(&self, server: usize) -> usize {
        self.all[server].frames.len()
    }

    /// Returns the number of free frames of a server; none when it is not up.
    pub fn free(&self, server: usize) -> usize {
        if self.all[server].is_up { self.all[server].free.len() } else { 0 }
    }

    /// Returns the next server in turn that is up, has a free frame and is not in `but`;
    /// O(servers).
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

    /// Gives a frame back and clears its contents.
    pub fn give_back(&mut self, place: FrameLocation) {
        self.write(place, 0);
        self.all[place.server].free.push(place.frame);
    }

    /// Returns the contents of a frame.
    pub fn read(&self, place: FrameLocation) -> u64 {
        self.all[place.server].frames[place.frame as usize]
    }

    /// Writes a frame.
    pub fn write(&mut self, place: FrameLocation, contents: u64) {
        self.all[place.server].frames[place.frame as usize] = contents;
    }

    /// Takes a server out of service. The contents of its frames are invalid.
    pub(super) fn lose(&mut self, server: usize) {
        self.all[server].is_up = false;
        // A reader of a lost frame gets contents that no page has.
        self.all[server].frames.fill(LOST);
    }

    /// Removes the frames of a lost server.
    pub(super) fn forget(&mut self, server: usize) {
        self.all[server].free.clear();
    }
}

/// Contents of a lost server's frames.
const LOST: u64 = 0xdead_dead_dead_dead;
