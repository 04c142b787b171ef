//! What the ledger says of a record: one entry for each question that it answers, without the hashes of its windows.

pub mod comparison;
pub mod gate;
pub mod host_trial;
pub mod optimization;
pub mod proof;
pub mod tuning;
