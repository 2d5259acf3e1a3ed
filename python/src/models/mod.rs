//! Analytic models: formulas of the papers over arrays.

pub mod gms;
pub mod kant_won;
pub mod pgms;
pub mod wan;
