//! Counts of words and sentences in comments and pages.

use super::{House, Place};

/// Words that begin a free relative clause.
pub fn free_relatives(house: &House<'_>) -> Vec<Place> {
    let is_free = |word: &&str| FREE.contains(&bare(word).to_lowercase().as_str());
    in_paragraphs(house, |text| text.split_whitespace().filter(is_free).map(str::to_string).collect())
}

/// Doc comments whose first word is a question word or a pronoun.
pub fn openings(house: &House<'_>) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, _) in &house.sources {
        let mut before = "";
        for (at, line) in file.text.lines().map(str::trim_start).enumerate() {
            let first = line.strip_prefix("/// ").filter(|_| !before.starts_with("///"));
            let word = first.and_then(|text| text.split_whitespace().next());
            if word.is_some_and(|word| OPENINGS.contains(&bare(word))) {
                places.push(Place::new(file, at + 1, line));
            }
            before = line;
        }
    }
    places
}

/// Quantities without a name.
pub fn quantities(house: &House<'_>) -> Vec<Place> {
    in_paragraphs(house, |text| {
        let words: Vec<String> = text.split_whitespace().map(|word| bare(word).to_lowercase()).collect();
        let is_one = |words: &[String]| {
            words[0] == "so"
                && ["many", "much", "few"].contains(&words[1].as_str())
                && words.get(2).is_none_or(|next| !["that", "as"].contains(&next.as_str()))
        };
        let starts = (0..words.len().saturating_sub(1)).filter(|at| is_one(&words[*at..]));
        starts.map(|at| words[at..].iter().take(4).cloned().collect::<Vec<_>>().join(" ")).collect()
    })
}

/// Sentences that nobody reads in one breath.
pub fn long_sentences(house: &House<'_>) -> Vec<Place> {
    let is_long = |sentence: &&str| sentence.split_whitespace().count() > SENTENCE_WORDS;
    in_paragraphs(house, |text| sentences(text).filter(is_long).map(str::to_string).collect())
}

/// Lines of prose that are too long. Tables and headings of pages are no prose.
pub fn long_lines(house: &House<'_>) -> Vec<Place> {
    let is_long = |line: &str| line.chars().count() > COLUMNS;
    let comments = house.sources.iter().flat_map(|(file, _)| {
        let lines = file.text.lines().enumerate();
        lines
            .filter(|(_, line)| line.trim_start().starts_with("//") && is_long(line))
            .map(|(at, line)| Place::new(file, at + 1, line))
    });
    let pages = house.pages.iter().flat_map(|page| {
        let lines = page.text.lines().enumerate();
        lines
            .filter(|(_, line)| !line.starts_with(['|', '#']) && is_long(line))
            .map(|(at, line)| Place::new(page, at + 1, line))
    });
    comments.chain(pages).collect()
}

/// A place for each text that `find` returns for a paragraph of a comment.
fn in_paragraphs(house: &House<'_>, find: impl Fn(&str) -> Vec<String>) -> Vec<Place> {
    let mut places = Vec::new();
    for (file, _) in &house.sources {
        for (line, text) in paragraphs(&file.text) {
            places.extend(find(&text).iter().map(|found| Place::new(file, line, found)));
        }
    }
    places
}

/// Paragraphs of comments without code: the number of the first line, and the text as one line.
fn paragraphs(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut paragraph, mut begun, mut is_code) = (String::new(), 1, false);
    for (at, line) in text.lines().chain([""]).enumerate() {
        let comment =
            line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim());
        is_code ^= comment.is_some_and(|comment| comment.starts_with("```"));
        let is_prose = |comment: &&str| {
            !is_code && !comment.is_empty() && !comment.starts_with(['|', '#']) && !comment.starts_with("```")
        };
        match comment.filter(is_prose) {
            Some(comment) if !comment.starts_with("- ") => {
                begun = if paragraph.is_empty() { at + 1 } else { begun };
                paragraph.push_str(comment);
                paragraph.push(' ');
            }
            other => {
                let next = other.map(|item| format!("{item} ")).unwrap_or_default();
                found.push((begun, std::mem::replace(&mut paragraph, next)));
                begun = at + 1;
                is_code &= comment.is_some();
            }
        }
    }
    found.push((begun, paragraph));
    found.retain(|(_, text)| !text.is_empty());
    found
}

fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive([' '])
        .fold(vec![(0, 0)], |mut spans, word| {
            let last = spans.last_mut().expect("begins with one");
            last.1 += word.len();
            let end = last.1;
            if word.trim_end().ends_with(['.', ':', ';', '?', '!']) {
                spans.push((end, end));
            }
            spans
        })
        .into_iter()
        .map(|(from, to)| &text[from..to])
}

fn bare(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

const FREE: &[&str] = &["what", "who", "whom", "whose", "whoever", "whatever", "whomever"];
const OPENINGS: &[&str] = &[
    "What", "Who", "Whose", "Whom", "Whoever", "Whatever", "Which", "Where", "When", "How", "Why", "Whether",
    "It", "Its", "They", "Them", "Those", "Of", "Then", "Such", "And", "Else",
];
const SENTENCE_WORDS: usize = 25;
const COLUMNS: usize = 100;
