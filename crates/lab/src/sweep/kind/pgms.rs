//! `[[pgms]]`: a program that tells its future reads, and idle nodes that prefetch for it,
//! simulated.

use super::{COUNT, CellInputs, NUMBER, QuestionKind};
use crate::prefetching::{
    DiskTimes, HintCoverage, PrefetchCosts, PrefetchKinds, PrefetchSetup, Program, simulate,
};
use crate::sweep::parameter::{Default, Parameter, Take};
use crate::sweep::source::SweepTrace;
use crate::sweep::value::Value;
use shoal_trace::parquet::Field;

pub(super) static KIND: QuestionKind = QuestionKind {
    name: "pgms",
    question: "what is prefetching with idle nodes' disks and memory worth to a program (Voelker 2000, 4)?",
    parameters: &[
        Parameter::required("program", Take::Name(programs), "what it reads (section 4.4.3)"),
        Parameter::required("idle", Take::Count(0, 64), "idle nodes beside the program's"),
        Parameter::optional(
            "prefetch",
            Take::Name(prefetches),
            Default::Text("dl+gl+dg"),
            "kinds of prefetching: disk to local, global to local, disk to global; `none` without hints is GMS",
        ),
        Parameter::optional(
            "scale",
            Take::Count(1, 64),
            Default::Count(8),
            "the program's files are so many times smaller than the testbed's 100 MB, and nodes have 4096 frames of 8 KB over it",
        ),
        Parameter::optional(
            "rounds",
            Take::Count(1, 100),
            Default::Count(1),
            "how often the program reads its data",
        ),
        Parameter::optional(
            "hinted",
            Take::Number(0.0, 1.0),
            Default::Number(1.0),
            "the share of its references that the program tells beforehand",
        ),
        Parameter::optional(
            "wrong",
            Take::Number(0.0, 1.0),
            Default::Number(0.0),
            "the share of the hints that is wrong, where all references are told",
        ),
        Parameter::optional(
            "disk_ms",
            Take::Number(1e-3, 1e6),
            Default::Number(13.0),
            "F_D: a random page from disk, in milliseconds",
        ),
        Parameter::optional(
            "global_us",
            Take::Number(1e-3, 1e9),
            Default::Number(370.0),
            "F_G: a page from another node's memory, in microseconds",
        ),
        Parameter::optional(
            "outstanding",
            Take::Count(1, 10_000),
            Default::Count(8),
            "B: prefetches into global memory that the node has outstanding at most",
        ),
        Parameter::optional("seed", Take::Count(0, u64::MAX), Default::Count(1), "of what is drawn"),
    ],
    results: &[
        Field::optional("elapsed_seconds", NUMBER),
        Field::optional("user_seconds", NUMBER),
        Field::optional("system_seconds", NUMBER),
        Field::optional("stall_seconds", NUMBER),
        Field::optional("disk_to_local", COUNT),
        Field::optional("global_to_local", COUNT),
        Field::optional("disk_to_global", COUNT),
        Field::optional("references", COUNT),
        Field::optional("epochs", COUNT),
    ],
    answer,
};

fn answer(inputs: &CellInputs<'_>, _loaded: Option<&SweepTrace>) -> Result<Vec<Value>, String> {
    let (program, setting) = (program(inputs)?, setting(inputs));
    let found = simulate(std::slice::from_ref(&program), &setting).map_err(|error| error.to_string())?;
    let finished = found.programs.first().ok_or("no program was run")?;
    Ok(vec![
        Value::finite(finished.elapsed_seconds),
        Value::finite(finished.user_seconds),
        Value::finite(finished.system_seconds),
        Value::finite(finished.stall_seconds()),
        Value::Count(finished.disk_to_local.all()),
        Value::Count(finished.global_to_local.all()),
        Value::Count(finished.disk_to_global.all()),
        Value::Count(program.references.len() as u64),
        Value::Count(found.epochs),
    ])
}

fn program(inputs: &CellInputs<'_>) -> Result<Program, String> {
    let (scale, seed) = (inputs.count("scale").unwrap_or(8) as u32, inputs.count("seed").unwrap_or(1));
    let name = inputs.text("program").unwrap_or_default();
    let mut program =
        Program::named(name, scale, seed).ok_or_else(|| format!("there is no program {name:?}"))?;
    program.references = program.references.repeat(inputs.count("rounds").unwrap_or(1) as usize);
    let (hinted, wrong) = (inputs.number("hinted").unwrap_or(1.0), inputs.number("wrong").unwrap_or(0.0));
    let hinting = HintCoverage::for_shares(hinted, wrong);
    Ok(program.hinting(hinting.ok_or("hints are wrong in part only where all references are told")?))
}

fn setting(inputs: &CellInputs<'_>) -> PrefetchSetup {
    let count = |name: &str, otherwise: u64| inputs.count(name).unwrap_or(otherwise) as usize;
    let mut setting = PrefetchSetup::testbed(FRAMES / count("scale", 8).max(1), count("idle", 0));
    let kinds = inputs.text("prefetch").unwrap_or_default();
    setting.prefetching = PrefetchKinds::named(kinds).unwrap_or(PrefetchKinds::NONE);
    let random_seconds = inputs.number("disk_ms").unwrap_or(13.0) / 1e3;
    // A disk faster than the testbed's at random reads is no slower at sequential reads.
    let sequential_seconds = DiskTimes::TESTBED.sequential_seconds.min(random_seconds);
    let costs = PrefetchCosts::TESTBED.with_global(inputs.number("global_us").unwrap_or(370.0) / 1e6);
    setting.costs = PrefetchCosts { disk: DiskTimes { random_seconds, sequential_seconds }, ..costs };
    setting.outstanding = count("outstanding", 8);
    setting.seed = inputs.count("seed").unwrap_or(1);
    setting
}

fn programs() -> Vec<&'static str> {
    vec!["render", "random", "reverse", "hotcold"]
}

fn prefetches() -> Vec<&'static str> {
    vec!["none", "dl", "gl", "dg", "dl+gl", "dl+dg", "gl+dg", "dl+gl+dg"]
}

/// Frames of each node of the testbed: 32 MB.
const FRAMES: usize = 4096;
