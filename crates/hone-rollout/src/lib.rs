//! What Hone does on many machines.
//!
//! [`rollout`] brings a change to hosts, one after the other. [`rendezvous`] starts several generators of one load at one moment. [`fleet`] gathers
//! profiles by build-id, [`profile_exchange`] pushes, takes and merges them, and [`sample`] does so at each host's own moment. [`profile_take`] takes
//! them from a service or, by [`continuous`], from a continuous profiler. [`kubernetes`] prints the objects for loads and samplers.

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
