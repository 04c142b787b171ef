//! Reads the records of a topic's time range for a replay, from a cluster or from segment files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use hone_batch::segments::{layout_of, walk};
use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::predict::{Case, Change, what_if};
use hone_batch::whatif::stream::{Gate, Gathered, Gatherer, Limits};
use hone_kafka::Batch;
use hone_load::{At, ReadLimits, ReadingEnd, Topics, hint};
use hone_record::WhatIf;
use hone_tool::interrupt;

use super::reading::between;
use super::segments::{self, Segment};
use hone_experiment::ending::Usage;
use hone_experiment::moment::now_ms;

/// Bytes per read of a segment. All partitions have one open at the same time.
const PIECE_BYTES: usize = 256 << 10;
/// Tolerance for producers' clocks that are fast.
const FAST_CLOCKS_MS: i64 = 600_000;

/// Limits of reading.
#[derive(Debug, Clone, Copy)]
pub struct Wish {
    /// Back from now; `None` for everything in the topic.
    pub last_s: Option<f64>,
    /// Bytes at most.
    pub budget_bytes: u64,
    /// How long it may take.
    pub limit: Duration,
    /// Records in memory at most.
    pub limits: Limits,
}

/// How far back records of a cluster are read without --last.
pub const LAST_S: f64 = 300.0;

impl Wish {
    /// With the limits of `hone batch whatif`.
    pub fn usual(last_s: Option<f64>, budget_bytes: u64, limit_s: f64, reads_records: bool) -> Self {
        let plain = Limits::default();
        let kept_bytes = if reads_records { plain.kept_bytes } else { 0 };
        Self {
            last_s,
            budget_bytes,
            limit: Duration::from_secs_f64(limit_s.clamp(0.1, 1e6)),
            limits: Limits { kept_bytes, reads_records, ..plain },
        }
    }
}

/// The inputs of a replay other than the records.
#[derive(Debug, Clone)]
pub struct Question {
    /// The current settings, as far as the user states them.
    pub told: Told,
    /// The change to simulate.
    pub change: Change,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The longest linger to propose, in milliseconds.
    pub tolerable_ms: f64,
    /// Time limit of the replay.
    pub limit_s: f64,
}

/// Replays the current settings and a change.
///
/// # Errors
/// When a codec fails.
pub fn replayed(window: Window, question: &Question) -> Result<WhatIf> {
    let case = Case {
        gathered: &window.gathered,
        told: question.told.clone(),
        leads: window.leads,
        partitions: window.partitions,
        seed: question.seed,
        tolerable_us: (question.tolerable_ms * 1e3).round().clamp(0.0, 1e12) as u64,
    };
    let until = Instant::now() + Duration::from_secs_f64(question.limit_s.clamp(0.0, 1e6));
    let go_on = || !interrupt::requested() && Instant::now() < until;
    let mut found = what_if(&case, &question.change, &go_on)?;
    found.topic = window.topic;
    found.notes.splice(0..0, window.notes);
    Ok(found)
}

/// Records of a topic, with their leaders and partitions.
pub struct Window {
    /// The topic, or the files.
    pub topic: String,
    /// By producer.
    pub gathered: Gathered,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Number of the leader by partition, where there is one.
    pub leads: Option<Vec<u32>>,
    /// Missing parts.
    pub notes: Vec<String>,
}

