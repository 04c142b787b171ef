//! The topics, as `cluster.json` and the folders of their logs have them.
//!
//! A topic does not change while it is in the map. A change (more partitions, other properties) is on disk first, then a
//! new topic takes the place of the old one; both share the partitions that stay.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use anyhow::Context;

use crate::limits::Limits;
use crate::partition::{Opening, Partition, Storage};
use crate::properties::Properties;
use crate::properties::broker::{BrokerProperties, Scope};

mod cluster;
mod folders;

use cluster::{Cluster, Doomed, FILE as CLUSTER_FILE, StoredTopic};
use folders::{Folders, folder_name};

const LOG_FOLDER: &str = "log";
/// Kafka's longest topic name; with the partition behind it, a file name on every file system in use.
const MOST_NAME_BYTES: usize = 249;
/// A broker on one machine; each partition is a folder and, once written, an open file.
const MOST_PARTITIONS: i32 = 10_000;
/// Producer ids are reserved on disk in blocks, so that one write serves many producers.
const PRODUCER_ID_BLOCK: i64 = 1000;
/// Logs of a deleted topic that are removed at a time.
const REMOVING_THREADS: usize = 8;

/// A topic.
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

    fn with_properties(&self, properties: Properties) -> Self {
        Self { name: self.name.clone(), id: self.id, properties, partitions: self.partitions.clone() }
    }

    /// Hands the properties to the logs.
    fn configure_logs(&self) {
        for partition in &self.partitions {
            partition.configure(self.properties.log_config().clone());
        }
    }
}

/// A topic that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) partitions: i32,
    pub(crate) properties: BTreeMap<String, String>,
}

/// Why a topic was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    #[error(
        "invalid topic name `{0}`: use 1 to 249 letters, digits, dots, underscores and dashes, not `.` or `..`"
    )]
    Name(String),
    #[error("{0} partitions; use 1 to {MOST_PARTITIONS}")]
    Partitions(i32),
    #[error("{0}")]
    Full(Full),
    #[error("topic `{0}` exists")]
    Exists(String),
    #[error("{0}")]
    Property(String),
    #[error("{0:#}")]
    Storage(anyhow::Error),
}

/// Why something was not changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error("there is no topic `{0}`")]
    Unknown(String),
    #[error("{wanted} partitions for a topic that has {now}; use {} to {MOST_PARTITIONS}", now + 1)]
    Partitions { now: i32, wanted: i32 },
    #[error("{0}")]
    Full(Full),
    #[error("{0}")]
    Property(String),
    #[error("{0:#}")]
    Storage(anyhow::Error),
}

/// There are as many partitions as there may be.
#[derive(Debug, thiserror::Error)]
#[error(
    "can't add {more} partitions: the broker has {there} of at most {most}; delete topics, or request fewer"
)]
pub(crate) struct Full {
    more: usize,
    there: usize,
    most: usize,
}

#[derive(Default)]
struct Maps {
    by_name: HashMap<String, Arc<Topic>>,
    by_id: HashMap<u128, Arc<Topic>>,
    broker: Arc<BrokerProperties>,
}

impl Maps {
    fn put(&mut self, topic: Arc<Topic>) {
        self.by_name.insert(topic.name.clone(), Arc::clone(&topic));
        self.by_id.insert(topic.id, topic);
    }
}

/// The content of `cluster.json` besides the topics and the properties.
#[derive(Debug, Clone)]
struct Written {
    /// Producer ids below this one are reserved.
    producer_ids: i64,
    /// Topics that were deleted and whose folders may still be there.
    doomed: Vec<Doomed>,
}

/// Producer ids that are reserved on disk and were not given yet.
#[derive(Debug)]
struct ProducerIds {
    next: i64,
    end: i64,
}

/// A producer id that was never given before, not even by a process that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FreshProducer {
    pub(crate) id: i64,
    /// Set once per block: it is time to reserve the next block.
    pub(crate) runs_low: bool,
}

/// All topics, and the properties of the broker, which are the defaults of theirs.
pub(crate) struct Topics {
    /// `None` keeps everything in memory.
    data_dir: Option<PathBuf>,
    /// What logs are opened with.
    storage: Storage,
    /// Names this data folder to clients.
    pub(crate) cluster_id: String,
    maps: RwLock<Maps>,
    most_partitions: usize,
    /// Held while `cluster.json`, the logs and the maps change together, for as long as the disk takes: not for threads
    /// that serve clients.
    written: Mutex<Written>,
    /// Never held while the disk is at work.
    producer_ids: Mutex<ProducerIds>,
}

impl Topics {
    /// Opens the topics of a data folder, which is empty or was written by a broker before; without a folder there are
    /// none yet, and nothing is ever written. `started_with` are the properties that the broker was started with.
    pub(crate) fn open(
        data_dir: Option<PathBuf>,
        started_with: &BrokerProperties,
        storage: Storage,
    ) -> anyhow::Result<Self> {
        let known = Cluster::read(data_dir.as_deref())?;
        let started_with = started_with.clone();
        let started_with = if data_dir.is_some() { started_with } else { started_with.in_memory() };
        let broker = started_with
            .with(Scope::Cluster, &known.cluster)
            .and_then(|properties| properties.with(Scope::Broker, &known.broker))
            .map_err(|error| anyhow::anyhow!("{CLUSTER_FILE} has an invalid property: {error}"))?;
        let topics = Self {
            data_dir,
            storage,
            cluster_id: known.cluster_id,
            maps: RwLock::new(Maps { broker: Arc::new(broker), ..Maps::default() }),
            most_partitions: Limits::default().partitions,
            written: Mutex::new(Written { producer_ids: known.producer_ids, doomed: Vec::new() }),
            producer_ids: Mutex::new(ProducerIds { next: known.producer_ids, end: known.producer_ids }),
        };
        if let Some(folders) = topics.folders() {
            folders.tidy(&known.topics, &known.doomed)?;
        }
        let built = topics
            .build_all(known.topics, known.has_folders)
            .map_err(|error| anyhow::anyhow!("can't open the topics in {CLUSTER_FILE}: {error:#}"))?;
        topics.put(built.into_iter().map(Arc::new));
        if known.is_to_be_written || !known.doomed.is_empty() {
            topics.reserve_producer_ids()?;
        }
        Ok(topics)
    }

