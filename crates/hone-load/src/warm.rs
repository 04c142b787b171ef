//! Whether a target is warm: a defined test over slices of the warm-up.
//!
//! A cold target interprets code that it will compile, and fills its caches and pools. So its CPU per request and its latency fall from
//! slice to slice. The warm-up continues until both stop falling and the just-in-time compiler is nearly idle.

use hone_record::{WarmUp, WarmUpEnd};

/// CPU that the target's processes have used up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Effort {
    /// CPU time.
    pub cpu_s: f64,
    /// The part of it in threads that compile the program while it runs; `None` without such threads.
    pub compiling_s: Option<f64>,
}

/// Measures the target of a load.
pub trait Target {
    /// CPU used up to now; `None` if the processes are unknown.
    fn effort(&mut self) -> Option<Effort>;
}

/// A target whose CPU is unknown. Its latency alone decides.
#[derive(Debug, Clone, Copy)]
pub struct Unseen;

impl Target for Unseen {
    fn effort(&mut self) -> Option<Effort> {
        None
    }
}

/// A slice of the warm-up.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slice {
    pub(crate) requests: u64,
    pub(crate) took_s: f64,
    pub(crate) used: Option<Effort>,
    /// Median latency from sending to the answer, in microseconds.
    pub(crate) latency_us_p50: Option<f64>,
}

impl Slice {
    fn cpu_us(&self) -> Option<f64> {
        Some(self.used?.cpu_s * 1e6 / self.requests.max(1) as f64)
    }

    /// Share of its CPU that its compiler threads used.
    fn compiling_share(&self) -> Option<f64> {
        let used = self.used?;
        Some(used.compiling_s? / used.cpu_s.max(f64::MIN_POSITIVE))
    }
}

/// Number of slices of the requested warm-up.
pub(crate) const PARTS: u64 = 8;
/// A slice with fewer requests is not enough for a judgement.
pub(crate) const FEWEST_REQUESTS: u64 = 100;
/// Length of a further slice, and of a slice of a target that compiles itself, in seconds.
pub(crate) const SLICE_S: f64 = 0.25;
pub(crate) const SLICE_OF_A_COMPILER_S: f64 = 1.0;
/// Further slices are sent at most at this multiple of the load's rate, so that a warm-up does not fill the topic.
pub(crate) const MOST_TIMES_THE_RATE: f64 = 10.0;

/// The last slices are compared with as many before them: the mean of the last must not be lower by more than this share. The value is our
/// own choice. Slices of a warm target scatter by a few per cent, and a target that gains less than this per second is warm in a few more.
const FALL: f64 = 0.05;
/// Number of slices on each side.
const BESIDE: usize = 2;
/// A target that compiles itself needs this many consecutive slices with almost no compilation.
const QUIET: usize = 3;
/// Share of the CPU that counts as almost no compilation.
const NEXT_TO_NOTHING: f64 = 0.05;

/// Result of the slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// There are too few slices.
    TooFew,
    /// CPU per request or latency still falls.
    Falling,
    /// A compiler thread is busy.
    Compiling,
    /// The target is warm.
    Steady,
}

/// The test.
pub(crate) fn state(slices: &[Slice]) -> State {
    if compiles(slices) {
        let Some(last) = slices.len().checked_sub(QUIET).and_then(|from| slices.get(from..)) else {
            return State::TooFew;
        };
        if last.iter().any(|slice| slice.compiling_share().is_none_or(|share| share > NEXT_TO_NOTHING)) {
            return State::Compiling;
        }
    }
    let Some(last) = slices.len().checked_sub(2 * BESIDE).and_then(|from| slices.get(from..)) else {
        return State::TooFew;
    };
    let (before, after) = last.split_at(BESIDE);
    let falls = |of: fn(&Slice) -> Option<f64>| {
        let mean = |slices: &[Slice]| {
            slices.iter().map(of).sum::<Option<f64>>().map(|sum| sum / slices.len() as f64)
        };
        mean(before).zip(mean(after)).is_some_and(|(before, after)| after < before * (1.0 - FALL))
    };
    if falls(Slice::cpu_us) || falls(|slice| slice.latency_us_p50) { State::Falling } else { State::Steady }
}

/// Whether the target compiles itself.
pub(crate) fn compiles(slices: &[Slice]) -> bool {
    slices.iter().any(|slice| slice.compiling_share().is_some())
}

/// The part of the result that the record keeps.
pub(crate) fn account(slices: &[Slice], end: WarmUpEnd) -> WarmUp {
    let ends = |of: fn(&Slice) -> Option<f64>| Some([of(slices.first()?)?, of(slices.last()?)?]);
    WarmUp {
        took_s: slices.iter().map(|slice| slice.took_s).sum(),
        requests: slices.iter().map(|slice| slice.requests).sum(),
        end,
        cpu_us_per_request: ends(Slice::cpu_us),
        latency_us_p50: ends(|slice| slice.latency_us_p50),
        compiling_share: slices.last().and_then(Slice::compiling_share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slices(cpu_us: &[f64], compiling: Option<&[f64]>) -> Vec<Slice> {
        let of = |(index, cpu_us): (usize, &f64)| {
            let cpu_s = cpu_us * 1_000.0 / 1e6;
            let compiling_s = compiling.map(|shares| shares[index] * cpu_s);
            Slice {
                requests: 1_000,
                took_s: 0.5,
                used: Some(Effort { cpu_s, compiling_s }),
                latency_us_p50: Some(100.0),
            }
        };
        cpu_us.iter().enumerate().map(of).collect()
    }

    #[test]
    fn cpu_that_falls_is_seen_and_scatter_is_not() {
        assert_eq!(state(&slices(&[50.0; 3], None)), State::TooFew);
        assert_eq!(state(&slices(&[90.0, 60.0, 50.0, 51.0, 49.0, 50.5], None)), State::Steady);
        assert_eq!(state(&slices(&[100.0, 90.0, 80.0, 72.0], None)), State::Falling);
        assert_eq!(state(&slices(&[50.0, 60.0, 70.0, 80.0], None)), State::Steady, "a rise is not a warm-up");
    }

    #[test]
    fn a_target_that_compiles_is_not_steady_before_its_compiler_is_quiet() {
        let flat = [100.0; 6];
        assert_eq!(state(&slices(&flat, Some(&[0.5, 0.4, 0.3, 0.3, 0.2, 0.2]))), State::Compiling);
        assert_eq!(state(&slices(&flat, Some(&[0.5, 0.4, 0.04, 0.01, 0.2, 0.01]))), State::Compiling);
        assert_eq!(state(&slices(&flat, Some(&[0.5, 0.4, 0.2, 0.01, 0.02, 0.01]))), State::Steady);
        let falling = [400.0, 300.0, 200.0, 150.0, 120.0, 100.0];
        assert_eq!(state(&slices(&falling, Some(&[0.0; 6]))), State::Falling);
    }

    #[test]
    fn latency_alone_tells_of_a_target_that_nobody_sees() {
        let unseen = |latencies: [f64; 4]| {
            latencies.map(|us| Slice { requests: 100, took_s: 0.1, used: None, latency_us_p50: Some(us) })
        };
        assert_eq!(state(&unseen([900.0, 700.0, 500.0, 400.0])), State::Falling);
        assert_eq!(state(&unseen([500.0, 480.0, 490.0, 495.0])), State::Steady);
    }
}
