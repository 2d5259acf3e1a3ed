//! Tests of the doctor's judgement: facts in, findings out.

use super::*;
use crate::doctor::facts::*;
use crate::finding::{Level, worst};
use std::time::Duration;

fn settings(text: &str) -> Settings {
    Settings::parse(text, "f").expect("sound")
}

/// Returns the facts of a machine that is fit for settings with one disk.
fn fit() -> Facts {
    Facts {
        open_files: OpenFiles { hard: Some(524_288), is_nodes: false, of_machine: Some(9_000_000) },
        memory: Memory {
            total: 8 << 30,
            group_limit: None,
            overcommit: Some(0),
            huge_pages: Some("madvise".into()),
        },
        kernel: Kernel {
            somaxconn: Some(4096),
            syn_backlog: Some(1024),
            local_ports: Some((32_768, 60_999)),
            timestamps: Some(1),
            tw_reuse: Some(2),
        },
        clock: Clock { is_synchronised: Some(true), unix_s: 1_800_000_000, step: Duration::ZERO },
        disks: vec![disk()],
        files: Vec::new(),
        user: User { uid: 1000, gids: vec![1000], is_nodes: false },
        names: Vec::new(),
        ports: Vec::new(),
        node: NodeFact::NotAsked,
    }
}

fn disk() -> DiskFact {
    DiskFact {
        path: "/d".into(),
        kind: "ext4".into(),
        options: vec!["rw".into(), "relatime".into()],
        is_rotational: Some(false),
        total: 100 << 30,
        free: 50 << 30,
        inodes: 1000,
        inodes_free: 900,
        ..DiskFact::default()
    }
}

/// Asserts that changed facts have one finding that is not in order, of this level and with this
/// text and a remedy.
fn check_with(text: &str, change: impl FnOnce(&mut Facts), level: Level, told: &str) {
    let mut facts = fit();
    change(&mut facts);
    let mut findings = judge(&settings(text), &facts);
    findings.retain(|finding| finding.level != Level::Ok);
    assert_eq!(findings.len(), 1, "{told}: {findings:?}");
    assert!(findings[0].level == level && findings[0].text.contains(told), "{told}: {findings:?}");
    assert!(!findings[0].fix.is_empty(), "{findings:?}");
}

fn check(change: impl FnOnce(&mut Facts), level: Level, told: &str) {
    check_with("", change, level, told);
}

#[test]
fn fit_machine_is_well() {
    let findings = judge(&settings(""), &fit());
    assert_eq!(worst(&findings), Level::Ok, "{findings:?}");
    for told in ["open files: 524,288", "memory: cache.ram", "a time service", "ext4 on flash", "kernel:"] {
        assert!(findings.iter().any(|finding| finding.text.contains(told)), "{told}: {findings:?}");
    }
}

#[test]
fn limits_of_files_and_memory_are_judged() {
    check(|facts| facts.open_files.hard = Some(4096), Level::Warn, "4,096 for this shell, 10,512 wanted");
    check(|facts| facts.open_files.hard = Some(256), Level::Bad, "open files: 256");
    check(|facts| facts.open_files.of_machine = Some(5000), Level::Warn, "open files: 5,000");
    let ram = "[cache]\nram = '6 GiB'\n";
    check_with(
        "",
        |facts| facts.memory.group_limit = Some(200 << 20),
        Level::Bad,
        "that the control group has",
    );
    check_with(ram, |facts| facts.memory.total = 7 << 30, Level::Warn, "that the machine has");
    check_with(ram, |facts| facts.memory.total = 4 << 30, Level::Bad, "that the machine has");
    check(|facts| facts.memory.overcommit = Some(2), Level::Warn, "overcommit");
    check(|facts| facts.memory.huge_pages = Some("never".into()), Level::Warn, "huge pages");
    let mut unlimited = fit();
    (unlimited.open_files, unlimited.memory) = (OpenFiles::default(), Memory::default());
    assert_eq!(worst(&judge(&settings(""), &unlimited)), Level::Ok, "unknown is no fault");
}

