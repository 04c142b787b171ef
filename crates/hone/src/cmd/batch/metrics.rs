//! The source of the metrics: arguments that `watch`, `cost` and `plan` share.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hone_batch::metrics::source::Source;
use hone_format::read_duration_s;

use hone_experiment::ending::Usage;
use hone_experiment::metered::{Server, token_of};

/// The longest window in seconds. Rates over a longer time do not describe the present.
const MOST_WINDOW_S: f64 = 86_400.0;

/// The exporter whose metrics a Prometheus server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// Redpanda's internal endpoint, 25.1 and newer.
    #[value(name = "redpanda-25.1", alias = "redpanda")]
    Redpanda25,
    /// Redpanda's internal endpoint before 25.1.
    RedpandaOlder,
    /// Redpanda's public endpoint alone.
    RedpandaPublic,
    /// Apache Kafka through a JMX exporter.
    KafkaJmx,
    /// The embedded broker.
    HoneBroker,
}

impl From<Kind> for Source {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Redpanda25 => Self::Redpanda25,
            Kind::RedpandaOlder => Self::RedpandaOlder,
            Kind::RedpandaPublic => Self::RedpandaPublic,
            Kind::KafkaJmx => Self::KafkaJmx,
            Kind::HoneBroker => Self::HoneBroker,
        }
    }
}

/// A Prometheus server and how Hone queries it.
#[derive(Debug, Args)]
pub(super) struct Prometheus {
    /// Address of a Prometheus server that scrapes the brokers. Servers with the same HTTP API work, too.
    #[arg(long, value_name = "URL")]
    pub(super) prometheus: Option<String>,
    /// Labels of the series to use, for example `job="redpanda"`. Only with --prometheus.
    #[arg(long, value_name = "LABELS", default_value = "")]
    select: String,
    /// Exporter that provides the metrics. Only with --prometheus. [default: recognised by the metric names]
    #[arg(long, value_enum, value_name = "SOURCE")]
    source: Option<Kind>,
    /// Time over which rates are computed. Use at least four scrape intervals. Only with --prometheus.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = read_duration_s)]
    window: f64,
    /// File with the bearer token for the metrics. Hone sends it to the metrics pages or the Prometheus server only.
    #[arg(long = "metrics-token-file", alias = "token-file", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Prometheus {
    pub(super) fn token(&self) -> Result<Option<String>> {
        self.token_file.as_deref().map(token_of).transpose()
    }

    /// The server, if the command line names one.
    pub(super) fn server(&self) -> Result<Option<Server>> {
        let Some(base) = &self.prometheus else { return Ok(None) };
        let token = self.token()?;
        let wanted = self.source.map(Source::from);
        if !(1e-3..=MOST_WINDOW_S).contains(&self.window) {
            return Err(Usage("--window is out of range: use 1ms to 24h".to_owned()).into());
        }
        Server::at(base, token.as_deref(), self.window, &self.select, wanted).map(Some)
    }
}
