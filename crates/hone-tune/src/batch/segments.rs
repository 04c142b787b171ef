//! Segment files of a broker's disk, topic by topic.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_batch::segments::{Layout, layout_of};
use hone_batch::xray::{Depth, Facts, Sight};
use hone_record::TopicXray;
use hone_tool::interrupt;

use hone_experiment::ending::Usage;

/// Bytes per read of a file. It grows for a larger batch.
const PIECE_BYTES: usize = 4 << 20;
/// A larger length can't be a batch.
const MOST_PIECE_BYTES: usize = 256 << 20;
/// Depth of the search below a named folder.
const DEEPEST: usize = 6;
/// A larger number is a date or the like, not a partition.
const MOST_PARTITION: i32 = 100_000;

/// Segments by topic and partition, in the order of their offsets.
pub type Files = BTreeMap<String, BTreeMap<i32, Vec<PathBuf>>>;

/// All segments below these paths.
///
/// # Errors
/// When a path can't be read.
pub fn find(paths: &[PathBuf]) -> Result<Files> {
    let mut files = Files::new();
    for path in paths {
        let found = fs::metadata(path).with_context(|| format!("{} can't be read", path.display()))?;
        // A file that you name is read, whatever its name is.
        if found.is_dir() { gather(path, 0, &mut files)? } else { claim(path, &mut files) }
    }
    for paths in files.values_mut().flat_map(BTreeMap::values_mut) {
        paths.sort_by_cached_key(|path| (first_offset(path), path.clone()));
    }
    Ok(files)
}

fn gather(folder: &Path, deep: usize, files: &mut Files) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("{} can't be read", folder.display()))?.path();
        if path.is_dir() {
            if deep < DEEPEST && !is_leftover(&path) {
                gather(&path, deep + 1, files)?;
            }
        } else if path.extension().is_some_and(|ending| ending == "log") {
            claim(&path, files);
        }
    }
    Ok(())
}

/// Kafka's folders of partitions that are being deleted or moved, or are stray: `orders-0.3f2a-delete`.
fn is_leftover(folder: &Path) -> bool {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.contains('.') && ["-delete", "-future", "-stray"].iter().any(|ending| name.ends_with(ending))
}

/// Topic and partition from the folder's name: Redpanda's `TOPIC/PARTITION_REVISION` or Kafka's `TOPIC-PARTITION`. Any other
/// folder becomes partition 0 of a topic with its name.
fn claim(path: &Path, files: &mut Files) {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned)
    };
    let folder = name(path.parent());
    let number = |text: &str| text.parse().ok().filter(|number| (0..=MOST_PARTITION).contains(number));
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
    files.entry(topic).or_default().entry(partition).or_default().push(path.to_owned());
}

/// Kafka's names are offsets with leading zeros. Redpanda's start with one without (`1000-1-v1.log`).
fn first_offset(path: &Path) -> u64 {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digits = name.find(|letter: char| !letter.is_ascii_digit()).map_or(name, |end| &name[..end]);
    digits.parse().unwrap_or(0)
}

/// A segment that is read piece by piece.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    file: File,
    layout: Option<Layout>,
    piece: Vec<u8>,
    held: usize,
}

impl Segment {
    /// Opens a file to read it in pieces of this size.
    ///
    /// # Errors
    /// When it can't be opened.
    pub(crate) fn open(path: &Path, piece_bytes: usize) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
        Ok(Self { path: path.to_owned(), file, layout: None, piece: vec![0; piece_bytes], held: 0 })
    }

    /// Reads the next piece and passes the available bytes to `walk`, which returns how many of them are whole batches. Returns
    /// the bytes that were read: 0 at the end of the file.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn read_on(&mut self, walk: impl FnOnce(Layout, &[u8]) -> usize) -> Result<usize> {
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
        if let Some(layout) = self.layout {
            let walked = walk(layout, bytes).min(self.held);
            self.piece.copy_within(walked..self.held, 0);
            self.held -= walked;
        }
        Ok(read)
    }

    /// Bytes at the end of the file that are no batch. Trailing zeros of a preallocated file are not reported.
    pub(crate) fn rest(&self) -> Option<String> {
        let rest = self.piece.get(..self.held).unwrap_or_default();
        let what = match self.layout {
            None => "this is not a segment of record batches",
            Some(_) => "there is no whole batch",
        };
        let (path, bytes) = (self.path.display(), self.held);
        let told = || format!("{path}: skipped {bytes} bytes at the end: {what}");
        rest.iter().any(|byte| *byte != 0).then(told)
    }
}

