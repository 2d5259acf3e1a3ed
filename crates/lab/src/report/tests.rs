//! Invariants of every report: a well-formed page with everything in it, a summary that programs
//! can read, files that match.

use super::*;
use crate::figure::{Axis, Bar, Bars, Chart};

#[test]
fn the_page_holds_everything_and_is_well_formed() {
    let page = sample().html();
    crate::figure::check_well_formed(&page);
    for part in [
        "A &lt;title&gt;",
        "id=\"figure-1\"",
        "74%",
        "80.1%",
        "1.08",
        "–",
        "seed",
        "why &amp; how",
        "<em>late</em> 2 * 3 <code>a*b</code>",
        "href=\"figure-1-table-1.csv\"",
        "Figure 1: Sizes",
        "<pre class=\"command copied\" aria-label=\"the command\">shoal lab run sample</pre>",
        "<dt>hits</dt><dd>many &lt;b&gt;</dd>",
        "aria-label=\"Sizes\">ram = 1\n</pre>",
        "further",
    ] {
        assert!(page.contains(part), "{part} is missing");
    }
    assert_eq!(page.matches("<svg").count(), 1);
    assert!(!page.contains("src=") && !page.contains("url("), "nothing is fetched");
    let alone = sample().html_alone();
    crate::figure::check_well_formed(&alone);
    assert!(!alone.contains("href=\"figure-1"), "no file lies beside it");
}

#[test]
fn the_summary_tells_claimed_and_found() {
    let summary: serde_json::Value = serde_json::from_str(&sample().summary()).unwrap();
    let finding = &summary["findings"][0];
    assert_eq!(finding["key"], "small");
    assert_eq!(finding["claimed"], 0.74);
    assert_eq!(finding["found"]["modelled"], 0.801);
    assert_eq!(finding["found"]["real"], serde_json::Value::Null);
    assert_eq!(finding["ratio"], 1.082432);
    assert_eq!(summary["findings"][1]["claim"], "fewer");
    assert_eq!(summary["facts"]["trace"], "made");
    let table = &summary["tables"][0];
    assert_eq!((&table["file"], &table["rows"][0][1]), (&"figure-1-table-1.csv".into(), &"1".into()));
}

#[test]
fn write_makes_every_file_or_names_the_failed_one() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("a/b");
    sample().write(&below).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(&below)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "figure-1-findings.csv",
        "figure-1-table-1.csv",
        "figure-1.csv",
        "figure-1.svg",
        "index.html",
        "summary.json",
    ];
    assert_eq!(names, expected);
    let read = |name: &str| std::fs::read_to_string(below.join(name)).unwrap();
    assert_eq!(read("figure-1-table-1.csv"), "name,value\na,1\n");
    let findings = read("figure-1-findings.csv");
    assert!(findings.starts_with("key,what,unit,claim,modelled,real\nsmall,"), "{findings}");
    assert!(findings.contains(",74%,0.801,\n") && findings.contains("fewer,7,8\n"), "{findings}");
    let blocked = below.join("index.html");
    let error = sample().write(&blocked).unwrap_err().to_string();
    assert!(error.contains(&*blocked.to_string_lossy()), "{error}");
}

fn sample() -> Report {
    let bars = Bars {
        axis: Axis::linear("I/O", Unit::Count),
        parts: vec!["files".into()],
        bars: vec![Bar::new("squid", &[3.0])],
        claimant: "paper".into(),
    };
    let mut table = Table::new("further", &["name", "value"]);
    table.row(&["a", "1"]);
    let section = Section {
        anchor: "figure-1".into(),
        title: "Sizes".into(),
        question: "how large?".into(),
        figures: vec![Figure::new("figure-1", "Sizes", "They grow.", Chart::Bars(bars))],
        findings: vec![
            Finding::new("small", "at most 8 KB", Unit::Share, Claim::Is(0.74)).found(&[Some(0.801), None]),
            Finding::new("words", "I/Os", Unit::Count, Claim::Words("fewer".into()))
                .found(&[Some(7.0), Some(8.0)]),
        ],
        tables: vec![table],
        notes: vec!["why & how".into(), "*late* 2 * 3 `a*b`".into()],
        listing: "ram = 1\n".into(),
    };
    Report {
        name: "sample".into(),
        title: "A <title>".into(),
        question: "what?".into(),
        command: "shoal lab run sample".into(),
        seed: 7,
        answers: vec![("hits".into(), "many <b>".into())],
        facts: vec![("trace".into(), "made".into())],
        columns: vec!["modelled".into(), "real".into()],
        sections: vec![section],
    }
}
