//! Committed offsets of groups: one JSON array on a line for each commit, the last one for a partition counts.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::topics::replace_file;

const OFFSETS_FILE: &str = "group-offsets.jsonl";
/// The file is rewritten when it has grown by this much since the last time.
const COMPACT_EVERY_BYTES: u64 = 8 << 20;

/// What a group committed for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// Group, topic, partition.
pub(crate) type Place = (String, String, i32);

/// All committed offsets.
pub(crate) struct Offsets {
    path: PathBuf,
    store: Mutex<Store>,
}

struct Store {
    file: File,
    appended_bytes: u64,
    places: BTreeMap<Place, Committed>,
}

impl Offsets {
    /// Reads and compacts the file of a data folder. A torn last line is dropped.
    pub(crate) fn open(data_dir: &Path) -> io::Result<Self> {
        let path = data_dir.join(OFFSETS_FILE);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut places = BTreeMap::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Some((place, committed)) = parse(line) {
                places.insert(place, committed);
            }
        }
        let file = rewrite(&path, &places)?;
        Ok(Self { path, store: Mutex::new(Store { file, appended_bytes: 0, places }) })
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores commits, all in one write.
    pub(crate) fn commit(&self, commits: Vec<(Place, Committed)>) -> io::Result<()> {
        let text: String = commits.iter().map(|(place, committed)| line(place, committed)).collect();
        let mut store = self.store();
        store.file.write_all(text.as_bytes())?;
        store.appended_bytes += text.len() as u64;
        store.places.extend(commits);
        self.compact_if_grown(&mut store)
    }

    /// What was committed for one partition.
    pub(crate) fn of(&self, place: &Place) -> Option<Committed> {
        self.store().places.get(place).cloned()
    }

    /// Everything a group has committed: topic, partition, commit.
    pub(crate) fn of_group(&self, group: &str) -> Vec<(String, i32, Committed)> {
        let store = self.store();
        let from: Place = (group.to_owned(), String::new(), i32::MIN);
        store
            .places
            .range(from..)
            .take_while(|((name, _, _), _)| name == group)
            .map(|((_, topic, partition), committed)| (topic.clone(), *partition, committed.clone()))
            .collect()
    }

    /// Forgets a deleted topic.
    pub(crate) fn forget_topic(&self, topic: &str) -> io::Result<()> {
        let mut store = self.store();
        store.places.retain(|(_, name, _), _| name != topic);
        self.compact(&mut store)
    }

    fn compact_if_grown(&self, store: &mut Store) -> io::Result<()> {
        if store.appended_bytes < COMPACT_EVERY_BYTES { Ok(()) } else { self.compact(store) }
    }

    fn compact(&self, store: &mut Store) -> io::Result<()> {
        store.file = rewrite(&self.path, &store.places)?;
        store.appended_bytes = 0;
        Ok(())
    }
}

fn rewrite(path: &Path, places: &BTreeMap<Place, Committed>) -> io::Result<File> {
    let text: String = places.iter().map(|(place, committed)| line(place, committed)).collect();
    replace_file(path, text.as_bytes())?;
    OpenOptions::new().append(true).open(path)
}

fn line(place: &Place, committed: &Committed) -> String {
    let (group, topic, partition) = place;
    let value =
        json!([group, topic, partition, committed.offset, committed.leader_epoch, committed.metadata]);
    format!("{value}\n")
}

fn parse(line: &[u8]) -> Option<(Place, Committed)> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let [group, topic, partition, offset, leader_epoch, metadata] = value.as_array()?.as_slice() else {
        return None;
    };
    let place =
        (group.as_str()?.to_owned(), topic.as_str()?.to_owned(), i32::try_from(partition.as_i64()?).ok()?);
    let committed = Committed {
        offset: offset.as_i64()?,
        leader_epoch: i32::try_from(leader_epoch.as_i64()?).ok()?,
        metadata: metadata.as_str()?.to_owned(),
    };
    Some((place, committed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(group: &str, topic: &str, partition: i32) -> Place {
        (group.to_owned(), topic.to_owned(), partition)
    }

    fn at(offset: i64) -> Committed {
        Committed { offset, leader_epoch: 0, metadata: "\"quoted\"\n".to_owned() }
    }

    #[test]
    fn the_last_commit_survives_a_restart_and_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let offsets = Offsets::open(folder.path()).unwrap();
        offsets.commit(vec![(place("g", "t", 0), at(5)), (place("g", "t", 1), at(6))]).unwrap();
        offsets.commit(vec![(place("g", "t", 0), at(9)), (place("h", "t", 0), at(1))]).unwrap();
        drop(offsets);
        let file = folder.path().join(OFFSETS_FILE);
        let mut bytes = fs::read(&file).unwrap();
        bytes.extend_from_slice(br#"["g","t",0,1"#);
        fs::write(&file, bytes).unwrap();
        let offsets = Offsets::open(folder.path()).unwrap();
        assert_eq!(offsets.of(&place("g", "t", 0)), Some(at(9)));
        assert_eq!(offsets.of_group("g").len(), 2);
        assert_eq!(offsets.of(&place("x", "t", 0)), None);
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        assert_eq!(lines, 3, "compacted at start");
        offsets.forget_topic("t").unwrap();
        assert!(Offsets::open(folder.path()).unwrap().of_group("g").is_empty());
    }
}
