//! Programs: their page references, the computing time between these, and the hints they give
//! beforehand.
//!
//! The synthetic programs of Voelker 2000, section 4.4.3, and a stand-in for Render: Render's
//! references are not available. Pages are of 8 KB and numbered by their place in the file.

use shoal_trace::Random;

/// A program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Name of the program.
    pub name: String,
    /// Requested pages, in order, numbered by their place in the program's file.
    pub references: Vec<u32>,
    /// Computing time before each reference, in seconds.
    pub computing_seconds: f64,
    /// Hints of the program.
    pub hinting: HintCoverage,
}

/// Hints that a program gives about its references before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HintCoverage {
    /// No hints.
    None,
    /// Hints for all references.
    Complete,
    /// Hints for this share of the references, in runs.
    Part(f64),
    /// Hints for all references, but only this number at a time, the next when the program comes to
    /// them.
    Stepwise(usize),
    /// Hints for all references, but in this share of the runs for pages that the program never
    /// requests.
    Wrong(f64),
}

impl HintCoverage {
    /// Returns the hinting for a share of the references with hints, and a share of wrong hints.
    /// Shares below one do not go together. `None` for an invalid hinting.
    pub fn for_shares(share: f64, wrong: f64) -> Option<Self> {
        match (share, wrong) {
            (1.0, 0.0) => Some(Self::Complete),
            (1.0, wrong) if (0.0..=1.0).contains(&wrong) => Some(Self::Wrong(wrong)),
            (0.0, 0.0) => Some(Self::None),
            (share, 0.0) if (0.0..=1.0).contains(&share) => Some(Self::Part(share)),
            _ => None,
        }
    }
}

impl Program {
    /// Returns one of the dissertation's programs by its name: render, random, reverse, hotcold.
    pub fn named(name: &str, scale: u32, seed: u64) -> Option<Self> {
        match name {
            "render" => Some(Self::render(scale, seed)),
            "random" => Some(Self::random(scale, seed)),
            "reverse" => Some(Self::reverse(scale)),
            "hotcold" => Some(Self::hotcold(scale, seed)),
            _ => None,
        }
    }

    /// Accesses 512 random pages of a 20 MB hot region, then 256 of an 80 MB cold one, 20 times;
    /// each four pages follow each other. Sizes are divided by `scale`.
    pub fn hotcold(scale: u32, seed: u64) -> Self {
        let mut random = Random::of(seed, 1);
        let (hot, cold) = (u64::from(MEGABYTE * 20 / scale / 4), u64::from(MEGABYTE * 80 / scale / 4));
        let mut references = Vec::new();
        for _ in 0..20 {
            for (groups, first, of) in [(128 / scale, 0, hot), (64 / scale, hot, cold)] {
                for _ in 0..groups.max(1) {
                    let group = (first + random.below(of)) as u32;
                    references.extend((0..4).map(|page| group * 4 + page));
                }
            }
        }
        Self::synthetic("hotcold", references)
    }

    /// Accesses all pages of a 100 MB file, divided by `scale`, in random order.
    pub fn random(scale: u32, seed: u64) -> Self {
        let mut references: Vec<u32> = (0..MEGABYTE * 100 / scale).collect();
        shuffle(&mut references, &mut Random::of(seed, 2));
        Self::synthetic("random", references)
    }

    /// Reads a 100 MB file, divided by `scale`, from its end to its start.
    pub fn reverse(scale: u32) -> Self {
        Self::synthetic("reverse", (0..MEGABYTE * 100 / scale).rev().collect())
    }

    /// Returns the cyclic variant: the same references, three times.
    pub fn cyclic(&self) -> Self {
        Self { name: format!("{}, cyclic", self.name), references: self.references.repeat(3), ..self.clone() }
    }

