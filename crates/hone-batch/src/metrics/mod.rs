//! Batches by a cluster's own counters, for topics that Hone does not read: by the names and labels that each kind of broker exports.
//!
//! A page of a broker ([`exposition`]) or answers of a Prometheus server ([`prometheus`]) become rates of a few [`quantity`]s
//! ([`snapshot`], [`mod@derive`]), whose metrics are found by the names that a source has ([`source`]). Those become the figures of a
//! report ([`figures`]). Both ways end in the same rates, so they can be compared. [`queries`] has the same as PromQL, for dashboards and
//! for people. A quantity that a source does not export is marked as such throughout, and never becomes a 0.

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
