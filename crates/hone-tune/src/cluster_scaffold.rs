//! Writes the first `tune.toml` of a running cluster, from the analysis of one topic. Pure: returns text. A value that the topic
//! does not show is marked [`MARK`], and is valid as it stands.

use std::fmt::Write as _;

use hone_batch::replica::Writers;
use hone_batch::whatif::Codec;
use hone_batch::whatif::client::Client;
use hone_format::{bytes, count, measured};
use hone_record::{BatchAdvice, BatchFinding, BatchVerdict, TopicXray, WatchedClient, WhatIf};

use crate::batch::replica;
use crate::starter::{MARK, string};

/// The longest linger that is proposed.
pub const TOLERABLE_MS: f64 = 100.0;
/// Number of X-ray findings in the file.
const MOST_FINDINGS: usize = 3;
/// Number of the cluster's clients in the file.
const MOST_CLIENTS: usize = 8;
/// Bounds of the warm-up in requests. It lasts one second of the load.
const WARMUP: (f64, f64) = (100.0, 10_000.0);
/// Requests that a window needs for its p99, with a margin for random arrivals.
const ENOUGH_FOR_P99: f64 = 2_000.0;
/// Bytes of a record without its key and value.
const BESIDE_A_VALUE: f64 = 9.0;
/// Bytes of a key that the wire engine makes.
const KEY_BYTES: f64 = 9.0;
/// Bytes of a batch's header.
const HEADER_BYTES: f64 = 61.0;

/// The source of the file's contents.
pub struct Found<'a> {
    /// The broker that answered.
    pub address: &'a str,
    /// The file's own name.
    pub own: &'a str,
    /// The X-ray of the topic.
    pub topic: &'a TopicXray,
    /// The reason for choosing this topic.
    pub why: &'a str,
    /// The load that stands for its producers.
    pub load: &'a Load,
    /// The replay of the topic's records, or the reason why there is none.
    pub replay: Result<&'a WhatIf, &'a str>,
    /// Clients, from Redpanda's Admin API.
    pub clients: &'a [WatchedClient],
    /// The reason why the brokers' CPU can't be read from here.
    pub no_cpu: Option<&'a str>,
    /// Length of a window.
    pub duration_s: f64,
}

/// The load that stands for the topic's producers.
pub enum Load {
    /// Record by record, from a recording.
    Recorded {
        /// The producers with their shares of the records.
        writers: Box<Writers>,
        /// The recording's file.
        recording: String,
        /// The compressible share of the records' bytes.
        compressible_share: f64,
    },
    /// Batch by batch, since the topic's timestamps are not send times.
    Batches {
        /// Batches of the topic per second.
        batches_per_s: f64,
        /// The compressible share of the records' bytes.
        compressible_share: f64,
        /// The reason why the load is not record by record.
        why: String,
    },
}

impl Load {
    /// Requests of the load: records of a client, or finished batches.
    fn requests_per_s(&self) -> f64 {
        match self {
            Self::Recorded { writers, .. } => writers.figures.records_per_s,
            Self::Batches { batches_per_s, .. } => *batches_per_s,
        }
    }
}

