//! `hone batch cost`: the CPU that requests, batches, records and bytes cost a cluster, fitted to its own history.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hone_batch::cost::{self, Change};
use hone_batch::metrics::quantity::By;
use hone_format::read_duration_s;
use hone_record::{BatchCost, WatchedTopic};

use super::metrics::Prometheus;
use crate::cmd::context::CliContext;
use hone_document::batch_cost as shown;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::metered::{Meter, Seen, kept, points};

/// A fixed seed, so that the same history gives the same answer.
const SEED: u64 = 1;

/// Fit the CPU cost of requests, batches, records and bytes.
///
/// The model is: CPU/s = base + a requests + b batches + c records + d bytes. Hone fits it to the cluster's own history and ranks topics by
/// their cost. --if predicts the CPU of another mix of work.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch cost --prometheus http://127.0.0.1:9090 --history-length 6h
  hone batch cost --prometheus http://127.0.0.1:9090 --history-length 48h \\
    --history-step 5m --if batches=0.2,requests=0.2
  hone batch watch --metrics a:9644 --every 30s --duration 6h \\
    -o history.jsonl && hone batch cost history.jsonl")]
pub(crate) struct Arguments {
    /// History files that `hone batch watch --output` wrote.
    #[arg(value_name = "FILE", required_unless_present = "prometheus", conflicts_with = "prometheus")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    from: Prometheus,
    /// Length of the history to query. Only with --prometheus.
    #[arg(
        long = "history-length",
        alias = "last",
        value_name = "TIME",
        default_value = "6h",
        value_parser = read_duration_s
    )]
    last: f64,
    /// Resolution of the history to query. Only with --prometheus.
    #[arg(
        long = "history-step",
        alias = "step",
        value_name = "TIME",
        default_value = "1m",
        value_parser = read_duration_s
    )]
    step: f64,
    /// Another mix of work to predict, as factors, for example `batches=0.2,requests=0.2`. The kinds of work are requests, batches, records
    /// and bytes. Bytes follow records and batch headers unless you name them.
    #[arg(long = "if", value_name = "MIX", value_parser = change)]
    mix: Option<(Change, String)>,
}

fn change(text: &str) -> Result<(Change, String), String> {
    let mut change = Change::default();
    for part in text.split(',') {
        let (kind, factor) = part
            .split_once('=')
            .ok_or_else(|| format!("invalid change `{part}`: use KIND=FACTOR, for example `batches=0.2`"))?;
        let factor: f64 = factor
            .trim()
            .parse()
            .map_err(|_| format!("invalid factor `{factor}`: use a number, for example `0.2`"))?;
        if !(0.0..=1e3).contains(&factor) {
            return Err(format!("invalid factor {factor}: use a number from 0 to 1,000"));
        }
        match kind.trim() {
            "requests" => change.requests = factor,
            "batches" => change.batches = factor,
            "records" => change.records = factor,
            "bytes" => change.bytes = Some(factor),
            other => {
                return Err(format!(
                    "unknown kind of work `{other}`: use requests, batches, records or bytes"
                ));
            }
        }
    }
    Ok((change, text.to_owned()))
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let (source, points, topics) = match arguments.from.server()? {
        Some(server) => {
            if arguments.step <= 0.0 || arguments.last < arguments.step {
                return Err(Usage(
                    "--history-length is too short: it must span several times --history-step\n  \
                     next: use a longer --history-length, for example 6h"
                        .to_owned(),
                )
                .into());
            }
            let (source, points) = server.history(arguments.last, arguments.step)?;
            let topics = match Meter::Server(server).look(By::Topic)? {
                Seen::Figures(watch) => watch.topics,
                Seen::First => Vec::new(),
            };
            (source.name().to_owned(), points, topics)
        }
        None => of_files(arguments)?,
    };
    let record = fitted(&source, &points, &topics, arguments.mix.as_ref())?;
    cli.show(record, shown::text)
}

fn of_files(arguments: &Arguments) -> Result<(String, Vec<cost::Point>, Vec<WatchedTopic>)> {
    let looks = kept(&arguments.files)?;
    let source = looks.last().map(|look| look.source.clone()).unwrap_or_default();
    let topics = looks.last().map(|look| look.topics.clone()).unwrap_or_default();
    Ok((source, points(&looks), topics))
}

fn fitted(
    source: &str,
    points: &[cost::Point],
    topics: &[WatchedTopic],
    mix: Option<&(Change, String)>,
) -> Result<BatchCost> {
    let model = cost::fit(points, SEED)?;
    let forecast = mix.map(|(change, asked)| model.forecast(*change, asked));
    Ok(BatchCost { topics: model.topics(topics), forecast, ..model.record(source) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mix_is_written_in_factors() {
        let (found, _) = change("batches=0.2, requests=0.5").unwrap();
        assert_eq!(found, Change { batches: 0.2, requests: 0.5, ..Change::default() });
        assert_eq!(change("bytes=0.9").unwrap().0.bytes, Some(0.9));
        for (text, expected) in [
            ("batches", "invalid change `batches`"),
            ("batches=x", "invalid factor `x`"),
            ("batches=-1", "use a number from 0 to 1,000"),
            ("batch=1", "unknown kind of work `batch`: use requests, batches"),
        ] {
            let error = change(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
