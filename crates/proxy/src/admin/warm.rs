//! `POST /warm`, `GET /warm` and `POST /warm/stop`: warming from a list in the body.

use super::{Control, query};
use crate::warming::{WarmRefusal, WarmRequest};
use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use shoal_mirrors::wanted::{Choice, Format};
use std::time::Duration;

/// Reads a request from the query. The body is the list.
pub(super) fn parse(query: Option<&str>, list: Bytes) -> Result<WarmRequest, String> {
    let mut request = WarmRequest { list, ..WarmRequest::default() };
    for (name, value) in query::parameters(query.unwrap_or_default())? {
        let words = || value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        match name {
            "file" => request.file = value,
            "format" => request.format = Some(value.parse::<Format>()?),
            "at" => request.at = words(),
            "plan" => request.is_plan = flag(name, &value)?,
            "ahead" => request.is_ahead = flag(name, &value)?,
            "any-host" => request.any_host = flag(name, &value)?,
            "pin" => request.pin = Some(time(&value)?),
            "verify" => request.verifies = flag(name, &value)?,
            "wheels" => request.choice = Choice { wheels: words(), ..request.choice },
            "platforms" => request.choice = Choice { platforms: words(), ..request.choice },
            other => return Err(format!("there is no {other:?}: {NAMES}")),
        }
    }
    if request.list.is_empty() {
        return Err("the body is empty; it is the lockfile or list".to_owned());
    }
    Ok(request)
}

/// Reads the time of a pin.
fn time(value: &str) -> Result<Duration, String> {
    let time = shoal_settings::read_duration(value)?;
    match time.is_zero() || time > PIN_MAX {
        true => Err(format!("pin={value} is not between a second and ten years")),
        false => Ok(time),
    }
}

/// Returns `true` for a name without a value, or with `1`.
fn flag(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "" | "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(format!("{name}={value} is neither 0 nor 1")),
    }
}

/// Starts a job.
pub(super) fn started(control: &dyn Control, query: Option<&str>, list: Bytes) -> (StatusCode, Value) {
    let outcome = parse(query, list).map_err(WarmRefusal::Invalid).and_then(|request| control.warm(request));
    match outcome {
        Ok(report) => (StatusCode::ACCEPTED, json!(report)),
        Err(WarmRefusal::Invalid(why)) => (StatusCode::BAD_REQUEST, json!({ "error": why })),
        Err(WarmRefusal::Full) => (StatusCode::TOO_MANY_REQUESTS, json!({ "error": FULL })),
        Err(WarmRefusal::Starting) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "error": STARTING })),
    }
}

/// Reports one job by `?job=`, or all.
pub(super) fn told(control: &dyn Control, query: Option<&str>) -> (StatusCode, Value) {
    match job(query) {
        Ok(None) => (StatusCode::OK, json!({ "jobs": control.warm_reports() })),
        Ok(Some(number)) => match control.warm_reports().into_iter().find(|report| report.job == number) {
            Some(report) => (StatusCode::OK, json!(report)),
            None => (StatusCode::NOT_FOUND, json!({ "error": NO_JOB })),
        },
        Err(why) => (StatusCode::BAD_REQUEST, json!({ "error": why })),
    }
}

/// Stops the job of `?job=`.
pub(super) fn stopped(control: &dyn Control, query: Option<&str>) -> (StatusCode, Value) {
    match job(query) {
        Ok(Some(number)) if control.stop_warm(number) => (StatusCode::OK, json!({ "stopped": number })),
        Ok(Some(_)) => (StatusCode::NOT_FOUND, json!({ "error": NO_JOB })),
        Ok(None) => (StatusCode::BAD_REQUEST, json!({ "error": "?job= names the job" })),
        Err(why) => (StatusCode::BAD_REQUEST, json!({ "error": why })),
    }
}

fn job(query: Option<&str>) -> Result<Option<u64>, String> {
    match &*query::parameters(query.unwrap_or_default())? {
        [] => Ok(None),
        [("job", number)] => {
            number.parse().map(Some).map_err(|_| format!("job={number} is not the number of a job"))
        }
        _ => Err("?job= names a job, and nothing else".to_owned()),
    }
}

const PIN_MAX: Duration = Duration::from_secs(3650 * 86_400);
const NAMES: &str = "file, format, at, plan, ahead, pin, any-host, verify, wheels or platforms";
const FULL: &str = "four jobs run or wait; try again when one has ended";
const STARTING: &str = "the node has no worker yet";
const NO_JOB: &str = "no job of this number; the last 32 are kept";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_from_queries() {
        let list = Bytes::from_static(b"x");
        let query = "file=a%2Fuv.lock&format=uv&at=http://a:1,http://b&plan&any-host=1&verify=0&pin=30d&wheels=*-cp3*,x&platforms=linux/amd64";
        let request = parse(Some(query), list.clone()).expect("a request");
        assert_eq!((&*request.file, request.format), ("a/uv.lock", Some(Format::UvLock)));
        assert_eq!(request.at, ["http://a:1", "http://b"]);
        assert_eq!((request.is_plan, request.any_host, request.verifies), (true, true, false));
        assert_eq!(request.pin, Some(Duration::from_secs(30 * 86_400)));
        let wheels = ["*-cp3*", "x"].map(str::to_owned).to_vec();
        assert_eq!(request.choice, Choice { wheels, platforms: vec!["linux/amd64".into()] });
        for query in
            ["format=tar", "pin=0s", "pin=x", "pin=20000d", "plan=yes", "what=1", "file=a&file=b", "file=%zz"]
        {
            assert!(parse(Some(query), list.clone()).is_err(), "{query}");
        }
        assert!(parse(None, Bytes::new()).is_err_and(|why| why.contains("empty")));
    }

    #[test]
    fn jobs_are_named_by_number() {
        for (query, expected) in [
            (None, Ok(None)),
            (Some("job=7"), Ok(Some(7))),
            (Some("job=x"), Err("job=x is not the number of a job".to_owned())),
            (Some("x=7"), Err("?job= names a job, and nothing else".to_owned())),
        ] {
            assert_eq!(job(query), expected, "{query:?}");
        }
    }
}
