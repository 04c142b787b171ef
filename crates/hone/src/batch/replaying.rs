//! Reads the records of a topic's window for a replay: from a cluster, or from segment files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_batch::segments::{Layout, layout_of, walk};
use hone_batch::whatif::stream::{Gathered, Gatherer, Limits};
use hone_kafka::Batch;
use hone_load::{At, ReadLimits, ReadingEnd, Topics};
use hone_tool::interrupt;

use super::reading::{between, now_ms};
use crate::Usage;

/// Read at once of a segment. A batch that is larger makes it grow.
const PIECE_BYTES: usize = 256 << 10;
/// A larger batch is none.
const MOST_PIECE_BYTES: usize = 256 << 20;
/// Clocks of producers may be fast by so much.
const FAST_CLOCKS_MS: i64 = 600_000;
/// Folders below the one that is named.
const DEEPEST: usize = 6;
/// The largest number of a partition that is believed of a folder's name.
const MOST_PARTITION: u32 = 100_000;

/// What to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish {
    /// Back from now; `None` is all that is kept.
    pub last_s: Option<f64>,
    /// Bytes at most.
    pub budget_bytes: u64,
    /// How long it may take.
    pub limit: Duration,
    /// What is held in memory.
    pub limits: Limits,
}

/// Records of a topic, with what is known of where they lie.
pub(crate) struct Window {
    /// The topic, or the files.
    pub topic: String,
    /// By producer.
    pub gathered: Gathered,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Number of the leader by partition, where there is one.
    pub leads: Option<Vec<u32>>,
    /// What is missing.
    pub notes: Vec<String>,
}

