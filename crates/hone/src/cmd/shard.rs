//! Options of a load that several generators share, and of the manifest that starts them in Kubernetes.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_record::MOST_SHARDS;

use super::security::{FILE_OPTIONS, SecurityOptions};
use hone_experiment::ending::Usage;
use hone_rollout::kubernetes::{self, Manifest};
use hone_rollout::shards::{Handed, Meeting, handed_on};

/// Where a load's manifest goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// An Indexed Job for the shards, and a Job that merges their records.
    Kubernetes,
}

/// Past one machine.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several generators")]
pub(crate) struct ShardOptions {
    /// This is generator I (from 0) of N that send one load together; --rate counts for all of them, --connections for each.
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "store")]
    shard: Option<Part>,
    /// Where the generators meet and keep their records: a folder, s3://, gs:// or az://; a new one for each run. The
    /// vendor's environment variables say how to get in.
    #[arg(long, value_name = "PLACE")]
    store: Option<String>,
    /// Seconds to wait for the other generators.
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    wait: u32,
    /// Print a manifest in place of sending a load.
    #[arg(long, value_name = "SYSTEM", value_enum, requires_all = ["shards", "store", "image"], conflicts_with = "shard")]
    emit: Option<Target>,
    /// Generators of the manifest.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    shards: Option<u32>,
    /// Image of the manifest; its entrypoint is hone.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Name of the manifest's Job.
    #[arg(long, value_name = "NAME", default_value = "hone-load", value_parser = job_name)]
    job_name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    index: u32,
    of: u32,
}

fn shard(text: &str) -> Result<Part, String> {
    let numbers = text.split_once('/').map(|(index, of)| (index.parse::<u32>(), of.parse::<u32>()));
    match numbers {
        Some((Ok(index), Ok(of))) if index < of && of <= MOST_SHARDS => Ok(Part { index, of }),
        Some((Ok(index), Ok(of))) => Err(format!(
            "`{text}` is no shard: I counts from 0 and N to {MOST_SHARDS}, so {index} is none of {of}"
        )),
        _ => Err(format!("`{text}` is no shard; write I/N, for example 0/4")),
    }
}

fn job_name(text: &str) -> Result<String, String> {
    kubernetes::check_name(text).map(|()| text.to_owned())
}

impl ShardOptions {
    /// Finds what does not go together with several generators. `only_here` is what the load needs and pods have not.
    pub(crate) fn check(&self, from_file: bool, has_rules: bool, only_here: Option<&str>) -> Result<()> {
        if self.emit.is_some() && from_file {
            bail!(Usage(
                "--emit hands the command line to the pods, which have no --file: write it as options"
                    .to_owned()
            ));
        }
        if let Some(only_here) = only_here.filter(|_| self.emit.is_some()) {
            bail!(Usage(format!("--emit hands the command line to the pods: {only_here}")));
        }
        if self.shard.is_some() && has_rules {
            bail!(Usage(
                "a shard is only a part of the load: give --require to `hone merge`, which sees all of it"
                    .to_owned()
            ));
        }
        Ok(())
    }

    /// The manifest that was asked for, for a load of `duration_s`.
    pub(crate) fn manifest(&self, duration_s: f64, security: &SecurityOptions) -> Result<Option<String>> {
        let (Some(_), Some(shards), Some(store), Some(image)) =
            (self.emit, self.shards, self.store.clone(), self.image.clone())
        else {
            return Ok(None);
        };
        if !store.contains("://") || store.starts_with("file:") {
            bail!(Usage(format!(
                "`{store}` is a folder, which pods do not share; name a store such as s3://BUCKET/PATH"
            )));
        }
        // Nothing of it is opened here, and a manifest is passed on.
        hone_store::check_address(&store)?;
        let Handed { load: arguments, rules } = handed_on(own_arguments()?.into_iter(), &FILE_OPTIONS);
        let (name, wait_s, load_s) = (self.job_name.clone(), self.wait, duration_s.ceil() as u32);
        let secrets = security.secrets()?;
        Ok(Some(Manifest { name, image, shards, store, wait_s, load_s, arguments, rules, secrets }.text()))
    }

    /// Comes to the meeting, when this load is one of several.
    pub(crate) fn meeting(&self) -> Result<Option<Meeting>> {
        let Some((part, store)) = self.shard.zip(self.store.as_ref()) else {
            if self.store.is_some() {
                bail!(Usage(
                    "--store is where shards meet: say which one this is with --shard I/N".to_owned()
                ));
            }
            return Ok(None);
        };
        let patience = Duration::from_secs(self.wait.into());
        Meeting::open(store, (part.index, part.of), patience).map(Some)
    }
}

/// Those of this process; a manifest can hold text alone.
fn own_arguments() -> Result<Vec<String>> {
    let text = |argument: OsString| {
        argument.into_string().map_err(|argument| {
            Usage(format!("{} is no UTF-8, and a manifest can't hand it to the pods", argument.display()))
        })
    };
    Ok(std::env::args_os().skip(1).map(text).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_counted_from_zero() {
        assert_eq!(shard("2/3"), Ok(Part { index: 2, of: 3 }));
        for text in ["3/3", "0/0", "1", "a/b", "-1/2", "0/99999999999"] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}
