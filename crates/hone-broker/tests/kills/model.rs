//! What the broker has promised, and whether it kept it.

use std::collections::{BTreeMap, HashMap, HashSet};

/// A topic by its number, and a partition.
pub(crate) type Place = (usize, i32);
/// A transaction: whose, and which of his.
pub(crate) type TxnId = (usize, u64);

/// What a topic may let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// Nothing but what DeleteRecords names.
    All,
    /// Its oldest segments, as long as so many bytes stay.
    Bytes(u64),
    /// All but the last record of each key.
    LastOfKey,
}

/// A topic of the story.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) partitions: i32,
    pub(crate) keeping: Keeping,
    /// acks=all waits for the disk.
    pub(crate) strict: bool,
    pub(crate) properties: &'static [(&'static str, &'static str)],
}

pub(crate) const PLANS: &[Plan] = &[
    Plan {
        name: "plain",
        partitions: 2,
        keeping: Keeping::All,
        strict: true,
        properties: &[("segment.bytes", "8192"), ("retention.ms", "-1"), ("flush.ms", "20")],
    },
    Plan {
        name: "cached",
        partitions: 2,
        keeping: Keeping::All,
        strict: false,
        properties: &[
            ("write.caching", "true"),
            ("segment.bytes", "16384"),
            ("retention.ms", "-1"),
            ("flush.ms", "30"),
        ],
    },
    Plan {
        name: "kept-by-size",
        partitions: 1,
        keeping: Keeping::Bytes(20_000),
        strict: true,
        properties: &[("segment.bytes", "4096"), ("retention.bytes", "20000"), ("retention.ms", "-1")],
    },
    Plan {
        name: "compacted",
        partitions: 2,
        keeping: Keeping::LastOfKey,
        strict: true,
        properties: &[
            ("cleanup.policy", "compact"),
            ("segment.bytes", "4096"),
            ("min.cleanable.dirty.ratio", "0.1"),
        ],
    },
];

/// Every key has many records.
pub(crate) const KEYS: u64 = 9;

/// The key of a value that ends in its number.
pub(crate) fn key_of(value: &str) -> String {
    format!("key-{}", number_of(value) % KEYS)
}

/// The number of a value: those of one writer rise.
pub(crate) fn number_of(value: &str) -> u64 {
    value.rsplit('.').next().unwrap().parse().unwrap()
}

/// The writer of a value.
fn writer_of(value: &str) -> &str {
    value.split('.').next().unwrap()
}

#[derive(Debug, Clone)]
struct Fact {
    value: String,
    /// It was acknowledged as being on the disk.
    durable: bool,
}

/// One partition.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    facts: BTreeMap<i64, Fact>,
    offsets: HashMap<String, i64>,
    /// Sent, and nobody knows yet what became of it.
    sent: HashSet<String>,
    /// Where DeleteRecords has moved the start to, and where it was asked to.
    start_acknowledged: i64,
    start_asked: i64,
    /// As it was seen last.
    start: i64,
    /// What lies before it can be read for sure: it was, or it was acknowledged as durable.
    visible: i64,
}

/// How a transaction stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    Asked { commit: bool },
    Committed,
    Aborted,
}

#[derive(Debug)]
struct Txn {
    fate: Fate,
    values: Vec<(Place, String)>,
    /// What it commits for its group, if it commits.
    offset: Option<i64>,
}

/// What a group has committed.
#[derive(Debug)]
pub(crate) struct Promise {
    acknowledged: i64,
    asked: Option<i64>,
}

/// A topic that comes and goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) partitions: usize,
    pub(crate) retention_ms: String,
    pub(crate) records: Vec<String>,
}

/// A topic that comes and goes: as it was acknowledged, and as it was asked to be.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    pub(crate) now: Option<Life>,
    pub(crate) asked: Option<Option<Life>>,
}

