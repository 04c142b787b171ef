//! Reads topics of a cluster for an X-ray: all records of a time range if the read limit allows it, else evenly spread stretches
//! of it, complete and over all partitions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use hone_batch::xray::{Depth, Facts, Sight};
use hone_load::{At, ReadLimits, Reading, ReadingEnd, Stretch, TopicLayout, Topics, hint};
use hone_record::TopicXray;
use hone_tool::interrupt;

use hone_experiment::moment::now_ms;

/// Bounds for the number of stretches in a sample, and the shortest stretch. Lingers must fit into one.
const MOST_SLOTS: u32 = 40;
const LEAST_SLOTS: u32 = 3;
const LEAST_SLOT_MS: f64 = 2_000.0;
/// A sample by time with a smaller share of the expected records is discarded: the timestamps are then not the write times.
const LEAST_OF_EXPECTED: f64 = 0.25;
/// Share of the read limit that a sample is planned to use.
const PLANNED_SHARE: f64 = 0.8;
/// Share of the read limit that the first look at the size may use.
const PROBE_SHARE: u64 = 16;

/// Time limit for reading the rate of a topic.
const RATE_LIMIT: Duration = Duration::from_secs(60);

/// Limits of reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wish {
    /// Back from now; `None` for everything in the topic.
    pub last_s: Option<f64>,
    /// Of each topic.
    pub budget_bytes: u64,
    /// Of each topic.
    pub limit: Duration,
    /// How deep to look.
    pub depth: Depth,
}

/// A topic with the requested offsets.
struct OffsetRange {
    layout: TopicLayout,
    partitions: usize,
    from: BTreeMap<i32, i64>,
    to: BTreeMap<i32, i64>,
    begin_ms: Option<i64>,
    troubles: Vec<String>,
}

/// Analyses a topic.
///
/// # Errors
/// When it does not exist or can't be read, or an answer does not follow Kafka's protocol.
pub fn look(topics: &mut Topics, topic: &str, wish: &Wish) -> Result<TopicXray> {
    let until = Instant::now() + wish.limit;
    let asked = OffsetRange::new(topics, topic, wish)?;
    let all = asked.stretches();
    let probe_bytes = wish.budget_bytes / PROBE_SHARE;
    let mut sight = Sight::new(topic, asked.partitions, wish.depth);
    let probe = read(topics, &asked, &all, (probe_bytes, None), until, &mut sight)?;
    if probe.end == ReadingEnd::Whole {
        return Ok(asked.told(sight, &probe, None));
    }
    // By offset, not by time, since partitions and times differ.
    let seen = probe.offsets.max(1);
    let all_bytes = probe.bytes as f64 * offsets(&all) as f64 / seen as f64;
    if all_bytes <= wish.budget_bytes as f64 {
        let rest = probe.left(&all);
        let more = read(topics, &asked, &rest, (wish.budget_bytes, None), until, &mut sight)?;
        return Ok(asked.told(sight, &probe.and(more), None));
    }
    sample(topics, &asked, wish, until, all_bytes, probe.first_ms)
}

/// How fast batches come to a topic, and how large they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BatchRate {
    /// Partitions of the topic.
    pub partitions: usize,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Mean bytes of a batch, its header included.
    pub batch_bytes: f64,
}

/// The batches of a topic in the last seconds, by their headers alone. `None` if they are too few.
///
/// # Errors
/// As for [`look`].
pub fn rate(topics: &mut Topics, topic: &str, last_s: f64, budget_bytes: u64) -> Result<Option<BatchRate>> {
    let depth = Depth { decode_bytes: 0, tolerable_linger_ms: 0.0 };
    let wish = Wish { last_s: Some(last_s), budget_bytes, limit: RATE_LIMIT, depth };
    let found = look(topics, topic, &wish)?;
    let rate = found.batches_per_s.zip(found.mean_bytes.as_ref()).map(|(batches_per_s, bytes)| BatchRate {
        partitions: found.partitions,
        batches_per_s,
        batch_bytes: bytes.value,
    });
    Ok(rate)
}

