//! What Hone does on many machines.
//!
//! [`rollout`] brings a change to hosts, one after the other. [`rendezvous`] starts several generators of one load at one moment. [`fleet`] gathers
//! profiles by build-id, and [`continuous`] takes them from a continuous profiler. [`kubernetes`] prints the objects for loads and samplers.

pub mod continuous;
pub mod fleet;
pub mod fleet_text;
pub mod kubernetes;
pub mod rendezvous;
pub mod rollout;
