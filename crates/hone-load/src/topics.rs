//! Topics of a cluster as they lie there: which there are, which offsets a time has, and the record sets between two offsets, handed over as
//! they came. Reading needs the right to read, and nothing else.
//!
//! A leader that moves, a partition that is cut off at its beginning and a topic that goes while it is read are told, and the rest goes on.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hone_kafka::error_name;
use kafka_protocol::messages::{ApiKey, MetadataRequest, MetadataResponse};

use crate::LoadError;
use crate::admin::{Admin, METADATA_VERSION, TopicLayout, TopicNow};
use crate::fetch::{
    EARLIEST, FetchedPartition, LATEST, Wanted, fetch_request, offsets_request, parse_ends, parse_fetched,
};
use crate::readback::passes;
use crate::security::{Door, Security};

/// An answer of megabytes by a busy broker.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Elections take seconds; a partition that can't be read for longer is told and left.
const PATIENCE: Duration = Duration::from_secs(15);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// In one answer, of all partitions. Where more is asked for, brokers answer with less.
const ANSWER_BYTES: i32 = 8 << 20;
const PARTITION_BYTES: i32 = 2 << 20;
/// As long as a broker waits for the first byte, which is there.
const WAIT_MS: i32 = 500;
/// Answers without a batch from an offset on that has some.
const EMPTY_ANSWERS: u32 = 3;
const OFFSET_OUT_OF_RANGE: i16 = 1;

/// A topic that a cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub topic: String,
    /// Partitions.
    pub partitions: usize,
    /// Whether it is the cluster's own, such as `__consumer_offsets`.
    pub is_internal: bool,
}

/// A place in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The first offset that is kept.
    Earliest,
    /// The one that the next record gets.
    Latest,
    /// The first one whose time is not before this, milliseconds since 1970.
    TimeMs(i64),
}

/// Offsets of a partition that are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Partition.
    pub partition: i32,
    /// The first offset.
    pub from: i64,
    /// Behind the last one.
    pub to: i64,
}

/// A piece of a partition as it came.
#[derive(Debug, Clone, Copy)]
pub struct Portion<'a> {
    /// Partition.
    pub partition: i32,
    /// The offset that was asked for; the first batch may begin before it.
    pub from: i64,
    /// Behind the last offset that is wanted; later batches may follow.
    pub to: i64,
    /// Whole batches; the last one may be torn.
    pub record_set: &'a [u8],
}

/// A partition that could not be read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Partition.
    pub partition: i32,
    /// From this offset on.
    pub from: i64,
    /// Offsets that are missing.
    pub offsets: u64,
    /// Why.
    pub why: String,
}

/// How a reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadingEnd {
    /// All was read that could be.
    Whole,
    /// So many bytes were not to be exceeded.
    Bytes,
    /// The time was over.
    Time,
    /// Who reads wanted no more.
    Stopped,
}

/// What a reading came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of record sets.
    pub bytes: u64,
    /// How it ended.
    pub end: ReadingEnd,
    /// What is missing of it, but for what lies behind its end.
    pub lost: Vec<Lost>,
}

/// A cluster whose topics are read.
#[derive(Debug)]
pub struct Topics {
    seed: String,
    door: Door,
    lines: BTreeMap<String, Admin>,
}

impl Topics {
    /// Connects to one broker of the cluster, `host:port`; the others are found.
    ///
    /// # Errors
    /// When nobody listens there, a file can't be used, or one of both sides does not let the other in.
    pub fn enter(address: &str, security: &Security) -> Result<Self, LoadError> {
        let door = Door::new(security)?;
        let first = Admin::enter(address, door.clone(), ANSWER_LIMIT)?;
        Ok(Self { seed: address.to_owned(), door, lines: BTreeMap::from([(address.to_owned(), first)]) })
    }

    /// All topics that may be seen, by name.
    ///
    /// # Errors
    /// When the broker goes away.
    pub fn list(&mut self) -> Result<Vec<Listed>, LoadError> {
        let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
        let seed = self.seed.clone();
        let answer: MetadataResponse = self.line(&seed)?.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
        let mut found: Vec<Listed> = answer
            .topics
            .iter()
            .filter_map(|topic| {
                let name = topic.name.as_ref()?.to_string();
                Some(Listed {
                    topic: name,
                    partitions: topic.partitions.len(),
                    is_internal: topic.is_internal,
                })
            })
            .collect();
        found.sort_by(|one, other| one.topic.cmp(&other.topic));
        Ok(found)
    }

