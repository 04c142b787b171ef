//! Whether batches end at a number of records: librdkafka's `batch.num.messages`, or an application that flushes after a fixed number.

use crate::trigger::{quantile, sorted, variation};

/// Least number of batches for a conclusion.
const LEAST: usize = 20;
/// Share of the batches that end at a count that is a limit, and the ratio to those that end one record before, if arrivals have a tail.
const COUNTED_SHARE: f64 = 0.2;
const WALL: f64 = 3.0;
/// With continuous records there is one record gap between two batches, so batches of n records on average are open for (n - 1) / n of the
/// time. This share of that is enough. A flush leaves the time of its answer.
const ALWAYS_OPEN: f64 = 0.8;
/// A pause of the application is this many times longer than most gaps between batches.
const PAUSE: u64 = 20;
/// With a steady timer, a linger gives the same count every time. With a shorter record gap than this, late timers change the count.
const TIMERS_MS: f64 = 2.0;
/// Scatter of spans, over their mean, above which arrivals do not come from a timer.
const UNEVEN: f64 = 0.1;

/// A batch with its producer's times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timed {
    pub(crate) begin_ms: i64,
    pub(crate) span_ms: u64,
    pub(crate) records: u32,
}

/// The number of records that many batches have and none exceeds, although others waited for longer: those batches were full before their
/// linger was over. `None` if the application flushes after that number: it then waits for the answer, with no batch open.
pub(crate) fn limit(batches: &[Timed]) -> Option<u32> {
    let most = batches.iter().map(|batch| batch.records).max().filter(|most| *most > 1)?;
    let with = |records: u32| batches.iter().filter(|batch| batch.records == records).count();
    let full = with(most);
    let is_wall = full as f64 >= (COUNTED_SHARE * batches.len() as f64).max(LEAST as f64)
        && full as f64 >= WALL * with(most - 1) as f64;
    let records: u64 = batches.iter().map(|batch| u64::from(batch.records)).sum();
    let all_the_time = 1.0 - batches.len() as f64 / records as f64;
    let is_open = open_share(batches)? >= ALWAYS_OPEN * all_the_time;
    (is_wall && is_open && is_cut_by_count(batches, most)).then_some(most)
}

/// Whether the count limited the largest batches, and not the linger of a steady timer: then their spans vary, or the timer is too fast for
/// that.
fn is_cut_by_count(batches: &[Timed], most: u32) -> bool {
    let full = batches.iter().filter(|batch| batch.records == most);
    let times: Vec<f64> = full.map(|batch| batch.span_ms as f64).collect();
    let mean_ms = times.iter().sum::<f64>() / times.len().max(1) as f64;
    let is_quick = mean_ms / f64::from(most - 1) < TIMERS_MS;
    is_quick || variation(&times, 1.0 / 6.0).is_some_and(|scatter| scatter >= UNEVEN)
}

/// Share of the time with an open batch, without pauses of the application.
fn open_share(batches: &[Timed]) -> Option<f64> {
    let mut order: Vec<(i64, u64)> = batches.iter().map(|batch| (batch.begin_ms, batch.span_ms)).collect();
    order.sort_unstable();
    let steps = sorted(order.windows(2).map(|pair| pair[1].0.abs_diff(pair[0].0)));
    let pause_ms = quantile(&steps, 0.9)?.max(1).saturating_mul(PAUSE);
    let (mut open_ms, mut all_ms, mut until) = (0_u64, 0_u64, order.first()?.0);
    for (begin, span_ms) in order {
        let end = begin.saturating_add_unsigned(span_ms);
        let idle_ms = u64::try_from(begin.saturating_sub(until)).unwrap_or(0);
        let more_ms = u64::try_from(end.saturating_sub(until.max(begin))).unwrap_or(0);
        all_ms = all_ms.saturating_add(more_ms).saturating_add(if idle_ms > pause_ms { 0 } else { idle_ms });
        open_ms = open_ms.saturating_add(more_ms);
        until = until.max(end);
    }
    (all_ms > 0).then(|| open_ms as f64 / all_ms as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::Dice;

    /// Batches of a linger in milliseconds and a limit, over arrivals with random gaps.
    fn batches(linger_us: f64, most: u32, mut gap_us: impl FnMut(&mut Dice) -> f64) -> Vec<Timed> {
        let mut dice = Dice::new(17);
        let (mut at, mut all) = (0.0, Vec::new());
        let mut open: Option<(f64, f64, u32)> = None;
        let timed = |(begin, last, records): (f64, f64, u32)| Timed {
            begin_ms: (begin / 1e3) as i64,
            span_ms: (last / 1e3) as u64 - (begin / 1e3) as u64,
            records,
        };
        while all.len() < 400 {
            at += gap_us(&mut dice);
            // Timers are up to a millisecond late.
            let late_us = 1e3 * dice.unit();
            if let Some(done) = open.take_if(|open| at > open.0 + linger_us + late_us) {
                all.push(timed(done));
            }
            let (begin, _, records) = open.unwrap_or((at, at, 0));
            open = Some((begin, at, records + 1));
            if let Some(done) = open.take_if(|open| open.2 >= most) {
                all.push(timed(done));
            }
        }
        all
    }

    fn independent(per_s: f64) -> impl FnMut(&mut Dice) -> f64 {
        move |dice| -1e6 / per_s * (1.0 - dice.unit()).ln()
    }

    #[test]
    fn any_count_at_which_batches_end_is_a_limit() {
        for count in [3, 7, 37, 100, 1_234] {
            let per_s = 20.0 * f64::from(count);
            assert_eq!(limit(&batches(1e6, count, independent(per_s))), Some(count), "{count}, always full");
            // With three records, some of which wait for the whole linger, times are not enough.
            let mostly = limit(&batches(5e4, count, independent(per_s)));
            assert!(
                mostly == Some(count) || (mostly.is_none() && count == 3),
                "{count}, mostly full: {mostly:?}"
            );
        }
        // A beat of a millisecond.
        assert_eq!(limit(&batches(1e6, 37, |_| 1_000.0)), Some(37));
        // Faster than the clock: 37 records in 370 µs.
        assert_eq!(limit(&batches(1e6, 37, independent(100_000.0))), Some(37));
    }

    #[test]
    fn what_time_brings_is_no_limit() {
        assert_eq!(limit(&batches(20e3, u32::MAX, independent(300.0))), None, "arrivals within a linger");
        assert_eq!(limit(&batches(45e3, u32::MAX, |_| 10_000.0)), None, "a beat: five in each linger");
        let nearly = |dice: &mut Dice| 9_000.0 + 400.0 * dice.unit();
        assert_eq!(limit(&batches(45e3, u32::MAX, nearly)), None, "five, and six now and then");
    }

    #[test]
    fn a_flush_after_so_many_is_no_limit() {
        // Five records at once, and two milliseconds for the answer.
        let flushed: Vec<Timed> = (0..300)
            .map(|at| Timed { begin_ms: at * 2, span_ms: u64::from(at % 9 == 0), records: 5 })
            .collect();
        assert_eq!(limit(&flushed), None);
        // Five, a millisecond apart, and three until the next five.
        let in_bursts: Vec<Timed> =
            (0..300).map(|at| Timed { begin_ms: at * 7, span_ms: 4, records: 5 }).collect();
        assert_eq!(limit(&in_bursts), None);
    }
}
