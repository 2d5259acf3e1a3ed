//! The options of `shoal replay`.

use crate::failure::Failure;
use shoal_core::ByteCount;
use shoal_lab::replay::{ReplayPlan, SizeMeaning};
use shoal_policy::ReplacementPolicy;
use shoal_store::architectures::{ARCHITECTURES, SegmentPolicy, SegmentSettings};
use shoal_store::fs::MappedAccess;
use shoal_trace::{Filter, Format, ReadOptions, Separator, SizeChange};
use std::path::PathBuf;
use std::str::FromStr;

/// Drive a cache architecture on a real disk with a trace, and report the disk's work
///
/// This is the disk workload generator of Maltzahn, Richardson and Grunwald (USENIX 1999). There is
/// no network: a hit reads the whole object, and a miss writes it. The first part of the trace
/// warms up the cache, the second part is measured. The report has requests, hits, reads and writes
/// of the block device that holds DIR, system calls with their latencies, page faults, CPU, and
/// memory.
///
/// TRACE is a file, - for standard input, `synthetic` for generated traffic
/// (`synthetic:requests=1000000,seed=1`), or `specweb99` for the GETs of that benchmark
/// (`specweb99:throughput=250,requests=1000000`). Access logs (Squid native, common, combined, W3C,
/// JSON), tables with named columns, lists and libCacheSim's traces are read, plain or compressed.
/// The assumptions about the trace are printed.
///
/// When the disk fails or a signal stops the run, the measurements so far are printed and the exit
/// code is 1.
#[derive(clap::Args)]
pub struct ReplayOptions {
    /// The trace
    pub trace: String,
    /// Cache architecture
    #[arg(long, value_name = "NAME", default_value = "squid")]
    pub architecture: String,
    /// Replacement: `own` for the architecture's own, or a policy that the driver applies (lru,
    /// s3_fifo, …)
    #[arg(long, value_name = "NAME", default_value = "own")]
    pub policy: String,
    /// Disk space for the store; without it there is space for every object of the trace
    #[arg(long, value_name = "SIZE")]
    pub disk_bytes: Option<ByteCount>,
    /// Existing folder for the store; a folder without a store gets a new one
    #[arg(long, value_name = "FOLDER")]
    pub dir: PathBuf,
    /// Part that only warms the cache: a share such as 0.5, or a number of requests
    #[arg(long, value_name = "PART", default_value = "0.5")]
    pub warm_up: WarmUp,
    /// Number of concurrent requests
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub in_flight: u16,
    /// Requests that count: none, or rules separated by commas (http, get, status200, no-query,
    /// no-cgi), or `paper` for Maltzahn's
    #[arg(long, value_name = "RULES", default_value = "paper")]
    pub filter: FilterRules,
    /// Exclude requests of fewer bytes
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub size_min: ByteCount,
    /// Exclude requests of more bytes
    #[arg(long, value_name = "SIZE")]
    pub size_max: Option<ByteCount>,
    /// Size of requests without a size
    #[arg(long, value_name = "SIZE", default_value = "8 KiB")]
    pub size_unknown: ByteCount,
    /// Meaning of the trace's sizes: `stored` objects with their headers, or bodies
    #[arg(long, value_name = "WHAT", default_value = "stored")]
    pub sizes: SizesName,
    /// A repeat of another size is a hit (`identity`) or a new version (`version`)
    #[arg(long, value_name = "RULE", default_value = "identity")]
    pub size_change: SizeChangeName,
    /// Largest number of requests read
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Format of the trace: table, squid, common, w3c, json, url_size, csv, paths, pages,
    /// oracle_general or shoal; detected by the beginning if not given
    #[arg(long, value_name = "NAME")]
    pub format: Option<FormatName>,
    /// Names of the columns of a table without a header line, such as `time_s,client,url,bytes`
    #[arg(long, value_name = "NAMES")]
    pub columns: Option<String>,
    /// Separator of a table's columns: tab, comma, semicolon, bar or space
    #[arg(long, value_name = "NAME")]
    pub separator: Option<SeparatorName>,
    /// Largest share of lines that may be bad; more is an error, and 1 allows all
    #[arg(long, value_name = "SHARE", default_value_t = ReadOptions::default().bad_lines_max)]
    pub bad_lines: f64,
    /// Stop at the first line of the trace that cannot be read
    #[arg(long)]
    pub strict: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Drop the system's caches of files between the two parts (needs root)
    #[arg(long)]
    pub drop_caches: bool,
    /// Compare the bytes of hits with the bytes written
    #[arg(long)]
    pub verify: bool,
    /// Largest number of objects in the store; without it, the number of objects in the trace
    #[arg(long, value_name = "N")]
    pub max_objects: Option<u64>,
    /// Largest body that the store accepts
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    pub object_max: ByteCount,
    /// Files in a folder, for architectures that leave the number open; 0 means the architecture's
    /// default
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub files_per_folder: u32,
    /// Length of the mapped file of small objects, with squidm, squidml and squidmla; 0 is a
    /// quarter of --disk-bytes
    #[arg(long, value_name = "SIZE", default_value = "0")]
    pub segments: ByteCount,
    /// Policy that chooses the small object to evict from the mapped file
    #[arg(long, value_name = "NAME", default_value = "fbc")]
    pub segment_policy: SegmentPolicyName,
    /// Way in which the mapped file is accessed
    #[arg(long, value_name = "WAY", default_value = "pread")]
    pub segment_access: SegmentAccessName,
    /// FBC passes over objects with at least this many references
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub fbc_c_max: u32,
    /// FBC halves all counts when their mean exceeds this
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub fbc_a_max: u32,
}

