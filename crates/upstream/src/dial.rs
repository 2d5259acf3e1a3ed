//! Connects to a host name: resolves it once, checks every address, and races the permitted ones.
//!
//! The race follows "Happy Eyeballs" (RFC 8305, 5). Address families alternate. Each address gets a
//! head start of [`STAGGER`] before the next one is tried. A failure starts the next one at once,
//! and the first connection wins. The node connects to the checked address and never resolves the
//! name a second time.

use super::error::{Cause, UpstreamError};
use super::exchanged::{Caller, Origin};
use super::names::Names;
use crate::access::{AccessRefusal, ForwardRules};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

/// Connects to `origin` before `deadline`, for `caller`. `rules` apply to its addresses if the
/// client named the origin.
pub(super) async fn dial(
    names: &Arc<Names>,
    origin: &Origin,
    (rules, caller): (Option<&ForwardRules>, &Caller),
    deadline: Instant,
) -> Result<TcpStream, UpstreamError> {
    let failed = |(cause, detail): (Cause, String)| UpstreamError::new(cause, origin.authority(), detail);
    let found = names.find(&origin.host, caller.party(), deadline).await.map_err(failed)?;
    let addresses = permitted_addresses(alternate(&found), origin, rules)?;
    let stream = race(&addresses, deadline).await.map_err(failed)?;
    if let (Some(rules), Ok(local), Ok(peer)) = (rules, stream.local_addr(), stream.peer_addr()) {
        rules.connected(local, peer).map_err(|refusal| UpstreamError::refused(refusal, origin))?;
    }
    // Sends heads and small bodies at once. A failure here only costs latency.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

/// Judges the addresses of `origin` under `rules` without a connection. Returns the refusal, if no
/// address is allowed.
pub(super) async fn judge(
    names: &Arc<Names>,
    origin: &Origin,
    rules: &ForwardRules,
    deadline: Instant,
) -> Result<Option<AccessRefusal>, String> {
    let found = names.find(&origin.host, None, deadline).await.map_err(|(_, detail)| detail)?;
    match permitted_addresses(alternate(&found), origin, Some(rules)) {
        Err(UpstreamError { cause: Cause::Refused(refusal), .. }) => Ok(Some(refusal)),
        _ => Ok(None),
    }
}

/// Returns the permitted addresses, or the first refusal if there are none.
fn permitted_addresses(
    addresses: Vec<IpAddr>,
    origin: &Origin,
    rules: Option<&ForwardRules>,
) -> Result<Vec<SocketAddr>, UpstreamError> {
    let mut refusal = None;
    let mut allowed = Vec::with_capacity(addresses.len().min(ADDRESSES_MAX));
    for address in addresses {
        let address = SocketAddr::new(address, origin.port);
        match rules.map_or(Ok(()), |rules| rules.address(&origin.host, address)) {
            Ok(()) => allowed.push(address),
            Err(why) => refusal = refusal.or(Some(why)),
        }
    }
    allowed.truncate(ADDRESSES_MAX);
    match refusal {
        Some(refusal) if allowed.is_empty() => Err(UpstreamError::refused(refusal, origin)),
        _ => Ok(allowed),
    }
}

/// Orders addresses by alternating families, beginning with the first address's family. Each family
/// keeps the resolver's order.
fn alternate(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let leads = |address: &IpAddr| address.is_ipv6() == addresses[0].is_ipv6();
    let (first, second): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| leads(address));
    let mut second = second.into_iter();
    let mut order = Vec::with_capacity(addresses.len());
    for address in first {
        order.push(address);
        order.extend(second.next());
    }
    order.extend(second);
    order
}

async fn race(addresses: &[SocketAddr], deadline: Instant) -> Result<TcpStream, (Cause, String)> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = JoinSet::new();
    let mut last = None;
    loop {
        match waiting.next() {
            Some(address) => {
                attempts.spawn(async move { (address, TcpStream::connect(address).await) });
            }
            None if attempts.is_empty() => {
                return Err(last.unwrap_or((Cause::Unreachable, "no address to try".into())));
            }
            None => {}
        }
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok((_, Ok(stream))) => return Ok(stream),
                Ok((address, Err(error))) => last = Some(cause_of(address, &error)),
                Err(error) => last = Some((Cause::Internal, error.to_string())),
            },
            () = sleep(STAGGER), if waiting.len() > 0 => {}
            () = sleep_until(deadline) => {
                return Err((Cause::ConnectTimeout, "connecting took too long".into()));
            }
        }
    }
}

fn cause_of(address: SocketAddr, error: &io::Error) -> (Cause, String) {
    let ours = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOBUFS];
    let cause = match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::ConnectionRefused,
        io::ErrorKind::TimedOut => Cause::ConnectTimeout,
        _ if ours.iter().any(|ours| error.raw_os_error() == Some(ours.raw_os_error())) => Cause::Internal,
        _ => Cause::Unreachable,
    };
    (cause, format!("{address}: {error}"))
}

/// RFC 8305, 5: "a default of 250 milliseconds is recommended" for the Connection Attempt Delay.
const STAGGER: Duration = Duration::from_millis(250);
/// Maximum number of addresses tried for one connection.
const ADDRESSES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate_from_the_preferred_one() {
        let addresses: Vec<IpAddr> =
            ["::1", "::2", "::3", "192.0.2.1", "192.0.2.2"].iter().map(|a| a.parse().unwrap()).collect();
        let order: Vec<String> = alternate(&addresses).iter().map(ToString::to_string).collect();
        assert_eq!(order, ["::1", "192.0.2.1", "::2", "192.0.2.2", "::3"]);
        assert_eq!(alternate(&addresses[3..]), addresses[3..]);
    }
}
