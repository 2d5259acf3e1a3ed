//! The shape of a source file: its purpose first, and short enough to be read.

use super::source::Source;
use crate::finding::Finding;
use crate::workspace::TextFile;

/// Most lines of a file; near it, give the file a folder of its name and split by noun.
const FILE_LINES: usize = 500;
/// Most lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

/// Checks one file's head and lengths.
pub fn check(file: &TextFile, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line, rule, message: String| findings.push(Finding::new(&file.path, line, rule, message));
    if !opens_with_purpose(&file.text) {
        find(1, "purpose", "open the file with `//!` and one sentence saying what it is for".into());
    }
    let lines = file.text.lines().count();
    if lines > FILE_LINES {
        find(
            0,
            "file length",
            format!(
                "{lines} lines where {FILE_LINES} is the limit; split it by noun into a folder of its name"
            ),
        );
    }
    for function in source.functions() {
        let lines = function.last - function.first + 1;
        if lines > FUNCTION_LINES {
            let name = function.name;
            find(
                function.first,
                "function length",
                format!("{lines} lines in `{name}` where {FUNCTION_LINES} is the limit; let helpers compute"),
            );
        }
    }
    if is_crate_root(&file.path) && !file.text.contains("(unsafe_code)]") {
        find(
            1,
            "forbid unsafe",
            "say `#![forbid(unsafe_code)]`, or `deny` where the crate table grants a `sys` module".into(),
        );
    }
    findings
}

fn opens_with_purpose(text: &str) -> bool {
    let first = text.lines().find(|line| !line.starts_with("#!") && !line.is_empty());
    first.and_then(|line| line.strip_prefix("//!")).is_some_and(|purpose| !purpose.trim().is_empty())
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        let file = TextFile { path: path.into(), text: text.into() };
        check(&file, &Source::scan(path, text)).into_iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_file_opens_with_its_purpose() {
        let none: [&str; 0] = [];
        assert_eq!(rules("x.rs", "//! What this is for.\nfn a() {}"), none);
        assert_eq!(rules("x.rs", "#![no_main]\n//! What this is for.\n"), none);
        for text in ["", "fn a() {}", "//!\nfn a() {}", "// A comment.\n//! Too late.", "/// An item."] {
            assert_eq!(rules("x.rs", text), ["purpose"], "{text}");
        }
    }

    #[test]
    fn long_files_and_functions_are_found() {
        let none: [&str; 0] = [];
        let file = |lines: usize| format!("//! P.\n{}", "//\n".repeat(lines - 1));
        assert_eq!(rules("x.rs", &file(500)), none);
        assert_eq!(rules("x.rs", &file(501)), ["file length"]);
        let function =
            |lines: usize| format!("//! P.\nfn a() {{\n{}}}\n", "    x(\"}\");\n".repeat(lines - 2));
        assert_eq!(rules("x.rs", &function(70)), none);
        assert_eq!(rules("x.rs", &function(71)), ["function length"]);
    }

    #[test]
    fn a_crate_root_forbids_unsafe_code() {
        let none: [&str; 0] = [];
        assert_eq!(rules("crates/a/src/lib.rs", "//! P.\n"), ["forbid unsafe"]);
        assert_eq!(rules("crates/a/src/lib.rs", "//! P.\n#![forbid(unsafe_code)]\n"), none);
        assert_eq!(rules("crates/a/src/other.rs", "//! P.\n"), none);
    }
}
