//! Analytic models: formulas of the papers as functions of values, solved and checked against
//! simulations of the same setting.

pub mod gms;
pub mod specweb99;
pub mod wan;
