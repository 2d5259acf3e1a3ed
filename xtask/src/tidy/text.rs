//! Banned text, in sources and pages alike.

use crate::finding::Finding;
use crate::workspace::TextFile;
use std::net::Ipv4Addr;

/// Text that no file of its kind may contain.
struct Ban {
    /// The rule's name.
    rule: &'static str,
    /// Which files it holds for.
    files: fn(&TextFile) -> bool,
    /// Whether a line breaks it.
    broken_by: fn(&str) -> bool,
    /// What to do instead.
    instead: &'static str,
}

const BANS: &[Ban] = &[
    Ban {
        rule: "trailing space",
        files: is_written,
        broken_by: |line| line.ends_with([' ', '\t', '\r']),
        instead: "remove the white space at the line's end",
    },
    Ban {
        rule: "tab",
        files: is_indented_by_spaces,
        broken_by: |line| line.contains('\t'),
        instead: "indent with spaces; write \\t in a literal",
    },
    Ban {
        rule: "unfinished",
        files: is_written,
        broken_by: |line| ["TODO", "FIXME", "XXX"].iter().any(|mark| has_word(line, mark)),
        instead: "finish it, or say in the docs what is not done",
    },
    Ban {
        rule: "machine path",
        files: is_written,
        broken_by: |line| {
            ["root", "home", "work", "tmp"].iter().any(|folder| has_absolute_path(line, folder))
        },
        instead: "no path of one machine; tests use tempfile",
    },
    Ban {
        rule: "foreign address",
        files: is_written,
        broken_by: |line| ipv4_addresses(line).any(|address| !is_nobodys(address)),
        instead: "use loopback, a private network, or a documentation range (192.0.2.0/24, 198.51.100.0/24, 203.0.113.0/24)",
    },
    Ban {
        rule: "registry host",
        files: is_written,
        broken_by: |line| REGISTRIES.iter().any(|host| line.contains(host)),
        instead: "name example.org, or the origin that the test makes",
    },
    Ban {
        rule: "lock file source",
        files: is_lock,
        broken_by: |line| names_source(line) && !LOCK_SOURCES.iter().any(|source| line.contains(source)),
        instead: "lock files name the public registry only; make it again without a mirror configured",
    },
];

/// Every breach in one file.
pub fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ban in BANS.iter().filter(|ban| (ban.files)(file)) {
        for (at, line) in file.text.split('\n').enumerate() {
            if (ban.broken_by)(line) {
                findings.push(Finding::new(&file.path, at + 1, ban.rule, ban.instead));
            }
        }
    }
    findings
}

/// gofmt writes tabs.
fn is_indented_by_spaces(file: &TextFile) -> bool {
    is_written(file) && !file.path.ends_with(".go") && !file.path.ends_with("go.mod")
}

fn is_lock(file: &TextFile) -> bool {
    file.path.ends_with("Cargo.lock") || file.path.ends_with("package-lock.json")
}

fn is_written(file: &TextFile) -> bool {
    !is_lock(file) && !file.path.starts_with("LICENSE")
}

/// Whether a line of a lock file says where a package comes from.
fn names_source(line: &str) -> bool {
    line.starts_with("source = ") || line.trim_start().starts_with("\"resolved\": ")
}

fn has_word(line: &str, word: &str) -> bool {
    !super::source::words(line, word).is_empty()
}

/// Whether an absolute path into `/folder` stands in the line: not the path of a URL, not part of a
/// longer path.
fn has_absolute_path(line: &str, folder: &str) -> bool {
    let starts_path =
        |before: Option<char>| before.is_none_or(|c| !(c.is_alphanumeric() || "_-./}>)$~*".contains(c)));
    let ends_name = |after: Option<char>| after.is_none_or(|c| !(c.is_alphanumeric() || "_-.".contains(c)));
    let mut slashes = line.match_indices('/').map(|(at, _)| at);
    slashes.any(|at| {
        let after = line[at + 1..].strip_prefix(folder);
        after.is_some_and(|after| ends_name(after.chars().next()))
            && starts_path(line[..at].chars().next_back())
    })
}

