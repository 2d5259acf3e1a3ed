//! Characters of small traces counted by hand, and of made ones by their makers' settings.

use super::*;
use crate::progress::Silent;
use shoal_trace::generate::Traffic;
use shoal_trace::{Filter, ReadOptions, Reader};

const LOG: &str = "\
1.000 5 c1 TCP_MISS/200 100 GET http://a/1 - - -
2.000 5 c2 TCP_MISS/200 300 GET http://b/1 - - -
3.000 5 c1 TCP_HIT/200 100 GET http://a/1 - - -
4.000 5 c1 TCP_REFRESH_UNMODIFIED/304 40 GET http://a/1 - - -
86405.000 5 c2 TCP_MISS/200 150 GET http://a/1 - - -
86406.000 5 c2 TCP_MISS/500 9 POST http://a/cgi-bin/x - - -
86407.000 5 c2 TCP_MISS/200 700 HEAD http://c/?q - - -
";

fn loaded(log: &str, rules: &[&str]) -> CensusTrace {
    let mut filter = Filter::default();
    assert!(rules.iter().all(|rule| filter.add(rule)));
    let reader = Reader::new(log.as_bytes(), &ReadOptions::default()).expect("a format");
    load(reader, &LoadOptions { filter, ..LoadOptions::default() }).expect("readable")
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_log_is_counted_before_anything_is_left_out() {
    let loaded = loaded(LOG, &["cacheable"]);
    let census = &loaded.census;
    assert_eq!((census.lines, census.gets, census.heads, census.other_methods), (7, 5, 1, 1));
    assert_eq!((census.not_modified, census.statuses[2], census.statuses[5], census.dynamic), (1, 5, 1, 2));
    assert_eq!((loaded.account.hits, loaded.account.told), (2, 7));
    assert_eq!((loaded.trace.requests().len(), loaded.unread.refused[1]), (6, 1));
    // The 304 has the size of the object before it, the HEAD the median of all that are known.
    let bytes: Vec<u64> = loaded.trace.requests().iter().map(|request| request.bytes).collect();
    assert_eq!(bytes, [100, 300, 100, 100, 150, 150]);
    assert_eq!((census.without_size, loaded.filled.from_before, loaded.filled.by_median), (2, 1, 1));
}

#[test]
fn a_small_trace_has_the_character_counted_by_hand() {
    let loaded = loaded(LOG, &["get"]);
    let character = Character::of(&loaded.trace, TraceFields::ALL, 1, &mut Silent);
    let infinite = &character.infinite;
    assert_eq!((character.requests, character.objects, character.hosts, character.clients), (5, 2, 2, 2));
    assert_eq!((character.bytes, character.unique_bytes, character.seconds), (750, 450, 86_404.0));
    assert!(close(infinite.hit_ratio, 0.6) && close(infinite.byte_hit_ratio, 350.0 / 750.0));
    assert!(close(infinite.version_hit_ratio, 0.4) && close(infinite.version_byte_hit_ratio, 200.0 / 750.0));
    assert!(
        close(character.popularity.one_hit_objects, 0.5) && close(character.popularity.one_hit_requests, 0.2)
    );
    assert_eq!(character.sizes.of_requests.quantiles, [100, 100, 300, 300, 300]);
    assert_eq!(character.reuse.distances().quantiles_by_objects(&[0.5, 1.0]), [Some(1), Some(2)]);
    let locality = &character.locality;
    assert!(
        close(locality.same_host, 0.5) && close(locality.same_host_per_client, 2.0 / 3.0),
        "{locality:?}"
    );
    assert!(close(locality.first_seen, 0.4) && locality.collapsed_p50 == 1);
    let popular = &character.change.popular;
    assert_eq!((popular.objects, popular.repeats, popular.changes), (1, 3, 1));
    assert!((popular.days - 86_404.0 / 86_400.0).abs() < 1e-6);
    let slices = &character.working_set.slices;
    assert_eq!((slices[0].requests, slices[0].objects, slices[0].new_objects), (4, 2, 2));
    let last = slices.last().expect("there are slices");
    assert_eq!((last.requests, last.new_objects, last.objects_so_far), (1, 0, 2));
    assert!((55..=60).contains(&slices.len()), "{}", slices.len());
}

#[test]
fn made_traffic_has_its_settings_character() {
    let traffic =
        Traffic { requests: 60_000, embedded: 0.0, stay: 0.0, hit_ratio: 0.7, ..Traffic::default() };
    let trace = traffic.make().expect("possible");
    let character = Character::of(&trace, TraceFields::ALL, 1, &mut Silent);
    assert!((character.infinite.hit_ratio - 0.7).abs() < 0.01);
    assert!((character.popularity.alpha - 0.75).abs() < 0.06, "{}", character.popularity.alpha);
    assert!(character.popularity.alpha_error < 0.02 && character.popularity.fit > 0.95);
    assert!((character.rate() - 10.0).abs() < 1.0);
    assert_eq!(character.change.popular.changes + character.change.others.changes, 0);
}

#[test]
fn unknown_facts_of_a_trace_stay_unknown() {
    let loaded = loaded("v2/a/manifests/x\nv2/b\nv2/a/manifests/x\n", &[]);
    assert_eq!(loaded.known(), TraceFields { times: false, sizes: false });
    let character = Character::of(&loaded.trace, loaded.known(), 1, &mut Silent);
    assert_eq!((character.seconds, character.rate(), character.working_set.slices.len()), (0.0, 0.0, 0));
    assert_eq!((character.change.popular.repeats, character.requests, character.objects), (0, 3, 2));
}

#[test]
fn nothing_has_a_character_too() {
    let character = Character::of(&Trace::default(), TraceFields::ALL, 1, &mut Silent);
    assert_eq!((character.requests, character.rate(), character.popularity.alpha), (0, 0.0, 0.0));
    let nothing = loaded("# a comment\nhttp://a/ 1\n", &["get"]);
    let page = report(&character, &nothing, "nothing", "shoal trace info nothing");
    page.figures().for_each(|figure| drop((figure.svg(), figure.csv())));
    assert!(page.html().contains("What nothing is like"));
    assert!(json(&character, &nothing)["requests"] == 0);
}

#[test]
fn the_report_and_the_json_say_the_same() {
    let loaded = loaded(LOG, &["get"]);
    let character = Character::of(&loaded.trace, TraceFields::ALL, 1, &mut Silent);
    let json = json(&character, &loaded);
    assert_eq!(json["infinite_cache"]["identity"]["hit_ratio"], 0.6);
    assert_eq!(json["census"]["statuses"]["5xx"], 1);
    assert_eq!(json["reading"]["format"], "squid");
    let page = report(&character, &loaded, "a.log", "shoal trace info a.log");
    assert_eq!((page.sections.len(), page.figures().count()), (5, 5));
    assert!(page.html().contains("60.0% of requests"));
}
