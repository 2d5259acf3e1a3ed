//! Runs of a small trace.

use super::*;
use crate::progress::Silent;
use shoal_trace::generate::Traffic;

#[test]
fn an_object_that_the_store_does_not_take_is_a_miss() {
    let mut trace = Traffic { requests: 3000, ..Traffic::default() }.make().expect("such traffic can be had");
    for _ in 0..2 {
        let record = shoal_trace::Record { url: "http://a/image".into(), ..shoal_trace::Record::default() };
        trace.push_sized(&record, 6_000_000_000);
    }
    let workload = Workload::new(&trace, 0);
    let outcomes = modelled(&trace, &workload, &["squid", "volume"], &mut Silent).unwrap();
    let mut trace = shoal_trace::Trace::default();
    for at in 0..40 {
        let record =
            shoal_trace::Record { url: format!("http://a/{at}").into(), ..shoal_trace::Record::default() };
        trace.push_sized(&record, 300_000_000);
    }
    let workload = Workload::new(&trace, 0);
    let full = modelled(&trace, &workload, &["squid"], &mut Silent).unwrap_err();
    assert!(full.to_string().contains("--size-max"), "{full}");
    for outcome in outcomes {
        let written = outcome.files.bytes_written + outcome.mapped.bytes_written;
        assert!((1..1_000_000_000).contains(&written), "{}: {written}", outcome.name);
    }
}
