//! Formats of lists: by the name of a file, else by its beginning.

use std::fmt;
use std::str::FromStr;

/// Format of a list of wanted files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `package-lock.json`, `npm-shrinkwrap.json`: versions 1 to 3.
    NpmLock,
    /// `yarn.lock` of Yarn 1 and of Yarn 2 and later.
    YarnLock,
    /// `pnpm-lock.yaml`: versions 5, 6 and 9.
    PnpmLock,
    /// `bun.lock`.
    BunLock,
    /// pip's requirements.
    Requirements,
    /// `poetry.lock`.
    PoetryLock,
    /// `pdm.lock`.
    PdmLock,
    /// `uv.lock`.
    UvLock,
    /// `pylock.toml` (PEP 751).
    PyLock,
    /// `Pipfile.lock`.
    PipfileLock,
    /// `Cargo.lock`.
    CargoLock,
    /// `go.sum`.
    GoSum,
    /// `Gemfile.lock`.
    GemfileLock,
    /// `gradle.lockfile`.
    GradleLock,
    /// `verification-metadata.xml`.
    GradleVerification,
    /// Lines of `mvn dependency:list`: `group:artifact:type:version:scope`.
    MavenList,
    /// Package URLs: a list, or an SBOM (CycloneDX, SPDX) of any form.
    Purls,
    /// References of container images, one a line.
    Images,
    /// URLs, one a line.
    Urls,
}

impl Format {
    /// All formats with their names.
    pub const ALL: [(Self, &'static str); 19] = [
        (Self::NpmLock, "npm"),
        (Self::YarnLock, "yarn"),
        (Self::PnpmLock, "pnpm"),
        (Self::BunLock, "bun"),
        (Self::Requirements, "requirements"),
        (Self::PoetryLock, "poetry"),
        (Self::PdmLock, "pdm"),
        (Self::UvLock, "uv"),
        (Self::PyLock, "pylock"),
        (Self::PipfileLock, "pipfile"),
        (Self::CargoLock, "cargo"),
        (Self::GoSum, "go"),
        (Self::GemfileLock, "bundler"),
        (Self::GradleLock, "gradle"),
        (Self::GradleVerification, "gradle-verification"),
        (Self::MavenList, "maven"),
        (Self::Purls, "purls"),
        (Self::Images, "images"),
        (Self::Urls, "urls"),
    ];

    /// The name, as options spell it.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, name)| name)
    }

    /// Detects the format by the file's name, else by its beginning. `None` for an unknown one.
    pub fn of(file: &str, bytes: &[u8]) -> Option<Self> {
        Self::by_name(file.rsplit(['/', '\\']).next().unwrap_or_default())
            .or_else(|| Self::by_beginning(&bytes[..bytes.len().min(BEGINNING)]))
    }

    fn by_name(file: &str) -> Option<Self> {
        let is_python_list =
            file.ends_with(".txt") && ["requirements", "constraints"].iter().any(|part| file.contains(part));
        Some(match file {
            "package-lock.json" | "npm-shrinkwrap.json" | ".package-lock.json" => Self::NpmLock,
            "yarn.lock" => Self::YarnLock,
            "pnpm-lock.yaml" => Self::PnpmLock,
            "bun.lock" => Self::BunLock,
            "poetry.lock" => Self::PoetryLock,
            "pdm.lock" => Self::PdmLock,
            "uv.lock" => Self::UvLock,
            "Pipfile.lock" => Self::PipfileLock,
            "Cargo.lock" => Self::CargoLock,
            "go.sum" | "go.work.sum" => Self::GoSum,
            "Gemfile.lock" | "gems.locked" => Self::GemfileLock,
            "gradle.lockfile" | "buildscript-gradle.lockfile" => Self::GradleLock,
            "verification-metadata.xml" => Self::GradleVerification,
            _ if file.starts_with("pylock") && file.ends_with(".toml") => Self::PyLock,
            _ if is_python_list => Self::Requirements,
            _ => return None,
        })
    }

    /// Detects the format by marks that no other format has. The order decides.
    fn by_beginning(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let has = |mark: &str| text.contains(mark);
        let marks = [
            (Self::YarnLock, has("# yarn lockfile v1") || has("__metadata:")),
            (Self::PnpmLock, text.starts_with("lockfileVersion:")),
            (Self::PyLock, has("lock-version") && has("[[packages")),
            (Self::Purls, has("pkg:")),
            (Self::NpmLock, has("\"lockfileVersion\"") && has("\"node_modules/") || has("\"resolved\"")),
            (Self::BunLock, has("\"lockfileVersion\"") && has("\"workspaces\"")),
            (Self::PipfileLock, has("\"_meta\"") && has("\"pipfile-spec\"")),
            (Self::UvLock, has("[[package]]") && has("\nsource = { ")),
            (Self::CargoLock, has("[[package]]") && has("\nsource = \"")),
            (Self::PoetryLock, has("[[package]]")),
            (Self::GradleVerification, has("<verification-metadata")),
            (Self::GemfileLock, text.starts_with("GEM\n") || has("\nGEM\n")),
            (Self::GoSum, has(" h1:")),
            (Self::Requirements, has("--hash=") || has("==")),
        ];
        if let Some((format, _)) = marks.into_iter().find(|(_, is_marked)| *is_marked) {
            return Some(format);
        }
        let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
        match first {
            _ if first.starts_with("http://") || first.starts_with("https://") => Some(Self::Urls),
            _ if first.contains("@sha256:") => Some(Self::Images),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|(_, name)| *name == text).map(|(format, _)| *format).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name)| name).join(", ");
            format!("no list is called {text:?}; the formats are {names}")
        })
    }
}

/// Bytes of a file in which marks are looked for.
const BEGINNING: usize = 64 << 10;
