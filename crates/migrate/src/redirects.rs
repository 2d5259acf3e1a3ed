//! Redirects that keep path and query.

use crate::document::Section;
use crate::value::Value;

/// Makes the rules of a redirect. A text that ends in path and query takes two rules, so that a URL
/// without a query gets no question mark.
pub fn rules(mut rule: Section, to: &str, status: u16) -> Vec<Section> {
    let status = Value::Whole(status.into());
    let plain = to.replace("$path?$query", "$path");
    if plain == to || rule.get("query").is_some() {
        rule.set("redirect", to, &[]);
        rule.set("redirect_status", status, &[]);
        return vec![rule];
    }
    let mut with_query = Section { from: Vec::new(), notes: Vec::new(), ..rule.clone() };
    rule.set("redirect", plain, &[]);
    rule.set("redirect_status", status.clone(), &[]);
    with_query.set("query", Value::texts(["*"]), &[]);
    with_query.set("redirect", to, &[]);
    with_query.set("redirect_status", status, &[]);
    vec![rule, with_query]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_take_a_rule_of_their_own() {
        let made = rules(Section::default(), "https://$host$path?$query", 301);
        assert_eq!(made[0].get("redirect"), Some(&"https://$host$path".into()));
        assert_eq!(made[1].get("query"), Some(&Value::texts(["*"])));
        assert_eq!(rules(Section::default(), "https://a.example/", 301).len(), 1);
    }
}
