//! One experiment of any command: start, measure, pair, judge and store.
//!
//! A command gives its settings in a file ([`spec`]) or by flags. [`arm`] starts and stops the target. [`probe`], [`meter`] and
//! [`metered`] observe it. [`drive`] measures pairs into a [`folder`] until one of the [`looks`] ends them, and [`rounds`] and [`mod@bench`] repeat that over builds
//! and workloads. [`lever`] and [`topics`] set external settings and restore them. [`ledger`] stores the decisions. The crate is
//! independent of the commands: it only prints progress and alarms, and chooses no exit code.

pub mod aim;
pub mod arm;
pub mod bench;
pub mod broke;
pub mod budget;
mod capacity;
pub mod change;
pub mod clients;
pub mod climb;
mod clock;
pub mod command_line;
pub mod compare;
pub mod connection;
mod continuation;
pub mod counted;
pub mod curve;
pub mod decide;
pub mod drive;
pub mod emulated;
pub mod ending;
pub mod faults;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixture;
pub mod folder;
mod fresh;
pub mod guard;
pub mod host_ledger;
pub mod host_plan;
pub mod jvm;
pub mod ledger;
pub mod left;
pub mod lever;
pub mod live;
pub mod load_file;
mod longer;
pub mod looks;
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
mod sparkline;
pub mod spec;
pub mod standing;
pub mod takes;
pub mod targets;
pub mod topics;
pub mod usage;
pub mod variants;
pub mod warmth;
pub mod whole;
