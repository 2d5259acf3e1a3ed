//! Pages of nginx for errors: `error_page` with a file that a location serves.

use crate::document::Section;
use crate::nginx::Nginx;
use crate::nginx_access::PathTest;
use crate::nginx_location::{Choice, Location, in_force};
use crate::nginx_syntax::Directive;
use crate::value::Value;

/// Makes a rule for each `error_page` that stands at the innermost of `levels`.
pub fn pages(
    nginx: &mut Nginx<'_>,
    levels: &[&[Directive]],
    all: &[Location<'_>],
    test: &PathTest,
) -> Vec<Section> {
    let own = levels.last().copied().unwrap_or_default();
    let intercepts =
        in_force(levels, &["proxy_intercept_errors"]).last().is_some_and(|one| one.word(0) == "on");
    let mut rules = Vec::new();
    for directive in own.iter().filter(|directive| directive.name == "error_page") {
        let line = directive.line;
        let file = match page(nginx, directive, levels, all) {
            Ok(file) => file,
            Err(why) => {
                nginx.ledger.left_out(line, why);
                continue;
            }
        };
        nginx.ledger.carried(line);
        let statuses: Vec<&String> =
            directive.words.iter().filter(|word| word.parse::<u16>().is_ok_and(|it| it >= 400)).collect();
        let mut rule = test.section(&[line]);
        rule.set("statuses", Value::texts(statuses), &[]);
        rule.set("error_page", file, &[]);
        if intercepts {
            rule.set("error_page_origin", true, &[]);
        }
        rules.push(rule);
    }
    rules
}

/// Returns the file of a page.
fn page(
    nginx: &Nginx<'_>,
    directive: &Directive,
    levels: &[&[Directive]],
    all: &[Location<'_>],
) -> Result<String, &'static str> {
    let words = &directive.words;
    let uri = words.last().filter(|uri| uri.starts_with('/')).ok_or(NO_FILE)?;
    if words.iter().any(|word| word.starts_with('=')) {
        return Err("the status of an error stays here");
    }
    if uri.contains(['$', '?']) || uri.contains("..") || words.len() < 2 {
        return Err(NO_FILE);
    }
    // The location that serves the page: an exact one, or the one with the longest prefix.
    let fit = |location: &&Location<'_>| match &location.choice {
        Choice::Exact(path) => path == uri,
        Choice::Prefix(path, _) => uri.starts_with(path.as_str()),
        _ => false,
    };
    let length = |location: &&Location<'_>| match &location.choice {
        Choice::Exact(_) => usize::MAX,
        Choice::Prefix(path, _) => path.len(),
        _ => 0,
    };
    let location = all.iter().filter(fit).max_by_key(length);
    let asks = |location: &Location<'_>| location.own().iter().any(|one| one.name.ends_with("_pass"));
    if location.is_some_and(asks) {
        return Err("the page is asked from an origin, and pages are files here");
    }
    let levels = location.map_or(levels, |location| &location.levels);
    let alias = location.and_then(|location| {
        let prefix = match &location.choice {
            Choice::Prefix(path, _) | Choice::Exact(path) => path,
            _ => return None,
        };
        let alias = location.own().iter().find(|one| one.name == "alias")?.word(0).to_owned();
        Some(format!("{alias}{}", &uri[prefix.len()..]))
    });
    let root = in_force(levels, &["root"]).last().map(|root| root.word(0).trim_end_matches('/').to_owned());
    let file = alias.or(root.map(|root| format!("{root}{uri}"))).ok_or(NO_FILE)?;
    if file.contains('$') || !file.starts_with('/') {
        return Err(NO_FILE);
    }
    match nginx.files.is_readable(&file) && is_small(nginx, &file) {
        true => Ok(file),
        false => Err("its page cannot be read here, or is larger than 1 MiB"),
    }
}

/// Returns `true` if a page is as small as pages have to be.
fn is_small(nginx: &Nginx<'_>, file: &str) -> bool {
    let found = nginx.files.read(file).unwrap_or_default();
    found.iter().all(|file| file.text.len() <= 1 << 20)
}

const NO_FILE: &str = "pages for errors are files whose names stand in the settings (error_page)";
