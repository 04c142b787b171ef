//! The folders of the logs: each partition has one from the moment that its topic is made. What is known to be deleted is
//! removed, and nothing else ever is: a log that no topic has is set aside.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context;

use super::cluster::{Doomed, FILE, StoredTopic};
use super::{LOG_FOLDER, is_topic_name};
use crate::durable;
use crate::notices::Notices;
use crate::partition::{DELETED_SUFFIX, Opening};

/// Where logs go that no topic has, inside the data folder.
const ASIDE_FOLDER: &str = "set-aside";
/// Names that a notice lists; of the others it says how many there are.
const LISTED: usize = 5;

pub(super) fn folder_name(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// Whether a folder name could have come from [`folder_name`]; anything else in there is not ours to touch.
fn is_log_folder(name: &str) -> bool {
    name.rsplit_once('-')
        .is_some_and(|(topic, partition)| is_topic_name(topic) && partition.parse::<u32>().is_ok())
}

fn names_of(topic: &str, partitions: i32) -> impl Iterator<Item = String> {
    (0..partitions).map(move |partition| folder_name(topic, partition))
}

/// The first few of many names.
fn listed(names: &[String]) -> String {
    let first = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The logs of a data folder.
#[derive(Debug)]
pub(super) struct Folders<'a> {
    pub(super) data_dir: &'a Path,
    pub(super) notices: &'a Notices,
}

impl Folders<'_> {
    fn logs(&self) -> PathBuf {
        self.data_dir.join(LOG_FOLDER)
    }

    /// Makes the names of the logs durable.
    pub(super) fn sync(&self) -> anyhow::Result<()> {
        let logs = self.logs();
        durable::sync_folder(&logs).with_context(|| format!("can't flush {}", logs.display()))
    }

    /// Removes what an interrupted delete has left, and sets aside what else belongs to no topic.
    pub(super) fn tidy(&self, topics: &[StoredTopic], doomed: &[Doomed]) -> anyhow::Result<()> {
        let wanted: HashSet<String> =
            topics.iter().flat_map(|topic| names_of(&topic.name, topic.partitions)).collect();
        let doomed: HashSet<String> =
            doomed.iter().flat_map(|topic| names_of(&topic.name, topic.partitions)).collect();
        let mut aside = Vec::new();
        let mut changed = false;
        for name in self.found()? {
            if wanted.contains(&name) {
                continue;
            }
            let path = self.logs().join(&name);
            if name.ends_with(DELETED_SUFFIX) || doomed.contains(&name) {
                fs::remove_dir_all(&path).with_context(|| format!("can't remove {}", path.display()))?;
                self.notices.say(&format!("removed {}: its topic was deleted", path.display()));
            } else if is_log_folder(&name) {
                aside.extend(self.set_aside(&name)?);
            } else {
                continue;
            }
            changed = true;
        }
        if changed {
            // Before a new topic can have the name of an old one.
            self.sync()?;
        }
        if !aside.is_empty() {
            self.tell_of_aside(&aside);
        }
        Ok(())
    }

    fn found(&self) -> anyhow::Result<Vec<String>> {
        let logs = self.logs();
        let entries = fs::read_dir(&logs).with_context(|| {
            format!(
                "can't read {}, which has the logs of the topics in {FILE} (restore it, or move the data \
                 folder away to start empty)",
                logs.display()
            )
        })?;
        let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = names.collect::<anyhow::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn tell_of_aside(&self, names: &[String]) {
        self.notices.say(&format!(
            "{} now has logs that belong to no topic of {}: {}; if a topic is missing, stop the broker, \
             restore the {FILE} that names it, and move these folders to {} without the number after their \
             names; otherwise remove them",
            self.data_dir.join(ASIDE_FOLDER).display(),
            self.data_dir.join(FILE).display(),
            listed(names),
            self.logs().display(),
        ));
    }

    /// Moves a log out of the way, durably but for its old name, and returns its new one; `None` when there was nothing in
    /// it, so that it could go.
    fn set_aside(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.logs().join(name);
        // Only a folder that is empty can be removed so: what a creation has left that was interrupted.
        if fs::remove_dir(&path).is_ok() {
            return Ok(None);
        }
        let aside = self.data_dir.join(ASIDE_FOLDER);
        let moved = || -> io::Result<String> {
            fs::create_dir_all(&aside)?;
            durable::sync_folder(self.data_dir)?;
            let free = |number: &u64| !aside.join(format!("{name}.{number}")).exists();
            let number = (1..).find(free).unwrap_or_default();
            let new_name = format!("{name}.{number}");
            fs::rename(&path, aside.join(&new_name))?;
            durable::sync_folder(&aside)?;
            Ok(new_name)
        };
        moved().map(Some).with_context(|| {
            format!(
                "{} belongs to no topic, and the broker can't move it to {} (move it away)",
                path.display(),
                aside.display()
            )
        })
    }

    /// Removes the folders of a deleted topic.
    fn remove(&self, doomed: &Doomed) -> anyhow::Result<()> {
        let logs = self.logs();
        for name in names_of(&doomed.name, doomed.partitions) {
            for left in [logs.join(&name), logs.join(format!("{name}{DELETED_SUFFIX}"))] {
                match fs::remove_dir_all(&left) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        let left = left.display();
                        return Err(anyhow::anyhow!(
                            "{left} remains of a deleted topic of this name, and the broker can't remove \
                             it: {error}; remove it, or use another name"
                        ));
                    }
                    _ => (),
                }
            }
        }
        Ok(())
    }

    /// Makes folders for new logs of a topic, durably. What is in their places must not become part of them: what is left of
    /// a topic of this name that was deleted goes, anything else is set aside.
    pub(super) fn make(&self, openings: &[Opening], left: Option<&Doomed>) -> anyhow::Result<()> {
        if let Some(left) = left {
            self.remove(left)?;
        }
        let mut aside = Vec::new();
        for Opening { topic, index, folder, .. } in openings {
            if folder.exists() {
                aside.extend(self.set_aside(&folder_name(topic, *index))?);
            }
            fs::create_dir(folder).with_context(|| format!("can't create {}", folder.display()))?;
        }
        if !aside.is_empty() {
            self.tell_of_aside(&aside);
        }
        self.sync()
    }

    /// Creates the missing folders of existing logs. Reports them if no folder may be missing.
    pub(super) fn mend(&self, openings: &[Opening], tell: bool) -> anyhow::Result<()> {
        let missing: Vec<&Opening> = openings.iter().filter(|opening| !opening.folder.exists()).collect();
        for opening in &missing {
            fs::create_dir(&opening.folder)
                .with_context(|| format!("can't create {}", opening.folder.display()))?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        // Once the folders exist, the next start reports nothing.
        self.sync()?;
        for of_topic in missing.chunk_by(|one, next| one.topic == next.topic).filter(|_| tell) {
            self.tell_of_missing(of_topic);
        }
        Ok(())
    }

    fn tell_of_missing(&self, missing: &[&Opening]) {
        let Some(first) = missing.first() else { return };
        let partitions: Vec<String> = missing.iter().map(|opening| opening.index.to_string()).collect();
        let (folders, start) = match missing.len() {
            1 => ("folder of partition", "it starts"),
            _ => ("folders of partitions", "they start"),
        };
        self.notices.say(&format!(
            "topic {} has lost the {folders} {} ({}): {start} empty, at offset 0, and the records are \
             lost; if you have a copy, stop the broker before clients write, and restore it",
            first.topic,
            listed(&partitions),
            missing
                .iter()
                .take(LISTED)
                .map(|opening| opening.folder.display().to_string())
                .collect::<Vec<_>>()
                .join(", "),
        ));
    }
}
