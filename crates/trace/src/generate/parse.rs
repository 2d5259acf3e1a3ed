//! Traffic from text: `requests=1000000,seed=7,alpha=0.8`.

use super::{Impossible, Traffic};
use std::fmt;
use std::str::FromStr;

impl FromStr for Traffic {
    type Err = Impossible;

    /// Parses names with values, separated by commas. Missing names keep their defaults.
    fn from_str(text: &str) -> Result<Self, Impossible> {
        let mut traffic = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| Impossible(format!("{part:?} is not like name=value")))?;
            traffic.set(name.trim(), value.trim())?;
        }
        Ok(traffic)
    }
}

impl Traffic {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Impossible> {
        match name {
            "seed" => self.seed = read(name, value)?,
            "requests" => self.requests = read(name, value)?,
            "alpha" => self.alpha = read(name, value)?,
            "hit-ratio" => self.hit_ratio = read(name, value)?,
            "clients" => self.clients = read(name, value)?,
            "embedded" => self.embedded = read(name, value)?,
            "common" => self.common = read(name, value)?,
            "pages-per-host" => self.pages_per_host = read(name, value)?,
            "stay" => self.stay = read(name, value)?,
            "recall" => self.recall = read(name, value)?,
            "rate" => self.rate = read(name, value)?,
            "size-popularity" => self.size_popularity = read(name, value)?,
            "changing" => self.changes.changing = read(name, value)?,
            "change-days" => self.changes.days = read(name, value)?,
            "popular-change-days" => self.changes.popular_days = read(name, value)?,
            "median" => self.sizes.median = read(name, value)?,
            "sigma" => self.sizes.sigma = read(name, value)?,
            "tail" => self.sizes.tail = read(name, value)?,
            "tail-min" => self.sizes.tail_min = read(name, value)?,
            "tail-alpha" => self.sizes.tail_alpha = read(name, value)?,
            "max" => self.sizes.max = read(name, value)?,
            _ => return Err(Impossible(format!("there is no value {name:?}; known are: {KNOWN}"))),
        }
        Ok(())
    }
}

impl fmt::Display for Traffic {
    /// Writes the text that `from_str` parses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, requests, alpha, hit_ratio, clients, embedded, common, .. } = self;
        let Self { pages_per_host, stay, recall, rate, sizes, size_popularity, changes, .. } = self;
        write!(f, "seed={seed},requests={requests},alpha={alpha},hit-ratio={hit_ratio},clients={clients},")?;
        write!(
            f,
            "embedded={embedded},common={common},pages-per-host={pages_per_host},stay={stay},recall={recall},rate={rate},"
        )?;
        write!(f, "size-popularity={size_popularity},changing={},", changes.changing)?;
        write!(f, "change-days={},popular-change-days={},", changes.days, changes.popular_days)?;
        write!(f, "median={},sigma={},tail={},", sizes.median, sizes.sigma, sizes.tail)?;
        write!(f, "tail-min={},tail-alpha={},max={}", sizes.tail_min, sizes.tail_alpha, sizes.max)
    }
}

fn read<T: FromStr>(name: &str, value: &str) -> Result<T, Impossible> {
    value.parse().map_err(|_| Impossible(format!("{name} cannot be {value:?}")))
}

const KNOWN: &str = "seed, requests, alpha, hit-ratio, clients, embedded, common, pages-per-host, stay, recall, rate, \
                     size-popularity, changing, change-days, popular-change-days, median, sigma, tail, tail-min, tail-alpha, max";
