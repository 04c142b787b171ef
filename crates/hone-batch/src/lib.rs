//! Effective batches: what is in a topic as it was written, by the headers of its record batches, and why.
//!
//! [`scan`] walks the bytes of a Fetch answer or of a segment file, [`tally`] adds up what the headers say in bounded memory, [`evidence`]
//! keeps some of them, [`trigger`] says what closed a producer's batches, [`payload`] looks into a sample of the records, and [`xray`] joins
//! it all to what is told of a topic, with the verdicts of [`verdict`]. [`whatif`] replays the records under other settings, and [`replica`]
//! describes their producers so that a load can stand in for them. Pure.

mod arrivals;
pub mod cost;
mod counted;
pub mod evidence;
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
