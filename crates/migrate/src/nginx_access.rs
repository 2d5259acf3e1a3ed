//! Access in nginx: `allow`, `deny`, passwords, methods and refusals of locations.
//!
//! Access rules ask for paths in normal form and hold for every site of the server. A site is
//! chosen by the path as the client spells it.

use crate::document::Section;
use crate::expressions;
use crate::ledger::LineId;
use crate::networks;
use crate::nginx::Nginx;
use crate::nginx_certificates;
use crate::nginx_if::conditions;
use crate::nginx_location::{Choice, Location, in_force, weakest_first};
use crate::nginx_proxy::refusal;
use crate::nginx_server::Server;
use crate::nginx_syntax::Directive;
use crate::users;
use crate::value::Value;
use ipnet::IpNet;

/// Conditions on the path that stand for the choice of a location.
#[derive(Clone, Debug, Default)]
pub struct PathTest {
    paths: Vec<String>,
    regex: Option<String>,
    /// `true` if the test is only nearly that of the location.
    pub is_near: bool,
}

impl PathTest {
    /// Reads the choice of a location.
    ///
    /// # Errors
    /// The reason why no rule can compare it.
    pub fn of(choice: &Choice) -> Result<Self, String> {
        Ok(match choice {
            Choice::Exact(path) => Self { paths: vec![path.clone()], ..Self::default() },
            Choice::Prefix(path, _) if path == "/" => Self::default(),
            Choice::Prefix(path, _) => Self { paths: vec![format!("{path}*")], ..Self::default() },
            Choice::Expression(text, ignores_case) => {
                let shape = expressions::path(text, *ignores_case, false)?;
                Self { regex: shape.path, is_near: shape.is_near, ..Self::default() }
            }
            Choice::Name(name) => return Err(format!("no request asks for {name} itself")),
        })
    }

    /// Makes a rule with this condition.
    pub fn section(&self, from: &[LineId]) -> Section {
        let mut section = Section::of(from);
        if !self.paths.is_empty() {
            section.set("paths", Value::texts(self.paths.iter().cloned()), &[]);
        }
        if let Some(regex) = &self.regex {
            section.set("path_regex", regex.as_str(), &[]);
        }
        section
    }
}

/// Access to a location.
struct Access {
    nets: Vec<IpNet>,
    methods: Option<Vec<String>>,
    refuse: Option<u16>,
    users: Option<UserCheck>,
    /// `true` if a rule of the server wants certificates, so that nothing else may suffice.
    is_strict: bool,
    lines: Vec<LineId>,
}

/// UserCheck that are asked for.
#[derive(Clone, PartialEq)]
struct UserCheck {
    file: String,
    realm: String,
    /// `true` if networks or a user suffice.
    is_any: bool,
    /// `true` if the origin gets the Authorization field.
    is_forwarded: bool,
}

impl Access {
    fn open() -> Self {
        let nets = networks::everyone();
        Self { nets, methods: None, refuse: None, users: None, is_strict: false, lines: Vec::new() }
    }

    /// Writes the rule of networks and users; `has_users` says that a rule before asks for users.
    fn written(&self, rule: Section, has_users: bool) -> Section {
        let mut rule = allow(rule, &self.nets);
        if let Some(users) = &self.users {
            debug_assert!(!users.is_any || !networks::is_everyone(&self.nets), "a password is wanted");
            rule.set("users_file", users.file.as_str(), &[]);
            rule.set("realm", users.realm.as_str(), &[]);
            rule.set("satisfy", if users.is_any && !self.is_strict { "any" } else { "all" }, &[]);
            rule.set("forward_authorization", users.is_forwarded, &[]);
        } else if has_users && !self.is_strict && networks::is_everyone(&self.nets) {
            // Every client has an allowed address, so that none needs a password.
            rule.set("satisfy", "any", &[]);
        } else if has_users {
            rule.set("satisfy", "all", &[]);
        }
        rule
    }

    fn is_open(&self) -> bool {
        self.refuse.is_none()
            && self.methods.is_none()
            && self.users.is_none()
            && networks::is_everyone(&self.nets)
    }
}

