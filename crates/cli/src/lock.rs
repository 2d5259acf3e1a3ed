//! `shoal lock`: rewrites the URLs of lockfiles, from mirrors to registries or back.

use crate::configuration::Configuration;
use crate::failure::Failure;
use crate::mirror::{MirrorWish, own_url};
use shoal_mirrors::lock::{Direction, MirroredRegistry, rewrite};
use shoal_mirrors::{Kind, Mirror};
use shoal_settings::Settings;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Rewrite the URLs of lockfiles: of mirrors to the registries' own, or back
///
/// All other bytes stay. Files are replaced whole or not at all.
#[derive(clap::Args)]
pub struct LockOptions {
    /// Put the registries' own URLs in the place of the mirrors'
    #[arg(long, conflicts_with = "to_mirror", required_unless_present = "to_mirror")]
    to_origin: bool,
    /// Put the mirrors' URLs in the place of the registries'
    #[arg(long)]
    to_mirror: bool,
    /// Count the changes, make none of them, and end with 1 if there are any
    #[arg(long)]
    check: bool,
    /// Take the mirrors and their address from this configuration file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Mirrors that are not in the file, as given to `shoal run`
    #[arg(long, value_name = "KIND[=URL]")]
    mirror: Vec<MirrorWish>,
    /// Address by which clients reach the node, such as `https://cache.example`; default: the
    /// address of the first listener in reverse mode
    #[arg(long, value_name = "URL")]
    at: Option<String>,
    /// Lockfiles of any package manager
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl LockOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let mut configuration = Configuration::find(self.config);
        let is_file = configuration.file.is_some();
        for wish in &self.mirror {
            configuration.options.push(wish.clone().found()?.into_override());
        }
        if !is_file {
            configuration.options.insert(0, crate::run::reverse_listener("--mirror"));
        }
        let settings = configuration.load()?;
        let at = self.at.map(|at| at.trim_end_matches('/').to_owned());
        let mirrors = registries(&settings, &at.unwrap_or_else(|| own_url(&settings)))?;
        let direction = if self.to_origin { Direction::ToOrigin } else { Direction::ToMirror };
        let mut total = 0;
        for file in &self.files {
            let lock = read(file)?;
            let (made, count) = rewrite(&lock, &mirrors, direction);
            total += count;
            if count > 0 && !self.check {
                replace(file, &made)?;
            }
            let what = if self.check { "would change" } else { "changed" };
            crate::show::print(&format!(
                "{}: {} {what}\n",
                file.display(),
                crate::show::counted(count as u64, "URL")
            ))?;
        }
        match self.check && total > 0 {
            true => {
                Err(Failure::Runtime(format!("{} would change", crate::show::counted(total as u64, "URL"))))
            }
            false => Ok(()),
        }
    }
}

/// Returns the mirrors of the settings, as clients reach them at `base`.
fn registries(settings: &Settings, base: &str) -> Result<Vec<MirroredRegistry>, Failure> {
    if settings.mirror.is_empty() {
        let why = "the settings have no [[mirror]]; name one with --mirror KIND=URL, or a file with --config";
        return Err(Failure::Usage(why.into()));
    }
    let registry = |mirror: &shoal_settings::Mirror| {
        let kind: Kind = mirror.kind.name().parse().map_err(Failure::Usage)?;
        let mirror =
            Mirror { external: format!("{base}{}", mirror.path()), upstream: mirror.upstream().to_owned() };
        Ok(MirroredRegistry { kind, mirror })
    };
    settings.mirror.iter().map(registry).collect()
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |why: String| Failure::Runtime(format!("{}: {why}", file.display()));
    let length = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
    if length > LOCK_BYTES_MAX {
        return Err(failed("larger than 256 MiB; this is no lockfile".into()));
    }
    let lock = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    match file.file_name().is_some_and(|name| name == "bun.lockb") {
        true => {
            Err(failed("a binary lock; write a text lock with `bun install --save-text-lockfile`".into()))
        }
        false => Ok(lock),
    }
}

/// Replaces a file by one in its folder, with its permissions.
fn replace(file: &Path, made: &[u8]) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Runtime(format!("{}: {error}", file.display()));
    // A link stays; the file behind it is replaced.
    let file = file.canonicalize().map_err(failed)?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = file.with_file_name(format!(".{name}.shoal-{}", std::process::id()));
    let write = || {
        let mut new = std::fs::OpenOptions::new().write(true).create_new(true).open(&beside)?;
        new.write_all(made)?;
        new.set_permissions(std::fs::metadata(&file)?.permissions())?;
        new.sync_all()?;
        std::fs::rename(&beside, &file)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&beside))).map_err(failed)
}

/// Most bytes of a lockfile.
const LOCK_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn file_is_replaced_with_its_permissions() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, link) = (folder.path().join("lock"), folder.path().join("link"));
        std::fs::write(&file, "old").expect("writable");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).expect("ours");
        std::os::unix::fs::symlink(&file, &link).expect("a link");
        replace(&link, b"new").expect("replaced");
        assert_eq!(std::fs::read(&file).expect("there"), b"new");
        assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing is left");
    }
}
