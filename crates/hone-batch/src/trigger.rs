//! What closed the batches of a producer, by their headers: size, time, other partitions, the application, or a sender that waited.
//!
//! A batch that waits for its linger ends that long after its first record, and the next one of its partition can't begin before. So gaps
//! between beginnings have a floor, and spans a ceiling, and both are the linger. Batches that were drained along with another partition of
//! the same broker are below the floor (Kafka's `RecordAccumulator.drain`). A sender that sends as soon as it is free has neither.

use std::collections::{BTreeMap, BTreeSet};

use hone_kafka::batch::HEADER_BYTES;
use hone_record::{BatchCap, BatchTrigger};

use crate::arrivals::{RARE_GAP_MS, SINGLES, Waits, floor_ms, is_regular, mean_gap_ms, why_one_by_one};
use crate::counted::{self, Timed};
use crate::evidence::{Kept, are_near};

/// Sizes at which clients end batches by default, and the usual changes: Java's 16 KiB and its multiples, librdkafka's and franz-go's
/// megabyte.
const USUAL_CAPS: [u64; 12] = [
    16_384, 32_768, 65_536, 100_000, 131_072, 200_000, 262_144, 524_288, 1_000_000, 1_000_012, 1_048_576,
    1_048_588,
];
/// A round number counts as a limit only if few records would come near it by chance: this many fit between it and the next one.
const RECORDS_BETWEEN_CAPS: u64 = 8;
/// librdkafka's `batch.num.messages`.
const USUAL_COUNTS: [u32; 4] = [10_000, 1_000, 5_000, 100_000];
/// From this share of batches at a value on, the value is a limit.
const CAPPED_SHARE: f64 = 0.05;
/// Compressed batches end near their limit and not at it: Java estimates, and its estimate is 5 % above the result.
const PACKED_FROM: f64 = 0.80;
const PACKED_TO: f64 = 1.05;
const PACKED_SHARE: f64 = 0.5;
/// Least number of batches or gaps for a conclusion.
const LEAST: usize = 20;
/// A ceiling of spans: the share that may be above it (a sender that waited now and then), the share that must be just below it, and the
/// ratio to the share just above it.
const ABOVE_CEILING: f64 = 0.12;
const BELOW_CEILING: f64 = 0.05;
const EDGE: f64 = 6.0;
/// The values between this share of a ceiling and the ceiling make it steep.
const JUST_BELOW: f64 = 0.92;
/// No client lingers longer; longer spans come from times that are not write times.
const LONGEST_LINGER_MS: u64 = 60_000;
/// Lingers to try.
const MOST_TRIED: u64 = 40;
/// The linger is at least this share of the ceiling.
const FLOOR: f64 = 0.8;
/// If this share of batches has a record after the end of their group, they were not sent in groups.
const LATE_SHARE: f64 = 0.25;
/// If this share of the batches that are not full began after full ones, those triggered them.
const BEHIND: f64 = 0.7;
/// Share of batches with the same number of records above which the application counts.
const CONSTANT: f64 = 0.9;
/// A busy sender makes spans this short as well as a linger.
const SHORT_MS: u64 = 3;
/// Share of the gaps from batch to batch of a partition that may be shorter than such a linger.
const SHORTER: f64 = 0.2;

/// The findings about a producer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Habits {
    /// The triggers of its batches, by share of its batches, largest first.
    pub triggers: Vec<(BatchTrigger, f64)>,
    /// The limit of its batches.
    pub cap: Option<BatchCap>,
    /// The longest wait for a batch that was not full.
    pub linger_ms: Option<u64>,
    /// Mean bytes of a record in a batch.
    pub record_bytes: f64,
    /// Mean number of its partitions with an open batch when one begins, itself included.
    pub open_at_once: f64,
    /// Share of its batches that go to the partition of the batch before.
    pub stays: f64,
    /// The evidence, in words.
    pub evidence: Vec<String>,
}

/// Facts besides the kept headers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Known<'a> {
    /// Bytes of records before compression per byte after it; 1 if nothing is compressed or known.
    pub ratio: f64,
    /// Whether these are all batches without a producer id.
    pub is_nameless: bool,
    /// The least number of producers in these headers: 1 for one with an id.
    pub producers: usize,
    /// Transaction markers per transactional batch, over the topic.
    pub markers_per_batch: f64,
    /// The leader of each partition, by any number; partitions that are not listed share one leader.
    pub leaders: &'a BTreeMap<i32, usize>,
}

/// Batches of one producer, or of all without an id, by partition and offset.
pub fn habits(kept: &[Kept], known: &Known<'_>) -> Habits {
    if kept.len() < LEAST {
        let evidence = vec![format!("{} batches are too few for a conclusion", kept.len())];
        return Habits { triggers: vec![(BatchTrigger::Unknown, 1.0)], evidence, ..Habits::default() };
    }
    let cap = cap_of(kept, known);
    let is_full: Vec<bool> = kept.iter().map(|batch| cap.is_some_and(|cap| cap.is_reached(batch))).collect();
    let mut habits = Habits {
        cap: cap.map(|cap| cap.at),
        record_bytes: record_bytes(kept),
        stays: stays(kept),
        ..Habits::default()
    };
    let full = is_full.iter().filter(|full| **full).count();
    let mut shares: BTreeMap<BatchTrigger, f64> = BTreeMap::new();
    if let Some(cap) = cap.filter(|_| full > 0) {
        let trigger =
            if matches!(cap.at, BatchCap::Bytes(_)) { BatchTrigger::Size } else { BatchTrigger::Count };
        shares.insert(trigger, full as f64 / kept.len() as f64);
        habits.evidence.push(cap.in_words(full, kept.len()));
    }
    if full < kept.len() {
        let rest = Rest::new(kept, &is_full, known, cap.is_some());
        let left = (kept.len() - full) as f64 / kept.len() as f64;
        for (trigger, share) in rest.triggers(&mut habits) {
            *shares.entry(trigger).or_default() += share * left;
        }
    }
    habits.open_at_once = open_at_once(kept, habits.linger_ms.unwrap_or(0));
    habits.triggers = shares.into_iter().filter(|(_, share)| *share > 0.0).collect();
    habits.triggers.sort_by(|one, other| other.1.total_cmp(&one.1));
    habits
}

