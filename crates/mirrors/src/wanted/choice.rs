//! Choice among files for several platforms: wheels by the pattern of their names, images by
//! platform.
//!
//! Python's locks list the wheels of all platforms. Of one release a wheel for any platform and the
//! wheels that fit a pattern are taken; the source only if no wheel fits.

use super::{ListEntry, Wishes};
use crate::Kind;
use std::collections::HashMap;

/// Files that are taken of those for several platforms.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// Patterns of names of wheels, with `*`; empty for all files.
    pub wheels: Vec<String>,
    /// Platforms of images, `os/architecture` or `os/architecture/variant`; empty for all.
    pub platforms: Vec<String>,
}

impl Choice {
    /// Removes the files of Python releases that are not chosen. Returns their number.
    pub fn apply(&self, wishes: &mut Wishes) -> usize {
        let mut releases: HashMap<(String, String), Vec<usize>> = HashMap::new();
        for (place, wanted) in wishes.wanted.iter().enumerate() {
            if let (Some(Kind::Pypi), Some(_)) = (wanted.kind, &wanted.file) {
                releases.entry((wanted.name.clone(), wanted.version.clone())).or_default().push(place);
            }
        }
        let mut is_kept = vec![true; wishes.wanted.len()];
        for places in releases.values() {
            let file = |place: &usize| wishes.wanted[*place].file.as_deref().unwrap_or_default();
            let names: Vec<&str> = places.iter().map(file).collect();
            places.iter().zip(self.keep(&names)).for_each(|(place, kept)| is_kept[*place] = kept);
        }
        let before = wishes.wanted.len();
        let mut flags = is_kept.into_iter();
        wishes.wanted.retain(|_: &ListEntry| flags.next().unwrap_or(true));
        debug_assert!(wishes.wanted.len() <= before, "a choice adds nothing");
        before - wishes.wanted.len()
    }

    /// Returns, for each file of one release, `true` if it is taken.
    pub fn keep(&self, files: &[&str]) -> Vec<bool> {
        if self.wheels.is_empty() {
            return vec![true; files.len()];
        }
        let fits = |file: &str| {
            file.ends_with("-none-any.whl")
                || file.ends_with(".whl") && self.wheels.iter().any(|pattern| matches(pattern, file))
        };
        let has_wheel = files.iter().any(|file| fits(file));
        debug_assert!(!self.wheels.is_empty(), "a choice was made");
        files.iter().map(|file| fits(file) || !has_wheel && !file.ends_with(".whl")).collect()
    }

    /// Returns `true` if the image of a platform is taken.
    pub fn takes_platform(&self, os: &str, architecture: &str, variant: &str) -> bool {
        self.platforms.is_empty()
            || self.platforms.iter().any(|platform| {
                let mut parts = platform.split('/');
                let is_own = parts.next() == Some(os) && parts.next() == Some(architecture);
                is_own && parts.next().is_none_or(|wanted| wanted == variant)
            })
    }
}

/// Returns `true` if a name fits a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, pattern)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(place) = rest.find(part) else { return false };
        rest = &rest[place + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_chosen_and_sources_stand_in() {
        let choice = Choice { wheels: vec!["*-cp312-*linux*x86_64*".into()], ..Choice::default() };
        let files = ["a-1-cp312-cp312-manylinux_2_17_x86_64.whl", "a-1-cp312-cp312-win32.whl", "a-1.tar.gz"];
        assert_eq!(choice.keep(&files), [true, false, false]);
        assert_eq!(choice.keep(&files[1..]), [false, true]);
        assert_eq!(choice.keep(&["a-1-py3-none-any.whl", "a-1.zip"]), [true, false]);
        assert_eq!(Choice::default().keep(&files), [true, true, true]);
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("a*a", "a", false),
            ("ab", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn platforms_fit_with_or_without_variant() {
        let choice =
            Choice { platforms: vec!["linux/arm64".into(), "linux/arm/v7".into()], ..Choice::default() };
        assert!(choice.takes_platform("linux", "arm64", "v8") && choice.takes_platform("linux", "arm", "v7"));
        assert!(
            !choice.takes_platform("linux", "arm", "v6") && !choice.takes_platform("windows", "amd64", "")
        );
        assert!(Choice::default().takes_platform("windows", "amd64", ""));
    }
}
