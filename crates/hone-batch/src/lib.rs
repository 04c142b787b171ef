//! Effective batches: the batches of a topic as they were written, by the headers of its record batches, and the reasons for their size.
//!
//! [`scan`] walks the bytes of a Fetch answer or of a segment file, [`tally`] adds up the headers in bounded memory, [`evidence`] keeps
//! some of them, [`trigger`] finds out what closed a producer's batches, [`payload`] examines a sample of the records, and [`xray`]
//! combines all of that into the report on a topic, with the verdicts of [`verdict`]. [`whatif`] replays the records with other settings,
//! and [`replica`] describes their producers so that a load can imitate them. Pure.

mod arrivals;
pub mod cost;
mod counted;
pub mod evidence;
pub mod fetch;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod histogram;
pub mod metrics;
pub mod overlap;
pub mod payload;
pub mod plan;
pub mod producers;
pub mod replica;
pub mod scan;
pub mod segments;
pub mod settings;
pub mod tally;
pub mod trigger;
pub mod verdict;
pub mod whatif;
pub mod xray;
pub mod zones;
