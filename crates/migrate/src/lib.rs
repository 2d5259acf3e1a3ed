//! Settings of Squid, nginx, Varnish and Traffic Server, read and written as those of Shoal.
//!
//! ```text
//!  files ─► statements (Ledger) ─► converter of the peer ─► Document ─► pruned ─► shoal.toml
//!                  └───────────── fate of each statement ──────────────┘
//! ```
//!
//! Each statement gets a [`Fate`]; a statement that no converter understands is left out. Access
//! never grows: where a refusal has no equal, the converter writes a wider refusal and a notice.
//! The text that comes out passes `shoal check`, or [`migrate`] fails.
//!
//! Everything here is pure: text goes in, text comes out. [`Files`] is the way to includes.

#![forbid(unsafe_code)]

mod certificates;
mod document;
mod expressions;
mod ledger;
mod networks;
mod nginx;
mod nginx_access;
mod nginx_cache;
mod nginx_certificates;
mod nginx_condition;
mod nginx_errors;
mod nginx_if;
mod nginx_limits;
mod nginx_location;
mod nginx_proxy;
mod nginx_server;
mod nginx_site;
mod nginx_syntax;
mod nginx_upstream;
mod nginx_words;
mod peer;
mod prune;
mod redirects;
mod render;
mod squid;
mod squid_access;
mod squid_acl;
mod squid_lines;
mod squid_peers;
mod squid_ports;
mod squid_refresh;
mod squid_settings;
mod squid_terms;
mod squid_users;
mod traffic_access;
mod traffic_cache;
mod traffic_records;
mod traffic_remap;
mod traffic_server;
mod users;
mod value;
mod varnish;
mod varnish_backend;
mod varnish_condition;
mod varnish_deliver;
mod varnish_lexer;
mod varnish_recv;
mod varnish_request;
mod varnish_response;
mod varnish_syntax;

use document::Document;
use ledger::Ledger;
pub use ledger::{Fate, Summary};
pub use peer::Peer;
use std::fmt;

/// A settings file of a peer.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// Name for comments, such as `squid.conf`.
    pub name: String,
    /// Contents.
    pub text: String,
}

/// The caller's way to files that a settings file names.
pub trait Files {
    /// Returns the files that a name or a pattern with `*` means, sorted by name. A pattern that
    /// matches nothing gives no file.
    ///
    /// # Errors
    /// The reason why a file cannot be read.
    fn read(&self, pattern: &str) -> Result<Vec<SourceText>, String>;

    /// Returns `true` if the node could read this file, such as a certificate.
    fn is_readable(&self, path: &str) -> bool;
}

/// Outcome of a migration.
#[derive(Clone, Debug)]
pub struct Migration {
    /// The settings file, with comments.
    pub toml: String,
    /// Numbers of statements by fate, and notices about access.
    pub summary: Summary,
}

/// Reason why no settings file came out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The text breaks the peer's grammar: file, line, reason.
    Syntax(String, usize, String),
    /// The text is longer or nested deeper than a converter reads.
    Limit(String),
    /// Nothing in the text makes a listener with something to serve.
    Nothing(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(file, line, why) => write!(f, "{file}:{line}: {why}"),
            Self::Limit(why) | Self::Nothing(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

/// Most bytes of all files together.
pub const TEXT_BYTES_MAX: usize = 8 << 20;
/// Most statements of all files together.
pub const STATEMENTS_MAX: usize = 50_000;
/// Most files, includes among them.
pub const FILES_MAX: usize = 1000;
/// Deepest nesting of blocks, conditions and includes.
pub const DEPTH_MAX: usize = 32;

/// Reads the settings of a peer and writes those of Shoal.
///
/// # Errors
/// A text that breaks the peer's grammar or a limit, or that has nothing to serve.
pub fn migrate(peer: Peer, file: SourceText, files: &dyn Files) -> Result<Migration, Error> {
    if file.text.len() > TEXT_BYTES_MAX {
        return Err(Error::Limit(format!("{} has more than {TEXT_BYTES_MAX} bytes", file.name)));
    }
    let (mut ledger, mut document) = (Ledger::default(), Document::default());
    let convert = match peer {
        Peer::Squid => squid::convert,
        Peer::Nginx => nginx::convert,
        Peer::Varnish => varnish::convert,
        Peer::TrafficServer => traffic_server::convert,
    };
    convert(file, files, &mut ledger, &mut document)?;
    ledger.settle();
    prune::prune(&mut document, &mut ledger)?;
    if cfg!(debug_assertions) {
        document.invariants(ledger.lines().count());
    }
    let toml = render::render(peer, &document, &ledger);
    debug_assert!(prune::is_sound(&toml), "the text passes the check of settings:\n{toml}");
    Ok(Migration { toml, summary: ledger.summary() })
}
