//! The machine under the measurement.
//!
//! - [`observe`] reads what the machine is into a [`hone_record::Machine`]; [`pmu`] opens hardware counters to know
//!   whether there are any.
//! - [`cpu`] samples the CPU time of a process tree and of the whole machine around a measured window.
//! - [`threads`] tells what each thread of a running process did: CPU, waits for a core, switches, page faults.
//! - [`pressure`] tells how long tasks waited for CPU, memory and disks meanwhile.
//! - [`affinity`] binds processes that the caller started to cores.
//! - [`ports`] finds the process behind a listening address, and [`locks`] behind a lock; [`uses`] tells what it uses that an emulator has not.
//! - [`doctor`] turns a machine and the tools found on it into findings with what follows and what to do;
//!   [`tools`] lists the tools that Hone can use.
//!
//! - [`knob`] lists the kernel's settings that Hone knows, [`disks`] finds the disks below a folder, [`profile`] reads what
//!   somebody recommends, and [`plan`] says what that would change here, and what it can't; [`saved_plan`] keeps that for later.
//! - [`journal`] keeps what was there before each write, [`change`] writes and takes back, through [`kernel`]; [`commit`] is
//!   the whole way of a change, with the guard that takes it back unless it is confirmed, [`persist`] the next boot, and
//!   [`later_boot`] what of it is in force there, and [`held`] all that is not taken back.
//! - [`export`] writes counters and settings for Prometheus.
//! - [`lint`] reads texts of tuning, and says what they would do to a host and leave behind.
//! - [`setting`] is one that a user names.
//! - [`origin`] finds who set a value, [`relevance`] what can't matter here and [`under_load`] what a load can't touch, [`latency`] what delays a broker already, and
//!   [`block_latency`] how long disks take for each request.
//! - [`rollout`] is a change brought to many hosts: which ones, who comes next, and what was done to whom.
//!
//! Whatever reads a file takes the root under which it looks, so that a recorded machine can be observed on any
//! other one. Only [`change`] and [`persist`] change the machine, the undo first (and [`affinity`] the cores
//! of processes that the caller started), and nothing starts a program.

pub mod affinity;
pub mod block_latency;
pub mod change;
pub mod commit;
pub mod compiling;
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
mod sysctl_text;
pub mod threads;
pub mod throttle;
pub mod tools;
mod udev;
pub mod under_load;
pub mod upstream;
pub mod uses;

pub use error::HostError;