impl ReplayOptions {
    pub fn perform(self) -> Result<(), Failure> {
        super::run(&self)
    }

    /// Returns the store's settings for the layout and replacement of small objects.
    pub(super) fn segment_settings(&self) -> SegmentSettings {
        let (c_max, a_max) = (self.fbc_c_max, self.fbc_a_max);
        let policy = match self.segment_policy {
            SegmentPolicyName::Fbc => SegmentPolicy::Fbc { c_max, a_max },
            SegmentPolicyName::FbcResident => SegmentPolicy::FbcResident { c_max, a_max },
            SegmentPolicyName::Lru => SegmentPolicy::Lru,
            SegmentPolicyName::LruResident => SegmentPolicy::LruResident,
        };
        let access = match self.segment_access {
            SegmentAccessName::Pread => MappedAccess::Calls,
            SegmentAccessName::Mmap => MappedAccess::Memory,
            SegmentAccessName::MmapRandom => MappedAccess::RandomMemory,
        };
        SegmentSettings { bytes: self.segments.0, policy, access }
    }

    /// Returns the architecture's name, or fails for an unknown one.
    pub(super) fn architecture(&self) -> Result<&'static str, Failure> {
        let known = || ARCHITECTURES.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
        ARCHITECTURES.iter().find(|row| row.name == self.architecture).map(|row| row.name).ok_or_else(|| {
            let name = &self.architecture;
            Failure::Usage(format!("no cache architecture is called {name:?}; known are: {}", known()))
        })
    }

    /// Returns the policy that the driver applies, or `None` for replacement by the store.
    pub(super) fn policy(&self) -> Result<Option<&'static ReplacementPolicy<u64>>, Failure> {
        if self.policy == "own" {
            return Ok(None);
        }
        ReplacementPolicy::<u64>::named(&self.policy).map(Some).ok_or_else(|| {
            let known: Vec<_> = ReplacementPolicy::<u64>::ALL.iter().map(|policy| policy.name).collect();
            let name = &self.policy;
            Failure::Usage(format!("no policy is called {name:?}; known are: own, {}", known.join(", ")))
        })
    }

    /// Checks that the folder exists. A missing folder is probably a mistake: a disk that is not
    /// mounted.
    pub(super) fn check_directory(&self) -> Result<(), Failure> {
        let failed = |why: String| Failure::Runtime(format!("{}: {why}", self.dir.display()));
        match std::fs::metadata(&self.dir) {
            Ok(found) if found.is_dir() => Ok(()),
            Ok(_) => Err(failed("this is not a folder".into())),
            Err(error) => Err(failed(format!("{error}; the folder for the store has to be there"))),
        }
    }

    /// Returns the filter of requests.
    pub(super) fn filter(&self) -> Filter {
        let bytes_max = self.size_max.map_or(u64::MAX, |bytes| bytes.0);
        Filter { bytes_min: self.size_min.0, bytes_max, ..self.filter.0 }
    }

    /// Returns the plan for a trace of `requests` requests.
    pub(super) fn plan(&self, requests: usize) -> ReplayPlan {
        let warm_up = match self.warm_up {
            WarmUp::Share(share) => (requests as f64 * share) as usize,
            WarmUp::Requests(number) => number,
        };
        ReplayPlan {
            warm_up: warm_up.min(requests),
            in_flight: usize::from(self.in_flight),
            sizes: self.sizes.0,
            size_change: self.size_change.0,
            verify: self.verify,
        }
    }
}

