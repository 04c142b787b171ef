//! Batches of topics: read from a cluster or from segments, and looked into.

pub(crate) mod reading;
pub(crate) mod replaying;
pub(crate) mod segments;
