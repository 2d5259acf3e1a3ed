//! Files of a package: where each goes, its bytes, its mode.

use super::{Release, output};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Files by their path from the root of a system, without the first slash.
#[derive(Clone, Default)]
pub(super) struct Tree(BTreeMap<String, Leaf>);

/// One file.
#[derive(Clone)]
struct Leaf {
    bytes: Vec<u8>,
    executable: bool,
}

/// Files of the project that are installed as they are: from, to.
const COPIED: &[(&str, &str)] = &[
    ("contrib/debian/shoal.toml", "etc/shoal/shoal.toml"),
    ("contrib/shoal.logrotate", "etc/logrotate.d/shoal"),
    ("contrib/shoal.socket", "lib/systemd/system/shoal.socket"),
    ("contrib/shoal.alerts.yml", "usr/share/shoal/shoal.alerts.yml"),
    ("contrib/shoal.grafana.json", "usr/share/shoal/shoal.grafana.json"),
    ("contrib/debian/copyright", "usr/share/doc/shoal/copyright"),
    ("contrib/debian/lintian-overrides", "usr/share/lintian/overrides/shoal"),
    ("LICENSE-MIT", "usr/share/doc/shoal/LICENSE-MIT"),
    ("docs/INSTALL.md", "usr/share/doc/shoal/INSTALL.md"),
    ("docs/DASHBOARD.md", "usr/share/doc/shoal/DASHBOARD.md"),
    ("docs/CONFIG.md", "usr/share/doc/shoal/CONFIG.md"),
    ("docs/OPERATING.md", "usr/share/doc/shoal/OPERATING.md"),
];

impl Tree {
    /// The system's files of a release: `binary` is installed, `talking` is one that runs here and
    /// prints its pages.
    pub(super) fn of(root: &Path, binary: &Path, talking: &Path, release: &Release) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.add("usr/bin/shoal", read(binary)?, true);
        for (from, to) in COPIED {
            tree.add(to, read(&root.join(from))?, false);
        }
        tree.add(
            "lib/systemd/system/shoal.service",
            unit(&read(&root.join("contrib/shoal.service"))?)?,
            false,
        );
        tree.add("usr/share/doc/shoal/NEWS.gz", gzip(&read(&root.join("CHANGELOG.md"))?)?, false);
        tree.add_pages(talking)?;
        tree.add_completions(talking)?;
        let said = output(Command::new(talking).arg("--version"))?;
        match said.trim().strip_prefix("shoal ") == Some(&*release.version) {
            true => Ok(tree),
            false => Err(format!("package: the binary says {said:?}, the workspace {}", release.version)),
        }
    }

    /// Every file below a folder of the project.
    pub(super) fn of_folder(root: &Path, folder: &str) -> Result<Self, String> {
        let mut tree = Self::default();
        tree.collect(&root.join(folder), "")?;
        Ok(tree)
    }

    fn collect(&mut self, folder: &Path, prefix: &str) -> Result<(), String> {
        let told = |why: std::io::Error| format!("{}: {why}", folder.display());
        for entry in std::fs::read_dir(folder).map_err(told)? {
            let path = entry.map_err(told)?.path();
            let name = format!("{prefix}{}", path.file_name().unwrap_or_default().to_string_lossy());
            match path.is_dir() {
                true => self.collect(&path, &format!("{name}/"))?,
                false => self.add(&name, read(&path)?, false),
            }
        }
        Ok(())
    }

    /// Adds a file.
    pub(super) fn add(&mut self, path: &str, bytes: Vec<u8>, executable: bool) {
        assert!(!path.starts_with('/') && !path.split('/').any(|part| part == ".."), "{path} lies inside");
        let before = self.0.insert(path.to_string(), Leaf { bytes, executable });
        assert!(before.is_none(), "{path} is there once");
    }

    /// The same files below a folder.
    pub(super) fn below(&self, folder: &str) -> Self {
        Self(self.0.iter().map(|(path, leaf)| (format!("{folder}/{path}"), leaf.clone())).collect())
    }

    /// Paths of the files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.0.values().map(|leaf| leaf.bytes.len() as u64).sum()
    }

    /// Writes the files below `folder`, which must be empty.
    pub(super) fn write(&self, folder: &Path) -> Result<(), String> {
        for (path, leaf) in &self.0 {
            let path = folder.join(path);
            let told = |why: std::io::Error| format!("{}: {why}", path.display());
            std::fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(told)?;
            std::fs::write(&path, &leaf.bytes).map_err(told)?;
            let mode = if leaf.executable { 0o755 } else { 0o644 };
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).map_err(told)?;
        }
        set_modes_of_folders(folder)
    }

    /// Manual pages of all commands.
    fn add_pages(&mut self, talking: &Path) -> Result<(), String> {
        let folder = std::env::temp_dir().join(format!("shoal-man-{}", std::process::id()));
        output(Command::new(talking).arg("man").arg(&folder))?;
        let mut pages = Self::default();
        pages.collect(&folder, "")?;
        std::fs::remove_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        for (name, leaf) in pages.0 {
            self.add(&format!("usr/share/man/man1/{name}.gz"), gzip(&leaf.bytes)?, false);
        }
        Ok(())
    }

    /// Completions of three shells, where Debian's shells look for them.
    fn add_completions(&mut self, talking: &Path) -> Result<(), String> {
        for (shell, path) in [
            ("bash", "usr/share/bash-completion/completions/shoal"),
            ("zsh", "usr/share/zsh/vendor-completions/_shoal"),
            ("fish", "usr/share/fish/vendor_completions.d/shoal.fish"),
        ] {
            let script = output(Command::new(talking).args(["completions", shell]))?;
            self.add(path, script.into_bytes(), false);
        }
        Ok(())
    }
}

