//! Why the CPU stalls.
//!
//! [`topdown`] reads hardware counters where the machine has them. Elsewhere [`emulator`] runs a program under qemu with Hone's own tracer,
//! [`perf`] reads samples of an unchanged program, and [`trace`] reads the tracer's files. [`model`] computes how the code lies in memory
//! and which [`cache`] misses follow. [`heatmap`] draws the map of the code, with files and lines by [`source`]. [`inlined`] finds the
//! functions around code. [`verdict`] decides whether a better code layout can help, and [`moved`] computes the effect of a given layout. [`tail`]
//! finds the stalls that explain the slowest requests.

pub mod aggregated;
mod branch;
pub mod cache;
pub mod callgrind;
pub mod emulator;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod heatmap;
pub mod image;
pub mod inlined;
pub mod model;
pub mod moved;
pub mod perf;
pub mod source;
pub mod tail;
pub mod topdown;
pub mod trace;
pub mod verdict;