    /// Sets the maximum number of partitions of all topics together. Existing ones beyond the limit stay.
    pub(crate) fn limited(self, most_partitions: usize) -> Self {
        Self { most_partitions, ..self }
    }

    fn room_for(&self, more: usize, there: usize) -> Result<(), Full> {
        let most = self.most_partitions;
        if there.saturating_add(more) > most { Err(Full { more, there, most }) } else { Ok(()) }
    }

    /// The folders of the logs; `None` when they are kept in memory.
    fn folders(&self) -> Option<Folders<'_>> {
        Some(Folders { data_dir: self.data_dir.as_deref()?, notices: &self.storage.notices })
    }

    fn lock(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn producer_ids(&self) -> MutexGuard<'_, ProducerIds> {
        self.producer_ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn maps(&self) -> RwLockReadGuard<'_, Maps> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The topic of a name.
    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        self.maps().by_name.get(name).cloned()
    }

    /// The topic of an id.
    pub(crate) fn by_id(&self, id: u128) -> Option<Arc<Topic>> {
        self.maps().by_id.get(&id).cloned()
    }

    /// Every topic, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Topic>> {
        let mut all: Vec<_> = self.maps().by_name.values().cloned().collect();
        all.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The folder of everything; `None` when it is kept in memory.
    pub(crate) fn data_dir(&self) -> Option<&Path> {
        self.data_dir.as_deref()
    }

    /// The properties of the broker.
    pub(crate) fn broker_properties(&self) -> Arc<BrokerProperties> {
        Arc::clone(&self.maps().broker)
    }

    /// Checks what [`Topics::create`] would refuse, and makes nothing. Returns the properties that the topic would have.
    pub(crate) fn check(&self, new: &NewTopic) -> Result<Properties, CreateError> {
        self.check_beside(new, count_partitions(&self.all()))
    }

    /// [`Topics::check`] with this number of existing partitions.
    fn check_beside(&self, new: &NewTopic, there: usize) -> Result<Properties, CreateError> {
        if !is_topic_name(&new.name) {
            return Err(CreateError::Name(new.name.clone()));
        }
        if !(1..=MOST_PARTITIONS).contains(&new.partitions) {
            return Err(CreateError::Partitions(new.partitions));
        }
        let properties = Properties::parse(&new.properties, &self.broker_properties());
        let properties = properties.map_err(CreateError::Property)?;
        match self.by_name(&new.name) {
            Some(_) => Err(CreateError::Exists(new.name.clone())),
            None => {
                let more = usize::try_from(new.partitions).unwrap_or(usize::MAX);
                self.room_for(more, there).map_err(CreateError::Full).map(|()| properties)
            }
        }
    }

    /// Makes a topic; it is on disk before anyone can see it.
    pub(crate) fn create(&self, new: &NewTopic) -> Result<Arc<Topic>, CreateError> {
        self.create_all(std::slice::from_ref(new))
            .pop()
            .unwrap_or_else(|| Err(CreateError::Exists(new.name.clone())))
    }

    /// Makes topics with one write for all; each may be refused on its own.
    pub(crate) fn create_all(&self, new: &[NewTopic]) -> Vec<Result<Arc<Topic>, CreateError>> {
        let mut written = self.lock();
        let mut coming = written.clone();
        let mut all = self.all();
        let mut there = count_partitions(&all);
        let mut names = HashSet::new();
        let mut results = Vec::new();
        for new in new {
            let made = if names.contains(&new.name) {
                Err(CreateError::Exists(new.name.clone()))
            } else {
                self.make(new, there, &coming.doomed)
            };
            if let Ok(made) = &made {
                coming.doomed.retain(|doomed| doomed.name != made.name);
                there += made.partitions.len();
                names.insert(&new.name);
                all.push(Arc::clone(made));
            }
            results.push(made);
        }
        if results.iter().all(Result::is_err) {
            return results;
        }
        match self.save(&coming, &all, &self.broker_properties()) {
            Ok(()) => {
                *written = coming;
                self.put(results.iter().flatten().cloned());
            }
            Err(error) => {
                let reason = format!("{error:#}");
                for made in results.iter_mut().filter(|made| made.is_ok()) {
                    *made = Err(CreateError::Storage(anyhow::anyhow!("{reason}")));
                }
            }
        }
        results
    }

    fn make(&self, new: &NewTopic, there: usize, doomed: &[Doomed]) -> Result<Arc<Topic>, CreateError> {
        let properties = self.check_beside(new, there)?;
        let id = random_id().map_err(|error| CreateError::Storage(error.into()))?;
        let openings = self.openings(&new.name, 0..new.partitions, &properties).collect();
        let left = doomed.iter().find(|doomed| doomed.name == new.name);
        let partitions = self.open_new_logs(openings, left).map_err(CreateError::Storage)?;
        Ok(Arc::new(Topic { name: new.name.clone(), id, properties, partitions }))
    }

    /// Removes topics with their logs, with one write for all. For each, `false` when there is none (any more).
    ///
    /// The write names them as deleted, so that a start knows what is left when this process dies in between; when their
    /// folders are gone, another one forgets them.
    pub(crate) fn delete_all(&self, doomed: &[Arc<Topic>]) -> anyhow::Result<Vec<anyhow::Result<bool>>> {
        let mut written = self.lock();
        let ids_of: HashSet<u128> = doomed.iter().map(|topic| topic.id).collect();
        let (gone, left): (Vec<_>, Vec<_>) =
            self.all().into_iter().partition(|topic| ids_of.contains(&topic.id));
        if !gone.is_empty() {
            let mut coming = written.clone();
            coming.doomed.extend(gone.iter().map(|topic| Doomed::of(topic)));
            self.save_to_free(&coming, &left)?;
            *written = coming;
            self.take_out(&gone);
        }
        let mut removed = HashSet::new();
        let results = doomed
            .iter()
            .map(|doomed| match gone.iter().find(|gone| gone.id == doomed.id) {
                Some(topic) => remove_logs(topic).map(|()| {
                    removed.insert(topic.name.clone());
                    true
                }),
                None => Ok(false),
            })
            .collect();
        if !removed.is_empty()
            && let Err(error) = self.forget_doomed(&mut written, &removed, &left)
        {
            // They are deleted all the same; the next start, or the next topic of the name, looks for their folders.
            self.storage
                .notices
                .say(&format!("can't record that the logs of deleted topics are removed: {error:#}"));
        }
        Ok(results)
    }

    fn forget_doomed(
        &self,
        written: &mut Written,
        removed: &HashSet<String>,
        left: &[Arc<Topic>],
    ) -> anyhow::Result<()> {
        // Otherwise a power cut can restore a folder after the record of its removal is gone.
        self.folders().map_or(Ok(()), |folders| folders.sync())?;
        let mut coming = written.clone();
        coming.doomed.retain(|doomed| !removed.contains(&doomed.name));
        self.save(&coming, left, &self.broker_properties())?;
        *written = coming;
        Ok(())
    }

    /// Gives a topic more partitions, `wanted` in all. Nothing changes when it is only asked whether it could.
    pub(crate) fn grow(&self, name: &str, wanted: i32, only_ask: bool) -> Result<(), ChangeError> {
        let written = self.lock();
        let topic = self.by_name(name).ok_or_else(|| ChangeError::Unknown(name.to_owned()))?;
        let now = topic.partitions.len() as i32;
        if wanted <= now || wanted > MOST_PARTITIONS {
            return Err(ChangeError::Partitions { now, wanted });
        }
        let all = count_partitions(&self.all());
        self.room_for(wanted.abs_diff(now) as usize, all).map_err(ChangeError::Full)?;
        if only_ask {
            return Ok(());
        }
        let more = self.open_new_logs(self.openings(name, now..wanted, &topic.properties).collect(), None);
        let mut grown = topic.with_properties(topic.properties.clone());
        grown.partitions.extend(more.map_err(ChangeError::Storage)?);
        self.replace(&written, Arc::new(grown))
    }

    /// Changes the properties of a topic: `change` gets it as it is, and returns the properties to be given. Nothing
    /// changes when it is only asked whether it could.
    pub(crate) fn alter(
        &self,
        name: &str,
        only_ask: bool,
        change: impl FnOnce(&Topic, &BrokerProperties) -> Result<BTreeMap<String, String>, String>,
    ) -> Result<(), ChangeError> {
        let written = self.lock();
        let topic = self.by_name(name).ok_or_else(|| ChangeError::Unknown(name.to_owned()))?;
        let broker = self.broker_properties();
        let properties = change(&topic, &broker).and_then(|given| Properties::parse(&given, &broker));
        let properties = properties.map_err(ChangeError::Property)?;
        if only_ask {
            return Ok(());
        }
        let altered = Arc::new(topic.with_properties(properties));
        self.replace(&written, Arc::clone(&altered))?;
        altered.configure_logs();
        Ok(())
    }

    /// Changes the properties of the broker, and with them those of every topic that has none of its own.
    pub(crate) fn alter_broker(
        &self,
        scope: Scope,
        only_ask: bool,
        change: impl FnOnce(&BrokerProperties) -> Result<BTreeMap<String, String>, String>,
    ) -> Result<(), ChangeError> {
        let written = self.lock();
        let before = self.broker_properties();
        let broker = change(&before).and_then(|given| before.with(scope, &given));
        let broker = Arc::new(broker.map_err(ChangeError::Property)?);
        let mut altered = Vec::new();
        for topic in self.all() {
            let properties = topic.properties.over(&broker);
            let properties = properties.map_err(|error| {
                ChangeError::Property(format!("topic {} forbids it: {error}", topic.name))
            })?;
            altered.push(Arc::new(topic.with_properties(properties)));
        }
        if only_ask {
            return Ok(());
        }
        self.save(&written, &altered, &broker).map_err(ChangeError::Storage)?;
        altered.iter().for_each(|topic| topic.configure_logs());
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        maps.broker = broker;
        altered.into_iter().for_each(|topic| maps.put(topic));
        Ok(())
    }

    /// Takes a producer id; `None` when [`Topics::reserve_producer_ids`] must come first. Does not wait for the disk.
    pub(crate) fn new_producer_id(&self) -> Option<FreshProducer> {
        let mut ids = self.producer_ids();
        if ids.next == ids.end {
            return None;
        }
        ids.next += 1;
        Some(FreshProducer { id: ids.next - 1, runs_low: ids.end - ids.next == PRODUCER_ID_BLOCK / 2 })
    }

    /// Reserves producer ids on disk, unless plenty of them are left.
    pub(crate) fn reserve_producer_ids(&self) -> anyhow::Result<()> {
        let mut written = self.lock();
        let left = {
            let ids = self.producer_ids();
            ids.end - ids.next
        };
        if left > PRODUCER_ID_BLOCK / 2 {
            return Ok(());
        }
        // Without a folder it costs nothing to have all of them. In a file there is one block more than is given, so that
        // none is given twice by a start with the state of the file before this one.
        let end = match self.data_dir {
            Some(_) => self.producer_ids().end.saturating_add(PRODUCER_ID_BLOCK),
            None => i64::MAX,
        };
        let coming =
            Written { producer_ids: end.saturating_add(PRODUCER_ID_BLOCK), doomed: written.doomed.clone() };
        self.save(&coming, &self.all(), &self.broker_properties())?;
        *written = coming;
        self.producer_ids().end = end;
        Ok(())
    }

    /// The topics as they were stored, all their logs opened at once: after a kill each has to be looked through.
    fn build_all(&self, stored: Vec<StoredTopic>, has_folders: bool) -> anyhow::Result<Vec<Topic>> {
        let mut known = Vec::new();
        let mut openings = Vec::new();
        for stored in stored {
            let properties = Properties::parse(&stored.properties, &self.broker_properties())
                .map_err(|error| anyhow::anyhow!("topic {}: {error}", stored.name))?;
            openings.extend(self.openings(&stored.name, 0..stored.partitions, &properties));
            known.push((stored, properties));
        }
        if let Some(folders) = self.folders() {
            folders.mend(&openings, has_folders)?;
        }
        let mut opened = self.open_logs(openings)?.into_iter();
        let topics = known.into_iter().map(|(stored, properties)| Topic {
            partitions: opened.by_ref().take(stored.partitions as usize).collect(),
            name: stored.name,
            id: stored.id,
            properties,
        });
        Ok(topics.collect())
    }

    fn openings(
        &self,
        topic: &str,
        indexes: std::ops::Range<i32>,
        properties: &Properties,
    ) -> impl Iterator<Item = Opening> {
        let logs = self.data_dir.as_deref().unwrap_or(Path::new("")).join(LOG_FOLDER);
        indexes.map(move |index| Opening {
            topic: topic.to_owned(),
            index,
            folder: logs.join(folder_name(topic, index)),
            config: properties.log_config().clone(),
        })
    }

    /// Opens logs that have nothing in them yet.
    fn open_new_logs(
        &self,
        openings: Vec<Opening>,
        left: Option<&Doomed>,
    ) -> anyhow::Result<Vec<Arc<Partition>>> {
        if let Some(folders) = self.folders() {
            folders.make(&openings, left)?;
        }
        self.open_logs(openings)
    }

    fn open_logs(&self, openings: Vec<Opening>) -> anyhow::Result<Vec<Arc<Partition>>> {
        let folders: Vec<_> = openings.iter().map(|opening| opening.folder.clone()).collect();
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Partition::open_all(openings, &self.storage, threads)
            .into_iter()
            .zip(folders)
            .map(|(opened, folder)| {
                opened
                    .map(Arc::new)
                    .map_err(|error| anyhow::anyhow!("can't open the log {}: {error}", folder.display()))
            })
            .collect()
    }

    /// Saves the topics with this one in the place of its older self, then shows it.
    fn replace(&self, written: &Written, topic: Arc<Topic>) -> Result<(), ChangeError> {
        let mut all = self.all();
        if let Some(place) = all.iter_mut().find(|place| place.id == topic.id) {
            *place = Arc::clone(&topic);
        }
        self.save(written, &all, &self.broker_properties()).map_err(ChangeError::Storage)?;
        self.put([topic]);
        Ok(())
    }

    fn put(&self, topics: impl IntoIterator<Item = Arc<Topic>>) {
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        topics.into_iter().for_each(|topic| maps.put(topic));
    }

    fn take_out(&self, topics: &[Arc<Topic>]) {
        let mut maps = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        for topic in topics {
            maps.by_id.remove(&topic.id);
            maps.by_name.remove(&topic.name);
        }
    }

    /// Writes `cluster.json`.
    fn save(
        &self,
        written: &Written,
        topics: &[Arc<Topic>],
        broker: &BrokerProperties,
    ) -> anyhow::Result<()> {
        let Some(data_dir) = &self.data_dir else { return Ok(()) };
        self.cluster(written, topics, broker).write(data_dir)
    }

    /// The same even on a full disk, so that logs may go.
    fn save_to_free(&self, written: &Written, topics: &[Arc<Topic>]) -> anyhow::Result<()> {
        let broker = self.broker_properties();
        match (&self.data_dir, &self.storage.reserve) {
            (Some(data_dir), Some(reserve)) => {
                self.cluster(written, topics, &broker).write_to_free(data_dir, reserve)
            }
            _ => self.save(written, topics, &broker),
        }
    }

    /// Makes again what was given up of the reserve, if there is room.
    pub(crate) fn refill_reserve(&self) {
        if let Some(reserve) = &self.storage.reserve {
            reserve.refill();
        }
    }

    fn cluster(&self, written: &Written, topics: &[Arc<Topic>], broker: &BrokerProperties) -> Cluster {
        Cluster {
            cluster_id: self.cluster_id.clone(),
            producer_ids: written.producer_ids,
            cluster: broker.given(Scope::Cluster).clone(),
            broker: broker.given(Scope::Broker).clone(),
            topics: topics.iter().map(|topic| StoredTopic::of(topic)).collect(),
            doomed: written.doomed.clone(),
            is_to_be_written: false,
            has_folders: true,
        }
    }
}

