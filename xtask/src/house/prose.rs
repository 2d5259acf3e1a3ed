//! Counts of words and sentences in comments and pages.

use super::House;

/// Words that begin a free relative clause.
pub fn free_relatives(house: &House<'_>) -> usize {
    let is_free = |word: &&str| FREE.contains(&bare(word).to_lowercase().as_str());
    paragraphs(house).iter().map(|text| text.split_whitespace().filter(is_free).count()).sum()
}

/// Doc comments whose first word is a question word or a pronoun.
pub fn openings(house: &House<'_>) -> usize {
    let mut count = 0;
    for (file, _) in &house.sources {
        let mut before = "";
        for line in file.text.lines().map(str::trim_start) {
            let first = line.strip_prefix("/// ").filter(|_| !before.starts_with("///"));
            let word = first.and_then(|text| text.split_whitespace().next());
            count += usize::from(word.is_some_and(|word| OPENINGS.contains(&bare(word))));
            before = line;
        }
    }
    count
}

/// Quantities without a name.
pub fn quantities(house: &House<'_>) -> usize {
    let in_text = |text: &String| {
        let words: Vec<String> = text.split_whitespace().map(|word| bare(word).to_lowercase()).collect();
        let is_one = |words: &[String]| {
            words[0] == "so"
                && ["many", "much", "few"].contains(&words[1].as_str())
                && words.get(2).is_none_or(|next| !["that", "as"].contains(&next.as_str()))
        };
        (0..words.len().saturating_sub(1)).filter(|at| is_one(&words[*at..])).count()
    };
    paragraphs(house).iter().map(in_text).sum()
}

/// Sentences that nobody reads in one breath.
pub fn long_sentences(house: &House<'_>) -> usize {
    let is_long = |sentence: &&str| sentence.split_whitespace().count() > SENTENCE_WORDS;
    paragraphs(house).iter().map(|text| sentences(text).filter(is_long).count()).sum()
}

/// Lines of prose that are too long. Tables and headings of pages are no prose.
pub fn long_lines(house: &House<'_>) -> usize {
    let is_long = |line: &&str| line.chars().count() > COLUMNS;
    let comments = house.sources.iter().flat_map(|(file, _)| file.text.lines());
    let comments = comments.filter(|line| line.trim_start().starts_with("//"));
    let pages = house.pages.iter().flat_map(|page| page.text.lines());
    let pages = pages.filter(|line| !line.starts_with(['|', '#']));
    comments.filter(is_long).count() + pages.filter(is_long).count()
}

/// Paragraphs of comments, each in one line, without code.
fn paragraphs(house: &House<'_>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, _) in &house.sources {
        let (mut text, mut is_code) = (String::new(), false);
        for line in file.text.lines().chain([""]) {
            let comment =
                line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim());
            is_code ^= comment.is_some_and(|comment| comment.starts_with("```"));
            match comment.filter(|comment| {
                !is_code
                    && !comment.is_empty()
                    && !comment.starts_with(['|', '#'])
                    && !comment.starts_with("```")
            }) {
                Some(comment) if !comment.starts_with("- ") => {
                    text.push_str(comment);
                    text.push(' ');
                }
                other => {
                    found.push(std::mem::replace(&mut text, other.unwrap_or_default().to_string()));
                    is_code &= comment.is_some();
                }
            }
        }
        found.push(text);
    }
    found.retain(|text| !text.is_empty());
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
