//! The workload compared with the figures of Kant and Won.

use super::*;

#[test]
fn the_file_sets_are_as_large_as_the_paper_says() {
    for (throughput, directories, megabytes) in
        [(2500.0, 525, 2688.0), (10_000.0, 2025, 10_367.0), (40_000.0, 8025, 41_084.0)]
    {
        let set = FileSet::for_throughput(throughput);
        assert_eq!(set.directories(), directories);
        assert_eq!((set.bytes() / 1e6).round(), megabytes);
        let all: f64 = set.files().map(|file| set.probability(file)).sum();
        assert!((all - 1.0).abs() < 1e-9, "{all}");
    }
    assert!((FileSet::mean_access_bytes() - 14_730.0).abs() < 5.0);
    // "files 4-6 account for about 65% of all accesses"
    assert!((3..=5).map(files::within_class).sum::<f64>() > 0.64);
    assert_eq!((File::at(0).bytes(), File::at(35).bytes()), (102, 921_600));
    assert!((0..500).all(|place| File::at(place).place() == place));
}

#[test]
fn operations_have_prescribed_shares_and_rate() {
    let workload = Workload { throughput: 500.0, ..Workload::default() };
    let all: Vec<Operation> = workload.operations().unwrap().take(200_000).collect();
    for (kind, share) in KINDS {
        let found = all.iter().filter(|operation| operation.kind == kind).count() as f64 / 2e5;
        assert!((found - share).abs() < 0.004, "{kind:?}: {found}");
    }
    let set = workload.files();
    for at in [0, 4, 9, 13, 31, 40, 360] {
        let file = File::at(at);
        let (found, share) =
            (all.iter().filter(|o| o.file == file).count() as f64, set.probability(file) * 2e5);
        assert!((found - share).abs() < 5.0 * share.sqrt() + 1.0, "{file:?}: {found} for {share}");
    }
    let seconds = all.last().unwrap().time_ms as f64 / 1e3;
    assert!((2e5 / seconds / 500.0 - 1.0).abs() < 0.03, "{} a second", 2e5 / seconds);
    assert!(all.is_sorted_by_key(|operation| operation.time_ms));
    // 30% of the TCP connections carry one operation, the others ten on average.
    let opened = all.iter().filter(|operation| operation.opens).count() as f64;
    assert!((2e5 / opened - 7.3).abs() < 0.2, "{}", 2e5 / opened);
    // Each connection carries about 3.3 operations a second.
    assert!((500.0 / f64::from(workload.connections()) - 3.3).abs() < 0.15);
}

#[test]
fn no_connection_exceeds_its_rate() {
    let workload = Workload { throughput: 50.0, ..Workload::default() };
    let mut last: Vec<Option<Operation>> = vec![None; workload.connections() as usize];
    for operation in workload.operations().unwrap().take(20_000) {
        if let Some(before) = last[operation.connection as usize].replace(operation) {
            let milliseconds = (operation.time_ms - before.time_ms + 1) as f64;
            assert!(before.response_bytes() / milliseconds <= 50.0, "{before:?} {operation:?}");
        }
    }
}

#[test]
fn the_trace_has_the_gets_and_text_gives_it_again() {
    let workload: Workload = "throughput=100,requests=5000,seed=3".parse().unwrap();
    assert_eq!(workload.to_string().parse(), Ok(workload));
    let (trace, again) = (workload.make().unwrap(), workload.make().unwrap());
    assert_eq!(trace.requests(), again.requests());
    let posts = workload.operations().unwrap().take(5000).filter(|o| o.kind == OperationKind::Post);
    assert_eq!(trace.requests().len(), 5000 - posts.count());
    for wrong in ["throughput=0", "requests=0", "x=1", "seed", "seed=a", "directories=2000000"] {
        assert!(wrong.parse::<Workload>().is_err(), "{wrong}");
    }
}
