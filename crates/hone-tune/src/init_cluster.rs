//! Writes the first file for `hone tune` from a running cluster. Its load replicates a topic's own producers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hone_batch::replica::Writers;
use hone_batch::whatif::Codec;
use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::client::Client;
use hone_batch::whatif::predict::Change;
use hone_batch::xray::Depth;
use hone_load::{At, Security, Topics};
use hone_record::{TopicXray, WatchedClient, WhatIf};
use hone_tool::interrupt;

use crate::batch::replaying::{self, Question};
use crate::batch::{reading, replica, segments};
use crate::cluster_scaffold::{self, Found, Load, TOLERABLE_MS};
use crate::init_cluster_text::{SeenTopic, WrittenOfCluster};
use crate::init_text::to_fill_in;
use crate::new_file::{name_of, output_file, write_new};
use hone_experiment::ending::Usage;
use hone_experiment::metered::Admin;
use hone_experiment::moment::now_ms;
use hone_experiment::progress::Progress;
use hone_experiment::targets::Targets;

/// How long Hone counts the new records of the topics.
const WATCHED: Duration = Duration::from_secs(3);
/// Topics that are analysed, the busiest first.
const MOST_LOOKED: usize = 10;
/// Limits of the X-ray of a topic: how far back, how many bytes, and how long.
const LOOK_S: f64 = 60.0;
const LOOK_BYTES: u64 = 64 << 20;
const LOOK_LIMIT: Duration = Duration::from_secs(20);
/// Bytes that are decoded for a sample of the records.
const DECODE_BYTES: u64 = 4 << 20;
/// Largest number of records in a recording.
const MOST_RECORDS: f64 = 500_000.0;
/// Accepted range of the records per second by their timestamps, divided by the rate that Hone counted. Outside of it the
/// timestamps are not send times.
const BELIEVED: std::ops::Range<f64> = 0.67..1.5;
/// Limits of the replay of the topic: bytes and time.
const REPLAYED_MIB: u64 = 256;
const REPLAY_LIMIT_S: f64 = 30.0;

/// Examines a cluster and writes the first file for one of its topics. Returns the findings and the written files.
pub fn write_for_cluster(
    brokers: &str,
    named: Option<&str>,
    last_s: Option<f64>,
    admin: Option<Admin>,
    output: Option<&Path>,
    security: &Security,
    progress: &Progress,
) -> Result<WrittenOfCluster> {
    let file = output_file(output, "tune.toml")?;
    let recording = file.with_extension("recording");
    refuse_existing([&file, &recording])?;
    let address = hone_load::canary::reachable(brokers, security)?;
    let mut cluster = Topics::enter(&address, security)?;
    let mut notes = Vec::new();
    let clients = clients(admin, &mut notes);
    let rates = watched(&mut cluster, named, progress)?;
    let looked = look_into(&mut cluster, &rates, named, progress, &mut notes)?;
    let Some((topic, why)) = choose(&looked, named) else {
        return Err(nothing_to_replicate(named, &notes));
    };
    let live = rates.get(&topic.topic).map_or(0.0, |(_, rate)| *rate);
    let duration_s = length_s(last_s, live);
    let source = Source { cluster: &mut cluster, topic, live, duration_s };
    let (load, replay) = source.load(&recording, progress)?;
    let no_cpu = no_cpu(&address, security);
    let text = cluster_scaffold::text(&Found {
        address: &address,
        own: &name_of(&file),
        topic,
        why: &why,
        load: &load,
        replay: replay.as_ref().map_err(String::as_str),
        clients: &clients,
        no_cpu: no_cpu.as_deref(),
        duration_s,
    });
    let (recording, producers) = match &load {
        Load::Recorded { writers, .. } => {
            write_new(&recording, &replica::recording(writers))?;
            (Some(recording), Some(writers.producers))
        }
        Load::Batches { .. } => (None, None),
    };
    write_new(&file, &text)?;
    Ok(WrittenOfCluster {
        cluster: brokers.to_owned(),
        topics: seen(&rates, &looked),
        topic: topic.topic.clone(),
        why,
        fill_in: to_fill_in(&text),
        file,
        recording,
        producers,
        notes,
    })
}

