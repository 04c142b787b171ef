//! The topics, and the one file that says which there are: `cluster.json`, replaced as a whole and never written in place.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::partition::{DELETED_SUFFIX, Partition};
use crate::properties::Properties;
use crate::settings::Notices;

/// Version of `cluster.json`.
const FORMAT_VERSION: u64 = 1;
const CLUSTER_FILE: &str = "cluster.json";
const LOG_FOLDER: &str = "log";
/// Kafka's longest topic name; with the partition behind it, a file name on every file system in use.
const MOST_NAME_BYTES: usize = 249;
/// A broker on one machine; each partition is a folder and, once written, an open file.
const MOST_PARTITIONS: i32 = 10_000;
/// Producer ids are reserved on disk in blocks, so that one write serves many producers.
const PRODUCER_ID_BLOCK: i64 = 1000;

/// A topic; it does not change while it lives.
pub(crate) struct Topic {
    pub(crate) name: String,
    pub(crate) id: u128,
    pub(crate) properties: Properties,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl Topic {
    pub(crate) fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }
}

/// Why a topic was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error(
        "`{0}` is no topic name: 1 to 249 letters, digits, dots, underscores and dashes, and not `.` or `..`"
    )]
    Name(String),
    #[error("{0} partitions; wanted 1 to {MOST_PARTITIONS}")]
    Partitions(i32),
    #[error("topic `{0}` exists")]
    Exists(String),
    #[error("{0}")]
    Property(String),
    #[error("{0:#}")]
    Storage(anyhow::Error),
}

#[derive(Default)]
struct Maps {
    by_name: HashMap<String, Arc<Topic>>,
    by_id: HashMap<u128, Arc<Topic>>,
}

#[derive(Debug, Clone, Copy)]
struct ProducerIds {
    next: i64,
    reserved: i64,
}

/// All topics.
pub(crate) struct Topics {
    data_dir: PathBuf,
    notices: Notices,
    /// Names this data folder to clients.
    pub(crate) cluster_id: String,
    maps: RwLock<Maps>,
    /// Held while `cluster.json` and the maps change together.
    producer_ids: Mutex<ProducerIds>,
}

impl Topics {
    /// Opens the topics of a data folder, which is empty or was written by a broker before.
    pub(crate) fn open(data_dir: &Path, notices: Notices) -> anyhow::Result<Self> {
        let file = data_dir.join(CLUSTER_FILE);
        let known = match fs::read_to_string(&file) {
            Ok(text) => Cluster::parse(&text).with_context(|| format!("can't read {}", file.display()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => fresh(data_dir)?,
            Err(error) => return Err(error).with_context(|| format!("can't read {}", file.display())),
        };
        let topics = Self {
            data_dir: data_dir.to_owned(),
            notices,
            cluster_id: known.cluster_id,
            maps: RwLock::default(),
            producer_ids: Mutex::new(ProducerIds { next: known.producer_ids, reserved: known.producer_ids }),
        };
        topics.remove_orphans(&known.topics)?;
        for stored in known.topics {
            let topic = topics.build(stored).map_err(anyhow::Error::msg)?;
            topics.insert(topic);
        }
        let ids = topics.lock();
        topics.save(ids.reserved, None)?;
        drop(ids);
        Ok(topics)
    }

    fn lock(&self) -> MutexGuard<'_, ProducerIds> {
        self.producer_ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topic of a name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner).by_name.get(name).cloned()
    }