/// A limit, and the values that reach it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cap {
    at: BatchCap,
    /// From this number of bytes, or records, on.
    from: f64,
    /// Weight of one byte of a batch; more than 1 if the limit applies to bytes before compression.
    factor: f64,
    what: &'static str,
}

impl Cap {
    fn records(at: u32) -> Self {
        Self { at: BatchCap::Records(u64::from(at)), from: f64::from(at), factor: 1.0, what: "" }
    }

    fn is_reached(&self, batch: &Kept) -> bool {
        match self.at {
            BatchCap::Bytes(_) => batch.records > 1 && f64::from(batch.bytes) * self.factor >= self.from,
            BatchCap::Records(_) => f64::from(batch.records) >= self.from,
        }
    }

    fn in_words(&self, full: usize, of: usize) -> String {
        let share = 100.0 * full as f64 / of as f64;
        match self.at {
            BatchCap::Bytes(bytes) => {
                format!(
                    "{share:.0} % of the batches end where one more record would exceed {bytes} bytes{}",
                    self.what
                )
            }
            BatchCap::Records(records) => format!("{share:.0} % of the batches end at {records} records"),
        }
    }
}

fn cap_of(kept: &[Kept], known: &Known<'_>) -> Option<Cap> {
    let packed = kept.iter().filter(|batch| batch.is_packed).count();
    if packed * 2 > kept.len() {
        let plain = known.ratio.max(1.0);
        let before = || (plain > 1.05).then(|| packed_cap(kept, plain, " before compression")).flatten();
        let found = usual_count_cap(kept).or_else(|| packed_cap(kept, 1.0, "")).or_else(before);
        return found.or_else(|| any_count_cap(kept));
    }
    let by_size = plain_cap(kept);
    let is_usual = |cap: &Cap| matches!(cap.at, BatchCap::Bytes(bytes) if USUAL_CAPS.contains(&bytes));
    let by_count = || any_count_cap(kept).filter(|cap| by_size.is_none() || is_likelier(cap, kept, known));
    usual_count_cap(kept).or(by_size.filter(is_usual)).or_else(by_count).or(by_size)
}

/// Whether batches end at a number of records rather than at a size, if both are possible.
fn is_likelier(by_count: &Cap, kept: &[Kept], known: &Known<'_>) -> bool {
    let full = kept.iter().filter(|batch| by_count.is_reached(batch)).map(|batch| batch.bytes);
    known.is_nameless || is_by_count(by_count.from as u32, full, record_bytes(kept))
}

/// Whether the number of records ends these batches: they differ in size, or the number is a round one. Records of one size end at both,
/// and the data does not show which was set. Without a producer id it is librdkafka, the only client with a setting for the number.
pub(crate) fn is_by_count(records: u32, sizes: impl Iterator<Item = u32>, record_bytes: f64) -> bool {
    let sizes = sorted(sizes.map(u64::from));
    let (low, high) = (quantile(&sizes, 0.05).unwrap_or(0), quantile(&sizes, 0.95).unwrap_or(0));
    (high - low) as f64 > record_bytes || records.is_multiple_of(10) || records.is_power_of_two()
}

/// The least limit that fits the largest batch but not one more record.
fn plain_cap(kept: &[Kept]) -> Option<Cap> {
    let most = kept.iter().filter(|batch| batch.records > 1).map(|batch| u64::from(batch.bytes)).max()?;
    let (at, room) = size_above(most, record_bytes(kept).max(1.0))?;
    let cap = Cap { at: BatchCap::Bytes(at), from: at as f64 - room, factor: 1.0, what: "" };
    let full = kept.iter().filter(|batch| cap.is_reached(batch)).count();
    (full as f64 >= CAPPED_SHARE * kept.len() as f64).then_some(cap)
}

/// A usual size that fits the largest batch but not one more record, and the remaining room.
pub(crate) fn size_above(most: u64, record: f64) -> Option<(u64, f64)> {
    // Records differ in size; a batch with room for an average record may have none for the next one.
    let room = 1.25 * record + 8.0;
    let at = caps_from(most).find(|cap| ((cap - most) as f64) < room && is_believable(*cap, record))?;
    Some((at, room))
}

fn is_believable(cap: u64, record: f64) -> bool {
    if USUAL_CAPS.contains(&cap) {
        return record * 2.0 <= cap as f64;
    }
    // The next round number is at least a quarter larger.
    cap as f64 / 4.0 >= RECORDS_BETWEEN_CAPS as f64 * record
}

/// Usual limits and round numbers from a size on, smallest first.
fn caps_from(least: u64) -> impl Iterator<Item = u64> {
    let twos = (10..27).flat_map(|power| [1_u64 << power, 3 << (power - 1)]);
    let tens = (3..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let mut all: Vec<u64> = twos.chain(tens).chain(USUAL_CAPS).filter(|cap| *cap >= least).collect();
    all.sort_unstable();
    all.dedup();
    all.into_iter()
}

fn packed_cap(kept: &[Kept], factor: f64, what: &'static str) -> Option<Cap> {
    let sizes = sorted(kept.iter().map(|batch| u64::from(batch.bytes)));
    let (middle, high) = (quantile(&sizes, 0.5)? as f64 * factor, quantile(&sizes, 0.99)? as f64 * factor);
    let fits = |cap: &u64| {
        let cap = *cap as f64;
        (cap * PACKED_FROM..=cap * 1.02).contains(&middle) && high <= cap * PACKED_TO
    };
    let at = USUAL_CAPS.into_iter().find(fits)?;
    let cap = Cap { at: BatchCap::Bytes(at), from: at as f64 * PACKED_FROM, factor, what };
    let full = kept.iter().filter(|batch| cap.is_reached(batch)).count();
    (full as f64 >= PACKED_SHARE * kept.len() as f64 && !is_cut_by_time(kept)).then_some(cap)
}

/// Whether the spans are more alike than the sizes. Then a size that happens to be near a limit is no limit.
fn is_cut_by_time(kept: &[Kept]) -> bool {
    let spans: Vec<f64> = kept.iter().filter_map(Kept::span_ms).map(|span| span as f64).collect();
    let sizes: Vec<f64> = kept.iter().map(|batch| f64::from(batch.bytes)).collect();
    // Times are whole milliseconds, which alone scatter by a sixth of a square millisecond.
    let (of_spans, of_sizes) = (variation(&spans, 1.0 / 6.0), variation(&sizes, 0.0));
    spans.len() >= LEAST && of_spans.zip(of_sizes).is_some_and(|(spans, sizes)| spans < 0.5 * sizes)
}

fn usual_count_cap(kept: &[Kept]) -> Option<Cap> {
    let most = kept.iter().map(|batch| batch.records).max()?;
    let at = USUAL_COUNTS.into_iter().find(|count| *count == most)?;
    let full = kept.iter().filter(|batch| batch.records == at).count();
    (full as f64 >= CAPPED_SHARE * kept.len() as f64).then(|| Cap::records(at))
}

fn any_count_cap(kept: &[Kept]) -> Option<Cap> {
    let timed = |batch: &Kept| {
        let span_ms = batch.span_ms()?;
        Some(Timed { begin_ms: batch.begin_ms, span_ms, records: batch.records })
    };
    let batches: Vec<Timed> = kept.iter().filter_map(timed).collect();
    // Without the producer's times, there is no evidence that time closed them.
    let is_timed = batches.len() * 2 > kept.len();
    is_timed.then(|| counted::limit(&batches)).flatten().map(Cap::records)
}

/// Batches that were not full.
struct Rest<'a> {
    kept: &'a [Kept],
    is_full: &'a [bool],
    known: &'a Known<'a>,
    has_cap: bool,
    count: usize,
    spans: Vec<u64>,
}

