//! Hosts kept for a bench: takes a line, does it, says how it went.

use crate::number;
use serde_json::{Value, json};
use shoal_testkit::Hosts;
use shoal_testkit::hosts::{HOSTS_MAX, Link, Quality};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{BufRead, Write};
use std::time::Duration;

/// Makes hosts, tells them, and takes commands until there are no more.
pub(crate) fn serve(count: usize) -> Result<(), String> {
    if !(2..=HOSTS_MAX).contains(&count) {
        return Err(format!("2 to {HOSTS_MAX} hosts, not {count}"));
    }
    let hosts = Hosts::start(count);
    let mut links = HashMap::new();
    say(&described(&hosts).to_string())?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        match obey(&hosts, &mut links, &line) {
            Ok(found) => say(format!("ok {found}").trim_end())?,
            Err(why) => say(&format!("error {}", why.replace('\n', " ")))?,
        }
    }
    Ok(())
}

/// The hosts: addresses, and the words that let a program run there.
fn described(hosts: &Hosts) -> Value {
    let host = |host: &shoal_testkit::Host| json!({ "ip": host.ip().to_string(), "prefix": host.prefix() });
    json!({
        "outside": hosts.outside().to_string(),
        "network": hosts.network(),
        "lacks": hosts.cuts().err(),
        "hosts": hosts.iter().map(host).collect::<Value>(),
    })
}

fn obey(hosts: &Hosts, links: &mut HashMap<usize, Link>, line: &str) -> Result<String, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let host = |text: &str| {
        let host: usize = number(text)?;
        if host < hosts.count() { Ok(host) } else { Err(format!("there is no host {host}")) }
    };
    let nothing = |()| String::new();
    match words.as_slice() {
        ["cut", from, to] if from != to => hosts.cut(host(from)?, host(to)?).map(nothing),
        ["split", group @ ..] => {
            let group: Vec<usize> = group.iter().map(|text| host(text)).collect::<Result<_, _>>()?;
            hosts.split(&group).map(nothing)
        }
        ["unplug", one] => hosts.unplug(host(one)?).map(nothing),
        ["heal"] => hosts.heal().map(nothing),
        ["freeze", one] => {
            hosts[host(one)?].freeze();
            Ok(String::new())
        }
        ["thaw", one] => {
            hosts[host(one)?].thaw();
            Ok(String::new())
        }
        ["memory", one, bytes] => hosts[host(one)?].limit_memory(number(bytes)?).map(nothing),
        ["cpu", one, percent] => hosts[host(one)?].limit_cpu(number::<u32>(percent)?.max(1)).map(nothing),
        ["rate", one, bits] => hosts[host(one)?].limit_rate(number(bits)?).map(nothing),
        ["link", one, delay_ms, loss] => {
            let one = host(one)?;
            let loss = number::<f64>(loss)?.clamp(0.0, 1.0);
            let quality =
                Quality { delay: Duration::from_millis(number(delay_ms)?), loss, ..Quality::default() };
            let link = match links.entry(one) {
                Entry::Occupied(link) => link.into_mut(),
                Entry::Vacant(place) => place.insert(hosts[one].link(one as u64)?),
            };
            link.set(quality);
            Ok(String::new())
        }
        ["bytes"] => hosts.bytes_between().map(|bytes| bytes.to_string()),
        _ => Err(format!("{line}: not understood")),
    }
}

fn say(line: &str) -> Result<(), String> {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).map_err(|error| error.to_string())
}
