//! Lists of every format, as their tools write them, and their meaning.

use super::*;

const SHA256: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const SHA1: &str = "a9993e364706816aba3e25717850c26c9cd0d89d";
const SRI: &str = "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";
const H1: &str = "h1:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=";

/// Returns the entries in a line each: `title file url|registry digests size`, then those left out.
fn told(format: Format, text: &str) -> Vec<String> {
    let wishes = parse(format, text.as_bytes()).expect("a sound list");
    let wanted = wishes.wanted.iter().map(|wanted| {
        let check = match &wanted.check {
            Check::Nothing => "-".to_owned(),
            Check::OneOf(digests) => digests.iter().map(|digest| digest.algorithm().name()).collect(),
            Check::GoSum(_) => "h1".to_owned(),
        };
        let place = wanted.url.as_ref().or(wanted.registry.as_ref()).map_or("-", String::as_str);
        let file = wanted.file.as_deref().unwrap_or("-");
        let size = wanted.size.map_or_else(String::new, |size| format!(" {size}"));
        format!("{} {file} {place} {check}{size}", wanted.title())
    });
    wanted.chain(wishes.left_out.iter().map(|left| format!("!{}: {}", left.what, left.why))).collect()
}

#[test]
fn npm_locks_of_all_versions_are_read() {
    let new = format!(
        r#"{{"name":"x","lockfileVersion":3,"packages":{{"":{{"name":"x","dependencies":{{"a":"^1"}}}},
        "node_modules/@s/a":{{"version":"1.0.0","resolved":"https://npm.example/@s/a/-/a-1.0.0.tgz","integrity":"{SRI}"}},
        "node_modules/@s/a/node_modules/b":{{"version":"2.0.0","integrity":"{SRI}","optional":true,"os":["linux"]}},
        "node_modules/alias":{{"name":"real","version":"3.0.0","resolved":false}},
        "node_modules/inside":{{"version":"1.0.0","inBundle":true}},
        "node_modules/link":{{"resolved":"packages/x","link":true}}, "packages/x":{{"version":"1.0.0"}},
        "node_modules/git":{{"version":"1.0.0","resolved":"git+ssh://git@git.example/x.git#0123"}}}}}}"#
    );
    assert_eq!(
        told(Format::NpmLock, &new),
        [
            "@s/a@1.0.0 - https://npm.example/@s/a/-/a-1.0.0.tgz sha256",
            "b@2.0.0 - - sha256",
            "real@3.0.0 - - -",
            "!git: it comes from no registry",
        ]
    );
    let old = format!(
        r#"{{"lockfileVersion":1,"dependencies":{{"a":{{"version":"1.0.0","integrity":"{SRI}","requires":{{"b":"1"}},
        "dependencies":{{"b":{{"version":"1.0.0"}},"c":{{"version":"npm:d@1.2.0","bundled":false}}}}}},
        "e":{{"version":"file:../e"}}}}}}"#
    );
    // An entry stands behind those within it.
    let expected = ["b@1.0.0 - - -", "d@1.2.0 - - -", "a@1.0.0 - - sha256", "!e: it comes from no registry"];
    assert_eq!(told(Format::NpmLock, &old), expected);
}

#[test]
fn yarn_locks_of_both_manners_are_read() {
    let old = format!(
        "# yarn lockfile v1\n\n\"@s/a@^1.0.0\", \"@s/a@^1.1.0\":\n  version \"1.1.0\"\n  resolved \"https://npm.example/@s/a/-/a-1.1.0.tgz#{SHA1}\"\n  dependencies:\n    version \"^9\"\n\nalias@npm:real@^1:\n  version \"1.0.0\"\n  resolved \"https://npm.example/real/-/real-1.0.0.tgz\"\n  integrity {SRI}\n\nx@file:./x:\n  version \"0.0.0\"\n"
    );
    assert_eq!(
        told(Format::YarnLock, &old),
        [
            "@s/a@1.1.0 - https://npm.example/@s/a/-/a-1.1.0.tgz sha1",
            "real@1.0.0 - https://npm.example/real/-/real-1.0.0.tgz sha256",
            "!x: it comes from no registry",
        ]
    );
    let berry = "__metadata:\n  version: 8\n\n\"@s/a@npm:^1.0.0, @s/a@npm:^1.1.0\":\n  version: 1.1.0\n  resolution: \"@s/a@npm:1.1.0\"\n  checksum: 10/0123\n\n\"b@npm:1\":\n  version: 1.0.0\n  resolution: \"b@npm:1.0.0::__archiveUrl=https%3A%2F%2Fnpm.example%2Fb.tgz\"\n\n\"w@workspace:.\":\n  resolution: \"w@workspace:.\"\n\n\"g@https://git.example/g.git\":\n  resolution: \"g@https://git.example/g.git#commit=0\"\n";
    assert_eq!(
        told(Format::YarnLock, berry),
        ["@s/a@1.1.0 - - -", "b@1.0.0 - https://npm.example/b.tgz -", "!g: it comes from no registry",]
    );
}

