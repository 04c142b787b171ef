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
/// Dashboard and alerts use recording rules, and each source has its own. Load the rules of your source into Prometheus.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch dashboards -o monitoring    # rules of all sources
  hone batch dashboards -o monitoring --source kafka-jmx  # Apache Kafka only
  hone batch dashboards -o monitoring \\
    --runbook-url https://wiki.example.org/hone/watch")]
pub(crate) struct Arguments {
    /// Where to write the result. Hone creates this folder if it does not exist.
    #[arg(short, long = "output", alias = "out", value_name = "PATH")]
    out: PathBuf,
    /// Exporter that provides the metrics. Hone writes the recording rules of this source only; repeat it for several. [default: all sources]
    #[arg(long, value_enum, value_name = "SOURCE")]
    source: Vec<Rules>,
    /// Address of the page with the runbooks of the alerts. It is your copy of docs/batch/watch.md. Leave out the `#` of a section.
    #[arg(long, value_name = "URL")]
    runbook_url: Option<String>,
    /// Overwrite what someone else has changed. Without it, Hone writes nothing if a file exists with other content.
    #[arg(long)]
    force: bool,
}

/// The exporter that the recording rules are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rules {
    /// Redpanda 25.1 and newer, both endpoints; also the embedded broker.
    #[value(name = "redpanda-25.1", aliases = ["redpanda", "hone-broker"])]
    Redpanda25,
    /// Redpanda before 25.1.
    RedpandaOlder,
    /// Redpanda's public endpoint alone.
    RedpandaPublic,
    /// Apache Kafka with the example rules of the JMX exporter.
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
    // Hone writes all files or none, because a mixed set of old and new files would contradict itself.
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

/// A placeholder for the runbooks' address in the rendered files. It is no real address.
const RUNBOOKS: &str = "https://hone.example/docs/batch/watch.md#";

/// The address with its `#`, as the rendered files quote it.
fn runbooks(url: &str) -> Result<String> {
    let is_plain = !url.contains(['"', '\\']) && !url.contains(char::is_whitespace);
    if !(url.starts_with("http://") || url.starts_with("https://")) || !is_plain {
        return Err(
            Usage(format!("invalid --runbook-url `{url}`: use an address like https://HOST/PAGE")).into()
        );
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
        "these files exist with other content, so Hone wrote nothing: {}\n  \
         next: choose another --output, or overwrite them with --force",
        others.join(", ")
    );
    Err(Usage(told).into())
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot create the folder {}", folder.display()))?;
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