/// From a cluster.
///
/// # Errors
/// When the topic does not exist or can't be read, or its time range can't be replayed.
pub fn of_cluster(topics: &mut Topics, topic: &str, wish: &Wish) -> Result<Window> {
    let until = Instant::now() + wish.limit;
    let (layout, leaderless) = topics.layout(topic)?;
    let led: usize = layout.leaders.iter().map(|(_, led)| led.len()).sum();
    let partitions = u32::try_from(led + leaderless.len()).unwrap_or(u32::MAX);
    let mut notes: Vec<String> = leaderless
        .iter()
        .map(|partition| {
            format!(
                "partition {partition} has no leader and is missing; its batches would share requests \
                 with others"
            )
        })
        .collect();
    let (ends, missing) = topics.offsets(&layout, At::Latest)?;
    notes.extend(missing.iter().map(|(partition, why)| format!("partition {partition} is missing: {why}")));
    let now_ms = now_ms();
    let since_ms = wish.last_s.map(|last_s| now_ms - (1e3 * last_s) as i64);
    let (begins, _) = topics.offsets(&layout, since_ms.map_or(At::Earliest, At::TimeMs))?;
    let stretches = between(&begins, &ends, &ends);
    let mut gatherer =
        Gatherer::new(wish.limits, Some(partitions)).within(since_ms, now_ms.saturating_add(FAST_CLOCKS_MS));
    let mut open: BTreeMap<u32, i64> =
        stretches.iter().map(|stretch| (stretch.partition.unsigned_abs(), stretch.to)).collect();
    let is_full = std::cell::Cell::new(false);
    let go_on = || !interrupt::requested() && !is_full.get();
    let limits = ReadLimits { bytes: wish.budget_bytes, offset_bytes: None, until, go_on: &go_on };
    let came = topics.read(&layout, &stretches, limits, &mut |portion| {
        let partition = portion.partition.unsigned_abs();
        let next = gatherer.add_set(partition, portion.record_set, portion.from..portion.to);
        is_full.set(gatherer.is_full());
        if next.is_some_and(|next| next >= portion.to) {
            open.remove(&partition);
        }
        next
    })?;
    notes.extend(came.lost.iter().map(|lost| {
        format!(
            "partition {}: {} offsets from {} on are missing: {}",
            lost.partition, lost.offsets, lost.from, lost.why
        )
    }));
    if came.end != ReadingEnd::Whole {
        let why = match came.end {
            ReadingEnd::Bytes => "the read limit was reached (--read-limit)",
            ReadingEnd::Time => "the time limit was reached (--read-timeout)",
            _ if gatherer.is_full() => "the limit of records in memory was reached (--max-records)",
            _ => "interrupted",
        };
        notes.push(format!("{why}: the replayed time range ends where all partitions were read"));
        let open: BTreeSet<u32> = open.keys().copied().collect();
        gatherer.cut_to_common_end(|partition| open.contains(&partition));
    }
    let mut leads = vec![0; partitions as usize];
    for (number, (_, led)) in layout.leaders.iter().enumerate() {
        for partition in led {
            if let Some(leader) = leads.get_mut(partition.unsigned_abs() as usize) {
                *leader = number as u32;
            }
        }
    }
    let gathered = finished(gatherer, topic, came.lost.first().map(|lost| lost.why.as_str()))?;
    Ok(Window { topic: topic.to_owned(), gathered, partitions, leads: Some(leads), notes })
}

/// All records that were read, unless they can't be replayed. `lost` has the reasons for missing records.
fn finished(gatherer: Gatherer, topic: &str, lost: Option<&str>) -> Result<Gathered> {
    let gathered = gatherer.finish().map_err(|gate| match lost {
        Some(why) if gate == Gate::Empty => {
            anyhow!("can't read topic {topic}: {why}{}", hint(why))
        }
        _ => anyhow::Error::new(gate).context(format!("can't replay topic {topic}")),
    })?;
    if gathered.span_us == 0 {
        bail!(
            "can't replay topic {topic}: all {} records have the same timestamp, so there is no rate; use a \
             longer time range (--last)",
            gathered.circumstances.records
        );
    }
    Ok(gathered)
}

/// From segment files, or folders that hold them: Kafka's and the embedded broker's, or Redpanda's.
///
/// # Errors
/// When there are none, they belong to several topics, a file can't be read, or the time range can't be replayed.
pub fn of_segments(paths: &[PathBuf], wish: &Wish) -> Result<Window> {
    let (topic, files) = of_one_topic(paths)?;
    of_files(topic, files, wish)
}