#[test]
fn pnpm_and_bun_locks_are_read() {
    for (version, keys) in [
        ("5.4", ["/@s/a/1.0.0", "/b/2.0.0_x@1.0.0"]),
        ("'6.0'", ["/@s/a@1.0.0", "/b@2.0.0(x@1.0.0)"]),
        ("'9.0'", ["'@s/a@1.0.0'", "b@2.0.0"]),
    ] {
        let lock = format!(
            "lockfileVersion: {version}\n\nimporters:\n  .:\n    dependencies: {{}}\n\npackages:\n\n  {}:\n    resolution: {{integrity: {SRI}}}\n    engines: {{node: '>=6'}}\n\n  {}:\n    resolution:\n      integrity: {SRI}\n      tarball: https://npm.example/b.tgz\n    dev: true\n\n  g@https://git.example/g/0:\n    resolution: {{tarball: https://git.example/g/0}}\n\nsnapshots:\n\n  z@1.0.0: {{}}\n",
            keys[0], keys[1]
        );
        let found = told(Format::PnpmLock, &lock);
        assert_eq!(found[0], "@s/a@1.0.0 - - sha256", "{version}");
        assert_eq!(found[1], "b@2.0.0 - https://npm.example/b.tgz sha256", "{version}");
        assert_eq!((found.len(), found[2].starts_with('!')), (3, true), "{version}: {found:?}");
    }
    let bun = format!(
        "{{\n  \"lockfileVersion\": 1,\n  \"workspaces\": {{\n    \"\": {{ \"name\": \"x\" }},\n  }},\n  \"packages\": {{\n    \"@s/a\": [\"@s/a@1.0.0\", \"\", {{ \"dependencies\": {{ \"b\": \"^1\" }} }}, \"{SRI}\"],\n    \"w\": [\"w@workspace:packages/w\"],\n    \"g\": [\"g@git+ssh://git.example/g\", {{}}, \"0123\"],\n  }}\n}}\n"
    );
    let expected = ["@s/a@1.0.0 - - sha256", "!g@git+ssh://git.example/g: it comes from no registry"];
    assert_eq!(told(Format::BunLock, &bun), expected);
}

#[test]
fn requirements_need_an_exact_version() {
    let text = format!(
        "--index-url https://index.example/simple\n# c\nA.b[x]==1.0 ; python_version > '3' \\\n    --hash=sha256:{SHA256} \\\n    --hash=sha256:{SHA256}  # via c\nb===2.0\nc>=1\nd==1.*\ne @ https://files.example/e-1-py3-none-any.whl#sha256={SHA256}\nf @ git+https://git.example/f\n-r other.txt\n"
    );
    assert_eq!(
        told(Format::Requirements, &text),
        [
            "A.b@1.0 - - sha256sha256",
            "b@2.0 - - -",
            "e - https://files.example/e-1-py3-none-any.whl sha256",
            "!c>=1: no exact version",
            "!d==1.*: no exact version",
            "!f: it comes from no index",
            "!-r other.txt: name the file itself",
        ]
    );
}