    /// The topic of an id.
    pub(crate) fn by_id(&self, id: u128) -> Option<Arc<Topic>> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).cloned()
    }

    /// Every topic, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Topic>> {
        let maps = self.maps.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = maps.by_name.values().cloned().collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Checks what [`Topics::create`] would refuse, and makes nothing.
    pub(crate) fn check(
        &self,
        name: &str,
        partitions: i32,
        properties: &BTreeMap<String, String>,
    ) -> Result<(), CreateError> {
        if !is_topic_name(name) {
            return Err(CreateError::Name(name.to_owned()));
        }
        if !(1..=MOST_PARTITIONS).contains(&partitions) {
            return Err(CreateError::Partitions(partitions));
        }
        Properties::parse(properties.clone()).map_err(CreateError::Property)?;
        match self.by_name(name) {
            Some(_) => Err(CreateError::Exists(name.to_owned())),
            None => Ok(()),
        }
    }

    /// Makes a topic; it is on disk before anyone can see it.
    pub(crate) fn create(
        &self,
        name: &str,
        partitions: i32,
        properties: BTreeMap<String, String>,
    ) -> Result<Arc<Topic>, CreateError> {
        let ids = self.lock();
        self.check(name, partitions, &properties)?;
        let id = random_id().map_err(|error| CreateError::Storage(error.into()))?;
        let stored = StoredTopic { name: name.to_owned(), id, partitions, properties };
        let topic = self.build(stored).map_err(CreateError::Property)?;
        self.save(ids.reserved, Some(&topic)).map_err(CreateError::Storage)?;
        Ok(self.insert(topic))
    }

    /// Removes a topic with its log. `false` when there is none.
    pub(crate) fn delete(&self, topic: &Topic) -> anyhow::Result<bool> {
        let ids = self.lock();
        if !self.take_out(topic) {
            return Ok(false);
        }
        self.save(ids.reserved, None)?;
        for partition in &topic.partitions {
            partition.remove().with_context(|| format!("can't remove the log of {}", topic.name))?;
        }
        Ok(true)
    }

    /// A producer id that was never given before, not even by a process that died.
    pub(crate) fn new_producer_id(&self) -> anyhow::Result<i64> {
        let mut ids = self.lock();
        if ids.next == ids.reserved {
            let reserved = ids.reserved + PRODUCER_ID_BLOCK;
            self.save(reserved, None)?;
            ids.reserved = reserved;
        }
        ids.next += 1;
        Ok(ids.next - 1)
    }

    fn build(&self, stored: StoredTopic) -> Result<Topic, String> {
        let properties = Properties::parse(stored.properties)?;
        let partitions = (0..stored.partitions)
            .map(|index| {
                let folder = self.data_dir.join(LOG_FOLDER).join(folder_name(&stored.name, index));
                let opened = Partition::open(
                    &stored.name,
                    index,
                    folder.clone(),
                    properties.segment_bytes,
                    &self.notices,
                );
                opened
                    .map(Arc::new)
                    .map_err(|error| format!("can't open the log {}: {error}", folder.display()))
            })
            .collect::<Result<_, _>>()?;
        Ok(Topic { name: stored.name, id: stored.id, properties, partitions })
    }

    fn insert(&self, topic: Topic) -> Arc<Topic> {
        let topic = Arc::new(topic);
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        maps.by_name.insert(topic.name.clone(), Arc::clone(&topic));
        maps.by_id.insert(topic.id, Arc::clone(&topic));
        topic
    }

    fn take_out(&self, topic: &Topic) -> bool {
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        if maps.by_id.remove(&topic.id).is_none() {
            return false;
        }
        maps.by_name.remove(&topic.name);
        true
    }

    /// Writes `cluster.json`: the topics there are, and one that is about to be.
    fn save(&self, producer_ids: i64, coming: Option<&Topic>) -> anyhow::Result<()> {
        let all = self.all();
        let topics = all.iter().map(Arc::as_ref).chain(coming).map(StoredTopic::of).collect();
        let cluster = Cluster { cluster_id: self.cluster_id.clone(), producer_ids, topics };
        let file = self.data_dir.join(CLUSTER_FILE);
        replace_file(&file, cluster.to_text().as_bytes())
            .with_context(|| format!("can't write {}", file.display()))
    }

    /// Folders without a topic are what a delete left when the process died in between.
    fn remove_orphans(&self, topics: &[StoredTopic]) -> anyhow::Result<()> {
        let wanted: HashSet<String> = topics
            .iter()
            .flat_map(|topic| (0..topic.partitions).map(|index| folder_name(&topic.name, index)))
            .collect();
        let logs = self.data_dir.join(LOG_FOLDER);
        let entries = fs::read_dir(&logs).with_context(|| format!("can't read {}", logs.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if wanted.contains(&name) {
                continue;
            }
            let path = entry.path();
            if name.ends_with(DELETED_SUFFIX) || is_log_folder(&name) {
                fs::remove_dir_all(&path).with_context(|| format!("can't remove {}", path.display()))?;
                self.notices.say(&format!("removed {}: its topic was deleted", path.display()));
            }
        }
        Ok(())
    }
}