/// A batch as a reader finds it.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    pub(crate) bytes: u64,
    /// Offset, key, value.
    pub(crate) records: Vec<(i64, String, String)>,
}

/// A partition as a start of the broker shows it.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) start: i64,
    /// Readers of committed records stop here: what is behind waits for an older transaction to end.
    pub(crate) stable: i64,
    pub(crate) end: i64,
    pub(crate) batches: Vec<Found>,
    /// Values that a reader of committed records gets, by what the answers say of aborted transactions.
    pub(crate) committed: HashSet<String>,
}

/// All that was promised.
#[derive(Debug, Default)]
pub(crate) struct Model {
    shelves: HashMap<Place, Shelf>,
    txns: BTreeMap<TxnId, Txn>,
    groups: BTreeMap<String, Promise>,
    pub(crate) lives: HashMap<String, Lives>,
    pub(crate) acknowledged: u64,
}

impl Shelf {
    fn put(&mut self, place: Place, offset: i64, value: &str, durable: bool) {
        assert!(
            self.sent.contains(value) || self.offsets.contains_key(value),
            "{place:?}: nobody sent {value}"
        );
        if let Some(other) = self.facts.get(&offset) {
            assert_eq!(other.value, value, "{place:?}: offset {offset} twice");
        }
        if let Some(other) = self.offsets.insert(value.to_owned(), offset) {
            assert_eq!(other, offset, "{place:?}: {value} twice");
        }
        self.sent.remove(value);
        let fact = self.facts.entry(offset).or_insert_with(|| Fact { value: value.to_owned(), durable });
        fact.durable |= durable;
        if durable {
            self.visible = self.visible.max(offset + 1);
        }
    }

    /// What was only in the page cache has gone, from some point on.
    fn lose_tail(&mut self, place: Place, end: i64) {
        let durable_end =
            self.facts.iter().rev().find(|(_, fact)| fact.durable).map_or(0, |(offset, _)| offset + 1);
        assert!(
            end >= durable_end,
            "{place:?}: the log ends at {end}, records before {durable_end} were durable"
        );
        self.visible = self.visible.min(end);
        for (_, fact) in self.facts.split_off(&end) {
            self.offsets.remove(&fact.value);
            // It is as if it had been sent and never arrived.
            self.sent.insert(fact.value);
        }
    }

    fn check(&mut self, place: Place, sight: &Sight, power_cut: bool) {
        let keeping = PLANS[place.0].keeping;
        let name = format!("{}-{}", PLANS[place.0].name, place.1);
        self.check_start(&name, keeping, sight, power_cut);
        let mut next = None;
        let mut numbers: HashMap<String, u64> = HashMap::new();
        let mut present = HashMap::new();
        let mut last_of_key = HashMap::new();
        for batch in &sight.batches {
            match next {
                Some(next) if keeping == Keeping::LastOfKey => assert!(batch.base_offset >= next, "{name}"),
                Some(next) => assert_eq!(batch.base_offset, next, "{name}: a hole, or an offset twice"),
                None => assert!(batch.last_offset >= sight.start, "{name}"),
            }
            next = Some(batch.last_offset + 1);
            for (offset, key, value) in &batch.records {
                if *offset < sight.start {
                    continue;
                }
                self.put(place, *offset, value, true);
                assert_eq!(*key, key_of(value), "{name}: the key of {value}");
                let writer = writer_of(value).to_owned();
                if let Some(before) = numbers.insert(writer, number_of(value)) {
                    assert!(
                        before < number_of(value),
                        "{name}: {value} behind number {before} of its writer"
                    );
                }
                present.insert(*offset, value.clone());
                last_of_key.insert(key.clone(), *offset);
            }
        }
        if keeping != Keeping::LastOfKey {
            assert_eq!(next.unwrap_or(sight.end), sight.end, "{name}: nothing up to the end");
        }
        self.facts = self.facts.split_off(&sight.start);
        for (offset, fact) in &self.facts {
            let superseded = || last_of_key.get(&key_of(&fact.value)).is_some_and(|last| last > offset);
            assert!(
                present.contains_key(offset) || (keeping == Keeping::LastOfKey && superseded()),
                "{name}: {} at offset {offset} is lost; {} to {}",
                fact.value,
                sight.start,
                sight.end
            );
        }
    }

