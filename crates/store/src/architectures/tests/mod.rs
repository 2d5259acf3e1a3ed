//! Promises of the store, tested on files in RAM, on faulty ones, and on the real file system, for
//! every architecture with an index.

/// Makes tests from functions that take an architecture's name: one for each architecture and
/// function.
macro_rules! for_each_architecture {
    ($($test:ident,)*) => {
        for_each_architecture!(@ squid $($test,)*);
        for_each_architecture!(@ squid_monotonic $($test,)*);
        for_each_architecture!(@ squid_lowest $($test,)*);
        for_each_architecture!(@ squidl $($test,)*);
        for_each_architecture!(@ squidm $($test,)*);
        for_each_architecture!(@ squidml $($test,)*);
        for_each_architecture!(@ squidmla $($test,)*);
    };
    (@ $architecture:ident $($test:ident,)*) => {
        mod $architecture {
            $(#[test]
            fn $test() {
                super::$test(stringify!($architecture));
            })*
        }
    };
}

/// Makes the tests for the architectures that keep all objects as files.
macro_rules! for_each_architecture_of_files {
    ($($test:ident,)*) => {
        mod of_files {
            use super::*;
            for_each_architecture!(@ squid $($test,)*);
            for_each_architecture!(@ squid_monotonic $($test,)*);
            for_each_architecture!(@ squid_lowest $($test,)*);
            for_each_architecture!(@ squidl $($test,)*);
        }
    };
}

mod budget;
mod crash;
mod damage;
mod limits;
mod making;
mod overwriting;
mod real;
mod replacement;
mod secrets;
mod sides;
mod small_objects;
mod use_cases;
pub(in crate::architectures) mod world;

use super::{ARCHITECTURES, Architecture, Design};

use world::{World, body_of, key, matches, put};

/// Architectures with an index.
const INDEXED: [&str; 7] =
    ["squid", "squid_monotonic", "squid_lowest", "squidl", "squidm", "squidml", "squidmla"];

#[test]
fn every_architecture_is_tried() {
    let indexed = |row: &&Architecture| matches!(row.design, Design::Indexed(_));
    let known: Vec<_> = ARCHITECTURES.iter().filter(indexed).map(|row| row.name).collect();
    assert_eq!(known, INDEXED);
}
