//! Specifications read, cells computed, journals cut off anywhere.

use super::*;
use crate::progress::{Progress, Silent};
use std::io::Write;

fn parse(text: &str) -> Result<Sweep, Vec<String>> {
    Sweep::parse(text, Path::new("")).map_err(|mistakes| mistakes.iter().map(Mistake::to_string).collect())
}

/// 2 policies over 3 sizes, 3 runs of systems, 4 of a model.
const SPEC: &str = "\
[trace.made]\nsynthetic = \"requests=6000,seed=1,clients=8,hit-ratio=0.6\"\n\
[[policy]]\ntrace = \"made\"\npolicy = [\"lru\", \"belady\"]\ncache = [\"100 KB\", 0.1, 4000000]\n\
[[cluster]]\ntrace = \"made\"\nsystem = [\"greedy\", \"n_chance\"]\nnodes = 4\nnode_frames = 20\nchances = [1, 2]\n\
[[gms]]\nglobal_nodes = { from = 1, to = 16, step = 5 }\nidle = 8\n";

#[test]
fn grid_is_the_product_of_its_relevant_lists() {
    let sweep = parse(SPEC).expect("a specification");
    let of = |name: &str| sweep.cells.iter().filter(|cell| cell.kind.name == name).count();
    assert_eq!((of("policy"), of("cluster"), of("gms"), sweep.cells.len()), (6, 3, 4, 13));
    let nodes: Vec<&Value> =
        sweep.cells.iter().filter(|cell| cell.kind.name == "gms").map(|cell| &cell.inputs[0]).collect();
    assert_eq!(nodes, [1, 6, 11, 16].map(Value::Count).iter().collect::<Vec<_>>());
    let sizes: Vec<&Value> = sweep.cells[..3].iter().map(|cell| &cell.inputs[2]).collect();
    assert_eq!(
        sizes,
        ["100 KB", "0.1", "4 MB"].map(|text| Value::Text(text.into())).iter().collect::<Vec<_>>()
    );
    let factors = "[[wan]]\nclients = { from = 500, to = 5e7, factor = 10 }\n[[wan]]\nclients = 5000\n";
    let found = parse(factors).expect("a specification").cells;
    assert_eq!(found.len(), 6, "the same cell once: {found:?}");
    assert_eq!(found[5].inputs[0], Value::Number(5e7));
}

