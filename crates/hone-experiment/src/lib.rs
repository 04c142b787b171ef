//! One experiment: what is started, measured, paired, judged and kept, whichever job asks for it.
//!
//! A job says what it wants in a file ([`spec`]) or by flags; [`arm`] starts and stops the target, [`probe`], [`meter`] and
//! [`metered`] look at it, [`drive`] measures pairs into a [`folder`], [`rounds`] and [`mod@bench`] repeat that over builds and
//! workloads, [`lever`] and [`topics`] set what is outside of the process and take it back, [`ledger`] keeps what was found.
//! The crate knows rooms, and no job: it prints nothing but progress and alarms, and decides no exit code.

pub mod aim;
pub mod arm;
pub mod bench;
pub mod broke;
pub mod budget;
mod capacity;
pub mod change;
pub mod clients;
pub mod climb;
pub mod compare;
pub mod curve;
pub mod decide;
pub mod drive;
pub mod ending;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod folder;
pub mod guard;
pub mod host_ledger;
pub mod host_plan;
pub mod ledger;
pub mod left;
pub mod lever;
mod live;
pub mod load_file;
mod longer;
pub mod meter;
pub mod metered;
pub mod moment;
pub mod notation;
pub mod outlook;
pub mod output;
pub mod phase;
pub mod places;
pub mod probe;
pub mod progress;
pub mod reader;
pub mod ready;
pub mod require;
pub mod rounds;
pub mod run_context;
pub mod selftest;
pub mod settings;
pub mod settle;
pub mod slow;
pub mod spec;
pub mod spelling;
pub mod standing;
pub mod takes;
pub mod targets;
pub mod topics;
pub mod usage;
pub mod variants;
pub mod warmth;
pub mod whole;