impl<'a> Rest<'a> {
    fn new(kept: &'a [Kept], is_full: &'a [bool], known: &'a Known<'a>, has_cap: bool) -> Self {
        let rest = || kept.iter().zip(is_full).filter(|(_, full)| !**full).map(|(batch, _)| batch);
        let spans = sorted(rest().filter(|batch| batch.records > 1).filter_map(Kept::span_ms));
        Self { kept, is_full, known, has_cap, count: rest().count(), spans }
    }

    fn rest(&self) -> impl Iterator<Item = &'a Kept> {
        self.kept.iter().zip(self.is_full).filter(|(_, full)| !**full).map(|(batch, _)| batch)
    }

    /// The triggers by share of these batches. Adds the evidence to the habits.
    fn triggers(&self, habits: &mut Habits) -> Vec<(BatchTrigger, f64)> {
        if let Some(told) = self.commits(habits) {
            return vec![(told, 1.0)];
        }
        // Without the producer's times, there is no other evidence of what closed a batch.
        let timed = self.rest().filter(|batch| batch.end_ms.is_some()).count();
        if timed * 2 < self.count {
            let why = "the times are not the producer's write times (LogAppendTime, no times, or another \
                       unit than milliseconds), so they do not show what closed the batches";
            habits.evidence.push(why.to_owned());
            return vec![(BatchTrigger::Unknown, 1.0)];
        }
        let singles = self.rest().filter(|batch| batch.records == 1).count() as f64 / self.count as f64;
        if let Some(told) = self.flushes(habits) {
            return vec![(told, 1.0)];
        }
        if singles >= SINGLES {
            return vec![(self.one_by_one(habits), 1.0)];
        }
        if self.spans.len() < LEAST {
            let few = format!(
                "{} batches of several records are too few to show how long they waited",
                self.spans.len()
            );
            habits.evidence.push(few);
            return vec![(BatchTrigger::Alone, singles), (BatchTrigger::Unknown, 1.0 - singles)];
        }
        self.by_time(habits, singles)
    }

    /// The application ends batches by transactions.
    fn commits(&self, habits: &mut Habits) -> Option<BatchTrigger> {
        let transactional = self.rest().filter(|batch| batch.is_transactional).count();
        if transactional * 2 > self.count && self.known.markers_per_batch >= 0.5 {
            let seen = format!(
                "{:.1} transaction ends per batch: the application commits after a few records",
                self.known.markers_per_batch
            );
            habits.evidence.push(seen);
            return Some(BatchTrigger::Flush);
        }
        None
    }

    /// The application ends batches after a fixed count.
    fn flushes(&self, habits: &mut Habits) -> Option<BatchTrigger> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        self.rest().for_each(|batch| *counts.entry(batch.records).or_default() += 1);
        let (count, times) = counts.into_iter().max_by_key(|(_, times)| *times)?;
        let is_constant = times as f64 >= CONSTANT * self.count as f64 && count > 1;
        // With a steady timer the linger gives the same count every time, and takes its own time.
        let takes_ms = quantile(&self.spans, 0.5)?;
        (is_constant && takes_ms <= 1 && !self.has_cap).then(|| {
            habits.evidence.push(format!(
                "{:.0} % of the batches have {count} records with the same time: the application flushes \
                 after them",
                100.0 * times as f64 / self.count as f64
            ));
            BatchTrigger::Flush
        })
    }

    fn one_by_one(&self, habits: &mut Habits) -> BatchTrigger {
        let mut begins: Vec<i64> = self.rest().map(|batch| batch.begin_ms).collect();
        begins.sort_unstable();
        let Some(gap_ms) = mean_gap_ms(&begins) else { return BatchTrigger::Unknown };
        if gap_ms > RARE_GAP_MS {
            habits
                .evidence
                .push(format!("single records, one every {gap_ms:.0} ms: there is nothing to batch"));
            return BatchTrigger::Alone;
        }
        if let Some(linger_ms) = floor_ms(&begins) {
            habits.linger_ms = Some(linger_ms);
            habits.evidence.push(format!(
                "single records, one every {gap_ms:.1} ms, and none within {linger_ms} ms of the one before: \
                 each waits for the one before, and for at least {linger_ms} ms, which is a linger or the \
                 time of an answer"
            ));
            return BatchTrigger::OneByOne;
        }
        let pairs = self.rest().filter(|batch| batch.records > 1).count();
        let why = match self.known.is_nameless {
            true => is_regular(&begins),
            false => why_one_by_one(&begins, gap_ms, pairs),
        };
        if self.known.is_nameless && why.is_none() {
            return nameless_singles(habits, gap_ms);
        }
        let (waits, why) = match why {
            Some(Waits::NoPairs(expected)) => (
                BatchTrigger::OneByOne,
                format!(
                    "{} single records, one every {gap_ms:.2} ms, and never two together, although chance \
                     predicts {expected:.0} pairs: each waits for the one before, or for a timer",
                    begins.len()
                ),
            ),
            Some(Waits::Regular(regular)) => (
                BatchTrigger::OneByOne,
                format!(
                    "single records, one every {gap_ms:.1} ms, and so regular ({regular:.2} of the scatter \
                     of independent arrivals) that each waits for the one before, or for a timer"
                ),
            ),
            None => (BatchTrigger::Alone, "single records, sent before a second one came".to_owned()),
        };
        habits.evidence.push(why);
        waits
    }

    fn by_time(&self, habits: &mut Habits, singles: f64) -> Vec<(BatchTrigger, f64)> {
        let most = quantile(&self.spans, 0.9).unwrap_or(0);
        if let Some(seen) = self.drained_by_a_hot_one(most) {
            habits.linger_ms = Some(most);
            habits.evidence.push(seen);
            return vec![(BatchTrigger::Drained, 1.0)];
        }
        if let Some(seen) = self.sent_behind_full_ones() {
            habits.evidence.push(seen);
            return vec![(BatchTrigger::Drained, 1.0)];
        }
        let Some(ceiling) = ceiling(&self.spans).filter(|ceiling| self.waits_out(*ceiling)) else {
            let middle = quantile(&self.spans, 0.5).unwrap_or(0);
            habits.evidence.push(format!(
                "batches of several records span {middle} ms (50 %) to {most} ms (90 %), and no linger \
                 limits them: the sender sent them when it was free (linger 0)"
            ));
            return vec![(BatchTrigger::SenderFree, 1.0)];
        };
        habits.linger_ms = Some(ceiling);
        let drained = if self.known.producers < 2 { self.drained(ceiling) } else { 0.0 };
        let above =
            self.spans.iter().filter(|span| **span > ceiling + 1).count() as f64 / self.spans.len() as f64;
        habits.evidence.push(format!(
            "the times from first to last record end at {ceiling} ms, the effective linger ({:.0} % are longer); {:.0} % are single records",
            100.0 * above,
            100.0 * singles
        ));
        if drained > 0.0 {
            habits.evidence.push(format!(
                "{:.0} % were sent before their own linger was over, along with another partition of the \
                 broker",
                100.0 * drained
            ));
        }
        vec![(BatchTrigger::Time, 1.0 - drained), (BatchTrigger::Drained, drained)]
    }

    /// Whether a ceiling of a few milliseconds is a linger: then hardly any batch of a partition begins earlier after the one before it. A
    /// busy sender without a linger has such spans as well.
    fn waits_out(&self, ceiling_ms: u64) -> bool {
        if ceiling_ms > SHORT_MS {
            return true;
        }
        let gaps = sorted(gaps(self.kept).into_iter().map(|(_, gap)| gap));
        // Late timers turn a ceiling of one into two, but never into none.
        let least_ms = ceiling_ms.min(2);
        let shorter = gaps.partition_point(|gap| *gap < least_ms);
        gaps.len() >= LEAST && shorter as f64 <= SHORTER * gaps.len() as f64
    }

    /// Share of the batches that are not full and were drained along with another one. If all are, a broker's batches form groups: the one
    /// that began first ends them all when its linger is over, or a full one does before. Records after that end disprove it: then each
    /// batch waited for itself.
    fn drained(&self, linger_ms: u64) -> f64 {
        if linger_ms > LONGEST_LINGER_MS {
            return 0.0;
        }
        let mut by_leader: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (place, batch) in self.kept.iter().enumerate() {
            let leader = self.known.leaders.get(&batch.partition).copied().unwrap_or(usize::MAX);
            by_leader.entry(leader).or_default().push(place);
        }
        let mut brokers: Vec<Vec<usize>> = by_leader.into_values().collect();
        brokers.iter_mut().for_each(|places| places.sort_by_key(|place| self.kept[*place].begin_ms));
        // Some spans are longer than the linger, and an overestimated linger shifts every group after it.
        let shortest = (FLOOR * linger_ms as f64) as u64;
        let step = (linger_ms - shortest).div_ceil(MOST_TRIED).max(1);
        let tried = (shortest..=linger_ms).rev().step_by(step as usize).map(|linger_ms| {
            let found = brokers.iter().map(|places| self.drained_of_a_broker(places, linger_ms));
            found.fold((0, 0), |sum, (drained, late)| (sum.0 + drained, sum.1 + late))
        });
        let best = tried.min_by_key(|(_, late)| *late);
        let (drained, _) =
            best.filter(|(_, late)| *late as f64 <= LATE_SHARE * self.count as f64).unwrap_or((0, 0));
        drained as f64 / self.count as f64
    }

    /// Drained batches, and those that have a record after the end of their group.
    fn drained_of_a_broker(&self, places: &[usize], linger_ms: u64) -> (usize, usize) {
        let partition = |place: &usize| self.kept[*place].partition;
        if places.iter().all(|place| Some(partition(place)) == places.first().map(partition)) {
            return (0, 0);
        }
        let linger_ms = i64::try_from(linger_ms).unwrap_or(i64::MAX);
        let (mut drained, mut late, mut at) = (0, 0, 0);
        while let Some(first) = places.get(at) {
            let mut end = self.kept[*first].begin_ms.saturating_add(linger_ms);
            let begin = at;
            while let Some(place) = places.get(at).filter(|place| belongs(&self.kept[**place], end)) {
                if self.is_full[*place] {
                    end = end.min(self.kept[*place].end_ms.unwrap_or(end));
                }
                at += 1;
            }
            let group = places.get(begin..at).unwrap_or_default();
            let mut partitions = BTreeSet::new();
            for (index, place) in group.iter().enumerate().filter(|(_, place)| !self.is_full[**place]) {
                // Rounding loses a millisecond, and another one passes until the sender wakes up.
                let is_behind = self.kept[*place].end_ms.is_some_and(|last| last > end.saturating_add(2));
                // A second batch of a partition was not sent along with its first.
                let is_second = !partitions.insert(partition(place));
                late += usize::from(is_behind || is_second);
                drained += usize::from(index > 0 && !is_second);
            }
            at = at.max(begin + 1);
        }
        (drained, late)
    }

    /// Whether these batches were open after a full one of their partition when that was sent: franz-go sends both.
    fn sent_behind_full_ones(&self) -> Option<String> {
        let pairs = self.kept.windows(2).zip(self.is_full.windows(2));
        let behind = pairs
            .filter(|(pair, full)| full[0] && !full[1] && pair[0].partition == pair[1].partition)
            .filter(|(pair, _)| pair[0].end_ms.is_some_and(|end| pair[1].begin_ms <= end.saturating_add(2)))
            .count();
        let full = self.kept.len() - self.count;
        let is_so = behind as f64 >= BEHIND * self.count as f64 && full as f64 >= BEHIND * self.count as f64;
        is_so.then(|| {
            format!(
                "{:.0} % of the others began right after a full one of their partition, and were sent along \
                 with it",
                100.0 * behind as f64 / self.count as f64
            )
        })
    }

    /// Whether another partition of the producer fills its batches, and these are sent at the same time: then their spans end where its
    /// batches end, whatever the linger is.
    fn drained_by_a_hot_one(&self, most_ms: u64) -> Option<String> {
        let mut hot: BTreeMap<i32, (usize, usize)> = BTreeMap::new();
        for (batch, full) in self.kept.iter().zip(self.is_full) {
            let sums = hot.entry(batch.partition).or_default();
            sums.0 += usize::from(*full);
            sums.1 += 1;
        }
        let is_hot = |partition: i32| hot.get(&partition).is_some_and(|(full, all)| full * 2 > *all);
        let cold = self.rest().filter(|batch| !is_hot(batch.partition)).count();
        let of_hot = gaps(self.kept).into_iter().filter(|(place, _)| is_hot(self.kept[*place].partition));
        let beats = sorted(of_hot.map(|(_, gap)| gap));
        let beat = quantile(&beats, 0.5).filter(|_| beats.len() >= LEAST)?;
        (cold * 2 > self.count && self.known.producers < 2 && most_ms <= beat + beat / 2 + 2).then(|| {
            format!(
                "its hot partitions fill a batch every {beat} ms, and the batches of the others span at most \
                 {most_ms} ms (90 %): they are sent along"
            )
        })
    }
}

