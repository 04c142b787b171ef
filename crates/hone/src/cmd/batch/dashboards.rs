//! `hone batch dashboards`: recording rules, alerts and a dashboard, as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use super::super::{Desk, print};
use crate::{Ending, Usage};

/// Write recording rules, alerts and a Grafana dashboard for batches.
///
/// The dashboard (which topic, is it hurting, did the change work) and the alerts rest on recording rules, and those are by source: load the
/// file of yours into Prometheus. All of them are rendered from mixin/ of Hone's sources, for those who render their own.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch dashboards --out monitoring                        the rules of every source
  hone batch dashboards --out monitoring --source kafka-jmx     those of Apache Kafka only")]
pub(crate) struct Arguments {
    /// The folder; it is made when it is not there.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Recording rules of this source only.
    #[arg(long, value_enum)]
    source: Vec<Rules>,
    /// Replace files that are there and are others.
    #[arg(long)]
    force: bool,
}

/// Whose metrics the recording rules are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rules {
    /// Redpanda 25.1 and newer, both endpoints; also the embedded broker.
    #[value(name = "redpanda-25.1", aliases = ["redpanda", "hone-broker"])]
    Redpanda25,
    /// Redpanda before 25.1.
    RedpandaOlder,
    /// Redpanda's public endpoint alone.
    RedpandaPublic,
    /// Apache Kafka by the JMX exporter's example rules.
    KafkaJmx,
}

/// A file by its place, the source that it is for, and its text.
type Rendered = (&'static str, Option<Rules>, &'static str);

macro_rules! rendered {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../mixin/rendered/", $path))
    };
}

const FILES: [Rendered; 6] = [
    ("dashboards/hone-batches.json", None, rendered!("dashboards/hone-batches.json")),
    ("alerts/hone-batches.yaml", None, rendered!("alerts/hone-batches.yaml")),
    ("rules/redpanda-25.1.yaml", Some(Rules::Redpanda25), rendered!("rules/redpanda-25.1.yaml")),
    ("rules/redpanda-older.yaml", Some(Rules::RedpandaOlder), rendered!("rules/redpanda-older.yaml")),
    ("rules/redpanda-public.yaml", Some(Rules::RedpandaPublic), rendered!("rules/redpanda-public.yaml")),
    ("rules/kafka-jmx.yaml", Some(Rules::KafkaJmx), rendered!("rules/kafka-jmx.yaml")),
];

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let is_wanted = |source: Option<Rules>| {
        source.is_none_or(|source| arguments.source.is_empty() || arguments.source.contains(&source))
    };
    let files: Vec<(PathBuf, &str)> = FILES
        .iter()
        .filter(|(_, source, _)| is_wanted(*source))
        .map(|(path, _, text)| (arguments.out.join(path), *text))
        .collect();
    // All or none: half a set of files would be worse than the old ones.
    if !arguments.force {
        refuse_others(&files)?;
    }
    desk.progress.clear();
    for (path, text) in files {
        write(&path, text)?;
        print(&format!("{}\n", path.display()))?;
    }
    Ok(Ending::Done)
}

fn refuse_others(files: &[(PathBuf, &str)]) -> Result<()> {
    let others: Vec<String> = files
        .iter()
        .filter(|(path, text)| fs::read(path).is_ok_and(|there| there != text.as_bytes()) || path.is_dir())
        .map(|(path, _)| path.display().to_string())
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let told = format!(
        "nothing was written, since these are there and are others: {}\n  next: another folder, or --force to replace them",
        others.join(", ")
    );
    Err(Usage(told).into())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    fs::write(path, text).with_context(|| format!("{} can't be written", path.display()))
}
