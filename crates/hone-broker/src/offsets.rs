//! Committed offsets of groups: a map in memory, and every change of it in the journal before it is acknowledged.
//!
//! Offsets that belong to a transaction are staged under its producer until it ends: then they count, or are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::journal::{Journal, JournalError};
use crate::limits::Limits;
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::ticket::Ticket;

/// First byte of a journal entry that is of offsets.
pub(crate) const RECORD: u8 = b'o';

/// What a group committed for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Committed {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
    /// When, by the wall clock.
    pub(crate) at_ms: i64,
}

/// Group, topic, partition.
pub(crate) type Place = (String, String, i32);
/// The request to answer when the entry is durable.
pub(crate) type Then = Option<(Ticket, Reply)>;

/// One change, as it is in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    Put(Place, Committed),
    Remove(Place),
    Stage(i64, Place, Committed),
    Resolve { producer_id: i64, commit: bool },
}

/// All committed offsets.
pub(crate) struct Offsets {
    journal: Arc<Journal>,
    store: Mutex<Store>,
    most: usize,
    /// Topics that are not there but have offsets, left by a delete that a kill cut short.
    orphans: Mutex<BTreeSet<String>>,
}

/// An offset that lay behind the end of its log, and where that end is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SetBack {
    pub(crate) place: Place,
    pub(crate) from: i64,
    pub(crate) to: i64,
}

/// The offsets without the journal.
#[derive(Debug, Default)]
pub(crate) struct Store {
    places: BTreeMap<Place, Committed>,
    staged: BTreeMap<i64, BTreeMap<Place, Committed>>,
}

impl Offsets {
    pub(crate) fn new(journal: Arc<Journal>, store: Store) -> Self {
        let most = Limits::default().offsets;
        Self { journal, store: Mutex::new(store), most, orphans: Mutex::default() }
    }

