//! Why the CPU stalls.
//!
//! [`topdown`] reads what counters say where there are counters; [`verdict`] says whether a better layout of the code can help. Pure.

#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod topdown;
pub mod verdict;
