//! Where metrics come from: arguments that `watch` and `cost` share.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use hone_batch::metrics::source::Source;

use crate::metered::Server;
use crate::notation::seconds;

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
    /// Rates are over this time; at least four times the interval at which Prometheus scrapes. For --prometheus.
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = seconds)]
    window: f64,
    /// A file with a token that is shown as `Authorization: Bearer`. A name and a password may stand in the address.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Prometheus {
    pub(super) fn token(&self) -> Result<Option<String>> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))
        };
        self.token_file.as_ref().map(read).transpose()
    }

    /// The server, when one was named.
    pub(super) fn server(&self) -> Result<Option<Server>> {
        let Some(base) = &self.prometheus else { return Ok(None) };
        let token = self.token()?;
        let wanted = self.source.map(Source::from);
        Server::at(base, token.as_deref(), self.window, &self.select, wanted).map(Some)
    }
}
