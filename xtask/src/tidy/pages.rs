//! Pages that hang together: every link between pages leads somewhere, and every page can be
//! reached.

use crate::finding::Finding;
use crate::workspace::TextFile;
use std::collections::{HashMap, HashSet};

/// Where a reader begins.
const START: &str = "README.md";

/// Follows every link of every page.
pub fn check(files: &[TextFile]) -> Vec<Finding> {
    let known: HashMap<&str, &TextFile> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut findings = Vec::new();
    let mut leads_to: HashMap<&str, Vec<String>> = HashMap::new();
    for page in files.iter().filter(|file| file.extension() == "md") {
        for (line, target) in links(&page.text) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { page.path.clone() } else { resolve(&page.path, path) };
            let folder = format!("{path}/");
            match known.get(path.as_str()) {
                Some(there)
                    if !anchor.is_empty()
                        && there.extension() == "md"
                        && !has_heading(&there.text, anchor) =>
                {
                    findings.push(Finding::new(
                        &page.path,
                        line,
                        "dead link",
                        format!("{path} has no heading for #{anchor}"),
                    ));
                }
                Some(_) => leads_to.entry(&page.path).or_default().push(path),
                None if path.is_empty() || files.iter().any(|file| file.path.starts_with(&folder)) => {}
                None => {
                    findings.push(Finding::new(&page.path, line, "dead link", format!("there is no {path}")))
                }
            }
        }
    }
    findings.extend(unreached(files, &leads_to));
    findings
}

/// Pages of `docs/` that no chain of links from the start leads to.
fn unreached(files: &[TextFile], leads_to: &HashMap<&str, Vec<String>>) -> Vec<Finding> {
    let mut reached: HashSet<&str> = HashSet::new();
    let mut open = vec![START];
    while let Some(page) = open.pop() {
        if reached.insert(page) {
            open.extend(leads_to.get(page).into_iter().flatten().map(String::as_str));
        }
    }
    let pages = files.iter().filter(|file| file.path.starts_with("docs/") && file.extension() == "md");
    let lost = pages.filter(|page| !reached.contains(page.path.as_str()));
    let message = "no chain of links from README.md leads here; link it where a reader would look";
    lost.map(|page| Finding::new(&page.path, 0, "lost page", message)).collect()
}

/// The local targets of a page's links and pictures, with their line from 1; code is not looked
/// into.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let outside_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in outside_code.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((at + 1, target.to_string()));
            }
        }
    }
    found
}

/// The path that `target` names from the folder of `page`.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// Whether a heading of the page has this anchor, made as the usual renderers make it.
fn has_heading(text: &str, anchor: &str) -> bool {
    let headings =
        text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    headings.into_iter().any(|heading| slug(heading) == anchor)
}

fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(pages: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<TextFile> = pages
            .iter()
            .map(|(path, text)| TextFile { path: path.to_string(), text: text.to_string() })
            .collect();
        check(&files).into_iter().map(|finding| format!("{} {}", finding.rule, finding.path)).collect()
    }

    #[test]
    fn good_links_pass() {
        let readme = "[a](docs/A.md#the-2-doors) ![p](docs/p.svg) [x](https://example.org) [c](crates) [me](#top)\n# Top\n```\n[no](where)\n```\n`[no](where)`";
        let a = "# The 2 doors\n[back](../README.md) [b](deep/B.md)";
        let pages = [
            ("README.md", readme),
            ("docs/A.md", a),
            ("docs/deep/B.md", "[p](../p.svg)"),
            ("docs/p.svg", ""),
            ("crates/x.rs", ""),
        ];
        assert_eq!(rules(&pages), Vec::<String>::new());
    }

    #[test]
    fn dead_links_and_lost_pages_are_found() {
        assert_eq!(rules(&[("README.md", "[a](docs/A.md)")]), ["dead link README.md"]);
        assert_eq!(rules(&[("README.md", "[a](#there)\n# Here")]), ["dead link README.md"]);
        assert_eq!(rules(&[("README.md", ""), ("docs/A.md", "")]), ["lost page docs/A.md"]);
        let circle = [("README.md", ""), ("docs/A.md", "[b](B.md)"), ("docs/B.md", "[a](A.md)")];
        assert_eq!(rules(&circle), ["lost page docs/A.md", "lost page docs/B.md"]);
    }
}