    /// Sets the maximum number of offsets. Existing ones beyond the limit stay.
    pub(crate) fn limited(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Whether these may be committed or staged: they have been before, or there is room for all of them.
    pub(crate) fn has_room<'a>(&self, places: impl Iterator<Item = (&'a str, &'a str, i32)>) -> bool {
        let store = self.store();
        let there = store.places.len() + store.staged.values().map(BTreeMap::len).sum::<usize>();
        let is_new = |(group, topic, partition): &(&str, &str, i32)| {
            !store.places.contains_key(&((*group).to_owned(), (*topic).to_owned(), *partition))
        };
        there + places.filter(is_new).count() <= self.most
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes, in the map and in the journal in the same order.
    fn change(&self, store: &mut Store, changes: Vec<Change>, then: Then) {
        let entry = write(&changes);
        changes.into_iter().for_each(|change| store.apply(change));
        self.journal.append(entry, then);
    }

    /// Stores commits, all or none; `then` is posted when they are durable.
    pub(crate) fn commit(&self, commits: Vec<(Place, Committed)>, then: Then) {
        let changes = commits.into_iter().map(|(place, committed)| Change::Put(place, committed)).collect();
        self.change(&mut self.store(), changes, then);
    }

    /// Keeps commits of a transaction back until [`Offsets::resolve`]; `then` is posted when that is durable.
    pub(crate) fn stage(
        &self,
        producer_id: i64,
        group: &str,
        commits: Vec<((String, i32), Committed)>,
        then: Then,
    ) {
        let place = |(topic, partition)| (group.to_owned(), topic, partition);
        let changes = commits.into_iter().map(|(at, commit)| Change::Stage(producer_id, place(at), commit));
        self.change(&mut self.store(), changes.collect(), then);
    }

    /// A producer's transaction has ended: what it had staged counts from now on, or never did. May be said twice.
    pub(crate) fn resolve(&self, producer_id: i64, commit: bool, then: Then) {
        self.change(&mut self.store(), vec![Change::Resolve { producer_id, commit }], then);
    }

    /// Waits until all that was said so far is durable: for threads that serve no clients.
    pub(crate) fn wait_until_durable(&self) -> Result<(), JournalError> {
        // An entry without changes: when it is durable, so are those before it.
        self.journal.append_and_wait(vec![RECORD])
    }

    /// Whether a transaction that has not ended holds an offset of this place.
    pub(crate) fn has_staged(&self, group: &str, topic: &str, partition: i32) -> bool {
        let store = self.store();
        if store.staged.is_empty() {
            return false;
        }
        let place = (group.to_owned(), topic.to_owned(), partition);
        store.staged.values().any(|staged| staged.contains_key(&place))
    }

    /// What was committed for one partition.
    pub(crate) fn of(&self, place: &Place) -> Option<Committed> {
        self.store().places.get(place).cloned()
    }

    /// Everything a group has committed: topic, partition, commit.
    pub(crate) fn of_group(&self, group: &str) -> Vec<(String, i32, Committed)> {
        let store = self.store();
        let row = |((_, topic, partition), committed): (&Place, &Committed)| {
            (topic.clone(), *partition, committed.clone())
        };
        store.of_group(group).map(row).collect()
    }

    /// Whether a group has committed anything.
    pub(crate) fn knows(&self, group: &str) -> bool {
        self.store().of_group(group).next().is_some()
    }

    /// The groups that have committed something.
    pub(crate) fn groups(&self) -> BTreeSet<String> {
        self.store().places.keys().map(|(group, _, _)| group.clone()).collect()
    }

    /// Forgets single offsets.
    pub(crate) fn forget(&self, places: Vec<Place>, then: Then) {
        self.change(&mut self.store(), places.into_iter().map(Change::Remove).collect(), then);
    }

    /// Forgets all offsets that `doomed` picks.
    fn forget_where(&self, doomed: impl Fn(&Place) -> bool) {
        let mut store = self.store();
        let places = store.places.keys().chain(store.staged.values().flat_map(BTreeMap::keys));
        let changes: Vec<Change> =
            places.filter(|place| doomed(place)).cloned().map(Change::Remove).collect();
        if !changes.is_empty() {
            self.change(&mut store, changes, None);
        }
    }

    /// Forgets deleted groups.
    pub(crate) fn forget_groups(&self, groups: &BTreeSet<String>) {
        self.forget_where(|(group, _, _)| groups.contains(group));
    }

    /// Forgets a deleted topic.
    pub(crate) fn forget_topic(&self, topic: &str) {
        self.forget_where(|(_, name, _)| name == topic);
    }

    /// Holds everything against the logs as a start finds them. `end_of` gives the end of a partition's log, or `None`
    /// when there is no such topic.
    ///
    /// A commit is durable when it is answered, but what it has read may not have been: behind the end of a log that
    /// lost its last records, it would have its group skip as many new ones. Such offsets are set back to the end.
    pub(crate) fn meet(&self, end_of: impl Fn(&str, i32) -> Option<i64>) -> Vec<SetBack> {
        let mut store = self.store();
        let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        let mut set_back = Vec::new();
        let mut changes = Vec::new();
        for (place, committed) in &store.places {
            match end_of(&place.1, place.2) {
                None => _ = orphans.insert(place.1.clone()),
                Some(end) if committed.offset > end => {
                    set_back.push(SetBack { place: place.clone(), from: committed.offset, to: end });
                    changes.push(Change::Put(place.clone(), Committed { offset: end, ..committed.clone() }));
                }
                Some(_) => (),
            }
        }
        let staged = store.staged.values().flat_map(BTreeMap::keys);
        orphans
            .extend(staged.filter(|place| end_of(&place.1, place.2).is_none()).map(|place| place.1.clone()));
        if !changes.is_empty() {
            self.change(&mut store, changes, None);
        }
        set_back
    }

    /// Removes the offsets that an earlier topic of this name left, before the topic is created again.
    pub(crate) fn forget_orphans(&self, topic: &str) {
        let was_one = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
        if was_one {
            self.forget_topic(topic);
        }
    }

    /// The places among the next `most` behind one that have something older than `until_ms`, and the last place that
    /// was looked at; `None` for that behind the last of all.
    pub(crate) fn old_ones(
        &self,
        behind: Option<&Place>,
        most: usize,
        until_ms: i64,
    ) -> (Vec<Place>, Option<Place>) {
        let store = self.store();
        let looked_at = store.behind(behind).take(most);
        let mut last = None;
        let mut old = Vec::new();
        for (place, committed) in looked_at {
            last = Some(place);
            if committed.at_ms <= until_ms {
                old.push(place.clone());
            }
        }
        (old, last.cloned())
    }

    /// Forgets what was committed until `until_ms` in some places, by groups that are empty since then at least.
    pub(crate) fn expire(
        &self,
        places: Vec<Place>,
        until_ms: i64,
        empty_since_ms: impl Fn(&str) -> Option<i64>,
    ) {
        let mut store = self.store();
        let old = |place: &Place| {
            store.places.get(place).is_some_and(|committed| committed.at_ms <= until_ms)
                && empty_since_ms(&place.0).is_some_and(|since| since <= until_ms)
        };
        let changes: Vec<Change> = places.into_iter().filter(old).map(Change::Remove).collect();
        if !changes.is_empty() {
            self.change(&mut store, changes, None);
        }
    }

    /// Marks the journal, and returns the entries of staged offsets. They come first, so that a later verdict finds
    /// them.
    pub(crate) fn begin_records(&self) -> Vec<Vec<u8>> {
        let store = self.store();
        self.journal.mark();
        let staged = store.staged.iter().flat_map(|(producer_id, staged)| {
            staged.iter().map(|(place, commit)| Change::Stage(*producer_id, place.clone(), commit.clone()))
        });
        staged.map(|change| write(&[change])).collect()
    }

    /// Adds the entries of what is committed, and lets others in after every `most` of them.
    pub(crate) fn add_records(&self, most: usize, records: &mut Vec<Vec<u8>>) {
        let mut last: Option<Place> = None;
        loop {
            let store = self.store();
            let before = records.len();
            let mut reached = None;
            for (place, committed) in store.behind(last.as_ref()).take(most) {
                records.push(write(&[Change::Put(place.clone(), committed.clone())]));
                reached = Some(place);
            }
            let reached = reached.cloned();
            drop(store);
            if records.len() == before {
                return;
            }
            last = reached;
        }
    }

    /// Sends an answer with offsets when all of its offsets are durable. Returns `false` if they are durable already.
    pub(crate) fn answer_when_durable(&self, ticket: Ticket, reply: impl FnOnce() -> Reply) -> bool {
        self.journal.answer_when_durable(ticket, reply)
    }
}

impl Store {
    fn behind<'a>(&'a self, place: Option<&Place>) -> impl Iterator<Item = (&'a Place, &'a Committed)> {
        let from = place.map_or(Bound::Unbounded, |place| Bound::Excluded(place.clone()));
        self.places.range((from, Bound::Unbounded))
    }