/// The beginnings of an empty data folder.
fn fresh(data_dir: &Path) -> anyhow::Result<Cluster> {
    let logs = data_dir.join(LOG_FOLDER);
    if fs::read_dir(&logs).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "{} has logs but no {CLUSTER_FILE}; put that file back, or move the folder away to start empty",
            data_dir.display()
        );
    }
    fs::create_dir_all(&logs).with_context(|| format!("can't make {}", logs.display()))?;
    let cluster_id = format!("hone-{:016x}", random_id().context("no randomness")? as u64);
    Ok(Cluster { cluster_id, producer_ids: 1000, topics: Vec::new() })
}

/// A topic as it stands in `cluster.json`.
struct StoredTopic {
    name: String,
    id: u128,
    partitions: i32,
    properties: BTreeMap<String, String>,
}

impl StoredTopic {
    fn of(topic: &Topic) -> Self {
        Self {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions.len() as i32,
            properties: topic.properties.given.clone(),
        }
    }

    fn parse(value: &Value) -> Option<Self> {
        let properties = value.get("properties")?.as_object()?.iter();
        Some(Self {
            name: value.get("name")?.as_str().filter(|name| is_topic_name(name))?.to_owned(),
            id: u128::from_str_radix(value.get("id")?.as_str()?, 16).ok()?,
            partitions: i32::try_from(value.get("partitions")?.as_i64()?).ok()?,
            properties: properties
                .map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
                .collect::<Option<_>>()?,
        })
    }
}

/// The contents of `cluster.json`.
struct Cluster {
    cluster_id: String,
    producer_ids: i64,
    topics: Vec<StoredTopic>,
}

impl Cluster {
    fn parse(text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_json::from_str(text)?;
        let version = value.get("hone_broker").and_then(Value::as_u64).context("`hone_broker` is missing")?;
        if version > FORMAT_VERSION {
            bail!(
                "it has version {version}, this broker reads up to {FORMAT_VERSION}; use a newer hone-broker"
            );
        }
        let topics = value.get("topics").and_then(Value::as_array).context("`topics` is missing")?;
        Ok(Self {
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
            topics: topics
                .iter()
                .map(|topic| {
                    StoredTopic::parse(topic).with_context(|| format!("a topic is damaged: {topic}"))
                })
                .collect::<anyhow::Result<_>>()?,
        })
    }

    fn to_text(&self) -> String {
        let topics: Vec<_> = self
            .topics
            .iter()
            .map(|topic| {
                json!({"name": topic.name, "id": format!("{:032x}", topic.id), "partitions": topic.partitions,
                    "properties": topic.properties})
            })
            .collect();
        let value = json!({"hone_broker": FORMAT_VERSION, "cluster_id": self.cluster_id,
            "producer_ids": self.producer_ids, "topics": topics});
        format!("{value:#}\n")
    }
}

/// Writes a file beside the old one, syncs it and renames it over.
pub(crate) fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = fs::File::create(&beside)?;
    file.write_all(contents)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}

fn folder_name(topic: &str, partition: i32) -> String {
    format!("{topic}-{partition}")
}

/// Whether a folder name could have come from [`folder_name`]; anything else in there is not ours to remove.
fn is_log_folder(name: &str) -> bool {
    name.rsplit_once('-')
        .is_some_and(|(topic, partition)| is_topic_name(topic) && partition.parse::<u32>().is_ok())
}

