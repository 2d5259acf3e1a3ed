//! Rules between the settings of compression.

use super::Rules;
use crate::Settings;
use crate::host::is_token;

impl Rules<'_> {
    pub(super) fn compress(&mut self, settings: &Settings) {
        let compress = &settings.compress;
        for (number, coding) in compress.codings.iter().enumerate() {
            if compress.codings[..number].contains(coding) {
                self.fault(&format!("compress.codings[{number}]"), "this coding is listed before");
            }
        }
        for (number, media_type) in compress.types.iter().enumerate() {
            if !is_type_pattern(media_type) {
                let message = format!("{media_type:?} is not type/subtype, type/* or *+suffix");
                self.fault(&format!("compress.types[{number}]"), message);
            }
        }
        if compress.bytes_min > compress.bytes_max {
            self.fault("compress.bytes_min", "it is larger than compress.bytes_max");
        }
    }
}

/// Returns `true` for `type/subtype`, `type/*` and `*+suffix`.
fn is_type_pattern(pattern: &str) -> bool {
    match pattern.strip_prefix("*+") {
        Some(suffix) => is_token(suffix),
        None => {
            pattern.split_once('/').is_some_and(|(main, sub)| is_token(main) && is_token(sub) && main != "*")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_told() {
        for (text, why) in [
            ("codings = [\"deflate\"]", "deflate"),
            ("codings = [\"br\", \"br\"]", "listed before"),
            ("types = [\"text\"]", "is not type/subtype"),
            ("types = [\"*/*\"]", "is not type/subtype"),
            ("types = [\"text/html; charset=x\"]", "is not type/subtype"),
            ("types = [\"*+\"]", "is not type/subtype"),
            ("bytes_min = \"2 MiB\"", "larger than compress.bytes_max"),
            ("bytes_max = \"1 GiB\"", "compress.bytes_max"),
            ("after_hits = 0", "compress.after_hits"),
        ] {
            let mistakes = Settings::parse(&format!("[compress]\n{text}\n"), "f").expect_err(text);
            let mistakes: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
            assert!(mistakes.iter().any(|mistake| mistake.contains(why)), "{text}\n{mistakes:?}");
        }
    }

    #[test]
    fn nothing_is_compressed_by_default() {
        assert!(!Settings::default().compress.is_on());
        let text = "[compress]\ncodings = [\"zstd\", \"gzip\"]\ntypes = [\"text/*\", \"*+json\"]\n";
        assert!(Settings::parse(text, "f").expect("sound").compress.is_on());
    }
}
