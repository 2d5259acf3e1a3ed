//! The part of an explanation about access, rates and pages for errors, as text.

use super::render::row;
use shoal_proxy::admin::{ErrorPageView, Explanation, RateView};

/// Writes the guards that the client meets, the rates that the request counts for, and the pages
/// that stand in for errors.
pub(super) fn write(page: &mut String, explanation: &Explanation) {
    let is_empty =
        explanation.guards.is_empty() && explanation.rates.is_empty() && explanation.error_pages.is_empty();
    if is_empty {
        return;
    }
    page.push_str("\nAccess and limits\n");
    for guard in &explanation.guards {
        row(page, "wants", &format!("{} = {}", guard.setting, guard.value));
    }
    for rate in &explanation.rates {
        row(page, "rate", &rate_text(rate));
    }
    for error in &explanation.error_pages {
        row(page, "error page", &page_text(error));
    }
}

fn rate_text(rate: &RateView) -> String {
    let wait = match rate.wait_seconds {
        Some(seconds) => format!("; this client has to wait {seconds} s"),
        None => String::new(),
    };
    let (setting, per_second, burst) = (&rate.setting, rate.per_second, rate.burst);
    format!("{per_second} a second, {burst} at once, by {setting}{wait}")
}

fn page_text(page: &ErrorPageView) -> String {
    let statuses: Vec<String> = page.statuses.iter().map(ToString::to_string).collect();
    let sender = if page.sender == "origin" { "the origin" } else { "this node" };
    format!("{} for {} of {sender}, by {}", page.file, statuses.join(", "), page.setting)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_proxy::admin::GuardView;

    #[test]
    fn demands_name_their_settings() {
        let explanation = Explanation {
            guards: vec![GuardView { setting: "rule[0].users_file".into(), value: "\"users\"".into() }],
            rates: vec![RateView {
                setting: "rule[1].client_rate".into(),
                per_second: 0.5,
                burst: 3,
                wait_seconds: Some(7),
            }],
            error_pages: vec![ErrorPageView {
                setting: "rule[2].error_page".into(),
                file: "down.html".into(),
                sender: "node".into(),
                statuses: vec![502, 503],
            }],
            ..Explanation::default()
        };
        let mut page = String::new();
        write(&mut page, &explanation);
        for part in [
            "rule[0].users_file = \"users\"",
            "0.5 a second, 3 at once, by rule[1].client_rate; this client has to wait 7 s",
            "down.html for 502, 503 of this node, by rule[2].error_page",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        let mut none = String::new();
        write(&mut none, &Explanation::default());
        assert_eq!(none, "");
    }
}
