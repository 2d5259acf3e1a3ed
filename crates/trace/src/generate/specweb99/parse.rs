//! A workload from text: `throughput=2500,requests=1000000,seed=7`.

use super::{Impossible, Workload};
use std::fmt;
use std::str::FromStr;

impl FromStr for Workload {
    type Err = Impossible;

    /// Parses names with values, separated by commas. Missing names keep their defaults.
    fn from_str(text: &str) -> Result<Self, Impossible> {
        let mut workload = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| Impossible(format!("{part:?} is not like name=value")))?;
            workload.set(name.trim(), value.trim())?;
        }
        workload.check()?;
        Ok(workload)
    }
}

impl Workload {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Impossible> {
        match name {
            "seed" => self.seed = read(name, value)?,
            "throughput" => self.throughput = read(name, value)?,
            "requests" => self.requests = read(name, value)?,
            "directories" => self.directories = Some(read(name, value)?),
            _ => return Err(Impossible(format!("there is no value {name:?}; known are: {KNOWN}"))),
        }
        Ok(())
    }
}

impl fmt::Display for Workload {
    /// Writes the text that `from_str` parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, throughput, requests, directories } = self;
        write!(f, "seed={seed},throughput={throughput},requests={requests}")?;
        directories.map_or(Ok(()), |directories| write!(f, ",directories={directories}"))
    }
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, Impossible> {
    value.parse().map_err(|_| Impossible(format!("{name} cannot be {value:?}")))
}

const KNOWN: &str = "seed, throughput, requests, directories";
