//! Topics looked into one after the other, and replayed for what their findings leave open.

use std::path::PathBuf;

use anyhow::{Result, bail};
use hone_load::{Security, Topics};
use hone_record::{BatchXray, TopicXray};
use hone_tool::interrupt;

use super::advise::{self, Records, Replaying};
use super::reading::{self, Wish};
use super::segments;
use hone_experiment::progress::Progress;

/// Looks into topics of a cluster: those that are named, or all of its users.
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
                "interrupted: {} of {} topics were not looked into",
                names.len() - number,
                names.len()
            ));
            break;
        }
        progress.doing(&format!("topic {} of {}: {name}", number + 1, names.len()));
        match reading::look(&mut cluster, name, wish) {
            Ok(found) => topics.push(found),
            // One that was named alone is all that was asked for.
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

/// Looks into segments of a broker's disk: of the topics that are named, or of all; what was written since then.
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
    let apart = || format!("internal topics, left out: {}; --only TOPIC looks into one", internal.join(", "));
    let notes = (!internal.is_empty()).then(apart).into_iter().collect();
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Ok(BatchXray { source: paths.join(", "), topics, notes })
}

fn all(cluster: &mut Topics) -> Result<Vec<String>> {
    let names: Vec<String> =
        cluster.list()?.into_iter().filter(|topic| !topic.is_internal).map(|topic| topic.topic).collect();
    if names.is_empty() {
        bail!("the cluster has no topic that may be seen; seeing one needs DESCRIBE on it");
    }
    Ok(names)
}

/// By the batches a second that would not be there if all were of 16 KiB.
fn ranked(mut topics: Vec<TopicXray>) -> Vec<TopicXray> {
    topics.sort_by(|one, other| {
        let needless = |topic: &TopicXray| topic.needless_batches_per_s().unwrap_or(0.0);
        needless(other).total_cmp(&needless(one)).then_with(|| one.topic.cmp(&other.topic))
    });
    topics
}

/// Replays the topics whose batches cost most, or those that are named.
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
