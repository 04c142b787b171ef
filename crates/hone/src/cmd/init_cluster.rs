//! `hone init HOST:PORT`: writes a first file for `hone tune`, whose load replicates the producers of a running cluster's topic.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use hone_format::read_duration_s;

use crate::cmd::context::CliContext;
use hone_cli::connection::BrokerOptions;
use hone_experiment::arm::is_address;
use hone_experiment::ending::Ending;
use hone_experiment::metered::{Admin, token_of};
use hone_tune::init_cluster::write_for_cluster;

/// Options for a cluster.
#[derive(Debug, Args)]
#[command(next_help_heading = "A running cluster")]
pub(crate) struct ClusterOptions {
    /// Existing topic. [default: the topic whose batches cost most] The load replicates its producers.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// How far back from now to read. [default: 10s] The windows of the load have the same length.
    #[arg(long, value_name = "TIME", value_parser = read_duration_s)]
    last: Option<f64>,
    /// URL of Redpanda's Admin API. Version 25.3 and later list the clients.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// File with the bearer token for --admin.
    #[arg(long, value_name = "FILE", requires = "admin")]
    admin_token_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) brokers: BrokerOptions,
}

/// The clap ids of these options. A source tree rejects all of them.
pub(super) fn names() -> impl Iterator<Item = String> {
    let own = ["topic", "last", "admin", "admin_token_file"].map(str::to_owned);
    own.into_iter().chain(BrokerOptions::names())
}

/// Whether a text names brokers and not a folder or program.
pub(super) fn are_brokers(text: &str) -> bool {
    text.split(',').all(|address| is_address(address.trim())) && !Path::new(text).exists()
}

pub(super) fn run(
    brokers: &str,
    asked: &ClusterOptions,
    output: Option<&Path>,
    cli: &CliContext,
) -> Result<Ending> {
    let token = asked.admin_token_file.as_deref().map(token_of).transpose()?;
    let admin = asked.admin.as_deref().map(|url| Admin::at(url, token.as_deref())).transpose()?;
    let (topic, security) = (asked.topic.as_deref(), asked.brokers.security.security()?);
    let written = write_for_cluster(brokers, topic, asked.last, admin, output, &security, &cli.progress)?;
    cli.show_found("init-cluster", &written, hone_tune::init_cluster_text::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brokers_are_told_from_folders() {
        for (text, expected) in [
            ("127.0.0.1:9092", true),
            ("a:9092,b:9092", true),
            ("a:9092, b:9093", true),
            (".", false),
            ("../service", false),
            ("a:9092,b", false),
            ("/usr/bin/server", false),
        ] {
            assert_eq!(are_brokers(text), expected, "{text}");
        }
    }
}
