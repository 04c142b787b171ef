//! Processors between the producers and the consumers of a load: each reads a share of the partitions, writes what it read to the output's
//! partitions of the same numbers, and commits both in one transaction (consume, process, produce).
//!
//! Each has a thread of its own, which blocks. What it writes has the codec of the load, and one batch for each partition and Fetch, as a
//! client's accumulator would make it.

mod transaction;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hone_kafka::batch::{set_producer, set_transactional};
use hone_kafka::{BatchBuilder, Codec, batches, codec, records};
use hone_record::{EventKind, Transactions as Account, Workload};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{ApiKey, ProduceRequest, ProduceResponse};

use crate::admin::{Admin, TopicLayout, line_to, topic_name};
use crate::consumer::{ConsumerCommand, Processed, delete, find, group_of};
use crate::error::LoadError;
use crate::fetch::{Aborted, FetchSize, FetchedPartition, fetch_request, parse_fetched};
use crate::frames::codec_of;
use crate::readback;
use crate::security::Access;

use transaction::Transactions;

const PRODUCE_VERSION: i16 = 7;
/// Largest size of one decompressed batch.
const UNPACK_LIMIT_BYTES: usize = 256 << 20;
/// Bytes from each partition: what is written at once stays below a broker's usual limit of a batch, a megabyte.
const PARTITION_BYTES: i32 = 512 << 10;
const ANSWER_BYTES: i32 = 8 << 20;
/// Longest wait for data, over all leaders. The end of the load is seen after it.
const WAIT: Duration = Duration::from_millis(100);
/// Pause after a failure, before everything begins anew.
const PAUSE: Duration = Duration::from_millis(200);

/// The processors of a load.
#[derive(Debug)]
pub(crate) struct Processors {
    shared: Arc<Shared>,
    threads: Vec<(i32, Option<JoinHandle<()>>)>,
    address: String,
    access: Access,
    /// Their group.
    group: String,
    output: TopicLayout,
}

/// What the processors tell.
#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The next offset of the input after the last committed transaction, by partition.
    committed: BTreeMap<i32, i64>,
    account: Account,
    /// Start and length of the window, once it is open.
    window: Option<(Instant, Duration)>,
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // Every change is complete in itself.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Processors {
    /// Starts the processors of a load between two sets of topics. They begin at these offsets of the input.
    ///
    /// # Errors
    /// Returns an error when a coordinator can't be found, or refuses a producer.
    pub(crate) fn start(
        workload: &Workload,
        (address, access): (&str, &Access),
        (input, output): (&TopicLayout, &TopicLayout),
        from: &BTreeMap<i32, i64>,
        news: &mpsc::Sender<ConsumerCommand>,
    ) -> Result<Self, LoadError> {
        let shared = Arc::new(Shared::default());
        shared.state().committed.clone_from(from);
        let count = workload.processing.processors as usize;
        let mut started = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            address: address.to_owned(),
            access: access.clone(),
            group: format!("{}-processors", group_of(input.topics.first(), 0)),
            output: output.clone(),
        };
        for number in 0..count {
            let own = from.iter().enumerate().filter(|(at, _)| at % count == number);
            let positions: BTreeMap<i32, i64> =
                own.map(|(_, (partition, next))| (*partition, *next)).collect();
            let id = format!("{}-{number}", started.group);
            let transactions = Transactions::enter(address, access, &id, &started.group)?;
            let processor = Processor {
                number,
                access: access.clone(),
                input: input.clone(),
                output: output.clone(),
                transactions,
                lines: BTreeMap::new(),
                committed: positions.clone(),
                positions,
                sequences: BTreeMap::new(),
                moved: Vec::new(),
                records: 0,
                turns: 0,
                codec: codec_of(workload)?,
                every: Duration::from_secs_f64(workload.processing.transaction_s),
                abort_every: u64::from(workload.processing.abort_every),
                shared: Arc::clone(&shared),
                news: news.clone(),
            };
            started.spawn(processor)?;
        }
        Ok(started)
    }

    fn spawn(&mut self, processor: Processor) -> Result<(), LoadError> {
        let (started, id) = mpsc::sync_channel(1);
        let serve = move || {
            // SAFETY: no pointers are passed.
            let _ = started.send(unsafe { libc::gettid() });
            processor.serve();
        };
        let thread = std::thread::Builder::new().name("processor".to_owned()).spawn(serve);
        let thread =
            thread.map_err(|source| LoadError::System { what: "starting a processor's thread", source })?;
        self.threads.push((id.recv().unwrap_or(0), Some(thread)));
        Ok(())
    }

    /// The ends of the output when everything before these offsets of the input is committed. Waits for it at most `limit`.
    ///
    /// # Errors
    /// Returns an error when the leaders of the output do not tell its ends.
    pub(crate) fn output_ends(
        &self,
        ends: &BTreeMap<i32, i64>,
        limit: Duration,
    ) -> Result<BTreeMap<i32, i64>, LoadError> {
        self.reach(ends, limit);
        Ok(readback::ends(&self.access, &self.output, readback::BEFORE)?.1)
    }

    fn reach(&self, ends: &BTreeMap<i32, i64>, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.state();
        let is_there = |state: &State| {
            ends.iter().all(|(partition, end)| state.committed.get(partition).is_some_and(|next| next >= end))
        };
        while !is_there(&state) && Instant::now() < deadline {
            let waited =
                self.shared.moved.wait_timeout(state, deadline.saturating_duration_since(Instant::now()));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The window opens; transactions that end within it count.
    pub(crate) fn open(&self, start: Instant, length: Duration) {
        let mut state = self.shared.state();
        (state.window, state.account) = (Some((start, length)), Account::default());
    }

    /// The transactions of the window.
    pub(crate) fn account(&self) -> Account {
        self.shared.state().account.clone()
    }

    /// Kernel ids of the threads.
    pub(crate) fn thread_ids(&self) -> impl Iterator<Item = i32> + '_ {
        self.threads.iter().map(|(id, _)| *id)
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for (_, thread) in &mut self.threads {
            let _ = thread.take().map(JoinHandle::join);
        }
        if let Ok(mut coordinator) = find(&self.address, &self.access, &self.group) {
            delete(&mut coordinator, &self.group);
        }
    }
}

