//! Each format with lines that it reads and lines that it refuses, and detection among them.

use super::*;

const BOSTON: &str = "time_us\tmachine\tuser\tlab\tbytes\tbytes_filled\tdelay_ms\tbrowser_hit\turl";
const NASA: &str = "time_s\tclient\tmethod\tstatus\tbytes\turl";
const TENCENT: &str = "time_s\tobject\tbytes\tformat\tspec\tterminal\tcache_state";
const SQUID: &str =
    "1066036250.603    310 192.0.2.30 TCP_MISS/200 1234 GET http://a.example/ - DIRECT/192.0.2.1 -";
const COMMON: &str = r#"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a b HTTP/1.0" 200 2326"#;
const COMBINED: &str =
    r#"192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a\"b HTTP/1.1" 304 - "http://x/" "Mozilla" HIT"#;

fn detected(beginning: &str) -> Option<&'static str> {
    Parser::detect(beginning, None).ok().map(|(parser, _)| parser.format().name())
}

fn parsed<'a>(beginning: &str, line: &'a str) -> Result<Parsed<'a>, Reason> {
    Parser::detect(beginning, None).expect("a format").0.parse(line)
}

fn request<'a>(beginning: &str, line: &'a str) -> Record<'a> {
    match parsed(beginning, line) {
        Ok(Parsed::Request(record)) => record,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn formats_are_told_apart() {
    for (beginning, format) in [
        (BOSTON, Some("table")),
        (NASA, Some("table")),
        ("Time,URL,Size\n1,a,2", Some("table")),
        (SQUID, Some("squid")),
        (COMMON, Some("common")),
        (COMBINED, Some("common")),
        ("# made by hand\n\nhttp://a/ 17\n", Some("url_size")),
        ("v2/a/b/manifests/c\nv2\n", Some("paths")),
        ("904906\n896511\n", Some("pages")),
        ("s 131071\nl 131071\n", Some("pages")),
        ("garbage here it is\nhttp://a/ 17\nhttp://b/ 18", Some("url_size")),
        ("", None),
        ("# nothing\n", None),
        ("three words here\n", None),
        ("{\n  \"key\": [\n    1\n  ]  }\n{ \"key\": 2 }", None),
    ] {
        assert_eq!(detected(beginning), format, "{beginning}");
    }
}

#[test]
fn shared_tables_are_read() {
    let line = "785433179434793\tcs17\t8\t272\t1934\t1934\t532\t0\thttp://cs-www.bu.edu/";
    let record = request(BOSTON, line);
    assert_eq!((record.time_ms, record.bytes), (Some(785_433_179_434), Some(1934)));
    assert_eq!((record.client.as_deref(), &*record.url), (Some("cs17"), "http://cs-www.bu.edu/"));
    let browser = "785433179434793\tcs17\t8\t272\t0\t1934\t0\t1\thttp://cs-www.bu.edu/";
    assert_eq!(parsed(BOSTON, browser), Ok(Parsed::LeftOut));
    let record = request(NASA, "807249601\t0\tGET\t304\t0\t/");
    assert_eq!((record.status, record.method.as_deref()), (Some(304), Some("GET")));
    let record = request(TENCENT, "1454345164\t085abb\t12903\tm\t5\tPHONE\t1");
    assert_eq!((&*record.url, record.bytes), ("085abb/m/5", Some(12903)));
}

#[test]
fn bad_rows_have_a_reason() {
    for (line, reason) in [
        ("1\t2", "the line has another number of columns than the first"),
        ("x\t0\tGET\t200\t5\t/", "the time is not a number"),
        ("1\t0\tGET\t200\tmany\t/", "the size is not a whole number"),
        ("1\t0\tGET\tok\t5\t/", "the status is not a number of three digits"),
        ("1\t0\tGET\t200\t5\t", "the object has no name"),
    ] {
        assert_eq!(parsed(NASA, line), Err(reason), "{line}");
    }
    for (line, reason) in
        [("1,\"a,2", "a quoted field does not end"), ("1,\"a\"b,2", "something follows a quoted field")]
    {
        assert_eq!(parsed("time,url,size", line), Err(reason), "{line}");
    }
}

#[test]
fn quoted_fields_are_put_together() {
    let record = request("time,url,size", "1.5,\"http://a/\"\"x,y\",7");
    assert_eq!((&*record.url, record.bytes, record.time_ms), ("http://a/\"x,y", Some(7), Some(1500)));
}

#[test]
fn access_logs_are_read() {
    let record = request(SQUID, SQUID);
    assert_eq!(
        (record.time_ms, record.status, record.bytes),
        (Some(1_066_036_250_603), Some(200), Some(1234))
    );
    assert_eq!((record.client.as_deref(), record.method.as_deref()), (Some("192.0.2.30"), Some("GET")));
    let record = request(COMMON, COMMON);
    assert_eq!((&*record.url, record.bytes, record.time_ms), ("/a b", Some(2326), Some(971_211_336_000)));
    let record = request(COMMON, COMBINED);
    assert_eq!((&*record.url, record.status, record.bytes), ("/a\\\"b", Some(304), None));
}

#[test]
fn bad_log_lines_have_a_reason() {
    for (beginning, line, reason) in [
        (SQUID, "1066036250.603 310 192.0.2.30", "a native log line has seven fields at least"),
        (SQUID, "1 1 c TCP_MISS 1 GET http://a/ -", "the fourth field is not like TCP_MISS/200"),
        (SQUID, "1 x c TCP_MISS/200 1 GET http://a/ -", "the elapsed time is not a number"),
        (COMMON, "", "there is no client"),
        (COMMON, "a - - x", "there is no [time]"),
        (COMMON, "a - - [x] y", "there is no [time] before a quoted request"),
        (COMMON, "a - - [10/Oct/2000:13:55:36 -0700] \"GET /", "the quoted request does not end"),
        (COMMON, "a - - [10/Oct/2000:13:55:36 -0700] \"-\" 400 0", "the request has no target"),
        (COMMON, "a - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03 x\" 400 0", "the request has no method"),
        (COMMON, "a - - [10/Oct/2000:13:55:36 -0700] \"GET /\" 200", "status or size is missing"),
    ] {
        assert_eq!(parsed(beginning, line), Err(reason), "{line}");
    }
}
