//! Why the CPU stalls.
//!
//! [`topdown`] reads what counters say where there are counters. Elsewhere [`emulator`] runs a program under qemu with Hone's own tracer,
//! [`perf`] reads what was sampled of a program as it is, [`trace`] what the tracer leaves, and [`model`] says how the code lies in memory and what
//! [`cache`]s miss of it, [`heatmap`] draws the map of it, with files and lines by [`source`]. [`verdict`] says whether a better layout of the
//! code can help, and [`moved`] what a given one would do.

pub mod aggregated;
mod branch;
pub mod cache;
pub mod callgrind;
pub mod emulator;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod heatmap;
pub mod image;
pub mod model;
pub mod moved;
pub mod perf;
pub mod source;
pub mod topdown;
pub mod trace;
pub mod verdict;