/// The IPv4 addresses written in a line. In a comment, or beside the word RFC, four small numbers
/// are a section (`5.2.2.3`).
fn ipv4_addresses(line: &str) -> impl Iterator<Item = Ipv4Addr> {
    let parts = line.split(|c: char| !(c.is_alphanumeric() || "._-+".contains(c)));
    let in_comment = ["//", "#", "|", "*"].iter().any(|mark| line.trim_start().starts_with(mark));
    let may_cite = in_comment || line.contains("RFC");
    let is_section = move |address: &Ipv4Addr| may_cite && address.octets().iter().all(|octet| *octet < 32);
    parts.filter_map(|part| part.trim_matches('.').parse().ok()).filter(move |address| !is_section(address))
}

/// Whether an address belongs to nobody on the Internet: loopback, private, documentation and the
/// like.
fn is_nobodys(address: Ipv4Addr) -> bool {
    let octets = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || octets[0] == 0
        || octets[0] >= 240
        || (octets[0] == 100 && octets[1] & 0xC0 == 64)
        || (octets[0] == 198 && octets[1] & 0xFE == 18)
        || octets[..3] == [192, 0, 0]
}

/// In two parts each, since this file holds to the rule as well.
const REGISTRIES: &[&str] = &[
    concat!("crates", ".io"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("deb.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
    concat!("proxy.golang", ".org"),
];

const LOCK_SOURCES: &[&str] = &[
    concat!("\"registry+https://github.com/rust-lang/crates", ".io-index\""),
    concat!("\"https://registry.npmjs", ".org/"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<&'static str> {
        check(&TextFile { path: path.into(), text: text.into() })
            .into_iter()
            .map(|finding| finding.rule)
            .collect()
    }

    #[test]
    fn each_ban_has_a_line_that_breaks_it() {
        for (rule, line) in [
            ("trailing space", "let a; "),
            ("trailing space", "let a;\r"),
            ("tab", "\tlet a;"),
            ("unfinished", "// TODO: more"),
            ("unfinished", "XXX"),
            ("machine path", "open(\"/tmp/x\")"),
            ("machine path", "/home/someone"),
            ("machine path", "see /root"),
            ("machine path", "cd /work;"),
            ("foreign address", "connect 8.8.8.8:53"),
            ("foreign address", "\"172.32.0.1\""),
            ("registry host", concat!("https://pypi", ".org/simple")),
        ] {
            assert_eq!(rules("a.md", line), [rule], "{line}");
        }
        assert_eq!(
            rules("Cargo.lock", "source = \"registry+https://mirror.example/index\""),
            ["lock file source"]
        );
    }

    #[test]
    fn ordinary_lines_break_none() {
        for line in [
            "let a;",
            "a mastodon, an XXXL shirt",
            "http://example.org/home/page",
            "target/tmp and ./work and a/root",
            "/homework /rooted /tmpfs /root.crt",
            "127.0.0.1 0.0.0.0 10.1.2.3 172.16.0.1 192.168.0.9 169.254.1.1 192.0.2.7 198.51.100.3 203.0.113.200",
            "version 1.2.3 and 1.2.3.4-rc1 and 300.1.1.1",
            "// RFC 3986 section 6.2.2.1, § 6.2.2.2 and (RFC 9110, 15.3.7.3).",
            "the crates and io of it",
        ] {
            assert_eq!(rules("a.md", line), Vec::<&str>::new(), "{line}");
        }
        let lock = concat!(
            "source = \"registry+https://github.com/rust-lang/crates",
            ".io-index\"\n  \"resolved\": \"https://registry.npmjs",
            ".org/a\",\n  \"deprecated\": \"see https://example.org\""
        );
        assert_eq!(rules("Cargo.lock", lock), Vec::<&str>::new());
        assert_eq!(rules("LICENSE-MIT", "x "), Vec::<&str>::new());
    }
}