/// Why no file is written, with the reasons why topics could not be read.
fn nothing_to_replicate(named: Option<&str>, notes: &[String]) -> anyhow::Error {
    if interrupt::requested() {
        return anyhow!("interrupted; Hone wrote nothing");
    }
    let notes: String = notes.iter().map(|note| format!("\n  {note}")).collect();
    match named {
        Some(topic) => anyhow!(
            "topic {topic} has no records that Hone can read{notes}\n  next: start its producers, or name \
             another topic with --topic"
        ),
        None => anyhow!(
            "no topic has records that Hone can read{notes}\n  next: start the producers, then run it again"
        ),
    }
}

/// Runs before anything is read, because Hone never overwrites a file.
fn refuse_existing(files: [&PathBuf; 2]) -> Result<()> {
    match files.into_iter().find(|file| file.symlink_metadata().is_ok()) {
        None => Ok(()),
        Some(file) => bail!(
            "{} exists already; Hone does not overwrite it\n  next: name another file with --output, or move \
             that one away",
            file.display()
        ),
    }
}

/// The clients, from the Admin API. Without an answer the file is written all the same.
fn clients(admin: Option<Admin>, notes: &mut Vec<String>) -> Vec<WatchedClient> {
    match admin.map(|admin| admin.clients()) {
        None => Vec::new(),
        Some(Ok((clients, note))) => {
            notes.extend(note);
            clients
        }
        Some(Err(why)) => {
            notes.push(format!("the clients are not known: {why}"));
            Vec::new()
        }
    }
}

/// Partitions and records per second, by topic.
type Rates = BTreeMap<String, (usize, f64)>;

/// Counts the new records of topics for a while: of the named topic, or of all that are not the cluster's own.
fn watched(cluster: &mut Topics, named: Option<&str>, progress: &Progress) -> Result<Rates> {
    progress.doing(&format!("counting new records for {} s", WATCHED.as_secs()));
    let listed = cluster.list()?.into_iter();
    let users: Vec<(String, usize)> = listed
        .filter(|topic| match named {
            Some(named) => topic.topic == named,
            None => !topic.is_internal && !is_own(&topic.topic),
        })
        .map(|topic| (topic.topic, topic.partitions))
        .collect();
    if users.is_empty() {
        bail!(Usage(match named {
            Some(named) => format!(
                "the cluster has no topic `{named}`, or this user must not see it\n  next: check the name, \
                 or grant DESCRIBE on the topic"
            ),
            None => "the cluster has no topic that this user may see\n  next: grant DESCRIBE on the topics"
                .to_owned(),
        }));
    }
    let begun = Instant::now();
    let before = ends(cluster, &users);
    std::thread::sleep(WATCHED);
    let after = ends(cluster, &users);
    let seconds = begun.elapsed().as_secs_f64();
    let rate = |topic: &str| {
        let (before, after) = (before.get(topic)?, after.get(topic)?);
        Some((after - before).max(0) as f64 / seconds)
    };
    Ok(users
        .iter()
        .map(|(topic, partitions)| (topic.clone(), (*partitions, rate(topic).unwrap_or(0.0))))
        .collect())
}

/// Internal topics of brokers, registries and Hone.
fn is_own(topic: &str) -> bool {
    segments::is_internal(topic) || topic.starts_with("hone-")
}

/// The sum of the partitions' end offsets. A topic that can't be read is missing.
fn ends(cluster: &mut Topics, topics: &[(String, usize)]) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for (topic, _) in topics {
        let ends = cluster.layout(topic).and_then(|(layout, _)| cluster.offsets(&layout, At::Latest));
        if let Ok((ends, _)) = ends {
            found.insert(topic.clone(), ends.values().sum());
        }
    }
    found
}

