//! `shoal model pgms`: cooperative prefetching, simulated for the user's cluster.

use crate::failure::Failure;
use crate::show::print;
use serde_json::{Value, json};
use shoal_lab::prefetching::{
    DiskTimes, EpochPlanner, Fetches, HintCoverage, PrefetchCosts, PrefetchKinds, PrefetchSetup, Program,
    ProgramResult, simulate,
};
use std::fmt::Write;

/// Speedup by prefetching with idle nodes' disks and memory, for a program that gives hints
///
/// One node runs a program that reads more pages (8 KB) than the node has frames. Idle nodes have
/// frames too, and a disk each with a copy of the program's file. Under GMS idle nodes keep pages
/// that the program's node evicts. Under PGMS they also prefetch (Voelker 2000, chapter 4), by the
/// program's hints. Idle nodes do disk-to-global prefetches (d→g) as soon as a less valuable page
/// can go. Disk-to-local (d→l) and global-to-local (g→l) prefetches begin when the prefetch
/// predicate says that the program would otherwise wait. For each number of idle nodes the output
/// has the elapsed time, and the speedup over one node without hints. It also has the stall, the
/// share of the time that the program waits, and the fetches of each kind.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelPgmsOptions {
    /// Idle nodes, a number or a range FIRST-LAST
    #[arg(long, value_name = "N", default_value = "0-4")]
    idle: String,
    /// Frames of each node, of 8 KB [default: 4096, which is 32 MB, divided by --scale]
    #[arg(long, value_name = "N")]
    frames: Option<usize>,
    /// Frames of all idle nodes together, instead of --frames for each
    #[arg(long, value_name = "N")]
    idle_frames: Option<usize>,
    /// The program: render, random, reverse or hotcold (section 4.4.3)
    #[arg(long, value_name = "NAME", default_value = "render")]
    program: String,
    /// Number of times that the program reads its data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Programs of this kind, each on a node of its own; the slowest one is told
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    programs: u32,
    /// Planner of epochs: coordinator (section 4.3.3), or each node for itself, as Shoal does
    #[arg(long, value_name = "PLANNER", default_value = "coordinator")]
    planning: String,
    /// Divisor of the size of the program's files; the testbed's have 100 MB
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    scale: u32,
    /// Computing before each page, in microseconds [default: the program's, 250, and 2500 for
    /// render]
    #[arg(long, value_name = "US")]
    computing_us: Option<f64>,
    /// Hints that the program gives: all, none, part:SHARE (of the references), wrong:SHARE (of the
    /// hints), or steps:N (all, but N references at a time)
    #[arg(long, value_name = "HINTS", default_value = "all")]
    hints: String,
    /// Kinds of prefetching: all, none, or several of dl, gl, dg
    #[arg(long, value_name = "KINDS", num_args = 1.., value_delimiter = ',', default_value = "all")]
    prefetch: Vec<String>,
    /// F_D: a random page from disk, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 13.0)]
    disk_ms: f64,
    /// The page after the last one read, in milliseconds [default: 0.987, which is 8.3 MB/s]
    #[arg(long, value_name = "MS")]
    sequential_ms: Option<f64>,
    /// F_G: a page from another node's memory, in microseconds
    #[arg(long, value_name = "US", default_value_t = 370.0)]
    global_us: f64,
    /// B: largest number of outstanding prefetches of the node into global memory
    #[arg(long, value_name = "N", default_value_t = 8)]
    outstanding: usize,
    /// T: longest epoch, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    epoch_seconds: f64,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  shoal model pgms                                      Render on one to five nodes (Figure 4.4)
  shoal model pgms --prefetch dl,dg                     without prefetching from global memory to local
  shoal model pgms --idle 1-4 --idle-frames 16384       128 MB shared among the idle nodes (Figure 4.8)
  shoal model pgms --program random --rounds 3 --hints wrong:0.1   a tenth of the hints is wrong
  shoal model pgms --program random --programs 3 --planning each   no coordinator
  shoal model pgms --disk-ms 0.1 --global-us 20         a flash disk and a network of today";

/// The program at one number of idle nodes.
struct ModelPgmsRow {
    idle: usize,
    gms: ProgramResult,
    pgms: ProgramResult,
}

