//! Which stalls of a target explain its slowest requests. The code is pure.
//!
//! Slow requests that overlap in time are one episode. A stall explains an episode if both share at least half of the time that its slowest
//! request took beyond the median. Requests that waited behind a stall belong to its episode, although some of them began after it.
//!
//! What stops all threads delays every request that falls into it. A wait of one thread may be harmless, so it counts only if fast requests don't
//! fall into such waits as well.

use std::cmp::Reverse;

/// A request of the window, in nanoseconds from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was due.
    pub due_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
}

/// Stalls of one cause, in nanoseconds from the start of the window. Begin and end of each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stalls {
    /// A cause with a smaller number goes before others that explain the same episode.
    pub rank: u8,
    /// Whether a stall stops every thread.
    pub stops_all: bool,
    /// In any order; they may overlap.
    pub times: Vec<[u64; 2]>,
}

/// The slow requests, and their causes.
#[derive(Debug, Clone, PartialEq)]
pub struct Tail {
    /// Requests beyond this quantile are slow.
    pub quantile: f64,
    /// The latency at that quantile.
    pub threshold_ns: u64,
    /// The median latency.
    pub median_ns: u64,
    /// Slow requests in order of time, each with the index of its cause.
    pub slow: Vec<(Request, Option<usize>)>,
    /// Whether a cause explains more than chance does: it stops all threads, or fast requests fall into its stalls too rarely for as many slow
    /// episodes.
    pub is_beyond_chance: Vec<bool>,
}

/// The tail begins at the first of these quantiles that has enough requests beyond it. With each, requests beyond it in a thousand.
const QUANTILES: [(f64, u64); 3] = [(0.999, 1), (0.99, 10), (0.9, 100)];
/// Requests beyond a quantile from which it is one: ten, as for all percentiles of Hone.
const ENOUGH: u64 = 10;
/// Probability below which chance is no explanation.
const CHANCE: f64 = 0.01;

impl Request {
    /// From the due time to the end.
    pub fn latency_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.due_ns)
    }
}

/// Explains the tail of a window. `None` with fewer than 100 requests.
pub fn explain(requests: &[Request], causes: &[Stalls]) -> Option<Tail> {
    let mut latencies: Vec<u64> = requests.iter().map(Request::latency_ns).collect();
    latencies.sort_unstable();
    let count = latencies.len() as u64;
    let (quantile, beyond) = QUANTILES
        .into_iter()
        .map(|(quantile, per_mille)| (quantile, count * per_mille / 1_000))
        .find(|(_, beyond)| *beyond >= ENOUGH)?;
    let threshold_ns = latencies[(count - 1 - beyond) as usize];
    let median_ns = latencies[latencies.len() / 2];
    let mut slow: Vec<Request> =
        requests.iter().copied().filter(|request| request.latency_ns() > threshold_ns).collect();
    slow.sort_by_key(|request| (request.due_ns, request.ended_ns));
    let episodes = Episodes::from_slow(&slow, median_ns);
    let merged: Vec<Vec<[u64; 2]>> = causes.iter().map(|cause| merged(&cause.times)).collect();
    let fast: Vec<Request> =
        requests.iter().copied().filter(|request| (1..=median_ns).contains(&request.latency_ns())).collect();
    let beyond_chance = |(times, cause): (&Vec<[u64; 2]>, &Stalls)| {
        let count = episodes.0.iter().filter(|episode| episode.is_explained(times)).count();
        let chance = || tail_of_binomial(episodes.0.len(), share_within(&fast, times), count);
        count > 0 && (cause.stops_all || chance() < CHANCE)
    };
    let is_beyond_chance = merged.iter().zip(causes).map(beyond_chance).collect();
    let explained =
        slow.iter().zip(episodes.causes(causes, &merged)).map(|(slow, cause)| (*slow, cause)).collect();
    Some(Tail { quantile, threshold_ns, median_ns, slow: explained, is_beyond_chance })
}

/// Slow requests that overlap.
#[derive(Debug)]
struct Episodes(Vec<Episode>);

#[derive(Debug)]
struct Episode {
    begin: u64,
    end: u64,
    /// Its requests.
    count: usize,
    /// A stall has to cover this much of it.
    needed: u64,
}

