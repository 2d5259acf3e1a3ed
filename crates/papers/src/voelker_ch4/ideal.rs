//! The approximated replacement of the prototype beside GLFD, which knows the future and all nodes.

use super::{Bench, LabError, MOST_NODES, Unit, finding, nodes};
use crate::Progress;
use shoal_cooperation::prefetch::AccessTimes;
use shoal_cooperation::prefetch::glfd::{Counts, Reference, replay};
use shoal_lab::prefetching::{Program, ProgramResult};
use shoal_lab::report::{Claim, Section, Table};

pub(super) fn section(bench: &Bench, progress: &mut dyn Progress) -> Result<Section, LabError> {
    let programs = [
        bench.render(),
        Program::random(bench.scale, bench.seed).cyclic(),
        Program::hotcold(bench.scale, bench.seed).cyclic(),
    ];
    progress.begin("GLFD", programs.len() as u64);
    let mut table = Table::new(
        "Disk reads, and what the references cost in global and disk accesses, over GLFD's",
        &["program, nodes", "GLFD reads", "PGMS reads", "GMS reads", "PGMS cost", "GMS cost"],
    );
    let (mut worst_pgms, mut worst_gms) = (0.0f64, 0.0f64);
    for program in &programs {
        for idle in 0..MOST_NODES {
            let references: Vec<Reference> =
                program.references.iter().map(|page| Reference { node: 0, page: *page }).collect();
            let ideal = replay(&bench.setting(idle).frames, &references)?;
            let pgms = counts(&bench.run(program, &bench.setting(idle))?);
            let gms = counts(&bench.gms(program, &bench.setting(idle))?);
            let over = |of: &Counts| {
                of.cost_seconds(&AccessTimes::TESTBED) / ideal.cost_seconds(&AccessTimes::TESTBED)
            };
            (worst_pgms, worst_gms) = (worst_pgms.max(over(&pgms)), worst_gms.max(over(&gms)));
            let mut row = vec![format!("{}, {}", program.name, nodes(idle + 1))];
            row.extend([&ideal, &pgms, &gms].map(|of| Unit::Count.shown(of.disk as f64)));
            row.extend([&pgms, &gms].map(|of| Unit::Ratio.shown(over(of))));
            table.rows.push(row);
        }
        progress.done(1);
    }
    let words = |text: &str| Claim::Words(text.into());
    Ok(Section {
        anchor: "glfd".into(),
        title: "How near the prototype comes to GLFD".into(),
        question: "Epochs, weights and lots approximate a replacement that knows everything. What does that cost?".into(),
        findings: vec![
            finding("glfd_bound", "GLFD over the best possible, at most (1 + 3 F_G/F_D)", Unit::Ratio, Claim::AtMost(1.06), AccessTimes::TESTBED.bound()),
            finding("pgms_worst", "PGMS over GLFD, the worst case below", Unit::Ratio, words("not told"), worst_pgms),
            finding("gms_worst", "GMS over GLFD, the worst case below", Unit::Ratio, words("not told"), worst_gms),
        ],
        tables: vec![table],
        notes: vec![
            "The dissertation's bound is within 6% for F_G/F_D ≤ 0.02; with the testbed's own 370 µs and 13 ms it is 8.5%. Costs count each access as if it were waited for (section 4.2.3), so that they \
             judge replacement alone and not prefetching; PGMS reads a page into global memory and gets it from there, and pays for both. In replacement the approximation by epochs \
             loses next to nothing. Where it does (cyclic on three nodes) it is Aggressive prefetching that reads too much: memory then lacks only 4 MB, and disks have time to bring in \
             what must go again."
                .into(),
        ],
        ..Section::default()
    })
}

/// Returns the accesses of a run: every read from any disk, and every page from global memory.
fn counts(run: &ProgramResult) -> Counts {
    Counts {
        local: 0,
        global: run.global_to_local.all(),
        disk: run.disk_to_local.all() + run.disk_to_global.all(),
    }
}