#[test]
fn python_locks_list_files() {
    let poetry = format!(
        "[[package]]\nname = \"a\"\nversion = \"1.0\"\nfiles = [\n    {{file = \"a-1.0-py3-none-any.whl\", hash = \"sha256:{SHA256}\"}},\n    {{file = \"a-1.0.tar.gz\", hash = \"sha256:{SHA256}\"}},\n]\n\n[package.source]\ntype = \"legacy\"\nurl = \"https://index.example/simple\"\nreference = \"x\"\n\n[[package]]\nname = \"g\"\nversion = \"1\"\nfiles = [{{file = \"g\", hash = \"x\"}}]\n\n[package.source]\ntype = \"git\"\n\n[metadata]\nlock-version = \"2.0\"\n"
    );
    assert_eq!(
        told(Format::PoetryLock, &poetry),
        [
            "a@1.0 a-1.0-py3-none-any.whl https://index.example/simple sha256",
            "a@1.0 a-1.0.tar.gz https://index.example/simple sha256",
            "!g: it comes from no index",
        ]
    );
    let old = format!(
        "[[package]]\nname = \"a\"\nversion = \"1.0\"\n\n[metadata.files]\na = [\n    {{file = \"a-1.0.zip\", hash = \"sha256:{SHA256}\"}},\n]\n"
    );
    assert_eq!(told(Format::PoetryLock, &old), ["a@1.0 a-1.0.zip - sha256"]);
    let uv = format!(
        "version = 1\n\n[[package]]\nname = \"a\"\nversion = \"1.0\"\nsource = {{ registry = \"https://index.example/simple/\" }}\nsdist = {{ url = \"https://files.example/p/a-1.0.tar.gz\", hash = \"sha256:{SHA256}\", size = 12 }}\nwheels = [\n    {{ url = \"https://files.example/p/a-1.0-py3-none-any.whl\", hash = \"sha256:{SHA256}\", size = 34 }},\n]\n\n[package.metadata]\nrequires-dist = []\n\n[[package]]\nname = \"x\"\nversion = \"0\"\nsource = {{ editable = \".\" }}\n"
    );
    assert_eq!(
        told(Format::UvLock, &uv),
        [
            "a@1.0 a-1.0.tar.gz https://files.example/p/a-1.0.tar.gz sha256 12",
            "a@1.0 a-1.0-py3-none-any.whl https://files.example/p/a-1.0-py3-none-any.whl sha256 34",
        ]
    );
    let expected = "a@1.0 a-1.0-py3-none-any.whl https://files.example/a-1.0-py3-none-any.whl sha256 5";
    for pylock in [
        format!(
            "lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\nversion = \"1.0\"\nindex = \"https://index.example/simple\"\nwheels = [\n  {{name = \"a-1.0-py3-none-any.whl\", url = \"https://files.example/a-1.0-py3-none-any.whl\", size = 5, hashes = {{sha256 = \"{SHA256}\"}}}},\n]\n"
        ),
        format!(
            "[[packages]]\nname = \"a\"\nversion = \"1.0\"\n[[packages.wheels]]\nname = \"a-1.0-py3-none-any.whl\"\nurl = \"https://files.example/a-1.0-py3-none-any.whl\"\nsize = 5\n[packages.wheels.hashes]\nsha256 = \"{SHA256}\"\n"
        ),
    ] {
        assert_eq!(told(Format::PyLock, &pylock), [expected], "{pylock}");
    }
    let pipfile = format!(
        r#"{{"_meta":{{"hash":{{"sha256":"{SHA256}"}},"pipfile-spec":6,"sources":[]}},"default":{{"a":{{"hashes":["sha256:{SHA256}","sha256:{SHA256}"],"index":"x","version":"==1.0"}},"g":{{"git":"https://git.example"}}}},"develop":{{}}}}"#
    );
    let expected = ["a@1.0 - - sha256sha256", "!g: no exact version"];
    assert_eq!(told(Format::PipfileLock, &pipfile), expected);
}

#[test]
fn cargo_locks_of_all_versions_are_read() {
    let new = format!(
        "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0+b\"\nsource = \"registry+https://git.example/index\"\nchecksum = \"{SHA256}\"\ndependencies = [\n \"b\",\n]\n\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"sparse+https://crates.example/\"\nchecksum = \"{SHA256}\"\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"g\"\nversion = \"0.1.0\"\nsource = \"git+https://git.example/g#0\"\n"
    );
    assert_eq!(
        told(Format::CargoLock, &new),
        ["a@1.0.0+b - - sha256", "b@1.0.0 - https://crates.example sha256", "!g: it comes from no registry",]
    );
    let old = format!(
        "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry+https://git.example/index\"\n\n[metadata]\n\"checksum a 1.0.0 (registry+https://git.example/index)\" = \"{SHA256}\"\n"
    );
    assert_eq!(told(Format::CargoLock, &old), ["a@1.0.0 - - sha256"]);
}

