//! Tests of the screen: cells of given documents, in every size, and the picture in docs.

use super::*;
use crate::top::state::{Document, NodeFacts, TopAnswer};
use ratatui_core::backend::TestBackend;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;
use shoal_dashboard::documents::*;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

fn state_of(document: Document) -> ScreenState {
    let view = document.view();
    let mut state = ScreenState::new("127.0.0.1:3129".into(), view, None);
    let facts = NodeFacts {
        node: "cache1".into(),
        version: "0.1.0".into(),
        uptime_s: 270_000,
        state: "ready".into(),
        unix_ms: 1_800_000_000_000,
    };
    state.take(TopAnswer { facts, document });
    state
}

fn drawn(state: &ScreenState, width: u16, height: u16) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(state, frame.buffer_mut())).expect("drawn");
    terminal.backend().buffer().clone()
}

fn answer(source: &str, requests_per_s: f64, p50_us: u64, p99_us: u64) -> AnswerRow {
    AnswerRow {
        source: source.into(),
        requests: (requests_per_s * 9000.0) as u64,
        requests_per_s,
        bytes_per_s: requests_per_s * 20_000.0,
        p50_us: Some(p50_us),
        p99_us: Some(p99_us),
    }
}

fn site(name: &str, requests_per_s: f64, hit_ratio: f64) -> SiteRow {
    SiteRow {
        name: name.into(),
        requests: (requests_per_s * 9000.0) as u64,
        requests_per_s,
        hit_ratio: Some(hit_ratio),
        byte_hit_ratio: Some(hit_ratio / 2.0),
        bytes_per_s: requests_per_s * 20_000.0,
        p99_us: Some(45_000),
        errors: requests_per_s as u64 % 3,
    }
}

fn sample_now() -> NowDocument {
    // Most answers of a source take about the same time; some are slower for a while.
    let columns = |middle: u32, most: u32| {
        let count = |at: u32, bucket: u32| {
            let slow = u32::from((22..31).contains(&at) && middle > 3);
            let far = bucket.abs_diff(middle + slow);
            (most >> (4 * far.min(7))) + at * 7 % (bucket + 2) * u32::from(far < 2)
        };
        (0..60).map(|at| (0..8).map(|bucket| count(at, bucket)).collect()).collect::<Vec<Vec<u32>>>()
    };
    NowDocument {
        requests: 19_345_000,
        requests_per_s: 2149.4,
        hit_ratio: Some(0.913),
        byte_hit_ratio: Some(0.784),
        hit_ratio_day: Some(0.897),
        byte_hit_ratio_day: Some(0.771),
        bytes_per_s: 43_000_000.0,
        origin_bytes_per_s: 9_200_000.0,
        origin_bytes_saved: 3_100_000_000_000,
        answers: vec![
            answer("ram", 1602.0, 40, 900),
            answer("disk", 331.5, 350, 12_000),
            answer("origin", 187.9, 48_000, 420_000),
            answer("stale", 28.0, 60, 1_100),
            AnswerRow { source: "error".into(), ..AnswerRow::default() },
        ],
        heat: Heat {
            edges_us: vec![50, 100, 1_000, 5_000, 50_000, 500_000, 2_000_000],
            column_s: 10,
            sources: BTreeMap::from([
                ("ram".into(), columns(0, 16_000)),
                ("origin".into(), columns(4, 2_000)),
            ]),
        },
        limits: Limits {
            cpu_cores_used: 1.71,
            cores: 2,
            ram_used: 250 << 20,
            ram_limit: 256 << 20,
            rss: 410_000_000,
            disk_used: 7_100_000_000,
            disk_limit: 20_000_000_000,
            connections: 812,
            max_connections: 10_000,
            origin_connections: 96,
        },
        sites: vec![site("www.example.org/", 1203.0, 0.95), site("forward", 946.4, 0.41)],
        mirrors: vec![MirrorRow { site: site("npm", 31.0, 0.99), kind: "npm".into() }],
        warnings: vec!["These origins do not answer: http://10.0.0.9:8000".into()],
        ..NowDocument::default()
    }
}

fn hostile() -> String {
    format!("http://a.test/\u{202e}gnp.exe\u{1b}]0;title\u{7}\r\n<script>\u{200b}猫{}", "x".repeat(8192))
}

