//! Results of `shoal replay --json`, for the column of a real disk.
//!
//! A run is named by its architecture. A run of `squidmla` with evictions from its mapped file
//! stands for a finite cache. Such a run is named by its policy, like the runs of Figure 7 on the
//! modelled machine.

use crate::failure::Failure;
use serde_json::Value;
use shoal_lab::machine_runs::{RunResult, Transfers};
use std::path::Path;

/// Reads one file of results: a run, under its name, and a description of its disk where the file
/// has one (`bench/disk.py` adds it).
pub fn read(path: &Path) -> Result<(RunResult, Option<String>), Failure> {
    let failed = |why: String| Failure::Runtime(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let run = outcome(&text).map_err(failed)?;
    let replay: Value = serde_json::from_str(&text).unwrap_or_default();
    Ok((run, replay["ground"].as_str().map(str::to_owned)))
}

fn outcome(text: &str) -> Result<RunResult, String> {
    let replay: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let measured = &replay["parts"]["measured"];
    let device = &measured["device"];
    let number = |of: &Value, name: &str| {
        of[name].as_u64().ok_or_else(|| {
            format!("holds no {name}; it should be what `shoal replay --json` prints of a disk")
        })
    };
    let name = replay["architecture"]
        .as_str()
        .ok_or("names no architecture; it should be what `shoal replay --json` prints")?;
    if replay["end"] != "done" {
        return Err(format!("the replay of {name} did not come to its end"));
    }
    let gave_up = measured["evicted_by_store"].as_u64().unwrap_or_default() > 0;
    Ok(RunResult {
        name: match (replay["policy"].as_str(), replay["segment_policy"].as_str()) {
            (None | Some("own"), Some(policy)) if gave_up && name == "squidmla" => policy.into(),
            (None | Some("own"), _) => name.into(),
            (Some(policy), _) => format!("{name}, {policy}"),
        },
        requests: number(measured, "requests")?,
        hits: number(measured, "hits")?,
        files: Transfers {
            reads: number(device, "reads")?,
            writes: number(device, "writes")?,
            bytes_read: number(device, "bytes_read")?,
            bytes_written: number(device, "bytes_written")?,
        },
        mapped: Transfers::default(),
        seconds: measured["seconds"].as_f64().unwrap_or_default()
            + measured["sync_seconds"].as_f64().unwrap_or_default(),
        ..RunResult::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replay_is_read_and_other_text_refused() {
        let text = r#"{"architecture": "squidl", "policy": "own", "end": "done", "parts": {"measured": {"requests": 10, "hits": 4,
            "seconds": 1.5, "sync_seconds": 0.5, "device": {"reads": 2, "writes": 3, "bytes_read": 8192, "bytes_written": 4096}}}}"#;
        let read = outcome(text).unwrap();
        assert_eq!((read.name.as_str(), read.hits, read.ios(), read.seconds), ("squidl", 4, 5, 2.0));
        assert_eq!(read.files.mean_bytes(), Some(12_288.0 / 5.0));
        let finite =
            text.replace("squidl", "squidmla").replace("\"end\"", "\"segment_policy\": \"lru\", \"end\"");
        assert_eq!(outcome(&finite).unwrap().name, "squidmla", "it gave up nothing");
        let finite = finite.replace("\"hits\": 4", "\"hits\": 4, \"evicted_by_store\": 1");
        assert_eq!(outcome(&finite).unwrap().name, "lru");
        for (from, to, why) in [
            ("done", "failed", "did not come to its end"),
            ("\"reads\"", "\"other\"", "holds no reads"),
            ("architecture", "other", "names no architecture"),
        ] {
            assert!(outcome(&text.replace(from, to)).unwrap_err().contains(why));
        }
        assert!(outcome("no JSON").is_err());
    }
}
