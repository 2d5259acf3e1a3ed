//! Each format with accepted lines and refused lines, and the detection of the formats.

use super::*;
use crate::Outcome;

const BOSTON: &str = "time_us\tmachine\tuser\tlab\tbytes\tbytes_filled\tdelay_ms\tbrowser_hit\turl";
const NASA: &str = "time_s\tclient\tmethod\tstatus\tbytes\turl";
const TENCENT: &str = "time_s\tobject\tbytes\tformat\tspec\tterminal\tcache_state";
const SQUID: &str =
    "1066036250.603    310 192.0.2.30 TCP_MISS/200 1234 GET http://a.example/ - DIRECT/192.0.2.1 -";
const COMMON: &str = r#"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET /a b HTTP/1.0" 200 2326"#;
const COMBINED: &str =
    r#"192.0.2.7 - frank [10/Oct/2000:13:55:36 -0700] "GET /a\"b HTTP/1.1" 304 - "http://x/" "Mozilla" HIT"#;

fn detected(beginning: &str) -> Option<&'static str> {
    Parser::detect(beginning.as_bytes(), None, None, None).ok().map(|(parser, _)| parser.format().name())
}

fn parsed<'a>(beginning: &str, line: &'a str) -> Result<ParsedLine<'a>, Reason> {
    Parser::detect(beginning.as_bytes(), None, None, None).expect("a format").0.parse(line)
}