/// State of a processor's thread.
struct Processor {
    number: usize,
    access: Access,
    input: TopicLayout,
    output: TopicLayout,
    transactions: Transactions,
    /// Connections to leaders.
    lines: BTreeMap<String, Admin>,
    /// The next offset to read, by partition.
    positions: BTreeMap<i32, i64>,
    /// The same as of the last committed transaction.
    committed: BTreeMap<i32, i64>,
    /// The next sequence of each partition of the output.
    sequences: BTreeMap<i32, i32>,
    /// What the open transaction has moved.
    moved: Vec<Processed>,
    /// Records of the open transaction.
    records: u64,
    /// Transactions so far.
    turns: u64,
    codec: Codec,
    every: Duration,
    /// Every so many transactions one is aborted and done again; 0 for none.
    abort_every: u64,
    shared: Arc<Shared>,
    news: mpsc::Sender<ConsumerCommand>,
}

impl Processor {
    fn serve(mut self) {
        let mut last = String::new();
        while !self.is_over() {
            let Err(error) = self.transaction() else { continue };
            let why = format!("processor {}: {error}", self.number + 1);
            if why != last {
                let news = ConsumerCommand::Told { kind: EventKind::ConnectionLost, what: why.clone() };
                let _ = self.news.send(news);
                last = why;
            }
            std::thread::sleep(PAUSE);
            while !self.is_over() && !self.begin_anew() {
                std::thread::sleep(PAUSE);
            }
        }
        // What is open would hold back readers of committed records until its time-out.
        let _ = self.transactions.end(false);
    }

    fn is_over(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }

    /// After a failure. A transaction whose end is not known was committed if the group has its offsets. Otherwise it is aborted by now, and its
    /// records are read again. `false` if no broker can tell.
    fn begin_anew(&mut self) -> bool {
        self.lines.clear();
        let leaders = self.input.leaders.iter().chain(&self.output.leaders);
        let entered = leaders.map(|(address, _)| self.transactions.enter_again(address, &self.access));
        let Some(Ok(entered)) = entered.into_iter().find(Result::is_ok) else { return false };
        self.transactions = entered;
        let Ok(committed) = self.transactions.committed(&self.input.topics) else { return false };
        self.sequences.clear();
        let is_committed =
            |moved: &Processed| committed.get(&moved.partition) == self.positions.get(&moved.partition);
        if !self.moved.is_empty() && self.moved.iter().all(is_committed) {
            self.commit_is_done(None);
        } else {
            self.reset();
        }
        for layout in [&mut self.input, &mut self.output] {
            // Leaders may have moved.
            if let Some(found) = readback::layout_of_today(&self.access, layout) {
                *layout = found;
            }
        }
        true
    }

