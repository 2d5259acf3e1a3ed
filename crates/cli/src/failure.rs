//! Why a command could not do its work, and the exit code that says so.

use shoal_settings::Mistake;
use std::io::Write as _;
use std::process::ExitCode;

/// Why a command could not do its work.
#[derive(Debug)]
pub enum Failure {
    /// The settings have mistakes.
    Configuration(Vec<Mistake>),
    /// What was asked for makes no sense.
    Usage(String),
    /// No node answers at the admin address.
    Unreachable(String),
    /// Everything else.
    Runtime(String),
}

impl Failure {
    /// Says it on stderr and gives the exit code, which `shoal --help` explains.
    pub fn report(self) -> ExitCode {
        let code = ExitCode::from(self.code());
        let own = !matches!(self, Self::Configuration(_));
        let mut stderr = std::io::stderr().lock();
        for line in self.lines() {
            // Who cannot be told still gets the exit code.
            let _ = writeln!(stderr, "{}{line}", if own { "shoal: " } else { "" });
        }
        code
    }

    /// What it says, a line a mistake or a thing that failed.
    pub fn lines(self) -> Vec<String> {
        match self {
            Self::Configuration(mistakes) => mistakes.iter().map(Mistake::to_string).collect(),
            Self::Usage(why) | Self::Unreachable(why) => vec![why],
            Self::Runtime(why) => why.lines().map(str::to_owned).collect(),
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Runtime(_) => 1,
            Self::Configuration(_) | Self::Usage(_) => 2,
            Self::Unreachable(_) => 3,
        }
    }
}
