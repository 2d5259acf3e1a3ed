//! Access control elements of Squid.

use crate::Files;
use crate::ledger::{Ledger, LineId};
use crate::networks;
use crate::squid_lines::{Line, list};
use ipnet::IpNet;
use std::collections::HashMap;

/// Test of an element; one of its values must hold.
#[derive(Clone, Debug)]
pub enum Test {
    /// Client networks.
    Source(Vec<IpNet>),
    /// Hosts by name, `*.suffix` or network.
    Hosts(Vec<String>),
    /// Expressions over the URL, each with `true` if case does not matter.
    Url(Vec<(String, bool)>),
    /// Expressions over path and query.
    Path(Vec<(String, bool)>),
    /// Ports, from and to.
    Ports(Vec<(u16, u16)>),
    /// Methods.
    Methods(Vec<String>),
    /// Clients that name a user.
    Users,
    /// The cache manager.
    Manager,
    /// Destinations that Shoal refuses by itself.
    OwnHosts,
    /// Anything that Shoal does not ask.
    Other(String),
}

/// An element by its name.
#[derive(Clone, Debug)]
pub struct Element {
    /// Test.
    pub test: Test,
    /// Statements that define it.
    pub from: Vec<LineId>,
}

/// All elements by name, in lower case.
pub struct Elements {
    by_name: HashMap<String, Element>,
    /// Reason why no user can be asked for.
    no_users: Option<&'static str>,
}

impl Elements {
    /// Reads every `acl` line.
    pub fn of(
        lines: &[Line],
        files: &dyn Files,
        no_users: Option<&'static str>,
        ledger: &mut Ledger,
    ) -> Self {
        let own = |test| Element { test, from: Vec::new() };
        let private = Test::OwnHosts;
        let by_name = HashMap::from([
            ("all".to_owned(), own(Test::Source(networks::everyone()))),
            ("localhost".to_owned(), own(Test::Source(networks::loopback()))),
            ("to_localhost".to_owned(), own(private.clone())),
            ("to_linklocal".to_owned(), own(private)),
            ("manager".to_owned(), own(Test::Manager)),
            ("connect".to_owned(), own(Test::Methods(vec!["CONNECT".into()]))),
        ]);
        let mut all = Self { by_name, no_users };
        for line in lines.iter().filter(|line| line.name == "acl") {
            all.add(line, files, ledger);
        }
        all
    }

    /// Returns an element; an unknown one asks for something that Shoal does not ask.
    pub fn find(&self, name: &str) -> Element {
        let unknown = || Element { test: Test::Other(format!("no acl {name}")), from: Vec::new() };
        self.by_name.get(&name.to_ascii_lowercase()).cloned().unwrap_or_else(unknown)
    }

    fn add(&mut self, line: &Line, files: &dyn Files, ledger: &mut Ledger) {
        let mut values: Vec<(String, bool)> = Vec::new();
        let mut ignores_case = false;
        let mut failure = None;
        for word in line.words.iter().skip(2) {
            match word.as_str() {
                "-i" => ignores_case = true,
                "+i" => ignores_case = false,
                "-n" | "--" => {}
                word if word.starts_with('"') || word.starts_with("parameters(") => {
                    match list(
                        word.trim_start_matches("parameters(").trim_end_matches(')').trim_matches('"'),
                        files,
                    ) {
                        Ok(found) => values.extend(found.into_iter().map(|value| (value, ignores_case))),
                        Err(why) => failure = Some(format!("cannot read {word}: {why}")),
                    }
                }
                word => values.push((word.to_owned(), ignores_case)),
            }
        }
        let asks_user = line.word(1) == "proxy_auth";
        let test = match (failure, asks_user) {
            (Some(why), _) => Err(why),
            (None, true) => users(&values, self.no_users),
            (None, false) => test(line.word(1), values),
        };
        let test = match test {
            Ok(test) => {
                ledger.carried(line.id);
                test
            }
            Err(why) => {
                ledger.left_out(line.id, why.as_str());
                Test::Other(why)
            }
        };
        let key = line.word(0).to_ascii_lowercase();
        match self.by_name.get_mut(&key).filter(|element| !element.from.is_empty()) {
            Some(element) => {
                element.from.push(line.id);
                element.test = joined(element.test.clone(), test);
            }
            None => {
                self.by_name.insert(key, Element { test, from: vec![line.id] });
            }
        }
    }
}

fn joined(a: Test, b: Test) -> Test {
    match (a, b) {
        (Test::Source(a), Test::Source(b)) => Test::Source([a, b].concat()),
        (Test::Hosts(a), Test::Hosts(b)) => Test::Hosts([a, b].concat()),
        (Test::Url(a), Test::Url(b)) => Test::Url([a, b].concat()),
        (Test::Path(a), Test::Path(b)) => Test::Path([a, b].concat()),
        (Test::Ports(a), Test::Ports(b)) => Test::Ports([a, b].concat()),
        (Test::Methods(a), Test::Methods(b)) => Test::Methods([a, b].concat()),
        (other @ Test::Other(_), _) | (_, other) => other,
    }
}

/// Reads `proxy_auth`.
fn users(values: &[(String, bool)], no_users: Option<&str>) -> Result<Test, String> {
    match (no_users, values) {
        (None, [(word, _)]) if word == "REQUIRED" => Ok(Test::Users),
        (None, _) => Err("proxy_auth: all users of the file are served, not some of them".into()),
        (Some(why), _) => Err(format!("proxy_auth: {why}")),
    }
}

fn test(kind: &str, values: Vec<(String, bool)>) -> Result<Test, String> {
    let texts = || values.iter().map(|(value, _)| value.as_str());
    match kind {
        "src" => texts()
            .map(|text| networks::parse(text).ok_or_else(|| format!("{text:?} is no network")))
            .collect::<Result<Vec<_>, _>>()
            .map(|nets| Test::Source(nets.concat())),
        "dst" => texts()
            .map(|text| networks::parse(text).ok_or_else(|| format!("{text:?} is no network")))
            .collect::<Result<Vec<_>, _>>()
            .map(|nets| Test::Hosts(nets.concat().iter().map(ToString::to_string).collect())),
        "dstdomain" => Ok(Test::Hosts(texts().flat_map(domain).collect())),
        "dstdom_regex" => {
            let names = values.iter().map(|(text, _)| crate::expressions::host(text));
            names.collect::<Result<Vec<_>, _>>().map(|names| Test::Hosts(names.concat()))
        }
        "url_regex" => Ok(Test::Url(values)),
        "urlpath_regex" => Ok(Test::Path(values)),
        "port" => {
            texts().map(port).collect::<Option<Vec<_>>>().map(Test::Ports).ok_or("it names no ports".into())
        }
        "method" => Ok(Test::Methods(texts().map(str::to_ascii_uppercase).collect())),
        "proto" if texts().all(|text| text.eq_ignore_ascii_case("cache_object")) => Ok(Test::Manager),
        other => Err(format!("Shoal has no access rule by {other}")),
    }
}

/// Returns the names of a `dstdomain`: with a dot in front the domain and the names below it.
fn domain(text: &str) -> Vec<String> {
    match text.strip_prefix('.') {
        Some(name) => vec![name.to_ascii_lowercase(), format!("*.{}", name.to_ascii_lowercase())],
        None => vec![text.to_ascii_lowercase()],
    }
}

fn port(text: &str) -> Option<(u16, u16)> {
    let (from, to) = text.split_once('-').unwrap_or((text, text));
    let from = from.parse::<u16>().ok()?.max(1);
    let to = to.parse::<u16>().ok()?;
    (from <= to).then_some((from, to))
}
