//! `hone merge`: merges the shards of one load into one record.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use hone_cli::values::seconds;
use hone_record::{MOST_SHARDS, Window};

use super::load;
use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::read_record;
use hone_experiment::require::Rule;
use hone_rollout::rendezvous;

/// A manifest of `hone load --emit` waits for twice its own wait plus the load, in whole seconds of 32 bits. The limit here is the same.
const LONGEST_WAIT_S: u32 = u32::MAX;

/// Merge the shards of one load into one record.
///
/// Hone adds the histograms, so the percentiles are those of all requests. The shards are record files, or lie in the store of `hone load
/// --shard I/N --store STORE`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone merge shard-0.json shard-1.json shard-2.json --json > whole.json
  hone merge --store s3://bucket/runs/42 --shards 8 --wait 600")]
pub(crate) struct Arguments {
    /// Record files of all shards.
    #[arg(value_name = "RECORD", required_unless_present = "store", conflicts_with = "store")]
    records: Vec<PathBuf>,
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`. Hone reads the shards there and writes the merged
    /// record there as merged.json.
    #[arg(long, value_name = "STORE", requires = "shards")]
    store: Option<String>,
    /// Number of shards.
    #[arg(long, value_name = "N", requires = "store", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    shards: Option<u32>,
    /// How long to wait for the other shards. A number without a unit means seconds.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = seconds(0.0, 604_800.0), requires = "store")]
    wait: f64,
    /// Requirement that the result must meet; repeat it for several. The rules are those of `hone load`. They judge the merged load.
    #[arg(long, value_name = "RULE")]
    require: Vec<Rule>,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let mut merged = hone_record::merge(&shards(&arguments, cli)?)?;
    merged.requirements = arguments.require.iter().map(|rule| rule.judge(&merged)).collect();
    let kept = arguments.store.as_ref().map_or(Ok(()), |place| rendezvous::keep_merged(place, &merged));
    let ending = load::ending(&merged);
    // Hone shows the result even if the record could not be written, because the measurement exists.
    cli.show_document(merged, hone_report::documents::window, "")?;
    kept.map(|()| ending)
}

fn shards(arguments: &Arguments, cli: &CliContext) -> Result<Vec<Window>> {
    let Some((place, of)) = arguments.store.as_ref().zip(arguments.shards) else {
        return arguments.records.iter().map(|path: &PathBuf| read_record(Path::new(path))).collect();
    };
    let patience = patience(arguments.wait)?;
    cli.progress.doing("merge");
    rendezvous::collect(place, of, patience, |what| cli.progress.detail(what))
}

fn patience(wait_s: f64) -> Result<Duration> {
    if !(0.0..=f64::from(LONGEST_WAIT_S)).contains(&wait_s) {
        bail!(Usage(format!("--wait must be between 0 and {LONGEST_WAIT_S} seconds")));
    }
    Ok(Duration::from_secs_f64(wait_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_waits_as_long_as_any_manifest_says() {
        assert_eq!(patience(f64::from(u32::MAX)).unwrap(), Duration::from_secs(u32::MAX.into()));
        assert_eq!(patience(0.5).unwrap(), Duration::from_millis(500));
        for wait_s in [-1.0, 5e9, f64::NAN, f64::INFINITY] {
            assert!(patience(wait_s).unwrap_err().is::<Usage>(), "{wait_s}");
        }
    }
}
