//! Reads the sources for `tidy.rs` and compares them with `tidy.toml`.

pub(crate) mod circles;
pub(crate) mod measures;
pub(crate) mod modules;
pub(crate) mod ratchet;
pub(crate) mod record;
pub(crate) mod source;
pub(crate) mod subjects;
pub(crate) mod terms;
