//! Pages that stand alone in one file: a plan's, or a report's.
//!
//! ```text
//! assets/*.js   ─┐                         ┌ <style> of theme, layout, parts, page
//!                ├─► one script, one style ┤ the body, with still pictures
//! standalone/*  ─┘                         └ <script> with the figures' data, <script> of charts
//! ```
//!
//! The scripts are those of the dashboard. Each module becomes a function of its own, since a page
//! that is opened from a file cannot load modules. The page's policy allows no request at all, and
//! no script and no style but those in it, by their SHA-256. Without scripts the still pictures
//! stay.

use crate::text::shown_as_number;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

/// Parts of a page.
#[derive(Clone, Copy, Debug)]
pub struct StandalonePage<'a> {
    /// Title as HTML, escaped by the caller.
    pub title: &'a str,
    /// Content of `main` as HTML, escaped by the caller. No id in it begins with `shoal-`.
    pub body: &'a str,
    /// Style sheets that the body brings along, each as it stands between its tags.
    pub styles: &'a [&'a str],
    /// Figures' data; `standalone/page.js` says of which form.
    pub figures: &'a Value,
}

impl StandalonePage<'_> {
    /// Returns the page.
    pub fn html(&self) -> String {
        let (style, script) = (&*STYLE, &*SCRIPT);
        assert!(!script.contains("</script") && !script.contains("<!--"), "no script ends its element");
        debug_assert!(self.styles.iter().all(|sheet| self.body.contains(*sheet)), "a style is in the body");
        debug_assert!(!self.body.contains(" id=\"shoal-"), "these ids are the page's");
        let own = [style.as_str()];
        let styles: BTreeSet<String> =
            own.iter().chain(self.styles).map(|sheet| format!("'sha256-{}'", hash(sheet))).collect();
        let policy = format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src {}; base-uri 'none'; form-action 'none'",
            hash(script),
            styles.into_iter().collect::<Vec<_>>().join(" ")
        );
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>{style}</style>\n</head>\n<body class=\"alone\">\n<main>\n\
             <div class=\"headline\"><h1>{title}</h1><button type=\"button\" id=\"shoal-theme\" class=\"plain\" hidden=\"\"></button></div>\n\
             {body}</main>\n\
             <script type=\"application/json\" id=\"shoal-figures\">{figures}</script>\n<script>{script}</script>\n</body>\n</html>\n",
            title = self.title,
            body = self.body,
            figures = within_script(self.figures),
        )
    }
}

/// Returns JSON that cannot end its script element, and that holds no hidden character.
fn within_script(figures: &Value) -> String {
    let mut safe = String::new();
    for character in figures.to_string().chars() {
        if matches!(character, '<' | '>' | '&') || shown_as_number(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    safe
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

/// Returns modules as one script: each is a function that returns its exports.
fn bundled(modules: &[(&str, &str)]) -> String {
    let mut script = String::from("'use strict'\nconst modules = {}\n");
    for (name, source) in modules {
        let _ = writeln!(script, "modules['./{name}'] = (() => {{");
        let mut exports = Vec::new();
        for line in source.lines() {
            match imported(line) {
                Some(names_and_module) => script += &names_and_module,
                None => script += exported(line, &mut exports),
            }
            script.push('\n');
        }
        let _ = writeln!(script, "return {{ {} }}\n}})()", exports.join(", "));
    }
    script
}

/// Returns an import as a declaration; `None` for other lines.
fn imported(line: &str) -> Option<String> {
    let (names, module) = line.strip_prefix("import ")?.split_once(" from ")?;
    assert!(!names.contains(" as "), "a name has one spelling: {line}");
    Some(format!("const {names} = modules[{module}]"))
}

/// Returns a line without `export`. Its name is added to the exports.
fn exported<'a>(line: &'a str, exports: &mut Vec<&'a str>) -> &'a str {
    let Some(declared) = line.strip_prefix("export ") else { return line };
    let words = declared.strip_prefix("async ").unwrap_or(declared);
    let kinds = ["function ", "class ", "const "];
    let name = kinds.iter().find_map(|kind| words.strip_prefix(kind));
    let name = name.unwrap_or_else(|| panic!("an export of another kind: {line}"));
    exports.push(name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
    declared
}

macro_rules! files {
    ($folder:literal, $($name:literal),*) => {
        [$(($name, include_str!(concat!("../", $folder, "/", $name)))),*]
    };
}

/// Modules in the order in which they need each other.
static SCRIPT: LazyLock<String> = LazyLock::new(|| {
    let shared =
        files!("assets", "dom.js", "format.js", "scale.js", "dialogs.js", "kept.js", "chart_line.js");
    let own = files!("standalone", "marks.js", "chart_plot.js", "page.js");
    bundled(&[&shared[..], &own[..]].concat())
});

static STYLE: LazyLock<String> = LazyLock::new(|| {
    let shared = files!("assets", "theme.css", "layout.css", "parts.css");
    let own = files!("standalone", "page.css");
    [&shared[..], &own[..]].concat().iter().map(|(_, sheet)| *sheet).collect()
});

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> String {
        let figures = json!([{ "title": "</script><script>alert(1)</script>\u{2028}\u{e0041}" }]);
        let body = "<style>.a{}</style>\n";
        StandalonePage { title: "A &lt;page&gt;", body, styles: &[".a{}"], figures: &figures }.html()
    }

    #[test]
    fn scripts_and_styles_are_those_of_the_policy() {
        let page = sample();
        let between = |from: &str, to: &str| -> Vec<String> {
            let parts = page.split(from).skip(1);
            parts.filter_map(|part| Some(part.split_once(to)?.0.to_owned())).collect()
        };
        let (scripts, styles) = (between("<script>", "</script>"), between("<style>", "</style>"));
        assert_eq!((scripts.len(), styles.len()), (1, 2));
        for text in scripts.iter().chain(&styles) {
            assert!(page.contains(&format!("'sha256-{}'", hash(text))));
        }
        for never in ["unsafe", "src=\"", "href=\"", "url(", "@import", "\r"] {
            assert!(!page.contains(never), "{never}");
        }
    }

    #[test]
    fn data_does_not_end_its_element() {
        let page = sample();
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("\\u003c/script\\u003e") && page.contains("\\u2028\\udb40\\udc41"));
        let (_, data) = page.split_once("id=\"shoal-figures\">").expect("data");
        let data: Value =
            serde_json::from_str(data.split_once("</script>").expect("its end").0).expect("JSON");
        assert_eq!(data[0]["title"], "</script><script>alert(1)</script>\u{2028}\u{e0041}");
    }

    #[test]
    fn modules_become_functions() {
        let modules = [
            ("a.js", "export const one = 1\nexport async function two() {}\nexport class Three {}"),
            ("b.js", "import { one } from './a.js'\none"),
        ];
        let script = bundled(&modules);
        assert!(
            script.contains(
                "const one = 1\nasync function two() {}\nclass Three {}\nreturn { one, two, Three }"
            )
        );
        assert!(script.contains("const { one } = modules['./a.js']\none\nreturn {  }"));
        for word in ["\nimport ", "\nexport ", "</script", "<!--"] {
            assert!(!SCRIPT.contains(word), "{word:?}");
        }
    }
}