/// Complete stretches of time, as many as the read limit allows; stretches of offsets, where the timestamps are not usable.
fn sample(
    topics: &mut Topics,
    asked: &OffsetRange,
    wish: &Wish,
    until: Instant,
    all_bytes: f64,
    first_ms: Option<i64>,
) -> Result<TopicXray> {
    // Brokers return whole batches, so reads exceed the plan.
    let affordable = PLANNED_SHARE * wish.budget_bytes as f64 / all_bytes;
    let begin_ms = asked.begin_ms.or(first_ms).unwrap_or(0);
    let end_ms = last_ms(topics, asked, until)?.unwrap_or_else(now_ms).max(begin_ms.saturating_add(1));
    let times = slots(begin_ms, end_ms, affordable);
    let mut by_time = Vec::new();
    for (slot_begin, slot_end) in &times {
        let (from, _) = topics.offsets(&asked.layout, At::TimeMs(*slot_begin))?;
        let (to, _) = topics.offsets(&asked.layout, At::TimeMs(*slot_end))?;
        by_time.push(between(&from, &to, &asked.to));
    }
    let expected = affordable * offsets(&asked.stretches()) as f64;
    let found: u64 = by_time.iter().map(|stretches| offsets(stretches)).sum();
    let is_by_time = found as f64 >= LEAST_OF_EXPECTED * expected;
    let parts = if is_by_time { by_time } else { pieces(&asked.stretches(), affordable) };
    let (sight, sum, seen) = read_parts(topics, asked, wish, until, &parts, all_bytes)?;
    let length_s = times.first().map_or(0.0, |(begin, end)| (*end as f64 - *begin as f64) / 1e3);
    let told = Sample { wanted: seen.wanted, slots_s: is_by_time.then_some(length_s * seen.stretches) };
    Ok(asked.told(sight, &sum, Some(&told)))
}

/// How far a sample was read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Seen {
    /// Offsets of the stretches that were started.
    wanted: u64,
    /// Stretches; the last one may be partial.
    stretches: f64,
}

/// Reads parts in turn until a limit ends it. Returns the findings, the troubles, and how far it got.
fn read_parts(
    topics: &mut Topics,
    asked: &OffsetRange,
    wish: &Wish,
    until: Instant,
    parts: &[Vec<Stretch>],
    all_bytes: f64,
) -> Result<(Sight, Read, Seen)> {
    let mut sight = Sight::new(asked.layout.topics.first(), asked.partitions, wish.depth);
    let (mut sum, mut seen) = (Read::default(), Seen::default());
    let offset_bytes = Some(all_bytes / offsets(&asked.stretches()).max(1) as f64);
    for number in in_turn(parts.len()) {
        let Some(stretches) = parts.get(number) else { continue };
        let left = wish.budget_bytes.saturating_sub(sum.bytes);
        let one = read(topics, asked, stretches, (left, offset_bytes), until, &mut sight)?;
        let (is_whole, here) = (one.end == ReadingEnd::Whole, offsets(stretches));
        seen.wanted += here;
        seen.stretches += if is_whole { 1.0 } else { (one.offsets as f64 / here.max(1) as f64).min(1.0) };
        sum = sum.and(one);
        // A partial stretch gives as good means as a complete one. It is no unit of the confidence interval,
        // unless it is the only one.
        if is_whole || sight.slots() == 0 {
            sight.end_slot();
        }
        if !is_whole {
            break;
        }
    }
    Ok((sight, sum, seen))
}

/// All numbers below a count, in an order whose every beginning is spread over all of them. Reading can then stop at any point
/// and still covers the whole time. It reverses the bits (van der Corput).
fn in_turn(count: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    all.sort_by_key(|number| number.reverse_bits());
    all
}

