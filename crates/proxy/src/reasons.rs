//! The page of reasons in docs/REASONS.md, printed from the lists in the code.

use shoal_semantics::status_fields::{ForwardReason, ProxyError, Reason};
use std::fmt::Write;

/// Returns the page in Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let details = Reason::ALL.iter().map(|it| (it.as_str(), it.meaning(), it.remedy()));
    table(&mut page, ("detail", DETAIL), details);
    let forwards = ForwardReason::ALL.iter().map(|it| (it.as_str(), it.meaning(), it.remedy()));
    table(&mut page, ("fwd", FORWARD), forwards);
    let errors = ProxyError::ALL.iter().map(|it| (it.as_str(), it.meaning(), it.remedy()));
    table(&mut page, ("error", ERROR), errors);
    page
}

fn table<'a>(
    page: &mut String,
    (parameter, about): (&str, &str),
    rows: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
) {
    let _ = writeln!(page, "\n{about}\n\n| `{parameter}` | meaning | remedy |\n|---|---|---|");
    for (token, meaning, remedy) in rows {
        let _ = writeln!(page, "| `{token}` | {meaning} | {remedy} |");
    }
}

const HEAD: &str = "\
# Reasons

<!-- Printed by `shoal config reasons`; edit crates/semantics/src/status_fields instead. -->

Each answer says in Cache-Status and Proxy-Status how it came about. The access log has the first of
them with `log.format = \"json\"`. `shoal explain URL` says the same before a request is made.
";

const DETAIL: &str = "\
## `detail` of Cache-Status

The reason why an answer was not stored, or was given without the origin. `coded-gzip`, `coded-br`
and `coded-zstd` give no reason: this node compressed the body
([compression](EDGE.md#compression-of-text)).";

const FORWARD: &str = "\
## `fwd` of Cache-Status

The reason why the origin was asked.";

const ERROR: &str = "\
## `error` of Proxy-Status

The failure of an origin, or a refusal. For a refusal `details` names the setting.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_those_of_the_page_in_docs() {
        assert!(
            super::page() == include_str!("../../../docs/REASONS.md"),
            "run: cargo run -p shoal -- config reasons > docs/REASONS.md"
        );
    }

    #[test]
    fn settings_of_reasons_stand_in_the_reference() {
        let reference = include_str!("../../../docs/CONFIG.md");
        let settings = Reason::ALL.iter().flat_map(|it| it.settings());
        for setting in settings.chain(ForwardReason::ALL.iter().flat_map(|it| it.settings())) {
            let (_, name) = setting.split_once('.').expect("a table and a name");
            assert!(reference.contains(&format!("\n| `{name}` |")), "{setting}");
        }
    }

    #[test]
    fn remedies_name_settings_that_exist() {
        let config = include_str!("../../../docs/CONFIG.md");
        let page = super::page();
        let quoted = page.split('`').skip(1).step_by(2);
        for setting in quoted.filter(|text| !text.contains(' ')) {
            let Some((section, name)) = setting.split_once('.') else { continue };
            let is_section =
                ["cache", "store", "forward", "upstream", "admin", "listen", "site"].contains(&section);
            assert!(!is_section || config.contains(&format!("`{name}`")), "{setting}");
        }
    }
}
