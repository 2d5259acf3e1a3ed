//! `shoal config`: prints the settings from their definitions.

use crate::failure::Failure;
use crate::show::print;
use shoal_settings::Settings;

/// Print the default configuration, the reference of all settings, or that of all reasons
#[derive(clap::Args)]
pub struct ConfigOptions {
    #[command(subcommand)]
    page: Page,
}

#[derive(clap::Subcommand)]
enum Page {
    /// A file that spells out every default, with comments
    Default,
    /// The reference page, in Markdown
    Reference,
    /// Every reason in Cache-Status and Proxy-Status with its remedy, in Markdown
    Reasons,
}

impl ConfigOptions {
    pub fn perform(self) -> Result<(), Failure> {
        print(&match self.page {
            Page::Default => Settings::sample(),
            Page::Reference => Settings::reference(),
            Page::Reasons => shoal_proxy::reasons::page(),
        })
    }
}
