//! The command line's own parts, without any verb: options and values that several verbs share, how help and refusals
//! read, old names of options, and the reference.

mod client;
pub mod connection;
pub mod help;
pub mod live;
pub mod old_names;
pub mod reference;
pub mod refused;
pub mod report;
pub mod screen;
pub mod values;
pub mod workload;

use std::path::PathBuf;

/// Folder of all runs, unless an option names another one: `HONE_RUNS`, or `runs`.
pub fn runs_folder() -> PathBuf {
    std::env::var_os("HONE_RUNS").filter(|name| !name.is_empty()).map_or_else(|| "runs".into(), PathBuf::from)
}
