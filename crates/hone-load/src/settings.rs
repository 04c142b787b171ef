//! What a load needs beside its workload.

use hone_record::Shard;

use crate::security::Security;

/// Which topic the load goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    /// A new one with the workload's partitions and properties, deleted after the window.
    Fresh,
    /// As [`Topic::Fresh`], under a name that tells whose it is, so that one which a killed run left behind can be found.
    Named {
        /// What its name begins with.
        prefix: String,
        /// Whether it stays.
        keep: bool,
    },
    /// One that is there; it stays.
    Existing(String),
    /// One that several generators share: the first of them makes it, with the workload's partitions and properties. It stays.
    Shared(String),
}

/// What a load needs beside the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `host:port` of any broker of the cluster.
    pub address: String,
    /// Name of the variant, for the record.
    pub variant: String,
    /// What the target does before it acknowledges, for the record.
    pub storage: String,
    /// The topic.
    pub topic: Topic,
    /// 99th percentile of the generator's own lateness above which the run counts as failed, in microseconds.
    pub lateness_limit_us: f64,
    /// Which part of the load this generator sends; `None` for all of it.
    pub shard: Option<Shard>,
    /// TLS and login.
    pub security: Security,
}
