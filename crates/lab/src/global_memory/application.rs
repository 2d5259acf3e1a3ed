//! Programs as their references to pages, read or made.
//!
//! The programs of the dissertation (m3, ld, render, …) were traced on Alphas, and their traces are
//! not available. Their *kinds* are made here, so that an experiment runs without a trace: a small
//! hot part, loops, and a window that moves on. Recorded references come from any trace of page
//! numbers.

use shoal_trace::{Random, Trace};

/// A program's references.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Application {
    /// Name of the program.
    pub name: String,
    /// Referenced pages, in order, numbered from 0 by first reference.
    pub references: Vec<u32>,
    /// Number of pages: the program's footprint.
    pub pages: usize,
    /// Client of each reference; empty where the trace does not tell.
    pub clients: Vec<u32>,
}

impl Application {
    /// Takes the references of a trace.
    pub fn of(name: &str, trace: &Trace) -> Self {
        let references: Vec<u32> = trace.requests().iter().map(|request| request.object).collect();
        let names_clients = trace.clients().len() > 1;
        let clients =
            trace.requests().iter().filter(|_| names_clients).map(|request| request.client).collect();
        Self { name: name.into(), pages: trace.objects().len(), references, clients }
    }

    /// Returns a file's name as a curve's label: `pages-sprite.txt.zst` as `sprite`.
    pub fn short_name(&self) -> String {
        let name = self.name.split('.').next().unwrap_or(&self.name);
        name.strip_prefix("pages-").unwrap_or(name).chars().take(LONGEST_NAME).collect()
    }

    /// Returns the fraction `of / parts` of its pages, at least one.
    pub fn part(&self, of: usize, parts: usize) -> usize {
        (self.pages * of / parts).max(1)
    }

    /// Makes programs of several kinds with `references` references each.
    pub fn made(references: usize, seed: u64) -> Vec<Self> {
        let kinds: [(&str, Kind); 4] =
            [("hot and cold", hot_and_cold), ("phases", phases), ("loop", circles), ("database", database)];
        let make = |(index, (name, kind)): (usize, (&str, Kind))| {
            let pages = (references / REFERENCES_A_PAGE).clamp(64, 4096) as u64;
            let mut random = Random::of(seed, index as u64);
            let drawn = (0..references as u64).map(|at| kind(&mut random, at, references as u64, pages));
            Self::numbered(name, drawn)
        };
        kinds.into_iter().enumerate().map(make).collect()
    }

    /// Numbers the pages of references by first reference.
    fn numbered(name: &str, references: impl Iterator<Item = u64>) -> Self {
        let mut numbers = std::collections::HashMap::new();
        let mut numbered = Vec::new();
        for page in references {
            let next = numbers.len() as u32;
            numbered.push(*numbers.entry(page).or_insert(next));
        }
        Self { name: name.into(), references: numbered, pages: numbers.len(), clients: Vec::new() }
    }
}

/// The page of a reference, by its place among all references and the number of pages.
type Kind = fn(&mut Random, u64, u64, u64) -> u64;

/// Most references go to few pages: a compiler.
fn hot_and_cold(random: &mut Random, _: u64, _: u64, pages: u64) -> u64 {
    let skewed = random.unit().powi(4);
    ((skewed * pages as f64) as u64).min(pages - 1)
}

/// A window that moves over the pages, with a few looks back: a simulator, or a verifier.
fn phases(random: &mut Random, at: u64, references: u64, pages: u64) -> u64 {
    let window = (pages / 3).max(1);
    let began = at * (pages - window) / references;
    match random.below(20) {
        0 => random.below(began + 1),
        _ => began + random.below(window),
    }
}

/// All pages in turn, again and again, beside a hot part: a linker, a renderer.
fn circles(random: &mut Random, at: u64, _: u64, pages: u64) -> u64 {
    let hot = (pages / 16).max(1);
    if at.is_multiple_of(4) { hot + at / 4 % (pages - hot) } else { random.below(hot) }
}

/// Popularity after Zipf with exponent 0.8, by inversion of the continuous distribution: an object
/// database.
fn database(random: &mut Random, _: u64, _: u64, pages: u64) -> u64 {
    let page = pages as f64 * random.unit().powf(1.0 / 0.2);
    (page as u64).min(pages - 1)
}

/// References for each page, so that a page is referenced many times.
const REFERENCES_A_PAGE: usize = 64;
/// Letters of a name that fit beside a curve.
const LONGEST_NAME: usize = 20;