impl Episodes {
    fn from_slow(slow: &[Request], median_ns: u64) -> Self {
        let mut all: Vec<Episode> = Vec::new();
        for request in slow {
            let needed = request.latency_ns().saturating_sub(median_ns).div_ceil(2).max(1);
            match all.last_mut().filter(|last| request.due_ns <= last.end) {
                Some(last) => {
                    last.end = last.end.max(request.ended_ns);
                    last.count += 1;
                    last.needed = last.needed.max(needed);
                }
                None => {
                    all.push(Episode { begin: request.due_ns, end: request.ended_ns, count: 1, needed });
                }
            }
        }
        Self(all)
    }

    /// The cause of each request, in their order.
    fn causes(&self, causes: &[Stalls], merged: &[Vec<[u64; 2]>]) -> Vec<Option<usize>> {
        let of = |episode: &Episode| {
            let shared = merged.iter().map(|times| shared(times, episode.begin, episode.end));
            let enough = shared.enumerate().filter(|(_, shared)| *shared >= episode.needed);
            enough
                .min_by_key(|(index, shared)| (causes[*index].rank, Reverse(*shared)))
                .map(|(index, _)| index)
        };
        self.0.iter().flat_map(|episode| std::iter::repeat_n(of(episode), episode.count)).collect()
    }
}

impl Episode {
    fn is_explained(&self, times: &[[u64; 2]]) -> bool {
        shared(times, self.begin, self.end) >= self.needed
    }
}

/// Share of requests that spend half of their time within these stalls.
fn share_within(requests: &[Request], times: &[[u64; 2]]) -> f64 {
    let is_within = |request: &&Request| {
        shared(times, request.due_ns, request.ended_ns) >= request.latency_ns().div_ceil(2)
    };
    requests.iter().filter(is_within).count() as f64 / requests.len().max(1) as f64
}

/// Probability of `count` or more of `trials` successes with this probability each.
fn tail_of_binomial(trials: usize, probability: f64, count: usize) -> f64 {
    let (success, failure) = (probability.max(1e-12).ln(), (1.0 - probability).max(1e-12).ln());
    let (mut choices, mut sum) = (0.0, 0.0);
    for successes in 0..=trials {
        if successes >= count {
            sum += (choices + successes as f64 * success + (trials - successes) as f64 * failure).exp();
        }
        choices += ((trials - successes) as f64 / (successes + 1) as f64).ln();
    }
    f64::min(sum, 1.0)
}

/// In order, without overlap, and without empty ones.
fn merged(times: &[[u64; 2]]) -> Vec<[u64; 2]> {
    let mut sorted: Vec<[u64; 2]> = times.iter().copied().filter(|[begin, end]| begin < end).collect();
    sorted.sort_unstable();
    let mut all: Vec<[u64; 2]> = Vec::new();
    for [begin, end] in sorted {
        match all.last_mut().filter(|last| begin <= last[1]) {
            Some(last) => last[1] = last[1].max(end),
            None => all.push([begin, end]),
        }
    }
    all
}

