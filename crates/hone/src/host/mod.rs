//! Settings of a host under a load: which can be tried here, windows with and without them, and what that showed.

pub(crate) mod candidate;
pub(crate) mod held;
mod look;
pub(crate) mod plan_text;
pub(crate) mod service;
mod sitting;
pub(crate) mod trial;
