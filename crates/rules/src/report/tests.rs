//! Reports compared with the effects that the same rules have.

use super::*;
use crate::set::RequestView;
use http::{HeaderMap, Method};
use proptest::prelude::*;

fn settings(rules: &str) -> Settings {
    Settings::parse(rules, "test").unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

fn matched(set: &RuleSet) -> MatchedRules {
    let fields = HeaderMap::new();
    set.matching(&RequestView {
        site: None,
        host: "h",
        path_and_query: "/a",
        method: &Method::GET,
        fields: &fields,
    })
}

fn reports(rules: &str, status: u16) -> Vec<RuleReport> {
    let settings = settings(rules);
    let set = RuleSet::new(&settings).expect("sound rules");
    let status = StatusCode::from_u16(status).expect("a status");
    set.report(&settings, &matched(&set), (status, &HeaderMap::new()))
}

#[test]
fn later_rule_overrules_the_same_setting() {
    let found = reports(
        "[[rule]]\nname = 'one'\nlifetime = '1m'\nset_cookie = 'strip'\n[[rule]]\npaths = ['/a']\nlifetime = '2m'\n",
        200,
    );
    assert_eq!((found[0].name.as_str(), found[1].key.as_str()), ("one", "rule[1]"));
    assert_eq!(found[1].conditions, [("paths", "[\"/a\"]".to_owned())]);
    let parts: Vec<&SettingPart> = found.iter().flat_map(|it| &it.settings).map(|it| &it.part).collect();
    assert_eq!(parts, [&SettingPart::Overruled("rule[1]".into()), &SettingPart::Wins, &SettingPart::Wins]);
}

#[test]
fn settings_that_miss_the_response_are_told() {
    let found = reports("[[rule]]\nlifetime = '1m'\n[[rule]]\nstatuses = ['500']\nstore = false\n", 404);
    let parts: Vec<&SettingPart> = found.iter().flat_map(|it| &it.settings).map(|it| &it.part).collect();
    assert_eq!(parts, [&SettingPart::OtherStatus, &SettingPart::OtherResponse]);
}

#[test]
fn combination_is_the_sentence_of_the_page() {
    let page = include_str!("../../../../docs/RULES.md");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(page).contains(&format!("**How rules combine:** {COMBINATION}")));
}

/// Settings of which a rule may have any.
const LINES: [&str; 22] = [
    "lifetime = '1m'",
    "lifetime_min = '5s'",
    "stale_if_error = '1h'",
    "store = false",
    "store = true",
    "pass = true",
    "pass = false",
    "set_cookie = 'strip'",
    "set_cookie = 'pass'",
    "ignore_vary = ['a']",
    "ignore_vary = ['b']",
    "query_drop = ['a']",
    "query_drop = ['b']",
    "query_sort = true",
    "cookies = []",
    "cookies = ['a']",
    "request_set = ['X-A: 1', 'X-B: 1']",
    "request_set = ['X-B: 2']",
    "request_remove = ['x-a']",
    "response_add = ['X-A: 1']",
    "response_remove = ['x-a']",
    "host = 'b.test'",
];

proptest! {
    /// A rule made of the winners alone has the effects of all rules together.
    #[test]
    fn winners_alone_have_the_same_effects(
        rules in proptest::collection::vec(proptest::sample::subsequence(LINES.to_vec(), 1..4), 1..5)
    ) {
        let one = |lines: &Vec<&str>| {
            let mut names: Vec<&str> = Vec::new();
            let mut text = "[[rule]]\n".to_owned();
            for line in lines {
                let name = line.split(' ').next().expect("a name");
                let clashes = |it: &&str| *it == name || it.starts_with("request") && name.starts_with("request")
                    || it.starts_with("response") && name.starts_with("response");
                if !names.iter().any(clashes) {
                    names.push(name);
                    text += &format!("{line}\n");
                }
            }
            text
        };
        let text: String = rules.iter().map(one).collect();
        let all = RuleSet::new(&settings(&text)).expect("sound rules");
        let mut winners: Vec<(&str, Vec<String>)> = Vec::new();
        for setting in reports(&text, 200).into_iter().flat_map(|it| it.settings) {
            if setting.part == SettingPart::Wins {
                let is_list = setting.name.starts_with("request_") || setting.name.starts_with("response_");
                match winners.iter_mut().find(|(name, _)| *name == setting.name) {
                    Some((_, values)) => values.push(setting.value),
                    None => winners.push((setting.name, vec![setting.value])),
                }
                let values = &winners.iter().find(|(name, _)| *name == setting.name).expect("added").1;
                prop_assert!(is_list || values.len() == 1, "{} has two winners", setting.name);
            }
        }
        let line = |(name, values): &(&str, Vec<String>)| match name.starts_with("re") {
            true => format!("{name} = [{}]\n", values.join(", ")),
            false => format!("{name} = {}\n", values[0]),
        };
        let alone: String = winners.iter().map(line).collect();
        let alone = RuleSet::new(&settings(&format!("[[rule]]\n{alone}"))).expect("sound rules");
        let effects = |set: &RuleSet| {
            let (matching, fields) = (matched(set), HeaderMap::new());
            let request = set.request_effects(&matching).unwrap_or_default();
            let response = set.response_effects(&matching, StatusCode::OK, &fields).unwrap_or_default();
            (request, response)
        };
        let ((request, response), (request_alone, response_alone)) = (effects(&all), effects(&alone));
        // The order of edits of different fields does not matter.
        let sorted = |edits: &crate::effects::FieldEdits| {
            let mut text: Vec<String> = edits.shown();
            text.sort();
            text
        };
        prop_assert_eq!(sorted(&request.fields), sorted(&request_alone.fields));
        prop_assert_eq!(sorted(&response.fields), sorted(&response_alone.fields));
        let without = |mut effects: crate::RequestEffects| {
            effects.fields = Default::default();
            effects
        };
        let without_response = |mut effects: crate::ResponseEffects| {
            effects.fields = Default::default();
            effects
        };
        prop_assert_eq!(without(request), without(request_alone));
        prop_assert_eq!(without_response(response), without_response(response_alone));
    }
}

#[test]
fn secrets_of_fields_are_not_shown() {
    let found = reports(
        "[[rule]]\nrequest_set = ['Authorization: Bearer s3cret', 'X-Api-Key: s3cret', 'Cookie: a=s3cret', \
         'X-Key: $client', 'X-Plain: shown']\nrequest_remove = ['X-Token']\n",
        200,
    );
    let shown: Vec<&str> = found[0].settings.iter().map(|it| it.value.as_str()).collect();
    assert!(!shown.concat().contains("s3cret"), "{shown:?}");
    assert_eq!(shown[0], "\"Authorization: (not shown)\"");
    assert_eq!(shown[3..], ["\"X-Key: $client\"", "\"X-Plain: shown\"", "\"X-Token\""]);
}