/// Time that these stalls, in order and without overlap, share with a span.
fn shared(times: &[[u64; 2]], begin: u64, end: u64) -> u64 {
    let first = times.partition_point(|stall| stall[1] <= begin);
    let inside = times[first..].iter().take_while(|stall| stall[0] < end);
    inside.map(|stall| stall[1].min(end) - stall[0].max(begin)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A request each millisecond for this many seconds, each with 1 ms of latency, but all wait while a stall lasts.
    fn window(seconds: u64, stalls: &[[u64; 2]]) -> Vec<Request> {
        (0..seconds * 1_000)
            .map(|number| {
                let due_ns = number * MS;
                let stalled = stalls.iter().find(|[begin, end]| (*begin..*end).contains(&due_ns));
                Request { due_ns, ended_ns: stalled.map_or(due_ns, |[_, end]| *end) + MS }
            })
            .collect()
    }

    fn every(seconds: u64, at: u64, long: u64) -> Vec<[u64; 2]> {
        (0..seconds).map(|second| [second * 1_000 * MS + at, second * 1_000 * MS + at + long]).collect()
    }

    /// Waits of one thread.
    fn waits(times: Vec<[u64; 2]>) -> Stalls {
        Stalls { rank: 2, stops_all: false, times }
    }

    fn stalls(rank: u8, times: Vec<[u64; 2]>) -> Stalls {
        Stalls { rank, stops_all: true, times }
    }

    #[test]
    fn stalls_explain_what_waits_for_them_and_others_do_not() {
        let planted: Vec<[u64; 2]> =
            [700, 2_900, 4_400, 7_777, 9_100].map(|at| [at * MS, (at + 200) * MS]).into();
        let elsewhere: Vec<[u64; 2]> = [100, 1_900, 5_600, 8_300].map(|at| [at * MS, (at + 150) * MS]).into();
        let requests = window(10, &planted);
        let found = explain(&requests, &[waits(elsewhere), waits(planted)]).unwrap();
        assert_eq!((found.quantile, found.median_ns), (0.999, MS));
        assert_eq!(found.slow.len(), 10);
        assert!(found.slow.iter().all(|(_, cause)| *cause == Some(1)), "{:?}", found.slow);
        assert_eq!(found.is_beyond_chance, [false, true]);
    }

    #[test]
    fn a_short_stall_does_not_explain_a_long_wait() {
        let planted = every(10, 300 * MS, 200 * MS);
        let short = every(10, 350 * MS, 20 * MS);
        let found = explain(&window(10, &planted), &[stalls(0, short)]).unwrap();
        assert!(found.slow.iter().all(|(_, cause)| cause.is_none()));
        assert_eq!(found.is_beyond_chance, [false]);
    }

    #[test]
    fn a_wait_behind_a_stall_belongs_to_it() {
        // Ten requests after the stall still wait in its queue.
        let mut requests = window(10, &[[5_000 * MS, 5_200 * MS]]);
        for (place, request) in requests[5_200..5_210].iter_mut().enumerate() {
            request.ended_ns += (203 - place as u64) * MS;
        }
        let found = explain(&requests, &[stalls(0, vec![[5_000 * MS, 5_200 * MS]])]).unwrap();
        let behind = found.slow.iter().filter(|(slow, _)| slow.due_ns >= 5_200 * MS);
        assert!(behind.clone().count() > 0 && behind.clone().all(|(_, cause)| *cause == Some(0)));
    }

    #[test]
    fn the_smaller_rank_goes_first_and_then_the_longer_stall() {
        let planted = vec![[5_000 * MS, 5_200 * MS]];
        let part = vec![[5_050 * MS, 5_200 * MS]];
        let of = |causes: &[Stalls]| explain(&window(10, &planted), causes).unwrap().slow[0].1;
        assert_eq!(of(&[stalls(2, planted.clone()), stalls(1, part.clone())]), Some(1));
        assert_eq!(of(&[stalls(1, part), stalls(1, planted.clone())]), Some(1));
    }

    #[test]
    fn what_stops_all_needs_no_test_and_a_thread_that_always_waits_explains_nothing() {
        // A fifth of the requests wait for a second or so; a thread waits most of the time, whatever the requests do.
        let planted = every(10, 300 * MS, 200 * MS);
        let always: Vec<[u64; 2]> =
            (0..100).map(|tenth| [tenth * 100 * MS, (tenth * 100 + 80) * MS]).collect();
        let causes = [waits(always.clone()), stalls(1, always), waits(planted.clone())];
        let found = explain(&window(10, &planted), &causes).unwrap();
        assert_eq!(found.is_beyond_chance, [false, true, true]);
    }

    #[test]
    fn the_binomial_tail_is_that_of_a_table() {
        assert!((tail_of_binomial(10, 0.5, 8) - 56.0 / 1024.0).abs() < 1e-9);
        assert!((tail_of_binomial(3, 0.1, 0) - 1.0).abs() < 1e-9);
        assert!(tail_of_binomial(1, 0.0, 1) < 1e-9 && tail_of_binomial(5_000, 0.01, 4_000) < 1e-9);
        assert!((tail_of_binomial(4, 1.0, 4) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn few_requests_have_no_tail_and_some_a_nearer_one() {
        assert_eq!(explain(&window(1, &[])[..99], &[]), None);
        assert_eq!(explain(&window(1, &[])[..100], &[]).unwrap().quantile, 0.9);
        assert_eq!(explain(&window(1, &[]), &[]).unwrap().quantile, 0.99);
        let equal = explain(&window(10, &[]), &[]).unwrap();
        assert!(equal.slow.is_empty(), "none is slower than the others");
    }

    proptest::proptest! {
        #[test]
        fn no_times_panic(
            times in proptest::collection::vec([proptest::num::u64::ANY, proptest::num::u64::ANY], 0..40),
            stalled in proptest::collection::vec([proptest::num::u64::ANY, proptest::num::u64::ANY], 0..10),
        ) {
            let requests: Vec<Request> =
                times.iter().cycle().take(200).map(|[due_ns, ended_ns]| Request { due_ns: *due_ns, ended_ns: *ended_ns }).collect();
            let _ = explain(&requests, &[stalls(0, stalled)]);
        }
    }
}
