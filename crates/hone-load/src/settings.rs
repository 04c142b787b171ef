//! Settings of a load besides its workload.

use hone_record::Shard;

use crate::security::Security;

/// The topic of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topic {
    /// A new topic with the workload's partitions and properties, deleted after the window.
    Fresh,
    /// Like [`Topic::Fresh`], under a name with the owner's prefix, so that a killed run's topic can be found.
    Named {
        /// Prefix of its name.
        prefix: String,
        /// Whether to keep it.
        keep: bool,
    },
    /// An existing topic; it stays.
    Existing(String),
    /// A topic that several generators share. The first of them creates it, with the workload's partitions and properties. It stays.
    Shared(String),
}

/// Settings of a load besides the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `host:port` of any broker of the cluster.
    pub address: String,
    /// Name of the variant, for the record.
    pub variant: String,
    /// The target's work before it acknowledges, for the record.
    pub storage: String,
    /// The topic.
    pub topic: Topic,
    /// Limit of the generator's own delay (99th percentile), in microseconds. Above it the run counts as failed.
    pub lateness_limit_us: f64,
    /// The shard that this generator sends; `None` for the whole load.
    pub shard: Option<Shard>,
    /// TLS and login.
    pub security: Security,
}
