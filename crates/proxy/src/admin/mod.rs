//! The admin listener: metrics, status, purge and reload, apart from the ports that clients use.

mod control;

pub use control::{
    Control, PurgeOutcome, PurgeRequest, Readiness, Space, Status, StoreStatus, UpstreamStatus,
};
