//! The state machine of transactions: which transactional ids there are, who owns each, what its transaction holds and
//! how far its end has come.
//!
//! It has neither I/O nor a clock: every step gets the time and returns what the journal has to know. A step that
//! returns an error code has changed nothing.
//!
//! Two protocols meet here. In the first one a producer keeps its epoch over many transactions and announces each
//! partition. In the second one (KIP-890) writing announces a partition, and every end raises the epoch, so that what
//! was sent for one transaction can never become part of the next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::entry::Entry;
use super::producer::{NO_EPOCH, NO_ID, Producer};
use crate::code;

/// Kafka's `transaction.max.timeout.ms`.
pub(crate) const MOST_TIMEOUT_MS: i32 = 15 * 60 * 1000;
/// Kafka's `transactional.id.expiration.ms`.
const EXPIRY_MS: i64 = 7 * 24 * 3_600_000;
/// The last epoch that a client gets to see; the one behind it is left for fencing.
const LAST_EPOCH: i16 = i16::MAX - 1;
/// Groups whose offsets one transaction commits, at most.
const MOST_GROUPS: usize = 1_000;

/// Returns an unused producer id, or an error code.
pub(crate) type FreshId<'a> = &'a mut dyn FnMut() -> Result<i64, i16>;

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Decision {
    Commit,
    Abort,
}

/// The version of the transaction protocol that a request speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Partitions are announced; epochs stay.
    First,
    /// Writing announces; every end raises the epoch.
    Second,
}

/// Where a transactional id stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// It has an owner, and no transaction since.
    Empty,
    Ongoing,
    /// The end is decided, and not known everywhere.
    Prepared(Decision),
    /// The end is known everywhere.
    Complete(Decision),
}

impl Phase {
    /// Kafka's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ongoing => "Ongoing",
            Self::Prepared(Decision::Commit) => "PrepareCommit",
            Self::Prepared(Decision::Abort) => "PrepareAbort",
            Self::Complete(Decision::Commit) => "CompleteCommit",
            Self::Complete(Decision::Abort) => "CompleteAbort",
        }
    }
}

/// Where a transaction has written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) partitions: BTreeMap<String, BTreeSet<i32>>,
    /// Groups whose offsets it commits.
    pub(crate) groups: BTreeSet<String>,
}

impl Places {
    pub(crate) fn partition(topic: &str, partition: i32) -> Self {
        let partitions = BTreeMap::from([(topic.to_owned(), BTreeSet::from([partition]))]);
        Self { partitions, ..Self::default() }
    }

    pub(crate) fn group(group: &str) -> Self {
        Self { groups: BTreeSet::from([group.to_owned()]), ..Self::default() }
    }

    pub(crate) fn has_partition(&self, topic: &str, partition: i32) -> bool {
        self.partitions.get(topic).is_some_and(|partitions| partitions.contains(&partition))
    }

    fn covers(&self, other: &Self) -> bool {
        other.groups.is_subset(&self.groups)
            && other.partitions.iter().all(|(topic, wanted)| {
                self.partitions.get(topic).is_some_and(|partitions| wanted.is_subset(partitions))
            })
    }

    fn has_room_for_groups(&self, other: &Self) -> bool {
        self.groups.len() + other.groups.difference(&self.groups).count() <= MOST_GROUPS
    }

    fn extend(&mut self, other: &Self) {
        for (topic, partitions) in &other.partitions {
            self.partitions.entry(topic.clone()).or_default().extend(partitions);
        }
        self.groups.extend(other.groups.iter().cloned());
    }
}

/// A transactional id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// Its owner, as markers name it.
    pub(crate) producer: Producer,
    /// The producer id before the epochs of one ran out.
    pub(crate) previous_id: i64,
    /// The producer id to go on with when this end is known everywhere, because epochs have run out.
    pub(crate) next_id: i64,
    /// What the owner had before its epoch was raised at its own wish, so that it may ask again.
    pub(crate) last_epoch: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) phase: Phase,
    pub(crate) protocol: Protocol,
    /// When its transaction began; -1 while there was none.
    pub(crate) started_ms: i64,
    pub(crate) updated_ms: i64,
    pub(crate) places: Places,
}

impl Transaction {
    fn new(id: i64) -> Self {
        Self {
            producer: Producer { id, epoch: NO_EPOCH },
            previous_id: NO_ID,
            next_id: NO_ID,
            last_epoch: NO_EPOCH,
            timeout_ms: 0,
            phase: Phase::Empty,
            protocol: Protocol::First,
            started_ms: -1,
            updated_ms: -1,
            places: Places::default(),
        }
    }

    fn deadline_ms(&self) -> Option<i64> {
        (self.phase == Phase::Ongoing).then(|| self.started_ms.saturating_add(i64::from(self.timeout_ms)))
    }

    fn is_epoch_exhausted(&self) -> bool {
        self.producer.epoch >= LAST_EPOCH
    }

    /// Whom the client is to be from now on.
    fn successor(&self) -> Producer {
        if self.next_id == NO_ID { self.producer } else { Producer { id: self.next_id, epoch: 0 } }
    }

