//! Results of `shoal replay --json`, for the column of a real disk.

use crate::failure::Failure;
use serde_json::Value;
use shoal_lab::experiment::maltzahn::{Outcome, Transfers};
use std::path::Path;

/// Reads one file of results: a run, under its architecture's name.
pub fn read(path: &Path) -> Result<Outcome, Failure> {
    let failed = |why: String| Failure::Runtime(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    outcome(&text).map_err(failed)
}

fn outcome(text: &str) -> Result<Outcome, String> {
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
    let bytes = number(device, "bytes_read")? + number(device, "bytes_written")?;
    Ok(Outcome {
        name: match replay["policy"].as_str() {
            None | Some("own") => name.into(),
            Some(policy) => format!("{name}, {policy}"),
        },
        requests: number(measured, "requests")?,
        hits: number(measured, "hits")?,
        files: Transfers { reads: number(device, "reads")?, writes: number(device, "writes")?, bytes },
        mapped: Transfers::default(),
        seconds: measured["seconds"].as_f64().unwrap_or_default()
            + measured["sync_seconds"].as_f64().unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_read_and_what_is_none_is_refused() {
        let text = r#"{"architecture": "squidl", "policy": "own", "end": "done", "parts": {"measured": {"requests": 10, "hits": 4,
            "seconds": 1.5, "sync_seconds": 0.5, "device": {"reads": 2, "writes": 3, "bytes_read": 8192, "bytes_written": 4096}}}}"#;
        let read = outcome(text).unwrap();
        assert_eq!((read.name.as_str(), read.hits, read.ios(), read.seconds), ("squidl", 4, 5, 2.0));
        assert_eq!(read.files.bytes, 12_288);
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