/// From a cluster.
///
/// # Errors
/// When the topic is not there or may not be read, or its window can't be replayed.
pub(crate) fn of_cluster(topics: &mut Topics, topic: &str, wish: &Wish) -> Result<Window> {
    let until = Instant::now() + wish.limit;
    let (layout, leaderless) = topics.layout(topic)?;
    let led: usize = layout.leaders.iter().map(|(_, led)| led.len()).sum();
    let partitions = u32::try_from(led + leaderless.len()).unwrap_or(u32::MAX);
    let mut notes: Vec<String> = leaderless
        .iter()
        .map(|partition| {
            format!("partition {partition} has no leader and is missing; it would be taken along with others")
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
            ReadingEnd::Bytes => "the budget was used up (--budget)",
            ReadingEnd::Time => "the time was over (--limit)",
            _ if gatherer.is_full() => "there were as many records as may be held (--most-records)",
            _ => "interrupted",
        };
        notes.push(format!("{why}: the window ends where all partitions had been read to"));
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
    let gathered = gatherer.finish().with_context(|| format!("topic {topic} can't be replayed"))?;
    Ok(Window { topic: topic.to_owned(), gathered, partitions, leads: Some(leads), notes })
}

/// From segment files, or folders that hold them: Kafka's and the embedded broker's, or Redpanda's.
///
/// # Errors
/// When there are none or they are of several topics, a file can't be read, or the window can't be replayed.
pub(crate) fn of_segments(paths: &[PathBuf], wish: &Wish) -> Result<Window> {
    let (topic, mut files) = segments_of(paths)?;
    let now_ms = now_ms();
    let since_ms = wish.last_s.map(|last_s| now_ms - (1e3 * last_s) as i64);
    let partitions = files.keys().last().map_or(1, |last| last.saturating_add(1));
    let mut gatherer =
        Gatherer::new(wish.limits, Some(partitions)).within(since_ms, now_ms.saturating_add(FAST_CLOCKS_MS));
    for paths in files.values_mut() {
        // Names are offsets with leading zeros.
        paths.sort();
        if let Some(since_ms) = since_ms {
            let first = first_within(paths, since_ms)?;
            paths.drain(..first);
        }
    }
    let mut notes = Vec::new();
    let mut readers: BTreeMap<u32, Segments> =
        files.into_iter().map(|(partition, paths)| (partition, Segments::new(paths))).collect();
    if let Some(why) = read_in_turn(&mut readers, &mut gatherer, wish, &mut notes)? {
        notes.push(format!("{why}: the window ends where all partitions had been read to"));
        gatherer.cut_to_common_end(|partition| readers.contains_key(&partition));
    }
    let shown = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let gathered = gatherer.finish().with_context(|| format!("{shown} can't be replayed"))?;
    Ok(Window { topic, gathered, partitions, leads: None, notes })
}

/// Partitions in turn, a piece of each at a time, so that all have come to about the same time when reading has to end. What is left in
/// `readers` was not read to its end. Returns why reading ended early.
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
                return Ok(Some("the budget was used up (--budget)"));
            }
            if Instant::now() >= until {
                return Ok(Some("the time was over (--limit)"));
            }
            if gatherer.is_full() {
                return Ok(Some("there were as many records as may be held (--most-records)"));
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

/// Segments of a partition, read one after the other and piece by piece.
struct Segments {
    /// The next one is the last.
    paths: Vec<PathBuf>,
    open: Option<Open>,
}

struct Open {
    path: PathBuf,
    file: File,
    layout: Option<Layout>,
    piece: Vec<u8>,
    held: usize,
}

impl Segments {
    fn new(mut paths: Vec<PathBuf>) -> Self {
        paths.reverse();
        Self { paths, open: None }
    }

    /// Bytes that were read; `None` at the end of all.
    fn read_piece(
        &mut self,
        partition: u32,
        gatherer: &mut Gatherer,
        notes: &mut Vec<String>,
    ) -> Result<Option<u64>> {
        if self.open.is_none() {
            let Some(path) = self.paths.pop() else { return Ok(None) };
            let file = File::open(&path).with_context(|| format!("{} can't be read", path.display()))?;
            self.open = Some(Open { path, file, layout: None, piece: vec![0; PIECE_BYTES], held: 0 });
        }
        let Some(open) = &mut self.open else { return Ok(None) };
        let read = open.read_on(partition, gatherer)?;
        if read == 0 {
            open.tell_rest(notes);
            self.open = None;
        }
        Ok(Some(read as u64))
    }
}

impl Open {
    /// Bytes that were read; 0 where nothing more comes of this file.
    fn read_on(&mut self, partition: u32, gatherer: &mut Gatherer) -> Result<usize> {
        if self.held == self.piece.len() {
            if self.held >= MOST_PIECE_BYTES || self.piece.iter().all(|byte| *byte == 0) {
                return Ok(0);
            }
            self.piece.resize(self.held * 2, 0);
        }
        let free = self.piece.get_mut(self.held..).unwrap_or_default();
        let read = self.file.read(free).with_context(|| format!("{} can't be read", self.path.display()))?;
        self.held += read;
        let bytes = self.piece.get(..self.held).unwrap_or_default();
        self.layout = self.layout.or_else(|| layout_of(bytes));
        let Some(layout) = self.layout else { return Ok(read) };
        let (passed, walked) = walk(bytes, layout, |seen, bytes| {
            gatherer.add(partition, &Batch { header: seen.header, bytes, position: 0 });
        });
        gatherer.pass_over(&passed);
        self.piece.copy_within(walked..self.held, 0);
        self.held -= walked;
        Ok(read)
    }

    /// A file that is reserved ahead ends with zeros that were never written; anything else there is told.
    fn tell_rest(&self, notes: &mut Vec<String>) {
        let rest = self.piece.get(..self.held).unwrap_or_default();
        if rest.iter().any(|byte| *byte != 0) {
            let what = if self.layout.is_none() {
                "this is no segment of record batches"
            } else {
                "no whole batch there"
            };
            let (path, bytes) = (self.path.display(), self.held);
            notes.push(format!("{path}: {bytes} bytes at its end were passed over: {what}"));
        }
    }
}

/// The last of these segments, sorted, that begins before a time by its first header, and those behind it hold all that is later.
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

/// Segments of a partition, by its number.
type Files = BTreeMap<u32, Vec<PathBuf>>;

/// The one topic that lies below these paths.
fn segments_of(paths: &[PathBuf]) -> Result<(String, Files)> {
    let mut topics: BTreeMap<String, Files> = BTreeMap::new();
    for path in paths {
        let found = fs::metadata(path).with_context(|| format!("{} can't be read", path.display()))?;
        if found.is_dir() {
            // What is named by hand is looked into whatever its name is.
            gather(path, 0, &mut topics)?;
        } else {
            claim(path, &mut topics);
        }
    }
    let names = topics.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    match topics.pop_first() {
        None => bail!(Usage(
            "no segment files (*.log) there; name files, or folders of partitions (TOPIC-0, or TOPIC/0_12)"
                .to_owned()
        )),
        Some(only) if topics.is_empty() => Ok(only),
        Some(_) => bail!(Usage(format!(
            "these are segments of several topics: {names}; name the folders of one (TOPIC-[0-9]*)"
        ))),
    }
}

fn gather(folder: &Path, deep: usize, topics: &mut BTreeMap<String, Files>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("{} can't be read", folder.display()))?.path();
        if path.is_dir() {
            if deep < DEEPEST && !is_leftover(&path) {
                gather(&path, deep + 1, topics)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "log") {
            claim(&path, topics);
        }
    }
    Ok(())
}