    fn check_start(&mut self, name: &str, keeping: Keeping, sight: &Sight, power_cut: bool) {
        assert!(
            sight.start >= self.start,
            "{name}: the start went back from {} to {}",
            self.start,
            sight.start
        );
        match keeping {
            Keeping::All => {
                let may = self.start_acknowledged..=self.start_asked;
                assert!(may.contains(&sight.start), "{name}: it starts at {}, allowed: {may:?}", sight.start);
            }
            // After a power cut fewer bytes are left than there were when retention looked.
            Keeping::Bytes(least) if sight.start > 0 && !power_cut => {
                let kept: u64 = sight.batches.iter().map(|batch| batch.bytes).sum();
                assert!(kept >= least, "{name}: {kept} bytes are left, retention keeps {least}");
            }
            _ => (),
        }
        self.start = sight.start;
    }
}

impl Model {
    pub(crate) fn shelf(&mut self, place: Place) -> &mut Shelf {
        self.shelves.entry(place).or_default()
    }

    pub(crate) fn sent(&mut self, place: Place, values: &[String]) {
        self.shelf(place).sent.extend(values.iter().cloned());
    }

    /// An acknowledgement has come: the values are there from `base_offset` on.
    pub(crate) fn acknowledged(&mut self, place: Place, base_offset: i64, values: &[String], durable: bool) {
        self.acknowledged += values.len() as u64;
        let shelf = self.shelf(place);
        for (offset, value) in (base_offset..).zip(values) {
            // An answer to a batch that was sent again may be older than what retention has dropped since.
            if offset >= shelf.start {
                shelf.put(place, offset, value, durable);
            }
        }
    }

    /// A consumer has seen it.
    pub(crate) fn seen(&mut self, place: Place, offset: i64, value: &str) {
        let shelf = self.shelf(place);
        if offset >= shelf.start {
            shelf.put(place, offset, value, false);
            shelf.visible = shelf.visible.max(offset + 1);
        }
    }

    /// Of what was sent and not found, only this will be sent again; nothing else may turn up later.
    pub(crate) fn forget_sent(&mut self, pending: &HashSet<&String>) {
        for shelf in self.shelves.values_mut() {
            shelf.sent.retain(|value| pending.contains(value));
        }
    }

    /// Returns whether it must be granted, and what is to be taken back if it is not.
    pub(crate) fn trim_asked(&mut self, place: Place, offset: i64) -> (bool, i64) {
        let shelf = self.shelf(place);
        let before = shelf.start_asked;
        shelf.start_asked = before.max(offset);
        (offset <= shelf.visible, before)
    }

    pub(crate) fn trim_refused(&mut self, place: Place, before: i64) {
        self.shelf(place).start_asked = before;
    }

    pub(crate) fn trimmed(&mut self, place: Place, offset: i64) {
        let shelf = self.shelf(place);
        shelf.start_acknowledged = shelf.start_acknowledged.max(offset);
    }

    /// An offset somewhere in a partition.
    pub(crate) fn middle(&mut self, place: Place, percent: u64) -> i64 {
        let shelf = self.shelf(place);
        let (first, last) = (shelf.facts.keys().next(), shelf.facts.keys().next_back());
        let (Some(first), Some(last)) = (first, last) else { return 0 };
        first + (last - first) * percent as i64 / 100
    }

    pub(crate) fn txn_sent(&mut self, id: TxnId, place: Place, values: &[String]) {
        self.sent(place, values);
        let txn =
            self.txns.entry(id).or_insert_with(|| Txn { fate: Fate::Open, values: Vec::new(), offset: None });
        txn.values.extend(values.iter().map(|value| (place, value.clone())));
    }