/// X-rays of the busiest topics, the one with the most avoidable batches first.
fn look_into(
    cluster: &mut Topics,
    rates: &Rates,
    named: Option<&str>,
    progress: &Progress,
    notes: &mut Vec<String>,
) -> Result<Vec<TopicXray>> {
    let wish = reading::Wish {
        last_s: Some(LOOK_S),
        budget_bytes: LOOK_BYTES,
        limit: LOOK_LIMIT,
        depth: Depth { decode_bytes: DECODE_BYTES, tolerable_linger_ms: TOLERABLE_MS },
    };
    let mut found = Vec::new();
    for (topic, _) in busiest(rates).into_iter().take(MOST_LOOKED) {
        progress.doing(&format!("analysing {topic}"));
        match reading::look(cluster, topic, &wish) {
            Ok(seen) if seen.records > 0 => found.push(seen),
            Ok(seen) => notes.extend(seen.troubles.iter().map(|trouble| format!("{topic}: {trouble}"))),
            Err(error) if named.is_some() => return Err(error),
            Err(error) => notes.push(format!("{topic}: {error:#}")),
        }
    }
    let cost = |topic: &TopicXray| {
        let needless = topic.needless_batches_per_s().unwrap_or(0.0);
        (needless, topic.batches_per_s.unwrap_or(0.0), rates.get(&topic.topic).map_or(0.0, |(_, rate)| *rate))
    };
    found.sort_by(|one, other| cost(other).partial_cmp(&cost(one)).unwrap_or(std::cmp::Ordering::Equal));
    Ok(found)
}

fn busiest(rates: &Rates) -> Vec<(&str, f64)> {
    let mut all: Vec<(&str, f64)> = rates.iter().map(|(topic, (_, rate))| (topic.as_str(), *rate)).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    all
}

fn choose<'a>(looked: &'a [TopicXray], named: Option<&str>) -> Option<(&'a TopicXray, String)> {
    let first = looked.first()?;
    let why = match (named, first.needless_batches_per_s()) {
        (Some(_), _) => "you named it".to_owned(),
        (None, Some(needless)) if needless > 0.0 => format!(
            "its batches cost the most: {} per second more than with batches of 16 KiB",
            hone_format::measured(needless)
        ),
        (None, _) => "it is the busiest".to_owned(),
    };
    Some((first, why))
}

/// Length of the recording in seconds.
fn length_s(asked: Option<f64>, records_per_s: f64) -> f64 {
    const USUAL_S: f64 = 10.0;
    let affordable_s = MOST_RECORDS / records_per_s.max(1.0);
    asked.unwrap_or(USUAL_S).clamp(1.0, affordable_s.max(1.0))
}

/// The topic from which the load is made.
struct Source<'a> {
    cluster: &'a mut Topics,
    topic: &'a TopicXray,
    /// Records per second that Hone counted.
    live: f64,
    duration_s: f64,
}

/// The result of a topic's replay, or the reason why there is none.
type Replayed = Result<WhatIf, String>;

impl Source<'_> {
    /// The producers record by record, or batch by batch if the topic's timestamps are not send times.
    fn load(self, recording: &Path, progress: &Progress) -> Result<(Load, Replayed)> {
        let Self { cluster, topic, live, duration_s } = self;
        progress.doing(&format!("recording {}", topic.topic));
        let last_ms = topic.read.times_ms.map_or(0, |(_, last_ms)| last_ms);
        let newest_ms = if live > 0.0 { now_ms() } else { last_ms };
        let described = replica::describe(cluster, &topic.topic, newest_ms, duration_s, Client::Librdkafka);
        let why = match described {
            Ok(writers) if is_believed(&writers, live) => {
                progress.doing(&format!("replaying {}", topic.topic));
                let compressible_share = share_of(&writers)?;
                let replayed = replay(cluster, topic, newest_ms);
                let recording = name_of(recording);
                let load = Load::Recorded { writers: Box::new(writers), recording, compressible_share };
                return Ok((load, replayed));
            }
            Ok(writers) => format!(
                "By the timestamps {} records came per second, but Hone counted {}: the timestamps are not \
                 send times",
                hone_format::measured(writers.figures.records_per_s),
                hone_format::measured(live)
            ),
            Err(error) => format!("Hone can't replay its records: {error:#}"),
        };
        let records_per_batch = topic.mean_records.map_or(1.0, |mean| mean.value).max(1.0);
        if live <= 0.0 {
            bail!(
                "{}: {why}; and no record came while Hone counted, so the rate is not known\n  next: run \
                 `hone init` while its producers send, or name another topic with --topic",
                topic.topic
            );
        }
        let ratio = topic.codecs.first().and_then(|codec| codec.ratio.zip(Codec::from_name(&codec.codec)));
        let compressible_share = match ratio {
            Some((ratio, codec)) if codec != Codec::None => {
                let bytes = topic.keys.as_ref().map_or(100.0, |keys| keys.record_bytes).round() as u32;
                hone_load::compressible_share(codec, ratio, bytes, records_per_batch.round() as u32)?
            }
            _ => 0.5,
        };
        let load =
            Load::Batches { batches_per_s: live / records_per_batch, compressible_share, why: why.clone() };
        Ok((load, Err(why)))
    }
}