#[test]
fn clock_is_judged() {
    check(|facts| facts.clock.is_synchronised = Some(false), Level::Warn, "no time service");
    check(|facts| facts.clock.unix_s = 100, Level::Bad, "years behind");
    check(|facts| facts.clock.step = Duration::from_millis(250), Level::Warn, "stepped by 250 ms");
    let mut unknown = fit();
    unknown.clock.is_synchronised = None;
    assert_eq!(worst(&judge(&settings(""), &unknown)), Level::Ok);
}

#[test]
fn disks_are_judged() {
    let disk = |change: fn(&mut DiskFact)| move |facts: &mut Facts| change(&mut facts.disks[0]);
    check(disk(|disk| disk.error = Some("gone".into())), Level::Bad, "disk /d: gone");
    check(disk(|disk| disk.misfit = Some("/d has no room".into())), Level::Bad, "no room");
    check(disk(|disk| disk.kind = "tmpfs".into()), Level::Warn, "tmpfs is memory");
    check(disk(|disk| disk.kind = "nfs4".into()), Level::Warn, "nfs4 is a network's");
    check(disk(|disk| disk.kind = "fuse.sshfs".into()), Level::Warn, "a network's");
    check(disk(|disk| disk.kind = "overlay".into()), Level::Warn, "container's own layer");
    check(disk(|disk| disk.options = vec!["ro".into()]), Level::Bad, "read-only");
    check(disk(|disk| disk.options.push("sync".into())), Level::Warn, "mounted with sync");
    check(disk(|disk| disk.free = 1 << 30), Level::Warn, "are free");
    let files = "[store]\narchitecture = 'squid'\ndirectory = '/d'\n";
    check_with(files, |facts| facts.disks[0].inodes_free = 3, Level::Warn, "inodes are free");
}

#[test]
fn permissions_are_judged() {
    let file = |need: Need, mode: u32, uid: u32| {
        move |facts: &mut Facts| {
            let state = FileState::There { mode, uid, gid: 7, is_folder: need == Need::WriteIn };
            facts.files.push(FileFact {
                setting: "x".into(),
                path: "/f".into(),
                need,
                state,
                certificate: CertificateState::Sound,
            });
        }
    };
    check(file(Need::Secret, 0o644, 1000), Level::Bad, "every user of this machine may use /f (mode 644)");
    check(file(Need::Read, 0o646, 1000), Level::Bad, "may change /f");
    check(file(Need::WriteIn, 0o777, 1000), Level::Bad, "may change /f");
    check(file(Need::Secret, 0o600, 0), Level::Warn, "this user may not read /f");
    check(file(Need::WriteIn, 0o755, 0), Level::Warn, "may not write in /f");
    let nodes = |facts: &mut Facts| {
        file(Need::Secret, 0o600, 0)(facts);
        facts.user.is_nodes = true;
    };
    check(nodes, Level::Bad, "the node's user may not read /f");
    for (need, mode, uid, gids) in [
        (Need::Secret, 0o640, 0, vec![7]),
        (Need::Secret, 0o600, 1000, vec![]),
        (Need::Read, 0o644, 0, vec![]),
        (Need::WriteIn, 0o1777, 0, vec![]),
        (Need::WriteIn, 0o770, 0, vec![7]),
    ] {
        let mut facts = fit();
        file(need, mode, uid)(&mut facts);
        facts.user.gids = gids;
        let findings = judge(&settings(""), &facts);
        assert!(findings.iter().any(|it| it.text == "files: 1 of 1 are in order"), "{mode:o}: {findings:?}");
    }
}

