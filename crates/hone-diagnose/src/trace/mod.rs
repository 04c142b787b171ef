//! Traces of programs under an emulator: what the tracer is told, what it leaves, and how it is asked while it runs.

pub mod folder;
pub mod read;

pub use folder::{Left, TraceFolder};
pub use read::{Stretch, Thread, Trace, TraceFault, Translated};
