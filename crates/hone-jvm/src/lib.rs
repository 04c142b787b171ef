//! The Java virtual machine as a layer: its installation ([`jdk`]), its command line ([`command`]), the settings that a change may set
//! ([`setting`]), the flags in force ([`flags`]), the cache of an earlier run ([`cache`]), its log of pauses
//! ([`pauses`]), settings worth a trial ([`advice`]), and variants of it by name ([`recipe`]). Pure.

pub mod advice;
pub mod cache;
pub mod command;
pub mod conflicts;
pub mod flags;
pub mod jdk;
pub mod pauses;
pub mod recipe;
pub mod setting;
pub mod threads;
