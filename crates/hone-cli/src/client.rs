//! Options for the clients that send and read the load, shared by `load` and `compare`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;

use hone_experiment::ending::Usage;

/// Options of the producers and consumers.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
pub(crate) struct ClientOptions {
    /// Producer client. `wire` sends Hone's own frames. `librdkafka` makes the batches itself, and a request of the schedule is one record. A
    /// command can also be the client if it speaks the line protocol of docs/client-protocol.md.
    #[arg(long, default_value = "wire", value_name = "CLIENT")]
    pub(crate) client: String,
    /// Setting of the client, for example `linger.ms=5`; repeat it for several. All other settings keep the client's own values.
    #[arg(long = "client-set", value_name = "KEY=VALUE")]
    client_set: Vec<String>,
    /// Number of consumers. Each consumer reads every record. With consumers, Hone also measures the end-to-end latency.
    #[arg(long, default_value_t = 0)]
    pub(crate) consumers: u32,
    /// Let the consumers share the partitions as one group. They then commit their offsets.
    #[arg(long)]
    pub(crate) consumer_group: bool,
}

impl ClientOptions {
    /// The settings as pairs.
    pub(crate) fn settings(&self) -> Result<BTreeMap<String, String>> {
        let pair = |pair: &String| match pair.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
            _ => {
                bail!(Usage(format!("invalid --client-set `{pair}`: use KEY=VALUE, for example linger.ms=5")))
            }
        };
        self.client_set.iter().map(pair).collect()
    }
}
