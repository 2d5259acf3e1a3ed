//! Template of an access log line: text with names of fields in braces.
//!
//! ```text
//! {client} {user} [{time_ncsa}] {request:quoted} {status} {body_bytes}
//! ```
//!
//! `{name}` writes a field without blanks, so that a line can be split at them. `{name:quoted}`
//! writes it in quotes, `{name:json}` as a JSON string. `{{` and `}}` are braces. A client's bytes
//! are escaped in each of these ways: none ends a field or a line.

/// Template that has been checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    /// Parts of the line in their order.
    pub parts: Vec<TemplatePart>,
}

/// Part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplatePart {
    /// Text as it stands.
    Text(String),
    /// A field of the request.
    Field(LogField, FieldStyle),
}

/// Way in which a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldStyle {
    /// Without blanks and quotes; `-` if empty.
    Bare,
    /// In quotes, `"-"` if empty.
    Quoted,
    /// As a JSON string; numbers too.
    Json,
}

macro_rules! fields {
    ($($(#[doc = $text:literal])* $variant:ident = $name:literal,)*) => {
        /// Field of an access log line.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum LogField {
            $($(#[doc = $text])* $variant,)*
        }

        impl LogField {
            /// All fields with their names.
            pub const ALL: &[(Self, &'static str)] = &[$((Self::$variant, $name),)*];
        }
    };
}

fields! {
    /// Arrival in UTC, as of RFC 3339.
    Time = "time",
    /// Arrival as in the NCSA formats, without brackets.
    TimeNcsa = "time_ncsa",
    /// Arrival in seconds since 1970, with milliseconds.
    TimeUnix = "time_unix",
    /// Duration in microseconds.
    DurationUs = "duration_us",
    /// Duration in whole milliseconds.
    DurationMs = "duration_ms",
    /// Client address.
    Client = "client",
    /// Client port.
    ClientPort = "client_port",
    /// User that authenticated.
    User = "user",
    /// Method.
    Method = "method",
    /// Target URL.
    Url = "url",
    /// HTTP version.
    Version = "version",
    /// Method, URL and version, as in the NCSA formats.
    Request = "request",
    /// Status.
    Status = "status",
    /// Bytes sent.
    Bytes = "bytes",
    /// Body bytes sent.
    BodyBytes = "body_bytes",
    /// Head bytes sent.
    HeadBytes = "head_bytes",
    /// `true` if the reply was cut short.
    Aborted = "aborted",
    /// Result of the cache in our words.
    Outcome = "outcome",
    /// Result of the cache in Squid's words.
    ResultCode = "result_code",
    /// Next hop that was asked.
    Upstream = "upstream",
    /// Referer of the request.
    Referer = "referer",
    /// User-Agent of the request.
    UserAgent = "user_agent",
    /// Content-Type of the reply.
    ContentType = "content_type",
    /// Cache-Status of the reply.
    CacheStatus = "cache_status",
    /// Coding of the body, if this node coded it.
    Coding = "coding",
    /// Name of the site.
    Site = "site",
}

impl LogTemplate {
    /// Returns `true` if the template names the field.
    pub fn names(&self, field: LogField) -> bool {
        self.parts.iter().any(|part| matches!(part, TemplatePart::Field(named, _) if *named == field))
    }

    /// Reads a template.
    ///
    /// # Errors
    /// The first mistake, in a line.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEMPLATE_MAX {
            return Err(format!("a template has at most {TEMPLATE_MAX} bytes"));
        }
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find(['{', '}']) {
            plain.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                plain.push_str(brace);
                rest = after;
                continue;
            }
            if brace == "}" {
                return Err("a } without its {; }} stands for a brace".into());
            }
            let Some((name, after)) = rest.split_once('}') else {
                return Err("a { without its }; {{ stands for a brace".into());
            };
            if !plain.is_empty() {
                parts.push(TemplatePart::Text(std::mem::take(&mut plain)));
            }
            parts.push(field(name)?);
            rest = after;
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain));
        }
        let fields = parts.iter().filter(|part| matches!(part, TemplatePart::Field(..))).count();
        let has_control = parts
            .iter()
            .any(|part| matches!(part, TemplatePart::Text(text) if text.chars().any(is_line_end)));
        match fields {
            _ if has_control => Err("a line has no control characters but the tab".into()),
            0 => Err("a template names at least one field".into()),
            fields if fields > FIELDS_MAX => Err(format!("a template names at most {FIELDS_MAX} fields")),
            _ => Ok(Self { parts }),
        }
    }
}

fn field(text: &str) -> Result<TemplatePart, String> {
    let (name, style) = text.split_once(':').unwrap_or((text, ""));
    let style = match style {
        "" => FieldStyle::Bare,
        "quoted" => FieldStyle::Quoted,
        "json" => FieldStyle::Json,
        other => return Err(format!("{other:?} is no style of a field; there are quoted and json")),
    };
    debug_assert!(!name.contains('}'), "the caller splits there");
    match LogField::ALL.iter().find(|(_, known)| *known == name) {
        Some((field, _)) => Ok(TemplatePart::Field(*field, style)),
        None => {
            let known: Vec<_> = LogField::ALL.iter().map(|(_, name)| *name).collect();
            Err(format!("{name:?} is no field; there are {}", known.join(", ")))
        }
    }
}

fn is_line_end(character: char) -> bool {
    character.is_control() && character != '\t'
}

/// Longest template, in bytes.
const TEMPLATE_MAX: usize = 4096;
/// Most fields, so that a line stays bounded: each is clipped to 8 KiB.
const FIELDS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TemplatePart {
        TemplatePart::Text(text.into())
    }

    #[test]
    fn text_and_fields_keep_their_order() {
        let parsed = LogTemplate::parse("{client} \"{{x}}\" {url:quoted}\t{status:json}!").expect("sound");
        let expected = [
            TemplatePart::Field(LogField::Client, FieldStyle::Bare),
            text(" \"{x}\" "),
            TemplatePart::Field(LogField::Url, FieldStyle::Quoted),
            text("\t"),
            TemplatePart::Field(LogField::Status, FieldStyle::Json),
            text("!"),
        ];
        assert_eq!(parsed.parts, expected);
    }

    #[test]
    fn mistakes_are_named() {
        for (template, words) in [
            ("", "at least one field"),
            ("only text", "at least one field"),
            ("{clinet}", "no field; there are time,"),
            ("{client:html}", "no style"),
            ("{client", "without its }"),
            ("client}", "without its {"),
            ("{client}\n", "no control characters"),
            ("{client}\u{85}", "no control characters"),
        ] {
            let mistake = LogTemplate::parse(template).expect_err(template);
            assert!(mistake.contains(words), "{template}: {mistake}");
        }
        assert!(LogTemplate::parse(&"{url}".repeat(33)).is_err());
        assert!(LogTemplate::parse(&"x".repeat(5000)).is_err());
        for (_, name) in LogField::ALL {
            assert!(LogTemplate::parse(&format!("{{{name}}}")).is_ok(), "{name}");
        }
    }
}