impl ModelPgmsOptions {
    pub fn perform(self) -> Result<(), Failure> {
        let count = u64::from(self.programs);
        let programs = (0..count).map(|number| self.program(self.seed.wrapping_add(number)));
        let programs: Vec<Program> = programs.collect::<Result<_, _>>()?;
        let costs = self.costs()?;
        let bound = costs.times().map_err(wrong)?.bound();
        let mut one = self.setting(0, costs)?;
        one.homes.truncate(1);
        one.frames.truncate(1);
        let alone = self.gms(&programs[..1], &one)?.elapsed_seconds;
        let rows: Vec<ModelPgmsRow> = self
            .counts()?
            .into_iter()
            .map(|idle| self.row(&programs, idle, costs))
            .collect::<Result<_, _>>()?;
        print(&if self.json { json_of(&rows, alone, bound) } else { table_of(&rows, alone, bound) })
    }

    fn row(&self, programs: &[Program], idle: usize, costs: PrefetchCosts) -> Result<ModelPgmsRow, Failure> {
        let setting = self.setting(idle, costs)?;
        let pgms = slowest(programs, &setting)?;
        let stall = pgms.stall_seconds();
        assert!(
            stall <= pgms.elapsed_seconds * (1.0 + 1e-9),
            "a program waits for part of its time: {stall}"
        );
        Ok(ModelPgmsRow { idle, gms: self.gms(programs, &setting)?, pgms })
    }

    fn gms(&self, programs: &[Program], setting: &PrefetchSetup) -> Result<ProgramResult, Failure> {
        let setting = PrefetchSetup { prefetching: PrefetchKinds::NONE, ..setting.clone() };
        slowest(&programs.iter().map(Program::unhinted).collect::<Vec<_>>(), &setting)
    }

    fn program(&self, seed: u64) -> Result<Program, Failure> {
        let mut program = match self.program.as_str() {
            "render" => Program::render(self.scale, seed),
            "random" => Program::random(self.scale, seed),
            "reverse" => Program::reverse(self.scale),
            "hotcold" => Program::hotcold(self.scale, seed),
            other => {
                return Err(Failure::Usage(format!(
                    "--program: {other:?} is none of render, random, reverse, hotcold"
                )));
            }
        };
        program.references = program.references.repeat(self.rounds as usize);
        if let Some(computing) = self.computing_us {
            program.computing_seconds = computing / 1e6;
        }
        Ok(program.hinting(self.hinting()?))
    }

    fn hinting(&self) -> Result<HintCoverage, Failure> {
        let share = |text: &str| text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
        let found = match self.hints.split_once(':') {
            None if self.hints == "all" => Some(HintCoverage::Complete),
            None if self.hints == "none" => Some(HintCoverage::None),
            Some(("part", text)) => share(text).map(HintCoverage::Part),
            Some(("wrong", text)) => share(text).map(HintCoverage::Wrong),
            Some(("steps", text)) => text.parse().ok().filter(|step| *step > 0).map(HintCoverage::Stepwise),
            _ => None,
        };
        found.ok_or_else(|| {
            let text = &self.hints;
            Failure::Usage(format!(
                "--hints: {text:?} is none of all, none, part:SHARE, wrong:SHARE (from 0 to 1), steps:N"
            ))
        })
    }

    fn prefetching(&self) -> Result<PrefetchKinds, Failure> {
        let mut found = PrefetchKinds::NONE;
        for kind in &self.prefetch {
            match kind.as_str() {
                "all" => found = PrefetchKinds::ALL,
                "none" => {}
                "dl" => found.disk_to_local = true,
                "gl" => found.global_to_local = true,
                "dg" => found.disk_to_global = true,
                other => {
                    return Err(Failure::Usage(format!(
                        "--prefetch: {other:?} is none of all, none, dl, gl, dg"
                    )));
                }
            }
        }
        Ok(found)
    }

    fn costs(&self) -> Result<PrefetchCosts, Failure> {
        for (option, value) in [
            ("--disk-ms", Some(self.disk_ms)),
            ("--global-us", Some(self.global_us)),
            ("--sequential-ms", self.sequential_ms),
            ("--computing-us", self.computing_us),
        ] {
            if value.is_some_and(|value| !value.is_finite() || value < 0.0) {
                return Err(Failure::Usage(format!("{option}: a time from 0 up is needed")));
            }
        }
        let random_seconds = self.disk_ms / 1e3;
        let testbed = DiskTimes::TESTBED.sequential_seconds;
        // A disk with faster random reads than the testbed's reads consecutive pages no slower than
        // random ones.
        let sequential = self.sequential_ms.map_or(testbed.min(random_seconds), |ms| ms / 1e3);
        let disk = DiskTimes { random_seconds, sequential_seconds: sequential };
        Ok(PrefetchCosts { disk, ..PrefetchCosts::TESTBED.with_global(self.global_us / 1e6) })
    }

