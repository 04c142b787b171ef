//! `hone tune`: one change at a time over all altitudes. What is seen of the service says what to try next; what is shown to help is kept
//! and changes what is seen.

pub(crate) mod book;
pub(crate) mod candidate;
pub(crate) mod file;
mod lasting;
pub(crate) mod propose;
pub(crate) mod session;
mod side;
mod together;
