//! Kinds of jobs, and the queues that they wait in.

/// Kind of a job, with or without a caller that waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// Changes nothing visible, and should begin at once.
    Read {
        /// Place of the read on the disk, in bytes, if known.
        at: Option<u64>,
    },
    /// Changes nothing visible, and no client waits for it.
    ReadAhead,
    /// Changes stored data, and a caller waits.
    Change,
    /// Changes stored data, and a caller waits. Without the job, earlier writes would be lost.
    Completion,
    /// Changes stored data, and no caller waits.
    ChangeSoon,
}

impl JobKind {
    /// A read at an unknown place.
    pub const READ: Self = Self::Read { at: None };
}

/// Reason why an object is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// A client waits.
    Demand,
    /// A client may ask for it later.
    Ahead,
}

/// Queue that a job comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobQueueKind {
    Reads,
    Ahead,
    Changes,
}