fn count_partitions(topics: &[Arc<Topic>]) -> usize {
    topics.iter().map(|topic| topic.partitions.len()).sum()
}

/// Removes all logs that can be removed. What is left over is removed by the next start, or before a topic of the same
/// name is made.
fn remove_logs(topic: &Topic) -> anyhow::Result<()> {
    // Each has to be on the disk, and a disk that is asked for much at once does it together.
    let share = topic.partitions.len().div_ceil(REMOVING_THREADS).max(1);
    let remove_share = |share: &[Arc<Partition>]| -> anyhow::Result<()> {
        // It tries all partitions before it returns the first failure.
        let removed: Vec<_> = share.iter().map(|partition| remove_log(partition)).collect();
        removed.into_iter().collect()
    };
    std::thread::scope(|scope| {
        let mut shares = topic.partitions.chunks(share);
        let own = shares.next().unwrap_or_default();
        let spawn = |share| std::thread::Builder::new().spawn_scoped(scope, move || remove_share(share));
        let others: Vec<_> = shares.map(|share| spawn(share).map_err(|_| share)).collect();
        others.into_iter().fold(remove_share(own), |result, other| {
            result.and(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // A thread that can't be had is done without.
                Err(share) => remove_share(share),
            })
        })
    })
}

fn remove_log(partition: &Partition) -> anyhow::Result<()> {
    partition.remove().with_context(|| {
        let (topic, index) = (&partition.topic, partition.index);
        format!("topic {topic} is deleted, but the log of its partition {index} remains")
    })
}

