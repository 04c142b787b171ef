//! One load by several generators: the arguments of each, and their coordination.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use hone_load::{Admin, Topic};
use hone_record::{Payload, Schedule, Shard, Window, Workload};

use crate::kubernetes::{SECRETS, name_in_secret};
use crate::rendezvous::Rendezvous;
use hone_experiment::progress::Progress;

/// One of several generators, and its connection to the others.
#[derive(Debug)]
pub struct Meeting {
    rendezvous: Rendezvous,
    /// The topic that was created for this load.
    own_topic: Option<String>,
}

impl Meeting {
    /// Enters the store of the shards.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(store: &str, (index, of): (u32, u32), patience: Duration) -> Result<Self> {
        Ok(Self { rendezvous: Rendezvous::open(store, index, of, patience)?, own_topic: None })
    }

    /// This shard's number, and the number of shards.
    pub fn shard(&self) -> Shard {
        self.rendezvous.shard()
    }

    /// The topic of all shards: the named one, or one that is created for them.
    pub fn topic(&mut self, named: Option<&str>, progress: &Progress) -> Result<Topic> {
        if let Some(name) = named {
            return Ok(Topic::Existing(name.to_owned()));
        }
        let name = self.rendezvous.topic(|what| progress.detail(what))?;
        self.own_topic = Some(name.clone());
        Ok(Topic::Shared(name))
    }

    /// Waits for the others; returns the time of the window, for this process and for the record.
    pub fn start(&self, progress: &Progress) -> Result<(Instant, u64)> {
        let start_unix_ms = self.rendezvous.meet(|what| progress.detail(what))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ahead = Duration::from_millis(start_unix_ms).saturating_sub(now);
        Ok((Instant::now() + ahead, start_unix_ms))
    }

    /// The topic that was created for this load, if this shard is the one that removes it.
    fn to_remove(&self) -> Option<&String> {
        self.own_topic.as_ref().filter(|_| self.shard().index == 0)
    }

    /// Reports the topic that a failed load leaves, since the others may still send to it.
    pub fn tell_left(&self, progress: &Progress) {
        if let Some(topic) = self.to_remove() {
            progress.line(&format!(
                "the load's topic {topic} stays, since other shards may still send to it; delete it when \
                 they have ended"
            ));
        }
    }

    /// Stores the record, and removes the topic when no shard needs it any more.
    pub fn keep(
        &self,
        window: &Window,
        connect: impl FnOnce() -> Result<Admin>,
        progress: &Progress,
    ) -> Result<()> {
        self.rendezvous.keep(window).inspect_err(|_| self.tell_left(progress))?;
        let Some(topic) = self.to_remove() else { return Ok(()) };
        let removed = self
            .rendezvous
            .wait_for_records(|what| progress.detail(what))
            .and_then(|()| Ok(connect()?.delete_topic(topic)?));
        if let Err(error) = removed {
            progress.line(&format!("can't delete the load's topic {topic}: {error:#}"));
        }
        Ok(())
    }
}

/// Settings of a load that depend on this machine, with the next step.
pub fn only_here(pid: Option<u32>, workload: &Workload) -> Option<&'static str> {
    if pid.is_some() {
        return Some(
            "--pid is a process of this machine, which the pods do not have\n  next: remove it, or measure \
             the target's CPU on its own machine",
        );
    }
    match (&workload.schedule, &workload.payload) {
        (Schedule::Replay { source, .. }, _) if !source.starts_with("topic ") => Some(
            "the pods do not have the file of --schedule replay:FILE\n  next: replay a topic \
             (replay:topic:NAME), or print the manifest without it, and add the option and a volume with the \
             file",
        ),
        (_, Payload::File { .. }) => Some(
            "the pods do not have the file of --payload file:PATH\n  next: use another payload, or print the \
             manifest without it, and add the option and a volume with the file",
        ),
        _ => None,
    }
}

/// The pods' part of this command.
#[derive(Debug, PartialEq, Eq)]
pub struct Handed {
    /// The arguments of the load.
    pub load: Vec<String>,
    /// The rules, which only the merge can judge.
    pub rules: Vec<String>,
}

/// Separates them in the arguments of this command. `files` are options that name a file, which the pods get from a secret.
pub fn handed_on(arguments: impl Iterator<Item = String>, files: &[&str]) -> Handed {
    const WITH_VALUE: [&str; 12] = [
        "--emit",
        "--shards",
        "--image",
        "--manifest-name",
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
            // A short option may be followed by its value without a space.
            None if argument.starts_with("-o") => {
                ("-o", argument.strip_prefix("-o").filter(|file| !file.is_empty()).map(str::to_owned))
            }
            None => (argument.as_str(), None),
        };
        if name == "--require" {
            handed.rules.extend(value.or_else(|| arguments.next()));
        } else if files.contains(&name) {
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
    fn the_shards_get_the_load_and_not_the_manifest() {
        let call = "--quiet load k:9092 --rate 5 --emit kubernetes --store=s3://b/p --shards 2 --acks=1 --image i -o f -of --json \
                    --require p99<3ms --require=lag<=2 --raw r.csv --raw=r --tls-ca ca.pem --sasl-password-file=secret --tls";
        let handed = handed_on(call.split(' ').map(str::to_owned), &["--tls-ca", "--sasl-password-file"]);
        let files = ["--tls-ca", "/security/tls-ca", "--sasl-password-file", "/security/sasl-password-file"];
        let load = [&["k:9092", "--rate", "5", "--acks=1", "--json"][..], &files, &["--tls"]].concat();
        assert_eq!(handed.load, load);
        assert_eq!(handed.rules, ["p99<3ms", "lag<=2"]);
    }
}
