//! Effective batches: what is in a topic as it was written, by the headers of its record batches alone.
//!
//! [`scan`] walks the bytes of a Fetch answer or of a segment file, [`tally`] adds up what the headers say, by partition and by producer, in
//! bounded memory. Nothing here decodes a record: payloads are stepped over. Pure.

pub mod histogram;
pub mod producers;
pub mod scan;
pub mod settings;
pub mod tally;