#[test]
fn states_of_files_are_judged() {
    let file = |state: FileState, certificate: CertificateState| {
        move |facts: &mut Facts| {
            let (setting, path) = ("admin.tls[0].certificate".into(), "/c".into());
            facts.files.push(FileFact { setting, path, need: Need::Read, state, certificate });
        }
    };
    let there = |is_folder| FileState::There { mode: 0o644, uid: 0, gid: 0, is_folder };
    let sound = CertificateState::Sound;
    check(file(FileState::Absent, sound), Level::Bad, "/c is not there");
    check(file(FileState::Hidden("denied".into()), sound), Level::Warn, "cannot be looked at: denied");
    check(file(there(true), sound), Level::Bad, "a folder, where a file belongs");
    check(file(there(false), CertificateState::Ended), Level::Bad, "has ended");
    check(file(there(false), CertificateState::NotYet), Level::Bad, "not valid yet");
    check(file(there(false), CertificateState::EndsSoon), Level::Warn, "ends within 14 days");
    let ordered = |facts: &mut Facts| {
        let (setting, path) = ("listen[0].acme[0].certificate".into(), "/o".into());
        let (need, state, certificate) = (Need::Ordered, FileState::Absent, CertificateState::Sound);
        facts.files.push(FileFact { setting, path, need, state, certificate });
    };
    check(ordered, Level::Warn, "no certificate has come yet");
}

#[test]
fn network_is_judged() {
    check(|facts| facts.kernel.somaxconn = Some(128), Level::Warn, "somaxconn = 128");
    check(|facts| facts.kernel.syn_backlog = Some(64), Level::Warn, "tcp_max_syn_backlog");
    check(|facts| facts.kernel.local_ports = Some((60_000, 60_999)), Level::Warn, "1,000 local ports");
    check(|facts| facts.kernel.timestamps = Some(0), Level::Warn, "tcp_timestamps");
    let listen = "[[listen]]\naddress = '127.0.0.1:40000'\nmode = 'forward'\n";
    check_with(listen, |_| {}, Level::Warn, "port 40000 is among the local ports");
    let name = |found: Option<Result<usize, String>>, took: u64| {
        move |facts: &mut Facts| {
            let took = Duration::from_secs(took);
            facts.names.push(NameFact { name: "o.test".into(), setting: "site[0]".into(), found, took });
        }
    };
    check(name(None, 5), Level::Bad, "o.test of site[0] is not found within 5 s");
    check(name(Some(Err("no such name".into())), 0), Level::Bad, "not found: no such name");
    check(name(Some(Ok(0)), 0), Level::Bad, "has no address");
    check(name(Some(Ok(2)), 3), Level::Warn, "after 3.0 s only");
}

#[test]
fn addresses_and_admin_are_judged() {
    let port = |state: PortState| {
        move |facts: &mut Facts| {
            let (address, setting) = ("127.0.0.1:80".into(), "listen[0].address".into());
            facts.ports.push(PortFact { address, setting, state });
        }
    };
    let taken = |facts: &mut Facts| {
        port(PortState::Taken)(facts);
        facts.node = NodeFact::Silent { at: "here".into(), why: "refused".into() };
    };
    check(taken, Level::Bad, "listen[0].address = 127.0.0.1:80 is taken by another");
    check(port(PortState::Taken), Level::Warn, "is taken, by the running node or by another");
    check(port(PortState::Forbidden), Level::Warn, "below port 1024");
    check(port(PortState::Foreign), Level::Bad, "no address of this machine");
    check(port(PortState::Failed("x".into())), Level::Bad, "cannot be used: x");
    check_with("[admin]\nlisten = '0.0.0.0:3129'\n", |_| {}, Level::Bad, "may purge");
    check(|facts| facts.node = NodeFact::NoAddress, Level::Warn, "no admin listener");
    check(|facts| facts.node = NodeFact::Refused { why: "x".into() }, Level::Warn, "not judged: x");
    let mut facts = fit();
    facts.node = NodeFact::Silent { at: "here".into(), why: "refused".into() };
    port(PortState::Free)(&mut facts);
    port(PortState::Nodes)(&mut facts);
    assert_eq!(worst(&judge(&settings(""), &facts)), Level::Ok);
}
