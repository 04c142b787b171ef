//! Transactions: what the handlers of their APIs ask, and the thread that carries out how they end.
//!
//! A transaction that ends goes through three steps, each durable before the next one begins: the decision in the
//! journal; a marker in every partition and the verdict on the staged offsets of its groups; and "complete" in the
//! journal. A start repeats what a kill has cut off, and repeating any of it does no harm: a second marker finds no
//! open transaction, a second verdict no staged offsets.
//!
//! The answer to EndTxn waits for all three. Clients of Kafka are answered after the first, and the beginning of their
//! next transaction then is refused until the others are done; here it never is.

mod admissions;
#[cfg(test)]
mod crash_tests;
mod entry;
pub(crate) mod producer;
mod state;

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hone_kafka::BatchHeader;

use crate::code;
use crate::journal::{Damage, Journal, Post};
use crate::limits::Limits;
use crate::notices::Notices;
use crate::reply::Reply;
use crate::ticket::Ticket;
use crate::wall_clock::unix_ms;

pub(crate) use admissions::Admission;
pub(crate) use state::{Decision, FreshId, Phase, Places, Protocol, Transaction};

use admissions::Admissions;
use entry::Entry;
use producer::Producer;
use state::{Book, Claim, End, Found};

const JOURNAL_FILE: &str = "transactions.journal";
/// Between two attempts to end a transaction in a partition that can't be written.
const RETRY_MS: i64 = 1_000;
/// Between two looks whether the last batches of a transaction that ends have come to their logs.
const ARRIVAL_CHECK: Duration = Duration::from_millis(1);
/// Time between two checks for unused ids.
const EXPIRY_CHECK_MS: i64 = 3_600_000;

/// First version of Produce in the second protocol.
const PRODUCE_ANNOUNCES: i16 = 12;

/// A decided end, to be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) name: String,
    pub(crate) producer: Producer,
    pub(crate) decision: Decision,
    pub(crate) places: Places,
}

/// Number of ids that one hold of the register's lock rewrites to the journal.
const IMAGES_AT_ONCE: usize = 1000;

/// Where ends are carried out: the partitions and the groups' offsets.
pub(crate) trait Ends {
    /// Brings the ends to all their places, durably. One result for each; an error is a reason to try again later.
    fn carry_out(&self, endings: &[Ending]) -> Vec<Result<(), String>>;
}

/// All transactions of a broker.
pub(crate) struct Transactions {
    journal: Journal,
    register: Mutex<Register>,
    /// Rings for the thread that carries out ends.
    bell: Condvar,
    notices: Notices,
    most_ids: usize,
    admissions: Admissions,
}

#[derive(Default)]
struct Register {
    book: Book,
    /// The requests to answer when a transaction has ended.
    waiting: HashMap<String, Vec<(Ticket, Reply)>>,
    post: Option<Post>,
    stopping: bool,
}

/// What the carrying thread remembers between two turns.
struct Turns {
    /// Ends that are decided durably and could not be carried out.
    stuck: HashSet<String>,
    retry_at_ms: i64,
    /// Ends whose decision could not be made durable. The next start decides again.
    given_up: HashSet<String>,
    expiry_at_ms: i64,
}

impl Transactions {
    /// Opens the journal in a data folder, or keeps everything in memory.
    pub(crate) fn open(data_dir: Option<&Path>, notices: &Notices) -> io::Result<Self> {
        let mut book = Book::default();
        let replay = |bytes: &[u8]| match Entry::parse(bytes) {
            Ok(entry) => book.apply(entry),
            Err(error) => notices.say(&format!("skipped an entry of {JOURNAL_FILE}: {error}")),
        };
        let journal = match data_dir {
            Some(data_dir) => Journal::open(&data_dir.join(JOURNAL_FILE), Damage::Refuse, notices, replay)?,
            None => Journal::in_memory(),
        };
        let register = Mutex::new(Register { book, ..Register::default() });
        Ok(Self {
            journal,
            register,
            bell: Condvar::new(),
            notices: notices.clone(),
            most_ids: Limits::default().transactional_ids,
            admissions: Admissions::default(),
        })
    }

