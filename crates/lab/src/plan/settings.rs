//! A ready `shoal.toml`.

use super::Plan;
use shoal_core::ByteCount;
use std::fmt::Write;

/// Returns the settings that follow from the plan; all others stay at their defaults.
pub fn settings(plan: &Plan, log: &str) -> String {
    let (choice, expected) = (&plan.choice, &plan.expected);
    let (ram, disk) = (ByteCount(choice.ram_bytes), ByteCount(choice.disk_bytes));
    let mut text = format!(
        "# Made by `shoal plan` from {}.\n# What is not named here rests at its default; `shoal config default` prints all.\n",
        log.replace(['\n', '\r'], " ")
    );
    let _ = writeln!(
        text,
        "# Expected: {:.1}% of the requests that may be stored hit, {:.1}% in RAM.",
        expected.hit_ratio() * 100.0,
        expected.ram_hit_ratio * 100.0
    );
    let _ = writeln!(text, "\n[cache]\nram = \"{ram}\"");
    if choice.disk_bytes == 0 {
        let _ = writeln!(text, "\n[store]\n# RAM alone: a disk would not pay.\ndirectory = \"\"");
    } else {
        let _ = writeln!(text, "\n[store]\ndirectory = \"shoal-cache\"\ndisk = \"{disk}\"");
        let _ =
            writeln!(text, "architecture = \"{}\"\nmax_objects = {}", choice.architecture, choice.objects);
    }
    let _ = writeln!(
        text,
        "\n[log]\n# Plan again from what this writes.\naccess = \"access.log\"\nformat = \"squid\""
    );
    text
}