#[test]
fn other_lists_are_read() {
    let sum = format!("example.test/A v1.0.0 {H1}\nexample.test/A v1.0.0/go.mod {H1}\nodd\n");
    let expected = [
        "example.test/A@v1.0.0 zip - h1",
        "example.test/A@v1.0.0 info - -",
        "example.test/A@v1.0.0 mod - h1",
    ];
    assert_eq!(told(Format::GoSum, &sum), expected);
    let gems = format!(
        "GIT\n  remote: https://git.example/g\n  specs:\n    g (1.0)\n\nGEM\n  remote: https://gems.example/\n  specs:\n    a (1.0.0-x86_64-linux)\n      b (>= 1)\n    b (2.0)\n\nPLATFORMS\n  ruby\n\nCHECKSUMS\n  a (1.0.0-x86_64-linux) sha256={SHA256}\n\nBUNDLED WITH\n   2.5\n"
    );
    assert_eq!(
        told(Format::GemfileLock, &gems),
        [
            "a@1.0.0-x86_64-linux - https://gems.example sha256",
            "b@2.0 - https://gems.example -",
            "!g: it comes from no registry",
        ]
    );
    let gradle = told(Format::GradleLock, "# c\norg.example:a:1.0=runtimeClasspath,x\nempty=\n");
    assert_eq!(gradle.len(), 3);
    assert_eq!(gradle[2], "org.example:a@1.0 a-1.0.jar - -");
    let verification = format!(
        "<verification-metadata><components>\n<component group=\"org.example\" name=\"a\" version=\"1.0\">\n<artifact name=\"a-1.0.jar\">\n<sha256 value=\"{SHA256}\" origin=\"x\"/>\n</artifact></component></components>"
    );
    let expected = ["org.example:a@1.0 a-1.0.jar - sha256"];
    assert_eq!(told(Format::GradleVerification, &verification), expected);
    let maven = "[INFO] Scanning\n[INFO]    org.example:a:jar:1.0:compile -- module a\n[INFO]    org.example:b:jar:tests:1.0:test\norg.example:p:1.0\n";
    let maven = told(Format::MavenList, maven);
    assert_eq!((maven.len(), &*maven[3]), (6, "org.example:b@1.0 b-1.0-tests.jar - -"));
    let images = format!("# c\ndebian\nimages.example/x/a:1.0@sha256:{SHA256}\nlocalhost:5000/b:2\n");
    assert_eq!(
        told(Format::Images, &images),
        [
            "library/debian@latest - - -".to_owned(),
            format!("x/a@sha256:{SHA256} - https://images.example -"),
            "b@2 - https://localhost:5000 -".to_owned(),
        ]
    );
    let urls = told(Format::Urls, "https://a.example/x?y=1#z and more\n# c\n\nftp://a.example/x\n");
    let expected = [
        "https://a.example/x?y=1 - https://a.example/x?y=1 -",
        "!ftp://a.example/x: it is no URL over http or https",
    ];
    assert_eq!(urls, expected);
}

#[test]
fn package_urls_are_found_in_any_text() {
    let text = "{\"purl\":\"pkg:npm/%40s/a@1.0.0?x=1\"},<purl>pkg:pypi/b@1.0</purl>\nExternalRef: PACKAGE-MANAGER purl pkg:cargo/c@1.0.0\npkg:npm/%40s/a@1.0.0?x=1 pkg:gem/d@1?platform=java pkg:golang/example.test/E@v1.0.0#sub pkg:maven/org.example/f@1?type=pom pkg:oci/g@sha256%3A00?repository_url=images.example/x/g pkg:hex/h@1 pkg:npm/i";
    assert_eq!(
        told(Format::Purls, text),
        [
            "@s/a@1.0.0 - - -",
            "b@1.0 - - -",
            "c@1.0.0 - - -",
            "d@1-java - - -",
            "example.test/E@v1.0.0 zip - -",
            "example.test/E@v1.0.0 mod - -",
            "example.test/E@v1.0.0 info - -",
            "org.example:f@1 f-1.pom - -",
            "x/g@sha256:00 - https://images.example -",
            "!pkg:hex/h@1: no mirror serves packages of this type",
            "!pkg:npm/i: no exact version",
        ]
    );
}