    /// Sets the maximum number of transactional ids. Existing ones beyond the limit stay.
    pub(crate) fn limited(self, most_ids: usize) -> Self {
        Self { most_ids, ..self }
    }

    /// Says where answers go.
    pub(crate) fn post_to(&self, post: Post) {
        self.journal.post_to(Post::clone(&post));
        self.register().post = Some(post);
    }

    fn register(&self) -> MutexGuard<'_, Register> {
        // Each step of the book is whole when it returns, and a handler that panics is not inside of one.
        self.register.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// InitProducerId. The ticket gets [`Reply::Producer`] once the id is durable.
    pub(crate) fn claim(
        &self,
        ticket: Ticket,
        name: &str,
        timeout_ms: i32,
        claimed: Option<Producer>,
        fresh_id: FreshId<'_>,
    ) -> Result<(), i16> {
        let mut register = self.register();
        if register.book.get(name).is_none() && register.book.count() >= self.most_ids {
            return Err(code::POLICY_VIOLATION);
        }
        match register.book.claim(name, timeout_ms, claimed, unix_ms(), fresh_id)? {
            Claim::Granted(producer, entry) => {
                self.journal.append(entry.to_bytes(), Some((ticket, Reply::Producer(producer))));
                Ok(())
            }
            Claim::Fencing => {
                self.bell.notify_all();
                Err(code::CONCURRENT_TRANSACTIONS)
            }
        }
    }

    /// AddPartitionsToTxn and AddOffsetsToTxn, for one or more transactions. Returns an error code for each that was
    /// refused, and whether the ticket gets [`Reply::Code`] once all that is new is durable.
    pub(crate) fn add<'a>(
        &self,
        ticket: Ticket,
        asked: impl IntoIterator<Item = (&'a str, Producer, Places)>,
    ) -> (Vec<Result<(), i16>>, bool) {
        let mut register = self.register();
        let mut entries = Vec::new();
        let mut results = Vec::new();
        for (name, producer, places) in asked {
            let added = register.add(&self.bell, name, producer, &places, Protocol::First);
            results.push(added.map(|entry| entries.extend(entry)));
        }
        let last = entries.pop();
        let waits = last.is_some();
        for entry in entries {
            self.journal.append(entry.to_bytes(), None);
        }
        // Entries become durable in order.
        if let Some(entry) = last {
            self.journal.append(entry.to_bytes(), Some((ticket, Reply::Code(code::NONE))));
        }
        (results, waits)
    }

    /// Whether places are part of the ongoing transaction of this producer; an error code if not.
    pub(crate) fn verify(
        &self,
        name: &str,
        producer: Producer,
        has: impl FnOnce(&Places) -> bool,
    ) -> Result<(), i16> {
        self.register().book.verify(name, producer, has)
    }

    /// Whether a transactional batch may be appended to a partition; an error code of Produce if not. Only from
    /// version 12 on does Produce make the partition a part of the transaction. The transaction does not end as long as
    /// what is returned lives, which is to be until the batch is in the log.
    pub(crate) fn admit(
        &self,
        version: i16,
        name: Option<&str>,
        header: &BatchHeader,
        topic: &str,
        partition: i32,
    ) -> Result<Admission, i16> {
        let Some(name) = name else { return Err(code::INVALID_TXN_STATE) };
        let (id, epoch) = (header.producer_id, header.producer_epoch);
        let admission = self.admissions.begin(id);
        if version >= PRODUCE_ANNOUNCES {
            self.implicitly_add(name, id, epoch, topic, partition)?;
        } else {
            self.check_produce(name, id, epoch, topic, partition)?;
        }
        Ok(admission)
    }

    /// Whether batches of a transaction that ends are on their way to their logs.
    fn awaits_batches(&self, transaction: &Transaction) -> bool {
        let producer = transaction.producer;
        self.admissions.has(producer.id)
    }