/// The service as a package has it: the user exists, so none is made at each start.
fn unit(service: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(service);
    let is_dynamic = |line: &str| line.trim() == "DynamicUser=yes";
    if !text.lines().any(is_dynamic) {
        return Err("package: contrib/shoal.service has no line DynamicUser=yes".into());
    }
    let lines = text.lines().filter(|line| !is_dynamic(line) && !line.starts_with("# Shoal as a service"));
    Ok(lines.flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}

/// Compressed without name and time.
pub(super) fn gzip(bytes: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Write as _;
    use std::process::Stdio;
    let told = |why: std::io::Error| format!("package: gzip: {why}");
    let mut gzip = Command::new("gzip")
        .arg("-9nc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(told)?;
    let mut input = gzip.stdin.take().expect("stdin is a pipe");
    let whole = bytes.to_vec();
    let writer = std::thread::spawn(move || input.write_all(&whole));
    let output = gzip.wait_with_output().map_err(told)?;
    writer.join().expect("the writer does not panic").map_err(told)?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err("package: gzip failed".into()),
    }
}

fn set_modes_of_folders(folder: &Path) -> Result<(), String> {
    let told = |why: std::io::Error| format!("{}: {why}", folder.display());
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755)).map_err(told)?;
    for entry in std::fs::read_dir(folder).map_err(told)? {
        let path = entry.map_err(told)?.path();
        if path.is_dir() {
            set_modes_of_folders(&path)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|why| format!("{}: {why}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_s_unit_has_a_fixed_user() {
        let unit = unit(b"[Service]\nDynamicUser=yes\nUser=shoal\n").unwrap();
        assert_eq!(unit, b"[Service]\nUser=shoal\n");
        assert!(super::unit(b"[Service]\nUser=shoal\n").is_err());
    }

    #[test]
    fn gzip_gives_the_same_bytes() {
        let bytes = b"one two three".repeat(10_000);
        let packed = gzip(&bytes).unwrap();
        assert!(packed.len() < bytes.len() / 10);
        assert_eq!(packed, gzip(&bytes).unwrap());
        assert_eq!(packed[4..8], [0; 4], "no time");
    }

    #[test]
    fn a_tree_is_written_with_modes() {
        let folder = std::env::temp_dir().join(format!("shoal-tree-{}", std::process::id()));
        let mut tree = Tree::default();
        tree.add("usr/bin/a", b"a".to_vec(), true);
        tree.add("etc/b", b"bb".to_vec(), false);
        assert_eq!(tree.bytes(), 3);
        std::fs::create_dir_all(&folder).unwrap();
        tree.below("x").write(&folder).unwrap();
        let mode = |path: &str| std::fs::metadata(folder.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("x/usr/bin/a"), mode("x/etc/b"), mode("x/usr")], [0o755, 0o644, 0o755]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