    pub(crate) fn txn_offset(&mut self, id: TxnId, offset: i64) {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.offset = Some(offset);
        }
    }

    pub(crate) fn txn_asked(&mut self, id: TxnId, group: &str, commit: bool) {
        let Some(txn) = self.txns.get_mut(&id) else { return };
        txn.fate = Fate::Asked { commit };
        if let (true, Some(offset)) = (commit, txn.offset) {
            self.commit_asked(group, offset);
        }
    }

    /// The answer says how it ended.
    pub(crate) fn txn_ended(&mut self, id: TxnId, group: &str, commit: bool) {
        let Some(txn) = self.txns.get_mut(&id) else { return };
        txn.fate = if commit { Fate::Committed } else { Fate::Aborted };
        if let (true, Some(offset)) = (commit, txn.offset) {
            self.committed(group, offset);
        }
    }

    pub(crate) fn commit_asked(&mut self, group: &str, offset: i64) {
        self.promise(group).asked = Some(offset);
    }

    pub(crate) fn committed(&mut self, group: &str, offset: i64) {
        *self.promise(group) = Promise { acknowledged: offset, asked: None };
    }

    fn promise(&mut self, group: &str) -> &mut Promise {
        self.groups.entry(group.to_owned()).or_insert(Promise { acknowledged: -1, asked: None })
    }

    pub(crate) fn groups(&self) -> Vec<String> {
        self.groups.keys().cloned().collect()
    }

    /// Checks what a group has committed, after a start.
    pub(crate) fn check_group(&mut self, group: &str, found: i64) {
        let promise = self.promise(group);
        let may = [Some(promise.acknowledged), promise.asked];
        assert!(may.contains(&Some(found)), "{group}: committed {found}, allowed {may:?}");
        *promise = Promise { acknowledged: found, asked: None };
    }

    /// After a power cut a log ends here, or before: a start ends transactions, and writes markers where records were.
    pub(crate) fn lose_tail(&mut self, place: Place, end: i64, markers: &[i64]) {
        let shelf = self.shelf(place);
        let replaced = markers.iter().copied().find(|marker| shelf.facts.contains_key(marker));
        shelf.lose_tail(place, replaced.unwrap_or(end));
    }

    /// Checks all partitions, after a start.
    pub(crate) fn check(&mut self, sights: &HashMap<Place, Sight>, power_cut: bool) {
        for (place, sight) in sights {
            let shelf = self.shelf(*place);
            shelf.check(*place, sight, power_cut);
        }
        self.check_txns(sights);
    }

    fn check_txns(&mut self, sights: &HashMap<Place, Sight>) {
        for (id, txn) in &mut self.txns {
            let mut visible = Vec::new();
            for (place, value) in &txn.values {
                let shelf = self.shelves.get(place);
                let Some(offset) = shelf.and_then(|shelf| shelf.offsets.get(value)) else {
                    assert!(txn.fate != Fate::Committed, "{value} of {id:?}, which was committed, is lost");
                    continue;
                };
                let sight = &sights[place];
                if (sight.start..sight.stable).contains(offset) {
                    visible.push((sight.committed.contains(value), value.clone()));
                }
            }
            let any = visible.iter().any(|(visible, _)| *visible);
            let all = visible.iter().all(|(visible, _)| *visible);
            assert!(all || !any, "transaction {id:?} is half there: {visible:?}");
            match txn.fate {
                Fate::Committed => assert!(all, "transaction {id:?} was committed: {visible:?}"),
                Fate::Aborted | Fate::Open | Fate::Asked { commit: false } => {
                    assert!(!any, "transaction {id:?} is {:?}: {visible:?}", txn.fate);
                }
                Fate::Asked { commit: true } => (),
            }
        }
    }
}
