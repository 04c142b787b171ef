//! The effect of a change on a topic: every producer's records with the settings that explain it today, with the change.
//!
//! A value is that of the best explanation under the brokers' actual leaders. Its range covers all explanations that are as good, the
//! actual leaders and partitions that are never sent together (or all by one broker, if leaders are unknown), and a confidence interval
//! over resampled parts of the window (block bootstrap, 95 %). It does not cover what a replay can't see.

use hone_kafka::batch::HEADER_BYTES;
use hone_kafka::codec::{Codec, CodecError};
use hone_record::{
    BatchFigures, CheapestSetting, ClientSettings, Foreseen, ForeseenBatches, ReplayMisfit, ReplayedProducer,
    SentBy, WhatIf,
};

use super::Dice;
use super::advice::{self, Replayed};
use super::calibrate::{
    Fit, MOST_EXPLAINED, MOST_OFF, Told, Unexplained, borrow, calibrate, shrink_of_today,
};
use super::client::{Client, Keyless, Rules};
use super::denser;
use super::infer::{codec, signs};
use super::moves::Moves;
use super::shrink::{Shrink, measure};
use super::simulate::{Block, Brokers, Placing, Plan, Replay, Trigger, replay};
use super::stream::{Circumstances, Gathered, Producer, Stream, Who};
use super::waiting;
use crate::histogram::Histogram;
use crate::replica::colour::told_apart;
use crate::tally::PAGE_BYTES;

/// Settings of explained producers to try on the others.
const MOST_LENDERS: usize = 4;
/// Producers in a record.
const MOST_LISTED: usize = 32;
/// Parts of the window for the bootstrap.
const BLOCKS: usize = 48;
/// Number of resamples.
const DRAWS: usize = 1_000;
/// Share of keys that must be in their murmur2 partition before Hone moves them by murmur2.
const MURMUR_SHARE: f64 = 0.99;
/// Sizes for which Hone searches the cheapest setting: a page of an NVMe drive, and a better one for topics with a high rate.
pub const TARGETS_BYTES: [u64; 2] = [4_096, 16_384];
/// Lingers to try for them, in milliseconds.
pub(super) const LADDER_MS: [u64; 14] = [0, 1, 2, 5, 10, 15, 20, 30, 50, 100, 200, 300, 500, 1_000];
/// Batch sizes to try, besides today's.
const CAPS: [u32; 7] = [16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576];

/// The change.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Change {
    /// `linger.ms`, in microseconds.
    pub linger_us: Option<u64>,
    /// `batch.size`.
    pub batch_bytes: Option<u32>,
    /// `batch.num.messages`.
    pub batch_records: Option<u32>,
    /// Codec.
    pub codec: Option<Codec>,
    /// Another client; settings that are its predecessor's defaults become its own defaults.
    pub client: Option<Client>,
    /// The partition of records without a key.
    pub partitioner: Option<Partitioner>,
    /// Partitions of the topic.
    pub partitions: Option<u32>,
    /// Number of producers that all of them are merged into.
    pub producers: Option<u32>,
    /// The producers send this many times as much.
    pub denser: Option<f64>,
}

/// The partition of records without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partitioner {
    /// As the client does by default.
    Sticky,
    /// To the next partition with each record.
    RoundRobin,
}

/// The input of a replay.
#[derive(Debug, Clone)]
pub struct Case<'a> {
    /// The records.
    pub gathered: &'a Gathered,
    /// Known settings.
    pub told: Told,
    /// Leaders by partition, if known.
    pub leads: Option<Vec<u32>>,
    /// Partitions of the topic.
    pub partitions: u32,
    /// For random choices: the client's partitioner and the bootstrap.
    pub seed: u64,
    /// The longest linger that may be recommended, in microseconds.
    pub tolerable_us: u64,
}

/// A producer with its explanation.
struct Explained<'a> {
    producer: &'a Producer,
    /// The codec of most of its bytes.
    codec: Codec,
    fits: Vec<Fit>,
    source: Source,
    refused: Option<Unexplained>,
    /// How its records without a key move between partitions.
    moves: Moves,
}

/// Who chooses the partition of records without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chooser {
    /// The client's own partitioner.
    Client,
    /// The application, or the client: both look alike with such a short time at a partition.
    ClientOrSender,
    /// The application.
    Sender,
}

/// One of the possible replays of a change.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// The explanation of each producer.
    fit: usize,
    /// Each partition is sent by itself.
    alone: bool,
    /// Records that the client or the application may have placed stay in their partition.
    stays: bool,
}

/// The origin of a producer's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A search with its own batches.
    Own,
    /// A larger producer's settings, which reproduce its own batches as well.
    Tried,
    /// A larger producer's settings, because it has too few batches for a test.
    Untried,
}

/// The effect of compression, by codec.
struct Packing {
    shrinks: Vec<(Codec, Shrink)>,
    none: Shrink,
}

impl Packing {
    fn of(&self, codec: Codec) -> &Shrink {
        self.shrinks.iter().find(|(own, _)| *own == codec).map_or(&self.none, |(_, shrink)| shrink)
    }
}