/// Documents with the worst text and the most rows that a node may send.
fn hostile_documents() -> Vec<Document> {
    let text = hostile();
    let mut now = sample_now();
    now.sites = (0..ROWS_MAX).map(|at| site(&format!("{at}{text}"), f64::MAX, f64::NAN)).collect();
    now.warnings = vec![text.clone(); ROWS_MAX];
    now.answers.push(AnswerRow {
        source: text.clone(),
        requests: u64::MAX,
        requests_per_s: f64::INFINITY,
        ..AnswerRow::default()
    });
    now.heat.sources.insert(text.clone(), vec![vec![u32::MAX; 500]; 60]);
    now.limits.ram_limit = 0;
    let reason = ReasonRow {
        reason: text.clone(),
        requests: u64::MAX,
        share: f64::NAN,
        samples: vec![text.clone()],
        settings: vec![text.clone()],
        ..ReasonRow::default()
    };
    let origin =
        OriginRow { name: text.clone(), state: text.clone(), since_ms: u64::MAX, ..OriginRow::default() };
    let object =
        ObjectRow { url: text.clone(), place: text, origin_ms: Some(u64::MAX), ..ObjectRow::default() };
    vec![
        Document::Now(Box::new(now)),
        Document::Reasons(ReasonsDocument { misses: vec![reason; ROWS_MAX], ..ReasonsDocument::default() }),
        Document::Origins(OriginsDocument { origins: vec![origin; ROWS_MAX], ..OriginsDocument::default() }),
        Document::Objects(ObjectsDocument { objects: vec![object; ROWS_MAX], ..ObjectsDocument::default() }),
    ]
}

#[test]
fn hostile_text_is_cut_in_every_size() {
    for document in hostile_documents() {
        let mut state = state_of(document);
        state.trouble = Some(hostile());
        state.site = Some(hostile());
        for (width, height) in
            [(1, 1), (7, 3), (20, 10), (40, 24), (80, 24), (99, 50), (100, 30), (200, 60), (300, 8)]
        {
            let buffer = drawn(&state, width, height);
            assert_eq!(*buffer.area(), Rect::new(0, 0, width, height));
            let text = lines(&buffer).concat();
            let obeyed = |letter: char| {
                letter.is_control()
                    || ('\u{200b}'..='\u{200f}').contains(&letter)
                    || ('\u{2028}'..='\u{202e}').contains(&letter)
            };
            assert!(!text.contains(obeyed), "{width}x{height}");
        }
    }
}

#[test]
fn now_has_the_figures_of_the_dashboard() {
    let state = state_of(Document::Now(Box::new(sample_now())));
    let text = lines(&drawn(&state, 110, 40)).join("\n");
    for part in [
        "shoal cache1 ready up 3 days 3 h, 0.1.0 at 08:00:00",
        " 1 Now  2 Why not  3 Origins  4 Objects",
        "2,149",
        "91.3%",
        "89.7% over the day",
        "3.1 TB",
        "! These origins do not answer",
        "RAM ",
        "74.5%",
        "1.71 of 2 cores",
        "812 of 10,000",
        "262 MB of 256 MiB",
        "Times to answer, the last 10 min 0 s",
        "www.example.org/",
        "npm (npm)",
        "s order by requests",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("Error "), "sources without answers are left out\n{text}");
    let narrow = lines(&drawn(&state, 44, 30)).join("\n");
    assert!(narrow.contains("requests/s") && narrow.contains("RAM tier"), "{narrow}");
}

#[test]
fn tables_have_their_columns_and_order() {
    let origin = |name: &str, errors: u64, state: &str| OriginRow {
        name: name.into(),
        errors,
        state: state.into(),
        p99_us: Some(errors),
        ..OriginRow::default()
    };
    let origins = vec![origin("http://a", 0, "up"), origin("http://b", 9, "down")];
    let mut state = state_of(Document::Origins(OriginsDocument { origins, ..OriginsDocument::default() }));
    let order = |state: &ScreenState| {
        let text = lines(&drawn(state, 100, 12)).join("\n");
        text.find("http://a").zip(text.find("http://b")).is_some_and(|(a, b)| a < b)
    };
    assert!(order(&state));
    state.sortings[View::Origins as usize] = RowOrder::Bytes;
    assert!(!order(&state), "by errors");
    let buffer = drawn(&state, 100, 12);
    let is_red = |cell: &&ratatui_core::buffer::Cell| cell.fg == Color::Red;
    assert!(buffer.content().iter().filter(is_red).count() >= "down".len());
    let objects =
        vec![ObjectRow { url: "http://a.test/x".into(), place: "ram".into(), ..ObjectRow::default() }];
    let objects = ObjectsDocument { objects, sampled_one_in: 64, ..ObjectsDocument::default() };
    let text = lines(&drawn(&state_of(Document::Objects(objects)), 100, 12)).join("\n");
    assert!(text.contains("http://a.test/x") && text.contains("one in 64"), "{text}");
    let reasons = ReasonsDocument {
        misses: vec![ReasonRow { reason: "uri-miss".into(), share: 0.25, ..ReasonRow::default() }],
        ..ReasonsDocument::default()
    };
    let text = lines(&drawn(&state_of(Document::Reasons(reasons)), 100, 12)).join("\n");
    assert!(text.contains("uri-miss") && text.contains("25.0%"), "{text}");
}

