//! Another linger for senders that wait for each answer. A replay keeps the times of records, but theirs would change. However, one thread
//! that sends one record after the other has a cycle: its linger, the answer and its own work. Another linger changes the cycle by the
//! difference.

use hone_kafka::batch::HEADER_BYTES;
use hone_record::{BatchFigures, Foreseen, ForeseenBatches, SentBy};

use super::advice::waited_out_ms;
use super::calibrate::{Told, Unexplained};
use super::infer::usual_linger_ms;
use super::predict::Change;
use super::stream::Producer;

/// Scatter of cycles from window to window of one machine. Hone's own value.
const SCATTER: f64 = 0.05;
/// The shortest cycle of a sender, in milliseconds: a wake-up.
const LEAST_CYCLE_MS: f64 = 0.05;

/// A waiting thread, with the parts of its cycle in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cycle {
    batches: usize,
    bytes: u64,
    /// Mean time between sends.
    mean_ms: f64,
    /// The same, for the fastest twentieth at most.
    least_ms: f64,
    /// Its linger: the lower limit, the likely value, and the upper limit.
    linger_ms: [f64; 3],
}

/// The effect of another linger on producers that each are one waiting thread. `None` if one is something else, or if the change is more
/// than a linger.
pub(super) fn foresee(
    producers: &[(&Producer, Option<&Unexplained>)],
    told: &Told,
    change: &Change,
) -> Option<ForeseenBatches> {
    let linger_ms = change.linger_us? as f64 / 1e3;
    if *change != (Change { linger_us: change.linger_us, ..Change::default() }) {
        return None;
    }
    let cycles: Option<Vec<Cycle>> =
        producers.iter().map(|(producer, refused)| cycle(producer, (*refused)?, told)).collect();
    let cycles = cycles.filter(|cycles| !cycles.is_empty())?;
    let sum = |of: &dyn Fn(&Cycle) -> f64| cycles.iter().map(|cycle| 1e3 / of(cycle)).sum::<f64>();
    let [least, likely, most] = [0, 1, 2].map(|which| {
        sum(&|cycle: &Cycle| (cycle.mean_ms - cycle.linger_ms[which]).max(LEAST_CYCLE_MS) + linger_ms)
    });
    // A late timer belongs to its linger.
    let is_shorter = cycles.iter().any(|cycle| linger_ms < cycle.linger_ms[2]);
    let quickest =
        sum(&|cycle: &Cycle| (cycle.least_ms - cycle.linger_ms[2]).max(LEAST_CYCLE_MS) + linger_ms);
    let high = if is_shorter { most.max(quickest) } else { most };
    let batches = Foreseen { value: likely, low: least * (1.0 - SCATTER), high: high * (1.0 + SCATTER) };
    Some(figures(&cycles, batches, linger_ms))
}

fn cycle(producer: &Producer, refused: &Unexplained, told: &Told) -> Option<Cycle> {
    let Unexplained::ClosedLoop { threads: Some(1), least_gap_ms, .. } = *refused else { return None };
    let (first, last) = (producer.written.first()?, producer.written.last()?);
    let batches = producer.written.len();
    let mean_ms = last.begin_us.saturating_sub(first.begin_us) as f64 / 1e3 / (batches as f64 - 1.0).max(1.0);
    let linger_ms = match told.linger_us {
        Some(us) => [us as f64 / 1e3; 3],
        None => {
            let most = waited_out_ms(producer).unwrap_or(0.0);
            [0.0, usual_linger_ms(most), most]
        }
    };
    let bytes = producer.written.iter().map(|batch| u64::from(batch.wire_bytes)).sum();
    Some(Cycle { batches, bytes, mean_ms, least_ms: least_gap_ms, linger_ms })
}

fn figures(cycles: &[Cycle], batches: Foreseen, linger_ms: f64) -> ForeseenBatches {
    let count: usize = cycles.iter().map(|cycle| cycle.batches).sum();
    let bytes = cycles.iter().map(|cycle| cycle.bytes).sum::<u64>() as f64 / count.max(1) as f64;
    let same = |value: f64| Foreseen { value, low: value, high: value };
    let Foreseen { value, low, high } = batches;
    ForeseenBatches {
        figures: BatchFigures {
            batches_per_s: value,
            requests_per_s: Some(value),
            bytes_per_s: value * bytes,
            records_per_batch: 1.0,
            batch_bytes_mean: bytes,
            batch_bytes_p50: bytes as u64,
            batch_bytes_p90: bytes as u64,
            wait_ms_mean: Some(linger_ms),
            wait_ms_p50: Some(linger_ms),
            wait_ms_p99: Some(linger_ms),
            header_share: HEADER_BYTES as f64 / bytes.max(1.0),
            write_amplification_most: (bytes / 4_096.0).ceil() * 4_096.0 / bytes.max(1.0),
            sent_by: Some(SentBy { size: 0.0, time: 1.0, with_others: 0.0, memory: 0.0, commit: 0.0 }),
            memory_bytes: None,
            would_wait: None,
        },
        batches_per_s: batches,
        requests_per_s: batches,
        bytes_per_s: Foreseen { value: value * bytes, low: low * bytes, high: high * bytes },
        batch_bytes_mean: same(bytes),
        wait_ms_mean: same(linger_ms),
        wait_ms_p50: same(linger_ms),
        wait_ms_p99: same(linger_ms),
        replays: 0,
    }
}
