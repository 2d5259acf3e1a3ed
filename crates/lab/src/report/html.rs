//! The page of a report: one file, no scripts, nothing fetched, readable in light and dark.

use super::{Finding, Report, Section, Table};
use crate::figure::{Figure, escaped};
use std::fmt::Write;

pub(super) fn page(report: &Report) -> String {
    let mut page = String::new();
    let title = escaped(&report.title);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    );
    paragraph(&mut page, "lead", &report.question);
    let _ = writeln!(page, "<pre class=\"command\">{}</pre>", escaped(&report.command));
    facts(&mut page, report);
    contents(&mut page, report);
    for part in &report.sections {
        section(&mut page, report, part);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

fn facts(page: &mut String, report: &Report) {
    page.push_str("<table class=\"facts\">\n<tbody>\n");
    let seed = ("seed".to_string(), report.seed.to_string());
    for (name, value) in report.facts.iter().chain([&seed]) {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    }
    page.push_str("</tbody>\n</table>\n");
}

fn contents(page: &mut String, report: &Report) {
    page.push_str("<nav>\n<ul>\n");
    for section in &report.sections {
        let (anchor, title) = (escaped(&section.anchor), escaped(&section.title));
        let _ = writeln!(page, "<li><a href=\"#{anchor}\">{title}</a></li>");
    }
    page.push_str("</ul>\n</nav>\n");
}

fn section(page: &mut String, report: &Report, section: &Section) {
    let (anchor, title) = (escaped(&section.anchor), escaped(&section.title));
    let _ = writeln!(page, "<section id=\"{anchor}\">\n<h2>{title}</h2>");
    paragraph(page, "question", &section.question);
    for shown in &section.figures {
        figure(page, shown);
    }
    findings(page, report, &section.findings);
    for (further, file) in section.tables.iter().zip(section.table_files()) {
        table(page, further, &file);
    }
    for note in &section.notes {
        paragraph(page, "note", note);
    }
    page.push_str("</section>\n");
}

fn figure(page: &mut String, figure: &Figure) {
    let name = escaped(&figure.name);
    let _ = writeln!(
        page,
        "<figure id=\"{name}\">\n<div class=\"drawing\">{}</div>\n<figcaption>{} <a href=\"{name}.csv\">CSV</a> \
         <a href=\"{name}.svg\">SVG</a></figcaption>\n</figure>",
        figure.svg(),
        escaped(&figure.caption())
    );
}

fn findings(page: &mut String, report: &Report, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"wide\"><table class=\"findings\">\n<thead><tr><th>finding</th><th>paper</th>",
    );
    let value = |finding: &Finding, column: usize| finding.found.get(column).copied().flatten();
    // A column without values here is left out; the first stays.
    let is_filled =
        |column: &usize| *column == 0 || findings.iter().any(|finding| value(finding, *column).is_some());
    let columns: Vec<usize> = (0..report.columns.len()).filter(is_filled).collect();
    let compares = findings.iter().any(|finding| finding.ratio().is_some());
    for column in &columns {
        let _ = write!(page, "<th>{}</th>", escaped(&report.columns[*column]));
    }
    page.push_str(if compares { "<th>ours / paper</th>" } else { "" });
    page.push_str("</tr></thead>\n<tbody>\n");
    for finding in findings {
        let claim = finding.claim.shown(finding.unit);
        let class = if claim.chars().any(char::is_alphanumeric) { " class=\"claim\"" } else { "" };
        let _ = write!(page, "<tr><td>{}</td><td{class}>{}</td>", escaped(&finding.what), escaped(&claim));
        for column in &columns {
            let shown = value(finding, *column).map_or("–".into(), |value| finding.unit.shown(value));
            let _ = write!(page, "<td>{}</td>", escaped(&shown));
        }
        if compares {
            let ratio = finding.ratio().map_or(String::new(), |ratio| format!("{ratio:.2}"));
            let _ = write!(page, "<td>{ratio}</td>");
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn table(page: &mut String, table: &Table, file: &str) {
    let _ = write!(
        page,
        "<h3>{} <a class=\"file\" href=\"{file}\">CSV</a></h3>\n<div class=\"wide\"><table class=\"runs\">\n<thead><tr>",
        escaped(&table.title)
    );
    for name in &table.heading {
        let _ = write!(page, "<th>{}</th>", escaped(name));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table></div>\n");
}

fn paragraph(page: &mut String, class: &str, text: &str) {
    if !text.is_empty() {
        let _ = writeln!(page, "<p class=\"{class}\">{}</p>", marked(text));
    }
}

/// Returns a text escaped, with `*words*` set in italics and `` `words` `` as code.
fn marked(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['*', '`']) {
        let mark = &rest[at..=at];
        let after = &rest[at + 1..];
        let inside = after.find(mark).map(|end| &after[..end]);
        let is_word = |words: &&str| {
            words.starts_with(char::is_alphanumeric) && !words.ends_with(' ') && words.len() <= MARKED_MAX
        };
        let code = inside.filter(|words| mark == "`" && !words.is_empty());
        shown += &escaped(&rest[..at]);
        match code.or(inside.filter(is_word)) {
            Some(words) => {
                let tag = if mark == "`" { "code" } else { "em" };
                let _ = write!(shown, "<{tag}>{}</{tag}>", escaped(words));
                rest = &after[words.len() + 1..];
            }
            None => {
                shown += mark;
                rest = after;
            }
        }
    }
    shown + &escaped(rest)
}

/// Longest text between two stars that is set in italics.
const MARKED_MAX: usize = 60;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2733;--soft:#5b6875;--rule:#dfe4ea;--face:#ffffff;--tint:#f4f6f8;--paper:#b3261e;--link:#1f6fb2}\
@media (prefers-color-scheme:dark){:root{--ink:#e4e9ef;--soft:#9aa7b4;--rule:#333d48;--face:#14191f;--tint:#1c232b;--paper:#ff8a80;--link:#63b1ee}}\
body{margin:0;background:var(--face);color:var(--ink);font:15px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif}\
main{max-width:760px;margin:0 auto;padding:32px 20px 80px}\
h1{font-size:26px;line-height:1.25;margin:0 0 12px}h2{font-size:19px;margin:48px 0 6px;padding-top:14px;border-top:1px solid var(--rule)}\
h3{font-size:14px;margin:22px 0 6px}a{color:var(--link)}p{margin:8px 0}.lead,.question{color:var(--soft)}\
pre{background:var(--tint);padding:10px 12px;border-radius:6px;overflow-x:auto;font:13px/1.45 ui-monospace,'DejaVu Sans Mono',monospace;white-space:pre-wrap}\
pre.command{user-select:all;-webkit-user-select:all;cursor:copy}h3 .file{font-weight:400;margin-left:6px}\
nav ul{padding-left:18px;columns:2;column-gap:32px;margin:14px 0}\
figure{margin:18px 0}.drawing{overflow-x:auto}.drawing svg{display:block;max-width:100%;height:auto}figcaption{color:var(--soft);font-size:13px}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13.5px;margin:10px 0}\
th,td{padding:4px 12px 4px 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--rule);font-variant-numeric:tabular-nums}\
th{color:var(--soft);font-weight:600}th:first-child,td:first-child,.facts td,.facts th{text-align:left}\
.facts th{white-space:nowrap}td{white-space:nowrap}td:first-child,.facts td,td.claim{white-space:normal}\
.runs td:first-child{white-space:nowrap}.claim{color:var(--paper);font-weight:600}";
