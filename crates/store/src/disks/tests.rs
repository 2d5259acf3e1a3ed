//! Several disks over files in RAM, some of which fail, go and come back.

use super::*;
use crate::OpenOptions;
use crate::architectures::{ArchitectureOptions, StoreEnv, open_store};
use crate::fs::{CrashPoint, Faults, FaultyFs, FileSystem, MemoryFs};
use crate::index::MemoryHome;
use shoal_core::Timestamp;

const OBJECTS: u32 = 300;
const ARCHITECTURES: [&str; 2] = ["volume", "squid"];

/// A disk that outlives its store.
#[derive(Clone)]
struct World {
    files: Arc<MemoryFs>,
    home: MemoryHome,
    crash: Arc<CrashPoint>,
    background: bool,
}

impl World {
    fn new() -> Self {
        let files = Arc::new(MemoryFs::new(64 << 20));
        Self { files, home: MemoryHome::default(), crash: CrashPoint::never(), background: false }
    }

    fn opener(&self, architecture: &'static str) -> DiskOpener {
        let world = self.clone();
        Arc::new(move || {
            let faults = Faults::new(1).crash_at(Arc::clone(&world.crash));
            let files: Arc<dyn FileSystem> = Arc::new(FaultyFs::new(world.files.clone(), faults));
            let index = Box::new(world.home.clone());
            let parts =
                StoreEnv { files, index, boot: 7, lock: None, transient: None, background: world.background };
            open_store(architecture, &settings(), parts)
        })
    }
}

fn settings() -> ArchitectureOptions {
    ArchitectureOptions {
        disk_bytes: 16 << 20,
        max_objects: 2000,
        object_max_bytes: 1 << 20,
        now: Timestamp::from_seconds(1_000_000),
        ..ArchitectureOptions::default()
    }
}

fn disks(worlds: &[World], architecture: &'static str) -> Disks {
    let share = |at: usize| DiskSpec { path: format!("/disk/{at}"), bytes: 16 << 20 };
    let opened = worlds.iter().enumerate().map(|(at, world)| (share(at), world.opener(architecture)));
    Disks::open(opened)
}

fn key(number: u32) -> ObjectKey {
    ObjectKey::new(format!("http://a.example/{number}").into_bytes())
}

fn body(number: u32, version: u32) -> Vec<u8> {
    format!("{version} of {number} ").into_bytes().repeat(40)
}

fn put(disks: &Disks, number: u32, version: u32) -> Result<(), Error> {
    let body = body(number, version);
    let mut insert = disks.insert(&key(number), b"meta", Some(body.len() as u64))?;
    insert.append(&body)?;
    insert.commit(None)
}

/// Returns the version that is found.
fn found(disks: &Disks, number: u32) -> Result<Option<u32>, Error> {
    let Some(stored) = disks.open(&key(number))? else { return Ok(None) };
    let read = stored.body.read(0, 1 << 20)?;
    let version = (0..10).find(|version| read == body(number, *version));
    Ok(Some(version.expect("a body is one that was stored")))
}

fn filled(worlds: &[World], architecture: &'static str) -> Disks {
    let disks = disks(worlds, architecture);
    (0..OBJECTS).for_each(|number| put(&disks, number, 0).expect("it is stored"));
    disks
}

fn check_loss(architecture: &'static str) {
    let worlds = [World::new(), World::new(), World::new()];
    let disks = filled(&worlds, architecture);
    let home: Vec<usize> = (0..OBJECTS).map(|number| disks.disk_index(key(number).hash())).collect();
    assert!((0..3).all(|at| home.iter().filter(|home| **home == at).count() > 50), "all have a share");
    disks.close().expect("everything is on disk");
    worlds[1].crash.come();
    // Bytes from the failing disk are an error or a miss, and other disks do not notice.
    for round in 0..8 {
        for number in 0..OBJECTS {
            let outcome = found(&disks, number);
            match home[number as usize] {
                1 => assert!(!matches!(outcome, Ok(Some(_))) || round == 0, "{number}: nothing can be read"),
                _ => assert_eq!(outcome.expect("this disk is sound"), Some(0)),
            }
        }
        (OBJECTS..OBJECTS + 100).for_each(|number| drop(put(&disks, number, 0)));
    }
    let states = disks.states();
    assert_eq!(states[1].service, ServiceState::Failed, "{architecture}: {states:?}");
    assert!(states[1].failures > 0 && !states[1].why.is_empty());
    assert!(
        [0, 2].iter().all(|at| states[*at].service == ServiceState::InService && states[*at].failures == 0)
    );
    for number in 0..OBJECTS {
        put(&disks, number, 1).expect("the others take its keys");
        assert_eq!(found(&disks, number).expect("these are sound"), Some(1));
        let lane = disks.disk_index(key(number).hash());
        assert!(home[number as usize] == 1 || lane == home[number as usize], "only a lost disk's keys move");
        assert_ne!(lane, 1);
    }
}

