//! Varnish: a VCL file with its includes.
//!
//! Varnish keeps answers without a lifetime for two minutes and heeds no reload of clients. It
//! passes requests with cookies or credentials by the cache, and serves stale answers for ten
//! seconds. The settings say so. VCL is a program; the converter knows the shapes that people
//! write, and reports every other statement.

use crate::document::{Document, Section, SiteSection};
use crate::ledger::{Ledger, LineId};
use crate::value::Value;
use crate::varnish_backend::{self, Backends};
use crate::varnish_condition::{AccessList, AccessLists};
use crate::varnish_syntax::{Act, Condition, Item, Step, parse};
use crate::{Error, Files, SourceText, networks, varnish_deliver, varnish_recv, varnish_response};
use std::collections::HashMap;

/// The converter's view of one VCL file.
pub struct Varnish<'a> {
    /// Fates.
    pub ledger: &'a mut Ledger,
    /// Settings so far.
    pub document: &'a mut Document,
    /// Access lists.
    pub lists: AccessLists,
    /// Backends and directors.
    pub backends: Backends,
    /// Subroutines by name, in the order of their parts.
    subs: HashMap<String, Vec<Step>>,
    /// Fields that select among answers.
    pub key_fields: Vec<(String, LineId)>,
    /// Blocks that were walked.
    blocks: usize,
    /// `true` if a subroutine calls others too deeply, or too often.
    is_cut: bool,
}

/// A step with the conditions around it.
pub struct StepInPlace {
    /// The step.
    pub step: Step,
    /// Conditions, all of which hold.
    pub conditions: Vec<Condition>,
    /// Statements of the conditions.
    pub lines: Vec<LineId>,
}

/// Converts a VCL file.
pub fn convert(
    file: SourceText,
    files: &dyn Files,
    ledger: &mut Ledger,
    document: &mut Document,
) -> Result<(), Error> {
    let items = parse(&file, files, ledger)?;
    let mut varnish = Varnish {
        ledger,
        document,
        lists: HashMap::new(),
        backends: Backends::default(),
        subs: HashMap::new(),
        key_fields: Vec::new(),
        blocks: 0,
        is_cut: false,
    };
    for item in &items {
        match item {
            Item::Acl(name, entries, line) => varnish.list(name, entries, *line),
            Item::Sub(name, steps) => {
                varnish.subs.entry(name.clone()).or_default().extend(steps.iter().cloned())
            }
            _ => {}
        }
    }
    varnish_backend::read(&items, &mut varnish);
    let init = varnish.steps("vcl_init");
    varnish_backend::directors(&init, &mut varnish);
    let Some(mut site) = varnish_backend::site(&mut varnish) else {
        return Err(Error::Nothing(format!("{}: it names no backend that Shoal could ask", file.name)));
    };
    defaults(&mut varnish);
    varnish_deliver::keys(&mut varnish);
    let base = varnish.document.rules.len();
    varnish.document.rules.push(base_rule());
    varnish_recv::read(&mut varnish, &mut site);
    varnish_response::read(&mut varnish);
    varnish_deliver::read(&mut varnish);
    let fields: Vec<(String, LineId)> = std::mem::take(&mut varnish.key_fields);
    for (field, line) in fields {
        varnish.document.rules[base].extend("key_fields", [field.into()], &[line]);
    }
    varnish.document.sites.insert(0, site);
    varnish.others();
    // A refusal may stand in the part that was not walked.
    match varnish.is_cut {
        true => Err(Error::Limit(format!("{}: its subroutines call each other too often", file.name))),
        false => Ok(()),
    }
}

/// Writes the behaviour of Varnish without any VCL.
fn defaults(varnish: &mut Varnish<'_>) {
    let document = &mut *varnish.document;
    let mut listen = Section::default().with("address", "127.0.0.1:6081").with("mode", "reverse");
    listen.note("VCL names no address: take that of varnishd -a.");
    document.listen.push(listen);
    let cache = document.table("cache");
    cache.note("Varnish guesses no lifetimes from Last-Modified.");
    cache.set("heuristic_fraction", Value::Fraction(0.0), &[]);
    cache.set("negative_ttl", "0 s", &[]);
    cache.set("stale_if_error", "10 s", &[]);
    cache.note("Varnish has no largest object; here it is a part of `cache.ram`.");
    cache.set("ram_object_max", "16 MiB", &[]);
    let store = document.table("store");
    store.note("VCL names no storage: varnishd -s malloc is `cache.ram`, -s file is a folder here.");
    store.set("directory", "none", &[]);
    let statuses = ["200", "203", "204", "300", "301", "404", "410", "414"];
    let mut rule = Section::default().with("statuses", Value::texts(statuses));
    rule.note("default_ttl and default_grace of varnishd.");
    rule.set("lifetime_default", "2 min", &[]);
    rule.set("stale_while_revalidate", "10 s", &[]);
    document.rules.push(rule);
    let statuses =
        ["201-202", "205", "207-299", "303", "305-306", "308-403", "405-409", "411-413", "415-599"];
    let mut rule = Section::default().with("statuses", Value::texts(statuses));
    rule.note("Varnish stores no other statuses.");
    rule.set("store", false, &[]);
    document.rules.push(rule);
}