#[test]
fn states_without_numbers_say_why() {
    let mut state = ScreenState::new("unix:/run/a.sock".into(), View::Now, None);
    assert!(lines(&drawn(&state, 80, 10)).join("\n").contains("asking …"));
    state.trouble = Some("no node answers".into());
    let text = lines(&drawn(&state, 80, 10)).join("\n");
    assert!(text.contains("The numbers are old: no node answers") && !text.contains("asking"), "{text}");
    state.shows_help = true;
    state.is_paused = true;
    let text = lines(&drawn(&state, 80, 20)).join("\n");
    assert!(text.contains("space, p") && text.contains("PAUSED"), "{text}");
}

#[test]
fn late_answer_of_another_view_is_dropped() {
    let mut state = state_of(Document::Now(Box::new(sample_now())));
    state.go(View::Origins);
    assert!(state.document().is_none());
    let late = state_of(Document::Now(Box::default())).answer.expect("an answer");
    state.take(late);
    assert!(state.document().is_none());
}

#[test]
fn text_without_terminal_has_all_rows() {
    let mut now = sample_now();
    now.sites = (0..60).map(|at| site(&format!("site{at}/"), 60.0 - f64::from(at), 0.5)).collect();
    let text = super::text(&state_of(Document::Now(Box::new(now))), 100);
    assert!(text.contains("site59/") && !text.contains("more rows") && !text.contains("q end"), "{text}");
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
}

/// The picture in docs is this screen. `SHOAL_SCREENSHOTS=1` writes it anew.
#[test]
fn picture_in_docs_is_current() {
    let state = state_of(Document::Now(Box::new(sample_now())));
    let picture = svg(&drawn(&state, 110, 36));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/dashboard/top.svg");
    if std::env::var_os("SHOAL_SCREENSHOTS").is_some() {
        std::fs::write(&path, &picture).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == picture, "docs/dashboard/top.svg is old: run this test with SHOAL_SCREENSHOTS=1");
}

/// Returns a buffer as a picture: a run of cells of one style is one text.
fn svg(buffer: &Buffer) -> String {
    let (cell, row) = (8.4, 18.0);
    let area = buffer.area();
    let (width, height) = (f64::from(area.width) * cell + 20.0, f64::from(area.height) * row + 20.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"14\">\n\
         <title>shoal top in a terminal</title>\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#15191f\"/>\n"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let style = |x: u16| {
                let cell = &buffer[(x, y)];
                (cell.fg, cell.modifier)
            };
            let (fg, modifier) = style(x);
            let from = x;
            let mut text = String::new();
            while x < area.width && style(x) == (fg, modifier) {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            let (left, base) = (10.0 + f64::from(from) * cell, 10.0 + f64::from(y) * row);
            let length = f64::from(x - from) * cell;
            let mut fill = colour(fg);
            if modifier.contains(Modifier::REVERSED) {
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left:.1}\" y=\"{base:.1}\" width=\"{length:.1}\" height=\"{row}\" fill=\"{fill}\"/>"
                );
                fill = "#15191f";
            }
            if text.trim().is_empty() {
                continue;
            }
            let line =
                if modifier.contains(Modifier::UNDERLINED) { " text-decoration=\"underline\"" } else { "" };
            let weight = if modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            let _ = writeln!(
                svg,
                "<text x=\"{left:.1}\" y=\"{:.1}\" fill=\"{fill}\"{weight}{line} textLength=\"{length:.1}\" \
                 xml:space=\"preserve\">{text}</text>",
                base + 13.5
            );
        }
    }
    svg + "</svg>\n"
}

fn colour(colour: Color) -> &'static str {
    match colour {
        Color::DarkGray => "#7d8590",
        Color::Green => "#57c785",
        Color::Yellow => "#e3b341",
        Color::Red => "#ff7b72",
        Color::Cyan => "#56d4dd",
        Color::Blue => "#79b8ff",
        Color::Indexed(24) => "#1f4e79",
        Color::Indexed(31) => "#2f7fae",
        Color::Indexed(38) => "#3fa7d6",
        Color::Indexed(51) => "#7fe3ff",
        _ => "#dfe5ec",
    }
}
