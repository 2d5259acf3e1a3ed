//! Actions of an nginx location: it asks an upstream, redirects, or does neither.

use crate::document::Section;
use crate::ledger::LineId;
use crate::nginx::Nginx;
use crate::nginx_access::PathTest;
use crate::nginx_location::Location;
use crate::nginx_server::Server;
use crate::nginx_syntax::Directive;
use crate::nginx_upstream::ServerGroup;
use crate::value::Value;

/// Action of a location.
pub enum Action {
    /// Asks an upstream.
    Ask(Target),
    /// Redirects to a text with variables of rules, with this status.
    Redirect(String, u16, LineId),
    /// Nothing that Shoal does; refusals are read apart.
    Nothing,
}

/// The upstream of a location.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// `http` or `https`.
    pub scheme: String,
    /// Servers.
    pub group: ServerGroup,
    /// Path that takes the place of the location's.
    pub path: Option<String>,
    /// The `proxy_pass`.
    pub line: LineId,
}

/// Reads the action of a location.
pub fn action(nginx: &mut Nginx<'_>, location: &Location<'_>) -> Action {
    for directive in location.own() {
        match directive.name.as_str() {
            "proxy_pass" => return target(nginx, directive).map_or(Action::Nothing, Action::Ask),
            "return" => return answer(nginx, directive),
            "rewrite" => {
                if let Some(action) = rewrite(nginx, directive, location) {
                    return action;
                }
            }
            _ => {}
        }
    }
    Action::Nothing
}

fn target(nginx: &mut Nginx<'_>, directive: &Directive) -> Option<Target> {
    let (line, text) = (directive.line, directive.word(0));
    let Some((scheme, rest)) = text.split_once("://") else {
        nginx.ledger.left_out(line, "it names no URL");
        return None;
    };
    if rest.contains('$') || rest.starts_with("unix:") || !["http", "https"].contains(&scheme) {
        nginx.ledger.left_out(line, "upstreams are hosts that stand in the settings, without variables");
        return None;
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
        None => (rest, None),
    };
    let group = nginx.groups.get(authority).cloned().unwrap_or_else(|| ServerGroup {
        servers: vec![(authority.to_owned(), 1)],
        ..ServerGroup::default()
    });
    if group.servers.is_empty() {
        nginx.ledger.left_out(line, "its upstream has no server that Shoal could ask");
        return None;
    }
    nginx.ledger.carried(line);
    Some(Target { scheme: scheme.to_owned(), group, path, line })
}

/// Writes the rules for fields of a location.
pub fn fields(nginx: &mut Nginx<'_>, location: &Location<'_>, test: &PathTest, rules: &mut Vec<Section>) {
    let mut request = test.section(&[]);
    let mut count = request.entries.len();
    for directive in location.in_force(&["proxy_set_header"]) {
        let (name, value, line) = (directive.word(0), directive.word(1), directive.line);
        let lower = name.to_ascii_lowercase();
        if lower == "host" {
            // The site has read it already, unless the location is a part of a site.
            if !test.section(&[]).entries.is_empty() {
                nginx.ledger.approximated(line, "these paths get the Host that the others of the site get");
            }
            continue;
        }
        if MADE_HERE.contains(&lower.as_str()) {
            nginx.ledger.needless(line, "Shoal makes this field itself");
        } else if value.is_empty() {
            nginx.ledger.carried(line);
            request.extend("request_remove", [name.into()], &[line]);
        } else {
            match template(value, location.block.line, nginx) {
                Some(value) => {
                    nginx.ledger.carried(line);
                    request.extend("request_set", [format!("{name}: {value}").into()], &[line]);
                }
                None => nginx.ledger.left_out(line, format!("rules have no variable for {value}")),
            }
        }
    }
    if request.entries.len() > count {
        rules.push(request);
    }
    let mut response = test.section(&[]);
    count = response.entries.len();
    for directive in location.in_force(&["proxy_hide_header"]) {
        if directive.word(0).eq_ignore_ascii_case("set-cookie") {
            nginx.ledger.approximated(directive.line, "the answer is then stored without the cookie");
            response.set("set_cookie", "strip", &[directive.line]);
        } else {
            nginx.ledger.carried(directive.line);
            response.extend("response_remove", [directive.word(0).into()], &[directive.line]);
        }
    }
    for directive in location.in_force(&["add_header"]) {
        add_header(nginx, directive, location.block.line, &mut response);
    }
    if response.entries.len() > count {
        rules.push(response);
    }
}

fn add_header(nginx: &mut Nginx<'_>, directive: &Directive, block: LineId, response: &mut Section) {
    let (name, value, line) = (directive.word(0), directive.word(1), directive.line);
    if value.contains("upstream_cache_status") {
        nginx.ledger.needless(line, "Cache-Status says it");
    } else if JUDGED.contains(&name.to_ascii_lowercase().as_str()) {
        let why = "Shoal judges answers after their fields are set; nginx changes only what clients see";
        nginx.ledger.left_out(line, why);
    } else if name.eq_ignore_ascii_case("alt-svc") {
        nginx.ledger.left_out(line, "Shoal announces HTTP/3 itself, where a listener has http3 = true");
    } else {
        match template(value, block, nginx).filter(|value| !value.contains("$client")) {
            Some(value) => {
                let is_always = directive.word(2) == "always";
                match is_always {
                    true => nginx.ledger.carried(line),
                    false => nginx.ledger.approximated(line, "errors get the field too"),
                }
                response.extend("response_add", [format!("{name}: {value}").into()], &[line]);
            }
            None => nginx.ledger.left_out(line, format!("rules have no variable for {value}")),
        }
    }
}