/// Several producers without an id never share a batch, so the absence of pairs does not show a producer that waits.
fn nameless_singles(habits: &mut Habits, gap_ms: f64) -> BatchTrigger {
    habits.evidence.push(format!(
        "single records without a producer id, one every {gap_ms:.1} ms, sent before a second one came: no \
         linger is set (linger 0), one producer waits for each answer, or many producers send few records \
         each; ids (enable.idempotence) would distinguish them"
    ));
    BatchTrigger::Alone
}

/// The end of most spans, although a few are longer: the time with far more of them below it than above it. Both sides round milliseconds,
/// and a sender wakes up late, so a difference of one is no evidence. Of several such times it is the one with the steepest edge, by the
/// number of spans that end there: the few longest spans have nothing above them.
fn ceiling(spans: &[u64]) -> Option<u64> {
    let upto = |time: f64| spans.partition_point(|span| (*span as f64) <= time) as f64;
    let all = spans.len() as f64;
    let edge = |time: u64| {
        let at = time as f64;
        let below = upto(at) - upto(0.8 * at - 1.0);
        let above = upto(1.3 * at + 2.0) - upto(at + 1.0);
        let is_one = all - upto(at + 1.0) <= ABOVE_CEILING * all
            && below >= BELOW_CEILING * all
            && below >= LEAST as f64 / 2.0
            && below >= EDGE * above;
        let just_below = upto(at) - upto(JUST_BELOW * at - 1.0);
        is_one.then(|| (just_below * just_below / (above + 1.0), time))
    };
    let mut times: Vec<u64> = spans.to_vec();
    times.dedup();
    let found = times.into_iter().filter(|time| *time >= 2).filter_map(edge);
    found.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, time)| time)
}