/// Adds the access rules of a server.
pub fn guards(nginx: &mut Nginx<'_>, levels: &[&[Directive]], all: &[Location<'_>], server: &mut Server) {
    let own = levels.last().copied().unwrap_or_default();
    let sorted: Vec<&Location<'_>> = weakest_first(all)
        .into_iter()
        .filter(|location| !matches!(location.choice, Choice::Name(_)))
        .collect();
    let is_strict = nginx_certificates::is_wanted(levels, all);
    let found: Vec<Access> = sorted
        .iter()
        .map(|location| match named_check(location, all) {
            Some(line) => {
                nginx.ledger.unsafe_line(line, "try_files leads behind it; these paths refuse all clients");
                Access { nets: Vec::new(), lines: vec![line], ..Access::open() }
            }
            None => Access { is_strict, ..access(nginx, location) },
        })
        .collect();
    let is_same = found.windows(2).all(|pair| {
        pair.iter().all(|one| one.refuse.is_none() && one.methods.is_none())
            && pair[0].nets == pair[1].nets
            && pair[0].users == pair[1].users
    });
    if is_same && found.len() > 1 && found.iter().all(|one| one.refuse.is_none() && one.methods.is_none()) {
        if !found[0].is_open() {
            server.rules.push(found[0].written(Section::of(&found[0].lines), false));
        }
    } else if found.iter().any(|one| !one.is_open()) {
        let is_open: Vec<bool> = found.iter().map(|one| one.refuse.is_none()).collect();
        for (at, (location, one)) in sorted.iter().zip(&found).enumerate() {
            let mut below = sorted[..at].iter().zip(&found);
            let has_users = below.any(|(other, access)| {
                access.users.is_some() && may_overlap(&other.choice, &location.choice)
            });
            let is_weakened = sorted[..at]
                .iter()
                .zip(&found)
                .any(|(other, access)| !access.is_open() && may_overlap(&other.choice, &location.choice));
            if one.is_open() && !is_weakened {
                continue;
            }
            let overlaps = sorted
                .iter()
                .zip(&is_open)
                .skip(at + 1)
                .any(|(other, is_open)| *is_open && may_overlap(&location.choice, &other.choice));
            location_guard(nginx, location, one, (overlaps, has_users), server);
        }
    }
    conditions(nginx, own, &PathTest::default(), server);
    for location in sorted {
        let test = PathTest::of(&location.choice).unwrap_or_default();
        conditions(nginx, location.own(), &test, server);
    }
    nginx_certificates::guard(nginx, levels, &mut server.rules);
}

/// Returns a check of access in the named location that `try_files` leads to.
fn named_check(location: &Location<'_>, all: &[Location<'_>]) -> Option<LineId> {
    let (named, _) = location.behind_try_files(all)?;
    let checks = ["allow", "deny", "auth_basic", "auth_request", "auth_jwt", "limit_except", "if", "return"];
    named
        .own()
        .iter()
        .find(|directive| checks.contains(&directive.name.as_str()))
        .map(|directive| directive.line)
}

fn allow(mut rule: Section, nets: &[IpNet]) -> Section {
    rule.set("allow_clients", Value::texts(nets.iter().map(|net| net.to_string())), &[]);
    rule.guard()
}

/// Makes a rule that lets nobody in; `has_users` says that a rule before lets users in.
fn closed(rule: Section, has_users: bool) -> Section {
    let rule = allow(rule, &[]);
    if has_users { rule.with("satisfy", "all") } else { rule }
}

/// Returns `true` if a path of `strong` may belong to `weak` too.
fn may_overlap(weak: &Choice, strong: &Choice) -> bool {
    match (weak, strong) {
        (Choice::Prefix(weak, _), Choice::Prefix(strong, _) | Choice::Exact(strong)) => {
            strong.starts_with(weak)
        }
        (Choice::Exact(_), _) => false,
        _ => true,
    }
}