    fn of_group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (&'a Place, &'a Committed)> {
        let from: Place = (group.to_owned(), String::new(), i32::MIN);
        self.places.range(from..).take_while(move |((name, _, _), _)| name == group)
    }

    /// Takes an entry of the journal in, without its first byte. `false` for one that can't be read.
    pub(crate) fn replay(&mut self, bytes: &[u8]) -> bool {
        let mut fields = Fields::new(bytes, true);
        while fields.left() > 0 {
            match read(&mut fields) {
                Some(change) => self.apply(change),
                None => return false,
            }
        }
        true
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put(place, committed) => drop(self.places.insert(place, committed)),
            Change::Remove(place) => {
                self.places.remove(&place);
                self.staged.values_mut().for_each(|staged| drop(staged.remove(&place)));
                self.staged.retain(|_, staged| !staged.is_empty());
            }
            Change::Stage(producer_id, place, committed) => {
                self.staged.entry(producer_id).or_default().insert(place, committed);
            }
            Change::Resolve { producer_id, commit } => {
                let staged = self.staged.remove(&producer_id).unwrap_or_default();
                if commit {
                    self.places.extend(staged);
                }
            }
        }
    }
}

const PUT: i8 = 0;
const REMOVE: i8 = 1;
const STAGE: i8 = 2;
const RESOLVE: i8 = 3;

