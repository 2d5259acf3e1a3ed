//! `shoal lab files`: writes SPECweb99's file set to disk, for a server.

use super::telling::ProgressLine;
use crate::failure::Failure;
use crate::show::{print, size};
use shoal_lab::progress::Progress;
use shoal_trace::Random;
use shoal_trace::generate::specweb99::{FILES_PER_DIRECTORY, File, FileSet};
use std::path::{Path, PathBuf};

/// Write SPECweb99's file set to a folder: directories of 36 files, 5.12 MB each
///
/// The files hold incompressible bytes, the same for the same seed. The folder must be empty or
/// missing.
#[derive(clap::Args)]
pub struct LabFilesOptions {
    /// Folder for the files
    folder: PathBuf,
    /// Directories; (int)(25 + λ/5) for λ operations a second
    #[arg(long, value_name = "N", default_value_t = 525, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    directories: u32,
    /// Seed of the files' bytes
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

impl LabFilesOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let set = FileSet::of(self.directories);
        check_is_free(&self.folder)?;
        let mut telling = ProgressLine::new();
        telling.begin("files", set.len() as u64);
        let mut bytes = 0;
        for file in set.files() {
            bytes += file.bytes();
            self.write(file)?;
            telling.done(1);
        }
        telling.finish();
        let (files, folder) = (set.len(), self.folder.display());
        print(&format!("{files} files of {} together in {folder}\n", size(bytes)))
    }

    fn write(&self, file: File) -> Result<(), Failure> {
        let path = self.folder.join(file.path());
        let failed = |error: std::io::Error| Failure::Runtime(format!("{}: {error}", path.display()));
        if file.place().is_multiple_of(FILES_PER_DIRECTORY)
            && let Some(directory) = path.parent()
        {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        let mut random = Random::of(self.seed, file.place() as u64);
        let words = (file.bytes() as usize).div_ceil(8);
        let mut body: Vec<u8> = (0..words).flat_map(|_| random.bits().to_le_bytes()).collect();
        body.truncate(file.bytes() as usize);
        std::fs::write(&path, body).map_err(failed)
    }
}

/// Refuses a folder with entries, so that no file is overwritten.
fn check_is_free(folder: &Path) -> Result<(), Failure> {
    // A folder that cannot be read is missing, or the first write reports the reason.
    let has_entries = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if has_entries {
        return Err(Failure::Usage(format!("{}: the folder is not empty", folder.display())));
    }
    Ok(())
}
