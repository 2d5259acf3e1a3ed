//! The lines for the settings of each client of a mirror.

use shoal_settings::{Mirror, MirrorKind, Settings};
use std::fmt::Write;

/// Returns the lines for the clients of every mirror, which they reach at `base`.
pub fn text(settings: &Settings, base: &str) -> String {
    let mut text = String::new();
    for mirror in &settings.mirror {
        let base = match mirror.hosts.first().filter(|host| !host.contains('*')) {
            Some(host) => with_host(base, host),
            None => base.to_owned(),
        };
        let url = format!("{base}{}", mirror.path());
        let from = match mirror.kind {
            MirrorKind::BuildCache => String::new(),
            _ => format!(", from {}", mirror.upstream()),
        };
        let _ = writeln!(text, "\n{} ({}{from}):", mirror.name(), mirror.kind);
        for (client, line) in lines(mirror, &url) {
            let _ = writeln!(text, "  {client:<22} {line}");
        }
    }
    text
}

/// Returns client or file, and line.
fn lines(mirror: &Mirror, url: &str) -> Vec<(&'static str, String)> {
    let is_plain = url.starts_with("http://");
    let authority = url.split("://").nth(1).unwrap_or_default().split('/').next().unwrap_or_default();
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    match mirror.kind {
        MirrorKind::Npm => npm(url, host, is_plain),
        MirrorKind::Pypi => vec![
            ("pip.conf [global]", format!("index-url = {url}/simple/")),
            ("uv", format!("export UV_DEFAULT_INDEX={url}/simple/")),
            ("poetry", format!("poetry source add --priority=primary mirror {url}/simple/")),
        ],
        MirrorKind::Cargo => vec![
            (".cargo/config.toml", "[source.crates-io]".into()),
            ("", "replace-with = \"mirror\"".into()),
            ("", "[source.mirror]".into()),
            ("", format!("registry = \"sparse+{url}/\"")),
        ],
        MirrorKind::Go => vec![("go", format!("export GOPROXY={url}"))],
        MirrorKind::Maven => vec![
            ("settings.xml <mirrors>", "<mirror><id>mirror</id><mirrorOf>*</mirrorOf>".into()),
            ("", format!("<url>{url}</url></mirror>")),
            ("gradle", format!("maven {{ url = uri(\"{url}\"); isAllowInsecureProtocol = {is_plain} }}")),
        ],
        MirrorKind::Deb => vec![("sources.list", format!("deb {url} SUITE main"))],
        MirrorKind::RubyGems => vec![("bundler", format!("bundle config set --global mirror.all {url}"))],
        MirrorKind::Oci => oci(mirror, url, authority, is_plain),
        MirrorKind::Generic => vec![("curl", format!("curl {url}/PATH"))],
        MirrorKind::BuildCache => vec![
            ("bazel", format!("--remote_cache={url}")),
            ("settings.gradle.kts", "buildCache { remote<HttpBuildCache> {".into()),
            ("", format!("url = uri(\"{url}/\"); isPush = true")),
            ("", format!("isAllowInsecureProtocol = {is_plain} }} }}")),
            ("ccache", format!("export CCACHE_REMOTE_STORAGE={url}")),
            ("sccache", format!("export SCCACHE_WEBDAV_ENDPOINT={url}")),
            ("turborepo", format!("export TURBO_API={url}")),
        ],
    }
}

fn npm(url: &str, host: &str, is_plain: bool) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        (".npmrc (npm, pnpm)", format!("registry={url}/")),
        ("", "replace-registry-host=always".to_owned()),
        (".yarnrc.yml (yarn 2+)", format!("npmRegistryServer: \"{url}\"")),
    ];
    if is_plain {
        lines.push(("", format!("unsafeHttpWhitelist: [\"{host}\"]")));
    }
    lines.push((".yarnrc (yarn 1)", format!("registry \"{url}/\"")));
    lines.push(("bunfig.toml", format!("[install] registry = \"{url}/\"")));
    lines
}

/// Lines for container engines. containerd keeps a folder for each registry, and asks a mirror
/// without a path at the root of its host.
fn oci(mirror: &Mirror, url: &str, authority: &str, is_plain: bool) -> Vec<(&'static str, String)> {
    let root = url.trim_end_matches(&mirror.path());
    let own = mirror.upstream().split("://").nth(1).unwrap_or_default().split('/').next();
    let registry = mirror.namespaces.first().map_or(own.unwrap_or_default(), String::as_str);
    vec![
        ("registries.conf", "[[registry]]".to_owned()),
        (" (podman, buildah,", format!("prefix = \"{registry}\"")),
        (" CRI-O, skopeo)", format!("location = \"{registry}\"")),
        ("", "[[registry.mirror]]".to_owned()),
        ("", format!("location = \"{authority}{}\"", mirror.path())),
        ("", format!("insecure = {is_plain}")),
        ("containerd certs.d", format!("{registry}/hosts.toml:")),
        ("", format!("[host.\"{root}\"]")),
        ("", "capabilities = [\"pull\", \"resolve\"]".to_owned()),
        ("docker daemon.json", format!("{{\"registry-mirrors\": [\"{root}\"]}}")),
    ]
}

/// Puts a host in the place of the address in a URL; the port stays.
fn with_host(base: &str, host: &str) -> String {
    let Some((scheme, authority)) = base.split_once("://") else { return base.to_owned() };
    let port = authority.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    match port {
        Some((_, port)) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_lines_with_its_url() {
        for kind in MirrorKind::ALL {
            let mirror = vec![Mirror::of(*kind, "https://registry.example")];
            let shown = text(&Settings { mirror, ..Settings::default() }, "http://c.test:8080");
            assert!(shown.contains(&format!("c.test:8080/{kind}")), "{shown}");
        }
    }

    #[test]
    fn container_engines_and_compilers_have_their_lines() {
        let oci = Mirror::of(MirrorKind::Oci, "https://images.example:5000");
        let mirror = vec![oci.clone(), Mirror::of(MirrorKind::BuildCache, "")];
        let shown = text(&Settings { mirror, ..Settings::default() }, "http://127.0.0.1:8080");
        for line in [
            "prefix = \"images.example:5000\"",
            "location = \"127.0.0.1:8080/oci\"",
            "images.example:5000/hosts.toml:",
            "[host.\"http://127.0.0.1:8080\"]",
            "capabilities = [\"pull\", \"resolve\"]",
            "export SCCACHE_WEBDAV_ENDPOINT=http://127.0.0.1:8080/buildcache",
        ] {
            assert!(shown.contains(&format!("{line}\n")), "{line}\n{shown}");
        }
        let named = Mirror { namespaces: vec!["images.example".into()], ..oci };
        let shown = text(&Settings { mirror: vec![named], ..Settings::default() }, "https://c.test");
        assert!(shown.contains(" images.example/hosts.toml:\n"), "{shown}");
        assert!(shown.contains("insecure = false\n"), "{shown}");
    }

    #[test]
    fn names_and_hosts_are_those_of_the_mirror() {
        let mirror = Mirror {
            name: Some("own".into()),
            hosts: vec!["npm.test".into()],
            path: Some("/".into()),
            ..Mirror::of(MirrorKind::Npm, "https://registry.example/base/")
        };
        let shown = text(&Settings { mirror: vec![mirror], ..Settings::default() }, "http://127.0.0.1:8080");
        assert!(shown.contains("own (npm, from https://registry.example/base):"), "{shown}");
        assert!(shown.contains("registry=http://npm.test:8080/\n"), "{shown}");
        assert!(shown.contains("unsafeHttpWhitelist: [\"npm.test\"]"), "{shown}");
    }
}
