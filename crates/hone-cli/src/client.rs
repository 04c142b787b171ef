//! Options for the clients that send and read the load, shared by `load` and `compare`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use hone_format::read_seconds;

use hone_experiment::ending::Usage;
use hone_experiment::notation::Written;
use hone_record::{GroupProtocol, ReadFrom};

use crate::values::{size, written};

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
    /// Groups of consumers. Each group reads every record. --consumers is the number of members of each.
    #[arg(long = "groups", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) groups: u32,
    /// Let the broker know the members: `classic` (members deal the partitions), `consumer` (the broker deals them, KIP-848) or `share` (the
    /// broker gives each record to one member, KIP-932).
    #[arg(long, value_name = "PROTOCOL", default_value = "assigned", value_parser = protocol)]
    pub(crate) group_protocol: GroupProtocol,
    /// Let one member of each group leave at this interval, and join again a second later. It needs --group-protocol.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = read_seconds)]
    pub(crate) rebalance_every: f64,
    /// Processors between producers and consumers. Each reads a share of the partitions, writes it to topics that Hone creates, and commits
    /// both in transactions. The consumers then read what is committed, and the end-to-end latency includes it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) processors: u32,
    /// How long a transaction of --processors takes records.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = read_seconds)]
    pub(crate) transaction_duration: f64,
    /// Abort every N-th transaction of each processor, and do it again. 0 aborts none.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) abort_every: u32,
    /// Where the consumers begin: `end`, `earliest`, or an age such as `10m`. With --rate 0 the window only reads.
    #[arg(long, default_value = "end", value_parser = written::<ReadFrom>, value_name = "POSITION")]
    pub(crate) read_from: Written<ReadFrom>,
    /// Bytes of records that the producers store before the window. The consumers then begin with them and catch up.
    #[arg(long, default_value = "0", value_parser = hone_format::read_bytes, value_name = "SIZE")]
    pub(crate) backlog: u64,
    /// Bytes that the broker collects before it answers a Fetch of a consumer (`fetch.min.bytes`).
    #[arg(long, default_value = "1", value_parser = size::<u32>(1, (1 << 31) - 1), value_name = "SIZE")]
    pub(crate) fetch_min_bytes: u32,
    /// Longest time that the broker collects them (`fetch.max.wait.ms`). A number without a unit means seconds.
    #[arg(long, default_value = "500ms", value_parser = read_seconds, value_name = "TIME")]
    pub(crate) fetch_max_wait: f64,
    /// Most bytes of an answer (`fetch.max.bytes`).
    #[arg(long, default_value = "50MiB", value_parser = size::<u32>(1, (1 << 31) - 1), value_name = "SIZE")]
    pub(crate) fetch_max_bytes: u32,
    /// Most bytes of an answer for each partition (`max.partition.fetch.bytes`).
    #[arg(long, default_value = "1MiB", value_parser = size::<u32>(1, (1 << 31) - 1), value_name = "SIZE")]
    pub(crate) max_partition_fetch_bytes: u32,
}

/// A protocol by its name in records.
fn protocol(text: &str) -> Result<GroupProtocol, String> {
    match text {
        "assigned" => Ok(GroupProtocol::Assigned),
        "classic" => Ok(GroupProtocol::Classic),
        "consumer" => Ok(GroupProtocol::Consumer),
        "share" => Ok(GroupProtocol::Share),
        _ => Err("use assigned, classic, consumer or share".to_owned()),
    }
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
