//! Tunes batches, topics, clients and hosts: reads them, predicts changes, and tries which of them help.
//!
//! [`batch`] reads topics and tries changes of their batches (`hone batch`). [`host`] tries settings of a host (`hone host try`). [`session`] is
//! `hone tune`, which tries one change after the other at all altitudes. [`survey`], [`starter`] and [`cluster_scaffold`] write the first files of
//! a project or a cluster (`hone init`).

pub mod batch;
pub mod candidate;
pub mod cluster_scaffold;
pub mod estimate;
pub mod file;
mod forbid;
pub mod host;
pub mod init;
pub mod init_cluster;
pub mod init_cluster_text;
pub mod init_text;
pub mod lasting;
mod new_file;
pub mod of_host;
pub mod plan_text;
pub mod producer;
pub mod propose;
mod rank;
pub mod session;
pub mod settings;
mod side;
pub mod starter;
pub mod survey;
mod together;
pub mod tune_run;