fn is_topic_name(name: &str) -> bool {
    (1..=MOST_NAME_BYTES).contains(&name.len())
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A topic id: random, and neither of the two that Kafka keeps for itself (0 and 1).
pub(crate) fn random_id() -> io::Result<u128> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_be_bytes(bytes).max(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> anyhow::Result<Topics> {
        Topics::open(folder, Notices::nowhere())
    }

    fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn topics_and_producer_ids_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let made = topics.create("a.b", 3, properties(&[("compression.type", "zstd")])).unwrap();
        let first = topics.new_producer_id().unwrap();
        let cluster_id = topics.cluster_id.clone();
        drop(topics);
        let topics = open(folder.path()).unwrap();
        let found = topics.by_name("a.b").unwrap();
        assert_eq!((found.id, found.partitions.len()), (made.id, 3));
        assert_eq!(found.properties.compression, Some(hone_kafka::Codec::Zstd));
        assert_eq!(topics.cluster_id, cluster_id);
        assert!(topics.new_producer_id().unwrap() > first);
    }

    #[test]
    fn what_can_not_be_a_topic_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        topics.create("t", 1, BTreeMap::new()).unwrap();
        for name in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(250)] {
            assert!(matches!(topics.create(name, 1, BTreeMap::new()), Err(CreateError::Name(_))), "{name}");
        }
        for count in [0, -1, i32::MAX] {
            assert!(matches!(topics.create("u", count, BTreeMap::new()), Err(CreateError::Partitions(_))));
        }
        assert!(matches!(topics.create("t", 1, BTreeMap::new()), Err(CreateError::Exists(_))));
        assert!(matches!(topics.create("u", 1, properties(&[("x", "y")])), Err(CreateError::Property(_))));
        assert!(topics.by_name("u").is_none());
    }

    #[test]
    fn a_deleted_topic_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let topic = topics.create("t", 2, BTreeMap::new()).unwrap();
        fs::create_dir_all(folder.path().join("log/t-0")).unwrap();
        assert!(topics.delete(&topic).unwrap());
        assert!(!topics.delete(&topic).unwrap());
        assert_eq!(fs::read_dir(folder.path().join("log")).unwrap().count(), 0);
        assert!(topics.by_id(topic.id).is_none());
        // Whoever still holds it can't bring its folder back.
        let mut batch = hone_kafka::BatchBuilder::new(hone_kafka::Codec::None);
        batch.push(None, Some(b"late"), 0);
        let late = topic.partitions[0].append(&mut batch.build().unwrap(), &mut Vec::new());
        assert!(matches!(late, Err(crate::partition::AppendError::Removed)));
        assert_eq!(fs::read_dir(folder.path().join("log")).unwrap().count(), 0);
    }

    #[test]
    fn folders_of_an_interrupted_delete_go_and_foreign_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        drop(open(folder.path()).unwrap());
        for name in ["old-0", "old-1.deleted", "notes"] {
            fs::create_dir_all(folder.path().join("log").join(name)).unwrap();
        }
        open(folder.path()).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path().join("log"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["notes"]);
    }

    #[test]
    fn logs_without_their_cluster_file_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("log/t-0")).unwrap();
        let error = open(folder.path()).err().unwrap().to_string();
        assert!(error.contains("has logs but no cluster.json"), "{error}");
        assert!(folder.path().join("log/t-0").exists());
    }

    #[test]
    fn a_damaged_or_newer_cluster_file_is_refused() {
        for (text, wanted) in [
            ("", "EOF"),
            ("{}", "`hone_broker` is missing"),
            (r#"{"hone_broker": 2}"#, "newer"),
            (r#"{"hone_broker": 1, "cluster_id": "x", "producer_ids": 0, "topics": [{}]}"#, "damaged"),
            (
                r#"{"hone_broker": 1, "cluster_id": "x", "producer_ids": 0, "topics": [{"name": "../x", "id": "1",
                "partitions": 1, "properties": {}}]}"#,
                "damaged",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("log")).unwrap();
            fs::write(folder.path().join(CLUSTER_FILE), text).unwrap();
            let error = format!("{:#}", open(folder.path()).err().unwrap());
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