/// Makes the rule for all requests.
fn base_rule() -> Section {
    let mut rule = Section::default();
    rule.note("Varnish does not heed no-cache of clients, and asks for gzip or nothing.");
    rule.set("ignore_client_no_cache", true, &[]);
    rule.set("accept_encoding", Value::texts(["gzip"]), &[]);
    rule
}

impl Varnish<'_> {
    fn list(&mut self, name: &str, entries: &[crate::varnish_lexer::Token], line: LineId) {
        let text: Vec<String> = entries.iter().map(|token| token.shown().replace('"', "")).collect();
        let (mut list, mut parts, mut is_usable) = (AccessList::default(), Vec::new(), true);
        for entry in text.join("").split(';').filter(|entry| !entry.is_empty()) {
            let is_exception = entry.starts_with('!');
            let entry = entry.trim_start_matches('!').trim_start_matches('(').trim_end_matches(')');
            let nets = if entry == "localhost" { Some(networks::loopback()) } else { networks::parse(entry) };
            match nets {
                Some(nets) => parts.extend(nets.into_iter().map(|net| (net, is_exception))),
                None if is_exception => is_usable = false,
                None => list.has_names = true,
            }
        }
        // The entry with the longest prefix decides in Varnish.
        if parts.iter().any(|(_, is_exception)| *is_exception) {
            parts.sort_by_key(|(net, is_exception)| (net.prefix_len(), *is_exception));
        }
        for (net, is_exception) in parts {
            match is_exception {
                false => list.networks.push(net),
                true => match networks::subtract(&list.networks, &[net]) {
                    Some(left) => list.networks = left,
                    None => is_usable = false,
                },
            }
        }
        if !is_usable {
            self.ledger.left_out(line, "an exception of the list is no network");
            return;
        }
        match list.has_names {
            false => self.ledger.carried(line),
            true => self.ledger.approximated(line, "names are not in the list"),
        }
        self.lists.insert(name.to_owned(), list);
    }

    /// Reads a refusal outside of `vcl_recv`, which rules cannot make alike. Returns `false` if the
    /// step is none, or answers errors of the backend.
    pub fn refuses(&mut self, placed: &StepInPlace) -> bool {
        let is_of_client = |arguments: &[crate::varnish_lexer::Token]| {
            let status = arguments.iter().find_map(|token| token.name()?.parse::<u16>().ok());
            status.is_none_or(|status| (400..500).contains(&status))
        };
        let is_refusal = match &placed.step.act {
            Act::Return(action, arguments) if action == "synth" || action == "error" => {
                is_of_client(arguments)
            }
            Act::Return(action, _) => action == "fail",
            Act::Invoke(name, arguments) => name == "error" && is_of_client(arguments),
            _ => false,
        };
        let is_of_answer = !placed.conditions.is_empty() && placed.conditions.iter().all(asks_answer);
        if !is_refusal || is_of_answer {
            return false;
        }
        placed.carried(self.ledger);
        let why = "rules refuse requests as they arrive, not at this step. All requests are refused";
        self.ledger.unsafe_line(placed.step.line, why);
        self.document.rules.push(Section::of(&placed.from()).with("deny", 403).guard());
        true
    }

    /// Returns the steps of a subroutine with those that it calls, each with its conditions.
    pub fn steps(&mut self, name: &str) -> Vec<StepInPlace> {
        let mut found = Vec::new();
        self.walk(name, &[], &[], 0, &mut found);
        found
    }

    fn walk(
        &mut self,
        name: &str,
        conditions: &[Condition],
        lines: &[LineId],
        depth: usize,
        found: &mut Vec<StepInPlace>,
    ) {
        let steps = self.subs.get(name).cloned().unwrap_or_default();
        self.block(&steps, (conditions, lines), depth, found);
    }

    fn block(
        &mut self,
        steps: &[Step],
        (conditions, lines): (&[Condition], &[LineId]),
        depth: usize,
        found: &mut Vec<StepInPlace>,
    ) {
        self.blocks += 1;
        if depth > CALLS_MAX || found.len() > STEPS_MAX || self.blocks > BLOCKS_MAX {
            self.is_cut = true;
        }
        if self.is_cut {
            return;
        }
        for step in steps {
            match &step.act {
                Act::Call(name) if self.subs.contains_key(name) => {
                    self.ledger.carried(step.line);
                    self.walk(name, conditions, lines, depth + 1, found);
                }
                Act::If(branches) => {
                    let mut before: Vec<Condition> = Vec::new();
                    for (condition, inner, line) in branches {
                        let mut all = conditions.to_vec();
                        all.extend(before.iter().map(|other| Condition::Not(Box::new(other.clone()))));
                        all.extend(condition.clone());
                        let lines: Vec<LineId> = lines.iter().copied().chain([*line]).collect();
                        self.block(inner, (&all, &lines), depth + 1, found);
                        before.extend(condition.clone());
                    }
                }
                _ => {
                    let (conditions, lines) = (conditions.to_vec(), lines.to_vec());
                    found.push(StepInPlace { step: step.clone(), conditions, lines });
                }
            }
        }
    }

    /// Decides about statements of subroutines that were not walked.
    fn others(&mut self) {
        for name in [
            "vcl_hit",
            "vcl_miss",
            "vcl_pass",
            "vcl_pipe",
            "vcl_purge",
            "vcl_fini",
            "vcl_synth",
            "vcl_error",
            "vcl_backend_fetch",
            "vcl_backend_error",
        ] {
            for placed in self.steps(name) {
                if name == "vcl_backend_fetch" && varnish_backend::host_of_all(self, &placed) {
                    continue;
                }
                if self.refuses(&placed) {
                    continue;
                }
                let is_end = matches!(placed.step.act, Act::Return(..));
                placed.lines.iter().for_each(|line| self.ledger.carried(*line));
                let is_redirect = placed.conditions.iter().any(|condition| {
                    matches!(condition, Condition::Test(test, "==", status) if test.ends_with("resp.status")
                        && status.parse::<u16>().is_ok_and(|status| status >= 700))
                });
                if is_redirect {
                    self.ledger.needless(placed.step.line, "a rule redirects");
                    continue;
                }
                match (is_end, name) {
                    (true, _) => self.ledger.needless(placed.step.line, "Shoal goes on by itself"),
                    (_, "vcl_synth" | "vcl_error" | "vcl_backend_error") => {
                        let why = "write the page into a file, and name it in `error_page` of a rule";
                        self.ledger.left_out(placed.step.line, why);
                    }
                    _ => self.ledger.left_out(placed.step.line, "rules have no such step"),
                }
            }
        }
    }
}

