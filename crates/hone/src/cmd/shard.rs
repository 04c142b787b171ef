//! Options of a load that several generators send together, and of the manifest that starts them in Kubernetes.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_cli::values::whole_seconds;
use hone_record::MOST_SHARDS;

use hone_cli::connection::{FILE_OPTIONS, SecurityOptions};
use hone_experiment::ending::Usage;
use hone_rollout::kubernetes::{self, Manifest};
use hone_rollout::shards::{Handed, Meeting, handed_on};

/// The system that a manifest is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// An Indexed Job for the shards, and a Job that merges their records.
    Kubernetes,
}

/// Options of a load from several machines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several generators")]
pub(crate) struct ShardOptions {
    /// Shard of the load that this generator sends: I (from 0) of N. --rate is the rate of all shards together. --connections is the number of
    /// each shard.
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "store")]
    shard: Option<Part>,
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`. Use a new path for each run. Hone reads the
    /// credentials from the environment variables of the vendor.
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// How long to wait for the other shards. A number without a unit means seconds.
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = whole_seconds::<u32>(0.0, 604_800.0))]
    wait: u32,
    /// Print files for another tool and stop. Hone prints a manifest of the load and sends nothing.
    #[arg(long, value_name = "FORMAT", value_enum, requires_all = ["shards", "store", "image"], conflicts_with = "shard")]
    emit: Option<Target>,
    /// Number of shards.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    shards: Option<u32>,
    /// Container image with hone as its entry point.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// Name of the object in the manifest.
    #[arg(
        long = "manifest-name",
        alias = "job-name",
        value_name = "NAME",
        default_value = "hone-load",
        value_parser = job_name
    )]
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
            "`{text}` does not name a shard: I starts at 0 and must be below N, and N is at most {MOST_SHARDS}; \
             got {index} of {of}"
        )),
        _ => Err(format!("`{text}` does not name a shard: use I/N, for example 0/4")),
    }
}

fn job_name(text: &str) -> Result<String, String> {
    kubernetes::check_name(text).map(|()| text.to_owned())
}

impl ShardOptions {
    /// Refuses options that several generators cannot have. `only_here` names a need of the load that pods cannot meet.
    pub(crate) fn check(&self, from_file: bool, has_rules: bool, only_here: Option<&str>) -> Result<()> {
        if self.emit.is_some() && from_file {
            bail!(Usage(
                "--emit passes the command line to the pods, which have no --file\n  \
                 next: write its settings as options"
                    .to_owned()
            ));
        }
        if let Some(only_here) = only_here.filter(|_| self.emit.is_some()) {
            bail!(Usage(format!("--emit passes the command line to the pods: {only_here}")));
        }
        if self.shard.is_some() && has_rules {
            bail!(Usage(
                "--require cannot judge a shard, which is only a part of the load\n  \
                 next: give --require to `hone merge`"
                    .to_owned()
            ));
        }
        Ok(())
    }

    /// Whether a manifest is asked for instead of a load.
    pub(crate) fn is_manifest(&self) -> bool {
        self.emit.is_some()
    }

    /// The manifest for a load of `duration_s`, with --emit.
    pub(crate) fn manifest(&self, duration_s: f64, security: &SecurityOptions) -> Result<Option<String>> {
        let (Some(_), Some(shards), Some(store), Some(image)) =
            (self.emit, self.shards, self.store.clone(), self.image.clone())
        else {
            return Ok(None);
        };
        if !store.contains("://") || store.starts_with("file:") {
            bail!(Usage(format!(
                "--store {store} is a folder, and pods share no folder\n  \
                 next: use a store such as s3://BUCKET/PATH"
            )));
        }
        // Hone does not open the store here, so it checks the address before other people get the manifest.
        hone_store::check_address(&store)?;
        let own = own_arguments()?;
        let Handed { load: arguments, rules } = handed_on(own.iter().cloned(), &FILE_OPTIONS);
        let (name, wait_s, load_s) = (self.job_name.clone(), self.wait, duration_s.ceil() as u32);
        if let Some(option) = security.only_here(&own)? {
            bail!(Usage(format!(
                "--emit passes only the command line to the pods, so they do not get {option} of this machine\n  \
                 next: write brokers, TLS and login as options"
            )));
        }
        let secrets = security.secrets()?;
        Ok(Some(Manifest { name, image, shards, store, wait_s, load_s, arguments, rules, secrets }.text()))
    }

    /// Joins the meeting of the shards, if this load is one of them.
    pub(crate) fn meeting(&self) -> Result<Option<Meeting>> {
        let Some((part, store)) = self.shard.zip(self.store.as_ref()) else {
            if self.store.is_some() {
                bail!(Usage(
                    "--store needs --shard: the shards of a load meet there\n  next: add --shard I/N"
                        .to_owned()
                ));
            }
            return Ok(None);
        };
        let patience = Duration::from_secs(self.wait.into());
        Meeting::open(store, (part.index, part.of), patience).map(Some)
    }
}

/// The arguments of this process. A manifest can hold only text.
fn own_arguments() -> Result<Vec<String>> {
    let text = |argument: OsString| {
        argument.into_string().map_err(|argument| {
            Usage(format!(
                "the argument {} is not valid UTF-8, so no manifest can hold it",
                argument.display()
            ))
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
