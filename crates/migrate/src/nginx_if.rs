//! Conditions of `if` in nginx, with refusals, redirects and certificates.

use crate::document::Section;
use crate::ledger::LineId;
use crate::nginx::Nginx;
use crate::nginx_access::PathTest;
use crate::nginx_certificates;
use crate::nginx_condition::{RequestTest, condition};
use crate::nginx_proxy::{refusal, variables};
use crate::nginx_server::Server;
use crate::nginx_syntax::Directive;
use crate::redirects;

/// Adds rules for the `if` blocks of a level.
pub fn conditions(nginx: &mut Nginx<'_>, own: &[Directive], test: &PathTest, server: &mut Server) {
    for block in own.iter().filter(|directive| directive.name == "if") {
        let line = block.line;
        let condition = condition(&block.words);
        if nginx_certificates::asks_certificate(&block.words) {
            certificate_if(nginx, block, test, server);
            continue;
        }
        let sets_only = !block.block.is_empty() && block.block.iter().all(|inner| inner.name == "set");
        if sets_only {
            nginx.ledger.carried(line);
        }
        for inner in &block.block {
            if let Some(status) = refusal(inner) {
                refuse_if(nginx, (block, inner), &condition, (test, status), server);
            } else if inner.name == "return" || inner.name == "rewrite" {
                redirect_if(nginx, (block, inner), &condition, test, server);
            } else if inner.name != "set" {
                nginx.ledger.left_out(inner.line, "rules have no such step");
                nginx.ledger.left_out(line, "rules have no such step");
            }
        }
    }
}

/// Reads `if ($ssl_client_verify != SUCCESS)` with a refusal.
fn certificate_if(nginx: &mut Nginx<'_>, block: &Directive, test: &PathTest, server: &mut Server) {
    let refuses = block.block.iter().any(|inner| refusal(inner).is_some());
    let from: Vec<LineId> = [block.line].into_iter().chain(block.block.iter().map(|one| one.line)).collect();
    match (refuses, nginx.authority.clone()) {
        (true, Ok(Some(_))) => {
            from.iter().for_each(|line| nginx.ledger.carried(*line));
            nginx.ledger.approximated(block.line, nginx_certificates::NEEDS_NAME);
            server.rules.push(nginx_certificates::with_certificate(test.section(&from)));
        }
        (true, other) => {
            let why = other.err().unwrap_or("no server asks for certificates");
            nginx.ledger.unsafe_line(block.line, format!("{why}; all clients are refused there"));
            server.rules.push(test.section(&from).with("deny", 403).guard());
        }
        (false, _) => from.iter().for_each(|line| nginx.ledger.left_out(*line, "rules have no such step")),
    }
}

fn refuse_if(
    nginx: &mut Nginx<'_>,
    (block, inner): (&Directive, &Directive),
    condition: &Result<RequestTest, String>,
    (test, status): (&PathTest, u16),
    server: &mut Server,
) {
    let from = [block.line, inner.line];
    nginx.ledger.carried(inner.line);
    match condition {
        Ok(found) => {
            nginx.ledger.carried(block.line);
            if found.is_near {
                nginx.ledger.unsafe_line(block.line, "the rule refuses only spellings that it lists");
            }
            for section in &found.sections {
                let mut rule = with_test(section, test);
                rule.from = from.to_vec();
                rule.set("deny", u64::from(status), &[]);
                server.rules.push(rule.guard());
            }
        }
        Err(why) if block.words.iter().any(|word| CLIENT_CHOSEN.iter().any(|name| word.contains(name))) => {
            nginx
                .ledger
                .unsafe_line(block.line, format!("{why}. It is not refused: clients choose this field"));
        }
        Err(why) => {
            nginx.ledger.unsafe_line(block.line, format!("{why}; all requests are refused there"));
            let mut rule = test.section(&from);
            rule.set("deny", 403, &[]);
            server.rules.push(rule.guard());
        }
    }
}

fn redirect_if(
    nginx: &mut Nginx<'_>,
    (block, inner): (&Directive, &Directive),
    condition: &Result<RequestTest, String>,
    test: &PathTest,
    server: &mut Server,
) {
    let (status, text) = match (inner.name.as_str(), inner.word(0).parse::<u16>()) {
        ("return", Ok(status)) => (status, inner.word(1).to_owned()),
        ("return", Err(_)) => (302, inner.word(0).to_owned()),
        _ => {
            let to = inner.word(1).replace("/$1", "$1").replace("$1", "$request_uri");
            (
                if inner.word(2) == "permanent" { 301 } else { 302 },
                to.replace("$request_uri?", "$request_uri"),
            )
        }
    };
    let to = variables(&text).filter(|to| to.contains("://") && (301..=308).contains(&status));
    let speaks_of_scheme = block.words.iter().any(|word| {
        word.contains("$scheme")
            || word.contains("x_forwarded_proto")
            || word.contains("$server_port")
            || word.contains("$https")
    });
    // A redirect to the URL itself is left out, so that https is not redirected to https.
    let is_upgrade = to.as_ref().is_some_and(|to| to.starts_with("https://$host$path"));
    let sections = match (condition, speaks_of_scheme && is_upgrade) {
        (_, true) => vec![Section::default()],
        (Ok(found), false) if !found.is_near && !found.is_wide => found.sections.clone(),
        _ => Vec::new(),
    };
    let Some(to) = to.filter(|_| !sections.is_empty()) else {
        let why = "rules have no such condition or target";
        nginx.ledger.left_out(block.line, why);
        nginx.ledger.left_out(inner.line, why);
        return;
    };
    nginx.ledger.carried(block.line);
    nginx.ledger.carried(inner.line);
    for section in sections {
        let mut rule = with_test(&section, test);
        rule.from = vec![block.line, inner.line];
        server.rules.extend(redirects::rules(rule, &to, status));
    }
}

/// Joins a condition with that of the location, unless both ask for the path.
fn with_test(section: &Section, test: &PathTest) -> Section {
    let mut rule = section.clone();
    for entry in test.section(&[]).entries {
        if rule.get(entry.key).is_none() {
            rule.entries.push(entry);
        }
    }
    rule
}

/// Fields that clients choose freely, so that a refusal by them protects nothing.
const CLIENT_CHOSEN: [&str; 3] = ["$http_user_agent", "$http_referer", "$invalid_referer"];
