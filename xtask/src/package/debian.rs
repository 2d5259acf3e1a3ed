//! The Debian package, by `dpkg-deb`.

use super::tree::Tree;
use super::{Release, output, remove, write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Scripts of the maintainer, from `contrib/debian`.
const SCRIPTS: &[&str] = &["postinst", "prerm", "postrm"];

/// Writes `shoal_VERSION_amd64.deb` into the folder.
pub(super) fn package(
    root: &Path,
    tree: &Tree,
    binary: &Path,
    into: &Path,
    release: &Release,
) -> Result<PathBuf, String> {
    let stage = into.join(".deb");
    remove(&stage)?;
    let control = stage.join("DEBIAN");
    std::fs::create_dir_all(&control).map_err(|why| format!("{}: {why}", control.display()))?;
    let mut tree = tree.clone();
    tree.add("usr/share/doc/shoal/changelog.gz", super::tree::gzip(changelog(release)?.as_bytes())?, false);
    tree.write(&stage)?;
    write(&control.join("control"), self::control(release, &tree, &c_library(binary)?).as_bytes())?;
    let kept: String =
        tree.paths().filter(|path| path.starts_with("etc/")).map(|path| format!("/{path}\n")).collect();
    write(&control.join("conffiles"), kept.as_bytes())?;
    write(&control.join("md5sums"), sums(&stage, &tree)?.as_bytes())?;
    for script in SCRIPTS {
        let text = std::fs::read(root.join("contrib/debian").join(script));
        write(&control.join(script), &text.map_err(|why| format!("contrib/debian/{script}: {why}"))?)?;
        let executable = PermissionsExt::from_mode(0o755);
        let set = std::fs::set_permissions(control.join(script), executable);
        set.map_err(|why| format!("{script}: {why}"))?;
    }
    let package = into.join(format!("shoal_{}_amd64.deb", release.version));
    output(
        Command::new("dpkg-deb")
            .args(["--root-owner-group", "-Zxz", "--build"])
            .args([&stage, &package])
            .env("SOURCE_DATE_EPOCH", release.epoch.to_string()),
    )?;
    remove(&stage)?;
    Ok(package)
}

const MAINTAINER: &str = "The developers of Shoal <shoal@localhost>";

/// Debian's changelog: one entry, which names the project's own.
fn changelog(release: &Release) -> Result<String, String> {
    let date = output(Command::new("date").args(["-u", "-R", "-d"]).arg(format!("@{}", release.epoch)))?;
    Ok(format!(
        "shoal ({}) stable; urgency=medium\n\n  * The changes are in NEWS.gz.\n\n -- {MAINTAINER}  {}\n",
        release.version,
        date.trim()
    ))
}

/// The description that `apt show` prints.
fn control(release: &Release, tree: &Tree, c_library: &str) -> String {
    format!(
        "Package: shoal\n\
         Version: {}\n\
         Architecture: amd64\n\
         Maintainer: {MAINTAINER}\n\
         Installed-Size: {}\n\
         Depends: adduser, libc6 (>= {c_library}), libgcc-s1\n\
         Recommends: ca-certificates, logrotate\n\
         Section: web\n\
         Priority: optional\n\
         Description: caching HTTP proxy that spares the disk\n \
         Forward and reverse caching proxy with its cache in RAM and on disk, a cluster,\n \
         a mirror for package registries, and a lab that answers from an access log what\n \
         a cache needs. It survives kill -9, a power loss and a full disk.\n",
        release.version,
        tree.bytes().div_ceil(1_024),
    )
}

/// The newest version of the C library whose symbols the binary names.
fn c_library(binary: &Path) -> Result<String, String> {
    let said = output(Command::new("readelf").arg("-V").arg("--wide").arg(binary))?;
    newest(&said).ok_or_else(|| format!("package: {} names no symbol of the C library", binary.display()))
}

fn newest(said: &str) -> Option<String> {
    let versions = said.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (major, minor) = rest[..end].split_once('.')?;
        Some((major.parse::<u32>().ok()?, minor.split('.').next()?.parse::<u32>().ok()?))
    });
    versions.max().map(|(major, minor)| format!("{major}.{minor}"))
}

/// `md5sums` as dpkg checks them.
fn sums(stage: &Path, tree: &Tree) -> Result<String, String> {
    let paths = tree.paths().filter(|path| !path.starts_with("etc/"));
    output(Command::new("md5sum").args(paths).current_dir(stage))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that answers as the binary does.
    const TALKING: &str = "#!/bin/sh\ncase $1 in\n--version) echo shoal 0.1.0 ;;\nman) mkdir -p $2; echo page > $2/shoal.1 ;;\n\
                           completions) echo $2 ;;\nesac\n";

    #[test]
    fn a_package_has_what_it_installs() {
        let folder = std::env::temp_dir().join(format!("shoal-debian-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let talking = folder.join("talking");
        std::fs::write(&talking, TALKING).unwrap();
        std::fs::set_permissions(&talking, PermissionsExt::from_mode(0o755)).unwrap();
        let (root, binary) = (crate::workspace::root(), std::env::current_exe().unwrap());
        let release = Release { version: "0.1.0".into(), epoch: 1_700_000_000 };
        let tree = Tree::of(&root, &talking, &talking, &release).unwrap();
        let package = package(&root, &tree, &binary, &folder, &release).unwrap();
        let listed = output(Command::new("dpkg-deb").arg("-c").arg(&package)).unwrap();
        for line in [
            "-rwxr-xr-x root/root",
            "2023-11-14",
            "./usr/bin/shoal",
            "./etc/shoal/shoal.toml",
            "./lib/systemd/system/shoal.socket",
        ] {
            assert!(listed.contains(line), "{line} is not in\n{listed}");
        }
        let unpacked = folder.join("unpacked");
        output(Command::new("dpkg-deb").arg("-R").args([&package, &unpacked])).unwrap();
        for script in SCRIPTS {
            output(Command::new("sh").arg("-n").arg(unpacked.join("DEBIAN").join(script))).unwrap();
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_newest_c_library_is_found() {
        let said = "Name: GLIBC_2.9  Flags: none\n Name: GLIBC_2.34\n GLIBC_2.2.5\n GLIBC_PRIVATE";
        assert_eq!(newest(said).as_deref(), Some("2.34"));
        assert_eq!(newest("nothing"), None);
    }

    #[test]
    fn a_description_has_its_fields() {
        let mut tree = Tree::default();
        tree.add("usr/bin/a", vec![0; 1_025], true);
        let text = control(&Release { version: "0.1.0".into(), epoch: 1 }, &tree, "2.34");
        assert!(
            text.contains("\nInstalled-Size: 2\nDepends: adduser, libc6 (>= 2.34), libgcc-s1\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        assert!(text.contains("\nDescription: caching HTTP proxy that spares the disk\n Forward"), "{text}");
    }
}