    /// Where a topic's partitions are led, and those that nobody leads.
    ///
    /// # Errors
    /// When the cluster has no such topic, or none that may be read.
    pub fn layout(&mut self, topic: &str) -> Result<(TopicLayout, Vec<i32>), LoadError> {
        let seed = self.seed.clone();
        match self.topic_now(topic)? {
            TopicNow::Led { layout, leaderless } => Ok((layout, leaderless)),
            TopicNow::Unknown(error) => Err(LoadError::Refused {
                address: seed,
                what: format!("to tell of topic `{topic}`"),
                error,
                message: hint(error).to_owned(),
            }),
        }
    }

    /// The offset that a place has, by partition; partitions whose leader does not answer for them are left out with the reason.
    ///
    /// # Errors
    /// When an answer is not Kafka's protocol.
    pub fn offsets(
        &mut self,
        layout: &TopicLayout,
        at: At,
    ) -> Result<(BTreeMap<i32, i64>, BTreeMap<i32, String>), LoadError> {
        let (mut found, mut missing) = (BTreeMap::new(), BTreeMap::new());
        for (address, partitions) in &layout.leaders {
            match self.offsets_of(address, &layout.topic, partitions, at) {
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
        topic: &str,
        partitions: &[i32],
        at: At,
    ) -> Result<Vec<(i32, i16, i64)>, LoadError> {
        let at = match at {
            At::Earliest => EARLIEST,
            At::Latest => LATEST,
            // Negative times mean other things.
            At::TimeMs(time) => time.max(0),
        };
        let what = "ListOffsets v2";
        let answer = self.exchange(address, &offsets_request(1, topic, partitions, at), what)?;
        parse_ends(&answer).map_err(|error| self.garbage(address, what, &error.to_string()))
    }

    /// Reads stretches of a topic, turn by turn from all its partitions. `each` takes what came and answers with the offset behind the last
    /// whole batch of it, if it had one; `go_on` is asked between two answers.
    ///
    /// # Errors
    /// When an answer is not Kafka's protocol, or the topic may not be read.
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
            let left_bytes = limits.bytes - course.bytes;
            let answer = match self.fetch(&address, &course.layout.topic, &wanted, left_bytes) {
                Ok(answer) => answer,
                Err(error) if is_of_the_way(&error) => {
                    course.trouble(&wanted, &error.to_string());
                    is_lost = true;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let mut told = Vec::new();
            let head = parse_fetched(&answer, |found| told.push(found))
                .map_err(|error| self.garbage(&address, "Fetch v11", &error.to_string()))?;
            if head.error_code != 0 {
                course.trouble(&wanted, error_name(head.error_code));
                is_lost = true;
            }
            for found in told {
                is_lost |= course.take(&found, each) == Taken::Elsewhere;
            }
        }
        self.mend_beginnings(course)?;
        if is_lost {
            self.find_anew(course)?;
        }
        course.rounds += 1;
        Ok(())
    }

    fn fetch(
        &mut self,
        address: &str,
        topic: &str,
        wanted: &[(i32, i64)],
        left_bytes: u64,
    ) -> Result<bytes::Bytes, LoadError> {
        // The least is for the headers of one batch; brokers send it whole whatever its size is.
        let bytes = i32::try_from(left_bytes).unwrap_or(ANSWER_BYTES).clamp(1 << 16, ANSWER_BYTES);
        let wanted_bytes = Wanted { wait_ms: WAIT_MS, bytes, partition_bytes: PARTITION_BYTES.min(bytes) };
        self.exchange(address, &fetch_request(1, topic, wanted, wanted_bytes), "Fetch v11")
    }

    /// Retention may have taken the beginning of what was to be read.
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

    /// Leaders move; a topic may be gone.
    fn find_anew(&mut self, course: &mut Course) -> Result<(), LoadError> {
        std::thread::sleep(ASK_AGAIN_AFTER);
        match self.topic_now(&course.layout.topic.clone()) {
            Ok(TopicNow::Led { layout, .. }) => course.layout = layout,
            Ok(TopicNow::Unknown(error)) => course.trouble_of_all(error),
            Err(error) if is_of_the_way(&error) => course.trouble_of_all(&error.to_string()),
            Err(error) => return Err(error),
        }
        course.give_up();
        Ok(())
    }

    /// By any broker that answers.
    fn topic_now(&mut self, topic: &str) -> Result<TopicNow, LoadError> {
        let known: Vec<String> =
            std::iter::once(self.seed.clone()).chain(self.lines.keys().cloned()).collect();
        let mut last = None;
        for address in known {
            match self.line(&address).and_then(|line| line.topic_now(topic)) {
                Ok((seen, _)) => return Ok(seen),
                Err(error) => {
                    self.lines.remove(&address);
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| self.garbage(&self.seed, "Metadata", "no broker is known")))
    }

    fn line(&mut self, address: &str) -> Result<&mut Admin, LoadError> {
        match self.lines.entry(address.to_owned()) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Admin::enter(address, self.door.clone(), ANSWER_LIMIT)?)),
        }
    }

