//! Describes a topic's producers so that a load can imitate them: who sends which record when, of what size and to which partition, and the
//! settings with which a client makes the same batches.
//!
//! Records come from [`crate::whatif::stream`], by producer and with their own times. Hone separates producers without an id by their
//! batches (`colour.rs`), keeps partitions by keys that Kafka's partitioner puts there (`placing.rs`), and takes the settings whose replay
//! makes the topic's batches ([`crate::whatif::calibrate`]).

pub(crate) mod colour;
mod placing;

use hone_kafka::batch::HEADER_BYTES;
use hone_kafka::codec::Codec;
use hone_record::{BatchTrigger, Recording, Replica, TopicFigures, TopicXray};
use serde::{Deserialize, Serialize};

pub use self::placing::Placing;
use self::placing::{Keys, place};
use crate::whatif::calibrate::{Fit, Told, Unexplained, calibrate, shrink_of_today};
use crate::whatif::client::Client;
use crate::whatif::infer::signs;
use crate::whatif::simulate::Brokers;
use crate::whatif::stream::{Gathered, Producer, Stream, Written};

/// The largest producers, whose batches give the settings.
const MOST_ASKED: usize = 3;
/// From a request to its answer in a load. Whatever else would explain a topic's batches, the load's broker answers as it does.
const RTT_US: u64 = 1_000;
/// If the settings are off by no more, Hone tries no others.
const NEAR: f64 = 0.03;
/// A share of batches that ended with the linger, or had one record, above which the linger separates producers without an id.
const BY_TIME: f64 = 0.8;

/// Facts besides the records.
#[derive(Debug, Clone)]
pub struct Known {
    /// Partitions of the topic.
    pub partitions: u32,
    /// Leaders by partition, if known.
    pub leads: Option<Vec<u32>>,
    /// The part of the records to use, from the end, in microseconds.
    pub stretch_us: u64,
    /// The linger of producers without an id, in milliseconds, if the X-ray shows one ([`nameless_linger_ms`]).
    pub nameless_linger_ms: Option<u64>,
    /// The client that will send the load.
    pub client: Client,
}

/// A record of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// Its time, in microseconds after the first record.
    pub at_us: u64,
    /// Its producer, from 0.
    pub producer: u32,
    /// The number of its key ([`Recording::key`]).
    pub key: Option<u64>,
    /// Bytes of its value.
    pub bytes: u32,
}

/// Settings with which a client makes the topic's batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Linger, in microseconds.
    pub linger_us: u64,
    /// Batch size, if it is not the client's default.
    pub batch_bytes: Option<u32>,
    /// The most records of a batch, if that is not the client's default.
    pub batch_records: Option<u32>,
    /// Why they may not make the same batches.
    pub doubt: Option<String>,
}

/// A topic's producers.
#[derive(Debug, Clone, PartialEq)]
pub struct Writers {
    /// Their records, in the order of time.
    pub records: Vec<Sent>,
    /// Their number.
    pub producers: u32,
    /// Records of each producer, the first one's first.
    pub records_of_each: Vec<u64>,
    /// The placement of the records.
    pub placing: Placing,
    /// The codec of most bytes.
    pub codec: Codec,
    /// Bytes of records over their compressed bytes.
    pub ratio: f64,
    /// Whether batches have producer ids, like those of idempotent producers.
    pub is_idempotent: bool,
    /// The settings.
    pub settings: Settings,
    /// The client that writes such batches by default, with the evidence; a guess.
    pub looks_like: Option<(Client, &'static str)>,
    /// The topic during that time.
    pub figures: TopicFigures,
    /// Possible differences of the load.
    pub doubts: Doubts,
}

/// Possible reasons for a difference between a replica and its topic.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Doubts {
    /// Producers without an id, if any: a lower bound.
    pub nameless: Option<u32>,
    /// Share of the batches that belong to transactions.
    pub transactional: f64,
    /// Why the settings may not make the same batches.
    pub settings: Option<String>,
    /// Whether the largest producer waits for every answer.
    pub waits: bool,
    /// Another client than the load's, if the topic looks like it, with the evidence.
    pub other_client: Option<(String, String)>,
}

/// The linger that separates producers without an id: `None` if their batches end by something else.
pub fn nameless_linger_ms(topic: &TopicXray) -> Option<u64> {
    let nameless = topic.producers.iter().find(|producer| producer.id.is_none())?;
    let by_time = [BatchTrigger::Time, BatchTrigger::Alone];
    let share: f64 = nameless
        .triggers
        .iter()
        .filter(|(trigger, _)| by_time.contains(trigger))
        .map(|(_, share)| share)
        .sum();
    nameless.linger_ms.filter(|_| share >= BY_TIME)
}

