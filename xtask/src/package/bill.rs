//! The bill of materials: CycloneDX 1.5 as JSON, <https://cyclonedx.org/docs/1.5/json/>.

use super::Release;
use super::components::Components;
use serde_json::json;

/// The crates of others with version, licence, package URL and SHA-256.
pub(super) fn cyclonedx(components: &Components, release: &Release) -> String {
    let list: Vec<_> = components
        .0
        .iter()
        .map(|component| {
            let address = format!("pkg:cargo/{}@{}", component.name, component.version);
            json!({
                "type": "library",
                "bom-ref": address,
                "name": component.name,
                "version": component.version,
                "purl": address,
                "licenses": [{ "expression": spdx(&component.license) }],
                "hashes": [{ "alg": "SHA-256", "content": component.checksum }],
            })
        })
        .collect();
    let whole = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": iso(release.epoch),
            "component": {
                "type": "application",
                "bom-ref": "shoal",
                "name": "shoal",
                "version": release.version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            },
        },
        "components": list,
        "dependencies": [{
            "ref": "shoal",
            "dependsOn": components
                .0
                .iter()
                .map(|component| format!("pkg:cargo/{}@{}", component.name, component.version))
                .collect::<Vec<_>>(),
        }],
    });
    format!("{whole:#}\n")
}

/// Old manifests part alternatives by a slash.
fn spdx(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

/// Unix seconds as `2026-01-02T03:04:05Z`, by the civil calendar of days since 1970.
fn iso(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    assert!((1..=12).contains(&month) && (1..=31).contains(&day), "a date of the calendar");
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3_600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::components::Component;

    #[test]
    fn a_bill_names_each_crate() {
        let components = Components(vec![Component {
            name: "a".into(),
            version: "1.2.3".into(),
            license: "MIT/Apache-2.0".into(),
            checksum: "00".repeat(32),
            folder: "/a".into(),
        }]);
        let bill = cyclonedx(&components, &Release { version: "0.1.0".into(), epoch: 1_700_000_000 });
        let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.2.3");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    }

    #[test]
    fn days_become_dates() {
        let cases = [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (4_107_542_400, "2100-03-01")];
        for (seconds, date) in cases {
            assert_eq!(iso(seconds), format!("{date}T00:00:00Z"));
        }
    }
}
