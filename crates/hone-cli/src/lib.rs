//! The command line's own parts, without any verb: options and values that several verbs share, how help and refusals
//! read, old names of options, and the reference.

mod client;
pub mod connection;
pub mod help;
pub mod old_names;
pub mod reference;
pub mod refused;
pub mod screen;
pub mod values;
pub mod workload;