/// The whole text.
pub fn text(found: &Found<'_>) -> String {
    let sections = [head(found), tune(found), candidates(found), workload(found)];
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A comment, wrapped at a readable width.
fn remark(text: &str) -> String {
    let mut out = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() > 1 && line.len() + 1 + word.len() > 110 {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{line}");
    out
}

fn head(found: &Found<'_>) -> String {
    let Found { address, own, topic, why, .. } = found;
    let mut out = remark(&format!(
        "Written by `hone init {address}` for topic {}: {why}. Hone read the cluster and wrote nothing to \
         it. Values that only you can know are marked {MARK}. All keys: docs/tune.md.",
        topic.topic
    ));
    let _ = write!(
        out,
        "#\n\
         #     hone tune {own} --dry-run    # shows what Hone would try, and how long it takes\n\
         #     hone tune {own}\n\n"
    );
    let _ = writeln!(out, "name = {}", string(&name_of(&topic.topic)));
    out
}

/// A valid name for runs and workloads.
fn name_of(topic: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    let name: String = topic.chars().map(plain).take(40).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "topic".to_owned() } else { name.to_owned() }
}

fn tune(found: &Found<'_>) -> String {
    let (objective, remark) = match found.no_cpu {
        None => ("cpu-per-record", "decides the verdict; also latency-p50, latency-p99".to_owned()),
        Some(why) => ("latency-p50", format!("the brokers' CPU can't be read from here ({why})")),
    };
    let allow = match found.load {
        Load::Recorded { .. } => "allow = [\"broker\", \"client\"]",
        Load::Batches { .. } => {
            "allow = [\"broker\"]  # the load sends finished batches, so client settings can't be tried"
        }
    };
    // A percentile needs requests beyond it.
    let quantile =
        if found.load.requests_per_s() * found.duration_s < ENOUGH_FOR_P99 { "p90" } else { "p99" };
    format!(
        "[tune]\n\
         target = {}  # Hone creates its own topics on this cluster, and deletes them\n\
         storage = \"unknown\"  # {MARK}: durability before an acknowledgement: page cache, fsync, \
         replicated\n\
         objective = \"{objective}\"  # {remark}\n\
         require = [\"{quantile}<250ms\", \"errors<0.1%\"]  # {MARK}: limits that every state must meet\n\
         budget = \"1h\"\n\
         {allow}\n\
         # forbid = [\"partitions\", \"topic.retention.*\"]  # settings that Hone never changes\n",
        string(found.address)
    )
}

/// Candidates from the replay. Hone finds other lingers, batch sizes and codecs by itself.
fn candidates(found: &Found<'_>) -> String {
    let mut out = String::new();
    let findings = found.topic.findings.iter().filter(|finding| finding.verdict != BatchVerdict::Small);
    for finding in findings.take(MOST_FINDINGS) {
        let seen = finding.evidence.trim_end_matches('.');
        out.push_str(&remark(&format!("X-ray finding {}: {seen}.{}", finding.verdict.name(), todo(finding))));
    }
    if let Load::Batches { .. } = found.load {
        return out;
    }
    match found.replay {
        Err(why) => out.push_str(&remark(&format!(
            "There is no replay of the topic, so no candidate from it: \
             {why}"
        ))),
        Ok(whatif) => {
            let proposed = proposed(whatif);
            if proposed.is_empty() {
                let why = whatif.refused.as_deref().unwrap_or(
                    "the batches are already close to their \
                     largest size",
                );
                out.push_str(&remark(&format!("A replay of the topic proposes no candidate: {why}")));
            }
            for (settings, why) in proposed {
                let set: Vec<String> = settings.iter().map(|setting| string(setting)).collect();
                let _ =
                    write!(out, "\n[[tune.candidate]]\nset = [{}]\nwhy = {}\n", set.join(", "), string(&why));
            }
        }
    }
    out
}

/// The X-ray's advice, except for lingers: those come from the replay, and from the run itself.
fn todo(finding: &BatchFinding) -> String {
    match finding.verdict {
        BatchVerdict::LingerBound | BatchVerdict::RateStarved | BatchVerdict::KeySpread => String::new(),
        _ => format!(" Advice: {}", finding.action),
    }
}

/// Settings with their reason, without duplicates.
fn proposed(whatif: &WhatIf) -> Vec<(Vec<String>, String)> {
    let settings = |linger_ms: Option<f64>, batch_bytes: Option<u64>, batch_records: Option<u64>| {
        let linger = linger_ms.map(|ms| format!("linger={ms}ms"));
        let size = batch_bytes.map(|bytes| format!("batch-size={bytes}"));
        let records = batch_records.map(|records| format!("client.batch.num.messages={records}"));
        [linger, size, records].into_iter().flatten().collect::<Vec<_>>()
    };
    let mut found: Vec<(Vec<String>, String)> = Vec::new();
    if let Some(BatchAdvice::Set { linger_ms, batch_bytes, batch_records, effect, .. }) = &whatif.advice {
        let why = format!(
            "in a replay of the topic, its batches have {} on average",
            bytes(effect.batch_bytes_mean.round() as u64)
        );
        found.push((settings(*linger_ms, *batch_bytes, *batch_records), why));
    }
    let is_tolerable = |ms: f64| ms <= TOLERABLE_MS;
    for cheapest in whatif.cheapest.iter().filter(|cheapest| cheapest.linger_ms.is_some_and(is_tolerable)) {
        let set = settings(cheapest.linger_ms, cheapest.batch_bytes, None);
        let why = format!(
            "the smallest setting with which a replay of the topic reaches batches of {} bytes",
            count(cheapest.target_bytes)
        );
        if !found.iter().any(|(known, _)| *known == set) {
            found.push((set, why));
        }
    }
    found.retain(|(set, _)| !set.is_empty());
    found
}

fn workload(found: &Found<'_>) -> String {
    let mut out = clients(found.clients);
    out.push_str(&match found.load {
        Load::Recorded { writers, recording, compressible_share } => {
            recorded(found, writers, recording, *compressible_share)
        }
        Load::Batches { batches_per_s, compressible_share, why } => {
            of_batches(found, *batches_per_s, *compressible_share, why)
        }
    });
    out
}

fn clients(clients: &[WatchedClient]) -> String {
    let mut out = String::new();
    if !clients.is_empty() {
        out.push_str("# Clients that produce to the cluster, from its Admin API (all topics):\n");
    }
    for client in clients.iter().take(MOST_CLIENTS) {
        let plain = |text: &str| text.replace(char::is_control, "?");
        let connections = count(client.connections);
        let _ = writeln!(
            out,
            "#   {}: {}, {connections} connections",
            plain(&client.client_id),
            plain(&client.software)
        );
    }
    out
}

fn recorded(found: &Found<'_>, writers: &Writers, recording: &str, compressible_share: f64) -> String {
    let figures = &writers.figures;
    let mut out = remark(&format!(
        "The topic's own producers, from {} records of the last {} s: {} records/s, {} batches/s, {} records \
         per batch. {recording} has the time, producer, partition and size of each record. It has no keys \
         and values.",
        count(writers.records.len() as u64),
        measured(found.duration_s),
        measured(figures.records_per_s),
        measured(figures.batches_per_s),
        measured(figures.records_per_batch()),
    ));
    // Producers without an id are separated here but not in the replay, which may treat several of them as
    // one.
    if writers.is_idempotent {
        out.push_str(&remark(&seen_settings(found.replay)));
    }
    out.extend(writers.settings.doubt.as_deref().map(remark));
    let _ = writeln!(out, "[workload.{}]", name_of(&found.topic.topic));
    let _ = writeln!(out, "recording = {}", string(recording));
    let _ = writeln!(out, "client = \"librdkafka\"{}", client_mark(writers));
    out.push_str(&client_settings(writers));
    let _ = writeln!(out, "connections = {}{}", writers.producers, producers_mark(writers));
    let _ = writeln!(out, "partitions = {}", found.topic.partitions.max(1));
    let _ = writeln!(out, "requests_per_s = {:.3}  # records/s, as in the recording", figures.records_per_s);
    let _ = writeln!(out, "record_bytes = {}  # on average", replica::mean_bytes(writers));
    out.push_str(&packing(writers.codec.name(), compressible_share));
    out.push_str(
        match writers.is_idempotent {
            true => "acks = \"all\"\nidempotent = true  # the batches have producer ids\n".to_owned(),
            false => {
                format!("acks = \"all\"  # {MARK}: acks of your producers; a topic does not show it\n")
            }
        }
        .as_str(),
    );
    out.push_str(&window(figures.records_per_s, found.duration_s));
    out
}

/// The replay's estimate of the producers' own settings.
fn seen_settings(replay: Result<&WhatIf, &str>) -> String {
    let producer = replay.ok().and_then(|whatif| whatif.producers.first());
    match producer.and_then(|producer| producer.settings.as_ref()) {
        Some(settings) => format!(
            "Their settings are probably those of {}: linger {} ms, batch size {} bytes, codec {}.",
            settings.client, settings.linger_ms, settings.batch_bytes, settings.codec
        ),
        None => {
            let why = match replay {
                Ok(_) => producer
                    .and_then(|producer| producer.refused.as_deref())
                    .unwrap_or("no known settings explain its batches"),
                Err(why) => why,
            };
            format!("Their settings are not known: {why}")
        }
    }
}

fn client_mark(writers: &Writers) -> String {
    let Some((client, sign)) = writers.looks_like.filter(|(client, _)| *client != Client::Librdkafka) else {
        return String::new();
    };
    format!(
        "  # {MARK}: your producers look like {} ({sign}); a command can send with another client \
         (docs/client-protocol.md)",
        if client == Client::FranzGo { "franz-go" } else { "Java's client or franz-go" }
    )
}

fn client_settings(writers: &Writers) -> String {
    let mut out = String::from("# librdkafka makes the topic's batches with these settings:\n");
    let settings: Vec<String> = replica::client_settings(writers)
        .into_iter()
        .map(|(name, value)| format!("{} = {}", string(name), string(&value)))
        .collect();
    let _ = writeln!(out, "client_settings = {{ {} }}", settings.join(", "));
    out
}

fn producers_mark(writers: &Writers) -> String {
    match writers.doubts.nameless {
        Some(nameless) => format!(
            "  # {MARK}: producers; at least {nameless} without an id, which Hone can only count where their \
             batches overlap"
        ),
        None => "  # producers, by their ids".to_owned(),
    }
}

fn packing(codec: &str, compressible_share: f64) -> String {
    match codec == Codec::None.name() {
        true => "compression = \"none\"\n".to_owned(),
        false => format!(
            "compression = \"{codec}\"\ncompressible_share = {compressible_share}  # values compress like \
             the topic's\n"
        ),
    }
}

fn window(requests_per_s: f64, duration_s: f64) -> String {
    let warmup = requests_per_s.clamp(WARMUP.0, WARMUP.1).round();
    format!("warmup_requests = {warmup}\nduration_s = {duration_s}\n")
}

/// The load of a topic whose timestamps are not usable: batches with its mean number of records.
fn of_batches(found: &Found<'_>, batches_per_s: f64, compressible_share: f64, why: &str) -> String {
    let topic = found.topic;
    let mean = |sampled: Option<hone_record::Sampled>| sampled.map_or(1.0, |mean| mean.value).max(1.0);
    let records = mean(topic.mean_records).round().max(1.0);
    let is_keyed = topic.keys.as_ref().is_some_and(|keys| keys.keyed_share >= 0.5);
    let distinct = topic.keys.as_ref().map_or(1, |keys| keys.distinct.max(1));
    let codec = topic.codecs.first();
    let ratio = codec.and_then(|codec| codec.ratio).unwrap_or(1.0).max(1.0);
    let plain = (mean(topic.mean_bytes) - HEADER_BYTES).max(1.0) * ratio / mean(topic.mean_records);
    let value = plain - BESIDE_A_VALUE - if is_keyed { KEY_BYTES } else { 0.0 };
    let codec = codec.map_or("none", |codec| codec.codec.as_str());
    let producers = topic.producers.iter().filter(|producer| producer.id.is_some()).count();
    let producers = (producers + topic.nameless_at_least).max(1);
    let mut out = remark(&format!(
        "The topic's finished batches: {} batches/s, counted by Hone. {why}. So the load sends finished \
         batches, and settings of the producers can't be tried.",
        measured(batches_per_s)
    ));
    let _ = writeln!(out, "[workload.{}]", name_of(&topic.topic));
    let _ = writeln!(out, "client = \"wire\"");
    let _ = writeln!(out, "requests_per_s = {batches_per_s:.3}  # batches/s");
    let _ = writeln!(out, "records_per_batch = {records}");
    let _ = writeln!(out, "record_bytes = {}  # on average", value.round().max(1.0));
    if is_keyed {
        let _ = writeln!(out, "keys = \"uniform:{distinct}\"");
    }
    let _ = writeln!(out, "connections = {producers}  # {MARK}: producers; there may be more");
    let _ = writeln!(out, "partitions = {}", topic.partitions.max(1));
    out.push_str(&packing(codec, compressible_share));
    let _ = writeln!(out, "acks = \"all\"  # {MARK}: acks of your producers; a topic does not show it");
    out.push_str(&window(batches_per_s, found.duration_s));
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hone_batch::replica::{Doubts, Placing, Sent, Settings};
    use hone_record::{AdvisedEffect, Engine, KeyUse, Sampled, TopicFigures, Workload};

    use super::*;
    use crate::starter::to_fill_in;

    fn writers() -> Writers {
        let record = |at_us| Sent { at_us, producer: 0, key: None, bytes: 200 };
        Writers {
            records: vec![record(0), record(5_000)],
            producers: 3,
            records_of_each: vec![2],
            placing: Placing::Sticky { stay_ms: None },
            codec: Codec::Lz4,
            ratio: 2.0,
            is_idempotent: false,
            settings: Settings {
                linger_us: 20_000,
                batch_bytes: Some(65_536),
                batch_records: None,
                doubt: None,
            },
            looks_like: Some((Client::Java4, "a sign")),
            figures: TopicFigures {
                records_per_s: 1_234.5,
                bytes_per_s: 3e5,
                batches_per_s: 100.0,
                producers: 3,
                may_be_more: true,
            },
            doubts: Doubts { nameless: Some(3), ..Doubts::default() },
        }
    }

    fn topic() -> TopicXray {
        let mean = |value| Some(Sampled { value, interval: None });
        TopicXray {
            topic: "orders.eu".to_owned(),
            partitions: 6,
            mean_records: mean(5.0),
            mean_bytes: mean(61.0 + 5.0 * 209.0),
            ..TopicXray::default()
        }
    }

    fn written(load: &Load, replay: Result<&WhatIf, &str>) -> (String, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tune.recording"), "0 0 - 200\n").unwrap();
        let topic = topic();
        let text = text(&Found {
            address: "127.0.0.1:9092",
            own: "tune.toml",
            topic: &topic,
            why: "its batches cost the most",
            load,
            replay,
            clients: &[],
            no_cpu: None,
            duration_s: 10.0,
        });
        (text, folder)
    }

    fn parsed(text: &str, folder: &Path) -> Workload {
        crate::file::parse(text, &folder.join("tune.toml"), "unused").unwrap().workload
    }

    fn recorded() -> Load {
        Load::Recorded {
            writers: Box::new(writers()),
            recording: "tune.recording".to_owned(),
            compressible_share: 0.6,
        }
    }

    #[test]
    fn a_recorded_topic_becomes_a_load_of_its_producers() {
        let (text, folder) = written(&recorded(), Err("it waits for every answer"));
        let load = parsed(&text, folder.path());
        let Engine::Librdkafka { settings } = &load.engine else { panic!("{text}") };
        assert_eq!((&*settings["linger.ms"], &*settings["batch.size"]), ("20", "65536"));
        assert_eq!((load.connections, load.partitions, &*load.compression), (3, 6, "lz4"));
        assert_eq!(load.recording.unwrap().path, folder.path().join("tune.recording").display().to_string());
        // storage, require, client, connections, acks.
        assert_eq!(to_fill_in(&text).len(), 5, "{text}");
        assert!(
            text.contains("There is no replay of the topic, so no candidate from it: it waits"),
            "{text}"
        );
    }

    #[test]
    fn a_topic_without_times_becomes_a_load_of_its_batches() {
        let load = Load::Batches { batches_per_s: 300.0, compressible_share: 0.5, why: "Why".to_owned() };
        let (text, folder) = written(&load, Err("no times"));
        let load = parsed(&text, folder.path());
        assert_eq!((&load.engine, load.records_per_batch, load.record_bytes), (&Engine::Wire, 5, 200));
        assert!((load.requests_per_s - 300.0).abs() < 1e-9 && load.partitions == 6, "{load:?}");
    }

    #[test]
    fn what_a_replay_proposes_is_a_candidate() {
        let effect =
            AdvisedEffect { batches_change: -0.5, batch_bytes_mean: 9_000.0, wait_ms_p50_change: 8.0 };
        let advice = BatchAdvice::Set {
            linger_ms: Some(50.0),
            batch_bytes: Some(131_072),
            batch_records: None,
            target_bytes: Some(4_096),
            effect,
        };
        let whatif: WhatIf = serde_json::from_value(serde_json::json!({
            "topic": "orders", "partitions": 6, "window_s": 10.0, "records": 10, "change": "", "producers": [],
            "more_producers": 0, "replayed": null, "predicted": null, "refused": null, "cheapest": [],
            "batches_packed": 0, "notes": [], "advice": advice,
            "today": {"batches_per_s": 1.0, "requests_per_s": null, "bytes_per_s": 1.0, "records_per_batch": 1.0,
                "batch_bytes_mean": 1.0, "batch_bytes_p50": 1, "batch_bytes_p90": 1, "wait_ms_mean": null, "wait_ms_p50": null,
                "wait_ms_p99": null, "header_share": 0.0, "write_amplification_most": 1.0, "sent_by": null,
                "memory_bytes": null, "would_wait": null},
        }))
        .unwrap();
        let (text, folder) = written(&recorded(), Ok(&whatif));
        let asked = crate::file::parse(&text, &folder.path().join("tune.toml"), "unused").unwrap();
        assert_eq!(asked.candidates.len(), 1, "{text}");
        assert_eq!(asked.candidates[0].name, "linger=50ms; batch-size=131072");
    }

    #[test]
    fn keyed_batches_keep_their_size() {
        let keys = KeyUse { keyed_share: 1.0, distinct: 40, ..KeyUse::default() };
        let topic = TopicXray { keys: Some(keys), ..topic() };
        let load = Load::Batches { batches_per_s: 1.0, compressible_share: 0.5, why: "Why".to_owned() };
        let found = Found {
            address: "b:1",
            own: "tune.toml",
            topic: &topic,
            why: "",
            load: &load,
            replay: Err(""),
            clients: &[],
            no_cpu: Some("it is elsewhere"),
            duration_s: 5.0,
        };
        let text = text(&found);
        assert!(text.contains("record_bytes = 191") && text.contains("keys = \"uniform:40\""), "{text}");
        assert!(text.contains("objective = \"latency-p50\""), "{text}");
    }
}
