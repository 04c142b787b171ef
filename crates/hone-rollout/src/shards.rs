//! One load by several generators: what each of them is told, and how it meets the others.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use hone_load::{Admin, Topic};
use hone_record::{Payload, Schedule, Shard, Window, Workload};

use crate::kubernetes::{SECRETS, name_in_secret};
use crate::rendezvous::Rendezvous;
use hone_experiment::progress::Progress;

/// One generator among several, and how it meets them.
#[derive(Debug)]
pub struct Meeting {
    rendezvous: Rendezvous,
    /// The topic that was made for this load.
    own_topic: Option<String>,
}

impl Meeting {
    /// Comes to the place where the others are.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(store: &str, (index, of): (u32, u32), patience: Duration) -> Result<Self> {
        Ok(Self { rendezvous: Rendezvous::open(store, index, of, patience)?, own_topic: None })
    }

    /// Which one of how many this is.
    pub fn shard(&self) -> Shard {
        self.rendezvous.shard()
    }

    /// The topic of all shards: the one that is named, or one that is made for them.
    pub fn topic(&mut self, named: Option<&str>, progress: &Progress) -> Result<Topic> {
        if let Some(name) = named {
            return Ok(Topic::Existing(name.to_owned()));
        }
        let name = self.rendezvous.topic(|what| progress.detail(what))?;
        self.own_topic = Some(name.clone());
        Ok(Topic::Shared(name))
    }

    /// Waits for the others; answers when the window opens, for this process and for the record.
    pub fn start(&self, progress: &Progress) -> Result<(Instant, u64)> {
        let start_unix_ms = self.rendezvous.meet(|what| progress.detail(what))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ahead = Duration::from_millis(start_unix_ms).saturating_sub(now);
        Ok((Instant::now() + ahead, start_unix_ms))
    }

    /// The topic that was made for this load, where this shard is the one that removes it.
    fn to_remove(&self) -> Option<&String> {
        self.own_topic.as_ref().filter(|_| self.shard().index == 0)
    }

    /// What a load that broke off leaves: the others may still send to it.
    pub fn tell_left(&self, progress: &Progress) {
        if let Some(topic) = self.to_remove() {
            progress.line(&format!(
                "the load's topic {topic} stays where it was made, since other shards may send to it: remove it when they have ended"
            ));
        }
    }

    /// Keeps the record, and removes the topic when nobody needs it any more.
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
            progress.line(&format!("the load's topic {topic} was left where it is: {error:#}"));
        }
        Ok(())
    }
}

/// What a load needs that is on this machine alone, with the way out.
pub fn only_here(pid: Option<u32>, workload: &Workload) -> Option<&'static str> {
    if pid.is_some() {
        return Some(
            "--pid is a process of this machine, and none of theirs\n  next: leave it out, or measure the target's CPU on its own machine",
        );
    }
    match (&workload.schedule, &workload.payload) {
        (Schedule::Replay { source, .. }, _) if !source.starts_with("topic ") => Some(
            "they have no file of --schedule replay:FILE\n  next: replay a topic (replay:topic:NAME), or print the manifest without it, and give \
             its load the option and a volume with the file",
        ),
        (_, Payload::File { .. }) => Some(
            "they have no file of --payload file:PATH\n  next: take another payload, or print the manifest without it, and give its load the \
             option and a volume with the file",
        ),
        _ => None,
    }
}

/// What the pods need of this call.
#[derive(Debug, PartialEq, Eq)]
pub struct Handed {
    /// The arguments of the load.
    pub load: Vec<String>,
    /// The rules, which only the merge can judge.
    pub rules: Vec<String>,
}

/// Tells them apart in the command line of this call. `files` are options that name a file, which the pods have out of a secret.
pub fn handed_on(arguments: impl Iterator<Item = String>, files: &[&str]) -> Handed {
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