fn location_guard(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    access: &Access,
    (overlaps, has_users): (bool, bool),
    server: &mut Server,
) {
    let lines: Vec<LineId> = [location.block.line].into_iter().chain(access.lines.iter().copied()).collect();
    let test = match PathTest::of(&location.choice) {
        Ok(test) => test,
        Err(_) if access.is_open() => return,
        Err(why) => {
            nginx.ledger.unsafe_line(location.block.line, format!("{why}; the server refuses all"));
            PathTest::default()
        }
    };
    if let Some(status) = access.refuse {
        let rule = test.section(&lines);
        server.rules.push(match overlaps {
            true => closed(rule, has_users),
            false => rule.with("deny", Value::Whole(status.into())).guard(),
        });
        return;
    }
    match &access.methods {
        Some(methods) => {
            server.rules.push(closed(test.section(&lines), has_users));
            let rule = test.section(&[]).with("methods", Value::texts(methods.iter().cloned()));
            server.rules.push(access.written(rule, has_users));
        }
        None => {
            let is_narrower = has_users && access.users.is_none() && !networks::is_everyone(&access.nets);
            if is_narrower {
                let why = "a path above asks for a password, and so do these paths here";
                nginx.ledger.approximated(location.block.line, why);
            }
            server.rules.push(access.written(test.section(&lines), has_users));
        }
    }
}

/// Reads the access to a location.
fn access(nginx: &mut Nginx<'_>, location: &Location<'_>) -> Access {
    let mut found = Access::open();
    networks_in_force(nginx, &location.levels, &mut found);
    for directive in location.own() {
        let line = directive.line;
        if let Some(status) = refusal(directive) {
            nginx.ledger.carried(line);
            found.refuse = Some(status);
            found.lines.push(line);
        } else if directive.name == "internal" {
            nginx.ledger.carried(line);
            found.refuse = Some(404);
            found.lines.push(line);
        } else if OTHER_PROTOCOLS.contains(&directive.name.as_str()) {
            nginx.ledger.left_out(line, "Shoal asks origins by HTTP alone; these paths are refused");
            found.refuse = Some(404);
            found.lines.push(line);
        } else if directive.name == "limit_except" {
            limit_except(nginx, directive, &mut found);
        }
    }
    passwords(nginx, location, &mut found);
    found
}

/// Computes the allowed networks: the first line that names a client decides, else all are allowed.
fn networks_in_force(nginx: &mut Nginx<'_>, levels: &[&[Directive]], found: &mut Access) {
    let list = in_force(levels, &["allow", "deny"]);
    if list.is_empty() {
        return;
    }
    let (mut allowed, mut denied): (Vec<IpNet>, Vec<IpNet>) = (Vec::new(), Vec::new());
    let rest =
        Directive { name: "allow".into(), words: vec!["all".into()], block: Vec::new(), line: list[0].line };
    for directive in list.iter().copied().chain([&rest]) {
        let line = directive.line;
        if !found.lines.contains(&line) {
            found.lines.push(line);
        }
        let nets = networks::parse(directive.word(0));
        match (directive.name.as_str(), nets) {
            ("deny", Some(nets)) => {
                nginx.ledger.carried(line);
                denied.extend(nets);
            }
            ("allow", Some(nets)) => match networks::subtract(&nets, &denied) {
                Some(nets) => {
                    nginx.ledger.carried(line);
                    allowed.extend(nets);
                }
                None => nginx.ledger.left_out(line, "its networks are too many"),
            },
            ("allow", None) => nginx.ledger.left_out(line, "it names no network"),
            _ => {
                nginx.ledger.unsafe_line(line, "it names no network; no further client is allowed");
                denied.extend(networks::everyone());
            }
        }
    }
    found.nets = IpNet::aggregate(&allowed);
}