/// From the segment files of a topic, by partition.
///
/// # Errors
/// When a file can't be read, or the time range can't be replayed.
pub fn of_files(topic: String, mut files: BTreeMap<i32, Vec<PathBuf>>, wish: &Wish) -> Result<Window> {
    let now_ms = now_ms();
    let since_ms = wish.last_s.map(|last_s| now_ms - (1e3 * last_s) as i64);
    let partitions = files.keys().last().map_or(1, |last| last.unsigned_abs() + 1);
    let mut gatherer =
        Gatherer::new(wish.limits, Some(partitions)).within(since_ms, now_ms.saturating_add(FAST_CLOCKS_MS));
    if let Some(since_ms) = since_ms {
        for paths in files.values_mut() {
            let first = first_within(paths, since_ms)?;
            paths.drain(..first);
        }
    }
    let mut notes = Vec::new();
    let mut readers: BTreeMap<u32, Segments> = files
        .into_iter()
        .map(|(partition, paths)| (partition.unsigned_abs(), Segments::new(paths)))
        .collect();
    if let Some(why) = read_in_turn(&mut readers, &mut gatherer, wish, &mut notes)? {
        notes.push(format!("{why}: the replayed time range ends where all partitions were read"));
        gatherer.cut_to_common_end(|partition| readers.contains_key(&partition));
    }
    let gathered = finished(gatherer, &topic, None)?;
    Ok(Window { topic, gathered, partitions, leads: None, notes })
}

/// Reads the partitions in turn, one piece at a time, so that all of them reach about the same time when reading ends. Readers
/// that stay in `readers` were not read to their end. Returns why reading ended early.
fn read_in_turn(
    readers: &mut BTreeMap<u32, Segments>,
    gatherer: &mut Gatherer,
    wish: &Wish,
    notes: &mut Vec<String>,
) -> Result<Option<&'static str>> {
    let until = Instant::now() + wish.limit;
    let mut left = wish.budget_bytes;
    while !readers.is_empty() {
        let turn: Vec<u32> = readers.keys().copied().collect();
        for partition in turn {
            if interrupt::requested() {
                return Ok(Some("interrupted"));
            }
            if left == 0 {
                return Ok(Some("the read limit was reached (--read-limit)"));
            }
            if Instant::now() >= until {
                return Ok(Some("the time limit was reached (--read-timeout)"));
            }
            if gatherer.is_full() {
                return Ok(Some("the limit of records in memory was reached (--max-records)"));
            }
            let Some(reader) = readers.get_mut(&partition) else { continue };
            match reader.read_piece(partition, gatherer, notes)? {
                Some(bytes) => left = left.saturating_sub(bytes),
                None => drop(readers.remove(&partition)),
            }
        }
    }
    Ok(None)
}

/// Segments of a partition, read in sequence and piece by piece.
struct Segments {
    /// The next one is the last.
    paths: Vec<PathBuf>,
    open: Option<Segment>,
}

impl Segments {
    fn new(mut paths: Vec<PathBuf>) -> Self {
        paths.reverse();
        Self { paths, open: None }
    }