    /// Whether the owner, and not an older instance of it, asks, and may change something now.
    fn check_owner(&self, producer: Producer) -> Result<(), i16> {
        let prepared = matches!(self.phase, Phase::Prepared(_));
        if prepared && self.next_id != NO_ID && producer == self.successor() {
            return Err(code::CONCURRENT_TRANSACTIONS);
        }
        if producer.id != self.producer.id {
            return Err(code::INVALID_PRODUCER_ID_MAPPING);
        }
        if producer.epoch != self.producer.epoch {
            return Err(code::PRODUCER_FENCED);
        }
        if prepared { Err(code::CONCURRENT_TRANSACTIONS) } else { Ok(()) }
    }

    fn add(&mut self, places: &Places, protocol: Protocol, now_ms: i64) {
        if self.phase != Phase::Ongoing {
            self.phase = Phase::Ongoing;
            self.started_ms = now_ms;
        }
        self.protocol = protocol;
        self.updated_ms = now_ms;
        self.places.extend(places);
    }

    /// Whether an instance that says who it was may become the owner.
    fn may_claim(&self, claimed: Option<Producer>) -> bool {
        let Some(claimed) = claimed else { return true };
        self.producer.epoch == NO_EPOCH
            || claimed.id == self.producer.id
            || (claimed.id == self.previous_id && claimed.epoch >= LAST_EPOCH)
    }

    /// Raises the epoch for the client that asks. A repeated request gets the same answer.
    fn renew(&mut self, claimed: Option<Producer>, fresh_id: FreshId<'_>) -> Result<(), i16> {
        let current = self.producer;
        let epoch_claimed = claimed.map(|claimed| claimed.epoch);
        if epoch_claimed.is_some_and(|epoch| epoch == self.last_epoch && current.epoch != NO_EPOCH) {
            return Ok(());
        }
        if epoch_claimed.is_some_and(|epoch| epoch != current.epoch && current.epoch != NO_EPOCH) {
            return Err(code::PRODUCER_FENCED);
        }
        if self.is_epoch_exhausted() {
            self.producer = Producer { id: fresh_id()?, epoch: 0 };
            self.previous_id = current.id;
        } else {
            self.producer.epoch += 1;
        }
        self.last_epoch = if claimed.is_some() { current.epoch } else { NO_EPOCH };
        Ok(())
    }

    /// Decides to abort, under an epoch that no client knows, so that the owner of the old one is fenced. If ends raise
    /// the epoch themselves, one more epoch distinguishes the fenced owner from a client that repeats its request.
    fn fence(&mut self, now_ms: i64) {
        let raise = if self.protocol == Protocol::Second { 2 } else { 1 };
        self.producer.epoch = self.producer.epoch.saturating_add(raise);
        self.last_epoch = NO_EPOCH;
        self.phase = Phase::Prepared(Decision::Abort);
        self.updated_ms = now_ms;
    }

    fn prepare(
        &mut self,
        decision: Decision,
        protocol: Protocol,
        now_ms: i64,
        fresh_id: FreshId<'_>,
    ) -> Result<(), i16> {
        if protocol == Protocol::Second {
            if self.is_epoch_exhausted() {
                self.next_id = fresh_id()?;
            }
            self.last_epoch = self.producer.epoch;
            self.producer.epoch = self.producer.epoch.saturating_add(1);
        }
        if self.phase != Phase::Ongoing {
            self.started_ms = now_ms;
        }
        self.phase = Phase::Prepared(decision);
        self.protocol = protocol;
        self.updated_ms = now_ms;
        Ok(())
    }

    fn judge_first(&self, producer: Producer, decision: Decision) -> Result<Judged, i16> {
        if producer.id != self.producer.id {
            return Err(code::INVALID_PRODUCER_ID_MAPPING);
        }
        if producer.epoch != self.producer.epoch {
            return Err(code::PRODUCER_FENCED);
        }
        match self.phase {
            Phase::Ongoing => Ok(Judged::Prepare),
            Phase::Prepared(decided) if decided == decision => Err(code::CONCURRENT_TRANSACTIONS),
            Phase::Complete(decided) if decided == decision => Ok(Judged::DoneBefore),
            _ => Err(code::INVALID_TXN_STATE),
        }
    }

    /// The epoch has risen with the end, so it marks a repeated request. A client may abort a transaction that has
    /// written nothing, because it can't know whether its records have arrived.
    fn judge_second(&self, producer: Producer, decision: Decision) -> Result<Judged, i16> {
        let same = producer == self.producer;
        let over_the_end = self.previous_id == producer.id
            && self.previous_id != NO_ID
            && producer.epoch == LAST_EPOCH
            && self.producer.epoch == 0
            && matches!(self.phase, Phase::Complete(_));
        if producer.id != self.producer.id && !over_the_end {
            return Err(code::INVALID_PRODUCER_ID_MAPPING);
        }
        let raised_since = producer.id == self.producer.id
            && i32::from(self.producer.epoch) == i32::from(producer.epoch) + 1;
        let repeated = raised_since || over_the_end;
        match self.phase {
            Phase::Ongoing if same => Ok(Judged::Prepare),
            Phase::Empty if same => match decision {
                Decision::Abort => Ok(Judged::Prepare),
                Decision::Commit => Err(code::INVALID_TXN_STATE),
            },
            Phase::Prepared(decided) if repeated => {
                let same = decided == decision;
                Err(if same { code::CONCURRENT_TRANSACTIONS } else { code::INVALID_TXN_STATE })
            }
            Phase::Complete(decided) if repeated => {
                if decided == decision {
                    Ok(Judged::DoneBefore)
                } else {
                    Err(code::INVALID_TXN_STATE)
                }
            }
            Phase::Complete(_) if same => match decision {
                Decision::Abort => Ok(Judged::Prepare),
                Decision::Commit => Err(code::INVALID_TXN_STATE),
            },
            _ => Err(code::PRODUCER_FENCED),
        }
    }

