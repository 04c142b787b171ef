//! Results of the program itself as text: what no other crate shows.

pub(crate) mod reference;
pub(crate) mod version;
