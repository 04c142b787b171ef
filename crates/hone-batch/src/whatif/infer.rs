//! The settings that today's batches suggest, and senders that a replay would get wrong.

use hone_kafka::batch::HEADER_BYTES;
use hone_kafka::codec::Codec;

use super::client::Client;
use super::stream::{Producer, Who, Written};
use crate::arrivals::{RARE_GAP_MS, SINGLES, mean_gap_ms, why_one_by_one};
use crate::counted::{self, Timed};
use crate::trigger::{is_by_count, size_above};

/// With fewer batches there is no conclusion from gaps.
const FEWEST_GAPS: usize = 100;
/// Limit of the counted threads of a waiting sender; more are detected, but not counted.
const MOST_THREADS: usize = 4;
/// Below two milliseconds the clock's steps make floors.
const CLOCK_MS: f64 = 2.0;
/// Gaps of a waiting sender have a floor: 5 % of them are below this share of their median. With independent arrivals it is a tenth of the
/// median for single gaps, and 0.44 for gaps over four.
const FLOOR_SHARE: f64 = 0.6;
/// Usual lingers, in milliseconds.
const USUAL_LINGERS_MS: [u64; 21] =
    [0, 1, 2, 3, 5, 8, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 250, 500, 1_000, 2_000];
/// Usual batch sizes.
const USUAL_CAPS: [u32; 10] =
    [16_384, 32_768, 65_536, 100_000, 131_072, 200_000, 262_144, 524_288, 1_000_000, 1_048_576];

/// A sender that continues only after the answer to the last records.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClosedLoop {
    /// Records in flight at a time: waiting threads. `None` if they can't be counted.
    pub threads: Option<usize>,
    /// Time between sends of a thread, in milliseconds, median.
    pub gap_ms: f64,
    /// 5 % of those are shorter than this.
    pub least_gap_ms: f64,
}

