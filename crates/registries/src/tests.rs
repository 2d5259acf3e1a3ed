//! Mirrors of settings: places, roots, URLs of origins.

use super::*;
use shoal_settings::Settings;

fn mirrors(text: &str) -> (Mirrors, Routes) {
    let settings =
        Settings::parse(&format!("[[listen]]\naddress = '127.0.0.1:1'\nmode = 'reverse'\n{text}"), "f");
    let settings = settings.expect("sound settings");
    let mirrors = Mirrors::new(&settings).map_err(|(_, why)| why).expect("kinds that are built");
    (mirrors, Routes::new(&settings.all_sites(), 1).expect("sound sites"))
}

const ONE: &str = "[[mirror]]\nkind = 'npm'\nupstream = 'https://npm.test/base/'\n";

#[test]
fn urls_of_an_origin_find_its_mirror() {
    let (mirrors, _) = mirrors(ONE);
    let found = |scheme, host, path| mirrors.for_origin_url(scheme, host, path).map(|(_, below)| below);
    assert_eq!(found("https", "npm.test", "/base/a?b"), Some("/a?b".into()));
    assert_eq!(found("https", "NPM.test", "/base"), Some("/".into()));
    for (scheme, host, path) in [
        ("http", "npm.test", "/base/a"),
        ("https", "other.test", "/base/a"),
        ("https", "npm.test", "/basement"),
        ("https", "npm.test", "/"),
    ] {
        assert_eq!(found(scheme, host, path), None, "{scheme}://{host}{path}");
    }
}

#[test]
fn root_belongs_to_one_mirror_or_to_none() {
    let (mirrors_of_one, routes) = mirrors(ONE);
    let at_root = |path| mirrors_of_one.at_root(&routes, b"a.test", path).map(|route| route.site);
    assert_eq!(at_root("/-/npm/v1/attestations/a@1?x"), Some(0));
    assert_eq!(at_root("/a/-/a-1.tgz"), Some(0));
    assert_eq!(at_root("/a"), None);
    let (two, routes) = mirrors(&format!("{ONE}{ONE}name = 'other'\n"));
    assert!(two.at_root(&routes, b"a.test", "/a/-/a-1.tgz").is_none());
}

#[test]
fn paths_below_begin_with_a_slash() {
    let (mirrors, _) = mirrors(ONE);
    let mirror = mirrors.of_site(0).expect("one");
    for (path, below) in
        [("/npm", "/"), ("/npm/a?b", "/a?b"), ("/npmx", "/npmx"), ("/a/-/b.tgz", "/a/-/b.tgz")]
    {
        assert_eq!(mirror.below(path), below);
    }
    assert_eq!(mirror.facts("http://c.test:1").external, "http://c.test:1/npm");
}
