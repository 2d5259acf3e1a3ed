//! Failures of commands, with their exit codes.

use shoal_settings::Mistake;
use std::io::Write as _;
use std::process::ExitCode;

/// Reasons why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The settings have mistakes.
    Configuration(Vec<Mistake>),
    /// The command line makes no sense.
    Usage(String),
    /// No node answers at the admin address.
    Unreachable(String),
    /// A migration is written, and these lines name its gaps.
    LeftOut(Vec<String>),
    /// A check is made and printed, and this is its exit code.
    Checked(u8),
    /// Any other failure.
    Runtime(String),
}

impl Failure {
    /// Prints the failure to stderr and returns the exit code, which `shoal --help` explains.
    pub fn report(self) -> ExitCode {
        let code = ExitCode::from(self.code());
        let own = !matches!(self, Self::Configuration(_));
        let mut stderr = std::io::stderr().lock();
        for line in self.lines() {
            // If stderr cannot be written, the caller still gets the exit code.
            let line = crate::show::harmless(&line);
            let _ = writeln!(stderr, "{}{line}", if own { "shoal: " } else { "" });
        }
        code
    }

    /// Returns the failure's text, one line for each mistake or failed step.
    pub fn lines(self) -> Vec<String> {
        match self {
            Self::Configuration(mistakes) => mistakes.iter().map(Mistake::to_string).collect(),
            Self::Usage(why) | Self::Unreachable(why) => vec![why],
            Self::LeftOut(lines) => lines,
            Self::Checked(_) => Vec::new(),
            Self::Runtime(why) => why.lines().map(str::to_owned).collect(),
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Runtime(_) => 1,
            Self::Configuration(_) | Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
            Self::LeftOut(_) => 4,
            Self::Checked(code) => *code,
        }
    }
}
