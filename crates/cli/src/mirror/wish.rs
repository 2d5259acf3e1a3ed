//! Mirrors as the command line names them: `npm`, or `npm=https://registry.example`.

use super::discover::discover;
use crate::failure::Failure;
use shoal_settings::{Mirror, MirrorKind, Override};
use std::str::FromStr;

/// A mirror of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorWish {
    kind: MirrorKind,
    /// Name of the mirror, where it is not that of the kind.
    name: Option<String>,
    /// Registry; `None` asks the tool of this machine.
    upstream: Option<String>,
}

impl FromStr for MirrorWish {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, upstream) = match text.split_once('=') {
            Some((kind, url)) => (kind, Some(url)),
            None => (text, None),
        };
        let (kind, name) = match kind.split_once(':') {
            Some((kind, name)) => (kind, Some(name.to_owned())),
            None => (kind, None),
        };
        let kinds = MirrorKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let found = MirrorKind::ALL.iter().find(|other| other.name() == kind);
        let kind =
            found.copied().ok_or_else(|| format!("no kind is called {kind:?}; the kinds are {kinds}"))?;
        // A host alone means https, as users write registries of images.
        let with_scheme = |url: &str| match url.contains("://") {
            true => url.to_owned(),
            false => format!("https://{url}"),
        };
        Ok(Self { kind, name, upstream: upstream.map(with_scheme) })
    }
}

impl MirrorWish {
    /// Asks the tool of this machine for the registry if none is named, and tells the answer.
    ///
    /// # Errors
    /// If no registry is known.
    pub fn found(self) -> Result<Self, Failure> {
        if self.upstream.is_some() || self.kind == MirrorKind::BuildCache {
            return Ok(self);
        }
        let found = discover(self.kind).map_err(|why| {
            let kind = self.kind;
            Failure::Usage(format!("--mirror {kind}: {why}; name the registry: --mirror {kind}=https://…"))
        })?;
        eprintln!("shoal: --mirror {}: {} says {}", self.kind, found.source, found.url);
        Ok(Self { upstream: Some(found.url), ..self })
    }

    /// Returns the override that adds the mirror to the settings.
    pub fn into_override(self) -> Override {
        let mirror = Mirror::of(self.kind, self.upstream.as_deref().unwrap_or_default());
        Override::mirror("--mirror", Mirror { name: self.name, ..mirror })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read() {
        let read = |text: &str| text.parse::<MirrorWish>();
        let wish = |kind, name: Option<&str>, upstream: Option<&str>| {
            Ok(MirrorWish { kind, name: name.map(Into::into), upstream: upstream.map(Into::into) })
        };
        assert_eq!(read("npm"), wish(MirrorKind::Npm, None, None));
        assert_eq!(read("npm=http://a.test/b"), wish(MirrorKind::Npm, None, Some("http://a.test/b")));
        assert_eq!(read("oci=a.test"), wish(MirrorKind::Oci, None, Some("https://a.test")));
        assert_eq!(read("npm:own=a.test"), wish(MirrorKind::Npm, Some("own"), Some("https://a.test")));
        assert!(read("nmp").is_err_and(|why| why.contains("the kinds are npm, pypi")));
    }
}
