//! Where metrics come from: arguments that `watch` and `cost` share.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hone_batch::metrics::source::Source;
use hone_format::read_duration_s;

use hone_experiment::ending::Usage;
use hone_experiment::metered::{Server, token_of};

/// Rates over more say nothing of now.
const MOST_WINDOW_S: f64 = 86_400.0;

/// Whose metrics a Prometheus server has.
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

/// A Prometheus server and how it is asked.
#[derive(Debug, Args)]
pub(super) struct Prometheus {
    /// A Prometheus server that scrapes the brokers, or anything that answers as one.
    #[arg(long, value_name = "URL")]
    pub(super) prometheus: Option<String>,
    /// Only series with these labels, as in 'job="redpanda"'; for --prometheus.
    #[arg(long, value_name = "LABELS", default_value = "")]
    select: String,
    /// Whose metrics they are; told by their names unless it is said. For --prometheus.
    #[arg(long, value_enum)]
    source: Option<Kind>,
    /// Rates are over this time; at least four times the interval at which Prometheus scrapes. Where no two scrapes lie in it, it is made
    /// longer and said. For --prometheus.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = read_duration_s)]
    window: f64,
    /// A file with a token that is shown as `Authorization: Bearer` to --scrape or --prometheus. A name and a password may stand in the
    /// address.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Prometheus {
    pub(super) fn token(&self) -> Result<Option<String>> {
        self.token_file.as_deref().map(token_of).transpose()
    }

    /// The server, when one was named.
    pub(super) fn server(&self) -> Result<Option<Server>> {
        let Some(base) = &self.prometheus else { return Ok(None) };
        let token = self.token()?;
        let wanted = self.source.map(Source::from);
        if !(1e-3..=MOST_WINDOW_S).contains(&self.window) {
            return Err(Usage("--window must lie between 1ms and 24h".to_owned()).into());
        }
        Server::at(base, token.as_deref(), self.window, &self.select, wanted).map(Some)
    }
}
