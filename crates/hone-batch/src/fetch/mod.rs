//! A consumer's Fetch requests with other limits: how many there are, how full they are, and how long records wait for them. Pure.
//!
//! The broker answers a Fetch as soon as it has `fetch.min.bytes` for it, or after `fetch.max.wait.ms` with what it has (`DelayedFetch` of
//! `kafka.server`, KIP-74). Until the next request arrives, batches gather at the broker. Requests are replayed one by one, over batches at even
//! and at random times, and with a quick and a slow client: the truth of a topic lies between them.

pub mod counters;
pub mod settings;
pub mod whatif;
pub mod xray;

use std::collections::VecDeque;

use crate::whatif::Dice;

/// The batches that one consumer reads from one broker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stream {
    /// Batches per second.
    pub batches_per_s: f64,
    /// Mean bytes of a batch, its header included.
    pub batch_bytes: f64,
}

/// Limits of a Fetch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// `fetch.min.bytes`.
    pub min_bytes: u64,
    /// `fetch.max.wait.ms`.
    pub max_wait_ms: f64,
    /// The smaller of `fetch.max.bytes` and `max.partition.fetch.bytes` times the partitions.
    pub max_bytes: u64,
}

/// The quickest and the slowest value.
pub type Range = [f64; 2];

/// Fetch requests of one consumer to one broker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fetches {
    /// Requests per second.
    pub per_s: Range,
    /// Share without a batch.
    pub empty_share: Range,
    /// Mean bytes of an answer with batches; 0 without one.
    pub bytes: Range,
    /// Time that a batch waits for its answer: median, in milliseconds.
    pub wait_ms_p50: Range,
    /// The 99th percentile.
    pub wait_ms_p99: Range,
}

/// When batches arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Even,
    Random,
}

/// Batches, or requests, of one replay.
const MOST: usize = 20_000;
/// Length of a replay in which little happens.
const LONGEST_MS: f64 = 600_000.0;
/// Batches of one answer. More of them are replayed as fewer and larger ones.
const MOST_OF_AN_ANSWER: f64 = 2_000.0;

/// The Fetch requests with these limits. `turn_ms` is the time from an answer until the client's next request is at the broker, of a quick and
/// of a slow client.
pub fn fetches(stream: Stream, limits: Limits, turn_ms: Range) -> Fetches {
    let [quick, slow] = turn_ms.map(|turn_ms| turn_ms.max(0.01));
    let both =
        |arrival| replayed(stream, limits, arrival, quick).with(replayed(stream, limits, arrival, slow));
    both(Arrival::Even).with(both(Arrival::Random))
}

impl Fetches {
    fn of_values([per_s, empty_share, bytes, wait_ms_p50, wait_ms_p99]: [f64; 5]) -> Self {
        let both = |value| [value, value];
        Self {
            per_s: both(per_s),
            empty_share: both(empty_share),
            bytes: both(bytes),
            wait_ms_p50: both(wait_ms_p50),
            wait_ms_p99: both(wait_ms_p99),
        }
    }

    fn with(self, other: Self) -> Self {
        let both = |one: Range, other: Range| [one[0].min(other[0]), one[1].max(other[1])];
        Self {
            per_s: both(self.per_s, other.per_s),
            empty_share: both(self.empty_share, other.empty_share),
            bytes: both(self.bytes, other.bytes),
            wait_ms_p50: both(self.wait_ms_p50, other.wait_ms_p50),
            wait_ms_p99: both(self.wait_ms_p99, other.wait_ms_p99),
        }
    }
}

/// Times of batches at the broker, in milliseconds.
struct Arrivals {
    arrival: Arrival,
    gap_ms: f64,
    next_ms: f64,
    dice: Dice,
}

impl Arrivals {
    fn new(stream: Stream, arrival: Arrival) -> Self {
        // Without batches, none comes within a replay.
        let gap_ms = if stream.batches_per_s > 0.0 { 1e3 / stream.batches_per_s } else { f64::INFINITY };
        let mut arrivals = Self { arrival, gap_ms, next_ms: 0.0, dice: Dice::new(1) };
        arrivals.advance();
        arrivals
    }

    fn advance(&mut self) {
        self.next_ms += match self.arrival {
            Arrival::Even => self.gap_ms,
            Arrival::Random => -(1.0 - self.dice.unit()).ln() * self.gap_ms,
        };
    }
}

/// The same bytes in larger batches, if an answer would hold very many.
fn coarse(stream: Stream, limits: Limits, turn_ms: f64) -> Stream {
    let of_wait = stream.batches_per_s / 1e3 * (limits.max_wait_ms + turn_ms);
    let of_answer = (limits.min_bytes as f64 / stream.batch_bytes.max(1.0)).min(of_wait);
    let of_turn = stream.batches_per_s / 1e3 * turn_ms;
    let unit = (of_answer.max(of_turn) / MOST_OF_AN_ANSWER).max(1.0);
    Stream { batches_per_s: stream.batches_per_s / unit, batch_bytes: stream.batch_bytes * unit }
}

