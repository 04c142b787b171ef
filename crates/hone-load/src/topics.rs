//! Topics of a cluster: their names, the offsets at a time, and the record sets between two offsets, passed on as they arrive. It needs
//! only the right to read.
//!
//! If a leader moves, a partition's beginning is deleted, or a topic disappears while it is read, the result reports it and the rest
//! continues.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hone_kafka::error_name;

use crate::admin::{Admin, Listed, TopicLayout, TopicNow, line_to};
use crate::canary;
use crate::cluster::At;
use crate::error::LoadError;
use crate::fetch::{FetchSize, FetchedPartition, fetch_request, offsets_request, parse_ends, parse_fetched};
use crate::readback::passes;
use crate::security::{Access, Security};
use crate::topic_set::TopicSet;

/// Time limit for an answer of megabytes from a busy broker.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Elections take seconds. A partition that can't be read for longer is reported and left out.
const PATIENCE: Duration = Duration::from_secs(15);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Largest answer, over all partitions. Brokers answer larger requests with less.
const ANSWER_BYTES: i32 = 8 << 20;
const PARTITION_BYTES: i32 = 2 << 20;
const LEAST_BYTES: i32 = 16 << 10;
/// The broker's wait for the first byte. The data exists, so it need not wait.
const WAIT_MS: i32 = 500;
/// Number of answers without a batch from an offset that has some, when it was requested first.
const EMPTY_ANSWERS: u32 = 3;
const OFFSET_OUT_OF_RANGE: i16 = 1;

/// An offset of each partition.
pub type Offsets = BTreeMap<i32, i64>;
/// Why a partition's leader does not answer for it.
pub type Silent = BTreeMap<i32, String>;

/// Offsets of a partition to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Partition.
    pub partition: i32,
    /// The first offset.
    pub from: i64,
    /// Offset after the last one.
    pub to: i64,
}

/// A piece of a partition as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Portion<'a> {
    /// Partition.
    pub partition: i32,
    /// The requested offset; the first batch may begin before it.
    pub from: i64,
    /// Offset after the last wanted one; later batches may follow.
    pub to: i64,
    /// Whole batches; only the last one may be torn.
    pub record_set: &'a [u8],
}

/// A partition that could not be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Partition.
    pub partition: i32,
    /// First missing offset.
    pub from: i64,
    /// Number of missing offsets.
    pub offsets: u64,
    /// The reason.
    pub why: String,
}

/// The end of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingEnd {
    /// Everything readable was read.
    Whole,
    /// The byte limit was reached.
    Bytes,
    /// The time limit was reached.
    Time,
    /// The caller stopped it.
    Stopped,
}

/// Result of a reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of record sets.
    pub bytes: u64,
    /// Its end.
    pub end: ReadingEnd,
    /// Missing parts, except offsets after its end.
    pub lost: Vec<Lost>,
}

/// A cluster whose topics are read.
#[derive(Debug)]
pub struct Topics {
    pub(crate) seed: String,
    access: Access,
    lines: BTreeMap<String, Admin>,
}

impl Topics {
    /// Connects to one broker of the cluster, `host:port`, or to the first of several that answers, and finds the others.
    ///
    /// # Errors
    /// Returns an error when no broker listens there, a file can't be used, or one side rejects the other.
    pub fn enter(address: &str, security: &Security) -> Result<Self, LoadError> {
        let address = canary::reachable(address, security)?;
        let access = Access::new(security)?;
        let first = Admin::enter(&address, access.clone(), ANSWER_LIMIT)?;
        Ok(Self { seed: address.clone(), access, lines: BTreeMap::from([(address, first)]) })
    }

    /// All topics that this user may see, by name.
    ///
    /// # Errors
    /// Returns an error when the connection breaks.
    pub fn list(&mut self) -> Result<Vec<Listed>, LoadError> {
        let seed = self.seed.clone();
        self.line(&seed)?.topics()
    }

