//! Where the rooms meet for `hone batch`: what reads and measures, so that `cmd` converts and `show` tells.

pub(crate) mod caching;
pub(crate) mod prove;
pub(crate) mod step;
