//! Topics of X-ray records, and a forecast for another linger or batch size.
//!
//! An X-ray has no records of the topic, only their number, size and producers. So the forecast makes records at the same rates, at random
//! times, and sends them through the rules of the client twice: with the settings that the batches show, and with the chosen ones. The ratio
//! of the two is the forecast. `hone batch whatif` replays the real records.

use std::collections::BTreeSet;
use std::sync::Arc;

use hone_batch::whatif::client::{Client, Rules};
use hone_batch::whatif::predict::figures;
use hone_batch::whatif::shrink::Shrink;
use hone_batch::whatif::simulate::{Brokers, Placing, Plan, replay};
use hone_batch::whatif::stream::{NO_KEY, Stream};
use hone_record::{
    BatchCap, BatchCost, BatchFigures, BatchWatch, BatchXray, Body, Envelope, ProducerXray, TopicXray,
    WatchedTopic, WhatIf,
};
use hone_report::desk::{MOST_LINGER_MS, TopicForecast, TopicRecord, XrayRecord};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

use super::shelf::{Content, Item, read};

/// Maximum X-ray records that are read, the newest.
const MOST_RECORDS: usize = 20;
/// Maximum topics of a record of a cluster's metrics, those with the most batches.
const MOST_WATCHED: usize = 500;
/// Maximum bytes of one of them.
const MOST_BYTES: u64 = 16 << 20;
/// Maximum producers of a forecast. The rest is assumed to behave alike.
const MOST_PRODUCERS: usize = 8;
/// Maximum records of a producer in a forecast, and the longest time, so that a page takes a fraction of a second.
const MOST_SENT: f64 = 60_000.0;
const LONGEST_S: f64 = 20.0;
/// Maximum partitions of a forecast.
const MOST_PARTITIONS: usize = 10_000;
/// Java's default, for producers whose batches show no limit.
const USUAL_BATCH_BYTES: u64 = 16_384;
/// Bytes of a batch's header, and of a record's framing.
const HEADER_BYTES: f64 = 61.0;
const FRAMING_BYTES: f64 = 7.0;
/// The forecast is refused if the replay of today differs by more than this factor.
const MOST_OFF: f64 = 2.0;

/// The newest X-ray records.
pub(super) fn xrays(content: &Content) -> Vec<XrayRecord> {
    newest(content, BatchXray::KIND).into_iter().filter_map(xray).collect()
}

/// One X-ray record.
pub(super) fn xray(item: &Arc<Item>) -> Option<XrayRecord> {
    if item.record.kind != BatchXray::KIND || item.record.bytes > MOST_BYTES {
        return None;
    }
    let xray = Envelope::<BatchXray>::parse(&read(&item.path).ok()?).ok()?;
    let record = &item.record;
    Some(XrayRecord { id: record.id.clone(), path: record.path.clone(), at_unix_ms: record.at_unix_ms, xray })
}

/// Topics that no X-ray covers: those of `hone batch whatif` and `hone batch watch`. The newest record of each topic counts.
pub(super) fn others(content: &Content, xrays: &[XrayRecord]) -> Vec<TopicRecord> {
    let replays = newest(content, WhatIf::KIND).into_iter().filter_map(|item| replayed(item));
    let metrics = newest(content, BatchWatch::KIND).into_iter().filter_map(|item| watched(item)).flatten();
    without_xray(replays.chain(metrics).collect(), xrays)
}

fn without_xray(mut found: Vec<TopicRecord>, xrays: &[XrayRecord]) -> Vec<TopicRecord> {
    let mut seen: BTreeSet<String> =
        xrays.iter().flat_map(|record| &record.xray.topics).map(|topic| topic.topic.clone()).collect();
    found.sort_by_key(|topic| std::cmp::Reverse(topic.at_unix_ms));
    found.retain(|topic| seen.insert(topic.topic.clone()));
    found
}

fn parsed<T: Body>(item: &Item) -> Option<T> {
    Envelope::<T>::parse(&read(&item.path).ok()?).ok()
}

