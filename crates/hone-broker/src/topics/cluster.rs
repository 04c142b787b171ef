//! `cluster.json`, the file with the list of topics: one JSON object, replaced as a whole and never written in place.
//! Its first line has a checksum over the lines after it, because a start must not trust a file that has lost content.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

use super::{LOG_FOLDER, MOST_PARTITIONS, Topic, is_topic_name, random_id};
use crate::durable;
use crate::reserve::Reserve;

pub(super) const FILE: &str = "cluster.json";
/// Extension of the copy before the last change, for a start that finds the last one damaged.
const PREVIOUS_EXTENSION: &str = "previous";
/// Version 1 had no properties of the broker; 1 and 2 had no checksum, and no folders of logs that were never written.
const FORMAT_VERSION: u64 = 3;
const FIRST_CHECKED_VERSION: u64 = 3;
/// What stands before and behind the checksum in the first line.
const BEFORE_CHECKSUM: &str = "{ \"crc32c\": \"";
const BEHIND_CHECKSUM: &str = "\",";

/// A topic as it stands in the file.
pub(super) struct StoredTopic {
    pub(super) name: String,
    pub(super) id: u128,
    pub(super) partitions: i32,
    pub(super) properties: BTreeMap<String, String>,
}

impl StoredTopic {
    pub(super) fn of(topic: &Topic) -> Self {
        Self {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions.len() as i32,
            properties: topic.properties.given.clone(),
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        Some(Self {
            name: topic_name(value)?,
            id: u128::from_str_radix(value.get("id")?.as_str()?, 16).ok()?,
            partitions: partitions(value)?,
            properties: texts(value.get("properties")?)?,
        })
    }

    fn to_json(&self) -> Value {
        json!({"name": self.name, "id": format!("{:032x}", self.id), "partitions": self.partitions,
            "properties": self.properties})
    }
}

/// A topic that was deleted, and whose folders may still be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doomed {
    pub(super) name: String,
    pub(super) partitions: i32,
}

impl Doomed {
    pub(super) fn of(topic: &Topic) -> Self {
        Self { name: topic.name.clone(), partitions: topic.partitions.len() as i32 }
    }

    fn parse(value: &Value) -> Option<Self> {
        Some(Self { name: topic_name(value)?, partitions: partitions(value)? })
    }

    fn to_json(&self) -> Value {
        json!({"name": self.name, "partitions": self.partitions})
    }
}

fn topic_name(value: &Value) -> Option<String> {
    Some(value.get("name")?.as_str().filter(|name| is_topic_name(name))?.to_owned())
}

fn partitions(value: &Value) -> Option<i32> {
    let partitions = i32::try_from(value.get("partitions")?.as_i64()?).ok()?;
    Some(partitions).filter(|partitions| (1..=MOST_PARTITIONS).contains(partitions))
}

/// A JSON object whose values are all texts.
fn texts(value: &Value) -> Option<BTreeMap<String, String>> {
    let pairs = value.as_object()?.iter();
    pairs.map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned()))).collect()
}

/// Why the file was not taken.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("it has version {0}, this broker reads up to {FORMAT_VERSION}; use a newer hone-broker")]
    Newer(u64),
    #[error("{0:#}")]
    Damaged(anyhow::Error),
}

/// The contents of the file.
pub(super) struct Cluster {
    pub(super) cluster_id: String,
    pub(super) producer_ids: i64,
    /// Properties set for all brokers.
    pub(super) cluster: BTreeMap<String, String>,
    /// Properties set for this broker.
    pub(super) broker: BTreeMap<String, String>,
    pub(super) topics: Vec<StoredTopic>,
    pub(super) doomed: Vec<Doomed>,
    /// Whether there is no file of the present version yet.
    pub(super) is_to_be_written: bool,
    /// Whether every partition that it names has got a folder.
    pub(super) has_folders: bool,
}

impl Cluster {
    fn empty() -> anyhow::Result<Self> {
        Ok(Self {
            cluster_id: format!("hone-{:016x}", random_id().context("no random numbers")? as u64),
            producer_ids: 1000,
            cluster: BTreeMap::new(),
            broker: BTreeMap::new(),
            topics: Vec::new(),
            doomed: Vec::new(),
            is_to_be_written: true,
            has_folders: true,
        })
    }