    /// A line that broke is opened anew the next time.
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

/// How far a reading may go.
#[derive(Clone, Copy)]
pub struct ReadLimits<'a> {
    /// Bytes of record sets; what comes in one answer may lie above.
    pub bytes: u64,
    /// When to end.
    pub until: Instant,
    /// Whether to go on.
    pub go_on: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for ReadLimits<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ReadLimits").field("bytes", &self.bytes).field("until", &self.until).finish()
    }
}

/// Whether another broker, or the same one a moment later, may do better.
fn is_of_the_way(error: &LoadError) -> bool {
    matches!(
        error,
        LoadError::Connect { .. }
            | LoadError::Broken { .. }
            | LoadError::Slow { .. }
            | LoadError::Mute { .. }
    )
}

fn hint(error: &str) -> &'static str {
    match error {
        "TOPIC_AUTHORIZATION_FAILED" => "; reading it needs READ and DESCRIBE on the topic",
        "UNKNOWN_TOPIC_OR_PARTITION" => "; without DESCRIBE on a topic brokers say the same",
        _ => "",
    }
}

/// What became of a partition's part of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// It is done, or goes on.
    Here,
    /// Another broker may lead it by now.
    Elsewhere,
}

/// Where one partition stands.
#[derive(Debug)]
struct Standing {
    next: i64,
    to: i64,
    empty_answers: u32,
    trouble: Option<(Instant, String)>,
}

/// Where a reading stands.
#[derive(Debug)]
struct Course {
    layout: TopicLayout,
    standings: BTreeMap<i32, Standing>,
    out_of_range: BTreeSet<i32>,
    lost: Vec<Lost>,
    bytes: u64,
    rounds: usize,
}

impl Course {
    fn new(layout: TopicLayout, stretches: &[Stretch]) -> Self {
        let wanted = stretches.iter().filter(|stretch| stretch.from < stretch.to);
        let standings = wanted.map(|stretch| {
            let standing = Standing { next: stretch.from, to: stretch.to, empty_answers: 0, trouble: None };
            (stretch.partition, standing)
        });
        Self {
            layout,
            standings: standings.collect(),
            out_of_range: BTreeSet::new(),
            lost: Vec::new(),
            bytes: 0,
            rounds: 0,
        }
    }

    fn is_done(&self) -> bool {
        self.standings.is_empty()
    }

    fn has_leaderless(&mut self) -> bool {
        let led: BTreeSet<i32> =
            self.layout.leaders.iter().flat_map(|(_, led)| led.iter().copied()).collect();
        let alone: Vec<(i32, i64)> = self
            .standings
            .iter()
            .filter(|(partition, _)| !led.contains(partition))
            .map(|(partition, standing)| (*partition, standing.next))
            .collect();
        self.trouble(&alone, "it has no leader");
        !alone.is_empty()
    }

