//! The page of a report: one file, nothing fetched, readable in light and dark.
//!
//! The dashboard's charts draw the figures' numbers ([`StandalonePage`]). A reader without scripts
//! sees still pictures of them. Text is escaped once, and characters that would change how their
//! neighbours look are written as numbers.

use super::{Finding, Report, Section, Table};
use crate::figure::{Figure, STYLE, escaped};
use serde_json::Value;
use shoal_dashboard::StandalonePage;
use std::fmt::Write;

/// Returns the page. With `has_files` it links to the files beside it.
pub(super) fn page(report: &Report, has_files: bool) -> String {
    let mut body = String::new();
    paragraph(&mut body, "lead", &report.question);
    listing(&mut body, "the command", "command", &report.command);
    answers(&mut body, report);
    facts(&mut body, report);
    contents(&mut body, report);
    for part in &report.sections {
        section(&mut body, report, part, has_files);
    }
    let figures: Vec<Value> = report.figures().filter_map(Figure::live).collect();
    let (title, figures) = (escaped(&report.title), Value::from(figures));
    // A report without a figure brings no style along.
    let style: &str = &STYLE;
    let styles: &[&str] = if body.contains(style) { &[style] } else { &[] };
    StandalonePage { title: &title, body: &body, styles, figures: &figures }.html()
}

/// Writes a text to be copied.
fn listing(page: &mut String, name: &str, class: &str, text: &str) {
    let _ = writeln!(page, "<pre class=\"{class} copied\" aria-label=\"{name}\">{}</pre>", escaped(text));
}

/// Writes the answers that come first, where the report has any.
fn answers(page: &mut String, report: &Report) {
    if report.answers.is_empty() {
        return;
    }
    page.push_str("<dl class=\"answers\">\n");
    for (name, answer) in &report.answers {
        let _ = writeln!(page, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(answer));
    }
    page.push_str("</dl>\n");
}

fn facts(page: &mut String, report: &Report) {
    // Behind answers the facts are details.
    let is_behind = !report.answers.is_empty();
    page.push_str(if is_behind { "<details>\n<summary>More facts</summary>\n" } else { "" });
    page.push_str("<table class=\"facts\">\n<tbody>\n");
    let seed = ("seed".to_string(), report.seed.to_string());
    for (name, value) in report.facts.iter().chain([&seed]) {
        let _ =
            writeln!(page, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    }
    page.push_str("</tbody>\n</table>\n");
    page.push_str(if is_behind { "</details>\n" } else { "" });
}

fn contents(page: &mut String, report: &Report) {
    page.push_str("<nav aria-label=\"Sections\">\n<ul>\n");
    for section in &report.sections {
        let (anchor, title) = (escaped(&section.anchor), escaped(&section.title));
        let _ = writeln!(page, "<li><a href=\"#{anchor}\">{title}</a></li>");
    }
    page.push_str("</ul>\n</nav>\n");
}

fn section(page: &mut String, report: &Report, section: &Section, has_files: bool) {
    let (anchor, title) = (escaped(&section.anchor), escaped(&section.title));
    let _ = writeln!(page, "<section id=\"{anchor}\">\n<h2>{title}</h2>");
    paragraph(page, "question", &section.question);
    for shown in &section.figures {
        figure(page, shown, has_files);
    }
    findings(page, report, &section.findings);
    for (further, file) in section.tables.iter().zip(section.table_files()) {
        table(page, further, has_files.then_some(&file));
    }
    if !section.listing.is_empty() {
        listing(page, &section.title, "file", &section.listing);
    }
    for note in &section.notes {
        paragraph(page, "note", note);
    }
    page.push_str("</section>\n");
}

fn figure(page: &mut String, figure: &Figure, has_files: bool) {
    let (name, caption) = (escaped(&figure.name), escaped(&figure.caption()));
    let links = match has_files {
        true => format!(" <a href=\"{name}.csv\">CSV</a> <a href=\"{name}.svg\">SVG</a>"),
        false => String::new(),
    };
    let _ = writeln!(
        page,
        "<figure id=\"picture-{name}\">\n<div class=\"drawing\" id=\"drawing-{name}\">{}</div>\n<figcaption>{caption}{links}</figcaption>\n</figure>",
        figure.svg(),
    );
}

fn findings(page: &mut String, report: &Report, findings: &[Finding]) {
    if findings.is_empty() {
        return;
    }
    page.push_str(
        "<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"Findings\"><table class=\"findings\">\n<thead><tr><th>finding</th><th>paper</th>",
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

fn table(page: &mut String, table: &Table, file: Option<&String>) {
    let title = escaped(&table.title);
    let link = file.map_or(String::new(), |file| format!(" <a class=\"file\" href=\"{file}\">CSV</a>"));
    let _ = write!(
        page,
        "<h3>{title}{link}</h3>\n<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\"><table class=\"runs\">\n<thead><tr>"
    );
    for name in &table.heading {
        let tag = if name.is_empty() { "td" } else { "th" };
        let _ = write!(page, "<{tag}>{}</{tag}>", escaped(name));
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