/// Describes the producers of a window. `None` if it contains no record.
pub fn writers(gathered: &Gathered, known: &Known, go_on: &dyn Fn() -> bool) -> Option<Writers> {
    let from_us = gathered.span_us.saturating_sub(known.stretch_us);
    let wait_us = known.nameless_linger_ms.unwrap_or(0) * 1_000;
    // The habits come from all records: a short time has too few batches to show them.
    let mut all = colour::told_apart(&gathered.producers, wait_us);
    largest_first(&mut all);
    let mut producers: Vec<Producer> = all.iter().map(|producer| since(producer, from_us)).collect();
    producers.retain(|producer| !producer.stream.is_empty());
    largest_first(&mut producers);
    let codec = codec_of(&producers);
    let signs = signs(all.first().filter(|_| !producers.is_empty())?);
    let mut settings = settings_of(&all, codec, known, go_on);
    let placing = Placing::of(&all, known, &settings);
    if placing == Placing::EachInTurn {
        // librdkafka draws a partition for each record: its batches with a linger differ from those of clients that take partitions in
        // turn.
        let drawn: Vec<Producer> =
            all.iter().map(|producer| placing::drawn(producer, known.partitions)).collect();
        settings = settings_of(&drawn, codec, known, go_on);
    }
    let nameless = producers.iter().filter(|producer| producer.who.is_nameless()).count();
    let nameless = u32::try_from(nameless).ok().filter(|count| *count > 0);
    let looks_like = signs.clients.first().copied();
    let (batches, transactional) = producers
        .iter()
        .flat_map(|producer| &producer.written)
        .fold((0_u64, 0_u64), |(batches, transactional), batch| {
            (batches + 1, transactional + u64::from(batch.is_transactional))
        });
    Some(Writers {
        records: sent(&producers, known, placing),
        producers: producers.len() as u32,
        records_of_each: producers.iter().map(|producer| producer.stream.len() as u64).collect(),
        placing,
        codec,
        ratio: ratio(&producers),
        is_idempotent: nameless.is_none(),
        looks_like,
        figures: figures(&producers, nameless.is_some()),
        doubts: Doubts {
            nameless,
            transactional: transactional as f64 / batches.max(1) as f64,
            settings: settings.doubt.clone(),
            waits: signs.closed_loop.is_some(),
            other_client: looks_like
                .filter(|(client, _)| family(*client) != family(known.client))
                .map(|(client, sign)| (family(client).to_owned(), sign.to_owned())),
        },
        settings,
    })
}

fn largest_first(producers: &mut [Producer]) {
    producers.sort_by_key(|producer| (std::cmp::Reverse(producer.stream.len()), producer.who));
}

/// The common name of a client, whatever its version.
fn family(client: Client) -> &'static str {
    match client {
        Client::Java3 | Client::Java4 => "Java's client",
        Client::Librdkafka => "librdkafka",
        Client::FranzGo => "franz-go",
    }
}

/// The last part of a producer, with times from there on.
fn since(producer: &Producer, from_us: u64) -> Producer {
    let all = &producer.stream;
    let skip = all.at_us.partition_point(|at_us| *at_us < from_us);
    let rest = |values: &[u32]| values.get(skip..).unwrap_or_default().to_vec();
    let commits = all.commits.iter().filter_map(|place| place.checked_sub(skip as u32));
    let stream = Stream {
        at_us: all.at_us.get(skip..).unwrap_or_default().iter().map(|at_us| at_us - from_us).collect(),
        partition: rest(&all.partition),
        body_bytes: rest(&all.body_bytes),
        key_hash: rest(&all.key_hash),
        commits: commits.collect(),
    };
    let written = producer.written.iter().filter(|batch| batch.begin_us >= from_us);
    let written = written.map(|batch| Written { begin_us: batch.begin_us - from_us, ..*batch });
    Producer { who: producer.who, stream, written: written.collect(), kept: Default::default() }
}

fn codec_of(producers: &[Producer]) -> Codec {
    let bytes = |codec: Codec| -> u64 {
        let batches = producers.iter().flat_map(|producer| &producer.written);
        batches.filter(|batch| batch.codec == codec).map(|batch| u64::from(batch.wire_bytes)).sum()
    };
    Codec::ALL.into_iter().max_by_key(|codec| bytes(*codec)).unwrap_or(Codec::None)
}

fn ratio(producers: &[Producer]) -> f64 {
    let (mut plain, mut packed) = (0_u64, 0_u64);
    for batch in producers.iter().flat_map(|producer| &producer.written) {
        plain += u64::from(batch.plain_bytes);
        packed += u64::from(batch.wire_bytes).saturating_sub(HEADER_BYTES as u64);
    }
    if packed > 0 { plain as f64 / packed as f64 } else { 1.0 }
}