#[test]
fn failing_disk_loses_its_own_objects_only() {
    ARCHITECTURES.into_iter().for_each(check_loss);
}

#[test]
fn returning_disk_lacks_removed_and_replaced_objects() {
    for architecture in ARCHITECTURES {
        let worlds = [World::new(), World::new()];
        let disks = filled(&worlds, architecture);
        assert!(disks.take_offline("/disk/0").expect("there is such a disk"));
        assert!(!disks.take_offline("/disk/0").expect("it is out already"));
        assert_eq!(disks.states()[0].service, ServiceState::Offline);
        for number in 0..100 {
            disks.remove(&key(number)).expect("a removal is taken");
        }
        assert!(!disks.removals_last(), "it is remembered in RAM alone");
        (100..200).for_each(|number| put(&disks, number, 1).expect("the other takes it"));
        (0..100).for_each(|number| assert_eq!(found(&disks, number).expect("sound"), None));
        assert!(disks.bring_online("/disk/0").expect("it can be opened"));
        assert!(!disks.bring_online("/disk/0").expect("it is in already"));
        assert!(disks.removals_last());
        let mut back = 0;
        for number in 0..OBJECTS {
            let version = found(&disks, number).expect("sound");
            match number {
                0..100 => assert_eq!(version, None, "{architecture}: what was purged stays away"),
                100..200 => assert_ne!(version, Some(0), "{architecture}: an older version"),
                _ => back += usize::from(version == Some(0)),
            }
        }
        assert_eq!(back, 100, "everything else is there again");
    }
}

#[test]
fn disk_with_readers_returns_once_they_finish() {
    for architecture in ARCHITECTURES {
        let worlds = [World::new(), World::new()];
        let disks = filled(&worlds, architecture);
        let bodies: Vec<_> = (0..OBJECTS)
            .map(|number| disks.open(&key(number)).expect("sound").expect("it is there").body)
            .collect();
        assert!(disks.take_offline("/disk/0").expect("there is such a disk"));
        let why = disks.bring_online("/disk/0").expect_err("it is still read").to_string();
        assert!(why.contains("busy with what it held") && !why.contains("another process"), "{why}");
        std::thread::scope(|scope| {
            let coming = scope.spawn(|| disks.bring_online("/disk/0"));
            drop(bodies);
            assert!(coming.join().expect("no panic").expect("it is free"), "{architecture}");
        });
    }
}

#[test]
fn disk_failing_on_return_keeps_missed_removals() {
    let world = World::new();
    let crash = Arc::new(parking_lot::Mutex::new(CrashPoint::never()));
    let (next, reopened) = (Arc::clone(&crash), world.clone());
    let opener: DiskOpener =
        Arc::new(move || World { crash: Arc::clone(&next.lock()), ..reopened.clone() }.opener("volume")());
    let share = DiskSpec { path: "/disk/0".into(), bytes: 16 << 20 };
    let disks = Disks::open([(share, opener)]);
    (0..OBJECTS).for_each(|number| put(&disks, number, 0).expect("it is stored"));
    disks.take_offline("/disk/0").expect("there is such a disk");
    (0..100).for_each(|number| drop(disks.remove(&key(number))));
    let mut failures = 0;
    // Each attempt comes a little further.
    for calls in (0..).step_by(5) {
        *crash.lock() = CrashPoint::after(calls);
        match disks.bring_online("/disk/0") {
            Ok(_) => break,
            Err(_) => failures += 1,
        }
    }
    assert!(failures > 0);
    // The few calls that are left may be too few for a close in order.
    drop(disks.take_offline("/disk/0"));
    *crash.lock() = CrashPoint::never();
    disks.bring_online("/disk/0").expect("it can be opened");
    for number in 0..100 {
        assert_eq!(found(&disks, number).expect("sound"), None, "{number} came back");
    }
}

