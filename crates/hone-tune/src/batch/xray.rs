//! Analyses topics one after the other, and replays them where their findings need it.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hone_load::{Security, Topics};
use hone_record::{BatchXray, TopicXray};
use hone_tool::interrupt;

use super::advise::{self, Records, Replaying};
use super::reading::{self, Wish};
use super::segments;
use hone_experiment::progress::Progress;

/// Analyses topics of a cluster: the named ones, or all user topics.
pub fn of_cluster(
    broker: &str,
    topics: &[String],
    wish: &Wish,
    replaying: Option<&Replaying>,
    security: &Security,
    progress: &Progress,
) -> Result<BatchXray> {
    let mut cluster = Topics::enter(broker, security)?;
    let names = if topics.is_empty() { all(&mut cluster)? } else { topics.to_vec() };
    let is_named = !topics.is_empty();
    let (mut topics, mut notes) = (Vec::new(), Vec::new());
    for (number, name) in names.iter().enumerate() {
        if interrupt::requested() {
            notes.push(format!(
                "interrupted: {} of {} topics were not analysed",
                names.len() - number,
                names.len()
            ));
            break;
        }
        progress.doing(&format!("topic {} of {}: {name}", number + 1, names.len()));
        match reading::look(&mut cluster, name, wish) {
            Ok(found) => topics.push(found),
            // If you name only one topic, its error is the error of the command.
            Err(error) if names.len() == 1 => return Err(error),
            Err(error) => notes.push(format!("{name}: {error:#}")),
        }
    }
    let mut topics = ranked(topics);
    advise(&mut topics, is_named, replaying, progress, |topic, replaying| {
        advise::advise(topic, Records::Cluster(&mut cluster), replaying);
    });
    Ok(BatchXray { source: broker.to_owned(), topics, notes })
}

/// Analyses segments of a broker's disk that were written since a time, of the named topics or of all.
///
/// # Errors
/// When they can't be read.
pub fn of_disk(
    paths: &[PathBuf],
    only: &[String],
    since_ms: i64,
    wish: &Wish,
    replaying: Option<&Replaying>,
    progress: &Progress,
) -> Result<BatchXray> {
    progress.doing("reading segments");
    let segments::Seen { topics, files, internal } = segments::look(paths, only, since_ms, wish.depth)?;
    let mut topics = ranked(topics);
    advise(&mut topics, !only.is_empty(), replaying, progress, |topic, replaying| {
        advise::advise(topic, Records::Files(&files), replaying);
    });
    let apart = || format!("internal topics, skipped: {}; --topic TOPIC includes one", internal.join(", "));
    let notes = (!internal.is_empty()).then(apart).into_iter().collect();
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok(BatchXray { source: paths.join(", "), topics, notes })
}

fn all(cluster: &mut Topics) -> Result<Vec<String>> {
    let names: Vec<String> =
        cluster.list()?.into_iter().filter(|topic| !topic.is_internal).map(|topic| topic.topic).collect();
    if names.is_empty() {
        bail!("the cluster has no topic that this user may see\n  next: grant DESCRIBE on the topics");
    }
    Ok(names)
}

/// Sorted by the batches per second that batches of 16 KiB would avoid.
fn ranked(mut topics: Vec<TopicXray>) -> Vec<TopicXray> {
    topics.sort_by(|one, other| {
        let needless = |topic: &TopicXray| topic.needless_batches_per_s().unwrap_or(0.0);
        needless(other).total_cmp(&needless(one)).then_with(|| one.topic.cmp(&other.topic))
    });
    topics
}

/// Replays the topics whose batches cost most, or the named ones.
fn advise(
    topics: &mut [TopicXray],
    is_named: bool,
    replaying: Option<&Replaying>,
    progress: &Progress,
    mut records: impl FnMut(&mut TopicXray, &Replaying),
) {
    let Some(replaying) = replaying else { return };
    let most = if is_named { usize::MAX } else { advise::MOST_REPLAYED };
    for topic in topics.iter_mut().filter(|topic| advise::is_open(topic)).take(most) {
        if interrupt::requested() {
            return;
        }
        progress.doing(&format!("replaying {}", topic.topic));
        records(topic, replaying);
    }
}