fn figures(producers: &[Producer], may_be_more: bool) -> TopicFigures {
    let times = || producers.iter().flat_map(|producer| producer.stream.at_us.iter().copied());
    let span_us = times().max().unwrap_or(0).saturating_sub(times().min().unwrap_or(0));
    let seconds = span_us.max(1_000) as f64 / 1e6;
    let batches = || producers.iter().flat_map(|producer| &producer.written);
    TopicFigures {
        records_per_s: times().count() as f64 / seconds,
        bytes_per_s: batches().map(|batch| f64::from(batch.wire_bytes)).sum::<f64>() / seconds,
        batches_per_s: batches().count() as f64 / seconds,
        producers: producers.len() as u64,
        may_be_more,
    }
}

/// Searches the largest producers for settings that explain their batches, until one is explained.
fn settings_of(producers: &[Producer], codec: Codec, known: &Known, go_on: &dyn Fn() -> bool) -> Settings {
    let shrink = shrink_of_today(producers.iter(), codec);
    let count = known.leads.iter().flatten().max().map_or(1, |most| most.saturating_add(1));
    let leads = known.leads.clone().unwrap_or_default();
    let brokers = [Brokers { leads, count, ..Brokers::one() }];
    let mut best: Option<Answer> = None;
    for producer in producers.iter().take(MOST_ASKED) {
        let ask = |told: &Told| answer(calibrate(producer, told, &brokers, &shrink, go_on), known.client);
        let found = asked(producer, known.client, &ask);
        best = [best, found].into_iter().flatten().min_by(|one, other| one.off.total_cmp(&other.off));
        if best.as_ref().is_some_and(|best| best.off <= Replica::LIKE) {
            break;
        }
    }
    let Some(Answer { off, mut settings }) = best else { return unknown(known) };
    settings.doubt = (off > Replica::LIKE).then(|| {
        let client = family(known.client);
        format!(
            "No settings of {client} make as many batches as the topic has: the best are off by {:.0} %.",
            100.0 * off
        )
    });
    settings
}

/// Settings, and the share of batches that they make too many or too few, compared with the topic. Sizes may scatter differently.
struct Answer {
    off: f64,
    settings: Settings,
}

/// The settings that explain a producer's batches best. The load is an open loop in any case, and can't choose how fast its broker answers.
/// If another client sends partitions together, its batches end earlier than its own linger, so Hone tries shorter lingers.
fn asked(producer: &Producer, client: Client, ask: &dyn Fn(&Told) -> Option<Answer>) -> Option<Answer> {
    let told = Told { client: Some(client), rtt_us: Some(RTT_US), is_open_loop: true, ..Told::default() };
    let mut best = ask(&told)?;
    let longest_us = longest_us(producer);
    for tenths in (1..10).rev() {
        if best.off <= NEAR {
            break;
        }
        let shorter = Told { linger_us: Some(longest_us * tenths / 10), ..told.clone() };
        best = [Some(best), ask(&shorter)]
            .into_iter()
            .flatten()
            .min_by(|one, other| one.off.total_cmp(&other.off))?;
    }
    Some(best)
}

/// A span that few batches exceed, in microseconds.
fn longest_us(producer: &Producer) -> u64 {
    let mut spans: Vec<u64> =
        producer.written.iter().filter(|batch| batch.records > 1).map(|batch| batch.span_ms).collect();
    spans.sort_unstable();
    spans.get(spans.len() * 19 / 20).copied().unwrap_or(0) * 1_000
}

fn answer(found: Result<Vec<Fit>, Unexplained>, client: Client) -> Option<Answer> {
    let defaults = client.defaults();
    let other = |bytes: u32| Some(bytes).filter(|bytes| *bytes != defaults.batch_bytes);
    match found {
        Ok(fits) => {
            let fit = fits.first()?;
            let records = Some(fit.rules.batch_records).filter(|records| *records != defaults.batch_records);
            let settings = Settings {
                linger_us: fit.rules.linger_us,
                batch_bytes: other(fit.rules.batch_bytes),
                batch_records: records,
                doubt: None,
            };
            Some(Answer { off: fit.misfit.batches.abs(), settings })
        }
        Err(Unexplained::Off { linger_ms, batch_bytes, written, replayed, .. }) => {
            let linger_us = (linger_ms * 1e3) as u64;
            let settings =
                Settings { linger_us, batch_bytes: other(batch_bytes), batch_records: None, doubt: None };
            let off = (replayed as f64 / written.max(1) as f64 - 1.0).abs();
            Some(Answer { off, settings })
        }
        Err(_) => None,
    }
}