    /// Whether a transactional batch may be appended, in a version of Produce below 12: its partition must have been
    /// announced. The error code is one that Produce answers with.
    pub(crate) fn check_produce(
        &self,
        name: &str,
        producer_id: i64,
        epoch: i16,
        topic: &str,
        partition: i32,
    ) -> Result<(), i16> {
        let producer = Producer { id: producer_id, epoch };
        self.verify(name, producer, |places| places.has_partition(topic, partition)).map_err(|error| {
            match error {
                code::PRODUCER_FENCED => code::INVALID_PRODUCER_EPOCH,
                // The older clients know no better one to repeat the request for.
                code::CONCURRENT_TRANSACTIONS => code::NOT_ENOUGH_REPLICAS,
                code::TRANSACTION_ABORTABLE => code::INVALID_TXN_STATE,
                other => other,
            }
        })
    }

    /// Makes the partition of a transactional batch a part of the transaction. Nothing is waited for: the entry of the
    /// end, which is waited for, stands behind this one, and a start finds what is open in the logs.
    pub(crate) fn implicitly_add(
        &self,
        name: &str,
        producer_id: i64,
        epoch: i16,
        topic: &str,
        partition: i32,
    ) -> Result<(), i16> {
        let producer = Producer { id: producer_id, epoch };
        let added = match self.verify(name, producer, |places| places.has_partition(topic, partition)) {
            Err(code::TRANSACTION_ABORTABLE) => {
                let mut register = self.register();
                let places = Places::partition(topic, partition);
                register.add(&self.bell, name, producer, &places, Protocol::Second).map(|entry| {
                    entry.into_iter().for_each(|entry| self.journal.append(entry.to_bytes(), None));
                })
            }
            known => known,
        };
        added.map_err(|error| match error {
            code::PRODUCER_FENCED => code::INVALID_PRODUCER_EPOCH,
            other => other,
        })
    }

    /// Adds the offsets of a group to the transaction, as TxnOffsetCommit does from version 5 on. Returns whether the
    /// ticket gets [`Reply::Producer`] once that is durable. It must be durable, because no log records it for a later
    /// start.
    pub(crate) fn add_group(
        &self,
        ticket: Ticket,
        name: &str,
        producer: Producer,
        group: &str,
    ) -> Result<bool, i16> {
        let mut register = self.register();
        let entry = register.add(&self.bell, name, producer, &Places::group(group), Protocol::Second)?;
        let waits = entry.is_some();
        if let Some(entry) = entry {
            self.journal.append(entry.to_bytes(), Some((ticket, Reply::Producer(producer))));
        }
        Ok(waits)
    }

    /// Runs `stage` if the offsets of a group are part of the transaction. It can't end in between, so nothing is
    /// staged behind a verdict; therefore `stage` must not block.
    pub(crate) fn stage(
        &self,
        name: &str,
        producer: Producer,
        group: &str,
        stage: impl FnOnce(),
    ) -> Result<(), i16> {
        let register = self.register();
        register.book.verify(name, producer, |places| places.groups.contains(group))?;
        stage();
        Ok(())
    }

    /// EndTxn. Returns whom the client is to be when what it asks had happened before; otherwise the ticket gets
    /// [`Reply::Producer`] with that when it has.
    pub(crate) fn end(
        &self,
        ticket: Ticket,
        name: &str,
        producer: Producer,
        decision: Decision,
        protocol: Protocol,
        fresh_id: FreshId<'_>,
    ) -> Result<Option<Producer>, i16> {
        let mut register = self.register();
        match register.book.end(name, producer, decision, protocol, unix_ms(), fresh_id)? {
            End::Done(successor) => Ok(Some(successor)),
            End::Begun(successor) => {
                let told = (ticket, Reply::Producer(successor));
                register.waiting.entry(name.to_owned()).or_default().push(told);
                self.bell.notify_all();
                Ok(None)
            }
        }
    }

    /// What is known of an id.
    pub(crate) fn describe(&self, name: &str) -> Option<Transaction> {
        self.register().book.get(name).cloned()
    }

