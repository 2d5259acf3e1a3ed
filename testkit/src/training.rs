//! The load that a release is trained with: what a node and the tools of the same binary do most,
//! so much of each.
//!
//! `cargo xtask release` builds a binary that counts how often each of its branches is taken, has
//! it do this, and builds another that is laid out by the counts. What is not done here at all
//! counts as cold, and the compiler then saves space where it should save time; so hits come first
//! by far, and everything else that may have to be quick comes often enough to be seen: what is
//! fetched, stored, validated, tunnelled, read from disk or asked of another node, every log format,
//! TLS, HTTP/2, the planner and the simulators.
//!
//! Kind and number of what is asked are fixed (`kinds`), so two trainings differ in little but
//! time. Everything stays on loopback and in folders of its own, every answer is looked at, and
//! [`TIME_MAX`] ends a training that does not come to its end. Profiles are written by the
//! processes when they end, so each is ended in order.

mod clients;
mod kinds;
mod requests;
mod site;
mod tools;

use crate::certificates::Authority;
use crate::{Setup, Shoal, cluster, wait};
use clients::{CLIENTS, World};
use kinds::Kind;
use rustix::process::Signal;
use site::Site;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longer than this no training takes; it fails then.
pub const TIME_MAX: Duration = Duration::from_secs(600);

/// What was done, by the labels of `shoal_responses_total`.
pub type Results = BTreeMap<&'static str, u64>;

/// Trains the binary under test with one in `share` of the requests, at least two of each kind for
/// each client, and tells `progress` what is done. Panics when an answer is not what it must be, or
/// time is up.
pub fn run(share: usize, progress: &mut dyn FnMut(&str)) -> Results {
    let mut training = Training {
        site: Site::start(),
        authority: Authority::new(),
        share,
        until: Instant::now() + TIME_MAX,
        progress,
        results: Results::new(),
    };
    for (format, kinds) in kinds::FROM_MEMORY {
        training.serve_from_memory(format, kinds);
    }
    training.serve_from_disk();
    training.serve_in_cluster();
    tools::made_traffic(share, training.progress);
    training.results
}

/// A training under way.
struct Training<'p> {
    site: Site,
    authority: Authority,
    share: usize,
    until: Instant,
    progress: &'p mut dyn FnMut(&str),
    results: Results,
}

impl Training<'_> {
    /// A node whose RAM holds everything, with an access log in this format.
    fn serve_from_memory(&mut self, format: &str, kinds: &[&[Kind]]) {
        let mut setup = self.setup().set("cache.ram", "64 MiB");
        setup = match format {
            "none" => setup.set("log.access", "none"),
            _ => setup.set("log.format", format),
        };
        (self.progress)(&format!("a node that has everything in memory, access log: {format}"));
        let shoal = setup.start();
        kinds.iter().for_each(|kinds| self.drive(&shoal, kinds));
        if format != "none" {
            tools::access_log(&shoal.folder().join("access.log"));
        }
        self.end(shoal);
    }

    /// A node with little RAM: what it stores is read back from disk by the next one.
    fn serve_from_disk(&mut self) {
        let setup = self.setup().set("log.format", "squid").set("store.disk", "512 MiB");
        (self.progress)("a node that has most on disk");
        let mut shoal = setup.set("cache.ram", "8 MiB").start();
        self.drive(&shoal, kinds::TO_DISK);
        self.count(&shoal);
        end(&mut shoal);
        shoal.restart();
        self.drive(&shoal, kinds::FROM_DISK);
        self.count(&shoal);
        end(&mut shoal);
        tools::store(&shoal.store());
    }

    /// Three nodes as one cache. Each is asked for everything, so that two of three requests go on
    /// to another node.
    fn serve_in_cluster(&mut self) {
        (self.progress)("three nodes as one cache");
        let peers = cluster::peers(3);
        let start = |own| cluster::member(self.setup(), own, &peers).set("cache.ram", "16 MiB").start();
        let nodes = cluster::joined(peers.iter().copied().map(start).collect());
        nodes.iter().for_each(|node| self.drive(node, kinds::IN_CLUSTER));
        nodes.into_iter().for_each(|node| self.end(node));
    }

    /// One worker, since two that count the same branch lose counts; every way in, and sites over
    /// HTTP/1.1 and HTTP/2.
    fn setup(&self) -> Setup {
        let setup = self.site.setup().set("workers", 1);
        self.authority.issue(&[site::HOST]).write(setup.folder(), "site");
        let file = |name: &str| setup.folder().join(name).to_string_lossy().into_owned();
        let pair = format!("{{ certificate = '{}', key = '{}' }}", file("site.pem"), file("site.key"));
        setup.listen("tls", &format!("mode = 'reverse'\ntls = [{pair}]"))
    }

    fn drive(&mut self, shoal: &Shoal, kinds: &[Kind]) {
        let world = World { shoal, site: &self.site, authority: &self.authority, until: self.until };
        for kind in kinds {
            let (count, begun) = (kind.requests.div_ceil(self.share).max(2 * CLIENTS), Instant::now());
            world.drive(kind, count);
            (self.progress)(&format!("{count:>7} {}, {:.1} s", kind.what, begun.elapsed().as_secs_f64()));
        }
    }

    fn end(&mut self, mut shoal: Shoal) {
        self.count(&shoal);
        end(&mut shoal);
    }

    fn count(&mut self, shoal: &Shoal) {
        for result in RESULTS {
            *self.results.entry(result).or_default() += shoal.responses(result);
        }
    }
}

/// Ends a node in order, so that it closes its store and writes its profile.
fn end(shoal: &mut Shoal) {
    shoal.signal(Signal::TERM);
    let status = shoal.wait_for_exit(wait::LIMIT * 3);
    assert!(status.is_some_and(|status| status.success()), "the node does not end in order: {status:?}");
}

/// What a training has to bring about, each at least once.
const RESULTS: &[&str] = &["memory_hit", "hit", "miss", "refresh_unmodified", "pass", "tunnel"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings, commands and outcomes change; what a release is trained with has to follow.
    #[test]
    fn a_training_brings_about_what_it_is_for() {
        let mut lines = 0;
        let results = run(2000, &mut |_| lines += 1);
        for result in RESULTS {
            assert!(results[result] > 0, "no {result} among {results:?}");
        }
        assert!(lines > 20, "{lines} kinds");
    }

    #[test]
    fn most_of_a_training_are_hits_in_memory() {
        let in_memory = kinds::FROM_MEMORY.iter().flat_map(|(_, kinds)| *kinds);
        let all: Vec<&Kind> =
            in_memory.copied().chain([kinds::TO_DISK, kinds::FROM_DISK]).flatten().collect();
        let sum = |kinds: &[&Kind]| kinds.iter().map(|kind| kind.requests).sum::<usize>();
        let hits: Vec<&Kind> = all.iter().copied().filter(|kind| kind.hits).collect();
        let (hits, total) = (sum(&hits), sum(&all));
        assert!(hits * 10 > total * 7, "{hits} of {total}");
    }
}
