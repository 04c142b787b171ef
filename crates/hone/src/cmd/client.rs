//! Options for what sends the load, and for who reads it; shared by `load` and `compare`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;

use hone_experiment::ending::Usage;

/// Who sends and who reads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
pub(crate) struct ClientOptions {
    /// What sends: `wire` (Hone's own frames: the batch is an input), `librdkafka` (the batch is an output, and a request
    /// of the schedule is one record), or a command that speaks the line protocol of docs/client-protocol.md.
    #[arg(long, default_value = "wire", value_name = "CLIENT")]
    pub(crate) client: String,
    /// Setting of the client, for example linger.ms=5; may be repeated. All others are the client's own defaults.
    #[arg(long = "client-set", value_name = "KEY=VALUE")]
    client_set: Vec<String>,
    /// Consumers, each of which reads everything; gives the latency from end to end.
    #[arg(long, default_value_t = 0)]
    pub(crate) consumers: u32,
    /// Let the consumers share the partitions as one group, and commit their offsets.
    #[arg(long)]
    pub(crate) consumer_group: bool,
}

impl ClientOptions {
    /// The settings as pairs.
    pub(crate) fn settings(&self) -> Result<BTreeMap<String, String>> {
        let pair = |pair: &String| match pair.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
            _ => bail!(Usage(format!("--client-set `{pair}` is no KEY=VALUE, for example linger.ms=5"))),
        };
        self.client_set.iter().map(pair).collect()
    }
}