    /// What a data folder says; the beginnings of one that is empty.
    pub(super) fn read(data_dir: Option<&Path>) -> anyhow::Result<Self> {
        let Some(data_dir) = data_dir else { return Self::empty() };
        let file = data_dir.join(FILE);
        let bytes = match fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return fresh(data_dir),
            Err(error) => return Err(error).with_context(|| format!("can't read {}", file.display())),
        };
        Self::parse(&bytes).map_err(|refusal| match refusal {
            Refusal::Newer(_) => anyhow::anyhow!("can't read {}: {refusal}", file.display()),
            Refusal::Damaged(_) => {
                anyhow::anyhow!("can't read {}: {refusal}; {}", file.display(), advice(data_dir))
            }
        })
    }

    fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        let damaged = Refusal::Damaged;
        let text = std::str::from_utf8(bytes).map_err(|error| damaged(error.into()))?;
        let is_checked = check(text).map_err(damaged)?;
        let value: Value = serde_json::from_str(text).map_err(|error| damaged(error.into()))?;
        let version = value.get("hone_broker").and_then(Value::as_u64).context("`hone_broker` is missing");
        let version = version.map_err(damaged)?;
        if version > FORMAT_VERSION {
            return Err(Refusal::Newer(version));
        }
        if !is_checked && version >= FIRST_CHECKED_VERSION {
            return Err(damaged(anyhow::anyhow!(
                "its first line, which has the checksum, is missing or damaged"
            )));
        }
        Self::of(&value, version).map_err(damaged)
    }

    fn of(value: &Value, version: u64) -> anyhow::Result<Self> {
        let list = |name: &str| {
            value.get(name).and_then(Value::as_array).with_context(|| format!("`{name}` is missing"))
        };
        let properties = |name: &str| match value.get(name) {
            None if version == 1 => Ok(BTreeMap::new()),
            found => found.and_then(texts).with_context(|| format!("`{name}` is missing or damaged")),
        };
        let topics: Vec<StoredTopic> = list("topics")?
            .iter()
            .map(|topic| StoredTopic::parse(topic).with_context(|| format!("a topic is damaged: {topic}")))
            .collect::<anyhow::Result<_>>()?;
        let mut names = HashSet::new();
        if let Some(twice) = topics.iter().find(|topic| !names.insert(&topic.name)) {
            bail!("topic {} is named twice", twice.name);
        }
        let doomed = if version < FIRST_CHECKED_VERSION { &Vec::new() } else { list("deleted")? };
        Ok(Self {
            cluster: properties("cluster_properties")?,
            broker: properties("broker_properties")?,
            cluster_id: value
                .get("cluster_id")
                .and_then(Value::as_str)
                .context("`cluster_id` is missing")?
                .to_owned(),
            producer_ids: value
                .get("producer_ids")
                .and_then(Value::as_i64)
                .filter(|id| *id >= 0)
                .context("`producer_ids` is missing")?,
            topics,
            doomed: doomed
                .iter()
                .map(|topic| {
                    Doomed::parse(topic).with_context(|| format!("a deleted topic is damaged: {topic}"))
                })
                .collect::<anyhow::Result<_>>()?,
            is_to_be_written: version < FORMAT_VERSION,
            has_folders: version >= FIRST_CHECKED_VERSION,
        })
    }

    /// Replaces the file, and keeps the previous content in a second file.
    pub(super) fn write(&self, data_dir: &Path) -> anyhow::Result<()> {
        self.write_by(data_dir, durable::replace_file)
    }

    /// The same even on a full disk, so that logs may go.
    pub(super) fn write_to_free(&self, data_dir: &Path, reserve: &Reserve) -> anyhow::Result<()> {
        self.write_by(data_dir, |file, contents| {
            reserve.swap_in(&file.with_extension("new"), file, contents)?;
            durable::sync_folder(data_dir)
        })
    }

    fn write_by(
        &self,
        data_dir: &Path,
        replace: impl FnOnce(&Path, &[u8]) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let file = data_dir.join(FILE);
        // Errors are ignored, because the copy only helps with repairs. A file system without hard links has no copy.
        let previous = file.with_extension(PREVIOUS_EXTENSION);
        let _ = fs::remove_file(&previous);
        let _ = fs::hard_link(&file, &previous);
        replace(&file, self.to_text().as_bytes()).with_context(|| format!("can't write {}", file.display()))
    }

    fn to_text(&self) -> String {
        let topics: Vec<_> = self.topics.iter().map(StoredTopic::to_json).collect();
        let doomed: Vec<_> = self.doomed.iter().map(Doomed::to_json).collect();
        let value = json!({"hone_broker": FORMAT_VERSION, "cluster_id": self.cluster_id,
            "producer_ids": self.producer_ids, "cluster_properties": self.cluster,
            "broker_properties": self.broker, "topics": topics, "deleted": doomed});
        let text = format!("{value:#}\n");
        let rest = text.strip_prefix("{\n").unwrap_or_default();
        format!("{BEFORE_CHECKSUM}{:08x}{BEHIND_CHECKSUM}\n{rest}", crc32c::crc32c(rest.as_bytes()))
    }
}

/// Checks the lines behind the first one against its checksum; `false` when it has none.
fn check(text: &str) -> anyhow::Result<bool> {
    let Some((first, rest)) = text.split_once('\n') else { return Ok(false) };
    let Some(wanted) = first.strip_prefix(BEFORE_CHECKSUM).and_then(|end| end.strip_suffix(BEHIND_CHECKSUM))
    else {
        return Ok(false);
    };
    let found = format!("{:08x}", crc32c::crc32c(rest.as_bytes()));
    ensure!(wanted == found, "its first line has the checksum {wanted}, but the lines after it have {found}");
    Ok(true)
}

/// What to do about a damaged file.
fn advice(data_dir: &Path) -> String {
    let previous = data_dir.join(FILE).with_extension(PREVIOUS_EXTENSION);
    let previous = match previous.exists() {
        true => format!(" or {} (its state before the last change)", previous.display()),
        false => String::new(),
    };
    format!(
        "the broker changed nothing, and the logs of the topics are in {}. Replace the file with a \
         backup{previous}: the broker then sets aside the logs that the file does not name, and removes \
         none. If you changed it on purpose, make its first line `{{` and its `hone_broker` 2, and the broker \
         writes a new checksum",
        data_dir.join(LOG_FOLDER).display()
    )
}

/// The beginnings of an empty data folder.
fn fresh(data_dir: &Path) -> anyhow::Result<Cluster> {
    let logs = data_dir.join(LOG_FOLDER);
    if fs::read_dir(&logs).is_ok_and(|mut entries| entries.next().is_some()) {
        let previous = data_dir.join(FILE).with_extension(PREVIOUS_EXTENSION);
        let or_previous = if previous.exists() { " (or use cluster.previous)" } else { "" };
        bail!(
            "{} has logs but no {FILE}\n  next: restore that file{or_previous}, or move the folder away to \
             start empty",
            data_dir.display()
        );
    }
    fs::create_dir_all(&logs).with_context(|| format!("can't create {}", logs.display()))?;
    Cluster::empty()
}
