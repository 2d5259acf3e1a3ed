//! A disk that fails, comes back, or misses changes meanwhile.

use super::*;
use crate::{Insert, OpenObject, PromptStore, Store, StoreUpkeep, StoreView};
use shoal_core::ObjectKey;

/// Store on a disk that has failed three times while no caller waited.
struct Failing;

impl Store for Failing {
    fn open(&self, _: &ObjectKey) -> Result<Option<OpenObject>, Error> {
        Ok(None)
    }

    fn insert(&self, _: &ObjectKey, _: &[u8], _: Option<u64>) -> Result<Box<dyn Insert>, Error> {
        Err(Error::Declined(InsertRefusal::NoSpace))
    }

    fn update_metadata(&self, _: &ObjectKey, _: &[u8], _: &dyn Fn(&[u8]) -> bool) -> Result<bool, Error> {
        Ok(false)
    }

    fn remove(&self, _: &ObjectKey) -> Result<bool, Error> {
        Ok(false)
    }

    fn close(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl PromptStore for Failing {}

impl StoreView for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn may_contain(&self, _: &ObjectKey) -> bool {
        false
    }

    fn usage(&self) -> Usage {
        Usage { failures: 3, ..COUNTED }
    }
}

impl StoreUpkeep for Failing {}

impl crate::Peek for Failing {
    fn peek(&self, _: &ObjectKey) -> Result<Option<crate::ObjectSummary>, Error> {
        Ok(None)
    }
}

const COUNTED: Usage = Usage {
    objects: 5,
    objects_max: 10,
    bytes: 500,
    bytes_max: 1000,
    evictions: 1,
    crowded_out: 2,
    corrupt: 4,
    spared_reads: 8,
    failures: 0,
    unwritten: 0,
};

#[test]
fn disk_out_of_service_keeps_its_counts() {
    let disk = Disk::new(DiskSpec { path: "/d1".into(), bytes: 1 }, Arc::new(|| Ok(Arc::new(Failing))));
    disk.start();
    disk.end_start().expect("it opens");
    let counts = || {
        let usage = disk.state().usage;
        (usage.evictions, usage.crowded_out, usage.corrupt, usage.spared_reads)
    };
    for times in 1..4 {
        assert_eq!(counts(), (times, 2 * times, 4 * times, 8 * times));
        disk.take_offline(ServiceState::Offline, "an operator took it out").expect("it was in service");
        assert_eq!(counts(), (times, 2 * times, 4 * times, 8 * times));
        assert_eq!((disk.state().usage.objects, disk.state().usage.bytes_max), (0, 0), "it holds nothing");
        assert!(disk.bring_online(None, &|| Ok(())).expect("it opens"));
    }
}

#[test]
fn background_failures_count_and_stay_counted() {
    let share = DiskSpec { path: "/d1".into(), bytes: 1 };
    let disk = Disk::new(share, Arc::new(|| Ok(Arc::new(Failing))));
    disk.start();
    disk.end_start().expect("it opens");
    let failure = Error::Disk { action: "read", source: ErrorKind::TimedOut.into() };
    assert!(!disk.count_failure(&failure));
    assert_eq!(disk.state().failures, 4);
    disk.take_offline(ServiceState::Offline, "an operator took it out").expect("it was in service");
    assert_eq!(disk.state().failures, 4);
    assert!(disk.bring_online(None, &|| Ok(())).expect("it opens"));
    assert_eq!(disk.state().failures, 7, "those of the next");
}
