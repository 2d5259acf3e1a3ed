//! The kinds of registries that can be mirrored, by name.

use std::fmt;
use std::str::FromStr;

/// A kind of registry. Its name is that of the setting `mirror.kind` and of the default path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// npm, pnpm, Yarn, Bun.
    Npm,
    /// pip, uv, poetry.
    Pypi,
    /// cargo's sparse index and crate files.
    Cargo,
    /// Go's module proxy and checksum database.
    Go,
    /// Maven and Gradle.
    Maven,
    /// apt.
    Deb,
    /// bundler and gem.
    RubyGems,
    /// Container images.
    Oci,
    /// Files by URL: toolchains, releases.
    Generic,
    /// Build caches that clients also write: Bazel, Gradle, ccache, sccache, Turborepo.
    BuildCache,
}

impl Kind {
    /// All kinds, in the order of the documentation.
    pub const ALL: [Self; 10] = [
        Self::Npm,
        Self::Pypi,
        Self::Cargo,
        Self::Go,
        Self::Maven,
        Self::Deb,
        Self::RubyGems,
        Self::Oci,
        Self::Generic,
        Self::BuildCache,
    ];

    /// The name, as settings spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
            Self::Cargo => "cargo",
            Self::Go => "go",
            Self::Maven => "maven",
            Self::Deb => "deb",
            Self::RubyGems => "rubygems",
            Self::Oci => "oci",
            Self::Generic => "generic",
            Self::BuildCache => "buildcache",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no kind of mirror is called {text:?}; the kinds are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back() {
        for kind in Kind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("nmp".parse::<Kind>().is_err_and(|error| error.contains("npm, pypi")));
    }
}