#[test]
fn formats_are_found_by_name_or_beginning() {
    for (file, bytes, format) in [
        ("x/package-lock.json", "", Some(Format::NpmLock)),
        ("requirements-dev.txt", "", Some(Format::Requirements)),
        ("pylock.dev.toml", "", Some(Format::PyLock)),
        (
            "a",
            "{\"bomFormat\":\"CycloneDX\",\"components\":[{\"purl\":\"pkg:npm/a@1\"}]}",
            Some(Format::Purls),
        ),
        ("a", "# yarn lockfile v1\n", Some(Format::YarnLock)),
        ("a", "lockfileVersion: '9.0'\n", Some(Format::PnpmLock)),
        ("a", "{\"lockfileVersion\": 3, \"packages\": {\"node_modules/a\"", Some(Format::NpmLock)),
        ("a", "a==1\n", Some(Format::Requirements)),
        ("a", "# urls\nhttps://a.example/\n", Some(Format::Urls)),
        ("a", "a v1.0.0 h1:x\n", Some(Format::GoSum)),
        ("a", "\u{0}\u{1}", None),
        ("a", "", None),
    ] {
        assert_eq!(Format::of(file, bytes.as_bytes()), format, "{file} {bytes}");
    }
    for (format, name) in Format::ALL {
        assert_eq!((name.parse(), format.name()), (Ok(format), name));
    }
}

#[test]
fn hostile_lists_are_refused_or_left_out() {
    let long = format!("https://a.example/{}", "x".repeat(5000));
    assert_eq!(told(Format::Urls, &long), [format!("!{}: a longer name than any package has", &long[..200])]);
    let many = "https://a.example/\n".repeat(ENTRIES_MAX + 1);
    assert!(parse(Format::Urls, many.as_bytes()).is_err_and(|error| error.why.contains("100,000")));
    let deep = format!("{{\"packages\":{}", "{\"a\":".repeat(1000));
    assert!(parse(Format::NpmLock, deep.as_bytes()).is_err());
    let many: String =
        (0..=ENTRIES_MAX).map(|n| format!("\"node_modules/a{n}\":{{\"version\":\"1\"}},")).collect();
    let many = format!("{{\"packages\":{{{}\"\":{{}}}}}}", many);
    assert!(parse(Format::NpmLock, many.as_bytes()).is_err_and(|error| error.why.contains("100,000")));
    assert!(parse(Format::GoSum, &vec![b'x'; LIST_MAX + 1]).is_err());
    assert!(parse(Format::GoSum, b"\xff").is_err());
}

#[test]
fn needs_are_paths_below_mirrors() {
    let digest = || vec![Digest::from_hex(crate::Algorithm::Sha256, SHA256).expect("a digest")];
    let files = |wanted: &ListEntry, below: Option<&str>| {
        let need = need(wanted, wanted.kind.expect("a kind"), below).expect("a sound name");
        let pages: Vec<String> = need.pages.into_iter().map(|page| page.path).collect();
        (need.files.into_iter().map(|file| file.path).collect::<Vec<_>>(), pages, need.search.is_some())
    };
    for (wanted, path, pages) in [
        (ListEntry::of(Kind::Npm, "@s/a", "1.0.0"), "/@s/a/-/a-1.0.0.tgz".to_owned(), "/@s%2fa"),
        (ListEntry::of(Kind::RubyGems, "a", "1-java"), "/gems/a-1-java.gem".into(), "/versions /info/a"),
        (
            ListEntry::of(Kind::Cargo, "AbCd", "1.0.0").checked(digest()),
            format!("/crates/AbCd/1.0.0/{SHA256}/download"),
            "/config.json /ab/cd/abcd",
        ),
        (
            ListEntry { file: Some("zip".into()), ..ListEntry::of(Kind::Go, "example.test/A", "v1.0.0") },
            "/example.test/!a/@v/v1.0.0.zip".into(),
            "",
        ),
        (
            ListEntry { file: Some("b-1.jar".into()), ..ListEntry::of(Kind::Maven, "org.a:b", "1") },
            "/org/a/b/1/b-1.jar".into(),
            "",
        ),
    ] {
        assert_eq!(
            files(&wanted, None),
            (vec![path], pages.split_whitespace().map(str::to_owned).collect(), false)
        );
    }
    assert!(files(&ListEntry::of(Kind::Pypi, "A.b", "1"), None).2);
    assert!(files(&ListEntry::of(Kind::Cargo, "a", "1"), None).2);
    assert!(files(&ListEntry::of(Kind::Oci, "x/a", "1"), None).2);
    for wanted in [
        ListEntry::of(Kind::Npm, "..", "1"),
        ListEntry::of(Kind::Npm, "a", "1 HTTP/1.1\r\n"),
        ListEntry::of(Kind::Cargo, "../x", "1"),
        ListEntry::of(Kind::Pypi, "a/b", "1"),
        ListEntry::of(Kind::RubyGems, "a?b#", "1"),
        ListEntry::of(Kind::Oci, "a/../b", "1"),
        ListEntry { file: Some("../../x".into()), ..ListEntry::of(Kind::Maven, "a:b", "1") },
    ] {
        let kind = wanted.kind.expect("a kind");
        assert_eq!(need(&wanted, kind, None), Err("no registry has such a name"), "{wanted:?}");
    }
}

