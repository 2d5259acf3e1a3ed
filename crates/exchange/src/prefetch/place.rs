//! Places of hinted URLs at this node. A hint names no host that the node would not serve anyway.

use super::hint::{HintPlace, HintRefusal};
use crate::settings::ExchangeSettings;
use crate::target::Target;
use shoal_settings::Mode;

/// Trust in the author of a hint.
#[derive(Clone, Copy)]
pub(super) enum HintAuthor<'a> {
    /// The operator: any host that forward mode serves may be named.
    Operator,
    /// An answer to a request for this target, which may name its own origin, and sites and mirrors
    /// that the settings name.
    Answer(&'a Target),
}

/// Returns the place of a URL.
///
/// # Errors
/// If no site, mirror or listener serves it for this author.
pub(super) fn place_of(
    live: &ExchangeSettings,
    url: &str,
    author: HintAuthor<'_>,
) -> Result<HintPlace, HintRefusal> {
    let target = Target::parse(url).map_err(|_| HintRefusal::Url)?;
    let scheme = if target.https { "https" } else { "http" };
    let (authority, path) = (target.authority(), target.path());
    if let Some((mirror, below)) = live.mirrors.for_origin_url(scheme, authority, path) {
        return Ok(HintPlace::Mirror { mirror: mirror.settings.name().to_owned(), path: below });
    }
    debug_assert!(path.starts_with('/'), "a target has a path");
    let is_own = match author {
        HintAuthor::Operator => true,
        HintAuthor::Answer(of) => of.authority() == authority && of.https == target.https,
    };
    let listener = |mode: Mode| live.listeners.iter().position(|listener| listener.mode == mode);
    let at = |listener: usize, mode: Mode| HintPlace::Url {
        url: target.url.to_string(),
        listener,
        key: target.key(mode).hash().low(),
        is_site: mode == Mode::Reverse,
    };
    if let Some(reverse) = listener(Mode::Reverse)
        && let Some(site) = live.routes.find(authority.as_bytes(), path)
    {
        if let Some(mirror) = live.mirrors.of_site(site.site) {
            let path = mirror.below(path).to_owned();
            return Ok(HintPlace::Mirror { mirror: mirror.settings.name().to_owned(), path });
        }
        // A site for any host says nothing about the host.
        return match is_own || site.names_host(target.host()) {
            true => Ok(at(reverse, Mode::Reverse)),
            false => Err(HintRefusal::Stranger),
        };
    }
    match listener(Mode::Forward).filter(|_| is_own) {
        Some(forward) => Ok(at(forward, Mode::Forward)),
        None => Err(HintRefusal::Stranger),
    }
}