    /// What to ask of each leader. Answers are filled in the order of the question, so the order turns.
    fn turn(&self) -> Vec<(String, Vec<(i32, i64)>)> {
        let of_leader = |(address, led): &(String, Vec<i32>)| {
            let mut wanted: Vec<(i32, i64)> = led
                .iter()
                .filter_map(|partition| Some((*partition, self.standings.get(partition)?.next)))
                .collect();
            if !wanted.is_empty() {
                let turn = self.rounds % wanted.len();
                wanted.rotate_left(turn);
            }
            (address.clone(), wanted)
        };
        self.layout.leaders.iter().map(of_leader).filter(|(_, wanted)| !wanted.is_empty()).collect()
    }

    fn take(
        &mut self,
        found: &FetchedPartition<'_>,
        each: &mut dyn FnMut(Portion<'_>) -> Option<i64>,
    ) -> Taken {
        let Some(standing) = self.standings.get_mut(&found.partition) else { return Taken::Here };
        match found.error_code {
            0 => {
                self.bytes += found.record_set.len() as u64;
                self.advance(found, each);
                Taken::Here
            }
            OFFSET_OUT_OF_RANGE => {
                self.out_of_range.insert(found.partition);
                Taken::Here
            }
            code if passes(code) => {
                let next = standing.next;
                self.trouble(&[(found.partition, next)], error_name(code));
                Taken::Elsewhere
            }
            code => {
                self.lose(found.partition, error_name(code).to_owned());
                Taken::Here
            }
        }
    }

    fn advance(&mut self, found: &FetchedPartition<'_>, each: &mut dyn FnMut(Portion<'_>) -> Option<i64>) {
        let Some(standing) = self.standings.get_mut(&found.partition) else { return };
        standing.trouble = None;
        let (from, to) = (standing.next, standing.to);
        let portion = Portion { partition: found.partition, from, to, record_set: found.record_set };
        match each(portion).filter(|next| *next > from) {
            Some(next) => {
                (standing.next, standing.empty_answers) = (next, 0);
                if next >= to {
                    self.standings.remove(&found.partition);
                }
            }
            None => {
                standing.empty_answers += 1;
                if standing.empty_answers >= EMPTY_ANSWERS {
                    self.lose(found.partition, "the broker gives no whole batch from there on".to_owned());
                }
            }
        }
    }

    /// What is missing before the log's beginning is lost, and the rest is read.
    fn begins_at(&mut self, partition: i32, earliest: Option<i64>) {
        let Some(standing) = self.standings.get_mut(&partition) else { return };
        let Some(earliest) = earliest.filter(|earliest| *earliest > standing.next) else {
            self.lose(
                partition,
                "the log has no such offset any more (was it cut off, or made anew?)".to_owned(),
            );
            return;
        };
        let (from, until) = (standing.next, earliest.min(standing.to));
        standing.next = until;
        let is_done = until >= standing.to;
        self.lost.push(Lost {
            partition,
            from,
            offsets: until.abs_diff(from),
            why: "retention took it while it was read".to_owned(),
        });
        if is_done {
            self.standings.remove(&partition);
        }
    }

    fn trouble(&mut self, wanted: &[(i32, i64)], why: &str) {
        for (partition, _) in wanted {
            if let Some(standing) = self.standings.get_mut(partition) {
                let since = standing.trouble.as_ref().map_or_else(Instant::now, |(since, _)| *since);
                standing.trouble = Some((since, why.to_owned()));
            }
        }
    }

    fn trouble_of_all(&mut self, why: &str) {
        let all: Vec<(i32, i64)> =
            self.standings.iter().map(|(partition, standing)| (*partition, standing.next)).collect();
        self.trouble(&all, why);
    }

    fn give_up(&mut self) {
        let late: Vec<(i32, String)> = self
            .standings
            .iter()
            .filter_map(|(partition, standing)| {
                let (since, why) = standing.trouble.as_ref()?;
                (since.elapsed() > PATIENCE).then(|| (*partition, why.clone()))
            })
            .collect();
        for (partition, why) in late {
            self.lose(partition, format!("{why}, for {} s", PATIENCE.as_secs()));
        }
    }

    fn lose(&mut self, partition: i32, why: String) {
        if let Some(standing) = self.standings.remove(&partition) {
            let offsets = standing.to.abs_diff(standing.next);
            self.lost.push(Lost { partition, from: standing.next, offsets, why });
        }
    }
}
