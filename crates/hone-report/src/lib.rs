//! Records in, one self-contained HTML page out.
//!
//! A page of an optimisation, of a comparison, of a whole story out of the ledger, of a search for a capacity, of a sweep, of one load run. Each is a single string that needs no network,
//! no script and no font of its own (a heatmap has one script inside, to zoom; a run that goes on one that looks for more); it adapts to a phone, to print and to a dark screen. Everything that comes from a
//! record is escaped, and what a record does not hold becomes a sentence instead of an empty plot.
//!
//! The room is pure: no file, no clock, no process.

pub mod desk;
mod document;
pub mod documents;
mod evidence;
pub mod gate;
pub mod heatmap;
mod html;
pub mod load;
mod markdown;
mod plot;
pub mod prediction;
mod quantity;
pub mod replica;
mod section;
mod sentence;
mod table;
mod terminal;
mod text;
mod tree;
pub mod verdict;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use document::Document;
pub use markdown::in_a_cell;
pub use quantity::date_utc;
pub use section::host_trial::untried_setting;
pub use section::story::csv_line;
pub use terminal::{Detail, aligned, plain, wrapped};
