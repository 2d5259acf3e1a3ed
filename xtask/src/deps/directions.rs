//! Dependencies point downward: each crate uses only those that its row of the crate table names.

use super::metadata::{Metadata, Package};
use crate::crate_table::{CrateTable, PAGE, Row};
use crate::finding::Finding;

/// Libraries that bring a power with them; a crate without the power may not take them.
const POWERS: &[(&str, &[&str])] = &[
    ("sockets", &["tokio", "hyper", "hyper-util", "h2", "socket2", "tokio-rustls"]),
    ("files", &["rustls-native-certs"]),
    ("randomness", &["rand", "getrandom", "fastrand", "uuid"]),
    ("environment", &["clap", "directories", "dirs"]),
];

/// Library that a crate may also take where connections are passed in: for its locks, channels and
/// traits. `cargo xtask tidy` refuses `tokio::net` there.
const TOKIO: &str = "tokio";

/// Compares the workspace with the table.
pub fn check(metadata: &Metadata, table: &CrateTable) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in table.rows() {
        let member = metadata.members().find(|(folder, _)| *folder == row.folder);
        match (member, row.built) {
            (Some((_, package)), true) => findings.extend(of_one(package, row, table, metadata)),
            (None, false) => {}
            (None, true) => findings.push(Finding::new(
                PAGE,
                0,
                "crate table",
                format!("{} is \"built\" and does not exist", row.folder),
            )),
            (Some(_), false) => findings.push(Finding::new(
                PAGE,
                0,
                "crate table",
                format!("{} exists; say \"built\"", row.folder),
            )),
        }
    }
    for (folder, _) in metadata.members() {
        if !table.rows().iter().any(|row| row.folder == folder) {
            findings.push(Finding::new(PAGE, 0, "crate table", format!("{folder} has no row")));
        }
    }
    findings
}

fn of_one(package: &Package, row: &Row, table: &CrateTable, metadata: &Metadata) -> Vec<Finding> {
    let path = format!("{}/Cargo.toml", row.folder);
    let mut findings = Vec::new();
    for dependency in &package.dependencies {
        let own = metadata.members().find(|(_, other)| other.name == dependency.name);
        let own_name = own.and_then(|(folder, _)| folder.rsplit('/').next());
        if let Some(name) = own_name.filter(|name| !row.may_depend_on.iter().any(|allowed| allowed == name)) {
            let message = format!(
                "{} may not depend on {name}: its row in {PAGE} allows {:?}",
                row.name, row.may_depend_on
            );
            findings.push(Finding::new(&path, 0, "direction", message));
        }
        let brings = POWERS.iter().find(|(_, libraries)| libraries.contains(&dependency.name.as_str()));
        let is_granted = |power| match dependency.name == TOKIO {
            true => table.is_passed(row, power),
            false => table.has_anywhere(row, power),
        };
        if let Some((power, _)) = brings.filter(|(power, _)| dependency.kind.is_none() && !is_granted(power))
        {
            let message = format!("{} brings {power}, which {} has not in {PAGE}", dependency.name, row.name);
            findings.push(Finding::new(&path, 0, "direction", message));
        }
    }
    for allowed in &row.may_depend_on {
        let known = table.rows().iter().any(|other| other.name == *allowed);
        if !known {
            findings.push(Finding::new(
                PAGE,
                0,
                "crate table",
                format!("{} may depend on {allowed:?}, which has no row", row.name),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::metadata::Dependency;
    use super::*;
    use crate::crate_table::tests::SAMPLE;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency { name: name.to_string(), kind: None };
        Package {
            name: name.into(),
            folder: Some(folder.into()),
            dependencies: dependencies.iter().map(dependency).collect(),
            ..Package::default()
        }
    }

    fn found(packages: Vec<Package>) -> Vec<String> {
        let table = CrateTable::parse(SAMPLE).expect("the sample is valid");
        check(&Metadata { packages }, &table).into_iter().map(|finding| finding.message).collect()
    }

    fn house() -> Vec<Package> {
        vec![
            package("shoal-core", "crates/core", &["serde"]),
            package("shoal-store", "crates/store", &["shoal-core"]),
            package("shoal-proxy", "crates/proxy", &["shoal-core", "shoal-store", "tokio"]),
            package("shoal-message", "crates/message", &["shoal-core", "tokio"]),
        ]
    }

    #[test]
    fn the_house_as_drawn_passes() {
        assert_eq!(found(house()), Vec::<String>::new());
    }

    #[test]
    fn each_departure_is_found() {
        let mut upward = house();
        upward[0] = package("shoal-core", "crates/core", &["shoal-store"]);
        assert!(found(upward)[0].contains("core may not depend on store"));
        let mut sockets = house();
        sockets[1] = package("shoal-store", "crates/store", &["tokio"]);
        assert!(found(sockets)[0].contains("tokio brings sockets"));
        let mut passed = house();
        passed[3] = package("shoal-message", "crates/message", &["socket2"]);
        assert!(found(passed)[0].contains("socket2 brings sockets"));
        let mut early = house();
        early.push(package("shoal-lab", "crates/lab", &[]));
        assert_eq!(found(early), ["crates/lab exists; say \"built\""]);
        let mut unknown = house();
        unknown.push(package("shoal-shed", "crates/shed", &[]));
        assert_eq!(found(unknown), ["crates/shed has no row"]);
        assert_eq!(found(house().split_off(1)), ["crates/core is \"built\" and does not exist"]);
    }
}