    /// What `look` makes of every id.
    pub(crate) fn list<T>(&self, mut look: impl FnMut(&str, &Transaction) -> Option<T>) -> Vec<T> {
        self.register().book.all().filter_map(|(name, transaction)| look(name, transaction)).collect()
    }

    /// Registers an open transaction that a partition had at a start. Returns the owner under which to abort it, if no
    /// client can ever end it.
    pub(crate) fn meet(&self, open: Producer, topic: &str, partition: i32) -> Option<Producer> {
        let mut register = self.register();
        let (found, entry) = register.book.meet(open, topic, partition, unix_ms());
        if let Some(entry) = entry {
            self.journal.append(entry.to_bytes(), None);
        }
        match found {
            Found::Kept => None,
            Found::Stray(producer) => Some(producer),
        }
    }

    /// Ends the thread in [`Transactions::run`] after its turn.
    pub(crate) fn stop(&self) {
        self.register().stopping = true;
        self.bell.notify_all();
    }

    /// Carries out ends, aborts expired transactions and forgets unused ids, until [`Transactions::stop`].
    pub(crate) fn run(&self, ends: &impl Ends) {
        let mut turns = Turns::new(unix_ms());
        while self.wait(&turns) {
            self.turn(&mut turns, unix_ms(), ends);
        }
    }