/// The signs of a producer's batches.
#[derive(Debug, Clone, PartialEq)]
pub struct Signs {
    /// Clients that write such batches, the likeliest first, with the evidence.
    pub clients: Vec<(Client, &'static str)>,
    /// Lingers to try, in microseconds.
    pub lingers_us: Vec<u64>,
    /// Caps to try, in bytes.
    pub caps: Vec<u32>,
    /// The size at which batches are cut off, if they are.
    pub clipped_at: Option<u32>,
    /// Milliseconds from first to last record of the batches with several that were not cut off, 99 % at or below.
    pub span_ms_p99: Option<u64>,
    /// The codec of most bytes.
    pub codec: Codec,
    /// Whether it seems to wait for answers.
    pub closed_loop: Option<ClosedLoop>,
    /// Records at which batches end: `batch.num.messages`.
    pub counted_at: Option<u32>,
    /// All batches have this number of records, and no size that could have been set: the application flushes, unless that is the limit.
    pub flushed_after: Option<u32>,
}

/// Reads the signs of a producer.
pub fn signs(producer: &Producer) -> Signs {
    let written = &producer.written;
    let clipped_at = clip(written);
    let spans = spans(written, clipped_at);
    let at =
        |percent: usize| spans.get((spans.len() * percent / 100).min(spans.len().saturating_sub(1))).copied();
    let span_ms_p99 = at(99);
    let counted_at = counted_at(producer).filter(|_| clipped_at.is_none());
    let clients = match counted_at {
        Some(_) => vec![(
            Client::Librdkafka,
            "batches end at a number of records, and only librdkafka has a setting for that",
        )],
        None => clients(producer),
    };
    Signs {
        clients,
        lingers_us: lingers(at(90), span_ms_p99),
        caps: caps(written, clipped_at),
        clipped_at,
        span_ms_p99,
        codec: codec(written),
        closed_loop: closed_loop(producer),
        counted_at,
        flushed_after: flushed_after(written).filter(|_| clipped_at.is_none()),
    }
}

/// By the id, mostly: Java (from 3.0 on) and franz-go are idempotent by default, librdkafka is not.
fn clients(producer: &Producer) -> Vec<(Client, &'static str)> {
    let most = producer.written.iter().map(|batch| batch.wire_bytes).max().unwrap_or(0);
    let named = [
        (Client::Java4, "batches have a producer id, like those of idempotent clients"),
        (Client::FranzGo, "batches have a producer id, like those of idempotent clients"),
        (Client::Librdkafka, "batches have a producer id; librdkafka's have one with enable.idempotence"),
    ];
    let nameless = [
        (Client::Librdkafka, "batches have no producer id, like librdkafka's by default"),
        (Client::Java4, "batches have no producer id: Java with enable.idempotence=false, or before 3.0"),
        (Client::FranzGo, "batches have no producer id: franz-go with DisableIdempotentWrite"),
    ];
    match producer.who {
        Who::AtLeast(_) => nameless.to_vec(),
        // The default codec of franz-go is snappy, Java's is none.
        Who::Id(_) if codec(&producer.written) == Codec::Snappy && most > 16_384 => {
            [named[1], named[0], named[2]].to_vec()
        }
        Who::Id(_) => named.to_vec(),
    }
}

/// The codec of most bytes.
pub(super) fn codec(written: &[Written]) -> Codec {
    let bytes = |codec: Codec| -> u64 {
        written.iter().filter(|batch| batch.codec == codec).map(|batch| u64::from(batch.wire_bytes)).sum()
    };
    Codec::ALL.into_iter().max_by_key(|codec| bytes(*codec)).unwrap_or(Codec::None)
}

/// The number of records at which batches end. If a usual size is as likely, the X-ray's rule decides.
fn counted_at(producer: &Producer) -> Option<u32> {
    let written = &producer.written;
    let count = counted::limit(&timed(written))?;
    let full = || written.iter().filter(|batch| batch.records == count).map(plain_size);
    let record = f64::from(largest_record(written));
    let has_size = full().max().is_some_and(|most| size_above(u64::from(most), record).is_some());
    let is_nameless = producer.who.is_nameless();
    (is_nameless || !has_size || is_by_count(count, full(), record)).then_some(count)
}

fn timed(written: &[Written]) -> Vec<Timed> {
    let of = |batch: &Written| Timed {
        begin_ms: i64::try_from(batch.begin_us / 1_000).unwrap_or(i64::MAX),
        span_ms: batch.span_ms,
        records: batch.records,
    };
    written.iter().map(of).collect()
}

fn plain_size(batch: &Written) -> u32 {
    batch.plain_bytes.saturating_add(HEADER_BYTES as u32)
}

/// The largest size, if it is a possible setting and many batches end within a record of it: more than just below.
fn clip(written: &[Written]) -> Option<u32> {
    let most = written.iter().map(plain_size).max()?;
    let record = largest_record(written);
    let several = || written.iter().filter(|batch| batch.records > 1).map(plain_size);
    let near = several().filter(|size| *size > most.saturating_sub(record)).count();
    let below = most.saturating_sub(3 * record)..most.saturating_sub(2 * record);
    let before = several().filter(|size| below.contains(size)).count();
    let could_be_set = most >= USUAL_CAPS[0] || usual_cap(most, record).is_some();
    (could_be_set && near >= 5 && near * 50 >= written.len() && near > 2 * before).then_some(most)
}

fn largest_record(written: &[Written]) -> u32 {
    written.iter().map(|batch| batch.plain_bytes / batch.records.max(1)).max().unwrap_or(0)
}

/// A usual size that can have limited batches with that largest one: it is at most a record beyond.
fn usual_cap(most: u32, record: u32) -> Option<u32> {
    USUAL_CAPS.iter().copied().find(|cap| *cap >= most && *cap <= most.saturating_add(2 * record))
}

/// Of batches with several records that were not cut off, ascending.
fn spans(written: &[Written], clipped_at: Option<u32>) -> Vec<u64> {
    let is_cut = |batch: &Written| clipped_at.is_some_and(|most| plain_size(batch) > most - most / 20);
    let mut spans: Vec<u64> = written
        .iter()
        .filter(|batch| batch.records > 1 && !is_cut(batch))
        .map(|batch| batch.span_ms)
        .collect();
    spans.sort_unstable();
    spans
}

/// Whether a linger is usual.
pub(crate) fn is_usual(linger_us: u64) -> bool {
    linger_us.is_multiple_of(1_000) && USUAL_LINGERS_MS.contains(&(linger_us / 1_000))
}

/// The largest usual linger that fits into a floor of this many milliseconds.
pub(super) fn usual_linger_ms(floor_ms: f64) -> f64 {
    USUAL_LINGERS_MS.iter().rev().map(|ms| *ms as f64).find(|ms| *ms <= floor_ms).unwrap_or(0.0)
}

/// Usual lingers, from somewhat below the spans on. A span can't be longer than the linger except by a late timer. It can be much shorter
/// if batches rarely have more than one record or are taken along with others. Timers are late now and then, so the longest spans limit
/// nothing: a tenth of them may be above the linger.
fn lingers(span_ms_p90: Option<u64>, span_ms_p99: Option<u64>) -> Vec<u64> {
    let (most, seen) = (span_ms_p90.unwrap_or(0), span_ms_p99.unwrap_or(0));
    let mut all: Vec<u64> =
        USUAL_LINGERS_MS.iter().copied().filter(|ms| ms * 10 >= most * 8 || ms + 4 >= most).collect();
    // A producer whose batches wait for the broker has spans without any linger.
    all.extend([0, most, seen, seen + 1]);
    all.sort_unstable();
    all.dedup();
    all.into_iter().map(|ms| ms * 1_000).collect()
}

fn caps(written: &[Written], clipped_at: Option<u32>) -> Vec<u32> {
    let record = largest_record(written);
    let most_wire = written.iter().map(|batch| batch.wire_bytes).max().unwrap_or(0);
    let packs = codec(written) != Codec::None;
    match clipped_at {
        Some(most) if !packs => vec![usual_cap(most, record).unwrap_or(most)],
        // Compressed batches end by an estimate, which is near their size.
        _ => USUAL_CAPS
            .iter()
            .copied()
            .filter(|cap| u64::from(*cap) * 21 / 20 >= u64::from(most_wire))
            .take(4)
            .collect(),
    }
}

fn flushed_after(written: &[Written]) -> Option<u32> {
    let count = written.first()?.records;
    let same = written.iter().filter(|batch| batch.records == count).count();
    (count > 1 && written.len() >= FEWEST_GAPS && same * 20 >= written.len() * 19).then_some(count)
}

/// Nearly all batches have one record (or as many as there are threads, in a burst), and none begins soon after the one before.
fn closed_loop(producer: &Producer) -> Option<ClosedLoop> {
    let written = &producer.written;
    if written.len() <= FEWEST_GAPS {
        return None;
    }
    let alone = written.iter().filter(|batch| batch.records == 1).count();
    if alone * 20 >= written.len() * 19 {
        let times_ms: Vec<f64> = written.iter().map(|batch| batch.begin_us as f64 / 1e3).collect();
        let found = (1..=MOST_THREADS).find_map(|threads| floor(&times_ms, threads));
        return found.map(|found| counted(found, &times_ms)).or_else(|| one_by_one(written, &times_ms));
    }
    bursts(written)
}

/// What the clock's steps or the number of threads hide from [`floor`], by the tests of the X-ray: single records where chance predicts
/// pairs, or so regular ones that each waits for another. A timer is excluded.
fn one_by_one(written: &[Written], times_ms: &[f64]) -> Option<ClosedLoop> {
    let alone = written.iter().filter(|batch| batch.records == 1).count();
    if (alone as f64) < SINGLES * written.len() as f64 || keeps_step(times_ms) {
        return None;
    }
    let begins: Vec<i64> = times_ms.iter().map(|at_ms| *at_ms as i64).collect();
    let gap_ms = mean_gap_ms(&begins).filter(|gap_ms| *gap_ms <= RARE_GAP_MS)?;
    why_one_by_one(&begins, gap_ms, written.len() - alone)?;
    let mut gaps: Vec<f64> = times_ms.windows(2).map(|pair| pair[1] - pair[0]).collect();
    gaps.sort_by(f64::total_cmp);
    Some(ClosedLoop { threads: None, gap_ms, least_gap_ms: quantile(&gaps, 0.05) })
}

/// Whether long times between sends scatter no more than short ones, like those of a timer, whose delays do not add up. Differences of
/// neighbours tolerate a changing rate, and the largest tenth is ignored, because every process pauses.
fn keeps_step(times_ms: &[f64]) -> bool {
    const LONG: usize = 32;
    const SHORTER: usize = 8;
    /// Whole milliseconds alone scatter this much, in square milliseconds: half of one for a difference of differences, and up to a whole
    /// one if a time is half a millisecond more than a whole number.
    const ROUNDING: f64 = 0.6;
    /// Scatter of a long time over that of independent arrivals: the square of the variation of a sender's own cycle.
    const STEADY: f64 = 0.01;
    let scatter = |over: usize| {
        let marks: Vec<f64> = times_ms.iter().copied().step_by(over.max(1)).collect();
        let steps = marks.windows(3).map(|three| (three[2] - 2.0 * three[1] + three[0]).powi(2));
        let mut steps: Vec<f64> = steps.collect();
        steps.sort_by(f64::total_cmp);
        let kept = steps.len() - steps.len() / 10;
        steps.iter().take(kept).sum::<f64>() / kept.max(1) as f64
    };
    let over = times_ms.len() / LONG;
    let (Some(first), Some(last)) = (times_ms.first(), times_ms.last()) else { return false };
    let gap_ms = (last - first) / times_ms.len() as f64;
    let long = scatter(over);
    let by_chance = 2.0 * over as f64 * gap_ms * gap_ms;
    over > 1 && long < 2.0 * scatter(over / SHORTER).max(ROUNDING) && long - ROUNDING < STEADY * by_chance
}

/// If sends come too fast for the clock, several gaps of one thread look like one gap of several threads: those are not counted.
fn counted(found: ClosedLoop, times_ms: &[f64]) -> ClosedLoop {
    let all = found.threads.unwrap_or(1).max(1) as f64;
    let gap_ms = match (times_ms.first(), times_ms.last()) {
        (Some(first), Some(last)) => (last - first) / times_ms.len() as f64,
        _ => found.gap_ms,
    };
    if all < 2.0 || gap_ms >= CLOCK_MS {
        return found;
    }
    ClosedLoop { threads: None, gap_ms, least_gap_ms: found.least_gap_ms / all }
}

/// Gaps over this many sends have a floor, and do not follow a timer.
fn floor(times_ms: &[f64], threads: usize) -> Option<ClosedLoop> {
    let mut gaps: Vec<f64> =
        times_ms.iter().zip(times_ms.iter().skip(threads)).map(|(from, to)| to - from).collect();
    if is_schedule(&gaps) {
        return None;
    }
    gaps.sort_by(f64::total_cmp);
    let (least, median) = (quantile(&gaps, 0.05), quantile(&gaps, 0.5));
    (median >= CLOCK_MS && least >= FLOOR_SHARE * median).then_some(ClosedLoop {
        threads: Some(threads),
        gap_ms: median,
        least_gap_ms: least,
    })
}

/// A timer keeps its step over the long run: sums of sixteen gaps vary hardly more than one gap, while those of a waiting sender vary
/// sixteen times as much.
fn is_schedule(gaps: &[f64]) -> bool {
    const MANY: usize = 16;
    let sums: Vec<f64> = gaps.chunks_exact(MANY).map(|chunk| chunk.iter().sum()).collect();
    if sums.len() < 5 {
        return false;
    }
    variance(&sums) < 0.25 * MANY as f64 * variance(gaps).max(1.0 / 6.0)
}

/// Batches with as many records as threads, which come in a burst after the answer to the last batch.
fn bursts(written: &[Written]) -> Option<ClosedLoop> {
    let mut counts: Vec<f64> = written.iter().map(|batch| f64::from(batch.records)).collect();
    counts.sort_by(f64::total_cmp);
    let mut steps: Vec<f64> = written
        .iter()
        .zip(written.iter().skip(1))
        .map(|(one, next)| next.begin_us.saturating_sub(one.begin_us) as f64 / 1e3)
        .collect();
    let is_scheduled = is_schedule(&steps);
    steps.sort_by(f64::total_cmp);
    let mut spans: Vec<f64> = written.iter().map(|batch| batch.span_ms as f64).collect();
    spans.sort_by(f64::total_cmp);
    let (least, median) = (quantile(&steps, 0.05), quantile(&steps, 0.5));
    let is_even = quantile(&counts, 0.95) <= 1.1 * quantile(&counts, 0.05);
    let found = is_even
        && !is_scheduled
        && median >= 2.0
        && least >= FLOOR_SHARE * median
        && quantile(&spans, 0.5) <= 0.3 * median;
    found.then(|| ClosedLoop {
        threads: Some(quantile(&counts, 0.5) as usize),
        gap_ms: median,
        least_gap_ms: least,
    })
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    let index = (share * sorted.len() as f64) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::whatif::Dice;
    use crate::whatif::stream::Stream;

    /// A producer whose batches, each with a count of records, begin at times and have a span.
    pub(crate) fn producer(who: Who, batches: &[(u64, u32, u64)]) -> Producer {
        let mut stream = Stream::default();
        let mut written = Vec::new();
        for (begin_ms, records, span_ms) in batches {
            for _ in 0..*records {
                stream.push(begin_ms * 1_000, 0, 105, crate::whatif::stream::NO_KEY);
            }
            written.push(Written {
                partition: 0,
                begin_us: begin_ms * 1_000,
                span_ms: *span_ms,
                records: *records,
                wire_bytes: 61 + 110 * records,
                plain_bytes: 110 * records,
                codec: Codec::None,
                is_transactional: false,
            });
        }
        Producer { who, stream, written, kept: Default::default() }
    }

    fn times(count: usize, mut gap_ms: impl FnMut(&mut Dice) -> f64) -> Vec<(u64, u32, u64)> {
        let mut dice = Dice::new(3);
        let mut at = 0.0;
        let mut step = || {
            at += gap_ms(&mut dice);
            (at as u64, 1, 0)
        };
        (0..count).map(|_| step()).collect()
    }

    #[test]
    fn senders_who_wait_are_told_from_arrivals_and_from_timers() {
        let of = |batches: &[(u64, u32, u64)]| signs(&producer(Who::Id(1), batches)).closed_loop;
        let waits = of(&times(1_000, |dice| 6.0 + 1.5 * dice.unit())).expect("an answer takes 6 to 7.5 ms");
        assert_eq!(waits.threads, Some(1));
        assert!((6.0..8.0).contains(&waits.gap_ms), "{waits:?}");
        assert_eq!(of(&times(1_000, |dice| -10.0 * (1.0 - dice.unit()).ln())), None, "independent arrivals");
        assert_eq!(of(&times(1_000, |_| 10.0)), None, "a timer");
        assert_eq!(of(&times(1_000, |_| 3.3333)), None, "one with a step that is no whole millisecond");
        assert_eq!(of(&times(50, |_| 6.0)), None, "too few");
    }

    #[test]
    fn several_threads_who_wait_are_seen_over_as_many_sends() {
        let mut dice = Dice::new(9);
        let mut all: Vec<u64> = Vec::new();
        for thread in 0..3 {
            let mut at = f64::from(thread) * 1.7;
            for _ in 0..500 {
                all.push(at as u64);
                at += 8.0 + 2.0 * dice.unit();
            }
        }
        all.sort_unstable();
        let batches: Vec<_> = all.into_iter().map(|at| (at, 1, 0)).collect();
        let found = signs(&producer(Who::Id(1), &batches)).closed_loop.expect("three threads");
        assert!(found.threads.is_some_and(|threads| (2..=4).contains(&threads)), "{found:?}");
        let mut at = 0.0;
        let together: Vec<_> = (0..500)
            .map(|_| {
                at += 9.0 + 3.0 * dice.unit();
                (at as u64, 8, 1)
            })
            .collect();
        assert_eq!(
            signs(&producer(Who::Id(1), &together)).closed_loop.map(|found| found.threads),
            Some(Some(8))
        );
    }

    /// Threads that each wait for an answer, out of step with each other.
    fn threads_that_wait(
        threads: u32,
        sends: usize,
        answer_ms: impl Fn(&mut Dice) -> f64,
    ) -> Vec<(u64, u32, u64)> {
        let mut dice = Dice::new(21);
        let mut all: Vec<f64> = Vec::new();
        for _ in 0..threads {
            let mut at = 10.0 * dice.unit();
            for _ in 0..sends {
                all.push(at);
                at += answer_ms(&mut dice);
            }
        }
        all.sort_by(f64::total_cmp);
        all.into_iter().map(|at| (at as u64, 1, 0)).collect()
    }

    #[test]
    fn a_thread_that_is_answered_within_a_millisecond_waits_all_the_same() {
        let of = |batches: &[(u64, u32, u64)]| signs(&producer(Who::Id(1), batches)).closed_loop;
        for answer_ms in [0.3, 0.6, 1.2] {
            let quick = threads_that_wait(1, 20_000, |dice| answer_ms * (0.7 + 0.6 * dice.unit()));
            let found = of(&quick).unwrap_or_else(|| panic!("{answer_ms} ms"));
            assert!((found.gap_ms / answer_ms - 1.0).abs() < 0.1, "{found:?}");
        }
        assert_eq!(of(&times(20_000, |_| 0.5)), None, "a quick timer");
        let mut pairs = times(20_000, |dice| -2.0 * (1.0 - dice.unit()).ln());
        pairs.iter_mut().step_by(120).for_each(|batch| batch.1 = 2);
        assert_eq!(of(&pairs), None, "arrivals, of which some come together");
    }

    #[test]
    fn many_threads_out_of_step_are_seen() {
        for threads in [6, 8, 12] {
            let waits = threads_that_wait(threads, 600, |dice| 8.0 + 6.0 * dice.unit());
            let found = signs(&producer(Who::Id(1), &waits)).closed_loop;
            assert!(found.is_some(), "{threads} threads");
        }
    }

    #[test]
    fn a_timer_that_is_late_now_and_then_is_no_sender_who_waits() {
        let mut dice = Dice::new(8);
        let late: Vec<(u64, u32, u64)> = (0..20_000)
            .map(|tick| ((f64::from(tick) * 1.7 + 3.0 * dice.unit().powi(4)) as u64, 1, 0))
            .collect();
        assert_eq!(signs(&producer(Who::Id(1), &late)).closed_loop, None);
    }

    #[test]
    fn caps_and_lingers_are_read_off() {
        let mut batches: Vec<_> = (0..100).map(|index| (index * 20, 147, 9)).collect();
        batches.extend((0..100).map(|index| (2_000 + index * 20, 40 + index as u32 % 7, 19)));
        let found = signs(&producer(Who::Id(1), &batches));
        assert_eq!((found.clipped_at, found.caps.as_slice()), (Some(61 + 110 * 147), [16_384].as_slice()));
        assert_eq!(found.span_ms_p99, Some(19));
        assert!(found.lingers_us.contains(&20_000) && !found.lingers_us.contains(&10_000));
        assert!(is_usual(20_000) && !is_usual(19_000) && !is_usual(20_500));
        let open = signs(&producer(Who::AtLeast(0), &batches[150..]));
        assert_eq!(open.clients[0].0, Client::Librdkafka);
        assert_eq!(open.caps[0], 16_384);
    }

    #[test]
    fn timers_that_are_late_hide_no_linger() {
        // One in twenty waits for 6 to 20 ms more.
        let span = |index: u64| if index.is_multiple_of(20) { 11 + index % 15 } else { 3 + index % 3 };
        let batches: Vec<_> = (0..400).map(|index| (index * 30, 2 + index as u32 % 3, span(index))).collect();
        let found = signs(&producer(Who::Id(1), &batches));
        assert!(found.lingers_us.contains(&5_000), "{:?}", found.lingers_us);
    }

    #[test]
    fn flushes_are_seen() {
        let batches: Vec<_> = (0..200).map(|index| (index * 13, 5, 0)).collect();
        assert_eq!(signs(&producer(Who::Id(1), &batches)).flushed_after, Some(5));
    }
}