impl StepInPlace {
    /// Returns the statements of the step and its conditions.
    pub fn from(&self) -> Vec<LineId> {
        self.lines.iter().copied().chain([self.step.line]).collect()
    }

    /// Returns the conditions as one.
    pub fn condition(&self) -> Option<Condition> {
        match self.conditions.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(Condition::All(several.to_vec())),
        }
    }

    /// Notes that the step is carried over, and its conditions with it.
    pub fn carried(&self, ledger: &mut Ledger) {
        self.from().into_iter().for_each(|line| ledger.carried(line));
    }

    /// Notes that the step is left out, and its conditions with it.
    pub fn left_out(&self, ledger: &mut Ledger, why: &str) {
        self.lines.iter().for_each(|line| ledger.carried(*line));
        ledger.left_out(self.step.line, why);
    }
}

/// Makes the site that stands for all of VCL.
pub fn whole_site(upstreams: Value, from: &[LineId]) -> SiteSection {
    let mut section = Section::default().with("hosts", Value::texts(["*"]));
    section.set("upstreams", upstreams, from);
    SiteSection { section, rules: Vec::new() }
}

/// Returns `true` if a condition asks for something of an answer.
fn asks_answer(condition: &Condition) -> bool {
    match condition {
        Condition::Test(name, ..) => ["resp.", "beresp.", "obj."].iter().any(|of| name.starts_with(of)),
        Condition::Not(inner) => asks_answer(inner),
        Condition::All(list) => list.iter().any(asks_answer),
        Condition::Any(list) => !list.is_empty() && list.iter().all(asks_answer),
        Condition::Opaque(_) => false,
    }
}

/// Most blocks that are walked.
const BLOCKS_MAX: usize = 200_000;
/// Deepest calls of subroutines.
const CALLS_MAX: usize = 48;
/// Most steps of a subroutine with all that it calls.
const STEPS_MAX: usize = 20_000;
