//! Reading rules and warning of them takes work in proportion to their number, counted in
//! allocations. `bench/many_rules.py` has the time.

use shoal_rules::{RuleSet, warnings};
use shoal_settings::Settings;

/// Returns settings with this number of rules of several kinds, each with names of its own.
fn settings(rules: usize) -> Settings {
    let kinds = [
        "path_regex = '^/shop-N/[a-z]+'\nlifetime_default = '10m'",
        "hosts = ['hN.example.org', '*.dN.example.org']\nquery_drop = ['utm_*']",
        "paths = ['/static/N/*.css']\nlifetime = '1h'\nresponse_set = ['X-Rule: N']",
        "paths = ['/old/N']\nredirect = 'https://$host/new/N'\nredirect_status = 301",
        "methods = ['POST']\npaths = ['/login/N*']\nclient_rate = 1.0\nrequest_set = ['X-Number: N']",
    ];
    let head = "[[listen]]\naddress = '127.0.0.1:80'\nmode = 'reverse'\n\
                [[site]]\nhosts = ['*']\nupstreams = [{ url = 'http://127.0.0.1:8000' }]\n";
    let rule = |number: usize| {
        format!("[[rule]]\n{}\n", kinds[number % kinds.len()].replace('N', &number.to_string()))
    };
    let text: String = std::iter::once(head.to_owned()).chain((0..rules).map(rule)).collect();
    Settings::parse(&text, "shoal.toml").expect("sound settings")
}

/// Returns the allocations of one step over this number of rules.
fn allocations(rules: usize, step: impl FnOnce(&Settings)) -> u64 {
    let settings = settings(rules);
    allocation_counter::measure(|| step(&settings)).count_total
}

fn check(name: &str, step: impl Fn(&Settings)) {
    let (few, many) = (allocations(2_000, &step), allocations(4_000, &step));
    assert!(few > 2_000, "{name}: {few} allocations, so that nothing is counted");
    assert!(many < few * 5 / 2, "{name}: {few} allocations became {many}");
}

#[test]
fn twice_the_rules_take_twice_the_work() {
    check("compile", |settings| assert!(RuleSet::new(settings).is_ok()));
    check("warn", |settings| assert!(!warnings(settings).is_empty()));
}
