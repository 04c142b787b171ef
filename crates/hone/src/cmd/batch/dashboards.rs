//! `hone batch dashboards`: recording rules, alerts and a dashboard, as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};

use crate::cmd::context::{CliContext, paths};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::output::Output;

/// Write recording rules, alerts and a Grafana dashboard for batches.
///
/// The dashboard (which topic, is it hurting, did the change work) and the alerts rest on recording rules, and those are by source: load the
/// file of yours into Prometheus. All of them are rendered from mixin/ of Hone's sources, for those who render their own.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch dashboards --out monitoring                        the rules of every source
  hone batch dashboards --out monitoring --source kafka-jmx     those of Apache Kafka only
  hone batch dashboards --out monitoring --runbook-url https://wiki.example.org/hone/watch")]
pub(crate) struct Arguments {
    /// The folder; it is made when it is not there.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Recording rules of this source only.
    #[arg(long, value_enum)]
    source: Vec<Rules>,
    /// Where the runbooks of the alerts lie for you: the address of docs/batch/watch.md, before the `#` of a section.
    #[arg(long, value_name = "URL")]
    runbook_url: Option<String>,
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

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let is_wanted = |source: Option<Rules>| {
        source.is_none_or(|source| arguments.source.is_empty() || arguments.source.contains(&source))
    };
    let runbooks = arguments.runbook_url.as_deref().map(runbooks).transpose()?;
    let files: Vec<(PathBuf, String)> = FILES
        .iter()
        .filter(|(_, source, _)| is_wanted(*source))
        .map(|(path, _, text)| {
            let text = runbooks.as_ref().map_or((*text).to_owned(), |url| text.replace(RUNBOOKS, url));
            (arguments.out.join(path), text)
        })
        .collect();
    // All or none: half a set of files would be worse than the old ones.
    if !arguments.force {
        refuse_others(&files)?;
    }
    let mut written = Vec::new();
    for (path, text) in files {
        write(&path, &text)?;
        written.push(path);
    }
    cli.show_found("files", &written, |written| paths(written))
}

/// What stands for the runbooks' address in the rendered files; it leads nowhere.
const RUNBOOKS: &str = "https://hone.example/docs/batch/watch.md#";

/// The address with its `#`, as it stands in a quoted text.
fn runbooks(url: &str) -> Result<String> {
    let is_plain = !url.contains(['"', '\\']) && !url.contains(char::is_whitespace);
    if !(url.starts_with("http://") || url.starts_with("https://")) || !is_plain {
        return Err(Usage(format!("--runbook-url `{url}` is no address like https://HOST/PAGE")).into());
    }
    Ok(format!("{}#", url.trim_end_matches('#')))
}

fn refuse_others(files: &[(PathBuf, String)]) -> Result<()> {
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
    Output::claim(path)?.keep(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runbooks_are_where_one_says() {
        let alerts = rendered!("alerts/hone-batches.yaml");
        assert!(alerts.contains(RUNBOOKS));
        for (url, expected) in [
            ("https://w/x", Some("https://w/x#")),
            ("http://w/x#", Some("http://w/x#")),
            ("w/x", None),
            ("https://w/\"", None),
        ] {
            assert_eq!(runbooks(url).ok().as_deref(), expected, "{url}");
        }
    }
}
