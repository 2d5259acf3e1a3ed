//! `shoal mirror`: the mirrors of a node, with their counts, reasons, contents and pins, and the
//! lines by which clients find them. The registries are those of the tools of this machine.

pub mod discover;
pub mod lines;
pub mod ls;
mod node;
mod pin;
mod verify;
mod why;
mod wish;

pub use wish::MirrorWish;

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::show::print;
use shoal_settings::{Listen, Mode, Settings};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// List, explain and verify the mirrors of package registries; pin packages; print client lines
#[derive(clap::Args)]
pub struct MirrorOptions {
    #[command(subcommand)]
    command: MirrorCommand,
}

// Variants without comments show the help of their options.
#[derive(clap::Subcommand)]
enum MirrorCommand {
    /// Print the lines for the settings of each client
    Lines(LinesOptions),
    Ls(ls::MirrorLsOptions),
    Why(why::MirrorWhyOptions),
    Pin(pin::MirrorPinOptions),
    Verify(verify::MirrorVerifyOptions),
}

/// Options of `shoal mirror lines`.
#[derive(clap::Args)]
struct LinesOptions {
    /// Take the mirrors and their address from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Mirrors that are not in the file, as given to `shoal run`
    #[arg(long, value_name = "KIND[=URL]")]
    mirror: Vec<MirrorWish>,
    /// Address by which clients reach the node, such as `https://cache.example`; default: the
    /// address of the first listener in reverse mode
    #[arg(long, value_name = "URL")]
    at: Option<String>,
}

impl MirrorOptions {
    pub fn perform(self) -> Result<(), Failure> {
        match self.command {
            MirrorCommand::Lines(options) => options.perform(),
            MirrorCommand::Ls(options) => options.perform(),
            MirrorCommand::Why(options) => options.perform(),
            MirrorCommand::Pin(options) => options.perform(),
            MirrorCommand::Verify(options) => options.perform(),
        }
    }
}

impl LinesOptions {
    fn perform(self) -> Result<(), Failure> {
        let mut configuration = Configuration::find(self.config);
        let is_file = configuration.file.is_some();
        for wish in &self.mirror {
            configuration.options.push(wish.clone().found()?.into_override());
        }
        if !is_file {
            configuration.options.insert(0, crate::run::reverse_listener("--mirror"));
        }
        let settings = configuration.load()?;
        if settings.mirror.is_empty() {
            let why = "the settings have no [[mirror]]; name one with --mirror KIND, or a file with --config";
            return Err(Failure::Usage(why.into()));
        }
        let at = self.at.map(|at| at.trim_end_matches('/').to_owned());
        print(&lines::text(&settings, &at.unwrap_or_else(|| own_url(&settings))))
    }
}

/// Returns the URL of the first listener in reverse mode.
pub fn own_url(settings: &Settings) -> String {
    let listen = settings.listen.iter().find(|listen| listen.mode == Mode::Reverse);
    listen.map_or_else(String::new, |listen| listener_url(listen, listen.address))
}

/// Returns the URL by which a client on this machine reaches a listener: loopback if it accepts all
/// addresses.
pub fn listener_url(listen: &Listen, address: SocketAddr) -> String {
    let scheme = if listen.is_tls() { "https" } else { "http" };
    format!("{scheme}://{}", reachable(address))
}

/// Returns the address that a client on this machine connects to.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}