/// Part of a trace that warms the cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WarmUp {
    /// Share of the requests.
    Share(f64),
    /// Number of requests.
    Requests(usize),
}

impl FromStr for WarmUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it is a share from 0.0 to 1.0, or a whole number of requests".to_owned();
        if text.contains('.') {
            let share = text.parse().map_err(|_| wrong())?;
            return if (0.0..=1.0).contains(&share) { Ok(Self::Share(share)) } else { Err(wrong()) };
        }
        text.parse().map(Self::Requests).map_err(|_| wrong())
    }
}

/// [`Filter`] by the names of its rules.
#[derive(Clone, Copy, Debug)]
pub struct FilterRules(pub Filter);

impl FilterRules {
    /// Returns the names of the rules, as the option accepts them.
    pub fn names(self) -> String {
        let rules = [
            (self.0.http_only, "http"),
            (self.0.get_only, "get"),
            (self.0.found_only, "found"),
            (self.0.ok_only, "status200"),
            (self.0.cacheable_only, "cacheable"),
            (self.0.no_query, "no-query"),
            (self.0.no_cgi, "no-cgi"),
        ];
        let names: Vec<&str> = rules.into_iter().filter_map(|(is_on, name)| is_on.then_some(name)).collect();
        if names.is_empty() { "none".into() } else { names.join(",") }
    }
}

impl FromStr for FilterRules {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut filter = Filter::default();
        match text.split(',').find(|rule| !filter.add(rule.trim())) {
            None => Ok(Self(filter)),
            Some(rule) => Err(format!("there is no rule {rule:?}; known are: {}", Filter::RULES.join(", "))),
        }
    }
}

/// [`SizeMeaning`] by name.
#[derive(Clone, Copy, Debug)]
pub struct SizesName(pub SizeMeaning);

/// Replacement policy for small objects in the mapped file.
#[derive(Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum SegmentPolicyName {
    /// Frequency-based cyclic replacement
    Fbc,
    /// Least recently used object of the size
    Lru,
    /// fbc, with preference for objects in memory
    FbcResident,
    /// lru, with preference for objects in memory
    LruResident,
}

/// Way in which the mapped file is accessed.
#[derive(Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum SegmentAccessName {
    /// System calls on the page cache
    Pread,
    /// Memory, as in the paper
    Mmap,
    /// Memory, with the advice that accesses are random
    MmapRandom,
}

impl SegmentAccessName {
    /// Returns the name that the option uses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pread => "pread",
            Self::Mmap => "mmap",
            Self::MmapRandom => "mmap_random",
        }
    }
}

impl SegmentPolicyName {
    /// Returns the name that the option uses.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fbc => "fbc",
            Self::Lru => "lru",
            Self::FbcResident => "fbc_resident",
            Self::LruResident => "lru_resident",
        }
    }
}

impl FromStr for SizesName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stored" => Ok(Self(SizeMeaning::Stored)),
            "body" => Ok(Self(SizeMeaning::Body)),
            _ => Err("it is stored or body".into()),
        }
    }
}

/// [`SizeChange`] by name.
#[derive(Clone, Copy, Debug)]
pub struct SizeChangeName(pub SizeChange);

impl FromStr for SizeChangeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rules = [SizeChange::Identity, SizeChange::Version];
        let found = rules.into_iter().find(|rule| rule.name() == text);
        found.map(Self).ok_or_else(|| "it is identity or version".into())
    }
}

/// [`Format`] by name.
#[derive(Clone, Copy, Debug)]
pub struct FormatName(pub Format);

impl FromStr for FormatName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Format::ALL.map(Format::name).join(", ");
        Format::named(text).map(Self).ok_or_else(|| format!("known formats are: {}", known()))
    }
}

/// [`Separator`] by name.
#[derive(Clone, Copy, Debug)]
pub struct SeparatorName(pub Separator);

impl FromStr for SeparatorName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || Separator::ALL.map(Separator::name).join(", ");
        Separator::named(text).map(Self).ok_or_else(|| format!("separators are: {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_warm_up_is_a_share_or_a_number() {
        assert_eq!("0.25".parse(), Ok(WarmUp::Share(0.25)));
        assert_eq!("1.0".parse(), Ok(WarmUp::Share(1.0)));
        assert_eq!("1".parse(), Ok(WarmUp::Requests(1)));
        assert_eq!("0".parse(), Ok(WarmUp::Requests(0)));
        for bad in ["", "1.5", "-0.5", "half", "nan.", "-1"] {
            assert!(bad.parse::<WarmUp>().is_err(), "{bad}");
        }
    }
}