    /// The leaders of a topic's partitions, and the partitions without a leader.
    ///
    /// # Errors
    /// Returns an error when the cluster has no such topic, or it may not be read.
    pub fn layout(&mut self, topic: &str) -> Result<(TopicLayout, Vec<i32>), LoadError> {
        let seed = self.seed.clone();
        match self.topics_now(&topic.into())? {
            TopicNow::Led { layout, leaderless } => Ok((layout, leaderless)),
            TopicNow::Unknown(error) => Err(LoadError::Refused {
                address: seed,
                what: format!("to describe topic `{topic}`"),
                error,
                message: String::new(),
            }),
        }
    }

    /// The offset of a position, by partition. Partitions whose leader does not answer for them are left out with the reason.
    ///
    /// # Errors
    /// Returns an error when an answer is not Kafka's protocol.
    pub fn offsets(&mut self, layout: &TopicLayout, at: At) -> Result<(Offsets, Silent), LoadError> {
        let (mut found, mut missing) = (BTreeMap::new(), BTreeMap::new());
        for (address, partitions) in &layout.leaders {
            match self.offsets_of(address, &layout.topics, partitions, at) {
                Ok(told) => {
                    for (partition, code, offset) in told {
                        if code == 0 {
                            found.insert(partition, offset);
                        } else {
                            missing.insert(partition, error_name(code).to_owned());
                        }
                    }
                }
                Err(error) if is_of_the_way(&error) => {
                    missing.extend(partitions.iter().map(|partition| (*partition, error.to_string())));
                }
                Err(error) => return Err(error),
            }
        }
        Ok((found, missing))
    }

    fn offsets_of(
        &mut self,
        address: &str,
        topics: &TopicSet,
        partitions: &[i32],
        at: At,
    ) -> Result<Vec<(i32, i16, i64)>, LoadError> {
        let what = "ListOffsets v2";
        let answer = self.exchange(address, &offsets_request(1, topics, partitions, at), what)?;
        parse_ends(&answer, topics).map_err(|error| self.garbage(address, what, &error.to_string()))
    }

