//! `shoal config`: prints the settings from their definitions.

use crate::failure::Failure;
use crate::show::print;
use shoal_settings::Settings;

/// Print the default configuration, or the reference of all settings
#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    page: Page,
}

#[derive(clap::Subcommand)]
enum Page {
    /// A file that spells out every default, with comments
    Default,
    /// The reference page, in Markdown
    Reference,
}

impl Options {
    pub fn perform(self) -> Result<(), Failure> {
        print(&match self.page {
            Page::Default => Settings::sample(),
            Page::Reference => Settings::reference(),
        })
    }
}