    fn reset(&mut self) {
        self.positions.clone_from(&self.committed);
        self.moved.clear();
        self.records = 0;
    }

    /// One transaction: reads and writes until its time is over, and ends it.
    fn transaction(&mut self) -> Result<(), LoadError> {
        let mut begun: Option<Instant> = None;
        while !self.is_over() && begun.is_none_or(|begun| begun.elapsed() < self.every) {
            let left = begun.map_or(WAIT, |begun| self.every.saturating_sub(begun.elapsed()).min(WAIT));
            for (address, led) in self.input.leaders.clone() {
                let share = left / self.input.leaders.len().max(1) as u32;
                self.pass_on(&address, &led, share)?;
                if self.records > 0 {
                    begun.get_or_insert_with(Instant::now);
                }
            }
        }
        let Some(begun) = begun else { return Ok(()) };
        let ending = Instant::now();
        self.turns += 1;
        if self.abort_every > 0 && self.turns.is_multiple_of(self.abort_every) {
            self.transactions.end(false)?;
            self.note(|account| account.aborted += 1);
            self.reset();
            return Ok(());
        }
        self.transactions.commit(&self.input.topics, &self.positions)?;
        self.commit_is_done(Some((begun, ending)));
        Ok(())
    }

    /// Passes on what the transaction moved. Without its beginning and the time of its end, its length does not count.
    fn commit_is_done(&mut self, times: Option<(Instant, Instant)>) {
        self.committed.clone_from(&self.positions);
        for moved in self.moved.drain(..) {
            let _ = self.news.send(ConsumerCommand::Processed(moved));
        }
        let records = std::mem::take(&mut self.records);
        self.note(|account| {
            account.committed += 1;
            account.records += records;
            if let Some((begun, ending)) = times {
                account.length.record_ns(begun.elapsed().as_nanos() as u64);
                account.commit.record_ns(ending.elapsed().as_nanos() as u64);
            }
        });
        let mut state = self.shared.state();
        state.committed.extend(self.committed.iter().map(|(partition, next)| (*partition, *next)));
        self.shared.moved.notify_all();
    }

    /// Counts a transaction that ends within the window.
    fn note(&self, add: impl FnOnce(&mut Account)) {
        let mut state = self.shared.state();
        let is_within = |(start, length): (Instant, Duration)| {
            Instant::now().checked_duration_since(start).is_some_and(|since| since < length)
        };
        if state.window.is_some_and(is_within) {
            add(&mut state.account);
        }
    }

    /// Reads from a leader of the input, and writes what came.
    fn pass_on(&mut self, address: &str, led: &[i32], wait: Duration) -> Result<(), LoadError> {
        let next = |partition: &i32| Some((*partition, *self.positions.get(partition)?));
        let wanted: Vec<(i32, i64)> = led.iter().filter_map(next).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let size = FetchSize {
            least_bytes: 1,
            wait_ms: wait.as_millis().max(1) as i32,
            bytes: ANSWER_BYTES,
            partition_bytes: PARTITION_BYTES,
            is_committed: true,
        };
        let request = fetch_request(1, &self.input.topics, &wanted, size);
        let answer = self.line(address)?.exchange(&request, "Fetch v11")?;
        let (mut pieces, mut refused) = (Vec::new(), 0);
        let head = parse_fetched(&answer, &self.input.topics, |found| {
            refused = if refused == 0 { found.error_code } else { refused };
            if !found.record_set.is_empty() {
                pieces.push(found);
            }
        });
        let head = head.map_err(|error| garbage(address, "Fetch v11", &error.to_string()))?;
        let code = if head.error_code == 0 { refused } else { head.error_code };
        self.line(address)?.accepted("to let a processor read", code, String::new())?;
        let mut ready = Vec::new();
        for found in pieces {
            let piece = self.processed(found).map_err(|problem| garbage(address, "Fetch v11", &problem))?;
            ready.extend(piece);
        }
        self.write(ready)
    }

    fn line(&mut self, address: &str) -> Result<&mut Admin, LoadError> {
        line_to(&mut self.lines, address, &self.access, Admin::LIMIT)
    }