#[test]
fn given_up_disk_returns_without_removed_objects() {
    let worlds = [World::new(), World::new()];
    let disks = filled(&worlds, "volume");
    let of_first: Vec<u32> =
        (0..OBJECTS).filter(|number| disks.disk_index(key(*number).hash()) == 0).take(20).collect();
    for number in &of_first[..10] {
        // A second call does not give up another disk.
        assert!(disks.fail_disk(0, &key(*number)));
    }
    assert_eq!(disks.states()[0].service, ServiceState::Failed);
    assert_eq!(disks.states()[1].service, ServiceState::InService);
    assert!(disks.bring_online("/disk/0").expect("it can be opened"));
    for (at, number) in of_first.iter().enumerate() {
        let version = found(&disks, *number).expect("sound");
        assert!(version.is_none() || at >= 10, "{number} should be gone");
    }
}

#[test]
fn removal_reaches_older_objects_on_other_disks() {
    let worlds = [World::new(), World::new()];
    let disks = filled(&worlds, "volume");
    disks.take_offline("/disk/0").expect("there is such a disk");
    (0..OBJECTS).for_each(|number| put(&disks, number, 1).expect("the other takes it"));
    disks.bring_online("/disk/0").expect("it can be opened");
    // Half of the keys belong to the first disk again, and the second still has them.
    for number in 0..OBJECTS {
        assert!(disks.remove(&key(number)).expect("removed"), "{number}");
    }
    for out in ["/disk/0", "/disk/1"] {
        disks.take_offline(out).expect("there is such a disk");
        (0..OBJECTS).for_each(|number| assert_eq!(found(&disks, number).expect("sound"), None));
        disks.bring_online(out).expect("it can be opened");
    }
}

#[test]
fn try_insert_blocks_if_another_disk_may_have_key() {
    let worlds = [(); 2].map(|()| World { background: true, ..World::new() });
    let disks = disks(&worlds, "volume");
    disks.take_offline("/disk/0").expect("there is such a disk");
    (0..OBJECTS).for_each(|number| put(&disks, number, 1).expect("the other takes it"));
    disks.bring_online("/disk/0").expect("it can be opened");
    let mut waits = 0;
    for number in 0..OBJECTS {
        let home = disks.disk_index(key(number).hash());
        let offer = || disks.try_insert(&key(number), b"meta", &body(number, 2).into(), &|| true);
        if offer().expect("it is in service") == TryInsert::WouldBlock {
            assert_eq!(home, 0, "the second disk's own keys are nowhere else");
            waits += 1;
            disks.remove(&key(number)).expect("removed");
            assert_eq!(offer().expect("it is in service"), TryInsert::Inserted);
        }
        assert_eq!(found(&disks, number).expect("sound"), Some(2));
    }
    assert!((OBJECTS / 4..OBJECTS).contains(&waits), "{waits}");
}

#[test]
fn unopened_disks_leave_others_serving() {
    let worlds = [World::new(), World::new()];
    worlds[0].crash.come();
    let disks = filled(&worlds, "volume");
    assert_eq!(disks.states()[0].service, ServiceState::Unopened);
    assert_eq!(disks.usage().bytes_max, 16 << 20);
    (0..OBJECTS).for_each(|number| assert_eq!(found(&disks, number).expect("sound"), Some(0)));
    assert!(disks.bring_online("/disk/0").is_err(), "it still cannot be opened");
    assert!(disks.take_offline("/disk/2").is_err_and(|error| error.to_string().contains("/disk/0, /disk/1")));
}

