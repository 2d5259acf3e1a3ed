//! Header and trailer fields in the order received, names kept as spelled.

/// A list of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// Adds a field at the end.
    pub fn push(&mut self, name: &str, value: &str) {
        self.0.push((name.into(), value.into()));
    }

    /// The first value of `name`, whatever its case.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Every value of `name`, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let matching = self.0.iter().filter(|(given, _)| given.eq_ignore_ascii_case(name));
        matching.map(|(_, value)| value.as_str()).collect()
    }

    /// The values of `name` as one list (RFC 9110 section 5.3); empty when absent.
    pub fn joined(&self, name: &str) -> String {
        self.all(name).join(", ")
    }

    /// Whether `name` is present.
    pub fn has(&self, name: &str) -> bool {
        self.first(name).is_some()
    }

    /// Reads field lines; a line without a colon is kept under an empty name.
    pub fn parse(lines: &str) -> Self {
        let split = |line: &str| match line.split_once(':') {
            Some((name, value)) => (name.to_string(), value.trim().to_string()),
            None => (String::new(), line.to_string()),
        };
        Self(lines.split("\r\n").filter(|line| !line.is_empty()).map(split).collect())
    }

    /// The fields as HTTP/1 lines, each with its CRLF.
    pub fn lines(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    }
}

/// The list members of a field value, split at commas outside quotes and trimmed.
pub fn members(value: &str) -> Vec<String> {
    let mut members = vec![String::new()];
    let mut quoted = false;
    for c in value.chars() {
        quoted ^= c == '"';
        match members.last_mut() {
            Some(last) if c != ',' || quoted => last.push(c),
            _ => members.push(String::new()),
        }
    }
    members.iter().map(|member| member.trim().to_string()).filter(|member| !member.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_whatever_the_case_of_the_name() {
        let fields = Fields::parse("Vary: a\r\nvary: b\r\nAge:7\r\n");
        assert_eq!(fields.joined("VARY"), "a, b");
        assert_eq!(fields.first("age"), Some("7"));
        assert!(!fields.has("via"));
    }

    #[test]
    fn members_respect_quotes() {
        assert_eq!(members("a, \"b, c\";x ,,d"), ["a", "\"b, c\";x", "d"]);
    }
}