#[test]
fn every_mistake_is_told_with_its_line() {
    let text = "\
[trace.a]
file = \"absent.csv\"
filter = [\"paper\", \"papper\"]
limit = 0
[trace.b]
synthetic = \"request=1\"
[trace.c]
[[policy]]
trace = \"d\"
policy = [\"lru\", \"lur\"]
cach = 1
[[policy]]
trace = \"a\"
policy = \"lru\"
cache = [1.5, \"many\", true, []]
warm_up = 2
[[cluster]]
nodes = { from = 1, too = 2 }
node_frames = { from = 4, to = 2, step = 1 }
system = { from = 1, to = 2, step = 1 }
trace = []
[gms]
[[nothing]]
";
    let found = parse(text).expect_err("mistakes");
    let expected = [
        "2:8: file: there is no file absent.csv",
        "3:20: filter: rules are: none, paper,",
        "4:9: limit: a whole number from 1 is needed",
        "6:13: synthetic: there is no value \"request\"",
        "7:8: c: a trace has either a file or synthetic",
        "8:1: cache: [[policy]] needs it: room for objects",
        "9:9: trace: \"d\" is no trace; there are: a",
        "10:18: policy: \"lur\" is no policy; there are: fifo,",
        "11:1: cach: [[policy]] has no such parameter; it has: trace, policy, cache, warm_up",
        "15:10: cache: 1.5 is no share above 0 and up to 1",
        "15:15: cache:",
        "15:23: cache: a text is needed",
        "15:29: cache: a text is needed",
        "16:11: warm_up: 2 is not between 0 and 0.999",
        "18:21: nodes: a range has from, to, and step or factor, not \"too\"",
        "19:15: node_frames: a range holds 1 to 100000 values",
        "20:10: system: names have no range; write a list",
        "21:9: trace: the list is empty",
        "22:2: gms: a grid is headed [[gms]]",
        "23:3: nothing: not known; there are [trace.NAME], [[policy]]",
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} where {expected} is expected");
    }
    assert_eq!(parse("[[gms]]\nidle = \n").expect_err("no TOML")[0].split(": ").next(), Some("2:8"));
    assert!(parse("").expect_err("nothing")[0].contains("nothing to compute"));
    let large = "[[gms]]\nidle = { from = 1, to = 9000, step = 1 }\nglobal_nodes = { from = 1, to = 9000, step = 1 }\n";
    assert!(parse(large).expect_err("too many")[0].contains("more cells than"));
}

#[test]
fn answers_are_those_of_the_lab() {
    let sweep = parse(SPEC).expect("a specification");
    let loaded = sweep.load(0).expect("made");
    let answer = |cell: usize| sweep.compute(cell, Some(&loaded)).expect("a cell");
    let (lru, belady) = (answer(1), answer(4));
    let hits = |answer: &[Value]| if let Value::Count(hits) = answer[2] { hits } else { 0 };
    assert!(hits(&lru) > 0 && hits(&belady) > hits(&lru), "{lru:?} {belady:?}");
    assert_eq!(lru[0], Value::Count((loaded.unique_bytes as f64 * 0.1) as u64));
    assert_eq!((lru[1].clone(), lru.last()), (Value::Count(3000), Some(&Value::None)));
    let network = crate::model::gms::Network::balanced(crate::model::gms::ServerDemand::OO7, 6, 8, 0, 0.0);
    let solution = network.solve(crate::model::gms::Method::Linearizer).expect("solved");
    assert_eq!(answer(10)[0], Value::Number(solution.response_seconds * 1e3));
    assert!(matches!(sweep.compute(99, None), Err(SweepError::NoSuchCell { number: 99 })));
    assert!(matches!(sweep.load(9), Err(SweepError::NoSuchCell { number: 9 })));
    let refused = sweep.compute(0, None).expect("an answer");
    assert!(refused[..11].iter().all(|value| *value == Value::None) && refused[11] != Value::None);
}

/// Every kind gives the number and types of results that it states, and a reason where it gives
/// none.
#[test]
fn every_kind_keeps_its_word() {
    let text = "[trace.made]\nsynthetic = \"requests=6000,seed=1,clients=8,hit-ratio=0.6\"\n\
        [[policy]]\ntrace = \"made\"\npolicy = [\"fifo\", \"gdsf\", \"belady_size\"]\ncache = 0.2\n\
        [[cluster]]\ntrace = \"made\"\nsystem = [\"direct\", \"central\", \"hashed\", \"weighted_lru\", \"gms\"]\nnodes = [3]\nnode_frames = 9\nidle = 1\n\
        [[cluster]]\ntrace = \"made\"\nsystem = \"greedy\"\nnodes = 3\nnode_frames = 9\nidle = 3\n\
        [[wide_area]]\ntrace = \"made\"\ncooperation = [\"alone\", \"ring\", \"carp\", \"hash-tiers\", \"directory\", \"directory-tiers\", \"summaries\"]\nfanout = 3\ncache = 0.1\nsize_change = \"version\"\n\
        [[wide_area]]\ntrace = \"made\"\ncooperation = \"hierarchy\"\nfanout = 4096\nlevels_ms = \"3,2,1\"\n\
        [[gms]]\nglobal_nodes = 4\nidle = 3\nlocal = 1\nlocal_share = 0.1\nsimulate = 500\nthink_ms = 2\n\
        [[gms]]\nglobal_nodes = 4\nidle = 0\n\
        [[pgms]]\nprogram = [\"render\", \"reverse\"]\nidle = 2\nscale = 64\nprefetch = [\"none\", \"dl+gl+dg\"]\n\
        [[pgms]]\nprogram = \"random\"\nidle = 1\nscale = 64\nhinted = 0.5\nwrong = 0.5\n\
        [[wan]]\nclients = 5e4\nscheme = [\"hierarchy\", \"directory-tiers\"]\ncache_bytes = 1e12\nchange = [\"exponential\", \"pareto-within\"]\nform = \"integral\"\n\
        [[wan]]\nclients = 5e4\nchange = \"lognormal-within\"\ntail = 0.5\n";
    let sweep = parse(text).expect("a specification");
    let loaded = sweep.load(0).expect("made");
    let mut refused = Vec::new();
    for (number, cell) in sweep.cells.iter().enumerate() {
        let answer = sweep.compute(number, cell.trace.map(|_| &loaded)).expect("a cell");
        let fields = cell.kind.answers();
        assert_eq!(answer.len(), fields.len());
        for (value, field) in answer.iter().zip(&fields) {
            assert!(value.fits(field.kind), "{}: {} is {value:?}", cell.kind.name, field.name);
        }
        match answer.last() {
            Some(Value::Text(why)) => refused.push(format!("{}: {why}", cell.kind.name)),
            _ => assert!(answer[0] != Value::None, "{cell:?}"),
        }
    }
    let expected = [
        "cluster: of 3 nodes 3 are idle",
        "wide_area: 3 levels",
        "gms: the routing probabilities",
        "pgms: hints are wrong in part",
        "wan: the median",
    ];
    assert_eq!(refused.len(), expected.len(), "{refused:#?}");
    for (found, expected) in refused.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found}");
    }
}

/// A progress that counts the work done.
struct Counted(u64);

impl Progress for Counted {
    fn begin(&mut self, _part: &str, _steps: u64) {}

    fn done(&mut self, steps: u64) {
        self.0 += steps;
    }
}

