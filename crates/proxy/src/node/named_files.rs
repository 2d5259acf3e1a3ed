//! Files that settings name and that are read when settings are: pages and credentials.

use crate::exchange::read_page;
use crate::intercept::authority::Authority;
use crate::upstream::Credentials;
use shoal_rules::RuleSet;
use shoal_settings::Settings;
use std::path::Path;
use std::time::Duration;

/// Returns the mistakes in these files, as setting and message.
pub fn file_mistakes(settings: &Settings) -> Vec<(String, String)> {
    let pages = RuleSet::only(settings, |rule| rule.error_page.is_some())
        .map_or(Vec::new(), |mut rules| rules.read_pages(&read_page).err().unwrap_or_default());
    let pages = pages.into_iter().map(|mistake| (mistake.key, mistake.message));
    let credentials =
        credentials(settings).filter_map(|(key, path)| Some((key, Credentials::read(path).err()?)));
    pages.chain(credentials).collect()
}

/// Returns warnings about credentials: clients share the responses, and a file may be exposed.
pub fn file_warnings(settings: &Settings) -> Vec<String> {
    let warn = |(key, path): (String, &Path)| {
        let shared = format!(
            "{key}: the site's clients share the responses that these credentials open, and their own \
             Authorization reaches none of its upstreams"
        );
        let exposed = Credentials::read(path).is_ok_and(|read| read.is_exposed).then(|| {
            format!("{key}: every user of this machine may read {}; chmod o-r ends that", path.display())
        });
        [shared].into_iter().chain(exposed)
    };
    credentials(settings).flat_map(warn).chain(interception_warnings(settings)).collect()
}

/// Returns warnings about interception: its meaning, and an authority that ends soon.
fn interception_warnings(settings: &Settings) -> Vec<String> {
    if !settings.intercept.is_on() {
        return Vec::new();
    }
    let mut warnings = vec![format!(
        "intercept.hosts: this node reads and may store what forward clients exchange by https with {}",
        settings.intercept.hosts.join(", ")
    )];
    let folder = &settings.intercept.authority;
    let registries = settings.intercepted_registries();
    let mut hosts = settings.intercept.patterns().chain(registries.iter().map(|(host, _)| host.as_str()));
    if let (Some(host), Ok(authority)) = (hosts.next(), Authority::load(folder))
        && authority.check_host(host).is_ok()
        && !authority.lasts(host, END_FORESEEN)
    {
        let why = "ends within 30 days; make another with `shoal ca init` and let clients trust it";
        warnings.push(format!("intercept.authority: the authority in {} {why}", folder.display()));
    }
    warnings
}

/// Time before an authority's end at which operators are warned.
const END_FORESEEN: Duration = Duration::from_secs(30 * 86_400);

/// Returns the files of credentials, each with its setting.
fn credentials(settings: &Settings) -> impl Iterator<Item = (String, &Path)> {
    settings.site.iter().enumerate().flat_map(|(site, entry)| {
        entry.upstreams.iter().enumerate().filter_map(move |(at, upstream)| {
            let path = upstream.credentials.as_deref()?;
            Some((format!("site[{site}].upstreams[{at}].credentials"), path))
        })
    })
}