/// Whether a batch belongs to the group that ends then. One that begins in that very millisecond may be the first of the next group.
fn belongs(batch: &Kept, end_ms: i64) -> bool {
    let is_over = || batch.end_ms.is_some_and(|last| last <= end_ms.saturating_add(1));
    batch.begin_ms < end_ms || (batch.begin_ms == end_ms && is_over())
}

/// From each batch's beginning to the next one's of its partition, by the batch's index; none if a batch in between may have been dropped.
fn gaps(kept: &[Kept]) -> Vec<(usize, u64)> {
    let pairs = kept.windows(2).enumerate();
    let of_one =
        pairs.filter(|(_, pair)| pair[0].partition == pair[1].partition && are_near(&pair[0], &pair[1]));
    of_one
        .filter_map(|(place, pair)| {
            let gap = pair[1].begin_ms.checked_sub(pair[0].begin_ms)?;
            Some((place, u64::try_from(gap).ok()?))
        })
        .collect()
}

fn record_bytes(kept: &[Kept]) -> f64 {
    let records: u64 = kept.iter().map(|batch| u64::from(batch.records)).sum();
    let bytes: u64 =
        kept.iter().map(|batch| u64::from(batch.bytes).saturating_sub(HEADER_BYTES as u64)).sum();
    bytes as f64 / records.max(1) as f64
}

/// Mean number of partitions with an open batch when one begins, itself included. A batch is open at least until its last record, and for
/// its linger if that is known.
fn open_at_once(kept: &[Kept], linger_ms: u64) -> f64 {
    let linger_ms = i64::try_from(linger_ms).unwrap_or(0);
    let mut order: Vec<(i64, i64, i32)> = kept
        .iter()
        .filter_map(|batch| {
            let waits_until = batch.begin_ms.saturating_add(linger_ms - 1);
            Some((batch.begin_ms, batch.end_ms?.max(waits_until), batch.partition))
        })
        .collect();
    order.sort_unstable();
    let (mut open, mut sum): (BTreeMap<i32, i64>, usize) = (BTreeMap::new(), 0);
    for (begin, end, partition) in &order {
        open.retain(|_, until| *until >= *begin);
        open.insert(*partition, *end);
        sum += open.len();
    }
    sum as f64 / order.len().max(1) as f64
}

/// Share of batches in the same partition as the one that began before.
fn stays(kept: &[Kept]) -> f64 {
    let mut order: Vec<(i64, i32, i64)> =
        kept.iter().map(|batch| (batch.begin_ms, batch.partition, batch.offset)).collect();
    order.sort_unstable();
    let same = order.windows(2).filter(|pair| pair[0].1 == pair[1].1).count();
    same as f64 / order.len().saturating_sub(1).max(1) as f64
}

/// Standard deviation over mean, after subtracting a known variance.
pub(crate) fn variation(values: &[f64], known_variance: f64) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    (mean > 0.0).then(|| (variance - known_variance).max(0.0).sqrt() / mean)
}

pub(crate) fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut all: Vec<u64> = values.collect();
    all.sort_unstable();
    all
}