fn replayed(item: &Item) -> Option<TopicRecord> {
    let found: WhatIf = parsed(item)?;
    Some(TopicRecord {
        record: item.record.id.clone(),
        source: "replay of its records".to_owned(),
        at_unix_ms: item.record.at_unix_ms,
        topic: found.topic,
        batches_per_s: Some(found.today.batches_per_s),
        mean_bytes: Some(found.today.batch_bytes_mean),
        action: found
            .advice
            .as_ref()
            .map(|advice| hone_document::advice::words(advice, false))
            .unwrap_or_default(),
    })
}

fn watched(item: &Item) -> Option<Vec<TopicRecord>> {
    let found: BatchWatch = parsed(item)?;
    let topic = |topic: WatchedTopic| TopicRecord {
        record: item.record.id.clone(),
        source: format!("metrics of {}", found.source),
        at_unix_ms: item.record.at_unix_ms,
        topic: topic.topic,
        batches_per_s: topic.batches_per_s.known(),
        mean_bytes: topic.batch_bytes.known(),
        action: String::new(),
    };
    Some(found.topics.iter().take(MOST_WATCHED).cloned().map(topic).collect())
}

fn newest<'a>(content: &'a Content, kind: &str) -> Vec<&'a Arc<Item>> {
    let mut items: Vec<&Arc<Item>> = content
        .records
        .values()
        .filter(|item| item.record.kind == kind && item.record.bytes <= MOST_BYTES)
        .collect();
    items.sort_by_key(|item| std::cmp::Reverse(item.record.at_unix_ms));
    items.truncate(MOST_RECORDS);
    items
}

/// Microseconds of CPU per batch by the newest cost record that knows them.
pub(super) fn us_per_batch(content: &Content) -> Option<f64> {
    let cost = |item: &Arc<Item>| {
        let cost = Envelope::<BatchCost>::parse(&read(&item.path).ok()?).ok()?;
        let of_batch = cost.costs.into_iter().find(|work| work.unit == "batch")?;
        of_batch.us.map(|us| us.value)
    };
    newest(content, BatchCost::KIND).into_iter().find_map(cost)
}

/// The settings of a form that the address does not name: those of today.
pub(super) fn today(topic: &TopicXray) -> (f64, u64) {
    let Some(producer) = topic.producers.first() else { return (0.0, USUAL_BATCH_BYTES) };
    (linger_ms(producer), batch_bytes(producer))
}

fn linger_ms(producer: &ProducerXray) -> f64 {
    producer.linger_ms.map_or(0.0, |linger| linger as f64).min(f64::from(MOST_LINGER_MS))
}

fn batch_bytes(producer: &ProducerXray) -> u64 {
    match producer.cap {
        Some(BatchCap::Bytes(bytes)) if bytes > 0 => bytes.clamp(1_024, 1 << 20),
        _ => USUAL_BATCH_BYTES,
    }
}