/// Whether the timestamps are send times, judged by the rate that Hone counted.
fn is_believed(writers: &Writers, live: f64) -> bool {
    live <= 0.0 || BELIEVED.contains(&(writers.figures.records_per_s / live))
}

fn share_of(writers: &Writers) -> Result<f64> {
    if writers.codec == Codec::None { Ok(0.5) } else { replica::compressible_share(writers) }
}

/// Replays the topic's records with the settings of its producers, and with better ones.
fn replay(cluster: &mut Topics, topic: &TopicXray, newest_ms: i64) -> Replayed {
    let since_newest_s = now_ms().saturating_sub(newest_ms).max(0) as f64 / 1e3;
    let wish =
        replaying::Wish::usual(Some(since_newest_s + LOOK_S), REPLAYED_MIB, LOOK_LIMIT.as_secs_f64(), true);
    let question = Question {
        told: Told::default(),
        change: Change::default(),
        seed: 1,
        tolerable_ms: TOLERABLE_MS,
        limit_s: REPLAY_LIMIT_S,
    };
    let window = replaying::of_cluster(cluster, &topic.topic, &wish);
    window.and_then(|window| replaying::replayed(window, &question)).map_err(|error| format!("{error:#}"))
}

/// The reason why the brokers' CPU can't be read from here.
fn no_cpu(address: &str, security: &Security) -> Option<String> {
    match Targets::of_cluster(address, security) {
        Ok(targets) => targets.missing,
        Err(error) => Some(format!("{error:#}")),
    }
}

fn seen(rates: &Rates, looked: &[TopicXray]) -> Vec<SeenTopic> {
    let of = |(topic, records_per_s): (&str, f64)| {
        let found = looked.iter().find(|found| found.topic == topic);
        SeenTopic {
            topic: topic.to_owned(),
            partitions: rates.get(topic).map_or(0, |(partitions, _)| *partitions),
            records_per_s: found.and_then(|found| found.records_per_s).unwrap_or(records_per_s),
            batches_per_s: found.and_then(|found| found.batches_per_s),
            bytes_per_batch: found.and_then(|found| found.mean_bytes).map(|mean| mean.value),
            verdict: found.and_then(|found| found.findings.first()).map(|finding| finding.verdict.name()),
        }
    };
    busiest(rates).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_as_long_as_memory_affords() {
        assert_eq!(length_s(None, 100.0), 10.0);
        assert_eq!(length_s(Some(30.0), 100.0), 30.0);
        assert_eq!(length_s(Some(30.0), 50_000.0), 10.0);
        assert_eq!(length_s(None, 1e9), 1.0);
        assert_eq!(length_s(None, 0.0), 10.0);
    }

    #[test]
    fn topics_of_the_cluster_and_of_hone_are_apart() {
        for topic in ["__consumer_offsets", "_schemas", "_redpanda.audit", "hone-tune-1-2-3"] {
            assert!(is_own(topic), "{topic}");
        }
        assert!(!is_own("orders") && !is_own("_orders"));
    }
}