/// Nearest rank.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    static ONE_BROKER: BTreeMap<i32, usize> = BTreeMap::new();

    fn known() -> Known<'static> {
        Known { ratio: 1.0, is_nameless: false, producers: 1, markers_per_batch: 0.0, leaders: &ONE_BROKER }
    }

    /// Numbers in (0, 1), the same every time.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
        }

        /// Microseconds to the next arrival at the given rate per second.
        fn gap_us(&mut self, per_s: f64) -> f64 {
            -self.roll().ln() * 1e6 / per_s
        }
    }

    fn batch(partition: i32, begin_us: f64, end_us: f64, bytes: u32, records: u32) -> Kept {
        let begin_ms = (begin_us / 1e3) as i64;
        Kept {
            offset: begin_us as i64,
            begin_ms,
            end_ms: Some((end_us / 1e3) as i64),
            producer_id: 7,
            partition,
            bytes,
            records,
            is_packed: false,
            is_transactional: false,
        }
    }

    /// A sender that waits for each answer, and for a linger: it is that linger, and nothing else has such a floor.
    #[test]
    fn a_linger_that_each_record_waits_out_is_a_floor() {
        let of = |gap_us: &mut dyn FnMut(&mut Dice, usize) -> f64| {
            let (mut dice, mut at_us) = (Dice(5), 1.7e15);
            let sent: Vec<Kept> = (0..600)
                .map(|index| {
                    at_us += gap_us(&mut dice, index);
                    batch(0, at_us, at_us, 161, 1)
                })
                .collect();
            habits(&sent, &known())
        };
        // 5 ms, the round trip, and now and then a pause.
        let found =
            of(&mut |dice, index| 5_100.0 + dice.gap_us(1_500.0) + if index == 40 { 500_000.0 } else { 0.0 });
        assert_eq!((found.triggers[0].0, found.linger_ms), (BatchTrigger::OneByOne, Some(5)), "{found:?}");
        let arrivals = of(&mut |dice, _| dice.gap_us(150.0));
        assert_eq!((arrivals.triggers[0].0, arrivals.linger_ms), (BatchTrigger::Alone, None), "{arrivals:?}");
        let beat = of(&mut |dice, _| 8_000.0 + 3_000.0 * (dice.roll() - 0.5));
        assert_eq!((beat.triggers[0].0, beat.linger_ms), (BatchTrigger::OneByOne, None), "{beat:?}");
        let closed_loop = of(&mut |dice, _| 300.0 + dice.gap_us(2_000.0));
        assert_eq!(
            (closed_loop.triggers[0].0, closed_loop.linger_ms),
            (BatchTrigger::OneByOne, None),
            "{closed_loop:?}"
        );
    }

    /// Batches whose times are from the broker, missing, or in another unit get no statement about what closed them.
    #[test]
    fn times_that_are_not_the_producers_support_no_verdict() {
        for records in [1, 5, 37] {
            let untimed: Vec<Kept> = (0..300)
                .map(|at| Kept { end_ms: None, ..batch(0, 1.7e15 + 7e3 * f64::from(at), 0.0, 600, records) })
                .collect();
            let found = habits(&untimed, &known());
            assert_eq!(found.triggers, [(BatchTrigger::Unknown, 1.0)], "{records}: {found:?}");
            assert!(found.evidence[0].contains("LogAppendTime"), "{found:?}");
        }
    }

    /// What an accumulator with this linger and limit makes of arrivals on partitions of one broker; where `drains`, one that is ready takes
    /// the others along.
    fn lingering(rates: &[f64], linger_ms: f64, cap: u32, drains: bool, record: u32) -> Vec<Kept> {
        let mut dice = Dice(42);
        let mut next: Vec<f64> = rates.iter().map(|rate| dice.gap_us(*rate)).collect();
        let mut open: Vec<Option<(f64, f64, u32, u32)>> = vec![None; rates.len()];
        let mut done: Vec<Kept> = Vec::new();
        let close = |open: &mut Vec<Option<(f64, f64, u32, u32)>>, done: &mut Vec<Kept>, which: usize| {
            if let Some((begin, end, bytes, records)) = open[which].take() {
                done.push(batch(which as i32, begin, end, bytes, records));
            }
        };
        while done.len() < 6_000 {
            let (which, at) =
                next.iter().copied().enumerate().min_by(|one, other| one.1.total_cmp(&other.1)).unwrap();
            let due = |open: &Option<(f64, f64, u32, u32)>| {
                open.as_ref().is_some_and(|(begin, ..)| begin + linger_ms * 1e3 <= at)
            };
            let ready: Vec<usize> = (0..open.len()).filter(|place| due(&open[*place])).collect();
            if drains && !ready.is_empty() {
                // Those that began after the first one was due were not there yet.
                let first = ready.iter().map(|place| open[*place].unwrap().0).fold(f64::MAX, f64::min);
                (0..open.len())
                    .filter(|place| open[*place].is_some_and(|(begin, ..)| begin <= first + linger_ms * 1e3))
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|place| close(&mut open, &mut done, place));
            } else {
                ready.into_iter().for_each(|place| close(&mut open, &mut done, place));
            }
            next[which] = at + dice.gap_us(rates[which]);
            match open[which].as_mut() {
                Some(held) if held.2 + record <= cap => {
                    (held.1, held.2, held.3) = (at, held.2 + record, held.3 + 1);
                }
                held => {
                    let is_full = held.is_some();
                    if is_full && drains {
                        (0..open.len()).for_each(|place| close(&mut open, &mut done, place));
                    } else if is_full {
                        close(&mut open, &mut done, which);
                    }
                    open[which] = Some((at, at, 61 + record, 1));
                }
            }
        }
        done.sort_by_key(|kept| (kept.partition, kept.offset));
        done
    }

    fn main_trigger(habits: &Habits) -> (BatchTrigger, f64) {
        habits.triggers[0]
    }

    #[test]
    fn time_ends_batches_of_a_partition_that_is_alone() {
        for rate in [100.0, 1_000.0, 20_000.0] {
            let found = habits(&lingering(&[rate], 20.0, 1 << 20, false, 100), &known());
            assert!(
                main_trigger(&found).0 == BatchTrigger::Time && main_trigger(&found).1 > 0.95,
                "{rate}: {found:?}"
            );
            assert!((18..=20).contains(&found.linger_ms.unwrap()), "{rate}: {found:?}");
            assert_eq!(found.cap, None, "{rate}: {found:?}");
        }
    }

    #[test]
    fn a_sender_that_is_kept_waiting_now_and_then_hides_no_linger() {
        let mut dice = Dice(11);
        let mut kept = lingering(&[200.0; 4], 20.0, 1 << 20, false, 100);
        for batch in kept.iter_mut().filter(|batch| batch.records > 1) {
            let late_ms = if dice.roll() < 0.08 { (100.0 * dice.roll()) as i64 } else { 0 };
            batch.end_ms = batch.end_ms.map(|end| end + late_ms);
        }
        let found = habits(&kept, &known());
        assert!((18..=21).contains(&found.linger_ms.unwrap()), "{found:?}");
    }

    #[test]
    fn a_sender_that_often_wakes_up_late_moves_no_ceiling() {
        for seed in 0..20 {
            let mut dice = Dice(seed + 100);
            let mut kept = lingering(&[500.0], 25.0, 1 << 20, false, 109);
            kept.truncate(260);
            for batch in &mut kept {
                let late_ms = if dice.roll() < 0.1 { (8.0 * dice.roll()) as i64 } else { 0 };
                batch.end_ms = batch.end_ms.map(|end| end + late_ms);
            }
            let found = habits(&kept, &known());
            assert!((23..=27).contains(&found.linger_ms.unwrap()), "{seed}: {found:?}");
        }
    }

    #[test]
    fn full_batches_are_told_with_their_limit() {
        for (record, cap) in [(100, 16_384), (1_000, 16_384), (300, 65_536), (100, 20_000)] {
            let found = habits(&lingering(&[20_000.0], 1_000.0, cap, false, record), &known());
            assert_eq!(found.cap, Some(BatchCap::Bytes(u64::from(cap))), "{record} {cap}: {found:?}");
            assert!(
                main_trigger(&found).0 == BatchTrigger::Size && main_trigger(&found).1 > 0.95,
                "{record} {cap}: {found:?}"
            );
        }
    }

    #[test]
    fn some_are_full_and_the_others_wait() {
        let found = habits(&lingering(&[1_500.0], 100.0, 16_384, false, 100), &known());
        let share = |wanted| {
            found.triggers.iter().find(|(trigger, _)| *trigger == wanted).map_or(0.0, |found| found.1)
        };
        assert!(share(BatchTrigger::Size) > 0.1 && share(BatchTrigger::Time) > 0.2, "{found:?}");
        assert_eq!(found.cap, Some(BatchCap::Bytes(16_384)));
        assert!((95..=100).contains(&found.linger_ms.unwrap()), "{found:?}");
    }

    /// A sender without a linger takes what has come when it is free: its spans end where its requests do.
    #[test]
    fn a_busy_sender_of_short_requests_has_no_linger() {
        let mut dice = Dice(23);
        let (mut at, mut free, mut kept) = (0.0, 0.0, Vec::new());
        let mut waiting: Vec<f64> = Vec::new();
        while kept.len() < 3_000 {
            at += dice.gap_us(3_000.0);
            while free <= at && !waiting.is_empty() {
                let (first, last) = (waiting[0], waiting[waiting.len() - 1]);
                kept.push(batch(0, first, last, 61 + waiting.len() as u32 * 100, waiting.len() as u32));
                waiting.clear();
                free += 1_200.0 + 900.0 * dice.roll();
            }
            waiting.push(at);
            free = free.max(at);
        }
        let found = habits(&kept, &known());
        assert_eq!((main_trigger(&found).0, found.linger_ms), (BatchTrigger::SenderFree, None), "{found:?}");
        let lingers = habits(&lingering(&[3_000.0], 3.0, 1 << 20, false, 100), &known());
        assert_eq!(main_trigger(&lingers).0, BatchTrigger::Time, "{lingers:?}");
    }

    #[test]
    fn what_was_begun_behind_a_full_batch_goes_with_it() {
        let mut dice = Dice(13);
        let (mut at, mut kept) = (0.0, Vec::new());
        while kept.len() < 2_000 {
            // Full, the beginning of the next one, and a while until the first record behind both.
            let some = 1 + (60.0 * dice.roll()) as u32;
            kept.push(batch(0, at, at + 12e3, 61 + 147 * 111, 147));
            kept.push(batch(0, at + 12e3, at + 12e3 + f64::from(some) * 80.0, 61 + some * 111, some));
            at += 12e3 + f64::from(some) * 80.0 + 100.0;
        }
        let found = habits(&kept, &known());
        let share = |wanted| {
            found.triggers.iter().find(|(trigger, _)| *trigger == wanted).map_or(0.0, |found| found.1)
        };
        assert!((0.49..0.51).contains(&share(BatchTrigger::Drained)), "{found:?}");
        assert_eq!((found.cap, found.linger_ms), (Some(BatchCap::Bytes(16_384)), None), "{found:?}");
    }

    #[test]
    fn partitions_of_one_broker_are_drained_together() {
        let found = habits(&lingering(&[100.0; 10], 20.0, 1 << 20, true, 100), &known());
        let share = |wanted| {
            found.triggers.iter().find(|(trigger, _)| *trigger == wanted).map_or(0.0, |found| found.1)
        };
        // In the mean 20 ms + 1 ms hold 21 arrivals on 10 partitions: nearly nine batches, of which one waits.
        assert!((0.8..0.95).contains(&share(BatchTrigger::Drained)), "{found:?}");
        assert!((17..=20).contains(&found.linger_ms.unwrap()), "{found:?}");
        assert!(found.open_at_once > 3.0, "{found:?}");
    }

    #[test]
    fn partitions_that_wait_for_themselves_are_not_drained() {
        let found = habits(&lingering(&[100.0; 10], 20.0, 1 << 20, false, 100), &known());
        assert!(main_trigger(&found).0 == BatchTrigger::Time && main_trigger(&found).1 > 0.9, "{found:?}");
        let kept = lingering(&[100.0; 10], 20.0, 1 << 20, true, 100);
        let leaders = (0..10).map(|partition| (partition, partition as usize)).collect();
        let apart = Known { leaders: &leaders, ..known() };
        assert_eq!(
            main_trigger(&habits(&kept, &apart)).0,
            BatchTrigger::Time,
            "each is led by another broker"
        );
    }

    #[test]
    fn a_hot_partition_takes_cold_ones_along() {
        let rates: Vec<f64> = std::iter::once(5_000.0).chain([50.0; 9]).collect();
        let kept = lingering(&rates, 100.0, 16_384, true, 160);
        let found = habits(&kept, &known());
        let share = |wanted| {
            found.triggers.iter().find(|(trigger, _)| *trigger == wanted).map_or(0.0, |found| found.1)
        };
        assert!(share(BatchTrigger::Drained) > 0.5 && share(BatchTrigger::Size) > 0.1, "{found:?}");
        assert!(found.evidence.iter().any(|line| line.contains("hot")), "{found:?}");
    }

    #[test]
    fn a_loop_that_waits_is_not_the_same_as_rare_records() {
        let mut dice = Dice(7);
        let mut at = 0.0;
        let waits: Vec<Kept> = (0..3_000)
            .map(|_| {
                at += 5_500.0 + 1_000.0 * dice.roll();
                batch(0, at, at, 161, 1)
            })
            .collect();
        assert_eq!(main_trigger(&habits(&waits, &known())), (BatchTrigger::OneByOne, 1.0));
        let mut at = 0.0;
        let quickly: Vec<Kept> = (0..20_000)
            .map(|_| {
                // Pauses make it irregular.
                at += 200.0 + dice.gap_us(20_000.0) + if dice.roll() < 0.01 { 3e3 } else { 0.0 };
                batch(0, at, at, 161, 1)
            })
            .collect();
        assert_eq!(main_trigger(&habits(&quickly, &known())), (BatchTrigger::OneByOne, 1.0));
        // In stretches of which most were left out.
        let parts: Vec<Kept> = quickly
            .iter()
            .copied()
            .map(|kept| {
                let slot = kept.begin_ms / 4_096;
                let begin_ms = kept.begin_ms + slot * 600_000_000 / 4_096 * 4_096;
                Kept { begin_ms, end_ms: Some(begin_ms), ..kept }
            })
            .collect();
        assert_eq!(main_trigger(&habits(&parts, &known())), (BatchTrigger::OneByOne, 1.0));
        let nameless = Known { is_nameless: true, ..known() };
        assert_eq!(main_trigger(&habits(&quickly, &nameless)), (BatchTrigger::Alone, 1.0), "one, or many");
        let mut at = 0.0;
        let arrive: Vec<Kept> = (0..3_000)
            .map(|_| {
                at += dice.gap_us(40.0);
                batch(0, at, at, 161, 1)
            })
            .collect();
        assert_eq!(main_trigger(&habits(&arrive, &known())), (BatchTrigger::Alone, 1.0));
        let rare: Vec<Kept> =
            (0..100).map(|number| f64::from(number) * 1e6).map(|at| batch(0, at, at, 161, 1)).collect();
        assert_eq!(main_trigger(&habits(&rare, &known())), (BatchTrigger::Alone, 1.0));
    }

    #[test]
    fn an_application_that_flushes_is_found() {
        let mut dice = Dice(9);
        let mut at = 0.0;
        let flushed: Vec<Kept> = (0..500)
            .map(|_| {
                at += 2_000.0 + dice.gap_us(500.0);
                batch(0, at, at, 61 + 10 * 100, 10)
            })
            .collect();
        assert_eq!(main_trigger(&habits(&flushed, &known())), (BatchTrigger::Flush, 1.0));
        let of_transactions: Vec<Kept> = lingering(&[2_000.0], 5.0, 1 << 20, false, 100)
            .into_iter()
            .map(|kept| Kept { is_transactional: true, ..kept })
            .collect();
        let each_commits = Known { markers_per_batch: 0.95, ..known() };
        assert_eq!(main_trigger(&habits(&of_transactions, &each_commits)).0, BatchTrigger::Flush);
        assert_eq!(main_trigger(&habits(&of_transactions, &known())).0, BatchTrigger::Time);
    }

    #[test]
    fn a_sender_that_is_busy_has_no_ceiling() {
        let mut dice = Dice(3);
        let (mut at, mut kept) = (0.0, Vec::new());
        while kept.len() < 3_000 {
            // Free again after as long as the broker takes.
            let wait_us = 500.0 + dice.gap_us(300.0);
            let records = (wait_us / 100.0) as u32 + 1;
            kept.push(batch(0, at, at + wait_us, 61 + records * 100, records));
            at += wait_us + 100.0;
        }
        assert_eq!(main_trigger(&habits(&kept, &known())), (BatchTrigger::SenderFree, 1.0));
    }

    #[test]
    fn counts_and_packed_batches_end_at_their_limits() {
        let counted: Vec<Kept> = (0..200)
            .map(|number| f64::from(number) * 2e4)
            .map(|at| batch(0, at, at + 19e3, 500_000, 10_000))
            .collect();
        let found = habits(&counted, &known());
        assert_eq!(
            (found.cap, main_trigger(&found).0),
            (Some(BatchCap::Records(10_000)), BatchTrigger::Count)
        );
        let mut dice = Dice(5);
        let mut at = 0.0;
        let packed: Vec<Kept> = (0..2_000)
            .map(|_| {
                let took = 20e3 + 30e3 * dice.roll();
                at += took;
                let bytes = 16_384.0 * (0.88 + 0.08 * dice.roll());
                Kept {
                    is_packed: true,
                    ..batch(0, at - took, at, bytes as u32, 400 + (100.0 * dice.roll()) as u32)
                }
            })
            .collect();
        let found = habits(&packed, &known());
        assert_eq!(
            (found.cap, main_trigger(&found)),
            (Some(BatchCap::Bytes(16_384)), (BatchTrigger::Size, 1.0))
        );
    }

    #[test]
    fn spans_of_hours_take_no_time() {
        let hours: Vec<Kept> = (0..20_000)
            .map(|number| f64::from(number) * 1e5)
            .map(|at| Kept { partition: (at as i32 / 100_000) % 5, ..batch(0, at, at + 3.6e12, 500, 3) })
            .collect();
        let found = habits(&hours, &known());
        assert!(found.triggers.iter().all(|(trigger, _)| *trigger != BatchTrigger::Drained), "{found:?}");
    }

    #[test]
    fn few_batches_say_nothing() {
        let few: Vec<Kept> = (0..5).map(|number| batch(0, f64::from(number) * 1e4, 0.0, 500, 2)).collect();
        assert_eq!(habits(&few, &known()).triggers, [(BatchTrigger::Unknown, 1.0)]);
    }
}
