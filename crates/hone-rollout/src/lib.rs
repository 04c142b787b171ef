//! What Hone does on many machines: a change brought to hosts one after the other ([`rollout`]), a load sent by several generators that meet
//! ([`rendezvous`]), profiles of a fleet gathered by build-id ([`fleet`]) or out of a continuous profiler ([`continuous`]), and both as objects of
//! Kubernetes ([`kubernetes`]).

pub mod continuous;
pub mod fleet;
pub mod fleet_text;
pub mod kubernetes;
pub mod rendezvous;
pub mod rollout;