/// Evenly spread over each partition's offsets.
fn pieces(all: &[Stretch], affordable: f64) -> Vec<Vec<Stretch>> {
    let of = |number: u32| {
        let piece = |stretch: &Stretch| {
            let part = (stretch.to - stretch.from) as f64 / f64::from(MOST_SLOTS);
            let from = stretch.from + (part * f64::from(number)) as i64;
            Stretch { from, to: from + (part * affordable) as i64, ..*stretch }
        };
        all.iter().map(piece).filter(|piece| piece.from < piece.to).collect()
    };
    (0..MOST_SLOTS).map(of).collect()
}

/// The selection from a topic that is too large.
struct Sample {
    /// Offsets.
    wanted: u64,
    /// Its seconds, if it was selected by time.
    slots_s: Option<f64>,
}

/// Evenly spread, each in the middle of its part.
fn slots(begin_ms: i64, end_ms: i64, affordable: f64) -> Vec<(i64, i64)> {
    // Timestamps of foreign records can be anything; floats hold any difference.
    let all_ms = end_ms as f64 - begin_ms as f64;
    let count =
        (all_ms * affordable / LEAST_SLOT_MS).floor().clamp(f64::from(LEAST_SLOTS), f64::from(MOST_SLOTS));
    let (part_ms, length_ms) = (all_ms / count, all_ms * affordable / count);
    (0..count as u32)
        .map(|number| {
            let begin = begin_ms as f64 + part_ms * f64::from(number) + (part_ms - length_ms) / 2.0;
            (begin as i64, (begin + length_ms).ceil() as i64)
        })
        .collect()
}

/// The time of the newest record, from the last batch of each partition.
fn last_ms(topics: &mut Topics, asked: &OffsetRange, until: Instant) -> Result<Option<i64>> {
    let ends: Vec<Stretch> = asked
        .to
        .iter()
        .filter(|(partition, to)| asked.from.get(partition).is_some_and(|from| from < to))
        .map(|(partition, to)| Stretch { partition: *partition, from: to - 1, to: *to })
        .collect();
    let mut last = None;
    // One batch of each partition.
    let limits =
        ReadLimits { bytes: u64::MAX, offset_bytes: Some(0.0), until, go_on: &|| !interrupt::requested() };
    topics.read(&asked.layout, &ends, limits, &mut |portion| {
        let (_, next) = hone_batch::scan::scan(portion.record_set, i64::MIN, |seen, _| {
            last = last.max(Some(seen.header.max_timestamp));
        });
        next
    })?;
    Ok(last)
}

/// The outcome of reading.
#[derive(Debug, Clone)]
struct Read {
    bytes: u64,
    offsets: u64,
    next: BTreeMap<i32, i64>,
    end: ReadingEnd,
    first_ms: Option<i64>,
    lost: Vec<hone_load::Lost>,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            bytes: 0,
            offsets: 0,
            next: BTreeMap::new(),
            end: ReadingEnd::Whole,
            first_ms: None,
            lost: Vec::new(),
        }
    }
}

impl Read {
    fn and(mut self, more: Self) -> Self {
        self.lost.extend(more.lost);
        self.next.extend(more.next);
        Self {
            bytes: self.bytes + more.bytes,
            offsets: self.offsets + more.offsets,
            end: more.end,
            first_ms: self.first_ms.or(more.first_ms),
            ..self
        }
    }

    /// The part of these stretches that was neither read nor lost.
    fn left(&self, all: &[Stretch]) -> Vec<Stretch> {
        // Where retention deleted the beginning, the rest is still readable.
        let is_lost = |stretch: &Stretch| {
            let reaches =
                |lost: &hone_load::Lost| lost.from.saturating_add_unsigned(lost.offsets) >= stretch.to;
            self.lost.iter().any(|lost| lost.partition == stretch.partition && reaches(lost))
        };
        let left = all.iter().filter(|stretch| !is_lost(stretch));
        left.map(|stretch| Stretch {
            from: self.next.get(&stretch.partition).copied().unwrap_or(stretch.from),
            ..*stretch
        })
        .collect()
    }
}