/// Predicts a topic with another linger and batch size.
///
/// # Errors
/// Why there is no forecast, as a sentence.
pub(super) fn forecast(
    topic: &TopicXray,
    (linger_ms_then, batch_bytes_then): (f64, u64),
    us_per_batch: Option<f64>,
) -> Result<TopicForecast, String> {
    let measured = topic.batches_per_s.filter(|rate| *rate > 0.0 && rate.is_finite());
    let measured =
        measured.ok_or("The X-ray has no rate for this topic, so there is nothing to predict from.")?;
    if topic.batches == 0 || topic.records == 0 {
        return Err("The X-ray read no batch of this topic.".to_owned());
    }
    let record_bytes = (topic.bytes as f64 - HEADER_BYTES * topic.batches as f64) / topic.records as f64;
    let body_bytes = (record_bytes - FRAMING_BYTES).clamp(1.0, 1e6) as u32;
    let (mut now, mut then) = (Sum::default(), Sum::default());
    let partitions = topic.partitions.clamp(1, MOST_PARTITIONS) as u32;
    for (number, producer) in topic.producers.iter().take(MOST_PRODUCERS).enumerate() {
        let writes_to = (producer.partitions.max(1) as u32).min(partitions);
        let Some(stream) = stream(producer, writes_to, body_bytes, number as u64 + 1) else { continue };
        let of = |linger_ms: f64, batch_bytes: u64| sent(&stream, linger_ms, batch_bytes);
        now.add(&of(linger_ms(producer), batch_bytes(producer)));
        then.add(&of(linger_ms_then, batch_bytes_then));
    }
    if now.batches_per_s <= 0.0 || then.batches_per_s <= 0.0 {
        return Err(
            "The X-ray does not say how fast the producers of this topic send, so there is no forecast."
                .to_owned(),
        );
    }
    let mean_now = topic.bytes as f64 / topic.batches as f64;
    let off = now.mean_bytes() / mean_now;
    if !(1.0 / MOST_OFF..=MOST_OFF).contains(&off) {
        return Err(format!(
            "The rules of the client do not explain today's batches: they would have {:.0} bytes, and they have {mean_now:.0}. \
             hone batch whatif replays the real records.",
            now.mean_bytes()
        ));
    }
    let change = then.batches_per_s / now.batches_per_s;
    let batches_then = measured * change;
    let bytes_now = measured * mean_now;
    // Only headers change. The forecast can't see how well larger batches compress.
    let bytes_then = (bytes_now - HEADER_BYTES * (measured - batches_then)).max(0.0);
    Ok(TopicForecast {
        today: today(topic),
        batches_per_s: [measured, batches_then],
        bytes_per_s: [bytes_now, bytes_then],
        batch_bytes: [mean_now, bytes_then / batches_then],
        added_p50_ms: then.wait_ms() - now.wait_ms(),
        cores: us_per_batch.map(|us| (batches_then - measured) * us / 1e6),
        notes: notes(topic, off),
    })
}

fn notes(topic: &TopicXray, off: f64) -> Vec<String> {
    let mut notes = vec![
        "The forecast sends records at random times with the rates of the X-ray, by the rules of the Java client. Real producers send in \
         bursts, which fill batches better."
            .to_owned(),
        format!("With today's settings it gives batches of {} times their real size.", hone_format::ratio(off)),
        "Bytes change by the headers only: larger batches also compress better.".to_owned(),
    ];
    let more = topic.producers.len().saturating_sub(MOST_PRODUCERS) + topic.more_producers;
    if more > 0 {
        notes.push(format!("It assumes that {more} smaller producers change in the same way."));
    }
    if topic.transactional > 0 {
        notes.push("Transactions end batches earlier than any linger; the forecast ignores them.".to_owned());
    }
    notes
}

/// Records of a producer at random times. `None` without a rate.
fn stream(producer: &ProducerXray, partitions: u32, body_bytes: u32, seed: u64) -> Option<Stream> {
    let per_s = producer.records_per_s_per_partition? * f64::from(partitions);
    if !(per_s.is_finite() && per_s > 0.0) {
        return None;
    }
    let seconds = (MOST_SENT / per_s).min(LONGEST_S);
    // Seeded, so that one address has one answer.
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut stream = Stream::default();
    let mut at_s = 0.0;
    loop {
        // The time between two records of independent senders.
        at_s -= (1.0 - unit(&mut random)).ln() / per_s;
        if at_s >= seconds || stream.len() as f64 >= MOST_SENT {
            break;
        }
        let partition = (unit(&mut random) * f64::from(partitions)) as u32;
        stream.push((at_s * 1e6) as u64, partition.min(partitions - 1), body_bytes, NO_KEY);
    }
    (stream.len() > 1).then_some(stream)
}

/// The batches that a client makes of these records.
fn sent(stream: &Stream, linger_ms: f64, batch_bytes: u64) -> BatchFigures {
    let linger_us = (linger_ms.clamp(0.0, f64::from(MOST_LINGER_MS)) * 1e3) as u64;
    let rules: Rules = Client::Java4
        .defaults()
        .with_linger_us(linger_us)
        .with_batch_bytes(u32::try_from(batch_bytes).unwrap_or(u32::MAX).clamp(1, 1 << 30));
    let window_us = stream.at_us.last().map_or(1, |last| last + 1);
    let plan = Plan {
        rules: &rules,
        brokers: &Brokers { rtt_us: 1_000, ..Brokers::one() },
        shrink: &Shrink::none(),
        placing: Placing::AsToday,
        window_us,
        blocks: 1,
        keeps_batches: false,
    };
    figures(&replay(stream, &plan), window_us)
}

