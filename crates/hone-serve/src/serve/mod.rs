//! A local page over folders of runs and records: what lies there (`shelf`), who may ask (`door`), what is answered (`answer`) and may be read for it
//! (`shown`), and the server itself (`listen`). It only reads.

mod answer;
mod beside;
pub mod door;
mod history;
pub mod listen;
mod progress;
pub mod shelf;
mod shown;
mod sketch;
