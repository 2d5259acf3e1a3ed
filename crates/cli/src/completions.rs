//! `shoal completions`: prints a shell's completions of our command line.

use crate::failure::Failure;
use crate::show::print;
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completions of a shell
///
/// For example: shoal completions bash > /etc/bash_completion.d/shoal
#[derive(clap::Args)]
pub struct CompletionsOptions {
    /// The shell
    shell: Shell,
}

impl CompletionsOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Arguments::command(), "shoal", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