fn request<'a>(beginning: &str, line: &'a str) -> Record<'a> {
    match parsed(beginning, line) {
        Ok(ParsedLine::Request(record)) => record,
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
        ("#Software: IIS\n#Fields: date time cs-uri-stem\n2024-01-01 00:00:00 /a", Some("w3c")),
        (r#"{"ts":1.5,"request":{"host":"a","uri":"/"},"status":200,"size":5}"#, Some("json")),
        ("0,17,4096\n1,18,512,3\n", Some("csv")),
        ("# time, object, size\n0,17,4096\n", Some("table")),
        ("", None),
        ("# nothing\n", None),
        ("three words here\n", None),
        ("1 17 4096\n2 18 512 3 0.5\n", Some("csv")),
        ("1.5\t17\t4096\n", Some("csv")),
        ("time id size\n1 17 4096\n", Some("table")),
        ("time  id  size\n1   17  4096\n", Some("table")),
        ("the path of this\n", None),
        ("time|url|bytes\n1|a|2\n", Some("table")),
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
    assert_eq!(parsed(BOSTON, browser), Ok(ParsedLine::LeftOut));
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
fn cache_verdicts_are_read() {
    let tail = |tail: &str| format!(r#"a - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5{tail}"#);
    for (rest, from_cache) in [
        ("", None),
        (r#" "-" "curl/8" HIT"#, Some(true)),
        (r#" "-" "curl/8" "EXPIRED""#, Some(false)),
        (r#" "-" "curl/8""#, None),
        (r#" "-" "curl/8" miss"#, Some(false)),
        (r#" "-" "curl/8" "shoal; hit; ttl=30""#, Some(true)),
        (r#" "-" "curl/8" "far; hit, shoal; fwd=stale""#, Some(false)),
        (r#" "-" "a \"hit\"" -"#, None),
    ] {
        assert_eq!(request(COMMON, &tail(rest)).from_cache(), from_cache, "{rest}");
    }
    for (code, from_cache) in [
        ("TCP_MEM_HIT", true),
        ("TCP_HIT_ABORTED", true),
        ("TCP_REFRESH_UNMODIFIED", true),
        ("TCP_MISS", false),
        ("TCP_REFRESH_MODIFIED_ABORTED", false),
    ] {
        let line = SQUID.replace("TCP_MISS", code);
        assert_eq!(request(SQUID, &line).from_cache(), Some(from_cache), "{code}");
    }
}

#[test]
fn json_lines_are_read() {
    let ours = r#"{"time":"2000-10-10T13:55:36.004Z","duration_us":12,"client":"192.0.2.7","client_port":4,"method":"GET","url":"http://a.example/x","version":"1.1","status":200,"head_bytes":234,"body_bytes":1000,"aborted":false,"outcome":"memory_hit","cache_status":"shoal; hit"}"#;
    let record = request(ours, ours);
    assert_eq!((record.time_ms, record.bytes, record.status), (Some(971_186_136_004), Some(1000), Some(200)));
    assert_eq!((&*record.url, record.from_cache()), ("http://a.example/x", Some(true)));
    let caddy = r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"127.0.0.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b","headers":{"User-Agent":["curl/7.82.0"],"host":["x"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.0009,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}"#;
    let record = request(caddy, caddy);
    assert_eq!(
        (record.time_ms, record.bytes, record.status),
        (Some(1_646_861_401_524), Some(10_900), Some(200))
    );
    assert_eq!((&*record.url, record.client.as_deref()), ("https://localhost/a?b", Some("127.0.0.1")));
    for (line, reason) in [
        ("{", "this is no JSON object"),
        ("[1]", "this is no JSON object"),
        (r#"{"url":"/a"} x"#, "something follows the JSON object"),
        (r#"{"status":200}"#, "the object has no name"),
        (r#"{"url":"/a","status":"OK"}"#, "the status is not a number of three digits"),
        (r#"{"url":"/a","ts":-5}"#, "the time is absurd"),
        (r#"{"url":"/a","bytes":1.5}"#, "the size is not a whole number"),
    ] {
        assert_eq!(parsed(caddy, line), Err(reason), "{line}");
    }
    let deep = format!(r#"{{"url":"/a","request":{}1{}}}"#, r#"{"request":"#.repeat(500), "}".repeat(500));
    assert_eq!(parsed(caddy, &deep), Err("this is no JSON object"));
}

#[test]
fn extended_logs_are_read() {
    let head = "#Version: 1.0\n#Date: 2002-05-02 17:42:15\n#Fields: time cs-method cs-uri\n";
    let record = request(head, "17:42:16 GET http://a.example/x");
    assert_eq!((record.time_ms, &*record.url), (Some(1_020_361_336_000), "http://a.example/x"));
    let iis = "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes cs(User-Agent)";
    let record = request(iis, "2024-01-01 00:00:01 10.0.0.1 GET /a q=1 200 512 \"x y\"");
    assert_eq!((&*record.url, record.bytes, record.status), ("/a?q=1", Some(512), Some(200)));
    let front = "#Fields: date time sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status x-edge-result-type x-host-header cs-protocol";
    let row = "2024-01-01\t00:00:01\t2390\t192.0.2.1\tGET\td1.example\t/a b\t200\tHit\twww.example\thttps";
    let record = request(front, row);
    assert_eq!((&*record.url, record.from_cache()), ("https://www.example/a b", Some(true)));
    for (line, reason) in [
        ("17:42:16 GET", "the line has fewer fields than #Fields names"),
        ("17:42:16 GET / x", "the line has more fields than #Fields names"),
        ("17-42 GET /", "the time is not like 17:42:15"),
        ("17:42:16 GET -", "the object has no name"),
    ] {
        assert_eq!(parsed(head, line), Err(reason), "{line}");
    }
    let (mut parser, _) = Parser::detect(head.as_bytes(), None, None, None).expect("a format");
    assert_eq!(parser.comment("#Fields: date time"), Err("#Fields names no column with a URL"));
    assert_eq!(parser.comment("#Fields: cs-uri-stem"), Ok(()));
    assert!(matches!(parser.parse("/only"), Ok(ParsedLine::Request(record)) if record.url == "/only"));
}

#[test]
fn columns_can_be_told() {
    let told = |names| Parser::detect(b"x;5;/a\n", None, Some(names), None).map(|(parser, _)| parser);
    let parser = told("client;bytes;url").expect("names");
    let Ok(ParsedLine::Request(record)) = parser.parse("x;5;/a") else { panic!("a request") };
    assert_eq!((&*record.url, record.bytes, parser.names_due()), ("/a", Some(5), false));
    assert!(told("client;bytes;what").is_err());
}

#[test]
fn separator_is_told_or_found() {
    let told = |lines: &str, names: Option<&str>, separator| {
        Parser::detect(lines.as_bytes(), None, names, separator).map(|(parser, _)| parser)
    };
    for (line, names, separator) in [
        ("1\tc 1\t17\t4096", "time,client,id,size", None),
        ("1   c   17 4096", "time,client,id,size", None),
        ("1 c 17 4096", "time client id size", None),
        ("1|c|17|4096", "time,client,id,size", Separator::named("|")),
        (" 1 \"c c\" 17 4096 ", "time,client,id,size", Separator::named("space")),
    ] {
        let parser = told(line, Some(names), separator).expect("names");
        let Ok(ParsedLine::Request(record)) = parser.parse(line) else { panic!("{line}") };
        assert_eq!((&*record.url, record.bytes, record.time_ms), ("17", Some(4096), Some(1000)), "{line}");
        assert_eq!(record.client.as_deref().map(|client| &client[..1]), Some("c"), "{line}");
    }
    let spaced = "url size\na,b 5\n";
    assert!(told(spaced, None, Some(Separator::Comma)).is_err());
    let parser = told(spaced, None, Some(Separator::Space)).expect("names");
    let Ok(ParsedLine::Request(record)) = parser.parse("a,b 5") else { panic!("a request") };
    assert_eq!((&*record.url, parser.names_due()), ("a,b", true));
    assert!(Separator::ALL.into_iter().all(|mark| Separator::named(mark.name()) == Some(mark)));
}

#[test]
fn outcomes_and_lifetimes_are_read() {
    let line = |line: &str| {
        let record = request(line, line);
        (record.outcome, record.ttl_seconds)
    };
    let combined = r#"a - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 5 "-" "agent""#;
    for (rest, outcome) in [
        (r#" "x" HIT rt=0.005"#, Some(Outcome::Hit)),
        (r#" cache="EXPIRED" "-""#, Some(Outcome::Replaced)),
        (r#" ucs=BYPASS"#, Some(Outcome::Bypass)),
        (r#" "none" user"#, None),
        (r#" "shoal; fwd=uri-miss; key=\"GET /\"; detail=no-store""#, Some(Outcome::NotStored("no-store"))),
    ] {
        assert_eq!(line(&format!("{combined}{rest}")).0, outcome, "{rest}");
    }
    let hostile = combined.replace("\"-\"", "\"HIT\"").replace("agent", "MISS now");
    assert_eq!(line(&hostile).0, None, "referrer and agent are the client's words");
    for (text, found) in [
        (
            r#"{"url":"/a","outcome":"miss","cache_status":"shoal;fwd=uri-miss;detail=never-reusable"}"#,
            (Some(Outcome::NotStored("never-reusable")), None),
        ),
        (
            r#"{"url":"/a","outcome":"collapsed","cache_status":"shoal;fwd=uri-miss;stored"}"#,
            (Some(Outcome::Collapsed), None),
        ),
        (r#"{"url":"/a","cache_status":"shoal;hit;ttl=30"}"#, (Some(Outcome::Hit), Some(30))),
        (
            r#"{"url":"/a","upstream_cache_status":"MISS","sent_http_cache_control":"max-age=60"}"#,
            (Some(Outcome::Miss), Some(60)),
        ),
        (r#"{"url":"/a","upstream_http_cache_control":"max-age=60"}"#, (None, Some(60))),
        (
            r#"{"uri":"/a","resp_headers":{"Cache-Control":["private"],"Cache-Status":["c; fwd=uri-miss"]}}"#,
            (Some(Outcome::NotStored("private")), None),
        ),
    ] {
        assert_eq!(line(text), found, "{text}");
    }
    let record = request("time_s,url,outcome,ttl_s", "1,a,EXPIRED,-5");
    assert_eq!((record.outcome, record.ttl_seconds), (Some(Outcome::Replaced), Some(-5)));
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

#[test]
fn paths_of_different_hosts_are_different_objects() {
    let line = |host: &str| {
        format!("{host} 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 5 \"-\" \"x\"")
    };
    for (host, url) in [
        ("www.example.org:443", "https://www.example.org/a"),
        ("www.example.org:80", "http://www.example.org/a"),
        ("www.example.org", "http://www.example.org/a"),
        ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080/a"),
    ] {
        let line = line(host);
        let record = request(&line, &line);
        assert_eq!((&*record.url, record.client.as_deref()), (url, Some("192.0.2.7")));
    }
    let named = r#"192.0.2.7 - John Smith [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200 2326"#;
    let whole = r#"a:80 192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET http://b/a HTTP/1.0" 200 2326"#;
    for (line, url) in [(named, "/a"), (whole, "http://b/a")] {
        let record = request(line, line);
        assert_eq!((&*record.url, record.client.as_deref()), (url, Some("192.0.2.7")), "{line}");
    }
    for (names, line, url) in [
        ("time,client_ip,host,uri,bytes", "1,c,a.example,/x,5", "http://a.example/x"),
        ("time,scheme,vhost,uri,bytes", "1,https,a.example,/x,5", "https://a.example/x"),
        ("time,vhost,uri,bytes", "1,a.example,http://b.example/x,5", "http://b.example/x"),
        ("time,vhost,uri,bytes", "1,-,/x,5", "/x"),
        // Some publishers use this name for the client.
        ("host,time,uri,bytes", "c.example,1,/x,5", "/x"),
    ] {
        assert_eq!(request(names, line).url, url, "{names}");
    }
    let (_, assumed) = Parser::detect(b"host,time,uri,bytes\n", None, None, None).expect("a table");
    assert!(assumed.iter().any(|words| words.contains("column host is not looked at")), "{assumed:?}");
}

#[test]
fn time_in_wrong_unit_gets_hint() {
    let why = parsed("timestamp,url,size", "1700000000000,a,5").expect_err("no seconds");
    assert!(why.contains("time_ms"), "{why}");
    assert_eq!(request("time_ms,url,size", "1700000000000,a,5").time_ms, Some(1_700_000_000_000));
}
