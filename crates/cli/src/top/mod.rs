//! `shoal top`: a running node live in a terminal, and lists of its greatest costs.
//!
//! ```text
//! poll: documents of the dashboard ─► state ─► screen: cells ─► terminal, or text without one
//! keys ───────────────────────────────┘
//! ```

mod keys;
mod live;
mod misses;
mod poll;
mod screen;
mod state;

use crate::admin_client::{AdminNode, NodeOptions};
use crate::failure::Failure;
use crate::show::print;
use shoal_dashboard::ObjectOrder;
use state::{RowOrder, ScreenState, View};
use std::io::IsTerminal as _;
use std::time::Duration;

/// Watch a running node: requests, hits, sources, latency, limits, sites, origins, objects
///
/// Shows the dashboard's views in a terminal, once a second. `?` shows the keys, `q` ends. Without
/// a terminal, or with --once, one screen is printed as text.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct TopOptions {
    #[command(subcommand)]
    command: Option<TopCommand>,
    #[command(flatten)]
    node: NodeOptions,
    /// View to begin with
    #[arg(long, value_enum, default_value_t)]
    view: View,
    /// Only numbers of this site, as `shoal status` names it
    #[arg(long)]
    site: Option<String>,
    /// Time between two looks, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    /// Print one screen as text and end
    #[arg(long)]
    once: bool,
    /// Print the view's document as JSON and end
    #[arg(long)]
    json: bool,
}

// The variants have no comments, so that each command shows the help of its options, long help
// included.
#[derive(clap::Subcommand)]
enum TopCommand {
    Misses(misses::MissOptions),
}

impl TopOptions {
    pub fn perform(self) -> Result<(), Failure> {
        if let Some(TopCommand::Misses(options)) = self.command {
            return options.perform();
        }
        let node = self.node.node()?.with_patience(PATIENCE);
        let mut state = ScreenState::new(node.to_string(), self.view, self.site.clone());
        if self.json {
            return print(&poll::body(&node, &state.question())?);
        }
        if self.once || !std::io::stdout().is_terminal() {
            return once(&node, &mut state);
        }
        live::watch(node, state, Duration::from_secs(self.interval))
    }
}

/// Prints one screen, as long as it needs to be.
fn once(node: &AdminNode, state: &mut ScreenState) -> Result<(), Failure> {
    let answer = poll::ask(node, &state.question())?;
    state.take(answer);
    print(&screen::text(state, screen_width()))
}

/// Returns the columns that the environment names, 100 without.
fn screen_width() -> u16 {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns.unwrap_or(100).clamp(40, 300)
}

/// Returns the name of an order of objects in a request.
fn order_name(order: RowOrder) -> &'static str {
    match order {
        RowOrder::Bytes => ObjectOrder::Bytes.name(),
        RowOrder::Time => ObjectOrder::Cost.name(),
        RowOrder::Requests => ObjectOrder::Requests.name(),
    }
}

/// Longest wait for a document.
const PATIENCE: Duration = Duration::from_secs(5);