    /// One batch with the records of a record set, and where they come from. `None` if there is no whole batch.
    fn processed(&mut self, found: FetchedPartition<'_>) -> Result<Option<Piece>, String> {
        let (partition, mut aborted) = (found.partition, Aborted::new(&found));
        let from = self.positions.get(&partition).copied().unwrap_or(0);
        let (mut to, mut count) = (from, 0);
        let mut builder = BatchBuilder::new(self.codec);
        for batch in batches(found.record_set) {
            // The last batch of an answer may be torn; it comes again.
            let Ok(batch) = batch else { break };
            let header = batch.header;
            if aborted.holds(&header) || header.is_control() || header.base_offset < to {
                to = to.max(header.last_offset() + 1);
                continue;
            }
            let plain = codec::decompress(header.codec(), batch.payload(), UNPACK_LIMIT_BYTES)
                .map_err(|error| error.to_string())?;
            for record in records(&plain, header.record_count) {
                let record = record.map_err(|error| error.to_string())?;
                builder.push(record.key, record.value, header.base_timestamp + record.timestamp_delta);
                count += 1;
            }
            to = header.last_offset() + 1;
        }
        self.positions.insert(partition, to);
        if count == 0 {
            return Ok(None);
        }
        let mut bytes = builder.build().map_err(|error| error.to_string())?;
        let producer = self.transactions.producer;
        let sequence = self.sequences.get(&partition).copied().unwrap_or(0);
        set_transactional(&mut bytes, false).map_err(|error| error.to_string())?;
        set_producer(&mut bytes, producer.id, producer.epoch, sequence).map_err(|error| error.to_string())?;
        self.sequences.insert(partition, sequence.wrapping_add(count) & i32::MAX);
        Ok(Some(Piece { partition, from, to, records: count as u64, bytes: bytes.into() }))
    }

    /// Writes batches to the leaders of the output, as part of the transaction.
    fn write(&mut self, mut ready: Vec<Piece>) -> Result<(), LoadError> {
        if ready.is_empty() {
            return Ok(());
        }
        let partitions: Vec<i32> = ready.iter().map(|piece| piece.partition).collect();
        self.transactions.add(&self.output.topics, &partitions)?;
        for (address, led) in self.output.leaders.clone() {
            let (own, others) = ready.into_iter().partition(|piece| led.contains(&piece.partition));
            ready = others;
            self.write_to(&address, own)?;
        }
        match ready.first() {
            None => Ok(()),
            Some(piece) => {
                let (topic, partition) = self.output.topics.place(piece.partition);
                Err(garbage(
                    &self.output.leaders[0].0,
                    "Metadata",
                    &format!("{topic}/{partition} has no leader"),
                ))
            }
        }
    }

    fn write_to(&mut self, address: &str, pieces: Vec<Piece>) -> Result<(), LoadError> {
        if pieces.is_empty() {
            return Ok(());
        }
        let topics = self.output.topics.clone();
        let topic = |(name, pieces): (&str, Vec<(i32, &Piece)>)| {
            let partition = |(partition, piece): (i32, &Piece)| {
                PartitionProduceData::default().with_index(partition).with_records(Some(piece.bytes.clone()))
            };
            TopicProduceData::default()
                .with_name(topic_name(name))
                .with_partition_data(pieces.into_iter().map(partition).collect())
        };
        let of_topics = topics.by_topic(pieces.iter().map(|piece| (piece.partition, piece)));
        let request = ProduceRequest::default()
            .with_transactional_id(Some(self.transactions.transactional_id()))
            .with_acks(-1)
            .with_timeout_ms(10_000)
            .with_topic_data(of_topics.into_iter().map(topic).collect());
        let line = self.line(address)?;
        let answer: ProduceResponse = line.ask(ApiKey::Produce, PRODUCE_VERSION, &request)?;
        let mut stored = BTreeMap::new();
        for topic in &answer.responses {
            for partition in &topic.partition_responses {
                line.accepted("to store what a processor wrote", partition.error_code, String::new())?;
                let number = topics.number(topic.name.0.as_str(), partition.index);
                stored.extend(number.map(|number| (number, partition.base_offset)));
            }
        }
        for piece in pieces {
            let Piece { partition, from, to, records, .. } = piece;
            let Some(out) = stored.get(&partition).copied() else {
                return Err(garbage(address, "Produce v7", "the answer lacks a partition"));
            };
            self.records += records;
            self.moved.push(Processed { partition, from, to, out });
        }
        Ok(())
    }
}

/// What goes to a partition of the output.
#[derive(Debug)]
struct Piece {
    partition: i32,
    from: i64,
    to: i64,
    records: u64,
    bytes: Bytes,
}

fn garbage(address: &str, what: &str, problem: &str) -> LoadError {
    LoadError::Garbage { address: address.to_owned(), what: what.to_owned(), problem: problem.to_owned() }
}