/// Asks for users, or closes a location behind a password or another check that Shoal cannot make.
fn passwords(nginx: &mut Nginx<'_>, location: &Location<'_>, found: &mut Access) {
    let satisfy = location.last("satisfy");
    let is_any = satisfy.is_some_and(|directive| directive.word(0) == "any");
    satisfy.iter().for_each(|directive| nginx.ledger.carried(directive.line));
    let others: Vec<&Directive> = ["auth_request", "auth_jwt"]
        .iter()
        .filter_map(|name| location.last(name))
        .filter(|directive| directive.word(0) != "off")
        .collect();
    if let Some(off) = location.last("auth_basic").filter(|directive| directive.word(0) == "off") {
        nginx.ledger.carried(off.line);
    }
    let basic = location.last("auth_basic").filter(|directive| directive.word(0) != "off");
    let file = location.last("auth_basic_user_file");
    if let Some(basic) = basic {
        let known = match file {
            Some(file) => users::check(nginx.files, file.word(0)).map(|()| file),
            None => Err("it names no file of users"),
        };
        found.lines.push(basic.line);
        match known {
            Ok(file) => {
                nginx.ledger.carried(file.line);
                found.lines.push(file.line);
                found.users = Some(users_of(nginx, location, (basic, file), (is_any, &found.nets)));
            }
            Err(why) => {
                close(nginx, basic, (why, is_any), found);
                file.iter().for_each(|file| nginx.ledger.left_out(file.line, why));
            }
        }
    }
    for directive in others {
        found.lines.push(directive.line);
        // A password would suffice with `satisfy any`; it is not enough where all are wanted.
        match is_any && found.users.is_some() {
            true => nginx.ledger.unsafe_line(directive.line, "only networks and passwords let clients in"),
            false => close(nginx, directive, ("Shoal asks no such server", is_any), found),
        }
    }
}

/// Closes a location to clients that only a check could let in.
fn close(nginx: &mut Nginx<'_>, directive: &Directive, (why, is_any): (&str, bool), found: &mut Access) {
    let has_nets = is_any && !networks::is_everyone(&found.nets);
    let then = match has_nets {
        true => "only the allowed networks get in",
        false => "these paths refuse all clients",
    };
    nginx.ledger.unsafe_line(directive.line, format!("{why}; {then}"));
    if !has_nets {
        found.nets = Vec::new();
        found.users = None;
    }
}

fn users_of(
    nginx: &mut Nginx<'_>,
    location: &Location<'_>,
    (basic, file): (&Directive, &Directive),
    (is_any, nets): (bool, &[IpNet]),
) -> UserCheck {
    let is_cached = location.last("proxy_cache").is_some_and(|cache| cache.word(0) != "off");
    let removes = |one: &&Directive| one.word(0).eq_ignore_ascii_case("authorization");
    let is_removed = location.in_force(&["proxy_set_header"]).iter().any(removes);
    match is_cached && !is_removed {
        true => nginx.ledger.approximated(
            basic.line,
            "the origin does not get the Authorization field, so that all users share what is stored",
        ),
        false => nginx.ledger.carried(basic.line),
    }
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic();
    let realm = Some(basic.word(0)).filter(|realm| realm.chars().all(is_plain) && !realm.contains('$'));
    UserCheck {
        file: file.word(0).to_owned(),
        realm: realm.unwrap_or("shoal").to_owned(),
        // Without networks of its own, nginx wants the password.
        is_any: is_any && !networks::is_everyone(nets),
        is_forwarded: !is_cached && !is_removed,
    }
}

fn limit_except(nginx: &mut Nginx<'_>, directive: &Directive, found: &mut Access) {
    let line = directive.line;
    let is_closed = directive.block.iter().any(|inner| inner.name == "deny" && inner.word(0) == "all")
        && directive.block.iter().all(|inner| inner.name == "deny");
    let mut methods = directive.words.clone();
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        methods.push("HEAD".into());
    }
    match is_closed {
        true => nginx.ledger.carried(line),
        false => nginx.ledger.unsafe_line(line, "the other methods are refused to all clients"),
    }
    for inner in &directive.block {
        nginx.ledger.carried(inner.line);
    }
    found.methods = Some(methods);
    found.lines.push(line);
}

/// Directives that ask an application without HTTP.
const OTHER_PROTOCOLS: [&str; 5] = ["fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass"];
