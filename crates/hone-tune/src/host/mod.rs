//! Settings of a host under a load: those that can be tried here, windows with and without them, and the results.

pub mod candidate;
pub mod held;
mod look;
pub mod plan_text;
pub mod service;
mod sitting;
pub mod status;
pub mod trial;
pub mod trial_run;
