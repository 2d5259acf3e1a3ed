//! Locations of an nginx server, and the directives in force in each.

use crate::ledger::LineId;
use crate::nginx_syntax::Directive;

/// Way of choosing a location.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// The path itself (`=`).
    Exact(String),
    /// Paths that begin so; with `true` no expression is asked after it (`^~`).
    Prefix(String, bool),
    /// Paths that an expression matches; with `true` case does not matter.
    Expression(String, bool),
    /// Only other locations lead there (`@name`).
    Name(String),
}

/// A location with the levels of directives around it, the outermost first.
#[derive(Clone, Debug)]
pub struct Location<'a> {
    /// Choice.
    pub choice: Choice,
    /// The block.
    pub block: &'a Directive,
    /// Directives of http, server and locations.
    pub levels: Vec<&'a [Directive]>,
}

impl<'a> Location<'a> {
    /// Returns the directives of one of these names that are in force: those of the innermost level
    /// that has any.
    pub fn in_force(&self, names: &[&str]) -> Vec<&'a Directive> {
        in_force(&self.levels, names)
    }

    /// Returns the last of the directives of this name in force.
    pub fn last(&self, name: &str) -> Option<&'a Directive> {
        self.in_force(&[name]).into_iter().last()
    }

    /// Returns the named location that `try_files` leads to, and the statement.
    pub fn behind_try_files<'b>(&self, all: &'b [Location<'a>]) -> Option<(&'b Location<'a>, LineId)> {
        let directive = self.own().iter().find(|directive| directive.name == "try_files")?;
        let name = directive.words.last()?;
        let named = all.iter().find(|other| other.choice == Choice::Name(name.clone()))?;
        Some((named, directive.line))
    }

    /// Returns the directives of the block itself.
    pub fn own(&self) -> &'a [Directive] {
        self.levels.last().copied().unwrap_or_default()
    }
}

/// Returns the directives of one of these names in force at the innermost of `levels`.
pub fn in_force<'a>(levels: &[&'a [Directive]], names: &[&str]) -> Vec<&'a Directive> {
    for level in levels.iter().rev() {
        let found: Vec<_> =
            level.iter().filter(|directive| names.contains(&directive.name.as_str())).collect();
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

/// Returns every location of a server, nested ones too.
pub fn locations<'a>(levels: &[&'a [Directive]]) -> Vec<Location<'a>> {
    let mut found = Vec::new();
    let Some(own) = levels.last() else { return found };
    for block in own.iter().filter(|directive| directive.name == "location") {
        let choice = match (block.word(0), block.words.get(1)) {
            ("=", Some(path)) => Choice::Exact(path.clone()),
            ("^~", Some(path)) => Choice::Prefix(path.clone(), true),
            ("~", Some(text)) => Choice::Expression(text.clone(), false),
            ("~*", Some(text)) => Choice::Expression(text.clone(), true),
            (name, None) if name.starts_with('@') => Choice::Name(name.into()),
            (path, None) if path.starts_with('=') => Choice::Exact(path[1..].into()),
            (path, None) if path.starts_with("^~") => Choice::Prefix(path[2..].into(), true),
            (path, None) if path.starts_with("~*") => Choice::Expression(path[2..].into(), true),
            (path, None) if path.starts_with('~') => Choice::Expression(path[1..].into(), false),
            (path, _) => Choice::Prefix(path.into(), false),
        };
        let mut levels = levels.to_vec();
        levels.push(&block.block);
        let inner = locations(&levels);
        found.push(Location { choice: prefix_of(choice), block, levels });
        found.extend(inner);
    }
    found
}

/// Reads `^/path/` as the prefix that it is.
fn prefix_of(choice: Choice) -> Choice {
    let Choice::Expression(text, false) = &choice else { return choice };
    let body = text.strip_prefix('^').map(|body| body.trim_end_matches(".*"));
    let is_exact = |body: &str| body.ends_with('$') && !body.ends_with("\\$");
    match body {
        Some(body) if is_exact(body) => match crate::expressions::literal(&body[..body.len() - 1]) {
            Some(path) if path.starts_with('/') => Choice::Exact(path),
            _ => choice,
        },
        Some(body) => match crate::expressions::literal(body) {
            Some(path) if path.starts_with('/') && path.ends_with('/') => Choice::Prefix(path, true),
            _ => choice,
        },
        None => choice,
    }
}

/// Sorts locations so that a later one wins over an earlier one, as rules do.
pub fn weakest_first<'a, 'b>(locations: &'b [Location<'a>]) -> Vec<&'b Location<'a>> {
    let mut sorted: Vec<(usize, &Location<'a>)> = locations.iter().enumerate().collect();
    sorted.sort_by_key(|(at, location)| match &location.choice {
        Choice::Name(_) => (0, 0),
        Choice::Prefix(path, false) => (1, path.len()),
        // The first expression of the file wins.
        Choice::Expression(..) => (2, usize::MAX - at),
        Choice::Prefix(path, true) => (3, path.len()),
        Choice::Exact(_) => (4, 0),
    });
    sorted.into_iter().map(|(_, location)| location).collect()
}
