//! `hone tune`: one change at a time over all altitudes. What is seen of the service says what to try next; what is shown to help is kept
//! and changes what is seen.

pub(crate) mod candidate;
pub(crate) mod estimate;
pub(crate) mod file;
pub(crate) mod forbid;
mod lasting;
pub(crate) mod of_host;
pub(crate) mod plan_text;
pub(crate) mod propose;
pub(crate) mod rank;
pub(crate) mod session;
mod side;
mod together;
