//! The admin listener: metrics, status, purge and reload, apart from the client ports.
//!
//! The listener runs on its own thread, so that a node with busy workers still answers its
//! operator. It speaks plain HTTP/1.1 on a TCP address or a Unix socket. There is no
//! authentication: any client that reaches the listener may purge. The listener therefore belongs
//! on loopback or on a Unix socket. `guard` refuses requests from web pages in a browser on the
//! same machine.

mod control;
mod exposition;
mod guard;
mod impatient;
mod listener;
mod mirrors;
mod process;
mod purge;
mod query;
mod routes;
mod sites;
mod top;
mod warm;

pub use crate::exchange::explain::{
    ErrorPageView, ExplainRequest, Explanation, GuardView, ListenerView, MirrorView, PromiseView, RateView,
    Refusal, ReuseView, RuleSettingView, RuleView, RulesView, SiteView, StoredView, StoringView,
    SupposedResponse, TargetView, UpstreamView, VariantView,
};
pub use crate::purge::{PurgeOutcome, PurgeRequest};
pub use control::{
    Control, DiskRequest, DiskStatus, InterceptionStatus, Ram, Readiness, Responses, Space, Status,
    StoreStatus, UpstreamStatus,
};
pub use listener::{AdminListener, BoundAdmin};
pub use mirrors::MirrorStatus;
pub use sites::{ResultCounts, SiteStatus, SourceTimes};
pub use top::{TopMisses, TopRequest, TopUrl};

#[cfg(test)]
mod tests;
