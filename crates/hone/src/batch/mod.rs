//! Batches of topics: read from a cluster or from segments, and looked into; and changes of them, tried and judged.

pub(crate) mod advise;
pub(crate) mod before_after;
pub(crate) mod caching;
pub(crate) mod caching_text;
pub(crate) mod live;
pub(crate) mod prove;
pub(crate) mod reading;
pub(crate) mod replaying;
pub(crate) mod replica;
pub(crate) mod segments;
pub(crate) mod step;
