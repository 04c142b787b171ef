//! Hone's work on many machines.
//!
//! [`rollout`] changes hosts, one after the other. [`rendezvous`] starts several generators of one load at the same time.
//! [`fleet`] collects profiles by build-id, [`profile_exchange`] pushes, pulls and merges them, and [`sample`] does so at each
//! host's own time. [`profile_take`] gets them from a service or, with [`continuous`], from a continuous profiler. [`kubernetes`]
//! prints the manifests for loads and samplers.

pub mod continuous;
pub mod fleet;
pub mod fleet_text;
pub mod gates;
pub mod kubernetes;
pub mod profile_exchange;
pub mod profile_take;
pub mod rendezvous;
pub mod rollout;
pub mod sample;
pub mod shards;