    /// Returns a stand-in for Render, with a database of 178 MB. Operations that come closer to a
    /// scene access 100 MB of it, each mostly the pages of the last operation.
    ///
    /// The dissertation leaves three numbers of Render open, and tells enough to find them:
    ///
    /// - *Length of an operation.* No page comes back within 64 MB of others, all do within 128 MB
    ///   (section 4.4.5). Three operations of 9200 pages that share four fifths are such: a page
    ///   comes back after some 9200 others, 72 MB.
    /// - *Share of repeats.* GMS on five nodes is 1.75 times as fast as one node alone (4.9 over
    ///   2.8). Only first accesses are left to its disk: 27,600 references to 12,800 pages do that.
    /// - *Computing time.* PGMS levels off at 5.6 times the speed of one node (section 4.4.3),
    ///   where only processor time is left: 2.5 ms before each reference.
    pub fn render(scale: u32, seed: u64) -> Self {
        let mut random = Random::of(seed, 3);
        let mut file: Vec<u32> = (0..MEGABYTE * 178 / scale).collect();
        shuffle(&mut file, &mut random);
        // The database's layout differs from its use: the order of use is a random one of its
        // pages.
        let (operation, shared) = ((9200 / scale) as usize, (7400 / scale) as usize);
        let fresh = operation - shared;
        let mut unused = file.into_iter();
        let mut view: Vec<u32> = unused.by_ref().take(operation).collect();
        let mut references = view.clone();
        for _ in 1..3 {
            // The pages that leave the picture are spread over it, and so are the pages that
            // replace them.
            let mut order: Vec<u32> = (0..operation as u32).collect();
            shuffle(&mut order, &mut random);
            for (place, page) in order.into_iter().zip(unused.by_ref().take(fresh)) {
                view[place as usize] = page;
            }
            references.extend_from_slice(&view);
        }
        Self { computing_seconds: 2.5e-3, ..Self::synthetic("render", references) }
    }

    /// Returns the number of hints that the program tells at once.
    pub fn step(&self) -> usize {
        if let HintCoverage::Stepwise(step) = self.hinting { step.max(1) } else { usize::MAX }
    }

    /// Returns the program with a working set: after every second reference, the program uses the
    /// page of `back` references before again. The whole computing time stays the same.
    pub fn revisiting(&self, back: usize) -> Self {
        let mut references = Vec::with_capacity(self.references.len() * 3 / 2);
        for (at, page) in self.references.iter().enumerate() {
            references.push(*page);
            references
                .extend(at.checked_sub(back).filter(|_| at % 2 == 1).map(|before| self.references[before]));
        }
        let computing = self.computing_seconds * self.references.len() as f64;
        Self { computing_seconds: computing / references.len().max(1) as f64, references, ..self.clone() }
    }

    /// Returns the program without hints.
    pub fn unhinted(&self) -> Self {
        self.hinting(HintCoverage::None)
    }

    /// Returns the program with these hints.
    pub fn hinting(&self, hinting: HintCoverage) -> Self {
        Self { hinting, ..self.clone() }
    }

    /// Returns one more than the last page of the file that the program uses.
    pub fn pages(&self) -> usize {
        self.references.iter().max().map_or(0, |last| *last as usize + 1)
    }

    /// Returns all hints of the program. Shares below 0 and above 1 count as 0 and 1.
    pub fn hints(&self, seed: u64) -> Vec<u64> {
        let mut random = Random::of(seed, 4);
        let pages = self.pages() as u64;
        let mut hints = Vec::new();
        for run in self.references.chunks(RUN) {
            let draw = random.unit();
            match self.hinting {
                HintCoverage::Complete | HintCoverage::Stepwise(_) => {
                    hints.extend(run.iter().map(|page| u64::from(*page)))
                }
                HintCoverage::Part(share) if draw < share => {
                    hints.extend(run.iter().map(|page| u64::from(*page)))
                }
                HintCoverage::Wrong(share) if draw < share => {
                    hints.extend(run.iter().map(|_| pages + random.below(pages)))
                }
                HintCoverage::Wrong(_) => hints.extend(run.iter().map(|page| u64::from(*page))),
                HintCoverage::None | HintCoverage::Part(_) => {}
            }
        }
        hints
    }

    /// Creates a benchmark that computes for 250 µs between accesses and tells all.
    fn synthetic(name: &str, references: Vec<u32>) -> Self {
        Self { name: name.into(), references, computing_seconds: 250e-6, hinting: HintCoverage::Complete }
    }
}

/// Shuffles a list: every order has the same probability (Fisher and Yates, in the form of
/// Durstenfeld 1964).
fn shuffle(list: &mut [u32], random: &mut Random) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Pages in a megabyte.
const MEGABYTE: u32 = 128;
/// References in one run: hinted, or wrongly hinted, together.
const RUN: usize = 32;
