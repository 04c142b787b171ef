//! Turns records into one self-contained HTML page, Markdown or terminal text.
//!
//! There is a page for an optimisation, a comparison, a run summary from the ledger, a capacity search, a sweep and a load run.
//! Each page is a single string without network access or fonts of its own. Its script copies commands and zooms flame graphs;
//! a heatmap contains one to zoom and a live run contains one to refresh. The page adapts to a phone, to print and to a dark screen. The crate escapes
//! everything that comes from a record. A value that is missing in the record becomes a sentence instead of an empty plot.
//!
//! The crate is pure: it uses no file, clock or process.

pub mod counted;
pub mod desk;
mod document;
pub mod documents;
mod evidence;
pub mod gate;
mod glossary;
pub mod heatmap;
mod html;
pub mod load;
mod markdown;
mod outage;
pub mod outcome;
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
pub mod watched;

#[cfg(test)]
#[path = "../tests/sample/mod.rs"]
mod sample;

pub use document::Document;
pub use markdown::in_a_cell;
pub use quantity::date_utc;
pub use section::host_trial::untried_setting;
pub use section::story::csv_line;
pub use terminal::{Detail, Screen, aligned, plain, wrapped};