/// Kafka's folders of partitions that are being deleted, moved in, or belong to no one: `orders-0.3f2a-delete`.
fn is_leftover(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.contains('.') && ["-delete", "-future", "-stray"].iter().any(|ending| name.ends_with(ending))
}

/// By the folder: Redpanda's `TOPIC/PARTITION_REVISION` or Kafka's `TOPIC-PARTITION`; else all that lies in a folder is partition 0 of
/// what that is called.
fn claim(path: &Path, topics: &mut BTreeMap<String, Files>) {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned)
    };
    let folder = name(path.parent());
    // What has a larger number is a date, or some such; a broker has no so many.
    let number = |text: &str| text.parse().ok().filter(|partition| *partition <= MOST_PARTITION);
    let of_kafka = folder.as_deref().and_then(|folder| {
        let (topic, partition) = folder.rsplit_once('-')?;
        Some((topic.to_owned(), number(partition)?))
    });
    let of_redpanda = folder.as_deref().and_then(|folder| {
        let (partition, revision) = folder.split_once('_')?;
        revision.parse::<u64>().ok()?;
        Some((name(path.parent().and_then(Path::parent))?, number(partition)?))
    });
    let alone = || (folder.clone().or_else(|| name(Some(path))).unwrap_or_default(), 0);
    let (topic, partition) = of_redpanda.or(of_kafka).unwrap_or_else(alone);
    topics.entry(topic).or_default().entry(partition).or_default().push(path.to_owned());
}

#[cfg(test)]
mod tests {
    use hone_batch::whatif::Codec;
    use hone_kafka::BatchBuilder;
    use hone_kafka::batch::set_base_offset;

    use super::*;

    fn claimed(path: &str) -> (String, u32) {
        let mut topics = BTreeMap::new();
        claim(Path::new(path), &mut topics);
        let (topic, files) = topics.pop_first().unwrap();
        (topic, *files.keys().next().unwrap())
    }

    #[test]
    fn partitions_are_named_by_folders() {
        assert_eq!(claimed("/data/orders-7/00000000000000000000.log"), ("orders".to_owned(), 7));
        assert_eq!(claimed("/data/my-topic-12/0.log"), ("my-topic".to_owned(), 12));
        assert_eq!(claimed("/data/kafka/orders/3_18/0-1-v1.log"), ("orders".to_owned(), 3));
        assert_eq!(claimed("00000000000000000000.log").1, 0);
        assert_eq!(claimed("/tmp/dump-20241119/0.log"), ("dump-20241119".to_owned(), 0), "a date");
        for (name, is) in
            [("orders-0.3f2a-delete", true), ("orders-0.3f2a-future", true), ("own-stray", false)]
        {
            assert_eq!(is_leftover(Path::new(name)), is, "{name}");
        }
    }

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
        assert!(found.notes[0].contains("--budget"), "{:?}", found.notes);
        let records = found.gathered.circumstances.records;
        assert!((150..600).contains(&records), "{records}");
    }
}