/// Reads `return` and `rewrite` of a server outside of its locations.
pub fn server_answers(nginx: &mut Nginx<'_>, own: &[Directive], server: &mut Server) {
    for directive in own {
        let action = match directive.name.as_str() {
            "return" => answer(nginx, directive),
            "rewrite" => match server_rewrite(directive) {
                Some((to, status)) => {
                    nginx.ledger.carried(directive.line);
                    Action::Redirect(to, status, directive.line)
                }
                None => {
                    nginx.ledger.left_out(directive.line, NO_REWRITE);
                    continue;
                }
            },
            _ => continue,
        };
        match action {
            Action::Redirect(to, status, line) => {
                server.rules.extend(crate::redirects::rules(Section::of(&[line]), &to, status));
            }
            _ if refusal(directive).is_some() => {
                nginx.ledger.carried(directive.line);
                let status = refusal(directive).unwrap_or(403);
                let rule = Section::of(&[directive.line]).with("deny", Value::Whole(status.into())).guard();
                server.rules.push(rule);
            }
            _ => {}
        }
    }
}

/// Returns the status of a `return` that refuses.
pub fn refusal(directive: &Directive) -> Option<u16> {
    if directive.name != "return" {
        return None;
    }
    match directive.word(0).parse::<u16>() {
        Ok(444) => Some(403),
        Ok(status) if (400..=599).contains(&status) => Some(status),
        _ => None,
    }
}

fn answer(nginx: &mut Nginx<'_>, directive: &Directive) -> Action {
    let line = directive.line;
    let (status, text) = match (directive.word(0).parse::<u16>(), directive.word(1)) {
        (Ok(status), text) => (status, text),
        (Err(_), _) => (302, directive.word(0)),
    };
    if [301, 302, 303, 307, 308].contains(&status) && !text.is_empty() {
        return match template(text, line, nginx) {
            Some(to) => {
                nginx.ledger.carried(line);
                Action::Redirect(absolute(&to), status, line)
            }
            None => {
                nginx.ledger.left_out(line, format!("rules have no variable for {text}"));
                Action::Nothing
            }
        };
    }
    if refusal(directive).is_none() {
        nginx.ledger.left_out(line, "rules refuse and redirect; they make no pages");
    }
    Action::Nothing
}

/// Reads a `rewrite` of a location; `None` if the location goes on.
fn rewrite(nginx: &mut Nginx<'_>, directive: &Directive, _location: &Location<'_>) -> Option<Action> {
    match server_rewrite(directive) {
        Some((to, status)) => {
            nginx.ledger.carried(directive.line);
            Some(Action::Redirect(to, status, directive.line))
        }
        None => {
            nginx.ledger.left_out(directive.line, NO_REWRITE);
            None
        }
    }
}

/// Reads a `rewrite` of every path to a URL.
fn server_rewrite(directive: &Directive) -> Option<(String, u16)> {
    let (pattern, to, flag) = (directive.word(0), directive.word(1), directive.word(2));
    let status = match flag {
        "permanent" => 301,
        "redirect" => 302,
        _ if to.starts_with("http") => 302,
        _ => return None,
    };
    let is_all = ["^", "^/", "^(.*)$", "^(.*)", "^/(.*)$", "^/(.*)", "^.*$", ".*"].contains(&pattern);
    let rest = to.replace("/$1", "$1").replace("$1", "$request_uri").replace("$request_uri?", "$request_uri");
    (is_all && to.contains("://")).then(|| variables(&rest).map(|to| (to, status)))?
}

/// Returns a text with the variables of rules; `None` if one has no equal.
fn template(text: &str, _line: LineId, _nginx: &Nginx<'_>) -> Option<String> {
    variables(text)
}

/// Translates variables of nginx into those of rules.
pub fn variables(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = rest[at + 1..].trim_start_matches('{');
        let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        let (name, mut tail) = after.split_at(end);
        if rest[at + 1..].starts_with('{') {
            tail = tail.strip_prefix('}')?;
        }
        out.push_str(match name {
            "host" | "http_host" | "server_name" => "$host",
            "scheme" => "$scheme",
            "request_uri" => "$path?$query",
            "uri" | "document_uri" => "$path",
            "args" | "query_string" => "$query",
            "is_args" => "?",
            "remote_addr" | "realip_remote_addr" => "$client",
            "ssl_client_s_dn" => "$client_certificate",
            _ => return None,
        });
        // A letter right behind would belong to the name of the variable.
        if tail.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return None;
        }
        rest = tail;
    }
    out.push_str(rest);
    (!out.chars().any(char::is_control)).then_some(out)
}

fn absolute(to: &str) -> String {
    if to.starts_with('/') { format!("$scheme://$host{to}") } else { to.to_owned() }
}

/// Fields that Shoal makes itself.
const MADE_HERE: [&str; 11] = [
    "connection",
    "upgrade",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "forwarded",
    "content-length",
    "transfer-encoding",
    "range",
    "if-range",
    "te",
];
/// Fields by which answers are judged.
const JUDGED: [&str; 8] = [
    "cache-control",
    "expires",
    "pragma",
    "vary",
    "set-cookie",
    "surrogate-control",
    "cdn-cache-control",
    "last-modified",
];
const NO_REWRITE: &str =
    "rules change paths by prefix alone (upstream_strip, upstream_add) and redirect to whole URLs";