    fn complete(&mut self, decision: Decision, now_ms: i64) {
        self.phase = Phase::Complete(decision);
        if self.next_id != NO_ID {
            self.previous_id = self.producer.id;
            self.producer = self.successor();
            self.next_id = NO_ID;
        }
        self.places = Places::default();
        self.updated_ms = now_ms;
    }
}

enum Judged {
    Prepare,
    /// It is a repeated request, and what it asks has happened.
    DoneBefore,
}

/// What came of InitProducerId.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The id belongs to the client, once the entry is durable.
    Granted(Producer, Entry),
    /// The transaction of the former owner has to be aborted first.
    Fencing,
}

/// The result of EndTxn. Both values carry the client's producer id and epoch from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Decided now; to be carried out.
    Begun(Producer),
    /// Carried out before.
    Done(Producer),
}

/// An open transaction in the log of a partition, as it was found at a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is part of a transaction that ends by itself.
    Kept,
    /// No client will ever end it. The broker must abort it under this owner.
    Stray(Producer),
}

/// All transactional ids.
#[derive(Debug, Default)]
pub(crate) struct Book {
    transactions: BTreeMap<String, Transaction>,
    /// When ongoing transactions run out of time.
    deadlines: BTreeSet<(i64, String)>,
    /// Whose end is decided and not known everywhere.
    prepared: BTreeSet<String>,
}

impl Book {
    /// InitProducerId: `claimed` is whom the client takes itself for, if it says so.
    pub(crate) fn claim(
        &mut self,
        name: &str,
        timeout_ms: i32,
        claimed: Option<Producer>,
        now_ms: i64,
        fresh_id: FreshId<'_>,
    ) -> Result<Claim, i16> {
        if name.is_empty() {
            return Err(code::INVALID_REQUEST);
        }
        if !(1..=MOST_TIMEOUT_MS).contains(&timeout_ms) {
            return Err(code::INVALID_TRANSACTION_TIMEOUT);
        }
        let mut transaction = match self.transactions.get(name) {
            Some(known) => known.clone(),
            None => Transaction::new(fresh_id()?),
        };
        if !transaction.may_claim(claimed) {
            return Err(code::PRODUCER_FENCED);
        }
        match transaction.phase {
            Phase::Prepared(_) => Err(code::CONCURRENT_TRANSACTIONS),
            Phase::Ongoing => {
                if claimed.is_some_and(|claimed| claimed != transaction.producer) {
                    return Err(code::PRODUCER_FENCED);
                }
                transaction.fence(now_ms);
                // The owner itself asks: when it comes again, it gets what is left of the raise.
                transaction.last_epoch = claimed.map_or(NO_EPOCH, |claimed| claimed.epoch);
                self.put(name, transaction);
                Ok(Claim::Fencing)
            }
            Phase::Empty | Phase::Complete(_) => {
                transaction.renew(claimed, fresh_id)?;
                transaction.phase = Phase::Empty;
                transaction.timeout_ms = timeout_ms;
                transaction.started_ms = -1;
                transaction.updated_ms = now_ms;
                let (producer, entry) = (transaction.producer, Entry::image(name, &transaction));
                self.put(name, transaction);
                Ok(Claim::Granted(producer, entry))
            }
        }
    }

    /// Adds places to a transaction, and begins it where there is none. `None` when it has them all.
    pub(crate) fn add(
        &mut self,
        name: &str,
        producer: Producer,
        places: &Places,
        protocol: Protocol,
        now_ms: i64,
    ) -> Result<Option<Entry>, i16> {
        let transaction = self.transactions.get_mut(name).ok_or(code::INVALID_PRODUCER_ID_MAPPING)?;
        transaction.check_owner(producer)?;
        if transaction.phase == Phase::Ongoing && transaction.places.covers(places) {
            return Ok(None);
        }
        if !transaction.places.has_room_for_groups(places) {
            return Err(code::POLICY_VIOLATION);
        }
        Ok(Some(self.extend(name, places, protocol, now_ms)))
    }

    fn extend(&mut self, name: &str, places: &Places, protocol: Protocol, now_ms: i64) -> Entry {
        if let Some(transaction) = self.transactions.get_mut(name) {
            transaction.add(places, protocol, now_ms);
            self.deadlines.extend(transaction.deadline_ms().map(|at| (at, name.to_owned())));
        }
        Entry::Added { name: name.to_owned(), places: places.clone(), protocol, now_ms }
    }

    /// Whether a partition is part of the ongoing transaction of this producer.
    pub(crate) fn verify(
        &self,
        name: &str,
        producer: Producer,
        has: impl FnOnce(&Places) -> bool,
    ) -> Result<(), i16> {
        let transaction = self.transactions.get(name).ok_or(code::INVALID_PRODUCER_ID_MAPPING)?;
        transaction.check_owner(producer)?;
        let part_of_it = transaction.phase == Phase::Ongoing && has(&transaction.places);
        if part_of_it { Ok(()) } else { Err(code::TRANSACTION_ABORTABLE) }
    }

