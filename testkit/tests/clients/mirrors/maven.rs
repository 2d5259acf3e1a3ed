//! Maven through a mirror of a repository that redirects to its jars. A build that has no plugins
//! takes a parent, an imported list of versions, and an extension with a dependency by range.

use super::{Client, Lock, Place, Registry, Row};
use crate::workshop::{Workshop, installed, line, run};
use std::fmt::Write;

struct Maven;

/// Makes an archive with one file.
const MAKE_JAR: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as jar:
    jar.writestr('META-INF/MANIFEST.MF', 'Manifest-Version: 1.0\\n')
    jar.writestr('data.txt', sys.argv[1][-20:] * 2000)
";

/// Files of the repository, without the checksums beside them.
const FILES: [&str; 9] = [
    "test/shoal/parent/1/parent-1.pom",
    "test/shoal/bom/1/bom-1.pom",
    "test/shoal/extension/1.0/extension-1.0.pom",
    "test/shoal/extension/1.0/extension-1.0.jar",
    "test/shoal/library/maven-metadata.xml",
    "test/shoal/library/1.1/library-1.1.pom",
    "test/shoal/library/1.1/library-1.1.jar",
    // Maven gives every extension this library.
    "org/codehaus/plexus/plexus-utils/1.1/plexus-utils-1.1.pom",
    "org/codehaus/plexus/plexus-utils/1.1/plexus-utils-1.1.jar",
];

/// A POM with these elements.
fn pom(name: &str, version: &str, packaging: &str, rest: &str) -> String {
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>test.shoal</groupId><artifactId>{name}</artifactId>\
         <version>{version}</version><packaging>{packaging}</packaging>{rest}</project>\n"
    )
}

/// A dependency on one of the artifacts.
fn on(name: &str, version: &str, rest: &str) -> String {
    format!("<groupId>test.shoal</groupId><artifactId>{name}</artifactId><version>{version}</version>{rest}")
}

impl Client for Maven {
    fn publish(&self, shop: &Workshop, registry: &Registry) {
        let depends = |on: String| format!("<dependencies><dependency>{on}</dependency></dependencies>");
        let library = depends(on("library", "[1.0,2.0)", ""));
        let managed =
            format!("<dependencyManagement>{}</dependencyManagement>", depends(on("library", "1.1", "")));
        for file in FILES {
            let path = format!("maven2/{file}");
            let text = match file.split('/').nth(2) {
                _ if file.ends_with(".jar") => {
                    shop.write(&path, "");
                    run(shop.command("python3", None).args(["-c", MAKE_JAR]).arg(shop.path(&path)));
                    None
                }
                _ if file.ends_with(".xml") => Some(
                    "<metadata><groupId>test.shoal</groupId><artifactId>library</artifactId><versioning>\
                     <versions><version>1.1</version></versions></versioning></metadata>\n"
                        .to_owned(),
                ),
                Some("bom") => Some(pom("bom", "1", "pom", &managed)),
                Some("parent") => Some(pom("parent", "1", "pom", "")),
                Some("extension") => Some(pom("extension", "1.0", "jar", &library)),
                Some("library") => Some(pom("library", "1.1", "jar", "")),
                _ => {
                    let plexus = pom("plexus-utils", "1.1", "jar", "");
                    Some(plexus.replace("test.shoal", "org.codehaus.plexus"))
                }
            };
            text.iter().for_each(|text| drop(shop.write(&path, text)));
            let sum = line(shop.command("sha1sum", None).arg(shop.path(&path)));
            shop.write(&format!("{path}.sha1"), &sum[..40]);
        }
        registry.redirecting("/maven2/", &shop.path("maven2"), ".jar");
    }

    fn work(&self, place: &Place<'_>, app: &str, _: Option<&str>) -> String {
        let shop = place.shop;
        let bom = format!(
            "<dependencyManagement><dependencies><dependency>{}</dependency></dependencies></dependencyManagement>",
            on("bom", "1", "<type>pom</type><scope>import</scope>")
        );
        let parent = format!("<parent>{}</parent>", on("parent", "1", "<relativePath/>"));
        let extension = on("extension", "1.0", "");
        let build = format!("<build><extensions><extension>{extension}</extension></extensions></build>");
        shop.write(&format!("{app}/pom.xml"), &pom("app", "1", "pom", &(parent + &bom + &build)));
        let mirror = format!("<mirror><id>own</id><mirrorOf>*</mirrorOf><url>{}</url></mirror>", place.url);
        let lines = format!("<settings><mirrors>{mirror}</mirrors></settings>");
        let settings = shop.write(&format!("{app}/settings.xml"), &lines);
        let empty = shop.write("global-settings.xml", "<settings/>");
        let repository = shop.path(&format!("{app}/repository"));
        let mut maven = place.command("mvn");
        maven.current_dir(shop.path(app)).args(["-B", "-q", "-s"]).arg(settings).arg("-gs").arg(empty);
        maven.arg(format!("-Dmaven.repo.local={}", repository.display()));
        run(maven.arg("validate"));
        for file in FILES.iter().filter(|file| file.starts_with("test/") && !file.ends_with(".xml")) {
            let got = std::fs::read(repository.join(file)).expect(file);
            assert!(got == std::fs::read(shop.path(&format!("maven2/{file}"))).expect(file), "{file}");
        }
        String::new()
    }

    fn list(&self, _: &Workshop, registry: &Registry) -> Option<String> {
        let mut urls = String::new();
        for file in FILES {
            for ending in ["", ".sha1"] {
                let _ = writeln!(urls, "{}/maven2/{file}{ending}", registry.url());
            }
        }
        Some(urls)
    }
}

pub const MAVEN: Row = Row {
    client: "Maven",
    task: "`validate` with a parent, a BOM and an extension by range",
    kind: "maven",
    path: "/maven2",
    lock: Lock::None,
    list: ("URLs", "format=urls"),
    unlisted: &[],
    absent: "/maven/test/absent/1/absent-1.jar",
    prepare: || (installed("mvn") && installed("python3")).then(|| Box::new(Maven) as Box<dyn Client>),
};
