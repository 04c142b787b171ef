//! Local pages over folders of runs and records. They only read; `stop` is the only action.
//!
//! `shelf` lists the files, `door` checks access, `answer` makes the pages, `shown` limits what they may read, and `listen` is the server.
//! `load_live` serves the page of a load while it runs.

mod answer;
mod beside;
pub mod door;
pub(crate) mod history;
pub mod listen;
mod live;
pub mod load_live;
mod process;
mod progress;
mod run_list;
pub mod shelf;
mod shown;
mod sketch;
mod stop;
mod topics;
