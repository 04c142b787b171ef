//! Tunes batches, topics, clients and hosts: reads them, predicts changes, and tests which of them help.
//!
//! [`batch`] reads topics and tests changes of their batches (`hone batch`). [`host`] tests settings of a host (`hone host try`).
//! [`session`] is `hone tune`, which tests one change after the other on all layers. [`survey`], [`starter`] and
//! [`cluster_scaffold`] write the first files of a project or a cluster (`hone init`).

pub mod batch;
mod broker_settings;
pub mod candidate;
pub mod cluster_scaffold;
pub mod estimate;
pub mod file;
mod forbid;
pub mod host;
pub mod init;
pub mod init_cluster;
pub mod init_cluster_text;
pub mod init_jvm;
pub mod init_text;
pub mod lasting;
mod new_file;
pub mod of_host;
pub mod plan_text;
pub mod prices;
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