    /// EndTxn.
    pub(crate) fn end(
        &mut self,
        name: &str,
        producer: Producer,
        decision: Decision,
        protocol: Protocol,
        now_ms: i64,
        fresh_id: FreshId<'_>,
    ) -> Result<End, i16> {
        let known = self.transactions.get(name).ok_or(code::INVALID_PRODUCER_ID_MAPPING)?;
        let judged = match protocol {
            Protocol::First => known.judge_first(producer, decision)?,
            Protocol::Second => known.judge_second(producer, decision)?,
        };
        match judged {
            Judged::DoneBefore => Ok(End::Done(known.producer)),
            Judged::Prepare => {
                let mut transaction = known.clone();
                transaction.prepare(decision, protocol, now_ms, fresh_id)?;
                let successor = transaction.successor();
                self.put(name, transaction);
                Ok(End::Begun(successor))
            }
        }
    }

    /// Decides to abort what has run out of time.
    pub(crate) fn abort_overdue(&mut self, now_ms: i64) {
        while let Some((at, name)) = self.deadlines.first().cloned()
            && at <= now_ms
        {
            self.deadlines.pop_first();
            if let Some(mut transaction) = self.transactions.get(&name).cloned()
                && transaction.deadline_ms() == Some(at)
            {
                transaction.fence(now_ms);
                self.put(&name, transaction);
            }
        }
    }

    /// When the next transaction runs out of time.
    pub(crate) fn next_deadline_ms(&self) -> Option<i64> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// What is to be said when the end of a transaction is known everywhere. It is to be applied once it is durable:
    /// if the next transaction could begin before, a start would take its records for those of this one.
    pub(crate) fn completed(&self, name: &str, now_ms: i64) -> Option<Entry> {
        let mut transaction = self.transactions.get(name)?.clone();
        let Phase::Prepared(decision) = transaction.phase else { return None };
        transaction.complete(decision, now_ms);
        Some(Entry::image(name, &transaction))
    }

