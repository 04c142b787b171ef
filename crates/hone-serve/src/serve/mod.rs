//! Local pages over folders of runs and records; they only read.
//!
//! `shelf` lists the files, `door` checks access, `answer` makes the pages, `shown` limits what they may read, and `listen` is the server.

mod answer;
mod beside;
pub mod door;
mod history;
pub mod listen;
mod progress;
pub mod shelf;
mod shown;
mod sketch;