fn write(changes: &[Change]) -> Vec<u8> {
    let mut bytes = vec![RECORD];
    let mut out = Answer::new(&mut bytes, true);
    for change in changes {
        match change {
            Change::Put(place, committed) => {
                out.i8(PUT);
                write_place(&mut out, place);
                write_committed(&mut out, committed);
            }
            Change::Remove(place) => {
                out.i8(REMOVE);
                write_place(&mut out, place);
            }
            Change::Stage(producer_id, place, committed) => {
                out.i8(STAGE);
                out.i64(*producer_id);
                write_place(&mut out, place);
                write_committed(&mut out, committed);
            }
            Change::Resolve { producer_id, commit } => {
                out.i8(RESOLVE);
                out.i64(*producer_id);
                out.bool(*commit);
            }
        }
    }
    bytes
}

fn read(fields: &mut Fields<'_>) -> Option<Change> {
    Some(match fields.i8("change").ok()? {
        PUT => Change::Put(read_place(fields)?, read_committed(fields)?),
        REMOVE => Change::Remove(read_place(fields)?),
        STAGE => Change::Stage(fields.i64("producer").ok()?, read_place(fields)?, read_committed(fields)?),
        RESOLVE => {
            Change::Resolve { producer_id: fields.i64("producer").ok()?, commit: fields.bool("commit").ok()? }
        }
        _ => return None,
    })
}

/// Texts go as bytes: an answer's strings are cut at 32 KiB.
fn write_place(out: &mut Answer<'_>, (group, topic, partition): &Place) {
    out.bytes(group.as_bytes());
    out.bytes(topic.as_bytes());
    out.i32(*partition);
}

fn read_place(fields: &mut Fields<'_>) -> Option<Place> {
    Some((read_text(fields)?, read_text(fields)?, fields.i32("partition").ok()?))
}

fn write_committed(out: &mut Answer<'_>, committed: &Committed) {
    out.i64(committed.offset);
    out.i32(committed.leader_epoch);
    out.bytes(committed.metadata.as_bytes());
    out.i64(committed.at_ms);
}

fn read_committed(fields: &mut Fields<'_>) -> Option<Committed> {
    Some(Committed {
        offset: fields.i64("offset").ok()?,
        leader_epoch: fields.i32("leader epoch").ok()?,
        metadata: read_text(fields)?,
        at_ms: fields.i64("time").ok()?,
    })
}

fn read_text(fields: &mut Fields<'_>) -> Option<String> {
    String::from_utf8(fields.bytes("text").ok()?.to_vec()).ok()
}

/// The commits of a file as brokers before the journal wrote it: a JSON array on each line, the last one for a
/// partition counts, a torn one does not.
pub(crate) fn of_json_lines(bytes: &[u8], now_ms: i64) -> Vec<(Place, Committed)> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| of_json(line, now_ms)).collect()
}