    /// The next bytes; `None` at the end of the last segment.
    fn read_piece(
        &mut self,
        partition: u32,
        gatherer: &mut Gatherer,
        notes: &mut Vec<String>,
    ) -> Result<Option<u64>> {
        if self.open.is_none() {
            let Some(path) = self.paths.pop() else { return Ok(None) };
            self.open = Some(Segment::open(&path, PIECE_BYTES)?);
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let read = open.read_on(|layout, bytes| {
            let (passed, walked) = walk(bytes, layout, |seen, bytes| {
                gatherer.add(partition, &Batch { header: seen.header, bytes, position: 0 });
            });
            gatherer.pass_over(&passed);
            walked
        })?;
        if read == 0 {
            notes.extend(open.rest());
            self.open = None;
        }
        Ok(Some(read as u64))
    }
}

/// The last of these sorted segments whose first header is older than a time. It and the later ones hold all newer records.
fn first_within(paths: &[PathBuf], since_ms: i64) -> Result<usize> {
    for (place, path) in paths.iter().enumerate().rev() {
        if first_time_ms(path)?.is_some_and(|begin_ms| begin_ms < since_ms) {
            return Ok(place);
        }
    }
    Ok(0)
}

fn first_time_ms(path: &Path) -> Result<Option<i64>> {
    let cannot = || format!("{} can't be read", path.display());
    let mut head = Vec::new();
    File::open(path)
        .with_context(cannot)?
        .take(PIECE_BYTES as u64)
        .read_to_end(&mut head)
        .with_context(cannot)?;
    let mut first_ms = None;
    if let Some(layout) = layout_of(&head) {
        walk(&head, layout, |seen, _| first_ms = first_ms.or(Some(seen.header.base_timestamp)));
    }
    Ok(first_ms)
}

/// The only topic below these paths.
fn of_one_topic(paths: &[PathBuf]) -> Result<(String, BTreeMap<i32, Vec<PathBuf>>)> {
    let mut topics = segments::find(paths)?;
    let names = topics.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match topics.pop_first() {
        None => bail!(Usage(
            "no segment files (*.log) found; name files, or folders of partitions (TOPIC-0, or TOPIC/0_12)"
                .to_owned()
        )),
        Some(only) if topics.is_empty() => Ok(only),
        Some(_) => bail!(Usage(format!(
            "these segments belong to several topics: {names}; name the folders of one topic (TOPIC-[0-9]*)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hone_batch::whatif::Codec;
    use hone_kafka::BatchBuilder;
    use hone_kafka::batch::set_base_offset;

    use super::*;

    fn segment(folder: &Path, name: &str, begin_ms: i64, batches: i64) {
        fs::create_dir_all(folder).unwrap();
        let mut all = Vec::new();
        for place in 0..batches {
            let mut builder = BatchBuilder::new(Codec::None);
            builder.push(None, Some(b"value"), begin_ms + place * 20);
            let mut bytes = builder.build().unwrap();
            set_base_offset(&mut bytes, place).unwrap();
            all.extend(bytes);
        }
        fs::write(folder.join(name), all).unwrap();
    }

    fn wish(last_s: Option<f64>) -> Wish {
        Wish { last_s, budget_bytes: 1 << 30, limit: Duration::from_secs(60), limits: Limits::default() }
    }

    #[test]
    fn only_one_topic_is_read_and_only_its_window() {
        let data = tempfile::tempdir().unwrap();
        let now_ms = now_ms();
        let orders = data.path().join("orders-0");
        segment(&orders, "00000000000000000000.log", now_ms - 7_200_000, 50);
        segment(&orders, "00000000000000000050.log", now_ms - 3_600_000, 60);
        segment(&orders, "00000000000000000110.log", now_ms - 30_000, 70);
        segment(&data.path().join("orders-0.1a-delete"), "0.log", now_ms - 30_000, 500);
        let of = |last_s| of_segments(&[data.path().to_owned()], &wish(last_s)).unwrap();
        assert_eq!(of(Some(300.0)).gathered.circumstances.records, 70);
        assert_eq!(of(Some(3_650.0)).gathered.circumstances.records, 130);
        let all = of(None);
        assert_eq!(
            (all.gathered.circumstances.records, all.topic.as_str(), all.partitions),
            (180, "orders", 1)
        );
        segment(&data.path().join("orders-dlq-0"), "0.log", now_ms - 30_000, 5);
        let error = of_segments(&[data.path().to_owned()], &wish(None)).err().unwrap().to_string();
        assert!(error.contains("several topics: orders, orders-dlq"), "{error}");
    }

    #[test]
    fn a_budget_ends_all_partitions_at_one_time() {
        let data = tempfile::tempdir().unwrap();
        let now_ms = now_ms();
        for partition in 0..2 {
            let folder = data.path().join(format!("orders-{partition}"));
            for file in 0..3 {
                segment(&folder, &format!("{file:020}.log"), now_ms - 60_000 + file * 10_000, 100);
            }
        }
        let few = Wish { budget_bytes: 20_000, ..wish(None) };
        let found = of_segments(&[data.path().to_owned()], &few).unwrap();
        assert!(found.notes[0].contains("--read-limit"), "{:?}", found.notes);
        let records = found.gathered.circumstances.records;
        assert!((150..600).contains(&records), "{records}");
    }
}
