//! Options of a load that several generators share, and of the manifest that starts them in Kubernetes.

use std::ffi::OsString;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_load::{Admin, Topic};
use hone_record::{MOST_SHARDS, Shard, Window};

use super::security::{FILE_OPTIONS, SecurityOptions, name_in_secret};
use crate::cmd::context::CliContext;
use hone_experiment::ending::Usage;
use hone_rollout::kubernetes::{self, Manifest, SECRETS};
use hone_rollout::rendezvous::Rendezvous;

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

/// One generator among several, and how it meets them.
#[derive(Debug)]
pub(crate) struct Meeting {
    rendezvous: Rendezvous,
    /// The topic that was made for this load.
    own_topic: Option<String>,
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
        let Handed { load: arguments, rules } = handed_on(own_arguments()?.into_iter());
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
        let rendezvous = Rendezvous::open(store, part.index, part.of, patience)?;
        Ok(Some(Meeting { rendezvous, own_topic: None }))
    }
}

impl Meeting {
    pub(crate) fn shard(&self) -> Shard {
        self.rendezvous.shard()
    }

    /// The topic of all shards: the one that is named, or one that is made for them.
    pub(crate) fn topic(&mut self, named: Option<&str>, cli: &CliContext) -> Result<Topic> {
        if let Some(name) = named {
            return Ok(Topic::Existing(name.to_owned()));
        }
        let name = self.rendezvous.topic(|what| cli.progress.detail(what))?;
        self.own_topic = Some(name.clone());
        Ok(Topic::Shared(name))
    }

    /// Waits for the others; answers when the window opens, for this process and for the record.
    pub(crate) fn start(&self, cli: &CliContext) -> Result<(Instant, u64)> {
        let start_unix_ms = self.rendezvous.meet(|what| cli.progress.detail(what))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ahead = Duration::from_millis(start_unix_ms).saturating_sub(now);
        Ok((Instant::now() + ahead, start_unix_ms))
    }

    /// The topic that was made for this load, where this shard is the one that removes it.
    fn to_remove(&self) -> Option<&String> {
        self.own_topic.as_ref().filter(|_| self.shard().index == 0)
    }

    /// What a load that broke off leaves: the others may still send to it.
    pub(crate) fn tell_left(&self, cli: &CliContext) {
        if let Some(topic) = self.to_remove() {
            cli.progress.line(&format!(
                "the load's topic {topic} stays where it was made, since other shards may send to it: remove it when they have ended"
            ));
        }
    }

    /// Keeps the record, and removes the topic when nobody needs it any more.
    pub(crate) fn keep(
        &self,
        window: &Window,
        connect: impl FnOnce() -> Result<Admin>,
        cli: &CliContext,
    ) -> Result<()> {
        self.rendezvous.keep(window).inspect_err(|_| self.tell_left(cli))?;
        let Some(topic) = self.to_remove() else { return Ok(()) };
        let removed = self
            .rendezvous
            .wait_for_records(|what| cli.progress.detail(what))
            .and_then(|()| Ok(connect()?.delete_topic(topic)?));
        if let Err(error) = removed {
            cli.progress.line(&format!("the load's topic {topic} was left where it is: {error:#}"));
        }
        Ok(())
    }
}

/// What the pods need of this call.
#[derive(Debug, PartialEq, Eq)]
struct Handed {
    /// The arguments of the load.
    load: Vec<String>,
    /// The rules, which only the merge can judge.
    rules: Vec<String>,
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

fn handed_on(arguments: impl Iterator<Item = String>) -> Handed {
    const WITH_VALUE: [&str; 11] = [
        "--emit",
        "--shards",
        "--image",
        "--job-name",
        "--store",
        "--wait",
        "--output",
        "-o",
        "--series",
        "--hgrm",
        "--raw",
    ];
    let mut arguments = arguments.skip_while(|argument| argument != "load").skip(1);
    let mut handed = Handed { load: Vec::new(), rules: Vec::new() };
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            // The value of a short option may be joined to it.
            None if argument.starts_with("-o") => {
                ("-o", argument.strip_prefix("-o").filter(|file| !file.is_empty()).map(str::to_owned))
            }
            None => (argument.as_str(), None),
        };
        if name == "--require" {
            handed.rules.extend(value.or_else(|| arguments.next()));
        } else if FILE_OPTIONS.contains(&name) {
            // The pods have these files out of a secret.
            handed.load.extend([name.to_owned(), format!("{SECRETS}/{}", name_in_secret(name))]);
            if value.is_none() {
                arguments.next();
            }
        } else if !WITH_VALUE.contains(&name) {
            handed.load.push(argument);
        } else if value.is_none() {
            arguments.next();
        }
    }
    handed
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

    #[test]
    fn the_shards_get_the_load_and_not_the_manifest() {
        let call = "--quiet load k:9092 --rate 5 --emit kubernetes --store=s3://b/p --shards 2 --acks=1 --image i -o f -of --json \
                    --require p99<3ms --require=lag<=2 --raw r.csv --raw=r --tls-ca ca.pem --sasl-password-file=secret --tls";
        let handed = handed_on(call.split(' ').map(str::to_owned));
        let files = ["--tls-ca", "/security/tls-ca", "--sasl-password-file", "/security/sasl-password-file"];
        let load = [&["k:9092", "--rate", "5", "--acks=1", "--json"][..], &files, &["--tls"]].concat();
        assert_eq!(handed.load, load);
        assert_eq!(handed.rules, ["p99<3ms", "lag<=2"]);
    }
}