/// Why there is no prediction when time ran out.
const STOPPED: &str = "the replay stopped before its end (interrupted, or --replay-timeout)";

/// Replays today and the change. Between replays it asks whether to continue.
///
/// # Errors
/// Fails when a codec fails, which no input should cause.
pub fn what_if(case: &Case<'_>, change: &Change, go_on: &dyn Fn() -> bool) -> Result<WhatIf, CodecError> {
    let packing = packing(case.gathered, change.codec)?;
    let (record, is_explained) = attempt(case, change, &packing, go_on);
    if is_explained {
        return Ok(record);
    }
    for linger_us in lingers_that_part(case) {
        if !go_on() {
            break;
        }
        let gathered = Gathered {
            producers: told_apart(&case.gathered.producers, linger_us),
            circumstances: case.gathered.circumstances.clone(),
            ..*case.gathered
        };
        let nameless = gathered.producers.iter().filter(|producer| producer.who.is_nameless()).count();
        // A single producer stays unchanged.
        if nameless < 2 {
            continue;
        }
        let apart = Case { gathered: &gathered, ..case.clone() };
        let (mut record, is_explained) = attempt(&apart, change, &packing, go_on);
        if is_explained {
            record.notes.insert(
                0,
                format!(
                    "Hone separates producers without an id by a linger of {} ms: there are at least {}",
                    linger_us as f64 / 1e3,
                    nameless
                ),
            );
            return Ok(record);
        }
    }
    Ok(record)
}

/// Lingers that may separate producers without an id, the likeliest first. Batches of several producers that count as one come sooner after
/// each other than any linger.
fn lingers_that_part(case: &Case<'_>) -> Vec<u64> {
    const MOST: usize = 3;
    let Some(largest) = case.gathered.producers.iter().find(|producer| producer.who.is_nameless()) else {
        return Vec::new();
    };
    let signs = signs(largest);
    if signs.closed_loop.is_some() {
        return Vec::new();
    }
    let longest_us = 1_000 * signs.span_ms_p99.unwrap_or(0);
    let mut lingers = case.told.linger_us.map_or(signs.lingers_us, |us| vec![us]);
    lingers.retain(|us| *us > 0);
    // The longest wait of the batches: they do not wait for less.
    lingers.sort_by_key(|us| (us.abs_diff(longest_us), *us));
    lingers.truncate(MOST);
    lingers
}

/// The prediction for separated producers, and whether their batches are explained.
fn attempt(case: &Case<'_>, change: &Change, packing: &Packing, go_on: &dyn Fn() -> bool) -> (WhatIf, bool) {
    let gathered = case.gathered;
    let explained = explain(case, packing, go_on);
    let unexplained = refusal(case, &Change::default(), &explained, packing);
    let refused = unexplained.clone().or_else(|| refusal(case, change, &explained, packing));
    let included: Vec<&Explained<'_>> = explained.iter().filter(|each| !each.fits.is_empty()).collect();
    let mut record = WhatIf {
        topic: String::new(),
        partitions: case.partitions,
        window_s: gathered.span_us as f64 / 1e6,
        records: gathered.circumstances.records,
        change: change.words(),
        producers: explained.iter().take(MOST_LISTED).map(told_of).collect(),
        more_producers: explained.len().saturating_sub(MOST_LISTED) as u64,
        today: written_figures(&explained, unexplained.is_none(), gathered.span_us),
        replayed: None,
        predicted: None,
        refused,
        cheapest: Vec::new(),
        advice: None,
        batches_packed: packing.shrinks.iter().map(|(_, shrink)| shrink.tries).max().unwrap_or(0),
        notes: notes(case, &explained),
    };
    let unexplained = if unexplained.is_some() || included.is_empty() {
        unexplained
    } else {
        let today = replay_all(case, &included, &Change::default(), Way::default(), packing);
        record.replayed = Some(figures(&today, gathered.span_us.max(1)));
        let unexplained = unexplained.or_else(|| off_together(&included, &today));
        if unexplained.is_none() {
            predict(case, &included, change, packing, &today, go_on, &mut record);
        }
        unexplained
    };
    if !go_on() {
        stopped(&mut record);
    }
    let is_explained = unexplained.is_none();
    if let Some(why) = unexplained {
        let producers: Vec<_> = explained.iter().map(|each| (each.producer, each.refused.as_ref())).collect();
        record.advice = Some(advice::unexplained(&producers, &why));
        record.predicted = waiting::foresee(&producers, &case.told, change);
        record.refused = if record.predicted.is_some() { None } else { record.refused.or(Some(why)) };
        record.notes.extend(record.predicted.as_ref().map(|_| WAITING.to_owned()));
    }
    (record, is_explained)
}

/// The note of a prediction that is not a replay.
const WAITING: &str = "the sender waits for each answer, so Hone replays nothing: another linger changes its \
                       time between sends by the difference";

