//! Cost of replacing a page that is not the oldest.
//!
//! Voelker 2000, section 3.4.3 ("Deviating from LRU", Figure 3.6): a quarter of a program's pages
//! fit into its own memory, one half into global memory. Where strict LRU replaces the oldest page,
//! the page at a fixed position from the bottom of the stack is replaced instead. The position is
//! always within global memory: 0 is the oldest, 1 the youngest of all global pages. O(log
//! references) a reference.

use super::stack::AgedStack;
use super::{Application, Faults};

/// The memory of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramMemory {
    /// Pages of the program's own node: the top of the stack.
    pub local: usize,
    /// Pages of other nodes: the rest of the stack.
    pub global: usize,
}

impl ProgramMemory {
    /// Returns a quarter and one half of the program's pages, as in section 3.4.3.
    pub fn of_section_3_4_3(application: &Application) -> Self {
        Self { local: application.part(1, 4), global: application.part(1, 2) }
    }
}

/// Returns the faults of a program when the page at this position of global memory is replaced, 0
/// the oldest and 1 the youngest.
pub fn faults(application: &Application, memory: ProgramMemory, position: f64) -> Faults {
    let mut stack = AgedStack::new(application.references.len(), application.pages);
    let mut faults = Faults::default();
    let replaced = (position.clamp(0.0, 1.0) * memory.global.saturating_sub(1) as f64) as usize;
    for page in &application.references {
        match stack.touch(*page) {
            Some(position) if position <= memory.local => {}
            Some(_) => faults.getpages += 1,
            None => {
                faults.disk += 1;
                if stack.len() > memory.local + memory.global {
                    stack.take_from_bottom(replaced);
                }
            }
        }
    }
    faults
}