/// Analyses all topics below these paths, as far as their records are not older than `since_ms`.
///
/// # Errors
/// When there is no segment.
pub fn look(paths: &[PathBuf], wanted: &[String], since_ms: i64, depth: Depth) -> Result<Seen> {
    let mut files = find(paths)?;
    files.retain(|topic, _| wanted.is_empty() || wanted.contains(topic));
    // Nobody tunes the cluster's own topics, so they are skipped unless you name them or there are no others.
    let internal: Vec<String> = files.keys().filter(|topic| is_internal(topic)).cloned().collect();
    let is_apart = wanted.is_empty() && internal.len() < files.len();
    if is_apart {
        files.retain(|topic, _| !is_internal(topic));
    }
    if files.is_empty() {
        bail!(Usage(format!(
            "no segments (*.log, in folders named TOPIC-PARTITION, or TOPIC/PARTITION_REVISION) below {}{}",
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
            if wanted.is_empty() { String::new() } else { format!(" of {}", wanted.join(", ")) }
        )));
    }
    let topics =
        files.iter().map(|(topic, partitions)| of_topic(topic, partitions, since_ms, depth)).collect();
    Ok(Seen { topics, files, internal: if is_apart { internal } else { Vec::new() } })
}

/// The contents of some paths.
pub struct Seen {
    /// An X-ray of each topic.
    pub topics: Vec<TopicXray>,
    /// Their files, by topic and partition.
    pub files: Files,
    /// Internal topics of the cluster, which were skipped.
    pub internal: Vec<String>,
}

/// Internal topics of brokers and registries.
pub fn is_internal(topic: &str) -> bool {
    topic.starts_with("__") || topic == "_schemas" || topic.starts_with("_redpanda")
}

fn of_topic(topic: &str, partitions: &BTreeMap<i32, Vec<PathBuf>>, since_ms: i64, depth: Depth) -> TopicXray {
    // In a copy of some partitions, the number of partitions is not known, so the keys don't show the
    // partitioner.
    let count = partitions.keys().last().map_or(0, |last| last.unsigned_abs() as usize + 1);
    let mut sight = Sight::new(topic, count, depth);
    let mut facts = Facts { share: 1.0, ..Facts::default() };
    for (partition, paths) in partitions {
        for path in paths {
            match of_file(path, *partition, since_ms, &mut sight, &mut facts.troubles) {
                Ok(bytes) => facts.fetched_bytes += bytes,
                // Retention deletes segments while Hone reads them.
                Err(error) => facts.troubles.push(format!("{error:#}")),
            }
        }
    }
    sight.finish(facts)
}

fn of_file(
    path: &Path,
    partition: i32,
    since_ms: i64,
    sight: &mut Sight,
    troubles: &mut Vec<String>,
) -> Result<u64> {
    let mut segment = Segment::open(path, PIECE_BYTES)?;
    let mut all = 0;
    loop {
        if interrupt::requested() {
            troubles.push("interrupted: this is the result up to then".to_owned());
            return Ok(all);
        }
        match segment.read_on(|layout, bytes| sight.take_segment(partition, layout, since_ms, bytes))? {
            0 => break,
            read => all += read as u64,
        }
    }
    troubles.extend(segment.rest());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claimed(path: &str) -> (String, i32) {
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

    #[test]
    fn internal_topics_are_apart() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["__cluster_metadata-0", "__consumer_offsets-3", "orders-0"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("00000000000000000000.log"), b"").unwrap();
        }
        let paths = [folder.path().to_owned()];
        let depth = Depth { decode_bytes: 0, tolerable_linger_ms: 100.0 };
        let names = |seen: &Seen| seen.topics.iter().map(|topic| topic.topic.clone()).collect::<Vec<_>>();
        let seen = look(&paths, &[], i64::MIN, depth).unwrap();
        assert_eq!((names(&seen), seen.internal.len()), (vec!["orders".to_owned()], 2));
        let named = look(&paths, &["__cluster_metadata".to_owned()], i64::MIN, depth).unwrap();
        assert_eq!((names(&named), named.internal.len()), (vec!["__cluster_metadata".to_owned()], 0));
    }

    #[test]
    fn segments_are_told_by_their_folders() {
        let mut files = Files::new();
        for path in [
            "/data/orders-eu-3/00000000000000000012.log",
            "/var/lib/redpanda/data/kafka/orders/7_42/1000-1-v1.log",
            "/tmp/dump-20241119/00000000000000000000.log",
        ] {
            claim(Path::new(path), &mut files);
        }
        let found: Vec<(&str, i32)> = files
            .iter()
            .flat_map(|(topic, of)| of.keys().map(|partition| (topic.as_str(), *partition)))
            .collect();
        assert_eq!(found, [("dump-20241119", 0), ("orders", 7), ("orders-eu", 3)]);
    }

    #[test]
    fn segments_are_read_in_the_order_of_their_offsets() {
        let mut paths = ["1000-1-v1.log", "0-1-v1.log", "200-1-v1.log"].map(PathBuf::from);
        paths.sort_by_cached_key(|path| first_offset(path));
        assert_eq!(
            paths.map(|path| path.display().to_string()),
            ["0-1-v1.log", "200-1-v1.log", "1000-1-v1.log"]
        );
        assert_eq!(first_offset(Path::new("00000000000000000012.log")), 12);
    }
}
