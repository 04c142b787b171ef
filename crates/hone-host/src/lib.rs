//! The machine under the measurement.
//!
//! - [`observe`] reads what the machine is into a [`hone_record::Machine`]; [`pmu`] opens hardware counters to know
//!   whether there are any.
//! - [`cpu`] samples the CPU time of a process tree and of the whole machine around a measured window.
//! - [`threads`] tells what each thread of a running process did: CPU, waits for a core, switches, page faults.
//! - [`pressure`] tells how long tasks waited for CPU, memory and disks meanwhile.
//! - [`affinity`] binds processes that the caller started to cores.
//! - [`ports`] finds the process behind a listening address; [`uses`] tells what it uses that an emulator has not.
//! - [`doctor`] turns a machine and the tools found on it into findings with what follows and what to do;
//!   [`tools`] lists the tools that Hone can use.
//!
//! Whatever reads a file takes the root under which it looks, so that a recorded machine can be observed on any
//! other one. Nothing in this crate changes the machine (but for the cores of processes that the caller started), and
//! nothing starts a program.

pub mod affinity;
pub mod cpu;
pub mod doctor;
mod error;
mod kernel_text;
pub mod memory;
pub mod observe;
mod platform;
pub mod pmu;
pub mod ports;
pub mod pressure;
pub mod setting;
pub mod threads;
pub mod tools;
pub mod uses;

pub use error::HostError;