/// The client's defaults if there are too few batches for a search.
fn unknown(known: &Known) -> Settings {
    Settings {
        linger_us: known.nameless_linger_ms.map_or(known.client.defaults().linger_us, |ms| ms * 1_000),
        batch_bytes: None,
        batch_records: None,
        doubt: Some(
            "The topic has too few batches to show its producers' settings, so the load uses the client's defaults."
                .to_owned(),
        ),
    }
}

/// The records of all producers, in the order of time.
fn sent(producers: &[Producer], known: &Known, placing: Placing) -> Vec<Sent> {
    let mut keys = Keys::of(producers, known.partitions, placing);
    let mut all: Vec<Sent> = Vec::with_capacity(producers.iter().map(|producer| producer.stream.len()).sum());
    for (number, producer) in producers.iter().enumerate() {
        for (at_us, partition, body_bytes, key_hash) in each(&producer.stream) {
            let key = place(&mut keys, partition, key_hash);
            all.push(Sent { at_us, producer: number as u32, key, bytes: value_bytes(body_bytes, key) });
        }
    }
    // Stable: records of a producer stay in their order.
    all.sort_by_key(|record| record.at_us);
    let first_us = all.first().map_or(0, |record| record.at_us);
    all.iter_mut().for_each(|record| record.at_us -= first_us);
    all
}

/// Time, partition, bytes and key of each record.
fn each(stream: &Stream) -> impl Iterator<Item = (u64, u32, u32, u32)> {
    let columns = stream.at_us.iter().zip(&stream.partition).zip(&stream.body_bytes).zip(&stream.key_hash);
    columns.map(|(((at_us, partition), body_bytes), key_hash)| (*at_us, *partition, *body_bytes, *key_hash))
}

/// Bytes of the value in a record of this size: besides the value, a record has its attributes, the number of its headers, the key and both
/// lengths.
fn value_bytes(body_bytes: u32, key: Option<u64>) -> u32 {
    let key_bytes = key.map_or(0, |number| Recording::key(number).len() as u32);
    let left = body_bytes.saturating_sub(3 + key_bytes);
    // A length takes seven bits per byte, one of them its sign.
    let length_bytes = match left {
        ..=64 => 1,
        65..=8_193 => 2,
        8_194..=1_048_578 => 3,
        _ => 4,
    };
    left.saturating_sub(length_bytes).max(1)
}

impl Doubts {
    /// The probable reasons for a difference between a replica and its topic, the likeliest first; nothing if they are alike.
    pub fn reasons(&self, today: &TopicFigures, here: &TopicFigures) -> Vec<String> {
        let is_fewer = |of: fn(&TopicFigures) -> f64| of(here) / of(today) - 1.0 < -Replica::LIKE;
        let is_other = |of: fn(&TopicFigures) -> f64| (of(here) / of(today) - 1.0).abs() > Replica::LIKE;
        let [records, bytes, batches]: [fn(&TopicFigures) -> f64; 3] =
            [|figures| figures.records_per_s, |figures| figures.bytes_per_s, |figures| figures.batches_per_s];
        let mut reasons = Vec::new();
        if ![records, bytes, batches].into_iter().any(is_other) {
            return reasons;
        }
        if is_fewer(records) {
            reasons.push(
                "The test topic got fewer records than the load has: the generator or the broker fell behind."
                    .to_owned(),
            );
        }
        if self.transactional > 0.0 {
            reasons.push(format!(
                "{:.0} % of the topic's batches belong to transactions, whose ends close batches. A load has no transactions.",
                100.0 * self.transactional
            ));
        }
        if let Some(nameless) = self.nameless.filter(|_| is_fewer(batches)) {
            reasons.push(format!(
                "At least {nameless} of the topic's producers have no id, and there may be more: Hone counts \
                 them only if their batches overlap. Give their number with --connections."
            ));
        }
        reasons.extend(self.settings.clone());
        if let Some((client, sign)) = self.other_client.as_ref().filter(|_| is_other(batches)) {
            reasons.push(format!(
                "The topic's client is probably {client} ({sign}), which sends batches of several partitions together. The load's client has \
                 other rules."
            ));
        }
        if self.waits {
            reasons.push(
                "The topic's producer waits for every answer, and the load does not: it sends at the recorded times.".to_owned(),
            );
        }
        if is_other(bytes) && !is_other(batches) && !is_other(records) {
            reasons.push("The load's values compress differently from the topic's.".to_owned());
        }
        reasons
    }
}

#[cfg(test)]
mod tests;