    /// Forgets ids that no client has used for a week.
    pub(crate) fn expire(&mut self, now_ms: i64) -> Vec<Entry> {
        let silent = |transaction: &Transaction| {
            matches!(transaction.phase, Phase::Empty | Phase::Complete(_))
                && now_ms.saturating_sub(transaction.updated_ms) >= EXPIRY_MS
        };
        let names = self.transactions.iter().filter(|(_, transaction)| silent(transaction));
        let names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.transactions.remove(name);
        }
        names.into_iter().map(|name| Entry::Gone { name }).collect()
    }

    /// What is to be done about an open transaction that a partition was found with at a start. The journal may lack
    /// the last places of a transaction: those of the second protocol are not waited for, but the entry of an end
    /// stands behind them. So an open transaction under the present epoch is an ongoing one, and any other was never
    /// committed.
    pub(crate) fn meet(
        &mut self,
        open: Producer,
        topic: &str,
        partition: i32,
        now_ms: i64,
    ) -> (Found, Option<Entry>) {
        let owner = self.transactions.iter().find(|(_, known)| known.producer.id == open.id);
        let Some((name, transaction)) = owner else { return (Found::Stray(open), None) };
        if transaction.places.has_partition(topic, partition) {
            return (Found::Kept, None);
        }
        if open.epoch != transaction.producer.epoch || matches!(transaction.phase, Phase::Prepared(_)) {
            let epoch = transaction.producer.epoch.max(open.epoch);
            return (Found::Stray(Producer { id: open.id, epoch }), None);
        }
        let (name, protocol) = (name.clone(), transaction.protocol);
        let entry = self.extend(&name, &Places::partition(topic, partition), protocol, now_ms);
        (Found::Kept, Some(entry))
    }

    /// Repeats a step from the journal.
    pub(crate) fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Image { name, transaction } => self.put(&name, *transaction),
            // Nothing is added once an end is decided: this one stood before that, and is repeated behind an image that
            // was gathered since.
            Entry::Added { name, .. } if self.prepared.contains(&name) => (),
            Entry::Added { name, places, protocol, now_ms } => {
                self.extend(&name, &places, protocol, now_ms);
            }
            Entry::Gone { name } => self.remove(&name),
        }
    }

    /// Entries with the full state of the next ids after one, up to this number of ids, and the last of those ids. Changes
    /// can happen between two calls: if their entries follow all of these, a replay restores the register.
    pub(crate) fn images_behind(&self, last: Option<&str>, most: usize) -> (Vec<Vec<u8>>, Option<String>) {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<_> = self.transactions.range::<str, _>((from, Bound::Unbounded)).take(most).collect();
        let images = next.iter().map(|(name, transaction)| Entry::image(name, transaction).to_bytes());
        (images.collect(), next.last().map(|(name, _)| (*name).clone()))
    }

    /// Ids whose end is decided and not known everywhere.
    pub(crate) fn prepared(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.prepared.iter().filter_map(|name| Some((name.as_str(), self.transactions.get(name)?)))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Transaction> {
        self.transactions.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &Transaction)> {
        self.transactions.iter().map(|(name, transaction)| (name.as_str(), transaction))
    }

    /// How many ids are known.
    pub(crate) fn count(&self) -> usize {
        self.transactions.len()
    }

    fn put(&mut self, name: &str, transaction: Transaction) {
        self.forget_times(name);
        self.deadlines.extend(transaction.deadline_ms().map(|at| (at, name.to_owned())));
        if matches!(transaction.phase, Phase::Prepared(_)) {
            self.prepared.insert(name.to_owned());
        }
        self.transactions.insert(name.to_owned(), transaction);
    }

    fn remove(&mut self, name: &str) {
        self.forget_times(name);
        self.transactions.remove(name);
    }

    fn forget_times(&mut self, name: &str) {
        self.prepared.remove(name);
        if let Some(at) = self.transactions.get(name).and_then(Transaction::deadline_ms) {
            self.deadlines.remove(&(at, name.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i32 = 60_000;

    /// A book in which producer ids count up from 100.
    struct Story {
        book: Book,
        next_id: i64,
    }

    fn producer(id: i64, epoch: i16) -> Producer {
        Producer { id, epoch }
    }

    impl Story {
        fn new() -> Self {
            Self { book: Book::default(), next_id: 100 }
        }

        fn claim(&mut self, claimed: Option<Producer>, now_ms: i64) -> Result<Claim, i16> {
            let next_id = &mut self.next_id;
            let mut fresh_id = || {
                *next_id += 1;
                Ok(*next_id - 1)
            };
            self.book.claim("t", MINUTE_MS, claimed, now_ms, &mut fresh_id)
        }

        fn granted(&mut self, claimed: Option<Producer>) -> Producer {
            match self.claim(claimed, 0) {
                Ok(Claim::Granted(producer, _)) => producer,
                other => panic!("{other:?}"),
            }
        }

        fn add(&mut self, producer: Producer, protocol: Protocol) -> Result<Option<Entry>, i16> {
            self.book.add("t", producer, &Places::partition("a", 0), protocol, 1_000)
        }

        fn end(&mut self, producer: Producer, decision: Decision, protocol: Protocol) -> Result<End, i16> {
            let next_id = &mut self.next_id;
            let mut fresh_id = || {
                *next_id += 1;
                Ok(*next_id - 1)
            };
            self.book.end("t", producer, decision, protocol, 2_000, &mut fresh_id)
        }

        fn complete(&mut self, now_ms: i64) {
            let entry = self.book.completed("t", now_ms).unwrap();
            self.book.apply(entry);
        }

        fn phase(&self) -> Phase {
            self.book.get("t").unwrap().phase
        }

        fn set_epoch(&mut self, epoch: i16) -> Producer {
            let transaction = self.book.transactions.get_mut("t").unwrap();
            transaction.producer.epoch = epoch;
            transaction.producer
        }
    }

    #[test]
    fn a_story_in_the_first_protocol() {
        let mut story = Story::new();
        let owner = story.granted(None);
        assert_eq!(owner, producer(100, 0));
        assert_eq!(story.phase(), Phase::Empty);
        assert_eq!(story.end(owner, Decision::Commit, Protocol::First), Err(code::INVALID_TXN_STATE));
        for decision in [Decision::Commit, Decision::Abort] {
            let other = if decision == Decision::Commit { Decision::Abort } else { Decision::Commit };
            assert!(story.add(owner, Protocol::First).unwrap().is_some());
            assert_eq!(story.add(owner, Protocol::First), Ok(None), "known already");
            assert_eq!(story.book.verify("t", owner, |places| places.has_partition("a", 0)), Ok(()));
            let absent = story.book.verify("t", owner, |places| places.has_partition("a", 1));
            assert_eq!(absent, Err(code::TRANSACTION_ABORTABLE));
            assert_eq!(story.end(owner, decision, Protocol::First), Ok(End::Begun(owner)));
            assert_eq!(story.book.prepared().count(), 1);
            assert_eq!(story.book.next_deadline_ms(), None);
            assert_eq!(story.end(owner, decision, Protocol::First), Err(code::CONCURRENT_TRANSACTIONS));
            assert_eq!(story.end(owner, other, Protocol::First), Err(code::INVALID_TXN_STATE));
            assert_eq!(story.add(owner, Protocol::First), Err(code::CONCURRENT_TRANSACTIONS));
            assert_eq!(story.claim(None, 0), Err(code::CONCURRENT_TRANSACTIONS));
            story.complete(3_000);
            assert_eq!(story.book.completed("t", 3_000), None);
            assert_eq!(story.phase(), Phase::Complete(decision));
            assert_eq!(story.end(owner, decision, Protocol::First), Ok(End::Done(owner)), "asked again");
            assert_eq!(story.end(owner, other, Protocol::First), Err(code::INVALID_TXN_STATE));
            assert_eq!(story.book.get("t").unwrap().places, Places::default());
        }
    }

    #[test]
    fn a_story_in_the_second_protocol() {
        let mut story = Story::new();
        let first = story.granted(None);
        assert_eq!(story.end(first, Decision::Commit, Protocol::Second), Err(code::INVALID_TXN_STATE));
        assert!(story.add(first, Protocol::Second).unwrap().is_some());
        let second = producer(100, 1);
        assert_eq!(story.end(first, Decision::Commit, Protocol::Second), Ok(End::Begun(second)));
        let markers = story.book.prepared().next().unwrap().1.producer;
        assert_eq!(markers, second, "the marker fences what was sent late");
        let again = story.end(first, Decision::Commit, Protocol::Second);
        assert_eq!(again, Err(code::CONCURRENT_TRANSACTIONS));
        assert_eq!(story.end(first, Decision::Abort, Protocol::Second), Err(code::INVALID_TXN_STATE));
        assert_eq!(story.end(second, Decision::Commit, Protocol::Second), Err(code::PRODUCER_FENCED));
        assert_eq!(story.add(second, Protocol::Second), Err(code::CONCURRENT_TRANSACTIONS));
        assert_eq!(story.add(first, Protocol::Second), Err(code::PRODUCER_FENCED));
        story.complete(3_000);
        assert_eq!(story.end(first, Decision::Commit, Protocol::Second), Ok(End::Done(second)));
        assert_eq!(story.end(first, Decision::Abort, Protocol::Second), Err(code::INVALID_TXN_STATE));
        // The same epoch is another transaction: it has nothing to commit, and may abort what never came.
        assert_eq!(story.end(second, Decision::Commit, Protocol::Second), Err(code::INVALID_TXN_STATE));
        let third = producer(100, 2);
        assert_eq!(story.end(second, Decision::Abort, Protocol::Second), Ok(End::Begun(third)));
        story.complete(4_000);
        assert_eq!(story.end(second, Decision::Abort, Protocol::Second), Ok(End::Done(third)));
        assert_eq!(story.end(first, Decision::Abort, Protocol::Second), Err(code::PRODUCER_FENCED));
    }

    #[test]
    fn strangers_and_zombies_are_told_apart() {
        let mut story = Story::new();
        let unknown = Err(code::INVALID_PRODUCER_ID_MAPPING);
        assert_eq!(story.add(producer(1, 0), Protocol::First).map(drop), unknown.map(drop));
        assert_eq!(story.end(producer(1, 0), Decision::Commit, Protocol::First), unknown);
        assert_eq!(story.end(producer(1, 0), Decision::Commit, Protocol::Second), unknown);
        assert_eq!(story.book.verify("t", producer(1, 0), |_| true), Err(code::INVALID_PRODUCER_ID_MAPPING));
        let old = story.granted(None);
        let new = story.granted(None);
        assert_eq!(new, producer(100, 1));
        for protocol in [Protocol::First, Protocol::Second] {
            assert_eq!(story.add(old, protocol), Err(code::PRODUCER_FENCED));
            assert_eq!(story.end(old, Decision::Abort, protocol), Err(code::PRODUCER_FENCED));
            let other = producer(7, 1);
            assert_eq!(story.add(other, protocol), Err(code::INVALID_PRODUCER_ID_MAPPING));
            assert_eq!(story.end(other, Decision::Abort, protocol), unknown);
        }
        assert_eq!(story.book.verify("t", old, |_| true), Err(code::PRODUCER_FENCED));
    }

    #[test]
    fn what_can_not_be_claimed() {
        let mut story = Story::new();
        let mut fresh_id = || Ok(5);
        let mut claim = |name: &str, timeout_ms| story.book.claim(name, timeout_ms, None, 0, &mut fresh_id);
        assert_eq!(claim("", 1), Err(code::INVALID_REQUEST));
        for timeout_ms in [0, -1, MOST_TIMEOUT_MS + 1] {
            assert_eq!(claim("t", timeout_ms), Err(code::INVALID_TRANSACTION_TIMEOUT));
        }
        assert!(claim("t", MOST_TIMEOUT_MS).is_ok());
        let failed = story.book.claim("u", 1, None, 0, &mut || Err(code::KAFKA_STORAGE_ERROR));
        assert_eq!(failed, Err(code::KAFKA_STORAGE_ERROR));
        assert!(story.book.get("u").is_none(), "nothing has changed");
    }

    /// KIP-360: a producer that has met an error raises its own epoch, and may ask twice.
    #[test]
    fn an_owner_renews_itself() {
        let mut story = Story::new();
        // Forgotten here, and remembered there.
        assert_eq!(story.granted(Some(producer(55, 9))), producer(100, 0));
        assert_eq!(story.granted(Some(producer(100, 0))), producer(100, 1));
        assert_eq!(story.granted(Some(producer(100, 0))), producer(100, 1), "the answer was lost");
        assert_eq!(story.granted(Some(producer(100, 1))), producer(100, 2));
        assert_eq!(story.claim(Some(producer(100, 0)), 0), Err(code::PRODUCER_FENCED));
        assert_eq!(story.claim(Some(producer(99, 2)), 0), Err(code::PRODUCER_FENCED));
        // Another instance took over in between.
        assert_eq!(story.granted(None), producer(100, 3));
        assert_eq!(story.claim(Some(producer(100, 2)), 0), Err(code::PRODUCER_FENCED));
    }

    #[test]
    fn a_new_instance_aborts_what_the_old_one_left() {
        for (protocol, raised) in [(Protocol::First, 1), (Protocol::Second, 2)] {
            let mut story = Story::new();
            let old = story.granted(None);
            story.add(old, protocol).unwrap();
            assert_eq!(story.claim(Some(producer(100, 4)), 0), Err(code::PRODUCER_FENCED));
            assert_eq!(story.claim(None, 0), Ok(Claim::Fencing));
            assert_eq!(story.phase(), Phase::Prepared(Decision::Abort));
            assert_eq!(story.book.get("t").unwrap().producer, producer(100, raised));
            for decision in [Decision::Commit, Decision::Abort] {
                assert_eq!(story.end(old, decision, protocol), Err(code::PRODUCER_FENCED));
            }
            assert_eq!(story.claim(None, 0), Err(code::CONCURRENT_TRANSACTIONS));
            story.complete(5);
            assert_eq!(story.end(old, Decision::Abort, protocol), Err(code::PRODUCER_FENCED));
            assert_eq!(story.granted(None), producer(100, raised + 1));
        }
    }

    #[test]
    fn an_owner_that_renews_itself_in_a_transaction_is_not_fenced_by_itself() {
        let mut story = Story::new();
        let owner = story.granted(None);
        story.add(owner, Protocol::First).unwrap();
        assert_eq!(story.claim(Some(owner), 0), Ok(Claim::Fencing));
        story.complete(5);
        assert_eq!(story.granted(Some(owner)), producer(100, 1));
        assert_eq!(story.phase(), Phase::Empty);
    }

    #[test]
    fn a_transaction_out_of_time_is_aborted_and_its_owner_fenced() {
        let mut story = Story::new();
        let owner = story.granted(None);
        story.add(owner, Protocol::First).unwrap();
        let deadline = 1_000 + i64::from(MINUTE_MS);
        assert_eq!(story.book.next_deadline_ms(), Some(deadline));
        story.book.abort_overdue(deadline - 1);
        assert_eq!(story.phase(), Phase::Ongoing);
        story.book.abort_overdue(deadline);
        assert_eq!(story.phase(), Phase::Prepared(Decision::Abort));
        assert_eq!(story.book.next_deadline_ms(), None);
        assert_eq!(story.end(owner, Decision::Commit, Protocol::First), Err(code::PRODUCER_FENCED));
        story.complete(deadline);
        assert_eq!(story.granted(None), producer(100, 2));
    }

    #[test]
    fn when_epochs_run_out_the_producer_gets_a_new_id() {
        let mut story = Story::new();
        story.granted(None);
        let last = story.set_epoch(LAST_EPOCH);
        assert_eq!(story.granted(Some(last)), producer(101, 0));
        assert_eq!(story.granted(Some(last)), producer(101, 0), "asked again under the old id");
        assert_eq!(story.claim(Some(producer(100, 5)), 0), Err(code::PRODUCER_FENCED));

        let last = story.set_epoch(LAST_EPOCH);
        story.add(last, Protocol::Second).unwrap();
        let next = producer(102, 0);
        assert_eq!(story.end(last, Decision::Commit, Protocol::Second), Ok(End::Begun(next)));
        assert_eq!(story.book.prepared().next().unwrap().1.producer, producer(101, i16::MAX));
        assert_eq!(story.add(next, Protocol::Second), Err(code::CONCURRENT_TRANSACTIONS));
        story.complete(5);
        assert_eq!(story.end(last, Decision::Commit, Protocol::Second), Ok(End::Done(next)));
        assert_eq!(story.end(last, Decision::Abort, Protocol::Second), Err(code::INVALID_TXN_STATE));
        assert!(story.add(next, Protocol::Second).is_ok());

        // Fencing may use up what is behind the last epoch; then the next owner gets a new id, too.
        let last = story.set_epoch(LAST_EPOCH);
        story.claim(None, 0).unwrap();
        assert_eq!(story.book.get("t").unwrap().producer, producer(last.id, i16::MAX));
        story.complete(5);
        assert_eq!(story.granted(None), producer(103, 0));
    }

    #[test]
    fn the_groups_of_a_transaction_are_limited_and_those_that_are_in_it_go_on() {
        let mut story = Story::new();
        let owner = story.granted(None);
        let add = |story: &mut Story, group: usize| {
            let places = Places::group(&format!("g{group}"));
            story.book.add("t", owner, &places, Protocol::First, 0).map(|entry| entry.is_some())
        };
        for group in 0..MOST_GROUPS {
            assert_eq!(add(&mut story, group), Ok(true));
        }
        assert_eq!(add(&mut story, MOST_GROUPS), Err(code::POLICY_VIOLATION));
        assert_eq!(add(&mut story, 7), Ok(false));
        assert!(story.add(owner, Protocol::First).is_ok(), "partitions have another limit");
        story.end(owner, Decision::Commit, Protocol::First).unwrap();
        story.complete(0);
        assert_eq!(add(&mut story, MOST_GROUPS), Ok(true), "the next transaction begins with none");
    }

    #[test]
    fn ids_that_nobody_uses_are_forgotten_after_a_week() {
        let mut story = Story::new();
        story.granted(None);
        assert_eq!(story.book.expire(EXPIRY_MS - 1), []);
        assert_eq!(story.book.expire(EXPIRY_MS), [Entry::Gone { name: "t".to_owned() }]);
        assert!(story.book.get("t").is_none());
        let owner = story.granted(None);
        story.add(owner, Protocol::First).unwrap();
        assert_eq!(story.book.expire(EXPIRY_MS * 2), [], "never in a transaction");
    }

    #[test]
    fn open_transactions_are_met_at_a_start() {
        let mut story = Story::new();
        let owner = story.granted(None);
        // Nobody knows the producer: its own epoch ends it.
        let stranger = producer(7, 3);
        assert_eq!(story.book.meet(stranger, "a", 0, 0), (Found::Stray(stranger), None));
        // The entry of the place was lost, the records were not: it goes on.
        let (found, entry) = story.book.meet(owner, "a", 0, 5_000);
        assert_eq!(found, Found::Kept);
        assert!(entry.is_some());
        assert_eq!(story.phase(), Phase::Ongoing);
        assert_eq!(story.book.next_deadline_ms(), Some(5_000 + i64::from(MINUTE_MS)));
        assert_eq!(story.book.meet(owner, "a", 0, 6_000), (Found::Kept, None));
        story.end(owner, Decision::Commit, Protocol::First).unwrap();
        assert_eq!(story.book.meet(owner, "a", 0, 6_000), (Found::Kept, None), "its marker is to come");
        assert_eq!(story.book.meet(owner, "b", 0, 6_000), (Found::Stray(owner), None));
        story.complete(6_000);
        let renewed = story.granted(None);
        assert_eq!(story.book.meet(owner, "a", 0, 7_000), (Found::Stray(renewed), None), "an old epoch");
    }

    #[test]
    fn the_journal_repeats_every_step() {
        let mut story = Story::new();
        let mut again = Book::default();
        let mut repeat = |entry: Entry| again.apply(Entry::parse(&entry.to_bytes()).unwrap());
        let Ok(Claim::Granted(owner, entry)) = story.claim(None, 0) else { panic!("refused") };
        repeat(entry);
        for places in [Places::partition("a", 0), Places::partition("a", 7), Places::group("g")] {
            repeat(story.book.add("t", owner, &places, Protocol::Second, 1_000).unwrap().unwrap());
        }
        story.end(owner, Decision::Commit, Protocol::Second).unwrap();
        repeat(Entry::image("t", story.book.get("t").unwrap()));
        repeat(story.book.completed("t", 9).unwrap());
        story.complete(9);
        assert_eq!(again.transactions, story.book.transactions);
        assert_eq!(again.prepared, story.book.prepared);
        story.add(producer(100, 1), Protocol::Second).unwrap();
        let (images, _) = story.book.images_behind(None, 10);
        let mut anew = Book::default();
        images.iter().for_each(|image| anew.apply(Entry::parse(image).unwrap()));
        assert_eq!(anew.transactions, story.book.transactions);
        assert_eq!(anew.deadlines, story.book.deadlines);
        anew.apply(Entry::Gone { name: "t".to_owned() });
        assert!(anew.transactions.is_empty() && anew.deadlines.is_empty() && anew.prepared.is_empty());
    }

    /// Every id goes so many steps before it is gathered and the rest after, and all of its entries are repeated behind.
    #[test]
    fn images_gathered_in_pieces_say_with_what_came_meanwhile_what_the_book_says() {
        let mut book = Book::default();
        let names: Vec<String> = (0..10).map(|number| format!("t{number}")).collect();
        let mut owners = Vec::new();
        for (id, name) in (0..).zip(&names) {
            let claim = book.claim(name, MINUTE_MS, None, 0, &mut || Ok(id)).unwrap();
            let Claim::Granted(owner, _) = claim else { panic!("{claim:?}") };
            owners.push(owner);
        }
        let mut entries = Vec::new();
        // Two partitions, the decision (which has no entry before it is carried out), its entries, the next transaction.
        let mut step = |book: &mut Book, number: usize, step: usize| {
            let (name, owner) = (&names[number], owners[number]);
            let next = Producer { epoch: owner.epoch + 1, ..owner };
            let add = |book: &mut Book, owner, places| {
                book.add(name, owner, &places, Protocol::Second, 1_000 + step as i64).unwrap().unwrap()
            };
            match step {
                0 => entries.push(add(book, owner, Places::partition("a", 0))),
                1 => entries.push(add(book, owner, Places::partition("b", 1))),
                2 => {
                    let mut none = || -> Result<i64, i16> { panic!("no id is used up") };
                    book.end(name, owner, Decision::Commit, Protocol::Second, 2_000, &mut none).unwrap();
                }
                3 => entries.push(Entry::image(name, book.get(name).unwrap())),
                4 => {
                    let completed = book.completed(name, 3_000).unwrap();
                    book.apply(completed.clone());
                    entries.push(completed);
                }
                _ => entries.push(add(book, next, Places::partition("c", 2))),
            }
        };
        // In the end t0 has gone no step, t1 one and so on, a quarter of them before the first piece is gathered. None ends
        // with a decision that has no entry: that is lost with the process.
        let until = |number: usize| if number == 3 { 4 } else { number.min(6) };
        let mut images = Vec::new();
        let mut last = None;
        let mut done = [0; 10];
        for piece in 0.. {
            for (number, done) in done.iter_mut().enumerate() {
                let to = if piece < 3 { until(number) * (piece + 1) / 4 } else { until(number) };
                (*done..to).for_each(|next| step(&mut book, number, next));
                *done = to;
            }
            let (next, behind) = book.images_behind(last.as_deref(), 3);
            assert!(next.len() <= 3);
            images.extend(next);
            last = behind;
            if last.is_none() {
                break;
            }
        }
        assert_eq!(images.len(), 10);
        let mut anew = Book::default();
        images.iter().for_each(|image| anew.apply(Entry::parse(image).unwrap()));
        entries.into_iter().for_each(|entry| anew.apply(entry));
        assert_eq!(anew.transactions, book.transactions);
        assert_eq!((anew.deadlines, anew.prepared), (book.deadlines, book.prepared));
    }

    #[test]
    fn a_place_that_is_repeated_does_not_open_a_transaction_whose_end_is_decided() {
        let mut story = Story::new();
        let owner = story.granted(None);
        let added = story.add(owner, Protocol::Second).unwrap().unwrap();
        story.end(owner, Decision::Commit, Protocol::Second).unwrap();
        let decided = story.book.get("t").unwrap().clone();
        story.book.apply(added);
        assert_eq!(story.book.get("t"), Some(&decided));
    }
}
