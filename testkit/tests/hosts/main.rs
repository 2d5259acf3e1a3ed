//! The ground that clusters are tested on: hosts reach each other, cuts cut, limits limit, and
//! nothing is left behind. Needs root and network namespaces, and says when it is skipped.

mod cables;
mod left_behind;
mod links;
mod loopback;
mod programs;