/// Whether a topic may have this name.
pub(crate) fn is_topic_name(name: &str) -> bool {
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
    use crate::notices::Notices;
    use crate::partition::Ack;

    fn open(folder: &Path) -> anyhow::Result<Topics> {
        Topics::open(
            Some(folder.to_owned()),
            &BrokerProperties::default(),
            Storage::on_disk(Notices::nowhere()),
        )
    }

    fn new(name: &str, partitions: i32, properties: &[(&str, &str)]) -> NewTopic {
        NewTopic { name: name.to_owned(), partitions, properties: texts(properties) }
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn producer_id(topics: &Topics) -> i64 {
        if let Some(fresh) = topics.new_producer_id() {
            return fresh.id;
        }
        topics.reserve_producer_ids().unwrap();
        topics.new_producer_id().unwrap().id
    }

    fn delete(topics: &Topics, topic: &Arc<Topic>) -> bool {
        topics.delete_all(&[Arc::clone(topic)]).unwrap().pop().unwrap().unwrap()
    }

    #[test]
    fn topics_and_producer_ids_survive_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let made = topics.create(&new("a.b", 3, &[("compression.type", "zstd")])).unwrap();
        let first = producer_id(&topics);
        let cluster_id = topics.cluster_id.clone();
        drop(topics);
        let topics = open(folder.path()).unwrap();
        let found = topics.by_name("a.b").unwrap();
        assert_eq!((found.id, found.partitions.len()), (made.id, 3));
        assert_eq!(found.properties.compression, Some(hone_kafka::Codec::Zstd));
        assert_eq!(topics.cluster_id, cluster_id);
        assert!(producer_id(&topics) > first);
    }

    #[test]
    fn what_can_not_be_a_topic_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        topics.create(&new("t", 1, &[])).unwrap();
        for name in ["", ".", "..", "a/b", "a b", "ä", &"x".repeat(250)] {
            assert!(matches!(topics.create(&new(name, 1, &[])), Err(CreateError::Name(_))), "{name}");
        }
        for count in [0, -1, i32::MAX] {
            assert!(matches!(topics.create(&new("u", count, &[])), Err(CreateError::Partitions(_))));
        }
        assert!(matches!(topics.create(&new("t", 1, &[])), Err(CreateError::Exists(_))));
        assert!(matches!(topics.create(&new("u", 1, &[("x", "y")])), Err(CreateError::Property(_))));
        assert!(topics.by_name("u").is_none());
    }

    #[test]
    fn partitions_are_limited_over_all_topics() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap().limited(5);
        let results = topics.create_all(&[new("a", 3, &[]), new("b", 3, &[]), new("c", 1, &[])]);
        assert!(results[0].is_ok() && results[2].is_ok());
        let Err(CreateError::Full(full)) = &results[1] else { panic!("made") };
        assert_eq!(
            full.to_string(),
            "can't add 3 partitions: the broker has 3 of at most 5; delete topics, or request fewer"
        );
        assert!(matches!(topics.check(&new("b", 2, &[])), Err(CreateError::Full(_))));
        assert!(matches!(topics.grow("a", 5, true), Err(ChangeError::Full(_))));
        topics.grow("a", 4, false).unwrap();
        assert!(matches!(topics.create(&new("b", 1, &[])), Err(CreateError::Full(_))));
        assert!(delete(&topics, &topics.by_name("c").unwrap()));
        topics.create(&new("b", 1, &[])).unwrap();
    }

    #[test]
    fn a_deleted_topic_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let topic = topics.create(&new("t", 2, &[])).unwrap();
        fs::create_dir_all(folder.path().join("log/t-0")).unwrap();
        assert!(delete(&topics, &topic));
        assert!(!delete(&topics, &topic));
        assert_eq!(fs::read_dir(folder.path().join("log")).unwrap().count(), 0);
        assert!(topics.by_id(topic.id).is_none());
        // Whoever still holds it can't bring its folder back.
        let mut batch = hone_kafka::BatchBuilder::new(hone_kafka::Codec::None);
        batch.push(None, Some(b"late"), 0);
        let late = topic.partitions[0].append(&mut batch.build().unwrap(), Ack::Relaxed, 0, &mut Vec::new());
        assert!(matches!(late, Err(crate::partition::AppendError::Removed)));
        assert_eq!(fs::read_dir(folder.path().join("log")).unwrap().count(), 0);
    }

    #[test]
    fn producer_ids_do_not_wait_for_topics_that_are_made_or_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let busy = topics.lock();
        let mut low = 0;
        let mut given = HashSet::new();
        while let Some(fresh) = topics.new_producer_id() {
            low += u32::from(fresh.runs_low);
            given.insert(fresh.id);
        }
        drop(busy);
        assert_eq!((given.len() as i64, low), (PRODUCER_ID_BLOCK, 1));
        for _ in 0..2 {
            topics.reserve_producer_ids().unwrap();
        }
        assert!(given.insert(topics.new_producer_id().unwrap().id));
        let text = fs::read_to_string(folder.path().join(CLUSTER_FILE)).unwrap();
        assert!(text.contains("\"producer_ids\": 4000"), "one block more than is given, not two: {text}");
    }

    #[test]
    fn one_log_that_can_not_be_removed_neither_keeps_the_others_nor_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = |name: &str| folder.path().join("log").join(name);
        let topics = open(folder.path()).unwrap();
        let topic = topics.create(&new("t", 3, &[])).unwrap();
        for partition in &topic.partitions {
            partition.append(&mut one_record(), Ack::Relaxed, 0, &mut Vec::new()).unwrap();
        }
        // A folder that is not empty can't be renamed over.
        fs::create_dir_all(log("t-1.deleted/x")).unwrap();
        let error = topics.delete_all(&[topic]).unwrap().pop().unwrap().unwrap_err();
        assert!(format!("{error:#}").contains("the log of its partition 1 remains"), "{error:#}");
        assert!(topics.by_name("t").is_none() && log("t-1").exists() && !log("t-2").exists());
        let topic = topics.create(&new("t", 3, &[])).unwrap();
        assert!(topic.partitions.iter().all(|partition| partition.bounds().next == 0));
        assert!(delete(&topics, &topic));
        assert_eq!(fs::read_dir(folder.path().join("log")).unwrap().count(), 0);
        // And what can't be removed at all is told of.
        fs::create_dir_all(log("t-1.deleted/x")).unwrap();
        let topic = topics.create(&new("t", 3, &[])).unwrap();
        assert!(topics.delete_all(&[topic]).unwrap().pop().unwrap().is_err());
        fs::remove_dir_all(log("t-1.deleted")).unwrap();
        fs::write(log("t-1.deleted"), "a file").unwrap();
        let Err(CreateError::Storage(error)) = topics.create(&new("t", 1, &[])) else { panic!("made") };
        assert!(error.to_string().contains("remains of a deleted topic of this name"), "{error}");
    }

    fn one_record() -> Vec<u8> {
        let mut batch = hone_kafka::BatchBuilder::new(hone_kafka::Codec::None);
        batch.push(None, Some(b"x"), 0);
        batch.build().unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).map(|entries| {
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.collect::<Vec<_>>()
        });
        let mut names = entries.unwrap_or_default();
        names.sort();
        names
    }

    /// Opens, and gathers what is said.
    fn open_and_listen(folder: &Path) -> (Topics, Vec<String>) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let notices = Notices::to({
            let said = Arc::clone(&said);
            move |line| said.lock().unwrap().push(line.to_owned())
        });
        let properties = BrokerProperties::default();
        let topics = Topics::open(Some(folder.to_owned()), &properties, Storage::on_disk(notices)).unwrap();
        let said = said.lock().unwrap().clone();
        (topics, said)
    }

    fn write(topic: &Topic) {
        for partition in &topic.partitions {
            partition.append(&mut one_record(), Ack::Relaxed, 0, &mut Vec::new()).unwrap();
        }
    }

    fn ends(topic: &Topic) -> Vec<i64> {
        topic.partitions.iter().map(|partition| partition.bounds().next).collect()
    }

    #[test]
    fn what_an_interrupted_delete_has_left_goes() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join(LOG_FOLDER);
        let topics = open(folder.path()).unwrap();
        let topic = topics.create(&new("t", 2, &[])).unwrap();
        write(&topic);
        // Killed behind the write that says what is deleted, and with one of the two folders renamed.
        let mut written = topics.lock();
        written.doomed.push(Doomed::of(&topic));
        topics.save(&written, &[], &topics.broker_properties()).unwrap();
        drop(written);
        fs::rename(logs.join("t-1"), logs.join("t-1.deleted")).unwrap();
        drop((topics, topic));
        let (topics, said) = open_and_listen(folder.path());
        assert!(
            said.len() == 2 && said.iter().all(|line| line.contains("its topic was deleted")),
            "{said:?}"
        );
        assert_eq!((names(&logs), names(&folder.path().join("set-aside"))), (vec![], vec![]));
        drop(topics);
        // It is forgotten: a folder of the name that comes later was never meant.
        fs::create_dir_all(logs.join("t-0/x")).unwrap();
        open_and_listen(folder.path());
        assert_eq!(names(&folder.path().join("set-aside")), ["t-0.1"]);
    }

    #[test]
    fn a_delete_that_is_over_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let topic = topics.create(&new("t", 2, &[])).unwrap();
        assert!(delete(&topics, &topic));
        let text = fs::read_to_string(folder.path().join(CLUSTER_FILE)).unwrap();
        assert!(text.contains("\"deleted\": []"), "{text}");
    }

    #[test]
    fn logs_of_no_topic_are_set_aside_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let (logs, aside) = (folder.path().join(LOG_FOLDER), folder.path().join("set-aside"));
        drop(open(folder.path()).unwrap());
        let before = fs::read(folder.path().join(CLUSTER_FILE)).unwrap();
        let topics = open(folder.path()).unwrap();
        write(&topics.create(&new("t", 2, &[])).unwrap());
        write(&topics.create(&new("u", 1, &[])).unwrap());
        drop(topics);
        let with_topics = fs::read(folder.path().join(CLUSTER_FILE)).unwrap();
        fs::create_dir(logs.join("notes")).unwrap();
        fs::create_dir(logs.join("empty-0")).unwrap();
        // An older state of the file is put back: it knows none of them.
        fs::write(folder.path().join(CLUSTER_FILE), before).unwrap();
        let (topics, said) = open_and_listen(folder.path());
        drop(topics);
        assert_eq!(
            (names(&logs), names(&aside)),
            (texts_of(&["notes"]), texts_of(&["t-0.1", "t-1.1", "u-0.1"]))
        );
        let [notice] = &said[..] else { panic!("{said:?}") };
        for wanted in ["set-aside", "t-0.1, t-1.1, u-0.1", "restore the cluster.json that names it"] {
            assert!(notice.contains(wanted), "{notice}");
        }
        // Done once, it is done.
        assert_eq!(open_and_listen(folder.path()).1, [""; 0]);
        // And what the notice says helps.
        for name in ["t-0", "t-1", "u-0"] {
            fs::rename(aside.join(format!("{name}.1")), logs.join(name)).unwrap();
        }
        fs::write(folder.path().join(CLUSTER_FILE), with_topics).unwrap();
        let (topics, said) = open_and_listen(folder.path());
        assert_eq!((said, ends(&topics.by_name("t").unwrap())), (vec![], vec![1, 1]));
        // A log in the place of a new one is none of its own either.
        fs::create_dir_all(logs.join("v-0/x")).unwrap();
        fs::create_dir_all(aside.join("v-0.1")).unwrap();
        topics.create(&new("v", 1, &[])).unwrap();
        assert!(aside.join("v-0.2/x").exists() && !logs.join("v-0/x").exists());
    }

    fn texts_of(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_partition_without_its_folder_is_told_of_once() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        write(&topics.create(&new("t", 3, &[])).unwrap());
        topics.create(&new("never-written", 1, &[])).unwrap();
        topics.grow("never-written", 2, false).unwrap();
        drop(topics);
        assert_eq!(open_and_listen(folder.path()).1, [""; 0]);
        let gone = folder.path().join("log/t-1");
        fs::remove_dir_all(&gone).unwrap();
        let (topics, said) = open_and_listen(folder.path());
        assert_eq!(ends(&topics.by_name("t").unwrap()), [1, 0, 1]);
        let [notice] = &said[..] else { panic!("{said:?}") };
        let wanted =
            format!("topic t has lost the folder of partition 1 ({}): it starts empty", gone.display());
        assert!(notice.contains(&wanted), "{notice}");
        drop(topics);
        assert_eq!(open_and_listen(folder.path()).1, [""; 0]);
    }

    #[test]
    fn a_cluster_file_with_any_byte_changed_is_refused_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CLUSTER_FILE);
        let topics = open(folder.path()).unwrap();
        write(&topics.create(&new("t", 1, &[("segment.bytes", "4096")])).unwrap());
        write(&topics.create(&new("u", 1, &[])).unwrap());
        drop(topics);
        let good = fs::read(&path).unwrap();
        assert!(serde_json::from_slice::<serde_json::Value>(&good).is_ok(), "one JSON file");
        for at in 0..good.len() {
            for change in [1, 0x20, 0x80] {
                let mut bytes = good.clone();
                bytes[at] ^= change;
                fs::write(&path, &bytes).unwrap();
                let Err(error) = open(folder.path()) else { panic!("byte {at} does not count") };
                let error = format!("{error:#}");
                assert!(error.contains(&path.display().to_string()), "{error}");
            }
            fs::write(&path, &good[..at]).unwrap();
            assert!(open(folder.path()).is_err(), "cut at {at}");
        }
        assert_eq!(names(&folder.path().join(LOG_FOLDER)), ["t-0", "u-0"]);
        // The message leads back: the state before knows all but the last change, and loses nothing of that.
        let mut bytes = good.clone();
        bytes[good.len() / 2] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let error = format!("{:#}", open(folder.path()).err().unwrap());
        for wanted in ["checksum", "the broker changed nothing", "log", "cluster.previous", "sets aside"] {
            assert!(error.contains(wanted), "{error}");
        }
        fs::copy(folder.path().join("cluster.previous"), &path).unwrap();
        let topics = open(folder.path()).unwrap();
        assert_eq!(ends(&topics.by_name("t").unwrap()), [1]);
        assert!(topics.by_name("u").is_none());
        assert_eq!(names(&folder.path().join("set-aside")), ["u-0.1"]);
    }

    #[test]
    fn a_producer_id_is_not_given_again_by_the_state_before() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let mut given = HashSet::new();
        for _ in 0..3 * PRODUCER_ID_BLOCK + 10 {
            assert!(given.insert(producer_id(&topics)));
            if let Some(fresh) = topics.new_producer_id() {
                assert!(given.insert(fresh.id));
                fresh.runs_low.then(|| topics.reserve_producer_ids().unwrap());
            }
        }
        drop(topics);
        fs::copy(folder.path().join("cluster.previous"), folder.path().join(CLUSTER_FILE)).unwrap();
        let topics = open(folder.path()).unwrap();
        assert!(given.insert(producer_id(&topics)), "given twice");
    }

    #[test]
    fn what_was_changed_on_purpose_gets_a_checksum_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(CLUSTER_FILE);
        let topics = open(folder.path()).unwrap();
        write(&topics.create(&new("t", 1, &[])).unwrap());
        drop(topics);
        let text = fs::read_to_string(&path).unwrap();
        let (_, rest) = text.split_once('\n').unwrap();
        let changed = format!("{{\n{rest}").replace("\"hone_broker\": 3", "\"hone_broker\": 2");
        assert_ne!(changed, text);
        fs::write(&path, changed).unwrap();
        assert_eq!(ends(&open(folder.path()).unwrap().by_name("t").unwrap()), [1]);
        assert!(fs::read_to_string(&path).unwrap().starts_with("{ \"crc32c\": \""));
        assert!(open(folder.path()).is_ok());
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
    fn what_an_interrupted_write_left_is_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        topics.create(&new("a", 1, &[])).unwrap();
        drop(topics);
        // Killed between the write of the new file and its renaming: whole or torn, it does not count yet.
        for left in ["{\"hone_broker\": 2", "", "{\"hone_broker\": 2, \"topics\": []}"] {
            fs::write(folder.path().join("cluster.new"), left).unwrap();
            let topics = open(folder.path()).unwrap();
            assert!(topics.by_name("a").is_some());
        }
        let topics = open(folder.path()).unwrap();
        topics.create(&new("b", 1, &[])).unwrap();
        drop(topics);
        assert_eq!(open(folder.path()).unwrap().all().len(), 2);
        assert!(!folder.path().join("cluster.new").exists());
    }

    #[test]
    fn a_cluster_file_of_version_1_is_read_and_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("log")).unwrap();
        let text = r#"{"hone_broker": 1, "cluster_id": "x", "producer_ids": 2000, "topics": [{"name": "t",
            "id": "00ff", "partitions": 2, "properties": {"retention.ms": "-1"}}]}"#;
        fs::write(folder.path().join(CLUSTER_FILE), text).unwrap();
        let topics = open(folder.path()).unwrap();
        let topic = topics.by_name("t").unwrap();
        assert_eq!((topic.id, topic.partitions.len(), topics.cluster_id.as_str()), (0xff, 2, "x"));
        assert_eq!(topic.properties.log_config().retention_ms, None);
        let written = fs::read_to_string(folder.path().join(CLUSTER_FILE)).unwrap();
        assert!(written.contains("\"hone_broker\": 3") && written.contains("crc32c"), "{written}");
        assert_eq!(producer_id(&topics), 2000);
        assert!(open(folder.path()).unwrap().by_id(0xff).is_some());
    }

    #[test]
    fn a_change_shares_the_partitions_and_reaches_their_logs() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let before = topics.create(&new("t", 1, &[])).unwrap();
        topics.grow("t", 2, false).unwrap();
        topics.alter("t", false, |_, _| Ok(texts(&[("segment.bytes", "4096")]))).unwrap();
        let after = topics.by_name("t").unwrap();
        assert_eq!((before.id, before.partitions.len(), after.partitions.len()), (after.id, 1, 2));
        assert!(Arc::ptr_eq(&before.partitions[0], &after.partitions[0]));
        assert!(Arc::ptr_eq(&after, &topics.by_id(after.id).unwrap()));
        let mut batch = hone_kafka::BatchBuilder::new(hone_kafka::Codec::None);
        batch.push(None, Some(&[7; 3000]), 0);
        for _ in 0..3 {
            before.partitions[0]
                .append(
                    &mut batch.clone().build().unwrap(),
                    crate::partition::Ack::Relaxed,
                    0,
                    &mut Vec::new(),
                )
                .unwrap();
        }
        assert_eq!(fs::read_dir(folder.path().join("log/t-0")).unwrap().count(), 3, "one segment each");
    }

    #[test]
    fn a_write_that_fails_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let topics = open(folder.path()).unwrap();
        let topic = topics.create(&new("t", 1, &[])).unwrap();
        // A folder where the new file should be: it can't be written.
        fs::create_dir(folder.path().join("cluster.new")).unwrap();
        assert!(matches!(topics.create(&new("u", 1, &[])), Err(CreateError::Storage(_))));
        assert!(matches!(topics.grow("t", 2, false), Err(ChangeError::Storage(_))));
        let altered = topics.alter("t", false, |_, _| Ok(texts(&[("segment.ms", "1")])));
        assert!(matches!(altered, Err(ChangeError::Storage(_))));
        let altered = topics.alter_broker(Scope::Cluster, false, |_| Ok(texts(&[("log.roll.ms", "1")])));
        assert!(matches!(altered, Err(ChangeError::Storage(_))));
        assert!(topics.delete_all(&[topic]).is_err());
        let left = topics.by_name("t").unwrap();
        assert_eq!((left.partitions.len(), left.properties.log_config().segment_ms), (1, 604_800_000));
        assert_eq!(topics.broker_properties().value("log.roll.ms"), "604800000");
        assert!(topics.by_name("u").is_none());
    }

    #[test]
    fn in_memory_nothing_is_written() {
        let topics =
            Topics::open(None, &BrokerProperties::default(), Storage::on_disk(Notices::nowhere())).unwrap();
        let topic = topics.create(&new("t", 2, &[])).unwrap();
        topics.grow("t", 3, false).unwrap();
        assert!(producer_id(&topics) < producer_id(&topics));
        assert_eq!(topic.properties.durability(), crate::properties::Durability::Memory);
        assert!(topics.data_dir().is_none() && !Path::new(CLUSTER_FILE).exists());
        assert!(delete(&topics, &topic));
    }

    #[test]
    fn a_damaged_or_newer_cluster_file_is_refused() {
        for (text, wanted) in [
            ("", "EOF"),
            ("{}", "`hone_broker` is missing"),
            (r#"{"hone_broker": 3}"#, "its first line, which has the checksum, is missing"),
            (r#"{"hone_broker": 4}"#, "newer"),
            (
                r#"{"hone_broker": 1, "cluster_id": "x", "producer_ids": 0, "topics": [
                {"name": "x", "id": "1", "partitions": 1, "properties": {}},
                {"name": "x", "id": "2", "partitions": 1, "properties": {}}]}"#,
                "named twice",
            ),
            (
                r#"{"hone_broker": 1, "cluster_id": "x", "producer_ids": 0, "topics": [
                {"name": "x", "id": "1", "partitions": 2000000000, "properties": {}}]}"#,
                "damaged",
            ),
            (r#"{"hone_broker": 1, "cluster_id": "x", "producer_ids": 0, "topics": [{}]}"#, "damaged"),
            (
                r#"{"hone_broker": 2, "cluster_id": "x", "producer_ids": 0, "topics": []}"#,
                "cluster_properties",
            ),
            (
                r#"{"hone_broker": 2, "cluster_id": "x", "producer_ids": 0, "topics": [],
                "cluster_properties": {"num.partitions": "0"}, "broker_properties": {}}"#,
                "invalid num.partitions `0`",
            ),
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
            assert!(error.contains(wanted) && error.contains(CLUSTER_FILE), "{text}: {error}");
            assert!(
                error.contains("with a backup") || error.contains("newer") || error.contains("num."),
                "{error}"
            );
        }
    }
}