/// Figures of several producers.
#[derive(Debug, Default)]
struct Sum {
    batches_per_s: f64,
    bytes_per_s: f64,
    wait_ms: f64,
}

impl Sum {
    fn add(&mut self, figures: &BatchFigures) {
        self.batches_per_s += figures.batches_per_s;
        self.bytes_per_s += figures.bytes_per_s;
        // Producers count by their bytes.
        self.wait_ms += figures.wait_ms_p50.unwrap_or(0.0) * figures.bytes_per_s;
    }

    fn mean_bytes(&self) -> f64 {
        self.bytes_per_s / self.batches_per_s
    }

    fn wait_ms(&self) -> f64 {
        self.wait_ms / self.bytes_per_s
    }
}

/// From 0 up to, but without, 1.
fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One producer that sends 1,000 records of 100 bytes per second to each of four partitions, hardly batched.
    fn topic(record_rate: Option<f64>) -> TopicXray {
        let producer = ProducerXray {
            id: Some(7),
            batches: 40_000,
            records: 44_000,
            bytes: 44_000 * 107 + 40_000 * 61,
            partitions: 4,
            triggers: Vec::new(),
            cap: None,
            linger_ms: None,
            records_per_s_per_partition: record_rate,
            evidence: Vec::new(),
        };
        TopicXray {
            topic: "orders".to_owned(),
            partitions: 4,
            batches: producer.batches,
            records: producer.records,
            bytes: producer.bytes,
            batches_per_s: Some(3_600.0),
            producers: vec![producer],
            ..TopicXray::default()
        }
    }

    #[test]
    fn a_longer_linger_makes_fewer_and_larger_batches_that_wait_longer() {
        let topic = topic(Some(1_000.0));
        let found = forecast(&topic, (20.0, 65_536), Some(50.0)).unwrap();
        let [before, after] = found.batches_per_s;
        assert!(before == 3_600.0 && after < 400.0 && after > 50.0, "{found:?}");
        assert!(found.batch_bytes[1] > 1_000.0 && found.bytes_per_s[1] < found.bytes_per_s[0], "{found:?}");
        assert!(found.added_p50_ms > 3.0 && found.added_p50_ms < 20.0, "{found:?}");
        assert!(found.cores.is_some_and(|cores| cores < -0.1), "{found:?}");
        assert_eq!(
            forecast(&topic, (20.0, 65_536), None).unwrap().batches_per_s,
            found.batches_per_s,
            "the same again"
        );
        let shorter = forecast(&topic, (5.0, 65_536), None).unwrap();
        assert!(shorter.batches_per_s[1] > after && shorter.added_p50_ms < found.added_p50_ms);
    }

    #[test]
    fn other_records_add_the_topics_that_no_xray_covers() {
        let other = |name: &str, at_unix_ms: u64| TopicRecord {
            topic: name.to_owned(),
            at_unix_ms,
            ..TopicRecord::default()
        };
        let xray = BatchXray { topics: vec![topic(None)], ..BatchXray::default() };
        let xrays = [XrayRecord { id: String::new(), path: String::new(), at_unix_ms: 1, xray }];
        let found =
            without_xray(vec![other("a", 1), other("orders", 9), other("a", 3), other("b", 2)], &xrays);
        let names: Vec<(&str, u64)> =
            found.iter().map(|topic| (topic.topic.as_str(), topic.at_unix_ms)).collect();
        assert_eq!(names, [("a", 3), ("b", 2)], "the newest of each");
    }

    #[test]
    fn what_can_not_be_predicted_has_a_reason() {
        let why = |topic: &TopicXray| forecast(topic, (5.0, 16_384), None).unwrap_err();
        assert!(why(&topic(None)).contains("how fast the producers"));
        assert!(why(&TopicXray::default()).contains("no rate"));
        let other = TopicXray { bytes: 44_000 * 9_000, ..topic(Some(1_000.0)) };
        let other = TopicXray { records: other.records * 100, ..other };
        assert!(why(&other).contains("do not explain"), "{}", why(&other));
    }
}
