//! Check of drawn figures and pages: their text is well-formed XML. Tests of reports call it.

/// Checks that every element is closed in order and no text holds a bare bracket or ampersand.
pub fn check_well_formed(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = markup;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("a tag is closed");
        let tag = &rest[at + 1..end];
        assert!(!tag.contains('<'), "a bracket within a tag: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !tag.starts_with('!') && !["meta", "br"].contains(&name_of(tag)) {
            open.push(name_of(tag));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

fn name_of(tag: &str) -> &str {
    tag.split([' ', '\n']).next().unwrap_or(tag)
}
