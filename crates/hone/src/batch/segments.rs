//! Segment files of a broker's disk, topic by topic.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_batch::segments::layout_of;
use hone_batch::xray::{Depth, Facts, Sight};
use hone_record::TopicXray;
use hone_tool::interrupt;

use crate::Usage;

/// Read at once. A batch that is larger makes it grow.
const PIECE_BYTES: usize = 4 << 20;
/// A larger batch is none.
const MOST_PIECE_BYTES: usize = 256 << 20;
/// Folders below the one that is named.
const DEEPEST: usize = 6;

/// Segments of a topic, by partition.
type Files = BTreeMap<String, BTreeMap<i32, Vec<PathBuf>>>;

/// Looks into all topics that lie below these paths.
///
/// # Errors
/// When there is no segment, or a file can't be read.
pub(crate) fn look(paths: &[PathBuf], wanted: &[String], depth: Depth) -> Result<Vec<TopicXray>> {
    let mut files = Files::new();
    for path in paths {
        let found = fs::metadata(path).with_context(|| format!("{} can't be read", path.display()))?;
        if found.is_dir() { gather(path, 0, &mut files)? } else { claim(path, &mut files) }
    }
    files.retain(|topic, _| wanted.is_empty() || wanted.contains(topic));
    if files.is_empty() {
        bail!(Usage(format!(
            "no segments (*.log, in folders named TOPIC-PARTITION, or TOPIC/PARTITION_REVISION) below {}{}",
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "),
            if wanted.is_empty() { String::new() } else { format!(" of {}", wanted.join(", ")) }
        )));
    }
    files.into_iter().map(|(topic, partitions)| of_topic(&topic, partitions, depth)).collect()
}

fn gather(folder: &Path, deep: usize, files: &mut Files) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("{} can't be read", folder.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && NOT_YET_OR_NO_MORE.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        if path.is_dir() && deep < DEEPEST {
            gather(&path, deep + 1, files)?;
        } else if path.extension().is_some_and(|ending| ending == "log") {
            claim(&path, files);
        }
    }
    Ok(())
}

/// Kafka's names are offsets with leading zeros, Redpanda's begin with one without (`1000-1-v1.log`).
fn first_offset(path: &Path) -> u64 {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let digits = name.find(|letter: char| !letter.is_ascii_digit()).map_or(name, |end| &name[..end]);
    digits.parse().unwrap_or(0)
}

/// Folders that Kafka is about to delete, or has not taken over yet.
const NOT_YET_OR_NO_MORE: [&str; 3] = ["-delete", "-future", "-stray"];
/// A larger number is a date or the like.
const MOST_PARTITIONS: i32 = 100_000;

/// By the folder's name: Kafka's `TOPIC-PARTITION`, Redpanda's `TOPIC/PARTITION_REVISION`; else by the file's own.
fn claim(path: &Path, files: &mut Files) {
    let name = |path: Option<&Path>| {
        path.and_then(Path::file_name).and_then(|name| name.to_str()).map(str::to_owned)
    };
    let folder = name(path.parent());
    let of_kafka = folder.as_deref().and_then(|folder| {
        let (topic, partition) = folder.rsplit_once('-')?;
        Some((topic.to_owned(), partition_number(partition)?))
    });
    let of_redpanda = folder.as_deref().and_then(|folder| {
        let (partition, revision) = folder.split_once('_')?;
        revision.parse::<u64>().ok()?;
        Some((name(path.parent().and_then(Path::parent))?, partition_number(partition)?))
    });
    let alone = || (name(Some(path)).unwrap_or_default(), 0);
    let (topic, partition) = of_redpanda.or(of_kafka).unwrap_or_else(alone);
    files.entry(topic).or_default().entry(partition).or_default().push(path.to_owned());
}

fn partition_number(text: &str) -> Option<i32> {
    text.parse().ok().filter(|number| (0..MOST_PARTITIONS).contains(number))
}

fn of_topic(topic: &str, partitions: BTreeMap<i32, Vec<PathBuf>>, depth: Depth) -> Result<TopicXray> {
    // Of a copy of some partitions their number is not known, and no key tells its rule.
    let count = partitions.keys().last().map_or(0, |last| last.unsigned_abs() as usize + 1);
    let mut sight = Sight::new(topic, count, depth);
    let mut facts = Facts { share: 1.0, ..Facts::default() };
    for (partition, mut paths) in partitions {
        paths.sort_by_cached_key(|path| (first_offset(path), path.clone()));
        for path in paths {
            match of_file(&path, partition, &mut sight, &mut facts.troubles) {
                Ok(bytes) => facts.fetched_bytes += bytes,
                // Retention takes segments while they are read.
                Err(error) => facts.troubles.push(format!("{error:#}")),
            }
        }
    }
    Ok(sight.finish(facts))
}

fn of_file(path: &Path, partition: i32, sight: &mut Sight, troubles: &mut Vec<String>) -> Result<u64> {
    let cannot = || format!("{} can't be read", path.display());
    let mut file = File::open(path).with_context(cannot)?;
    let (mut piece, mut held, mut all) = (vec![0; PIECE_BYTES], 0, 0);
    let mut layout = None;
    loop {
        if interrupt::requested() {
            troubles.push("interrupted: this is what was read until then".to_owned());
            return Ok(all);
        }
        let read = file.read(&mut piece[held..]).with_context(cannot)?;
        held += read;
        all += read as u64;
        layout = layout.or_else(|| layout_of(&piece[..held]));
        let walked = layout.map_or(0, |layout| sight.take_segment(partition, layout, &piece[..held]));
        piece.copy_within(walked..held, 0);
        held -= walked;
        if read == 0 {
            break;
        }
        if held == piece.len() {
            if held >= MOST_PIECE_BYTES || piece[..held].iter().all(|byte| *byte == 0) {
                break;
            }
            piece.resize(held * 2, 0);
        }
    }
    // A file that is reserved ahead ends with zeros that were never written.
    if piece[..held].iter().any(|byte| *byte != 0) {
        let what =
            if layout.is_none() { "this is no segment of record batches" } else { "no whole batch there" };
        troubles.push(format!("{}: {held} bytes at its end were passed over: {what}", path.display()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(found, [("00000000000000000000.log", 0), ("orders", 7), ("orders-eu", 3)]);
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
