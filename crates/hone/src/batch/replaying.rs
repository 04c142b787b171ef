//! Reads the records of a topic's window for a replay: from a cluster, or from segment files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use hone_batch::whatif::stream::{Gathered, Gatherer, Limits};
use hone_load::{At, ReadLimits, ReadingEnd, Stretch, Topics};
use hone_tool::interrupt;

use crate::Usage;

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
    let begin = wish.last_s.map_or(At::Earliest, |last_s| At::TimeMs(now_ms() - (1e3 * last_s) as i64));
    let (begins, _) = topics.offsets(&layout, begin)?;
    let stretches = between(&begins, &ends);
    let mut gatherer = Gatherer::new(wish.limits, Some(partitions));
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

/// From segment files (Kafka's and the embedded broker's), or folders that hold them.
///
/// # Errors
/// When there are none, a file can't be read, or the window can't be replayed.
pub(crate) fn of_segments(paths: &[PathBuf], wish: &Wish) -> Result<Window> {
    let mut files: BTreeMap<u32, Vec<PathBuf>> = BTreeMap::new();
    for path in paths {
        let found = fs::metadata(path).with_context(|| format!("{} can't be read", path.display()))?;
        if found.is_dir() {
            gather(path, &mut files)?;
        } else {
            files.entry(partition_of(path)).or_default().push(path.clone());
        }
    }
    if files.is_empty() {
        bail!(Usage(
            "no segment files (*.log) there; name files, or folders of partitions (TOPIC-0, TOPIC-1)"
                .to_owned()
        ));
    }
    let partitions = files.keys().last().map_or(1, |last| last.saturating_add(1));
    let mut gatherer = Gatherer::new(wish.limits, Some(partitions));
    for (partition, mut paths) in files {
        // Names are offsets with leading zeros.
        paths.sort();
        for path in paths {
            let bytes = fs::read(&path).with_context(|| format!("{} can't be read", path.display()))?;
            gatherer.add_set(partition, &bytes, i64::MIN..i64::MAX);
        }
    }
    let topic = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let gathered = gatherer.finish().with_context(|| format!("{topic} can't be replayed"))?;
    Ok(Window { topic, gathered, partitions, leads: None, notes: Vec::new() })
}

fn gather(folder: &Path, files: &mut BTreeMap<u32, Vec<PathBuf>>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} can't be read", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("{} can't be read", folder.display()))?.path();
        if path.extension().is_some_and(|ending| ending == "log") {
            files.entry(partition_of(&path)).or_default().push(path);
        }
    }
    Ok(())
}

/// By the name of the folder, TOPIC-PARTITION; 0 where it is none.
fn partition_of(path: &Path) -> u32 {
    let folder = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
    folder.and_then(|name| name.rsplit_once('-')?.1.parse().ok()).unwrap_or(0)
}

fn between(begins: &BTreeMap<i32, i64>, ends: &BTreeMap<i32, i64>) -> Vec<Stretch> {
    let stretch = |(partition, to): (&i32, &i64)| {
        let from = begins.get(partition)?;
        // Where nothing came since the time that was asked for, there is no such offset.
        let from = if *from < 0 { *to } else { *from };
        (from < *to).then_some(Stretch { partition: *partition, from, to: *to })
    };
    ends.iter().filter_map(stretch).collect()
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_named_by_folders() {
        assert_eq!(partition_of(Path::new("/data/orders-7/00000000000000000000.log")), 7);
        assert_eq!(partition_of(Path::new("00000000000000000000.log")), 0);
        assert_eq!(partition_of(Path::new("/data/my-topic-12/0.log")), 12);
    }

    #[test]
    fn nothing_since_a_time_is_nothing_to_read() {
        let map = |offset| BTreeMap::from([(0, offset)]);
        assert_eq!(between(&map(-1), &map(9)), []);
        assert_eq!(between(&map(5), &map(9)), [Stretch { partition: 0, from: 5, to: 9 }]);
    }
}