    /// One turn, for a driver without threads.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn turn_once(&self, ends: &impl Ends) {
        let now_ms = unix_ms();
        self.turn(&mut Turns::new(now_ms), now_ms, ends);
    }

    /// Makes all accepted entries durable, and accepts no more. The broker must have stopped serving clients before: a
    /// client that gets a storage error gives up, but a client that loses its connection comes back.
    pub(crate) fn close(&self) {
        self.journal.close();
    }

    /// Waits for something to do; `false` when the broker stops.
    fn wait(&self, turns: &Turns) -> bool {
        let mut register = self.register();
        loop {
            if register.stopping {
                return false;
            }
            let now = unix_ms();
            let next = turns.next_ms(&register.book);
            let fresh = || register.book.prepared().filter(|(name, _)| turns.is_new(name));
            if next <= now || fresh().any(|(_, transaction)| !self.awaits_batches(transaction)) {
                return true;
            }
            let is_late = fresh().next().is_some();
            let pause = Duration::from_millis(next.saturating_sub(now).unsigned_abs());
            let pause = if is_late { pause.min(ARRIVAL_CHECK) } else { pause };
            register = self.bell.wait_timeout(register, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn turn(&self, turns: &mut Turns, now_ms: i64, ends: &impl Ends) {
        let retry = now_ms >= turns.retry_at_ms;
        let (fresh, mut endings) = {
            let mut register = self.register();
            register.book.abort_overdue(now_ms);
            if now_ms >= turns.expiry_at_ms {
                turns.expiry_at_ms = now_ms.saturating_add(EXPIRY_CHECK_MS);
                for gone in register.book.expire(now_ms) {
                    self.journal.append(gone.to_bytes(), None);
                }
            }
            let stuck = register.book.prepared().filter(|(name, _)| retry && turns.stuck.contains(*name));
            let stuck: Vec<_> = stuck.filter_map(|(name, transaction)| ending(name, transaction)).collect();
            let fresh = register.book.prepared().filter(|(name, _)| turns.is_new(name));
            let fresh = fresh.filter(|(_, transaction)| !self.awaits_batches(transaction));
            let fresh: Vec<_> =
                fresh.map(|(name, transaction)| (name.to_owned(), transaction.clone())).collect();
            (fresh, stuck)
        };
        if retry {
            turns.retry_at_ms = now_ms.saturating_add(RETRY_MS);
        }
        // Between the decision and the end of a transaction, no other thread writes entries of its id. So the order of
        // these entries among those of other ids does not matter, and the register stays unlocked during the disk's
        // work.
        let decided = fresh.iter().map(|(name, transaction)| Entry::image(name, transaction));
        if self.make_durable(decided.collect()) {
            endings.extend(fresh.iter().filter_map(|(name, transaction)| ending(name, transaction)));
        } else {
            self.give_up(turns, fresh.into_iter().map(|(name, _)| name));
        }
        self.carry_out(turns, now_ms, &endings, ends);
        self.compact_if_grown();
    }

    /// Whether all entries are durable now. If not, the journal has reported the reason.
    fn make_durable(&self, mut entries: Vec<Entry>) -> bool {
        let Some(last) = entries.pop() else { return true };
        for entry in entries {
            self.journal.append(entry.to_bytes(), None);
        }
        self.journal.append_and_wait(last.to_bytes()).is_ok()
    }

    fn give_up(&self, turns: &mut Turns, names: impl IntoIterator<Item = String>) {
        for name in names {
            self.tell(&name, Some(code::KAFKA_STORAGE_ERROR));
            turns.stuck.remove(&name);
            turns.given_up.insert(name);
        }
    }

    fn carry_out(&self, turns: &mut Turns, now_ms: i64, endings: &[Ending], ends: &impl Ends) {
        if endings.is_empty() {
            return;
        }
        let mut carried_out = Vec::new();
        for (ending, result) in endings.iter().zip(ends.carry_out(endings)) {
            match result {
                Ok(()) => carried_out.push(ending.name.clone()),
                Err(reason) => self.note_stuck(turns, ending, &reason),
            }
        }
        let completed: Vec<Entry> = {
            let register = self.register();
            carried_out.iter().filter_map(|name| register.book.completed(name, now_ms)).collect()
        };
        if !self.make_durable(completed.clone()) {
            self.give_up(turns, carried_out);
            return;
        }
        {
            let mut register = self.register();
            completed.into_iter().for_each(|entry| register.book.apply(entry));
        }
        for name in carried_out {
            turns.stuck.remove(&name);
            self.tell(&name, None);
        }
    }

    /// Records an end that did not reach every partition. The client still gets its answer, because the decision is
    /// final.
    fn note_stuck(&self, turns: &mut Turns, ending: &Ending, reason: &str) {
        let name = &ending.name;
        if turns.stuck.insert(name.clone()) {
            self.notices.say(&format!(
                "can't end the transaction of `{name}` on every partition: {reason}; its outcome is final, \
                 and the broker tries again"
            ));
        }
        self.tell(name, None);
    }

    /// Answers those who wait for an end.
    fn tell(&self, name: &str, error: Option<i16>) {
        let (told, post) = {
            let mut register = self.register();
            (register.waiting.remove(name).unwrap_or_default(), register.post.clone())
        };
        let Some(post) = post else { return };
        for (ticket, reply) in told {
            post(ticket, error.map_or(reply, Reply::Code));
        }
    }

    fn compact_if_grown(&self) {
        if !self.journal.wants_rewrite() {
            return;
        }
        // Clients wait for the register, so it is free between the pieces. Entries that are appended meanwhile come behind.
        self.journal.mark();
        let mut images = Vec::new();
        let mut last = None;
        loop {
            let (next, behind) = self.register().book.images_behind(last.as_deref(), IMAGES_AT_ONCE);
            images.extend(next);
            last = behind;
            if last.is_none() {
                break;
            }
        }
        self.journal.rewrite(images);
    }
}

impl Register {
    /// Adds places, and rings if the thread that watches over times has to wake earlier for that.
    fn add(
        &mut self,
        bell: &Condvar,
        name: &str,
        producer: Producer,
        places: &Places,
        protocol: Protocol,
    ) -> Result<Option<Entry>, i16> {
        let before = self.book.next_deadline_ms();
        let entry = self.book.add(name, producer, places, protocol, unix_ms())?;
        if self.book.next_deadline_ms() != before {
            bell.notify_all();
        }
        Ok(entry)
    }
}

impl Turns {
    fn new(now_ms: i64) -> Self {
        Self { stuck: HashSet::new(), retry_at_ms: now_ms, given_up: HashSet::new(), expiry_at_ms: now_ms }
    }

    fn is_new(&self, name: &str) -> bool {
        !self.stuck.contains(name) && !self.given_up.contains(name)
    }

    fn next_ms(&self, book: &Book) -> i64 {
        let retry = (!self.stuck.is_empty()).then_some(self.retry_at_ms);
        let times = [retry, book.next_deadline_ms()];
        times.into_iter().flatten().fold(self.expiry_at_ms, i64::min)
    }
}

fn ending(name: &str, transaction: &Transaction) -> Option<Ending> {
    let Phase::Prepared(decision) = transaction.phase else { return None };
    Some(Ending {
        name: name.to_owned(),
        producer: transaction.producer,
        decision,
        places: transaction.places.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, mpsc};

    use super::*;

    const TICKET: Ticket = Ticket { reactor: 0, connection: 5 };

    /// Ends that succeed, or not.
    #[derive(Default)]
    struct TestEnds {
        broken: AtomicBool,
        calls: AtomicUsize,
    }

    impl Ends for TestEnds {
        fn carry_out(&self, endings: &[Ending]) -> Vec<Result<(), String>> {
            self.calls.fetch_add(1, SeqCst);
            let broken = self.broken.load(SeqCst);
            endings.iter().map(|_| if broken { Err("planted".to_owned()) } else { Ok(()) }).collect()
        }
    }

    fn open(folder: &Path) -> (Transactions, mpsc::Receiver<Reply>) {
        let transactions = Transactions::open(Some(folder), &Notices::nowhere()).unwrap();
        let (sender, receiver) = mpsc::channel();
        transactions.post_to(Arc::new(move |_, reply| {
            let _ = sender.send(reply);
        }));
        (transactions, receiver)
    }

    /// Claims the id and begins a transaction.
    fn begin(transactions: &Transactions, answers: &mpsc::Receiver<Reply>) -> Producer {
        transactions.claim(TICKET, "x", 60_000, None, &mut || Ok(7)).unwrap();
        let Reply::Producer(producer) = answers.recv().unwrap() else { panic!("no producer") };
        transactions.implicitly_add("x", producer.id, producer.epoch, "t", 0).unwrap();
        producer
    }

    fn commit(transactions: &Transactions, producer: Producer) {
        let ended =
            transactions.end(TICKET, "x", producer, Decision::Commit, Protocol::Second, &mut || Ok(8));
        assert_eq!(ended, Ok(None));
    }

    #[test]
    fn the_thread_carries_out_what_was_decided_and_answers() {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open(folder.path());
        let producer = begin(&transactions, &answers);
        let ends = TestEnds::default();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| transactions.run(&ends));
            commit(&transactions, producer);
            assert_eq!(answers.recv().unwrap(), Reply::Producer(Producer { epoch: 1, ..producer }));
            transactions.stop();
            thread.join().unwrap();
        });
        assert_eq!(ends.calls.load(SeqCst), 1);
        drop(transactions);
        let (transactions, _) = open(folder.path());
        assert_eq!(transactions.describe("x").unwrap().phase, Phase::Complete(Decision::Commit));
    }

    #[test]
    fn what_is_decided_is_told_and_tried_again_until_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open(folder.path());
        let producer = begin(&transactions, &answers);
        commit(&transactions, producer);
        let ends = TestEnds::default();
        ends.broken.store(true, SeqCst);
        let (start, mut turns) = (unix_ms(), Turns::new(unix_ms()));
        transactions.turn(&mut turns, start, &ends);
        assert!(matches!(answers.recv().unwrap(), Reply::Producer(_)));
        assert_eq!(transactions.describe("x").unwrap().phase, Phase::Prepared(Decision::Commit));
        assert_eq!(turns.next_ms(&transactions.register().book), start + RETRY_MS);
        ends.broken.store(false, SeqCst);
        transactions.turn(&mut turns, start + RETRY_MS - 1, &ends);
        assert_eq!(ends.calls.load(SeqCst), 1, "not before its time");
        transactions.turn(&mut turns, start + RETRY_MS, &ends);
        assert_eq!(transactions.describe("x").unwrap().phase, Phase::Complete(Decision::Commit));
        assert!(turns.stuck.is_empty());
    }

    #[test]
    fn what_can_not_be_made_durable_is_not_carried_out() {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open(folder.path());
        let producer = begin(&transactions, &answers);
        commit(&transactions, producer);
        transactions.close();
        let (ends, mut turns) = (TestEnds::default(), Turns::new(unix_ms()));
        for _ in 0..2 {
            transactions.turn(&mut turns, unix_ms(), &ends);
        }
        assert_eq!(answers.try_iter().collect::<Vec<_>>(), [Reply::Code(code::KAFKA_STORAGE_ERROR)]);
        assert_eq!(ends.calls.load(SeqCst), 0);
        drop(transactions);
        let (transactions, _) = open(folder.path());
        assert_eq!(transactions.describe("x").unwrap().phase, Phase::Ongoing);
    }

    #[test]
    fn a_transaction_does_not_end_before_the_batches_it_admitted_are_in_their_logs() {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open(folder.path());
        let producer = begin(&transactions, &answers);
        let mut batch = hone_kafka::BatchBuilder::new(hone_kafka::Codec::None);
        batch.push(None, Some(b"x"), 0);
        let mut header = BatchHeader::parse(&batch.build().unwrap()).unwrap();
        (header.producer_id, header.producer_epoch) = (producer.id, producer.epoch);
        let admit = || transactions.admit(11, Some("x"), &header, "t", 0);
        let (first, second) = (admit().unwrap(), admit().unwrap());
        commit(&transactions, producer);
        let (ends, mut turns) = (TestEnds::default(), Turns::new(unix_ms()));
        for admission in [first, second] {
            transactions.turn(&mut turns, unix_ms(), &ends);
            assert_eq!(ends.calls.load(SeqCst), 0);
            assert!(admit().is_err(), "and no more come");
            drop(admission);
        }
        transactions.turn(&mut turns, unix_ms(), &ends);
        assert_eq!(ends.calls.load(SeqCst), 1);
    }

    #[test]
    fn ids_are_limited_and_those_that_are_there_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open(folder.path());
        let transactions = transactions.limited(1);
        begin(&transactions, &answers);
        let claim = |name: &str| transactions.claim(TICKET, name, 60_000, None, &mut || Ok(8));
        assert_eq!(claim("y"), Err(code::POLICY_VIOLATION));
        assert_ne!(claim("x"), Err(code::POLICY_VIOLATION));
    }

    #[test]
    fn a_grown_journal_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (transactions, answers) = open(folder.path());
        let long = "x".repeat(1 << 20);
        for _ in 0..9 {
            transactions.claim(TICKET, &long, 60_000, None, &mut || Ok(7)).unwrap();
            assert!(matches!(answers.recv().unwrap(), Reply::Producer(_)));
        }
        transactions.turn(&mut Turns::new(unix_ms()), unix_ms(), &TestEnds::default());
        begin(&transactions, &answers);
        let known = transactions.list(|name, transaction| Some((name.to_owned(), transaction.clone())));
        drop(transactions);
        let bytes = std::fs::metadata(folder.path().join(JOURNAL_FILE)).unwrap().len();
        assert!(bytes < 2 << 20, "{bytes}");
        let (transactions, _) = open(folder.path());
        assert_eq!(known.len(), 2);
        for (name, transaction) in known {
            assert_eq!(transactions.describe(&name), Some(transaction));
        }
    }

    #[test]
    fn in_memory_nothing_is_written_and_all_is_answered() {
        let transactions = Transactions::open(None, &Notices::nowhere()).unwrap();
        let (sender, answers) = mpsc::channel();
        transactions.post_to(Arc::new(move |_, reply| sender.send(reply).unwrap()));
        let producer = begin(&transactions, &answers);
        commit(&transactions, producer);
        transactions.turn(&mut Turns::new(unix_ms()), unix_ms(), &TestEnds::default());
        assert_eq!(answers.recv().unwrap(), Reply::Producer(Producer { epoch: 1, ..producer }));
    }
}
