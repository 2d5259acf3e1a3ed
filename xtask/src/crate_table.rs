//! The crate table of `docs/CRATES.md`: who may depend on whom, and who may do what.
//!
//! The page is the authority and the checks read it, so that the two cannot drift apart. A row is
//!
//! ```text
//! | `crates/store` | core, policy | no | `fs/` | argument | no | no | no | `sys/` | built |
//!    folder          may depend on  one cell a power, in the order of the heading     state
//! ```
//!
//! A power's cell says `no`, `argument` (the value is passed in, so: no), `yes`, or in backticks
//! the files and folders below the crate's `src` that have it.

use std::path::Path;

/// The whole table.
#[derive(Debug)]
pub struct CrateTable {
    powers: Vec<String>,
    rows: Vec<Row>,
}

/// One crate.
#[derive(Debug)]
pub struct Row {
    /// Its folder, from the root.
    pub folder: String,
    /// The last part of its folder: what other rows call it.
    pub name: String,
    /// Names of the crates of this workspace that it may depend on.
    pub may_depend_on: Vec<String>,
    /// Whether it exists; a crate that a later change brings stands in the table without a folder.
    pub built: bool,
    grants: Vec<Grant>,
}

/// Whether a crate has a power.
#[derive(Debug, PartialEq, Eq)]
enum Grant {
    No,
    /// No; values that the power made are passed in.
    Argument,
    Yes,
    /// Only in these files and folders below `src`.
    Only(Vec<String>),
}

/// Where the table stands.
pub const PAGE: &str = "docs/CRATES.md";
const MARK: &str = "<!-- crate table -->";

impl CrateTable {
    /// Reads the table out of the page.
    pub fn read(root: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(root.join(PAGE)).map_err(|why| format!("{PAGE}: {why}"))?;
        Self::parse(&text).map_err(|why| format!("{PAGE}: {why}"))
    }

    /// Reads the table that follows the mark.
    pub fn parse(page: &str) -> Result<Self, String> {
        let (_, after) =
            page.split_once(MARK).ok_or(format!("the line {MARK:?} above the crate table is missing"))?;
        let mut lines = after.lines().map(str::trim).skip_while(|line| line.is_empty());
        let heading = cells(lines.next().unwrap_or_default());
        let [folder, depends, powers @ .., state] = heading.as_slice() else {
            return Err(format!("the crate table's heading has too few columns: {heading:?}"));
        };
        if (*folder, *depends, *state) != ("folder", "may depend on", "state") {
            return Err(format!("the crate table's heading reads {heading:?}"));
        }
        let powers: Vec<String> = powers.iter().map(|power| power.to_string()).collect();
        let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
        let rows = rows.map(|line| Row::parse(line, powers.len())).collect::<Result<Vec<Row>, String>>()?;
        Ok(Self { powers, rows })
    }

    /// Every row.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The row of the crate that the file `path` belongs to.
    pub fn row_of(&self, path: &str) -> Option<&Row> {
        self.rows.iter().find(|row| path.strip_prefix(&row.folder).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Whether the code at `path` has this power. Files outside every crate have all of them.
    pub fn allows(&self, path: &str, power: &str) -> bool {
        let column = self.powers.iter().position(|name| name == power);
        match (self.row_of(path), column) {
            (Some(row), Some(column)) => row.grants[column].covers(row.below_src(path)),
            (None, _) => true,
            (_, None) => false,
        }
    }

    /// Whether any code of this row has the power.
    pub fn has_anywhere(&self, row: &Row, power: &str) -> bool {
        self.powers
            .iter()
            .position(|name| name == power)
            .is_some_and(|column| !matches!(row.grants[column], Grant::No | Grant::Argument))
    }

    /// Returns `true` if the row has the power, or is passed values that the power made.
    pub fn is_passed(&self, row: &Row, power: &str) -> bool {
        let column = self.powers.iter().position(|name| name == power);
        column.is_some_and(|column| row.grants[column] != Grant::No)
    }
}

impl Row {
    fn parse(line: &str, powers: usize) -> Result<Self, String> {
        let cells = cells(line);
        let [folder, depends, grants @ .., state] = cells.as_slice() else {
            return Err(format!("too few cells in {line:?}"));
        };
        if grants.len() != powers {
            return Err(format!(
                "{} cells between the dependencies and the state of {line:?}, not {powers}",
                grants.len()
            ));
        }
        let folder = folder.trim_matches('`').to_string();
        Ok(Self {
            name: folder.rsplit('/').next().unwrap_or_default().to_string(),
            may_depend_on: depends
                .split(',')
                .map(|name| name.trim().to_string())
                .filter(|n| !n.is_empty())
                .collect(),
            grants: grants.iter().map(|cell| Grant::parse(cell)).collect::<Result<_, _>>()?,
            built: match *state {
                "built" => true,
                "later" => false,
                other => {
                    return Err(format!(
                        "the state of {folder} is {other:?}, neither \"built\" nor \"later\""
                    ));
                }
            },
            folder,
        })
    }

    fn below_src<'a>(&self, path: &'a str) -> &'a str {
        let inside = path.strip_prefix(&self.folder).unwrap_or(path).trim_start_matches('/');
        inside.strip_prefix("src/").unwrap_or(inside)
    }
}

