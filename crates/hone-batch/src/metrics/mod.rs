//! Batches by a cluster's own counters, where nobody reads a topic: by name and label of what each kind of broker exports.
//!
//! A page of a broker ([`exposition`]) or answers of a Prometheus server ([`prometheus`]) become rates of a few [`quantity`]s
//! ([`snapshot`], [`mod@derive`]), whose metrics are found by the names that a source has ([`source`]); and those become the figures that are
//! shown ([`figures`]). Both ways end in the same rates, so that they can be held against each other. [`queries`] has the same as PromQL,
//! for dashboards and for people. What a source does not export is told as such all the way through, and never becomes a 0.

pub mod busy;
pub mod clients;
pub mod derive;
pub mod exposition;
pub mod figures;
mod lag;
mod latency;
pub mod prometheus;
pub mod quantity;
pub mod queries;
pub mod snapshot;
pub mod source;