fn read(
    topics: &mut Topics,
    asked: &OffsetRange,
    stretches: &[Stretch],
    (budget_bytes, offset_bytes): (u64, Option<f64>),
    until: Instant,
    sight: &mut Sight,
) -> Result<Read> {
    let mut read = Read::default();
    let limits = ReadLimits { bytes: budget_bytes, offset_bytes, until, go_on: &|| !interrupt::requested() };
    let came: Reading = topics.read(&asked.layout, stretches, limits, &mut |portion| {
        let next = sight.take(portion.partition, portion.from, portion.to, portion.record_set)?;
        let inside = next.min(portion.to);
        read.offsets += (inside - portion.from).max(0).unsigned_abs();
        read.next.insert(portion.partition, inside);
        Some(next)
    })?;
    read.first_ms = sight.first_ms();
    Ok(Read { bytes: came.bytes, end: came.end, lost: came.lost, ..read })
}

impl OffsetRange {
    fn new(topics: &mut Topics, topic: &str, wish: &Wish) -> Result<Self> {
        let (layout, leaderless) = topics.layout(topic)?;
        let led: usize = layout.leaders.iter().map(|(_, led)| led.len()).sum();
        let mut troubles: Vec<String> = leaderless
            .iter()
            .map(|partition| format!("partition {partition}: skipped, because it has no leader"))
            .collect();
        let (to, missing) = topics.offsets(&layout, At::Latest)?;
        troubles.extend(missing.iter().map(|(partition, why)| format!("partition {partition}: {why}")));
        let mut begin_ms = wish.last_s.map(|last_s| now_ms() - (1e3 * last_s) as i64);
        let mut from = match begin_ms {
            // Without a record since then, the offset does not exist.
            Some(time) => beginning(topics, &layout, At::TimeMs(time), &mut troubles)?
                .into_iter()
                .map(|(partition, from)| {
                    (partition, if from < 0 { to.get(&partition).copied().unwrap_or(0) } else { from })
                })
                .collect(),
            None => beginning(topics, &layout, At::Earliest, &mut troubles)?,
        };
        let is_empty = |from: &BTreeMap<i32, i64>| {
            to.iter().all(|(partition, to)| from.get(partition).is_none_or(|from| from >= to))
        };
        if wish.last_s.is_some() && is_empty(&from) {
            from = beginning(topics, &layout, At::Earliest, &mut troubles)?;
            begin_ms = None;
            if !is_empty(&from) {
                troubles.push(
                    "no record in the requested time range (--last): Hone read the whole topic instead"
                        .to_owned(),
                );
            }
        }
        Ok(Self { partitions: led + leaderless.len(), layout, from, to, begin_ms, troubles })
    }

    fn stretches(&self) -> Vec<Stretch> {
        between(&self.from, &self.to, &self.to)
    }

    fn told(&self, sight: Sight, read: &Read, sample: Option<&Sample>) -> TopicXray {
        let mut troubles = self.troubles.clone();
        troubles.extend(read.lost.iter().map(|lost| {
            format!(
                "partition {}: can't read {} offsets from {} on: {}{}",
                lost.partition,
                lost.offsets,
                lost.from,
                lost.why,
                hint(&lost.why)
            )
        }));
        match read.end {
            ReadingEnd::Whole => {}
            ReadingEnd::Bytes => {
                troubles.push("the read limit was reached before the end (--read-limit)".to_owned())
            }
            ReadingEnd::Time => {
                troubles.push("the time limit was reached before the end (--read-timeout)".to_owned())
            }
            ReadingEnd::Stopped => troubles.push("interrupted: this is the result up to then".to_owned()),
        }
        let leaders = self.layout.leaders.iter().enumerate();
        let leaders =
            leaders.flat_map(|(number, (_, led))| led.iter().map(move |partition| (*partition, number)));
        let all = offsets(&self.stretches());
        let wanted = sample.map_or(all, |sample| sample.wanted);
        sight.finish(Facts {
            fetched_bytes: read.bytes,
            share: if all == 0 { 1.0 } else { read.offsets.min(wanted) as f64 / all as f64 },
            window_s: self.begin_ms.map(|begin| (now_ms() - begin) as f64 / 1e3),
            is_sample: sample.is_some(),
            slots_s: sample.and_then(|sample| sample.slots_s),
            leaders: leaders.collect(),
            troubles,
        })
    }
}