impl Grant {
    fn parse(cell: &str) -> Result<Self, String> {
        match cell {
            "no" => Ok(Self::No),
            "argument" => Ok(Self::Argument),
            "yes" => Ok(Self::Yes),
            paths if paths.starts_with('`') => Ok(Self::Only(
                paths.split(',').map(|path| path.trim().trim_matches('`').to_string()).collect(),
            )),
            other => {
                Err(format!("{other:?} is neither \"no\", \"argument\", \"yes\" nor files in backticks"))
            }
        }
    }

    fn covers(&self, path: &str) -> bool {
        match self {
            Self::No | Self::Argument => false,
            Self::Yes => true,
            Self::Only(places) => places.iter().any(|place| match place.ends_with('/') {
                true => path.starts_with(place.as_str()),
                false => path == place,
            }),
        }
    }
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_start_matches('|').trim_end_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A small table for the tests of this crate.
    pub const SAMPLE: &str = "\
text
<!-- crate table -->

| folder | may depend on | sockets | files | clock | unsafe | state |
|---|---|---|---|---|---|---|
| `crates/core` | | no | no | no | no | built |
| `crates/store` | core | no | `fs/`, `map.rs` | argument | `sys.rs` | built |
| `crates/proxy` | core, store | yes | no | yes | no | built |
| `crates/message` | core | argument | no | no | no | built |
| `crates/lab` | core | no | no | no | no | later |

more text
";

    #[test]
    fn powers_are_read_by_place() {
        let table = CrateTable::parse(SAMPLE).expect("the sample is valid");
        for (path, power, allowed) in [
            ("crates/proxy/src/server.rs", "sockets", true),
            ("crates/store/src/index.rs", "sockets", false),
            ("crates/store/src/fs/real.rs", "files", true),
            ("crates/store/src/map.rs", "files", true),
            ("crates/store/src/index.rs", "files", false),
            ("crates/store/src/index.rs", "clock", false),
            ("crates/store/src/index.rs", "wings", false),
            ("tools/x.rs", "files", true),
        ] {
            assert_eq!(table.allows(path, power), allowed, "{path} {power}");
        }
    }

    #[test]
    fn rows_say_who_may_use_whom() {
        let table = CrateTable::parse(SAMPLE).expect("the sample is valid");
        let proxy = table.row_of("crates/proxy/Cargo.toml").expect("a row");
        assert_eq!(proxy.may_depend_on, ["core", "store"]);
        assert!(!table.rows().iter().any(|row| row.name == "lab" && row.built));
    }

    #[test]
    fn a_table_that_says_nothing_clear_is_refused() {
        for (from, to) in [
            ("<!-- crate table -->", ""),
            ("| built |", "| perhaps |"),
            ("| yes |", "| mostly |"),
            ("| folder |", "| crate |"),
            ("| `crates/core` | |", "| `crates/core` |"),
        ] {
            let broken = SAMPLE.replacen(from, to, 1);
            assert!(CrateTable::parse(&broken).is_err(), "{from} -> {to}");
        }
    }
}