    /// Reads parts of a topic, in turns from all its partitions. `each` takes the data and returns the offset after its last whole batch,
    /// if it had one. `go_on` is asked between two answers.
    ///
    /// # Errors
    /// Returns an error when an answer is not Kafka's protocol, or the topic may not be read.
    pub fn read(
        &mut self,
        layout: &TopicLayout,
        stretches: &[Stretch],
        limits: ReadLimits<'_>,
        each: &mut dyn FnMut(Portion<'_>) -> Option<i64>,
    ) -> Result<Reading, LoadError> {
        let mut course = Course::new(layout.clone(), stretches);
        let end = loop {
            if course.is_done() {
                break ReadingEnd::Whole;
            }
            if course.bytes >= limits.bytes {
                break ReadingEnd::Bytes;
            }
            if Instant::now() >= limits.until {
                break ReadingEnd::Time;
            }
            if !(limits.go_on)() {
                break ReadingEnd::Stopped;
            }
            self.round(&mut course, &limits, each)?;
        };
        Ok(Reading { bytes: course.bytes, end, lost: course.lost })
    }

    /// One answer of every leader.
    fn round(
        &mut self,
        course: &mut Course,
        limits: &ReadLimits<'_>,
        each: &mut dyn FnMut(Portion<'_>) -> Option<i64>,
    ) -> Result<(), LoadError> {
        let mut is_lost = course.has_leaderless();
        for (address, wanted) in course.turn() {
            if course.bytes >= limits.bytes || !(limits.go_on)() {
                return Ok(());
            }
            let bytes = course.wanted_bytes(&wanted, limits);
            let request = fetch_request(1, &course.layout.topics, &wanted, bytes);
            let answer = match self.exchange(&address, &request, "Fetch v11") {
                Ok(answer) => answer,
                Err(error) if is_of_the_way(&error) => {
                    course.trouble(&wanted, &error.to_string());
                    is_lost = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut told = Vec::new();
            let head = parse_fetched(&answer, &course.layout.topics, |found| told.push(found))
                .map_err(|error| self.garbage(&address, "Fetch v11", &error.to_string()))?;
            if head.error_code != 0 {
                course.trouble(&wanted, error_name(head.error_code));
                is_lost = true;
            }
            // Only the partition that was requested first gets a batch of any size, and room for it.
            let first = wanted.first().map(|(partition, _)| *partition);
            for found in told {
                is_lost |= course.take(&found, first == Some(found.partition), each) == Taken::Elsewhere;
            }
        }
        self.mend_beginnings(course)?;
        if is_lost {
            self.find_anew(course)?;
        }
        course.rounds += 1;
        Ok(())
    }

    /// Retention may have deleted the beginning of the requested data.
    fn mend_beginnings(&mut self, course: &mut Course) -> Result<(), LoadError> {
        if course.out_of_range.is_empty() {
            return Ok(());
        }
        let (earliest, _) = self.offsets(&course.layout.clone(), At::Earliest)?;
        for partition in std::mem::take(&mut course.out_of_range) {
            course.begins_at(partition, earliest.get(&partition).copied());
        }
        Ok(())
    }

    /// Leaders move, and a topic may disappear.
    fn find_anew(&mut self, course: &mut Course) -> Result<(), LoadError> {
        std::thread::sleep(ASK_AGAIN_AFTER);
        match self.topics_now(&course.layout.topics.clone()) {
            Ok(TopicNow::Led { layout, .. }) => course.layout = layout,
            Ok(TopicNow::Unknown(error)) => course.trouble_of_all(error),
            Err(error) if is_of_the_way(&error) => course.trouble_of_all(&error.to_string()),
            Err(error) => return Err(error),
        }
        course.give_up();
        Ok(())
    }

    /// Asks any broker that answers.
    fn topics_now(&mut self, topics: &TopicSet) -> Result<TopicNow, LoadError> {
        let known: Vec<String> =
            std::iter::once(self.seed.clone()).chain(self.lines.keys().cloned()).collect();
        let mut last = None;
        for address in known {
            match self.line(&address).and_then(|line| line.topics_now(topics)) {
                Ok((seen, _)) => return Ok(seen),
                Err(error) => {
                    self.lines.remove(&address);
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| self.garbage(&self.seed, "Metadata", "no broker is known")))
    }

    pub(crate) fn line(&mut self, address: &str) -> Result<&mut Admin, LoadError> {
        line_to(&mut self.lines, address, &self.access, ANSWER_LIMIT)
    }

    /// A broken connection is replaced the next time.
    fn exchange(&mut self, address: &str, frame: &[u8], what: &str) -> Result<bytes::Bytes, LoadError> {
        let answer = self.line(address)?.exchange(frame, what);
        if answer.is_err() {
            self.lines.remove(address);
        }
        answer
    }

    fn garbage(&self, address: &str, what: &str, problem: &str) -> LoadError {
        LoadError::Garbage { address: address.to_owned(), what: what.to_owned(), problem: problem.to_owned() }
    }
}

/// Limits of a reading.
#[derive(Clone, Copy)]
pub struct ReadLimits<'a> {
    /// Bytes of record sets; one answer may exceed it.
    pub bytes: u64,
    /// Approximate bytes per offset, if known. With it, the reading fetches no more than it needs.
    pub offset_bytes: Option<f64>,
    /// The time limit.
    pub until: Instant,
    /// Asks whether to continue.
    pub go_on: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for ReadLimits<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ReadLimits").field("bytes", &self.bytes).field("until", &self.until).finish()
    }
}

/// Whether another broker, or the same one a moment later, may succeed.
fn is_of_the_way(error: &LoadError) -> bool {
    matches!(
        error,
        LoadError::Connect { .. }
            | LoadError::Broken { .. }
            | LoadError::Slow { .. }
            | LoadError::Mute { .. }
    )
}

/// Result of a partition's part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// The partition is done, or continues.
    Here,
    /// Another broker may lead it by now.
    Elsewhere,
}

/// State of one partition.
#[derive(Debug)]
struct PartitionRead {
    next: i64,
    to: i64,
    empty_answers: u32,
    trouble: Option<(Instant, String)>,
}

/// State of a reading.
#[derive(Debug)]
struct Course {
    layout: TopicLayout,
    partitions: BTreeMap<i32, PartitionRead>,
    out_of_range: BTreeSet<i32>,
    lost: Vec<Lost>,
    bytes: u64,
    rounds: usize,
}

impl Course {
    fn new(layout: TopicLayout, stretches: &[Stretch]) -> Self {
        let wanted = stretches.iter().filter(|stretch| stretch.from < stretch.to);
        let partitions = wanted.map(|stretch| {
            let part = PartitionRead { next: stretch.from, to: stretch.to, empty_answers: 0, trouble: None };
            (stretch.partition, part)
        });
        Self {
            layout,
            partitions: partitions.collect(),
            out_of_range: BTreeSet::new(),
            lost: Vec::new(),
            bytes: 0,
            rounds: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.partitions.is_empty()
    }

    fn has_leaderless(&mut self) -> bool {
        let led: BTreeSet<i32> =
            self.layout.leaders.iter().flat_map(|(_, led)| led.iter().copied()).collect();
        let alone: Vec<(i32, i64)> = self
            .partitions
            .iter()
            .filter(|(partition, _)| !led.contains(partition))
            .map(|(partition, part)| (*partition, part.next))
            .collect();
        self.trouble(&alone, "the partition has no leader");
        !alone.is_empty()
    }

    /// The requests to each leader. Answers are filled in the order of the request, so the order rotates.
    fn turn(&self) -> Vec<(String, Vec<(i32, i64)>)> {
        let of_leader = |(address, led): &(String, Vec<i32>)| {
            let mut wanted: Vec<(i32, i64)> = led
                .iter()
                .filter_map(|partition| Some((*partition, self.partitions.get(partition)?.next)))
                .collect();
            if !wanted.is_empty() {
                let turn = self.rounds % wanted.len();
                wanted.rotate_left(turn);
            }
            (address.clone(), wanted)
        };
        self.layout.leaders.iter().map(of_leader).filter(|(_, wanted)| !wanted.is_empty()).collect()
    }

    /// Number of bytes to request: at most the budget, and not much more than exists.
    fn wanted_bytes(&self, wanted: &[(i32, i64)], limits: &ReadLimits<'_>) -> FetchSize {
        let left = limits.bytes.saturating_sub(self.bytes);
        // The minimum is for the headers of some batches. Brokers send the first batch whole, whatever its size.
        let bytes = i32::try_from(left).unwrap_or(ANSWER_BYTES).clamp(LEAST_BYTES, ANSWER_BYTES);
        let length =
            |(partition, next): &(i32, i64)| Some(self.partitions.get(partition)?.to.abs_diff(*next));
        let longest = wanted.iter().filter_map(length).max().unwrap_or(0) as f64;
        let of_partition = limits.offset_bytes.map_or(PARTITION_BYTES, |each| {
            let room = 1.2 * each * longest;
            // Sizes above an answer's limit do not matter.
            (room.min(f64::from(PARTITION_BYTES)) as i32).max(LEAST_BYTES)
        });
        let partition_bytes = of_partition.min(bytes);
        FetchSize { least_bytes: 1, wait_ms: WAIT_MS, bytes, partition_bytes, is_committed: false }
    }

    fn take(
        &mut self,
        found: &FetchedPartition<'_>,
        is_first: bool,
        each: &mut dyn FnMut(Portion<'_>) -> Option<i64>,
    ) -> Taken {
        let Some(part) = self.partitions.get_mut(&found.partition) else { return Taken::Here };
        match found.error_code {
            0 => {
                self.bytes += found.record_set.len() as u64;
                self.advance(found, is_first, each);
                Taken::Here
            }
            OFFSET_OUT_OF_RANGE => {
                self.out_of_range.insert(found.partition);
                Taken::Here
            }
            code if passes(code) => {
                let next = part.next;
                self.trouble(&[(found.partition, next)], error_name(code));
                Taken::Elsewhere
            }
            code => {
                self.lose(found.partition, error_name(code).to_owned());
                Taken::Here
            }
        }
    }

    fn advance(
        &mut self,
        found: &FetchedPartition<'_>,
        is_first: bool,
        each: &mut dyn FnMut(Portion<'_>) -> Option<i64>,
    ) {
        let Some(part) = self.partitions.get_mut(&found.partition) else { return };
        part.trouble = None;
        let (from, to) = (part.next, part.to);
        let portion = Portion { partition: found.partition, from, to, record_set: found.record_set };
        match each(portion).filter(|next| *next > from) {
            Some(next) => {
                (part.next, part.empty_answers) = (next, 0);
                if next >= to {
                    self.partitions.remove(&found.partition);
                }
            }
            // A full answer, or a batch larger than its part, leaves no room for the others.
            None if !is_first => {}
            None => {
                part.empty_answers += 1;
                if part.empty_answers >= EMPTY_ANSWERS {
                    self.lose(
                        found.partition,
                        "the broker returns no whole batch from this offset".to_owned(),
                    );
                }
            }
        }
    }

    /// Offsets before the log's beginning are lost, and the rest is read.
    fn begins_at(&mut self, partition: i32, earliest: Option<i64>) {
        let Some(part) = self.partitions.get_mut(&partition) else { return };
        let Some(earliest) = earliest.filter(|earliest| *earliest > part.next) else {
            self.lose(
                partition,
                "the log no longer has this offset (it was truncated, or the topic was created again)"
                    .to_owned(),
            );
            return;
        };
        let (from, until) = (part.next, earliest.min(part.to));
        part.next = until;
        let is_done = until >= part.to;
        self.lost.push(Lost {
            partition,
            from,
            offsets: until.abs_diff(from),
            why: "retention deleted it during the reading".to_owned(),
        });
        if is_done {
            self.partitions.remove(&partition);
        }
    }

    fn trouble(&mut self, wanted: &[(i32, i64)], why: &str) {
        for (partition, _) in wanted {
            if let Some(part) = self.partitions.get_mut(partition) {
                let since = part.trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                part.trouble = Some((since, why.to_owned()));
            }
        }
    }

    fn trouble_of_all(&mut self, why: &str) {
        let all: Vec<(i32, i64)> =
            self.partitions.iter().map(|(partition, part)| (*partition, part.next)).collect();
        self.trouble(&all, why);
    }

    fn give_up(&mut self) {
        let late: Vec<(i32, String)> = self
            .partitions
            .iter()
            .filter_map(|(partition, part)| {
                let (since, why) = part.trouble.as_ref()?;
                (since.elapsed() > PATIENCE).then(|| (*partition, why.clone()))
            })
            .collect();
        for (partition, why) in late {
            self.lose(partition, format!("{why}, for {} s", PATIENCE.as_secs()));
        }
    }

    fn lose(&mut self, partition: i32, why: String) {
        if let Some(part) = self.partitions.remove(&partition) {
            let offsets = part.to.abs_diff(part.next);
            self.lost.push(Lost { partition, from: part.next, offsets, why });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bytes::Bytes;
    use hone_kafka::{BatchBuilder, BatchHeader, Codec, batch, batches};
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{
        FetchRequest, FetchResponse, ListOffsetsResponse, MetadataResponse, RequestHeader, TopicName,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    use super::*;
    use crate::stand_in::serve;

    const RECORDS: i64 = 7;
    /// Offsets of each of two partitions.
    const END: i64 = 700;

    /// How a broker behaves, by the number of Fetches so far.
    type Manner = dyn Fn(u64, i32, i64) -> i16 + Send + Sync;

    struct Fake {
        address: String,
        metadata_error: Arc<AtomicU64>,
    }

    /// A broker that leads two partitions whose logs begin at `begin`, and answers each part of a Fetch with an error of `manner`'s.
    fn broker(begin: i64, manner: impl Fn(u64, i32, i64) -> i16 + Send + Sync + 'static) -> Fake {
        let metadata_error = Arc::new(AtomicU64::new(0));
        let error = Arc::clone(&metadata_error);
        let fetches = AtomicU64::new(0);
        let port = serve(move |port, body| {
            let mut answer = Vec::new();
            match body[1] {
                1 => {
                    let number = fetches.fetch_add(1, Ordering::SeqCst);
                    fetched(body, number, &manner).encode(&mut answer, 11).unwrap();
                }
                2 => offsets(begin).encode(&mut answer, 2).unwrap(),
                _ => metadata(port, error.load(Ordering::SeqCst)).encode(&mut answer, 7).unwrap(),
            }
            answer
        });
        Fake { address: format!("127.0.0.1:{port}"), metadata_error }
    }

    fn name() -> TopicName {
        TopicName(StrBytes::from_static_str("t"))
    }

    fn metadata(port: u16, error: u64) -> MetadataResponse {
        let broker = MetadataResponseBroker::default()
            .with_node_id(1.into())
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(port.into());
        let partition =
            |index| MetadataResponsePartition::default().with_leader_id(1.into()).with_partition_index(index);
        let partitions = if error == 0 { vec![partition(0), partition(1)] } else { Vec::new() };
        let topic = MetadataResponseTopic::default()
            .with_name(Some(name()))
            .with_error_code(error as i16)
            .with_partitions(partitions);
        MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic])
    }

    fn offsets(begin: i64) -> ListOffsetsResponse {
        let partition =
            |index| ListOffsetsPartitionResponse::default().with_partition_index(index).with_offset(begin);
        let topic = ListOffsetsTopicResponse::default()
            .with_name(name())
            .with_partitions(vec![partition(0), partition(1)]);
        ListOffsetsResponse::default().with_topics(vec![topic])
    }

    /// Two batches of each partition at a time, from the one that holds the offset asked for.
    fn fetched(body: Vec<u8>, number: u64, manner: &Manner) -> FetchResponse {
        let mut body = Bytes::from(body);
        RequestHeader::decode(&mut body, 1).unwrap();
        let request = FetchRequest::decode(&mut body, 11).unwrap();
        let mut builder = BatchBuilder::new(Codec::None);
        (0..RECORDS).for_each(|_| builder.push(None, Some(&[b'v'; 100]), 1_000));
        let mut one = builder.build().unwrap();
        let partitions = request.topics[0].partitions.iter().map(|asked| {
            let told = manner(number, asked.partition, asked.fetch_offset);
            // -2 stands for an answer without an error and without a batch.
            let code = told.max(0);
            let mut records = Vec::new();
            let first = asked.fetch_offset / RECORDS;
            for batch in (first..(first + 2).min(END / RECORDS)).filter(|_| told == 0) {
                batch::set_base_offset(&mut one, batch * RECORDS).unwrap();
                records.extend_from_slice(&one);
            }
            PartitionData::default()
                .with_partition_index(asked.partition)
                .with_error_code(code)
                .with_records(Some(records.into()))
        });
        let topic =
            FetchableTopicResponse::default().with_topic(name()).with_partitions(partitions.collect());
        FetchResponse::default().with_responses(vec![topic])
    }

    const ALL: [Stretch; 2] =
        [Stretch { partition: 0, from: 0, to: END }, Stretch { partition: 1, from: 0, to: END }];

    fn unlimited() -> ReadLimits<'static> {
        ReadLimits {
            bytes: u64::MAX,
            offset_bytes: None,
            until: Instant::now() + Duration::from_secs(60),
            go_on: &|| true,
        }
    }

    /// What came, by partition: offsets of batches in the order of their coming.
    fn read(fake: &Fake, limits: ReadLimits<'_>) -> (Reading, BTreeMap<i32, Vec<i64>>) {
        let mut topics = Topics::enter(&fake.address, &Security::default()).unwrap();
        let (layout, leaderless) = topics.layout("t").unwrap();
        assert!(leaderless.is_empty());
        let mut seen: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
        let reading = topics
            .read(&layout, &ALL, limits, &mut |portion| {
                let headers: Vec<BatchHeader> =
                    batches(portion.record_set).map(|batch| batch.unwrap().header).collect();
                let offsets = headers.iter().map(|header| header.base_offset);
                seen.entry(portion.partition).or_default().extend(offsets);
                headers.last().map(|header| header.last_offset() + 1)
            })
            .unwrap();
        (reading, seen)
    }

    fn all_of(partition: &[i64]) -> bool {
        partition.iter().copied().eq((0..END / RECORDS).map(|batch| batch * RECORDS))
    }

    #[test]
    fn everything_is_handed_over_once_and_in_order() {
        let (reading, seen) = read(&broker(0, |_, _, _| 0), unlimited());
        assert_eq!((reading.end, reading.lost.len()), (ReadingEnd::Whole, 0));
        assert!(seen.values().all(|partition| all_of(partition)), "{seen:?}");
        assert!(reading.bytes > 2 * 100 * 700, "{reading:?}");
    }

    #[test]
    fn a_broker_that_fills_its_answer_from_the_first_partition_leaves_none_out() {
        // Only the first partition gets data, as with a batch larger than an answer.
        let port = serve(|port, body| {
            let mut answer = Vec::new();
            if body[1] == 1 {
                let mut whole = fetched(body, 0, &|_, _, _| 0);
                let behind = whole.responses[0].partitions.iter_mut().skip(1);
                behind.for_each(|partition| partition.records = Some(Bytes::new()));
                whole.encode(&mut answer, 11).unwrap();
            } else {
                metadata(port, 0).encode(&mut answer, 7).unwrap();
            }
            answer
        });
        let fake = Fake { address: format!("127.0.0.1:{port}"), metadata_error: Arc::default() };
        let (reading, seen) = read(&fake, unlimited());
        assert_eq!((reading.end, reading.lost.len()), (ReadingEnd::Whole, 0), "{reading:?}");
        assert!(seen.values().all(|partition| all_of(partition)), "{seen:?}");
    }

    #[test]
    fn a_partition_that_gives_nothing_is_told() {
        // Half a batch, again and again.
        let (reading, _) = read(&broker(0, |_, _, offset| if offset >= 70 { -2 } else { 0 }), unlimited());
        assert_eq!((reading.end, reading.lost.len()), (ReadingEnd::Whole, 2), "{reading:?}");
        assert!(reading.lost[0].why.contains("no whole batch"), "{reading:?}");
    }

    #[test]
    fn budgets_and_interrupts_end_it() {
        let fake = broker(0, |_, _, _| 0);
        let (reading, seen) = read(&fake, ReadLimits { bytes: 10_000, ..unlimited() });
        assert_eq!(reading.end, ReadingEnd::Bytes);
        assert!(
            seen.values().all(|partition| !all_of(partition) && !partition.is_empty()),
            "both had their turn: {seen:?}"
        );
        assert_eq!(read(&fake, ReadLimits { go_on: &|| false, ..unlimited() }).0.end, ReadingEnd::Stopped);
        assert_eq!(read(&fake, ReadLimits { until: Instant::now(), ..unlimited() }).0.end, ReadingEnd::Time);
    }

    #[test]
    fn a_leader_that_moved_is_found_and_nothing_is_read_twice() {
        let moved =
            |number: u64, partition, _| if partition == 1 && (5..9).contains(&number) { 6 } else { 0 };
        let (reading, seen) = read(&broker(0, moved), unlimited());
        assert_eq!((reading.end, reading.lost.len()), (ReadingEnd::Whole, 0));
        assert!(seen.values().all(|partition| all_of(partition)), "{seen:?}");
    }

    #[test]
    fn a_partition_that_is_refused_leaves_the_other_one() {
        for (code, name) in [(29, "TOPIC_AUTHORIZATION_FAILED"), (2, "CORRUPT_MESSAGE")] {
            let refuses =
                move |number: u64, partition, _| if partition == 1 && number >= 3 { code } else { 0 };
            let (reading, seen) = read(&broker(0, refuses), unlimited());
            assert_eq!(reading.end, ReadingEnd::Whole);
            assert!(all_of(&seen[&0]) && !all_of(&seen[&1]), "{seen:?}");
            let [lost] = &reading.lost[..] else { panic!("{reading:?}") };
            assert_eq!((lost.partition, lost.from, lost.offsets), (1, 42, 658), "{lost:?}");
            assert_eq!(lost.why, name);
        }
    }

    #[test]
    fn what_retention_took_is_told() {
        // The log begins at 350 by now.
        let cut = |_, partition, offset| if partition == 0 && offset < 350 { OFFSET_OUT_OF_RANGE } else { 0 };
        let (reading, seen) = read(&broker(350, cut), unlimited());
        let [lost] = &reading.lost[..] else { panic!("{reading:?}") };
        assert_eq!((lost.partition, lost.from, lost.offsets), (0, 0, 350), "{lost:?}");
        assert!(all_of(&seen[&1]) && seen[&0].first() == Some(&350), "{seen:?}");
        // A topic that was created again is shorter than the requested range.
        let (reading, _) = read(&broker(0, |_, _, _| OFFSET_OUT_OF_RANGE), unlimited());
        assert_eq!((reading.end, reading.lost.len()), (ReadingEnd::Whole, 2));
        assert!(reading.lost[0].why.contains("created again"), "{reading:?}");
    }

    #[test]
    fn a_topic_that_goes_while_it_is_read_ends_with_its_name() {
        let gone = |number: u64, _, _| if number >= 5 { 3 } else { 0 };
        let fake = broker(0, gone);
        let error = Arc::clone(&fake.metadata_error);
        let (reading, seen) = read(
            &fake,
            ReadLimits {
                go_on: &|| {
                    error.store(3, Ordering::SeqCst);
                    true
                },
                ..unlimited()
            },
        );
        assert_eq!((reading.end, reading.lost.len()), (ReadingEnd::Whole, 2));
        assert!(reading.lost[0].why.contains("UNKNOWN_TOPIC_OR_PARTITION"), "{reading:?}");
        assert!(!seen[&0].is_empty());
    }

    #[test]
    fn a_denied_topic_comes_with_the_rights_it_needs() {
        let fake = broker(0, |_, _, _| 0);
        fake.metadata_error.store(29, Ordering::SeqCst);
        let mut topics = Topics::enter(&fake.address, &Security::default()).unwrap();
        let error = topics.layout("t").unwrap_err();
        assert!(error.to_string().contains("TOPIC_AUTHORIZATION_FAILED"), "{error}");
        assert!(error.next().is_some_and(|next| next.contains("DESCRIBE and READ")), "{error:?}");
        assert_eq!(
            topics.list().unwrap()[0],
            Listed { topic: "t".to_owned(), partitions: 0, replicas: 0, is_internal: false }
        );
    }
}
