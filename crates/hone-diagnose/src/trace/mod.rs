//! Traces of programs under an emulator: the tracer's settings, its files, and orders to it while it runs.

pub mod folder;
pub mod read;

pub use folder::{Left, TraceFolder};
pub use read::{Stretch, Thread, Trace, TraceFault, Translated};