/// The partitions' start offsets. A partition without an answer is reported.
fn beginning(
    topics: &mut Topics,
    layout: &TopicLayout,
    at: At,
    troubles: &mut Vec<String>,
) -> Result<BTreeMap<i32, i64>> {
    let (found, missing) = topics.offsets(layout, at)?;
    for (partition, why) in missing {
        let told = format!("partition {partition}: {why}");
        if !troubles.contains(&told) {
            troubles.push(told);
        }
    }
    Ok(found)
}

/// From a start to an end; where that offset does not exist, to the end of the log.
pub fn between(
    from: &BTreeMap<i32, i64>,
    to: &BTreeMap<i32, i64>,
    ends: &BTreeMap<i32, i64>,
) -> Vec<Stretch> {
    let stretch = |(partition, end): (&i32, &i64)| {
        let place = |offsets: &BTreeMap<i32, i64>| {
            offsets.get(partition).map(|offset| if *offset < 0 { *end } else { *offset })
        };
        Some(Stretch { partition: *partition, from: place(from)?, to: place(to)?.min(*end) })
    };
    ends.iter().filter_map(stretch).filter(|stretch| stretch.from < stretch.to).collect()
}

fn offsets(stretches: &[Stretch]) -> u64 {
    stretches.iter().map(|stretch| stretch.to.abs_diff(stretch.from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_spread_evenly_and_long_enough() {
        let found = slots(0, 900_000, 0.1);
        assert_eq!(found.len(), 40);
        let covered: i64 = found.iter().map(|(begin, end)| end - begin).sum();
        assert!((90_000..90_050).contains(&covered), "{covered}");
        assert!(found.windows(2).all(|pair| (22_498..22_503).contains(&(pair[1].0 - pair[0].0))));
        let few = slots(0, 60_000, 0.1);
        assert_eq!((few.len(), few[0]), (3, (9_000, 11_000)));
    }

    #[test]
    fn stretches_come_once_each_and_a_few_are_of_all_the_time() {
        for count in 0..100 {
            let mut all = in_turn(count);
            if count >= 8 {
                let few = &all[..4];
                let halves =
                    [0, 1].map(|half| few.iter().filter(|number| **number * 2 / count == half).count());
                assert!(halves.iter().all(|here| *here > 0), "{count}: {few:?}");
            }
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..count), "{count}: {all:?}");
        }
    }

    #[test]
    fn pieces_are_spread_over_all_offsets() {
        let all = [Stretch { partition: 3, from: 1_000, to: 41_000 }];
        let found = pieces(&all, 0.1);
        assert_eq!((found.len(), found[0][0].from, found[0][0].to), (40, 1_000, 1_100));
        assert_eq!((found[39][0].from, found[39][0].to), (40_000, 40_100));
        assert!(pieces(&[Stretch { partition: 0, from: 0, to: 30 }], 0.1).iter().all(Vec::is_empty));
    }

    #[test]
    fn a_time_without_an_offset_is_the_logs_end() {
        let map = |offset| BTreeMap::from([(0, offset)]);
        assert_eq!(between(&map(5), &map(-1), &map(9)), [Stretch { partition: 0, from: 5, to: 9 }]);
        assert_eq!(between(&map(-1), &map(-1), &map(9)), []);
        assert_eq!(between(&map(7), &map(3), &map(9)), [], "clocks that jump");
    }
}
