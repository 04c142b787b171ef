//! The machine under the measurement.
//!
//! - [`observe`] reads the machine's facts into a [`hone_record::Machine`]; [`pmu`] opens hardware counters to find out whether there are
//!   any.
//! - [`cpu`] samples the CPU time of a process tree and of the whole machine around a measured window.
//! - [`cores`] samples the use of each core while a window is open.
//! - [`threads`] reads the activity of each thread of a running process: CPU, waits for a core, switches, page faults.
//! - [`pressure`] reads how long tasks waited for CPU, memory and disks.
//! - [`affinity`] pins processes that the caller started to cores.
//! - [`ports`] finds the process behind a listening address, and [`locks`] the holder of a lock; [`uses`] finds the features of a process
//!   that an emulator lacks.
//! - [`doctor`] turns a machine and its tools into findings with consequence and advice; [`tools`] lists the tools that Hone can use.
//!
//! - [`knob`] lists the kernel settings that Hone knows, and [`disks`] finds the disks below a folder. [`profile`] reads recommended
//!   values, [`plan`] computes their effect on this host and its limits, and [`saved_plan`] stores that for later.
//! - [`journal`] stores the earlier value before each write. [`change`] writes and rolls back, through [`kernel`]. [`commit`] is the whole
//!   life of a change, with the watchdog that rolls it back unless it is confirmed. [`persist`] writes files for the next boot,
//!   [`later_boot`] finds their effect there, and [`held`] lists all changes that are not rolled back.
//! - [`export`] writes counters and settings for Prometheus.
//! - [`lint`] reads tuning texts, and reports what they would do to a host and leave behind.
//! - [`setting`] is a setting that a user names.
//! - [`origin`] finds the source of a value. [`relevance`] finds settings that can't matter here, and [`under_load`] those that a load
//!   can't affect. [`latency`] measures existing delays of a broker, and [`block_latency`] the time of disk requests.
//! - [`rollout`] brings a change to many hosts: the inventory, the order, and the journal.
//!
//! Every reader of files takes a root, so that a recorded machine can be observed on any other one. Only [`change`] and [`persist`] change
//! the machine, after they have stored the earlier values. [`affinity`] changes the cores of processes that the caller started. No module
//! starts a program.

pub mod affinity;
pub mod block_latency;
pub mod change;
pub mod commit;
pub mod compiling;
pub mod cores;
pub mod cpu;
pub mod disks;
pub mod doctor;
mod error;
pub mod export;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod glob;
pub mod held;
pub mod journal;
pub mod kernel;
mod kernel_text;
pub mod knob;
pub mod latency;
pub mod later_boot;
mod line_file;
pub mod lint;
pub mod locks;
pub mod memory;
pub mod observe;
pub mod origin;
pub mod persist;
pub mod plan;
mod platform;
pub mod pmu;
pub mod ports;
pub mod pressure;
pub mod profile;
pub mod relevance;
pub mod repeated;
pub mod rollout;
pub mod saved_plan;
pub mod setting;
pub mod stalls;
mod sysctl_text;
pub mod threads;
pub mod throttle;
pub mod tools;
mod udev;
pub mod under_load;
pub mod upstream;
pub mod uses;
pub mod yaml;

pub use error::HostError;