fn replayed(stream: Stream, limits: Limits, arrival: Arrival, turn_ms: f64) -> Fetches {
    let stream = coarse(stream, limits, turn_ms);
    let batch_bytes = stream.batch_bytes.max(1.0);
    // A broker sends one batch, however large.
    let [least, most] = [limits.min_bytes.max(1), limits.max_bytes.max(1)]
        .map(|bytes| (bytes as f64 / batch_bytes).ceil().clamp(1.0, 1e9) as usize);
    // It can't have more than it may send.
    let least = least.min(most);
    let mut arrivals = Arrivals::new(stream, arrival);
    let mut there: VecDeque<f64> = VecDeque::new();
    let (mut now_ms, mut requests, mut empty, mut sent) = (0.0, 0_usize, 0_usize, 0_usize);
    let mut waits_ms: Vec<f64> = Vec::new();
    while requests < MOST && waits_ms.len() < MOST && now_ms < LONGEST_MS {
        let deadline_ms = now_ms + limits.max_wait_ms.max(0.0);
        let mut answered_ms = now_ms;
        // What came while the client was busy is there; then the broker waits.
        loop {
            if arrivals.next_ms <= answered_ms {
                there.push_back(arrivals.next_ms);
                arrivals.advance();
            } else if there.len() >= least || answered_ms >= deadline_ms {
                break;
            } else {
                answered_ms = arrivals.next_ms.min(deadline_ms);
            }
        }
        let taken = there.len().min(most);
        waits_ms.extend(there.drain(..taken).map(|arrived_ms| answered_ms - arrived_ms));
        (requests, empty, sent) = (requests + 1, empty + usize::from(taken == 0), sent + taken);
        now_ms = answered_ms + turn_ms;
    }
    waits_ms.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let at = (share * waits_ms.len() as f64) as usize;
        waits_ms.get(at.min(waits_ms.len().saturating_sub(1))).copied().unwrap_or(0.0)
    };
    let full = requests - empty;
    let bytes = if full > 0 { sent as f64 * batch_bytes / full as f64 } else { 0.0 };
    Fetches::of_values([
        requests as f64 * 1e3 / now_ms,
        empty as f64 / requests.max(1) as f64,
        bytes,
        quantile(0.5),
        quantile(0.99),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Range = [0.5, 0.5];

    fn limits(min_bytes: u64, max_wait_ms: f64) -> Limits {
        Limits { min_bytes, max_wait_ms, max_bytes: 50 << 20 }
    }

    fn stream(batches_per_s: f64, batch_bytes: f64) -> Stream {
        Stream { batches_per_s, batch_bytes }
    }

    fn holds(range: Range, value: f64) -> bool {
        range[0] <= value * 1.02 && range[1] >= value * 0.98
    }

    #[test]
    fn an_idle_topic_is_polled_at_the_longest_wait() {
        let found = fetches(stream(0.0, 100.0), limits(1, 500.0), QUICK);
        assert!(holds(found.per_s, 1e3 / 500.5), "{found:?}");
        assert_eq!((found.empty_share, found.bytes), ([1.0, 1.0], [0.0, 0.0]));
    }

    #[test]
    fn a_byte_is_answered_at_once_and_batches_gather_only_during_the_turn() {
        // Poisson: a cycle is the turn, and the wait for the first batch if none came in it.
        let found = fetches(stream(100.0, 900.0), limits(1, 500.0), QUICK);
        let rate = 0.1; // per millisecond
        let cycle_ms = 0.5 + (-rate * 0.5_f64).exp() / rate;
        assert!(holds(found.per_s, 1e3 / cycle_ms), "{found:?}");
        assert!(holds(found.per_s, 100.0) && found.wait_ms_p99[1] < 0.6, "{found:?}");
        // More than the client can take: as many requests as turns.
        let busy = fetches(stream(20_000.0, 900.0), limits(1, 500.0), QUICK);
        assert!(holds(busy.per_s, 2_000.0) && holds(busy.bytes, 9_000.0), "{busy:?}");
    }

    #[test]
    fn min_bytes_gathers_batches_until_the_wait_is_over() {
        // 64 batches make 64 KiB, which takes 640 ms at 100 a second.
        let gathers = fetches(stream(100.0, 1_024.0), limits(16 << 10, 500.0), QUICK);
        assert!(
            holds(gathers.per_s, 100.0 / 16.0) && holds(gathers.bytes, f64::from(16 << 10)),
            "{gathers:?}"
        );
        assert!(
            gathers.wait_ms_p50[0] > 60.0 && gathers.wait_ms_p50[1] < 95.0,
            "half of 160 ms: {gathers:?}"
        );
        let timed = fetches(stream(100.0, 1_024.0), limits(64 << 10, 500.0), QUICK);
        assert!(timed.per_s[0] >= 1.9 && timed.per_s[1] <= 2.3, "{timed:?}");
    }

    #[test]
    fn an_answer_has_a_limit_and_what_is_left_comes_with_the_next_one() {
        let capped = Limits { max_bytes: 4_096, ..limits(1 << 20, 500.0) };
        let found = fetches(stream(1_000.0, 1_024.0), capped, QUICK);
        assert!(holds(found.per_s, 250.0) && holds(found.bytes, 4_096.0), "{found:?}");
        let large = fetches(stream(10.0, 1e6), Limits { max_bytes: 10, ..limits(1, 500.0) }, QUICK);
        assert!(holds(large.bytes, 1e6), "one batch at least: {large:?}");
    }

    #[test]
    fn a_range_holds_quick_and_slow_clients() {
        let found = fetches(stream(2_000.0, 500.0), limits(1, 500.0), [0.2, 2.0]);
        assert!(found.per_s[0] < 510.0 && found.per_s[1] > 1_400.0, "{found:?}");
    }

    proptest::proptest! {
        #[test]
        fn nothing_breaks_it(
            rate in 0.0..1e6_f64, bytes in 0.0..1e9_f64, least in 0..u64::MAX, most in 0..u64::MAX, wait in 0.0..1e5_f64,
        ) {
            let limits = Limits { min_bytes: least, max_wait_ms: wait, max_bytes: most };
            let found = fetches(stream(rate, bytes), limits, [0.0, 5.0]);
            proptest::prop_assert!(found.per_s[0] > 0.0 && found.per_s.iter().all(|value| value.is_finite()));
            proptest::prop_assert!(found.empty_share[1] <= 1.0 && found.wait_ms_p99[0] >= 0.0);
        }
    }
}
