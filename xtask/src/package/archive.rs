//! Archives whose bytes depend on their files alone.

use super::tree::Tree;
use super::{Release, output, remove};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes `STEM.tar.gz` into the folder: order, times, owner and modes are fixed.
pub(super) fn tar_gz(tree: &Tree, stem: &str, into: &Path, release: &Release) -> Result<PathBuf, String> {
    let stage = into.join(format!(".{stem}"));
    remove(&stage)?;
    std::fs::create_dir_all(&stage).map_err(|why| format!("{}: {why}", stage.display()))?;
    tree.write(&stage)?;
    let archive = into.join(format!("{stem}.tar.gz"));
    let script = "tar --sort=name --format=ustar --mtime=@$0 --owner=0 --group=0 --numeric-owner -C \"$1\" -cf - $3 \
                  | gzip -9n > \"$2\"";
    let mut tops: Vec<&str> = tree.paths().filter_map(|path| path.split('/').next()).collect();
    tops.dedup();
    let [top] = tops[..] else { return Err(format!("package: {stem} must have one folder, not {tops:?}")) };
    output(
        Command::new("bash")
            .args(["-euo", "pipefail", "-c", script])
            .arg(release.epoch.to_string())
            .args([&stage, &archive])
            .arg(top),
    )?;
    remove(&stage)?;
    Ok(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_archives_have_the_same_bytes() {
        let folder = std::env::temp_dir().join(format!("shoal-archive-{}", std::process::id()));
        let release = Release { version: "0.1.0".into(), epoch: 1_700_000_000 };
        let mut tree = Tree::default();
        tree.add("usr/bin/a", b"a".to_vec(), true);
        tree.add("etc/b", b"bb".to_vec(), false);
        let tree = tree.below("shoal");
        let one = std::fs::read(tar_gz(&tree, "one", &folder, &release).unwrap()).unwrap();
        let two = std::fs::read(tar_gz(&tree, "two", &folder, &release).unwrap()).unwrap();
        assert_eq!(one, two);
        let listed = output(Command::new("tar").arg("-tvzf").arg(folder.join("one.tar.gz"))).unwrap();
        assert!(listed.contains("-rwxr-xr-x 0/0") && listed.contains("shoal/usr/bin/a"), "{listed}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