#[test]
fn unopened_disks_each_serve_once_openable() {
    let worlds = [World::new(), World::new()];
    filled(&worlds, "volume").close().expect("everything is on disk");
    let crash = Arc::new(parking_lot::Mutex::new([true; 2]));
    let share = |at: usize| DiskSpec { path: format!("/disk/{at}"), bytes: 16 << 20 };
    let opener = |at: usize| -> DiskOpener {
        let (world, crash) = (worlds[at].clone(), Arc::clone(&crash));
        Arc::new(move || match crash.lock()[at] {
            true => Err(Error::Unusable(format!("disk {at} is not there"))),
            false => world.opener("volume")(),
        })
    };
    let disks = Disks::open([(share(0), opener(0)), (share(1), opener(1))]);
    let why: Vec<_> = disks.states().into_iter().map(|state| (state.service, state.why)).collect();
    let unopened = |at| (ServiceState::Unopened, format!("unusable store: disk {at} is not there"));
    assert_eq!(why, [unopened(0), unopened(1)], "each says for itself why");
    assert!(!disks.is_in_service() && found(&disks, 1).expect("a miss").is_none());
    (0..100).for_each(|number| drop(disks.remove(&key(number))));
    for number in 100..200 {
        let refusal = match number % 2 {
            0 => put(&disks, number, 1).err(),
            _ => disks.try_insert(&key(number), b"meta", &body(number, 1).into(), &|| true).err(),
        };
        assert!(matches!(refusal, Some(Error::Declined(InsertRefusal::OutOfService))), "{refusal:?}");
    }
    *crash.lock() = [false, true];
    assert!(disks.bring_online("/disk/0").expect("it can be opened") && disks.is_in_service());
    assert!(disks.bring_online("/disk/1").is_err());
    *crash.lock() = [false; 2];
    assert!(disks.bring_online("/disk/1").expect("it can be opened"));
    for number in 0..OBJECTS {
        let expected = if number < 200 { None } else { Some(0) };
        assert_eq!(found(&disks, number).expect("sound"), expected, "{number}: what is older stays away");
    }
}

#[test]
fn store_without_disks_misses_and_declines() {
    let disks = filled(&[World::new()], "volume");
    disks.take_offline("/disk/0").expect("there is such a disk");
    assert_eq!(found(&disks, 1).expect("a miss"), None);
    assert!(!disks.may_contain(&key(1)) && !disks.remove(&key(1)).expect("nothing to remove"));
    assert!(matches!(put(&disks, 1, 1), Err(Error::Declined(InsertRefusal::OutOfService))));
    assert_eq!((disks.usage(), disks.name()), (Usage::default(), "none"));
    disks.close().expect("nothing to close");
}

#[test]
fn second_store_of_one_folder_is_refused() {
    let folder = std::env::temp_dir().join(format!("shoal-disks-{}", std::process::id()));
    let options = OpenOptions {
        directory: folder.clone(),
        disk_bytes: 16 << 20,
        object_max_bytes: 1 << 20,
        now: Timestamp::from_seconds(1_000_000),
        ..OpenOptions::default()
    };
    let one = |path: &str| {
        let options = options.clone();
        let opener: DiskOpener = Arc::new(move || crate::open(&options));
        (DiskSpec { path: path.into(), bytes: 1 }, opener)
    };
    let disks = Disks::open([one("a"), one("b")]);
    let (serving, refused): (Vec<_>, Vec<_>) =
        disks.states().into_iter().partition(|state| state.service == ServiceState::InService);
    assert!(serving.len() == 1 && refused.len() == 1, "{:?}", disks.states());
    assert!(refused[0].why.contains("in use by another process"), "{refused:?}");
    put(&disks, 1, 0).expect("it is stored");
    drop(disks);
    std::fs::remove_dir_all(folder).expect("it was made");
}

#[test]
fn disk_kept_offline_is_not_opened_again() {
    let world = World::new();
    let is_there = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let opener: DiskOpener = {
        let (world, is_there) = (world.clone(), Arc::clone(&is_there));
        Arc::new(move || match is_there.load(std::sync::atomic::Ordering::Relaxed) {
            true => world.opener("volume")(),
            false => Err(Error::Unusable("it is not there".into())),
        })
    };
    let disks = Disks::open([(DiskSpec { path: "/disk".into(), bytes: 16 << 20 }, opener)]);
    let fine: Ready = Arc::new(|| Ok(()));
    assert!(disks.open_again("/disk", &fine).is_err(), "it still cannot be opened");
    is_there.store(true, std::sync::atomic::Ordering::Relaxed);
    let refusal: Ready = Arc::new(|| Err(Error::Unusable("not ready".into())));
    assert!(disks.open_again("/disk", &refusal).is_err() && !disks.is_in_service());
    assert_eq!(disks.states()[0].why, "unusable store: not ready");
    assert!(!disks.take_offline("/disk").expect("there is such a disk"), "it was out");
    assert_eq!(disks.states()[0].service, ServiceState::Offline);
    assert!(!disks.open_again("/disk", &fine).expect("nothing to do") && !disks.is_in_service());
    assert!(disks.bring_online("/disk").expect("it can be opened") && disks.is_in_service());
    assert!(!disks.open_again("/disk", &fine).expect("it serves"));
}
