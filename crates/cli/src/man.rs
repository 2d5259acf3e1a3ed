//! `shoal man`: manual pages from the definitions of the command line.

use crate::failure::Failure;
use crate::show::print;
use clap::CommandFactory;
use std::path::PathBuf;

/// Print the manual page, or write the pages of all commands to a folder
#[derive(clap::Args)]
pub struct ManOptions {
    /// Folder for the pages of all commands, created if missing; without it, the first page is
    /// printed
    folder: Option<PathBuf>,
}

impl ManOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::Runtime(format!("cannot write the manual pages: {error}"));
        let command = crate::Arguments::command();
        match self.folder {
            Some(folder) => {
                std::fs::create_dir_all(&folder).map_err(failed)?;
                clap_mangen::generate_to(command, folder).map_err(failed)
            }
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page).map_err(failed)?;
                print(&String::from_utf8_lossy(&page))
            }
        }
    }
}