#[test]
fn files_are_found_on_pages() {
    let mirror = crate::Mirror {
        external: "https://index.example/simple".into(),
        upstream: "https://index.example/simple".into(),
    };
    let json = format!(
        r#"{{"files":[{{"url":"../../p/a-1.0-py3-none-any.whl","filename":"x","size":7,"hashes":{{"sha256":"{SHA256}"}},"core-metadata":{{"sha256":"{SHA256}"}}}},
        {{"url":"https://files.example/a-2.0.tar.gz","hashes":{{"sha256":"{}"}},"core-metadata":false}}]}}"#,
        SHA256.replace("ba", "00")
    );
    let html = format!(
        "<a href=\"../../p/a-1.0-py3-none-any.whl#sha256={SHA256}\" data-core-metadata=\"sha256=x\">a</a><a href='https://files.example/a-2.0.tar.gz'>b</a>"
    );
    for (form, page) in [(crate::Form::PypiJson, json), (crate::Form::PypiHtml, html)] {
        let mut files = ProjectFiles::new(&mirror, form).expect("a page");
        page.as_bytes().chunks(7).for_each(|piece| files.push(piece).expect("a sound page"));
        let files = files.finish().expect("a whole page");
        let paths = |version: &str, file: Option<&str>, digests: &[&str]| {
            let digest = |hex: &&str| Digest::from_hex(crate::Algorithm::Sha256, hex).expect("a digest");
            let search = Search::Project {
                page: IndexPage::of_project("a").expect("a name"),
                version: version.into(),
                file: file.map(str::to_owned),
                digests: digests.iter().map(digest).collect(),
            };
            let found = search.among(&files, &mirror, &Choice::default());
            found.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        let wheel = "/files/index.example/p/a-1.0-py3-none-any.whl";
        let with_metadata = [format!("{wheel}.metadata"), wheel.to_owned()];
        assert_eq!(paths("1.0", None, &[SHA256]), with_metadata);
        assert_eq!(paths("1.0", Some("a-1.0-py3-none-any.whl"), &[]), with_metadata);
        assert_eq!(paths("1.0", None, &[]), with_metadata);
        assert_eq!(paths("2.0", None, &[]), ["/files/files.example/a-2.0.tar.gz"]);
        assert!(
            paths("3.0", None, &[]).is_empty() && paths("", None, &[&SHA256.replace("ba", "11")]).is_empty()
        );
    }
}

#[test]
fn crates_and_images_are_searched() {
    let index = format!(
        "{{\"name\":\"a\",\"vers\":\"1.0.0\",\"cksum\":\"{SHA256}\",\"deps\":[]}}\nodd\n{{\"name\":\"a\",\"vers\":\"1.1.0\",\"cksum\":\"{SHA256}\"}}"
    );
    for (version, is_found) in [("1.0.0", true), ("1.1.0", true), ("2.0.0", false)] {
        let mut digests = CrateDigest::default();
        index.as_bytes().chunks(11).for_each(|piece| digests.push(piece).expect("short lines"));
        let file = digests.file("a", version).expect("a whole index");
        let path = format!("/crates/a/{version}/{SHA256}/download");
        assert_eq!(file.map(|file| file.path), is_found.then_some(path));
    }
    let manifest = format!(
        r#"{{"config":{{"digest":"sha256:{SHA256}","size":3}},"layers":[{{"digest":"sha256:{SHA256}","size":4}},{{"digest":"odd"}}]}}"#
    );
    let blobs = ImageManifest::parse(manifest.as_bytes()).expect("a manifest").blobs("x/a");
    assert_eq!(
        (blobs.len(), &*blobs[1].path, blobs[1].size),
        (2, &*format!("/v2/x/a/blobs/sha256:{SHA256}"), Some(4))
    );
    let index = ImageManifest::parse(br#"{"manifests":[{"digest":"a","platform":{"os":"linux","architecture":"amd64"}},{"digest":"b","platform":{"os":"linux","architecture":"arm64"}}]}"#).expect("an index");
    let choice = Choice { platforms: vec!["linux/arm64".into()], ..Choice::default() };
    assert_eq!(index.manifests(&choice).collect::<Vec<_>>(), ["b"]);
    assert!(ImageManifest::parse(b"[").is_none());
}