    fn setting(&self, idle: usize, costs: PrefetchCosts) -> Result<PrefetchSetup, Failure> {
        let frames = self.frames.unwrap_or(4096 / self.scale as usize);
        let programs = self.programs as usize;
        let mut setting = PrefetchSetup::testbed(frames, programs - 1 + idle);
        setting.homes = (0..programs).collect();
        setting.planning = match self.planning.as_str() {
            "coordinator" => EpochPlanner::Coordinator,
            "each" => EpochPlanner::Each,
            other => {
                return Err(Failure::Usage(format!("--planning: {other:?} is none of coordinator, each")));
            }
        };
        if let Some(together) = self.idle_frames {
            setting.frames.iter_mut().skip(programs).for_each(|frames| *frames = together / idle);
        }
        setting.prefetching = self.prefetching()?;
        setting.costs = costs;
        setting.outstanding = self.outstanding;
        setting.epoch_seconds = self.epoch_seconds;
        setting.seed = self.seed;
        Ok(setting)
    }

    /// Parses the numbers of idle nodes.
    fn counts(&self) -> Result<Vec<usize>, Failure> {
        let text = &self.idle;
        let counts = || {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            Some((first..=last).take(MOST_ROWS).collect::<Vec<usize>>())
        };
        counts()
            .filter(|counts| !counts.is_empty())
            .ok_or_else(|| Failure::Usage(format!("--idle: {text:?} is no number and no range such as 0-4")))
    }
}

/// Runs programs, and returns the results of the one that ends last.
fn slowest(programs: &[Program], setting: &PrefetchSetup) -> Result<ProgramResult, Failure> {
    let result = simulate(programs, setting).map_err(wrong)?;
    let slowest = result.programs.into_iter().max_by(|a, b| a.elapsed_seconds.total_cmp(&b.elapsed_seconds));
    slowest.ok_or_else(|| Failure::Usage("--programs: one at least".into()))
}

fn wrong(error: shoal_lab::prefetching::SetupError) -> Failure {
    Failure::Usage(error.to_string())
}

fn table_of(rows: &[ModelPgmsRow], alone: f64, bound: f64) -> String {
    let mut text = format!(
        "{:>5} {:>10} {:>8} {:>10} {:>8} {:>8} {:>9} {:>9} {:>9}\n",
        "idle", "GMS s", "speedup", "PGMS s", "speedup", "stall", "d→l", "g→l", "d→g"
    );
    let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
    for ModelPgmsRow { idle, gms, pgms } in rows {
        let _ = writeln!(
            text,
            "{idle:>5} {:>10.2} {:>8.2} {:>10.2} {:>8.2} {:>7.1}% {:>9} {:>9} {:>9}",
            gms.elapsed_seconds,
            share(alone, gms.elapsed_seconds),
            pgms.elapsed_seconds,
            share(alone, pgms.elapsed_seconds),
            100.0 * share(pgms.stall_seconds(), pgms.elapsed_seconds),
            pgms.disk_to_local.all(),
            pgms.global_to_local.all(),
            pgms.disk_to_global.all(),
        );
    }
    let _ =
        writeln!(text, "GLFD replacement costs at most {bound:.3} times the least possible (1 + 3 F_G/F_D)");
    text
}

fn json_of(rows: &[ModelPgmsRow], alone: f64, bound: f64) -> String {
    let of = |run: &ProgramResult| {
        let fetches = |of: &Fetches| json!({ "in_time": of.in_time, "stalls": of.stalls, "cold": of.cold });
        json!({
            "elapsed_seconds": run.elapsed_seconds,
            "user_seconds": run.user_seconds,
            "system_seconds": run.system_seconds,
            "stall_seconds": run.stall_seconds(),
            "disk_to_local": fetches(&run.disk_to_local),
            "global_to_local": fetches(&run.global_to_local),
            "disk_to_global": fetches(&run.disk_to_global),
        })
    };
    let row =
        |row: &ModelPgmsRow| json!({ "idle_nodes": row.idle, "gms": of(&row.gms), "pgms": of(&row.pgms) });
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let all = json!({ "alone_seconds": alone, "glfd_bound": bound, "rows": rows });
    let mut text = serde_json::to_string_pretty(&all).unwrap_or_default();
    text.push('\n');
    text
}

/// Largest number of rows. A longer table would be unreadable.
const MOST_ROWS: usize = 100;
