//! The simulations beside slow, obvious versions, and their findings in small.

use super::joining::{MemorySplit, Policy};
use super::suboptimal::ProgramMemory;
use super::*;
use shoal_trace::Random;

fn drawn(references: usize, pages: u64, seed: u64) -> Application {
    let mut random = Random::new(seed);
    let mut draw = || random.below(pages).min(random.below(pages)) as u32;
    let references: Vec<u32> = (0..references).map(|_| draw()).collect();
    Application { name: "drawn".into(), pages: pages as usize, references, clients: Vec::new() }
}

/// Returns the faults of a memory as a list, the newest page first. The page `replaced` places from
/// the oldest global page goes.
fn faults_of_a_list(application: &Application, memory: ProgramMemory, replaced: usize) -> Faults {
    let mut list: Vec<u32> = Vec::new();
    let mut faults = Faults::default();
    for page in &application.references {
        match list.iter().position(|other| other == page) {
            Some(at) => {
                faults.getpages += u64::from(at >= memory.local);
                list.remove(at);
                list.insert(0, *page);
            }
            None => {
                faults.disk += 1;
                list.insert(0, *page);
                if list.len() > memory.local + memory.global {
                    list.remove(list.len() - 1 - replaced);
                }
            }
        }
    }
    faults
}

#[test]
fn any_position_is_replaced_as_in_a_list() {
    let application = drawn(4000, 60, 3);
    let memory = ProgramMemory { local: 10, global: 21 };
    for replaced in 0..=20 {
        let found = suboptimal::faults(&application, memory, replaced as f64 / 20.0);
        assert_eq!(found, faults_of_a_list(&application, memory, replaced), "{replaced}");
    }
}

#[test]
fn replacing_the_oldest_is_lru() {
    let application = drawn(5000, 90, 4);
    let memory = ProgramMemory::of_section_3_4_3(&application);
    let positions = stack::distances(&application);
    let found = suboptimal::faults(&application, memory, 0.0);
    assert_eq!(found.disk, positions.first() + positions.beyond(memory.local + memory.global));
    assert_eq!(
        found.getpages,
        positions.beyond(memory.local) - positions.beyond(memory.local + memory.global)
    );
}

#[test]
fn positions_of_the_stack_add_up() {
    let application = drawn(5000, 90, 5);
    let positions = stack::distances(&application);
    assert_eq!(positions.beyond(0) + positions.first(), 5000);
    for parts in [1, 7, 90, 1000] {
        let profile = positions.profile(parts);
        assert_eq!(profile.last().unwrap().0, 1.0);
        if parts == 90 {
            let sum: f64 = profile.iter().map(|point| point.1).sum();
            assert!((sum * 5000.0 - positions.beyond(0) as f64).abs() < 1e-6);
        }
    }
    assert_eq!(positions.cold_share(1.0), 1.0);
    assert!(positions.cold_share(0.0) < positions.cold_share(0.01));
}

#[test]
fn strict_lru_over_nodes_is_one_lru_that_grows() {
    let application = drawn(6000, 120, 6);
    for memories in
        [MemorySplit::first_of_figure_3_7(&application), MemorySplit::second_of_figure_3_7(&application)]
    {
        let before = memories.local + memories.idle[0] + memories.idle[1];
        let (mut list, mut expected): (Vec<u32>, _) = (Vec::new(), Faults::default());
        for (index, page) in application.references.iter().enumerate() {
            let capacity = if index >= 2000 { before + memories.idle[2] } else { before };
            match list.iter().position(|other| other == page) {
                Some(at) => {
                    expected.getpages += u64::from(at >= memories.local);
                    list.remove(at);
                }
                None => expected.disk += 1,
            }
            list.insert(0, *page);
            list.truncate(capacity);
        }
        assert_eq!(joining::faults(&application, memories, Policy::StrictLru), expected);
    }
}

#[test]
fn naive_balancing_uses_a_new_node_too_slowly() {
    // The second configuration has little room beside the new node's, which fills at a third of the
    // rate. A loop is no LRU program.
    for application in Application::made(40_000, 2).into_iter().filter(|one| one.name != "loop") {
        let memories = MemorySplit::second_of_figure_3_7(&application);
        let strict = joining::faults(&application, memories, Policy::StrictLru).disk;
        let naive = joining::faults(&application, memories, Policy::Naive).disk;
        assert!(naive as f64 > strict as f64 * 1.02, "{}: {naive} for {strict}", application.name);
    }
}

#[test]
fn programs_that_go_in_circles_gain_by_leaving_lru() {
    // section 3.4.3: "some applications improve their performance when the policy deviates from
    // LRU"
    let made = Application::made(40_000, 1);
    let of = |name: &str, position| {
        let application = made.iter().find(|one| one.name == name).unwrap();
        suboptimal::faults(application, ProgramMemory::of_section_3_4_3(application), position).disk as f64
    };
    assert!(of("loop", 0.9) < 0.8 * of("loop", 0.0));
    assert!(of("hot and cold", 0.3) < 1.1 * of("hot and cold", 0.0), "insensitive");
    assert!(
        of("phases", 0.6) < 1.06 * of("phases", 0.0) && of("phases", 1.0) > 2.0 * of("phases", 0.0),
        "up to a limit"
    );
}

#[test]
fn made_programs_have_their_footprint_and_length() {
    for application in Application::made(20_000, 9) {
        assert_eq!(application.references.len(), 20_000);
        let pages: std::collections::HashSet<&u32> = application.references.iter().collect();
        assert_eq!(pages.len(), application.pages);
        assert!(application.references.iter().all(|page| (*page as usize) < application.pages));
        assert!((200..=313).contains(&application.pages), "{}: {}", application.name, application.pages);
    }
    assert_eq!(Application::made(500, 9), Application::made(500, 9));
}