/// A sweep with its journal cut off at any byte resumes, computes only the missing cells, and ends
/// with the same bytes.
#[test]
fn a_sweep_goes_on_wherever_it_was_stopped() {
    let sweep = parse(SPEC).expect("a specification");
    let folder = tempfile::tempdir().expect("a folder");
    let mut counted = Counted(0);
    let summary = run(&sweep, folder.path(), 3, &mut counted).expect("computed");
    assert_eq!((summary.cells, summary.computed, summary.refused, counted.0), (13, 13, 0, 13));
    let read = |path: &Path| std::fs::read(path).expect("written");
    let tables: Vec<Vec<u8>> = summary.files.iter().map(|path| read(path)).collect();
    let journal = read(&folder.path().join("journal"));
    let ends: Vec<usize> = (0..journal.len()).filter(|at| journal[*at] == b'\n').collect();
    for cut in
        [0, 5, ends[0], ends[0] + 1, ends[1], ends[4] + 1, ends[4] + 30, ends[12], ends[13], journal.len()]
    {
        let mut left = journal[..cut].to_vec();
        std::fs::write(folder.path().join("journal"), &left).expect("written");
        let whole = left.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
        let summary = run(&sweep, folder.path(), 2, &mut Silent).expect("gone on with");
        assert_eq!(summary.computed, 13 - whole, "cut at {cut}");
        assert!(summary.files.iter().zip(&tables).all(|(path, before)| read(path) == *before));
        left.truncate(ends[0]);
    }
    // A damaged line ends the reading.
    let mut damaged = journal.clone();
    damaged[ends[3] + 40] ^= 1;
    std::fs::write(folder.path().join("journal"), &damaged).expect("written");
    assert_eq!(run(&sweep, folder.path(), 1, &mut Silent).expect("gone on with").computed, 10);
}

#[test]
fn grown_specification_computes_only_new_cells() {
    let folder = tempfile::tempdir().expect("a folder");
    let computed = |text: &str| {
        let sweep = parse(text).expect("a specification");
        run(&sweep, folder.path(), 2, &mut Silent).expect("computed").computed
    };
    assert_eq!(computed(SPEC), 13);
    assert_eq!(computed(&SPEC.replace("to = 16", "to = 21")), 1);
    assert_eq!(computed(&SPEC.replace("\"lru\", \"belady\"", "\"belady\", \"sieve\"")), 3);
    assert_eq!(computed(&SPEC.replace("seed=1", "seed=2")), 9, "the model has no trace");
    assert_eq!(computed(SPEC), 0);
}

#[test]
fn a_trace_is_known_by_its_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.csv");
    let text =
        "[trace.a]\nfile = \"a.csv\"\n[[policy]]\ntrace = \"a\"\npolicy = \"lru\"\ncache = 30\nwarm_up = 0\n";
    let computed = |bytes: &str| {
        std::fs::write(&file, bytes).expect("written");
        let sweep = Sweep::parse(text, folder.path()).expect("a specification");
        let summary = run(&sweep, &folder.path().join("out"), 1, &mut Silent)?;
        let answer = Journal::open(&folder.path().join("out"), &sweep)?.answer(0).map(<[Value]>::to_vec);
        Ok::<_, SweepError>((summary.computed, answer.expect("computed")[2].clone()))
    };
    let one = "time_s,bytes,url\n1,10,a\n2,20,b\n3,10,a\n";
    assert_eq!(computed(one).expect("computed"), (1, Value::Count(1)));
    assert_eq!(computed(one).expect("computed"), (0, Value::Count(1)));
    assert_eq!(computed(&format!("{one}4,20,b\n")).expect("computed"), (1, Value::Count(2)));
    let none = computed("time_s,bytes,url\n").expect_err("empty").to_string();
    assert_eq!(none, "trace a: no request is left of it");
}

#[test]
fn busy_or_foreign_journal_is_respected() {
    let folder = tempfile::tempdir().expect("a folder");
    let sweep = parse("[[gms]]\nidle = 1\nglobal_nodes = 1\n").expect("a specification");
    let mut journal = Journal::open(folder.path(), &sweep).expect("open");
    assert!(matches!(run(&sweep, folder.path(), 1, &mut Silent), Err(SweepError::Busy { .. })));
    assert!(matches!(journal.add(&sweep, 0, vec![Value::None]), Err(SweepError::Results { .. })));
    let mut wrong = vec![Value::None; 9];
    wrong[0] = Value::Text("fast".into());
    assert!(journal.add(&sweep, 0, wrong).expect_err("a text").to_string().contains("response_ms"));
    assert!(matches!(journal.add(&sweep, 1, Vec::new()), Err(SweepError::NoSuchCell { .. })));
    assert_eq!(journal.due(), [0]);
    drop(journal);
    let mut file = std::fs::File::create(folder.path().join("journal")).expect("made");
    file.write_all(b"shoal sweep 1 99.0.0\n").expect("written");
    let error = run(&sweep, folder.path(), 1, &mut Silent).expect_err("another version's");
    assert!(error.to_string().contains("begins with \"shoal sweep 1 99.0.0\""), "{error}");
}
