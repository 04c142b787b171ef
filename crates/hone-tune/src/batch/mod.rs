//! Batches of topics: read from a cluster or from segments, and analysed; and changes of them, tested and judged.

pub mod advise;
pub mod before_after;
pub mod caching;
pub mod caching_text;
pub mod live;
pub mod prove;
pub mod prove_run;
pub mod reading;
pub mod recorded;
pub mod replaying;
pub mod replica;
pub mod segments;
pub mod step;
pub mod xray;