fn of_json(line: &[u8], now_ms: i64) -> Option<(Place, Committed)> {
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
        at_ms: now_ms,
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
        Committed { offset, leader_epoch: 0, metadata: "\"quoted\"\n".to_owned(), at_ms: offset * 1000 }
    }

    fn offsets() -> Offsets {
        Offsets::new(Arc::new(Journal::in_memory()), Store::default())
    }

    /// What a broker that is started now would know.
    fn restarted(offsets: &Offsets) -> Store {
        let mut store = Store::default();
        let mut records = offsets.begin_records();
        offsets.add_records(1, &mut records);
        for record in records {
            assert_eq!(record[0], RECORD);
            assert!(store.replay(&record[1..]));
        }
        store
    }

    #[test]
    fn the_last_commit_of_a_place_counts() {
        let offsets = offsets();
        offsets.commit(vec![(place("g", "t", 0), at(5)), (place("g", "t", 1), at(6))], None);
        offsets.commit(vec![(place("g", "t", 0), at(9)), (place("h", "t", 0), at(1))], None);
        assert_eq!(offsets.of(&place("g", "t", 0)), Some(at(9)));
        assert_eq!(offsets.of_group("g").len(), 2);
        assert_eq!(offsets.of(&place("x", "t", 0)), None);
        assert_eq!(offsets.groups(), ["g".to_owned(), "h".to_owned()].into());
        assert!(offsets.knows("h") && !offsets.knows("f") && !offsets.knows("hh"));
        assert_eq!(restarted(&offsets).places, offsets.store().places);
        offsets.forget_topic("t");
        assert!(offsets.groups().is_empty() && restarted(&offsets).places.is_empty());
    }

    #[test]
    fn a_start_sets_back_what_lies_behind_the_end_of_its_log() {
        let offsets = offsets();
        let commits = [("g", 0, 100), ("g", 1, 95), ("h", 0, 95), ("h", 1, 3)];
        offsets.commit(
            commits.map(|(group, index, offset)| (place(group, "t", index), at(offset))).into(),
            None,
        );
        let set_back = offsets.meet(|topic, index| (topic == "t" && index < 2).then_some(95));
        assert_eq!(set_back, [SetBack { place: place("g", "t", 0), from: 100, to: 95 }]);
        let expected = Committed { offset: 95, ..at(100) };
        assert_eq!(offsets.of(&place("g", "t", 0)), Some(expected.clone()));
        assert_eq!(restarted(&offsets).places[&place("g", "t", 0)], expected);
        assert!(offsets.meet(|_, _| Some(95)).is_empty());
        // Nothing of this topic is an orphan.
        offsets.forget_orphans("t");
        assert_eq!(offsets.of(&place("h", "t", 1)), Some(at(3)));
    }

    #[test]
    fn a_new_topic_does_not_inherit_the_offsets_of_one_whose_delete_was_cut_short() {
        let offsets = offsets();
        offsets.commit(vec![(place("g", "gone", 0), at(5)), (place("g", "t", 0), at(6))], None);
        offsets.stage(7, "g", vec![(("staged".to_owned(), 0), at(1))], None);
        assert!(offsets.meet(|topic, _| (topic == "t").then_some(9)).is_empty());
        // They stay as long as nobody makes such a topic: a folder may have been set aside, and come back.
        assert_eq!(offsets.of(&place("g", "gone", 0)), Some(at(5)));
        for topic in ["gone", "staged", "t"] {
            offsets.forget_orphans(topic);
        }
        offsets.resolve(7, true, None);
        assert_eq!(offsets.of_group("g"), [("t".to_owned(), 0, at(6))]);
        assert_eq!(restarted(&offsets).places.len(), 1);
    }

    #[test]
    fn offsets_are_limited_and_those_that_are_there_go_on() {
        let offsets = offsets().limited(2);
        offsets.commit(vec![(place("g", "t", 0), at(5)), (place("g", "t", 1), at(6))], None);
        assert!(offsets.has_room([("g", "t", 1)].into_iter()));
        assert!(!offsets.has_room([("g", "t", 1), ("g", "t", 2)].into_iter()));
        offsets.forget(vec![place("g", "t", 0)], None);
        assert!(offsets.has_room([("g", "t", 2)].into_iter()));
    }

    #[test]
    fn staged_offsets_count_when_their_transaction_is_committed_and_not_before() {
        let offsets = offsets();
        offsets.commit(vec![(place("g", "t", 0), at(1))], None);
        for (producer, commit, wanted) in [(7, false, 1), (8, true, 5)] {
            offsets.stage(producer, "g", vec![(("t".to_owned(), 0), at(5))], None);
            assert!(offsets.has_staged("g", "t", 0) && !offsets.has_staged("g", "t", 1));
            assert_eq!(offsets.of(&place("g", "t", 0)), Some(at(1)));
            let again = restarted(&offsets);
            assert_eq!(again.places, offsets.store().places);
            assert_eq!(again.staged, offsets.store().staged);
            offsets.resolve(producer, commit, None);
            offsets.resolve(producer, !commit, None);
            assert!(!offsets.has_staged("g", "t", 0));
            assert_eq!(offsets.of(&place("g", "t", 0)), Some(at(wanted)), "said twice, the first counts");
        }
    }

    /// What changes while the entries are gathered stands in the journal behind them.
    #[test]
    fn a_verdict_amid_a_compaction_is_not_lost() {
        let offsets = offsets();
        offsets.commit(vec![(place("g", "t", 0), at(1))], None);
        offsets.stage(7, "g", vec![(("t".to_owned(), 0), at(5))], None);
        let mut records = offsets.begin_records();
        offsets.resolve(7, true, None);
        records.push(write(&[Change::Put(place("g", "t", 0), at(1))]));
        records.push(write(&[Change::Resolve { producer_id: 7, commit: true }]));
        let mut store = Store::default();
        assert!(records.iter().all(|record| store.replay(&record[1..])));
        assert_eq!(store.places, offsets.store().places);
        assert!(store.staged.is_empty());
    }

    #[test]
    fn a_deleted_group_or_topic_does_not_come_back_with_a_transaction() {
        let offsets = offsets();
        offsets.stage(7, "g", vec![(("t".to_owned(), 0), at(5)), (("u".to_owned(), 0), at(5))], None);
        offsets.forget_topic("t");
        offsets.forget_groups(&["g".to_owned()].into());
        offsets.resolve(7, true, None);
        assert!(offsets.groups().is_empty());
    }

    #[test]
    fn only_old_offsets_of_groups_that_are_long_empty_expire() {
        let offsets = offsets();
        let commits = ["lives", "left-early", "left-late"]
            .iter()
            .flat_map(|group| [(place(group, "t", 0), at(1)), (place(group, "t", 1), at(10))]);
        offsets.commit(commits.collect(), None);
        let mut last = None;
        loop {
            let (old, next) = offsets.old_ones(last.as_ref(), 1, 5_000);
            offsets.expire(old, 5_000, |group| match group {
                "lives" => None,
                "left-early" => Some(2_000),
                _ => Some(6_000),
            });
            last = next;
            if last.is_none() {
                break;
            }
        }
        assert_eq!(offsets.of_group("lives").len(), 2);
        assert_eq!(offsets.of_group("left-late").len(), 2);
        assert_eq!(offsets.of_group("left-early"), [("t".to_owned(), 1, at(10))]);
    }

    #[test]
    fn damaged_entries_are_refused_and_never_panic() {
        let whole = write(&[
            Change::Put(place("g", "t", 0), at(5)),
            Change::Stage(3, place("g", "t", 0), at(5)),
            Change::Resolve { producer_id: 3, commit: true },
            Change::Remove(place("g", "t", 1)),
        ]);
        for length in 1..whole.len() {
            Store::default().replay(&whole[1..length]);
        }
        assert!(Store::default().replay(&whole[1..]));
        assert!(!Store::default().replay(&[9]));
        assert!(!Store::default().replay(&whole[1..whole.len() - 1]));
    }

    #[test]
    fn lines_of_before_the_journal_are_read() {
        let text = b"[\"g\",\"t\",0,5,0,\"m\"]\n[\"g\",\"t\",0,7,2,\"\"]\n[\"g\",\"t\",0,1";
        let found = of_json_lines(text, 99);
        assert_eq!(found.len(), 2);
        let last = Committed { offset: 7, leader_epoch: 2, metadata: String::new(), at_ms: 99 };
        assert_eq!(found[1], (place("g", "t", 0), last));
    }
}
