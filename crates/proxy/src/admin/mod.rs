//! The admin listener: metrics, status, purge and reload, apart from the client ports.
//!
//! The listener runs on its own thread, so that a node with busy workers still answers its
//! operator. It speaks HTTP/1.1 on a TCP address or a Unix socket, over TLS with certificates.
//! Without `[[admin.users]]` there is no authentication: any client that reaches the listener may
//! purge (`access`). The listener then belongs on loopback or on a Unix socket. `guard` refuses
//! requests that another site's page made a browser send.

mod access;
mod certificates;
mod control;
mod exposition;
mod guard;
mod hints;
mod impatient;
mod listener;
mod mirrors;
pub(crate) mod process;
mod process_status;
mod purge;
mod query;
mod routes;
mod sites;
mod top;
mod ui;
mod warm;

pub use crate::exchange::explain::{
    ErrorPageView, ExplainRequest, Explanation, GuardView, ListenerView, MirrorView, PromiseView, RateView,
    Refusal, ReuseView, RuleSettingView, RuleView, RulesView, SiteView, StoredView, StoringView,
    SupposedResponse, TargetView, UpstreamView, VariantView,
};
pub use crate::purge::{PurgeOutcome, PurgeRequest};
pub use access::AdminAccess;
pub use certificates::{CertificateStatus, OrderStatus};
pub use control::{
    Control, DiskRequest, DiskStatus, InterceptionStatus, Ram, Readiness, Responses, Space, Status,
    StoreStatus, UpstreamStatus,
};
pub use hints::HintsFailure;
pub use listener::{AdminListener, BoundAdmin};
pub use mirrors::MirrorStatus;
pub use process_status::ProcessStatus;
/// Certificate verifier of `upstream.pinned_certificates`, for commands that ask a node over TLS.
pub use shoal_upstream::PinVerifier;
pub use sites::{ResultCounts, SiteStatus, SourceTimes};
pub use top::{TopMisses, TopRequest, TopUrl};

#[cfg(test)]
mod tests;
