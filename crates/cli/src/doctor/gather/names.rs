//! Names of origins, mirrors, neighbours and members, looked up by the system's resolver.

use crate::doctor::facts::NameFact;
use crate::doctor::judge::LOOKUP;
use crate::doctor::ports::lookup;
use shoal_settings::Settings;
use shoal_store::patience::all_within;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Looks up each name of the settings once.
pub(super) fn names(settings: &Settings) -> Vec<NameFact> {
    let names: Vec<(String, String)> = named(settings).into_iter().take(NAMES_MAX).collect();
    let ask = |(name, _): &(String, String)| {
        let name = name.clone();
        move || {
            let begun = Instant::now();
            (lookup(&name), begun.elapsed())
        }
    };
    let found = all_within(LOOKUP, "lookup", names.iter().map(ask).collect());
    debug_assert_eq!(found.len(), names.len(), "an outcome for each name");
    let fact = |((name, setting), found): (_, Option<(_, Duration)>)| {
        let took = found.as_ref().map_or(LOOKUP, |(_, took)| *took);
        NameFact { name, setting, found: found.map(|(found, _)| found), took }
    };
    names.into_iter().zip(found).map(fact).collect()
}

/// Returns the names that are no addresses, each with the first setting that has it.
fn named(settings: &Settings) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    let mut add = |host: Option<&str>, setting: String| {
        let Some(host) = host else { return };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if !bare.is_empty() && bare.parse::<IpAddr>().is_err() {
            names.entry(bare.to_owned()).or_insert(setting);
        }
    };
    for (at, site) in settings.site.iter().enumerate() {
        for (number, upstream) in site.upstreams.iter().enumerate() {
            add(host_of(&upstream.url), format!("site[{at}].upstreams[{number}].url"));
        }
    }
    for (at, mirror) in settings.mirror.iter().enumerate() {
        add(host_of(mirror.upstream_origin()), format!("mirror[{at}].upstream"));
    }
    for (at, neighbour) in settings.neighbour.iter().enumerate() {
        add(Some(&neighbour.host), format!("neighbour[{at}].host"));
    }
    for (at, member) in settings.cluster.join.iter().enumerate() {
        add(member.rsplit_once(':').map(|(host, _)| host), format!("cluster.join[{at}]"));
    }
    names
}

/// Returns the host of a URL.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(ip, _)| ip),
        None => Some(authority.split_once(':').map_or(authority, |(host, _)| host)),
    }
}

/// Names that are looked up, each by a thread.
const NAMES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_taken_out_of_settings() {
        let text = "[[site]]\nhosts = ['*']\nupstreams = [{ url = 'http://a.test:80/x' }, { url = 'http://[::1]:8' }]\n\
                    [[site]]\nhosts = ['b']\nupstreams = [{ url = 'https://a.test' }, { url = 'http://10.0.0.1' }]\n\
                    [[neighbour]]\nhost = 'n.test'\nkind = 'sibling'\nicp_port = 1\n\
                    [[listen]]\naddress = '127.0.0.1:1'\nmode = 'reverse'\n";
        let settings = Settings::parse(text, "f").expect("sound");
        let names: Vec<_> = named(&settings).into_iter().collect();
        let expected = [("a.test", "site[0].upstreams[0].url"), ("n.test", "neighbour[0].host")];
        assert_eq!(names, expected.map(|(name, setting)| (name.to_owned(), setting.to_owned())));
    }

    #[test]
    fn hosts_of_urls_are_found() {
        for (url, host) in [
            ("http://a:1/b", Some("a")),
            ("https://[::1]:1/b", Some("::1")),
            ("http://a?x=http://b", Some("a")),
            ("nothing", None),
        ] {
            assert_eq!(host_of(url), host, "{url}");
        }
    }
}