/// Removes incomplete replays.
fn stopped(record: &mut WhatIf) {
    (record.predicted, record.advice) = (None, None);
    record.cheapest.clear();
    record.refused.get_or_insert_with(|| STOPPED.to_owned());
}

/// The effect of the change, unless it is refused, and the recommended settings.
fn predict(
    case: &Case<'_>,
    included: &[&Explained<'_>],
    change: &Change,
    packing: &Packing,
    today: &Replay,
    go_on: &dyn Fn() -> bool,
    record: &mut WhatIf,
) {
    if record.refused.is_none() {
        record.predicted = Some(foresee(case, included, change, packing, go_on));
    }
    // The recommendation is for today's flow.
    if change.denser.is_some() {
        return;
    }
    record.cheapest = TARGETS_BYTES.map(|target| cheapest(case, included, packing, target, go_on)).into();
    let first = included.first().and_then(|each| each.fits.first());
    let replayed = Replayed {
        today,
        linger_us: first.map_or(0, |fit| fit.rules.linger_us),
        usual_records: first.and_then(usual_records),
        tolerable_us: case.tolerable_us,
        cheapest: &record.cheapest,
    };
    record.advice =
        Some(replayed.advice(&|change| replay_all(case, included, change, Way::default(), packing)));
}

/// The client's own limit on records, if batches end at a smaller one.
fn usual_records(fit: &Fit) -> Option<u32> {
    Some(fit.rules.client.defaults().batch_records).filter(|usual| fit.rules.batch_records < *usual)
}

/// All producers' batches compared with the replay: each producer may be off by a little, but the sum may not.
fn off_together(included: &[&Explained<'_>], today: &Replay) -> Option<String> {
    let written: u64 = included.iter().map(|each| each.producer.written.len() as u64).sum();
    let off = today.total.batches as f64 / written.max(1) as f64 - 1.0;
    (off.abs() > MOST_OFF).then(|| {
        format!(
            "can't reproduce today's batches for all producers together: {written} batches were written and \
             the replay makes {}",
            today.total.batches
        )
    })
}

/// The effect of compression with each codec that is used, or would be. The recompression does not know levels and dialects, so today's
/// batches correct it: the ratios are those that give today's bytes.
fn packing(gathered: &Gathered, then: Option<Codec>) -> Result<Packing, CodecError> {
    let mut shrinks: Vec<(Codec, Shrink)> = Vec::new();
    let used = gathered.producers.iter().map(|producer| codec(&producer.written));
    for codec in used.chain(then).filter(|codec| *codec != Codec::None) {
        if shrinks.iter().any(|(known, _)| *known == codec) {
            continue;
        }
        let measured = measure(gathered.producers.iter(), codec)?;
        let shrink = if measured.is_measured() {
            let factor = scale_of_today(gathered, codec, &measured);
            measured.scaled(factor)
        } else {
            shrink_of_today(gathered.producers.iter(), codec)
        };
        shrinks.push((codec, shrink));
    }
    Ok(Packing { shrinks, none: Shrink::none() })
}

/// Bytes of today's batches of a codec over the result of the ratios; 1 without such batches.
fn scale_of_today(gathered: &Gathered, codec: Codec, shrink: &Shrink) -> f64 {
    let (mut real, mut guessed) = (0.0, 0.0);
    for batch in gathered.producers.iter().flat_map(|producer| &producer.written) {
        if batch.codec == codec {
            real += f64::from(batch.wire_bytes) - HEADER_BYTES as f64;
            guessed += f64::from(batch.plain_bytes) * shrink.ratio(u64::from(batch.plain_bytes));
        }
    }
    if real > 0.0 && guessed > 0.0 { (real / guessed).clamp(0.5, 2.0) } else { 1.0 }
}

fn explain<'a>(case: &'a Case<'_>, packing: &Packing, go_on: &dyn Fn() -> bool) -> Vec<Explained<'a>> {
    let brokers = maps(case);
    let mut all: Vec<Explained<'a>> = Vec::new();
    for producer in case.gathered.producers.iter().take(MOST_EXPLAINED) {
        let codec = codec(&producer.written);
        let found = calibrate(producer, &case.told, &brokers, packing.of(codec), go_on);
        all.push(Explained::new(producer, codec, found, Source::Own, case.partitions));
    }
    let lenders = lenders(&all);
    for producer in case.gathered.producers.iter().skip(MOST_EXPLAINED) {
        let codec = codec(&producer.written);
        let found = if go_on() {
            let of_its_codec: Vec<Fit> = lenders.iter().map(|fit| fit.with_codec(codec)).collect();
            borrow(producer, &case.told, &of_its_codec, packing.of(codec)).map(|fit| vec![fit])
        } else {
            Err(Unexplained::Stopped)
        };
        all.push(Explained::new(producer, codec, found, Source::Tried, case.partitions));
    }
    if let Some(common) = lenders.first() {
        all.iter_mut().for_each(|each| each.take_over(common));
    }
    all
}

/// Settings that explain producers, the largest producers first.
fn lenders(all: &[Explained<'_>]) -> Vec<Fit> {
    let mut lenders: Vec<Fit> = Vec::new();
    for fit in all.iter().filter_map(|each| each.fits.first()) {
        if lenders.len() < MOST_LENDERS && !lenders.iter().any(|known| known.rules == fit.rules) {
            lenders.push(fit.clone());
        }
    }
    lenders
}

impl<'a> Explained<'a> {
    fn new(
        producer: &'a Producer,
        codec: Codec,
        found: Result<Vec<Fit>, Unexplained>,
        source: Source,
        partitions: u32,
    ) -> Self {
        let (fits, refused) = match found {
            Ok(fits) => (fits, None),
            Err(refused) => (Vec::new(), Some(refused)),
        };
        let mut moves = Moves::default();
        moves.add(&producer.stream);
        let mut found = Self { producer, codec, fits, source, refused, moves };
        found.prefer_those_that_place(partitions);
        found
    }

    /// Batches alone hardly distinguish clients without a linger: those whose partitioner also explains the partitions come first.
    fn prefer_those_that_place(&mut self, partitions: u32) {
        let mut fits = std::mem::take(&mut self.fits);
        fits.sort_by_key(|fit| self.chooser(&fit.rules, partitions) == Chooser::Sender);
        self.fits = fits;
    }

    /// Whether the client of these rules chooses the partition of records without a key, as far as the topic shows it.
    fn chooser(&self, rules: &Rules, partitions: u32) -> Chooser {
        match rules.keyless {
            _ if self.moves.is_shown() => Chooser::Client,
            Keyless::ByTime { us } if self.moves.may_be_sticky(us, partitions) => Chooser::ClientOrSender,
            _ => Chooser::Sender,
        }
    }

    fn may_be_either(&self, partitions: u32) -> bool {
        self.fits.iter().any(|fit| self.chooser(&fit.rules, partitions) == Chooser::ClientOrSender)
    }

    /// Takes the settings of another producer if its own batches are too few for a conclusion.
    fn take_over(&mut self, common: &Fit) {
        if matches!(self.refused, Some(Unexplained::TooFew { .. })) {
            self.fits = vec![common.with_codec(self.codec)];
            (self.source, self.refused) = (Source::Untried, None);
        }
    }

    fn batches(&self) -> u64 {
        self.producer.written.len() as u64
    }
}

/// The possible leaders: the actual ones, or one broker for all, and each partition by its own.
fn maps(case: &Case<'_>) -> Vec<Brokers> {
    let one = Brokers::one();
    match &case.leads {
        Some(leads) => {
            let count = leads.iter().max().map_or(1, |most| most.saturating_add(1));
            vec![Brokers { leads: leads.clone(), count, ..one }]
        }
        None if case.partitions > 1 => vec![one.clone(), one.each_alone(case.partitions)],
        None => vec![one],
    }
}

fn refusal(case: &Case<'_>, change: &Change, all: &[Explained<'_>], packing: &Packing) -> Option<String> {
    if let Some(stopped) =
        all.iter().filter_map(|each| each.refused.as_ref()).find(|why| **why == Unexplained::Stopped)
    {
        return Some(stopped.to_string());
    }
    let total: u64 = all.iter().map(Explained::batches).sum();
    let refused: Vec<&Explained<'_>> = all.iter().filter(|each| each.refused.is_some()).collect();
    let lost: u64 = refused.iter().map(|each| each.batches()).sum();
    if lost as f64 > MOST_OFF * total as f64 {
        return refused
            .first()
            .and_then(|each| Some(format!("{}: {}", name(each.producer.who), each.refused.as_ref()?)));
    }
    let untried = || all.iter().filter(|each| each.source == Source::Untried);
    let lent: u64 = untried().map(Explained::batches).sum();
    if lent as f64 > MOST_OFF * total as f64 {
        return Some(format!(
            "{} producers with {:.0} % of the batches have too few batches to infer their settings; read a \
             longer time (--last)",
            untried().count(),
            100.0 * lent as f64 / total as f64
        ));
    }
    let found = &case.gathered.circumstances;
    if found.is_by_headers && (change.partitions.is_some() || change.partitioner.is_some()) {
        return Some(
            "without records (--no-payload), Hone does not know which ones have keys, or where they would go"
                .to_owned(),
        );
    }
    if change.partitions.is_some() && found.keyed > 0 {
        let share = found.keys_by_murmur2.map_or(0.0, |(hits, tried)| hits as f64 / tried.max(1) as f64);
        if share < MURMUR_SHARE {
            return Some(format!(
                "only {:.0} % of the tested keys are in their murmur2 partition (librdkafka's default is \
                 CRC32, others have their own), so their partition with another number of partitions is \
                 unknown",
                100.0 * share
            ));
        }
    }
    let is_known = |codec: Codec| {
        codec == Codec::None && !found.is_by_headers
            || packing.of(codec).is_measured()
            || all.iter().all(|each| each.codec == codec)
    };
    if let Some(codec) = change.codec.filter(|codec| !is_known(*codec)) {
        return Some(format!("there are no records to test {} on (--no-payload)", codec.name()));
    }
    None
}

/// Rules of a fit with a change.
fn changed(fit: &Rules, change: &Change) -> Rules {
    let mut rules = fit.clone();
    if let Some(client) = change.client.filter(|client| *client != fit.client) {
        let (before, after) = (fit.client.defaults(), client.defaults());
        let kept = |today: u64, before: u64, after: u64| if today == before { after } else { today };
        let linger_us = kept(fit.linger_us, before.linger_us, after.linger_us);
        let batch_bytes =
            kept(u64::from(fit.batch_bytes), u64::from(before.batch_bytes), u64::from(after.batch_bytes));
        rules = after.with_codec(fit.codec).with_linger_us(linger_us).with_batch_bytes(batch_bytes as u32);
        rules.client = client;
    }
    if let Some(linger_us) = change.linger_us {
        rules = rules.with_linger_us(linger_us);
    }
    if let Some(batch_bytes) = change.batch_bytes {
        rules = rules.with_batch_bytes(batch_bytes);
    }
    if let Some(records) = change.batch_records {
        rules = rules.with_batch_records(records);
    }
    if let Some(codec) = change.codec {
        rules = rules.with_codec(codec);
    }
    if change.partitioner == Some(Partitioner::RoundRobin) {
        rules.keyless = Keyless::EachInTurn;
    }
    rules
}

/// All producers under a change.
fn replay_all(
    case: &Case<'_>,
    included: &[&Explained<'_>],
    change: &Change,
    way: Way,
    packing: &Packing,
) -> Replay {
    let partitions = change.partitions.unwrap_or(case.partitions).max(1);
    let mut all = Replay::default();
    let groups = change.producers.map(|count| merged(included, count.max(1)));
    let streams: Vec<(&Stream, &Explained<'_>)> = match &groups {
        Some(groups) => groups.iter().zip(included.iter().copied()).collect(),
        None => included.iter().map(|each| (&each.producer.stream, *each)).collect(),
    };
    for (stream, each) in streams {
        let Some(fit) = each.fits.get(way.fit).or(each.fits.first()) else { continue };
        let rules = changed(&fit.rules, change);
        let mut brokers = if way.alone { fit.brokers.each_alone(partitions) } else { fit.brokers.clone() };
        if change.partitions.is_some() && !way.alone {
            brokers.leads.truncate(case.partitions as usize);
        }
        let chooses = match each.chooser(&fit.rules, case.partitions) {
            Chooser::Client => true,
            Chooser::ClientOrSender => !way.stays,
            Chooser::Sender => false,
        };
        let chooses_anew = *change != Change::default() && chooses;
        let is_anew = change.partitioner.is_some() || change.partitions.is_some() || chooses_anew;
        let placing = if is_anew {
            Placing::Anew { partitions, moves_keys: change.partitions.is_some(), seed: case.seed }
        } else {
            Placing::AsToday
        };
        let denser = change.denser.map(|times| stream.denser(times));
        let plan = Plan {
            rules: &rules,
            brokers: &brokers,
            shrink: packing.of(rules.codec),
            placing,
            window_us: denser::window_us(case.gathered.span_us, change.denser),
            blocks: BLOCKS,
            keeps_batches: false,
        };
        all.merge(&replay(denser.as_ref().unwrap_or(stream), &plan));
    }
    all
}

/// Merges the streams of all producers into this number.
fn merged(included: &[&Explained<'_>], count: u32) -> Vec<Stream> {
    let count = (count as usize).min(included.len()).max(1);
    (0..count)
        .map(|group| {
            let streams: Vec<&Stream> =
                included.iter().skip(group).step_by(count).map(|each| &each.producer.stream).collect();
            Stream::merged(&streams)
        })
        .collect()
}

fn foresee(
    case: &Case<'_>,
    included: &[&Explained<'_>],
    change: &Change,
    packing: &Packing,
    go_on: &dyn Fn() -> bool,
) -> ForeseenBatches {
    let window_us = denser::window_us(case.gathered.span_us, change.denser);
    let most_fits = included.iter().map(|each| each.fits.len()).max().unwrap_or(1);
    let is_either = included.iter().any(|each| each.may_be_either(case.partitions));
    let mut replays = Vec::new();
    for fit in 0..most_fits {
        for (alone, stays) in [(false, false), (true, false), (false, true), (true, true)] {
            if go_on() && (is_either || !stays) {
                replays.push(replay_all(case, included, change, Way { fit, alone, stays }, packing));
            }
        }
    }
    let all: Vec<BatchFigures> = replays.iter().map(|replay| figures(replay, window_us)).collect();
    let first = all.first().copied().unwrap_or_else(|| figures(&Replay::default(), window_us));
    let spread = replays.first().map(|best| bootstrap(&best.blocks, case.seed)).unwrap_or_default();
    let range = |of: &dyn Fn(&BatchFigures) -> f64, spread: (f64, f64)| {
        let values = || all.iter().map(of);
        let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(f64::MIN, f64::max));
        Foreseen { value: of(&first), low: low * spread.0.min(1.0), high: high * spread.1.max(1.0) }
    };
    ForeseenBatches {
        figures: first,
        batches_per_s: range(&|each| each.batches_per_s, spread.batches),
        requests_per_s: range(&|each| each.requests_per_s.unwrap_or(0.0), spread.requests),
        bytes_per_s: range(&|each| each.bytes_per_s, spread.bytes),
        batch_bytes_mean: range(&|each| each.batch_bytes_mean, spread.mean_bytes),
        wait_ms_mean: range(&|each| each.wait_ms_mean.unwrap_or(0.0), spread.mean_wait),
        wait_ms_p50: range(&|each| each.wait_ms_p50.unwrap_or(0.0), (1.0, 1.0)),
        wait_ms_p99: range(&|each| each.wait_ms_p99.unwrap_or(0.0), (1.0, 1.0)),
        replays: replays.len() as u32,
    }
}

/// Ends of 95 % confidence intervals over the value itself.
#[derive(Debug, Clone, Copy)]
struct Spread {
    batches: (f64, f64),
    requests: (f64, f64),
    bytes: (f64, f64),
    mean_bytes: (f64, f64),
    mean_wait: (f64, f64),
}

impl Default for Spread {
    fn default() -> Self {
        let none = (1.0, 1.0);
        Self { batches: none, requests: none, bytes: none, mean_bytes: none, mean_wait: none }
    }
}

fn bootstrap(blocks: &[Block], seed: u64) -> Spread {
    let mut dice = Dice::new(seed ^ 0x5bd1_e995);
    let mut whole = Block::default();
    blocks.iter().for_each(|block| whole.add(block));
    let mut drawn = Vec::with_capacity(DRAWS);
    for _ in 0..DRAWS {
        let mut sum = Block::default();
        for _ in blocks {
            if let Some(block) = blocks.get(dice.below(blocks.len() as u64) as usize) {
                sum.add(block);
            }
        }
        drawn.push(sum);
    }
    let interval = |of: &dyn Fn(&Block) -> f64| {
        let mut values: Vec<f64> = drawn.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let value = of(&whole).max(f64::MIN_POSITIVE);
        let at =
            |share: f64| values.get((share * values.len() as f64) as usize).copied().unwrap_or(value) / value;
        (at(0.025), at(0.975))
    };
    Spread {
        batches: interval(&|sum| sum.batches as f64),
        requests: interval(&|sum| sum.requests as f64),
        bytes: interval(&|sum| sum.bytes as f64),
        mean_bytes: interval(&Block::mean_bytes),
        mean_wait: interval(&Block::mean_wait_us),
    }
}

/// The least linger that reaches a size, with the least batch size that allows it.
fn cheapest(
    case: &Case<'_>,
    included: &[&Explained<'_>],
    packing: &Packing,
    target_bytes: u64,
    go_on: &dyn Fn() -> bool,
) -> CheapestSetting {
    let first = included.first().and_then(|each| each.fits.first());
    let (linger_us, batch_bytes) =
        first.map_or((0, 16_384), |fit| (fit.rules.linger_us, fit.rules.batch_bytes));
    let ladder: Vec<u64> = std::iter::once(linger_us)
        .chain(LADDER_MS.iter().map(|ms| ms * 1_000).filter(|us| *us > linger_us))
        .collect();
    let caps = std::iter::once(batch_bytes).chain(CAPS.into_iter().filter(|cap| *cap > batch_bytes));
    let mut most = None;
    for cap in caps.filter(|cap| u64::from(*cap) >= target_bytes).take_while(|_| go_on()) {
        let with = |linger_us: u64| {
            let change = Change {
                linger_us: Some(linger_us),
                batch_bytes: (cap != batch_bytes).then_some(cap),
                ..Change::default()
            };
            replay_all(case, included, &change, Way::default(), packing)
        };
        let reaches = |done: &Replay| done.total.mean_bytes() >= target_bytes as f64;
        let setting = |linger_us: Option<u64>, done: &Replay| CheapestSetting {
            target_bytes,
            linger_ms: linger_us.map(|us| us as f64 / 1e3),
            batch_bytes: (cap != batch_bytes && linger_us.is_some()).then_some(u64::from(cap)),
            batch_bytes_mean: done.total.mean_bytes(),
            wait_ms_mean: done.total.mean_wait_us() / 1e3,
            memory_bytes: done.memory_bytes,
            would_wait: done.would_wait > 0,
        };
        // The longest linger shows whether the size is reachable at all; then a bisection follows.
        let (mut low, mut high) = (0, ladder.len().saturating_sub(1));
        let longest = with(ladder.get(high).copied().unwrap_or(linger_us));
        let mut found =
            setting(reaches(&longest).then(|| ladder.get(high).copied().unwrap_or(linger_us)), &longest);
        if !reaches(&longest) {
            let is_more = most
                .as_ref()
                .is_none_or(|most: &CheapestSetting| most.batch_bytes_mean * 1.05 < found.batch_bytes_mean);
            if !is_more {
                break;
            }
            most = Some(found);
            continue;
        }
        while low < high && go_on() {
            let middle = (low + high) / 2;
            let linger_us = ladder.get(middle).copied().unwrap_or(linger_us);
            let done = with(linger_us);
            if reaches(&done) {
                (high, found) = (middle, setting(Some(linger_us), &done));
            } else {
                low = middle + 1;
            }
        }
        return found;
    }
    most.unwrap_or(CheapestSetting {
        target_bytes,
        linger_ms: None,
        batch_bytes: None,
        batch_bytes_mean: 0.0,
        wait_ms_mean: 0.0,
        memory_bytes: 0,
        would_wait: false,
    })
}

/// The figures of a replay.
pub fn figures(done: &Replay, window_us: u64) -> BatchFigures {
    let seconds = window_us as f64 / 1e6;
    let total = &done.total;
    let wait_ms = |share| Some(done.waits_us.quantile(share).unwrap_or(0) as f64 / 1e3);
    BatchFigures {
        batches_per_s: total.batches as f64 / seconds,
        requests_per_s: Some(total.requests as f64 / seconds),
        bytes_per_s: total.bytes as f64 / seconds,
        records_per_batch: total.mean_records(),
        batch_bytes_mean: total.mean_bytes(),
        batch_bytes_p50: done.sizes.quantile(0.5).unwrap_or(0),
        batch_bytes_p90: done.sizes.quantile(0.9).unwrap_or(0),
        wait_ms_mean: Some(total.mean_wait_us() / 1e3),
        wait_ms_p50: wait_ms(0.5),
        wait_ms_p99: wait_ms(0.99),
        header_share: done.header_share(),
        write_amplification_most: done.write_amplification_most(),
        sent_by: Some(SentBy {
            size: done.share_of(Trigger::Size),
            time: done.share_of(Trigger::Time),
            with_others: done.share_of(Trigger::WithOthers),
            memory: done.share_of(Trigger::Memory),
            commit: done.share_of(Trigger::Commit),
        }),
        memory_bytes: Some(done.memory_bytes),
        would_wait: Some(done.would_wait),
    }
}

/// The figures of the written batches: of all producers, or of the explained ones for a comparison with a prediction.
fn written_figures(all: &[Explained<'_>], is_predicted: bool, span_us: u64) -> BatchFigures {
    let (mut sizes, mut batches, mut records, mut bytes, mut pages) = (Histogram::default(), 0, 0, 0, 0);
    let producers = all.iter().filter(|each| !is_predicted || !each.fits.is_empty());
    for batch in producers.flat_map(|each| &each.producer.written) {
        let size = u64::from(batch.wire_bytes);
        sizes.add(size, 1);
        batches += 1;
        records += u64::from(batch.records);
        bytes += size;
        pages += size.div_ceil(PAGE_BYTES) * PAGE_BYTES;
    }
    let seconds = span_us.max(1) as f64 / 1e6;
    let each = batches.max(1) as f64;
    BatchFigures {
        batches_per_s: batches as f64 / seconds,
        requests_per_s: None,
        bytes_per_s: bytes as f64 / seconds,
        records_per_batch: records as f64 / each,
        batch_bytes_mean: bytes as f64 / each,
        batch_bytes_p50: sizes.quantile(0.5).unwrap_or(0),
        batch_bytes_p90: sizes.quantile(0.9).unwrap_or(0),
        wait_ms_mean: None,
        wait_ms_p50: None,
        wait_ms_p99: None,
        header_share: (batches * HEADER_BYTES as u64) as f64 / bytes.max(1) as f64,
        write_amplification_most: pages as f64 / bytes.max(1) as f64,
        sent_by: None,
        memory_bytes: None,
        would_wait: None,
    }
}

fn name(who: Who) -> String {
    match who {
        Who::Id(id) => format!("producer {id}"),
        Who::AtLeast(number) => format!("producer {} without an id", number + 1),
    }
}

fn told_of(each: &Explained<'_>) -> ReplayedProducer {
    let settings = |fit: &Fit| ClientSettings {
        client: fit.rules.client.name().to_owned(),
        linger_ms: fit.rules.linger_us as f64 / 1e3,
        batch_bytes: u64::from(fit.rules.batch_bytes),
        batch_records: usual_records(fit).map(|_| u64::from(fit.rules.batch_records)),
        codec: fit.rules.codec.name().to_owned(),
        rtt_ms: fit.brokers.rtt_us as f64 / 1e3,
        late_ms: fit.brokers.late_us as f64 / 1e3,
    };
    let misfit = |fit: &Fit| ReplayMisfit {
        batches: fit.misfit.batches,
        sizes: fit.misfit.sizes,
        same_begin: fit.misfit.boundaries,
    };
    ReplayedProducer {
        name: name(each.producer.who),
        batches: each.producer.written.len() as u64,
        records: each.producer.stream.len() as u64,
        settings: each.fits.first().map(settings),
        others_as_good: each.fits.iter().skip(1).map(settings).collect(),
        lent: !each.fits.is_empty() && each.source != Source::Own,
        misfit: each.fits.first().filter(|_| each.source != Source::Untried).map(misfit),
        refused: each.refused.as_ref().map(ToString::to_string),
    }
}

fn notes(case: &Case<'_>, all: &[Explained<'_>]) -> Vec<String> {
    let found = &case.gathered.circumstances;
    let refused = all.iter().filter(|each| each.refused.is_some()).count();
    let lent = all.iter().filter(|each| each.source == Source::Untried).count();
    let is_unlingering = |each: &Explained<'_>| {
        each.fits.first().is_some_and(|fit| fit.rules.client == Client::Java3 && fit.rules.linger_us == 0)
    };
    let of_producers = [
        (
            refused > 0,
            format!(
                "Hone can't explain the batches of {refused} producer(s), {:.0} % of all: they are not replayed",
                100.0
                    * all.iter().filter(|each| each.refused.is_some()).map(Explained::batches).sum::<u64>()
                        as f64
                    / all.iter().map(Explained::batches).sum::<u64>().max(1) as f64
            ),
        ),
        (
            lent > 0,
            format!(
                "{lent} producer(s) have too few batches for an explanation; their replay uses the settings \
                 of the largest explained producer"
            ),
        ),
        (
            case.told.client.is_none() && all.iter().any(is_unlingering),
            "java3 stands for Java without a linger; 4.x with linger.ms=0 writes the same batches, and an \
             upgrade would not change those"
                .to_owned(),
        ),
        (
            found.nameless > 0,
            "batches without a producer id: the number of producers is a lower bound, and with more of them \
             batches would gain less"
                .to_owned(),
        ),
        (
            case.leads.is_none() && case.partitions > 1,
            "the leaders are unknown; the range goes from one broker for all partitions to one broker for \
             each"
                .to_owned(),
        ),
        (
            all.iter().any(|each| each.may_be_either(case.partitions)),
            "either the client or the application may have placed records without a key: the value is for \
             the client, the range covers both"
                .to_owned(),
        ),
        (
            all.iter().any(|each| each.moves.is_shown()),
            "the client's sticky partitioner places records without a key at random; another random choice \
             gives slightly different figures"
                .to_owned(),
        ),
        (
            true,
            "the replay does not see other topics of the same producers, whose batches are sent together \
             with these"
                .to_owned(),
        ),
        (true, "times are milliseconds: the replay spreads bursts within one evenly over it".to_owned()),
    ];
    let told = of_producers.into_iter().chain(notes_of_reading(found));
    told.filter(|(is, _)| *is).map(|(_, text)| text).collect()
}

/// Whether to show the note, and its text.
fn notes_of_reading(found: &Circumstances) -> [(bool, String); 7] {
    let (transactional, unreadable, strays) = (found.transactional, found.unreadable, found.out_of_window);
    let (old_format, broken) = (found.passed.old_format, found.passed.broken);
    [
        (
            found.is_by_headers,
            "headers only (--no-payload): the replay assumes equal records, evenly spread over their batch's \
             time, which is coarser; it lets compressed batches grow by their compressed bytes, although \
             they would grow less"
                .to_owned(),
        ),
        (
            transactional > 0,
            format!(
                "{transactional} batches belong to transactions: the replay closes batches where one ends, \
                 whatever the linger"
            ),
        ),
        (unreadable > 0, format!("{unreadable} batches could not be decompressed and are missing")),
        (
            old_format > 0,
            format!(
                "{old_format} messages of formats 0 and 1, which have no batches, are missing"
            ),
        ),
        (broken > 0, format!("{broken} batches with invalid headers are missing")),
        (strays > 0, format!("{strays} batches have times outside the window and are left out")),
        (
            found.log_append > 0,
            "the topic has LogAppendTime; the producers' times are those that remain in the batches"
                .to_owned(),
        ),
    ]
}

impl Change {
    /// In words.
    pub fn words(&self) -> String {
        let mut parts = Vec::new();
        if let Some(client) = self.client {
            parts.push(format!("client {}", client.name()));
        }
        if let Some(us) = self.linger_us {
            parts.push(format!("linger {} ms", us as f64 / 1e3));
        }
        if let Some(bytes) = self.batch_bytes {
            parts.push(format!("batch size {bytes}"));
        }
        if let Some(records) = self.batch_records {
            parts.push(format!("{records} records per batch"));
        }
        if let Some(codec) = self.codec {
            parts.push(format!("codec {}", codec.name()));
        }
        match self.partitioner {
            Some(Partitioner::Sticky) => parts.push("sticky partitioner".to_owned()),
            Some(Partitioner::RoundRobin) => parts.push("round-robin partitioner".to_owned()),
            None => {}
        }
        if let Some(count) = self.partitions {
            parts.push(format!("{count} partitions"));
        }
        if let Some(count) = self.producers {
            parts.push(format!("all producers merged into {count}"));
        }
        if let Some(times) = self.denser {
            parts.push(format!("{times} times the records of the same producers"));
        }
        parts.join(", ")
    }
}
