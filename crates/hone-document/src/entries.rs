//! Ledger entries made from records, one for each question that a record answers. They do not contain hashes of windows yet.

pub mod comparison;
pub mod gate;
pub mod host_trial;
pub mod optimization;
pub mod proof;
pub mod replay;
pub mod tuning;
pub mod whatif;
