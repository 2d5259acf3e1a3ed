//! Splits new settings into a part that takes effect at once and a part for the next start.

use shoal_settings::{Listen, Settings, Store};

/// Returns the settings in force after a node with `old` has read `new`. Also returns the names of
/// settings that wait for the next start; for these, the value of `old` stays in force.
pub(super) fn in_force(old: &Settings, new: Settings) -> (Settings, Vec<String>) {
    let mut waiting = Vec::new();
    let listen = listeners(&old.listen, &new.listen);
    if listen.len() != new.listen.len() || new.listen.iter().any(|entry| !listen.contains(entry)) {
        waiting.push("listen".into());
    }
    let mut at_work = Settings { listen, ..new };
    // The caller binds the admin listener and reports its changes.
    at_work.admin.listen.clone_from(&old.admin.listen);
    waiting.extend(at_work.keep_until_restart(old));
    keep_presence_of_disks(&mut at_work.store, &old.store, &mut waiting);
    (at_work, waiting)
}

/// Keeps a node without a disk store from getting one, and one with a store from losing it: its
/// parts are put together for that at the start.
fn keep_presence_of_disks(new: &mut Store, old: &Store, waiting: &mut Vec<String>) {
    if new.all_disks().is_empty() == old.all_disks().is_empty() {
        return;
    }
    waiting.push(if new.disks == old.disks { "store.directory" } else { "store.disks" }.into());
    new.directory.clone_from(&old.directory);
    (new.disk, new.endurance) = (old.disk, old.endurance);
    new.disks.clone_from(&old.disks);
}

/// Returns the bound listeners in their old order, with the changes that `new` may make to each. An
/// entry in `new` may change all but its address, PROXY protocol and use of TLS. An entry is
/// identified by its address, at any position. Several entries with port 0 are identified by their
/// order. A listener without an entry continues unchanged.
fn listeners(old: &[Listen], new: &[Listen]) -> Vec<Listen> {
    let of_address = |listen: &Listen| {
        let address = listen.address;
        move |other: &&Listen| other.address == address
    };
    let taken_up = |(index, listen): (usize, &Listen)| {
        let before = old[..index].iter().filter(of_address(listen)).count();
        let Some(entry) = new.iter().filter(of_address(listen)).nth(before) else { return listen.clone() };
        let same_transport = entry.is_tls() == listen.is_tls();
        let certified = if same_transport { entry } else { listen };
        let (tls, acme) = (certified.tls.clone(), certified.acme.clone());
        let proxy_protocol_from = listen.proxy_protocol_from.clone();
        let http3 = certified.http3;
        Listen { address: listen.address, proxy_protocol_from, tls, acme, http3, ..entry.clone() }
    };
    old.iter().enumerate().map(taken_up).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_settings::Mode::{Forward, Reverse};
    use shoal_settings::{Certificate, Mode};

    fn entry(port: u16, mode: Mode, certificate: &str) -> Listen {
        let tls = match certificate {
            "" => Vec::new(),
            path => vec![Certificate { certificate: path.into(), key: "key".into() }],
        };
        Listen { mode, tls, ..Listen::forward(([127, 0, 0, 1], port).into()) }
    }

    #[test]
    fn listeners_are_known_by_their_addresses() {
        let old = [entry(1, Forward, ""), entry(2, Reverse, ""), entry(3, Reverse, "a")];
        let served = Some(vec!["10.0.0.0/8".parse().expect("a network")]);
        for (what, new, expected) in [
            ("nothing", old.to_vec(), old.to_vec()),
            ("the order", old.iter().rev().cloned().collect(), old.to_vec()),
            ("one more", [&[entry(9, Reverse, "")], &old[..]].concat(), old.to_vec()),
            ("one less", old[1..].to_vec(), old.to_vec()),
            ("none left", Vec::new(), old.to_vec()),
            (
                "modes",
                vec![entry(1, Reverse, ""), entry(2, Forward, "")],
                vec![entry(1, Reverse, ""), entry(2, Forward, ""), old[2].clone()],
            ),
            ("certificates", vec![entry(3, Reverse, "b")], [&old[..2], &[entry(3, Reverse, "b")]].concat()),
            ("clients", vec![Listen { allow_clients: served.clone(), ..entry(2, Reverse, "") }], {
                let mut expected = old.clone();
                expected[1].allow_clients = served;
                expected.to_vec()
            }),
            ("TLS taken away", vec![entry(3, Reverse, "")], old.to_vec()),
            ("TLS added", vec![entry(1, Forward, "a")], old.to_vec()),
            ("TLS and HTTP/3 added", vec![Listen { http3: true, ..entry(2, Reverse, "a") }], old.to_vec()),
            ("HTTP/3", vec![Listen { http3: true, ..entry(3, Reverse, "a") }], {
                let mut expected = old.clone();
                expected[2].http3 = true;
                expected.to_vec()
            }),
        ] {
            assert_eq!(listeners(&old, &new), expected, "{what}");
        }
        let free = [entry(0, Forward, ""), entry(0, Reverse, "")];
        assert_eq!(listeners(&free, &free), free);
    }

    #[test]
    fn waiting_settings_are_named_and_kept() {
        let old = Settings::default();
        assert_eq!(in_force(&old, old.clone()), (old.clone(), Vec::new()));
        let mut new = old.clone();
        (new.workers, new.cache.ram, new.cache.collapse) = (7, shoal_core::ByteCount::mib(5), false);
        new.listen.push(entry(9, Reverse, ""));
        let (at_work, waiting) = in_force(&old, new);
        assert_eq!(waiting, ["listen", "workers"]);
        let mut expected = old;
        (expected.cache.ram, expected.cache.collapse) = (shoal_core::ByteCount::mib(5), false);
        assert_eq!(at_work, expected);
    }

    #[test]
    fn store_comes_and_goes_at_the_start_only() {
        let old = Settings::default();
        let mut without = old.clone();
        without.store.directory = std::path::PathBuf::new();
        assert_eq!(in_force(&old, without.clone()), (old.clone(), vec!["store.directory".into()]));
        assert_eq!(in_force(&without, old.clone()), (without, vec!["store.directory".into()]));
        let mut larger = old.clone();
        larger.store.disk = shoal_core::ByteCount::mib(50_000);
        assert_eq!(in_force(&old, larger.clone()), (larger, Vec::new()));
    }
}
