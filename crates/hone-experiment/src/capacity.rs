//! The search for the highest rate that meets an SLO. Pure: takes measurements, and returns the next rate.
//!
//! It raises the rate by a factor until the SLO breaks. Then it bisects with the geometric mean until both bounds are close. Then
//! it confirms both: the lower bound must meet the SLO in all of its windows, and the upper one must break it in all of its
//! windows. A rate with both results belongs to neither: its bound moves away from it. So noise makes the interval wider, but not
//! wrong.

use std::collections::BTreeMap;

use hone_record::{CapacityDesign, CapacityEnd};

/// The result of a window for the SLO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    Held,
    Broke,
    /// The generator fell behind, so the window has no result about the target.
    Late,
}

/// The next step.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    Measure(f64),
    Done(Knee),
}

/// The capacity, where the SLO breaks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Knee {
    pub held: Option<f64>,
    pub failed: Option<f64>,
    pub end: CapacityEnd,
}

/// Windows at one rate.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    held: u32,
    broke: u32,
    late: u32,
}

/// If the generator fell behind twice at a rate, it can't sustain that rate.
const LATE_IS_LATE: u32 = 2;

/// Windows that must break the SLO before the search gives up half of the rates.
const SECOND_LOOK: u32 = 2;

/// Rates of a search, in thousandths, so that they compare exactly.
type Tallies = BTreeMap<u64, Tally>;

fn key(requests_per_s: f64) -> u64 {
    (requests_per_s * 1e3).round() as u64
}

fn rate(key: u64) -> f64 {
    key as f64 / 1e3
}

/// Four digits are finer than any allowed precision, and readable.
fn rounded(requests_per_s: f64) -> f64 {
    let unit = 10f64.powf(requests_per_s.log10().floor() - 3.0);
    (requests_per_s / unit).round() * unit
}

/// The next step after these windows.
pub(crate) fn next(design: &CapacityDesign, measured: &[(f64, Said)]) -> Next {
    let mut tallies = Tallies::new();
    for (at, said) in measured {
        let tally = tallies.entry(key(*at)).or_default();
        match said {
            Said::Held => tally.held += 1,
            Said::Broke => tally.broke += 1,
            Said::Late => tally.late += 1,
        }
    }
    let search = Search { design, tallies };
    let next = search.next();
    match next {
        Next::Measure(_) if measured.len() >= design.most_windows as usize => {
            Next::Done(search.confirmed(CapacityEnd::OutOfWindows))
        }
        next => next,
    }
}

struct Search<'a> {
    design: &'a CapacityDesign,
    tallies: Tallies,
}

impl Search<'_> {
    fn next(&self) -> Next {
        let design = self.design;
        if self.tallies.is_empty() {
            return self.measure(design.start_requests_per_s);
        }
        // By majority, so that one disturbed window does not mislead the search.
        let lower = self.highest(|tally| tally.held > tally.broke);
        let Some(lower) = lower else { return self.below() };
        let upper =
            self.tallies.range(lower + 1..).find(|(_, tally)| tally.broke > 0 && tally.broke >= tally.held);
        let Some((&upper, tally)) = upper else { return self.above(lower) };
        let apart = rate(upper) / rate(lower);
        // In important places, one disturbed window must not mislead the search.
        if apart > design.growth.sqrt() && (tally.broke < SECOND_LOOK || tally.broke == tally.held) {
            return self.measure(rate(upper));
        }
        if apart > design.precision {
            let middle = rounded((rate(lower) * rate(upper)).sqrt());
            // Close to the capacity the generator may fail, whatever it sustains above it.
            if self.is_late(key(middle)) {
                return self.confirm(lower, Some(upper), CapacityEnd::GeneratorLate);
            }
            // Rounding must not return a bound again.
            if key(middle) > lower && key(middle) < upper {
                return self.measure(middle);
            }
        }
        self.confirm(lower, Some(upper), CapacityEnd::Found)
    }

    fn measure(&self, at: f64) -> Next {
        Next::Measure(at.clamp(self.design.least_requests_per_s, self.design.most_requests_per_s))
    }

    fn highest(&self, accept: impl Fn(&Tally) -> bool) -> Option<u64> {
        self.tallies.iter().rev().find(|(_, tally)| accept(tally)).map(|(key, _)| *key)
    }

    fn is_late(&self, at: u64) -> bool {
        self.tallies.get(&at).is_some_and(|tally| tally.late >= LATE_IS_LATE)
    }

    /// No rate meets the SLO so far.
    fn below(&self) -> Next {
        let design = self.design;
        let Some((&lowest, tally)) = self.tallies.first_key_value() else {
            return self.measure(design.start_requests_per_s);
        };
        let is_first = self.tallies.len() == 1;
        if !self.is_late(lowest) && (tally.broke == 0 || is_first && tally.broke < SECOND_LOOK) {
            return self.measure(rate(lowest));
        }
        if lowest <= key(design.least_requests_per_s) {
            if self.is_late(lowest) {
                return Next::Done(Knee { held: None, failed: None, end: CapacityEnd::GeneratorLate });
            }
            return match tally.broke < design.confirmations && tally.held == 0 {
                true => self.measure(rate(lowest)),
                false => Next::Done(self.confirmed(CapacityEnd::NothingHeld)),
            };
        }
        self.measure(rounded(rate(lowest) / design.growth))
    }

    /// Every rate above meets the SLO so far.
    fn above(&self, lower: u64) -> Next {
        let design = self.design;
        if let Some((&late, tally)) = self.tallies.range(lower + 1..).find(|(_, tally)| tally.late > 0) {
            // A neighbour can delay a generator once.
            return match tally.late < LATE_IS_LATE {
                true => self.measure(rate(late)),
                false => self.confirm(lower, None, CapacityEnd::GeneratorLate),
            };
        }
        if lower >= key(design.most_requests_per_s) {
            return self.confirm(lower, None, CapacityEnd::NotReached);
        }
        self.measure(rounded(rate(lower) * design.growth))
    }

    /// Repeats the bounds until all windows of each agree, and moves them apart if they do not.
    fn confirm(&self, lower: u64, upper: Option<u64>, end: CapacityEnd) -> Next {
        let Ok(held) = self.confirmed_end(lower, Said::Held) else {
            return Next::Done(self.confirmed(CapacityEnd::NothingHeld));
        };
        if let Settled::Open(at) = held {
            return self.measure(at);
        }
        let Some(upper) = upper else { return Next::Done(self.confirmed(end)) };
        match self.confirmed_end(upper, Said::Broke) {
            Ok(Settled::Open(at)) if self.is_late(key(at)) => {
                Next::Done(self.confirmed(CapacityEnd::GeneratorLate))
            }
            Ok(Settled::Open(at)) => self.measure(at),
            Ok(Settled::Closed) => Next::Done(self.confirmed(end)),
            Err(BeyondReach) => Next::Done(self.confirmed(CapacityEnd::NotReached)),
        }
    }

    /// Moves from a bound away from the capacity, to the first rate without a contradiction.
    fn confirmed_end(&self, from: u64, wanted: Said) -> Result<Settled, BeyondReach> {
        let (mut at, mut step) = (from, self.design.precision);
        loop {
            let tally = self.tallies.get(&at).copied().unwrap_or_default();
            let (agree, contradict) = match wanted {
                Said::Held => (tally.held, tally.broke),
                _ => (tally.broke, tally.held),
            };
            if contradict == 0 {
                return Ok(match agree >= self.design.confirmations {
                    true => Settled::Closed,
                    false => Settled::Open(rate(at)),
                });
            }
            let away = match wanted {
                Said::Held => rate(at) / step,
                _ => rate(at) * step,
            };
            let limits = self.design.least_requests_per_s..=self.design.most_requests_per_s;
            if !limits.contains(&away) {
                return Err(BeyondReach);
            }
            at = key(rounded(away));
            // Noise that exceeds one step also exceeds the next.
            step *= step.sqrt();
        }
    }

    /// The confirmed bounds, whatever ends the search.
    fn confirmed(&self, end: CapacityEnd) -> Knee {
        let enough = self.design.confirmations;
        let held = self.highest(|tally| tally.broke == 0 && tally.held >= enough);
        let above = held.map_or(0, |held| held + 1);
        let mut failing = self.tallies.range(above..);
        let failed = failing.find(|(_, tally)| tally.held == 0 && tally.broke >= enough).map(|(key, _)| *key);
        Knee { held: held.map(rate), failed: failed.map(rate), end }
    }
}

enum Settled {
    /// This many windows agree.
    Closed,
    /// This rate needs more windows.
    Open(f64),
}

/// The allowed rates end before a bound was found.
struct BeyondReach;

#[cfg(test)]
mod tests {
    use super::*;

    fn design() -> CapacityDesign {
        CapacityDesign {
            promise: vec!["p99 <= 10 ms".to_owned()],
            start_requests_per_s: 1_000.0,
            least_requests_per_s: 200.0,
            most_requests_per_s: 1e6,
            growth: 2.0,
            precision: 1.05,
            confirmations: 4,
            most_windows: 80,
        }
    }

    /// Runs a search against a simulated target; returns the capacity and the number of windows.
    fn search(design: &CapacityDesign, mut target: impl FnMut(f64) -> Said) -> (Knee, usize) {
        let mut measured = Vec::new();
        loop {
            match next(design, &measured) {
                Next::Measure(at) => measured.push((at, target(at))),
                Next::Done(knee) => return (knee, measured.len()),
            }
            assert!(measured.len() <= design.most_windows as usize);
        }
    }

    fn sharp(capacity: f64) -> impl FnMut(f64) -> Said {
        move |at| if at <= capacity { Said::Held } else { Said::Broke }
    }

    /// SplitMix64.
    struct Numbers(u64);

    impl Numbers {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
        }
    }

    #[test]
    fn a_sharp_knee_is_found_wherever_it_lies() {
        for capacity in [201.0, 999.0, 1_000.0, 1_001.0, 1_234.5, 7_777.0, 150_000.0, 900_000.0] {
            let (knee, windows) = search(&design(), sharp(capacity));
            let (held, failed) = (knee.held.unwrap(), knee.failed.unwrap());
            assert_eq!(knee.end, CapacityEnd::Found, "{capacity}");
            assert!(held <= capacity && capacity < failed, "{held} .. {failed}, truly {capacity}");
            assert!(failed / held <= 1.051, "{held} .. {failed}");
            assert!(windows <= 24, "{windows} windows for {capacity}");
        }
    }

    /// A queue: its p99 grows as 1/(1 - load), and a window measures it with log-normal noise. About every hundredth window is
    /// disturbed by a neighbour and fails at any rate.
    fn noisy(capacity: f64, noise: f64, disturbed: f64, seed: u64) -> impl FnMut(f64) -> Said {
        let mut numbers = Numbers(seed);
        // The p99 at the capacity equals the SLO by construction; the queue itself would break down a quarter
        // above it.
        let breakdown = capacity * 1.25;
        let p99 = move |at: f64| if at < breakdown { 1.0 / (1.0 - at / breakdown) } else { f64::INFINITY };
        move |at| {
            let measured = p99(at) * (noise * numbers.normal()).exp();
            let is_disturbed = numbers.unit() < disturbed;
            if measured <= p99(capacity) && !is_disturbed { Said::Held } else { Said::Broke }
        }
    }

    /// The statement of the documentation: nine in ten intervals contain the truth, however noisy the windows are.
    #[test]
    fn the_interval_of_a_noisy_target_holds_the_truth() {
        const SEARCHES: u64 = 400;
        for (noise, disturbed) in [(0.0, 0.0), (0.05, 0.0), (0.1, 0.01), (0.2, 0.02), (0.4, 0.02)] {
            let (mut right, mut width, mut windows) = (0, 0.0, 0);
            for seed in 0..SEARCHES {
                let capacity = 3_000.0 * (1.0 + seed as f64 / SEARCHES as f64);
                let (knee, took) = search(&design(), noisy(capacity, noise, disturbed, seed));
                let held = knee.held.unwrap_or(0.0);
                let failed = knee.failed.unwrap_or(f64::INFINITY);
                right += u64::from(held <= capacity && capacity <= failed);
                width += (failed.min(1e6) / held.max(1.0)).ln() / SEARCHES as f64;
                windows += took;
            }
            let share = right as f64 / SEARCHES as f64;
            let windows = windows as f64 / SEARCHES as f64;
            println_for_the_curious(&format!(
                "noise {noise}, disturbed {disturbed}: right {share:.3}, width {:.3}, windows {windows:.1}",
                width.exp()
            ));
            assert!(share >= 0.9, "noise {noise}: {share} of the intervals hold the truth");
            assert!(width.exp() < 2.0, "noise {noise}: the intervals are {} wide", width.exp());
        }
    }

    #[expect(clippy::print_stdout, reason = "shown with --nocapture only")]
    fn println_for_the_curious(text: &str) {
        println!("{text}");
    }

    #[test]
    fn one_disturbed_window_on_the_way_up_does_not_cap_the_search() {
        let mut window = 0;
        let (knee, _) = search(&design(), |at| {
            window += 1;
            if window == 2 || at > 50_000.0 { Said::Broke } else { Said::Held }
        });
        let (held, failed) = (knee.held.unwrap(), knee.failed.unwrap());
        assert!(held <= 50_000.0 && failed > 50_000.0, "{held} .. {failed}");
        assert!(held > 1_999.0, "{held}");
    }

    #[test]
    fn a_late_generator_is_the_limit_and_says_so() {
        let (knee, _) = search(&design(), |at| if at > 20_000.0 { Said::Late } else { Said::Held });
        assert_eq!(knee, Knee { held: Some(16_000.0), failed: None, end: CapacityEnd::GeneratorLate });
        let (knee, windows) = search(&design(), |_| Said::Late);
        assert_eq!((knee.end, knee.held), (CapacityEnd::GeneratorLate, None));
        assert!(windows < 20);
        let mut window = 0;
        let (knee, _) = search(&design(), |at| {
            window += 1;
            if window == 3 { Said::Late } else { sharp(20_000.0)(at) }
        });
        assert_eq!(knee.end, CapacityEnd::Found, "late once is no limit");
    }

    /// The bounds are far apart then, which is not the requested precision.
    #[test]
    fn a_generator_that_is_late_between_the_ends_is_told() {
        let (knee, _) = search(&design(), |at| match at {
            1_100.0..1_900.0 => Said::Late,
            at => sharp(1_500.0)(at),
        });
        let (held, failed) = (Some(1_000.0), Some(2_000.0));
        assert_eq!(knee, Knee { held, failed, end: CapacityEnd::GeneratorLate });
    }

    #[test]
    fn the_ends_of_what_may_be_tried_are_told() {
        let (knee, _) = search(&design(), |_| Said::Held);
        assert_eq!(knee, Knee { held: Some(1e6), failed: None, end: CapacityEnd::NotReached });
        let (knee, _) = search(&design(), |_| Said::Broke);
        assert_eq!(knee, Knee { held: None, failed: Some(200.0), end: CapacityEnd::NothingHeld });
        let few = CapacityDesign { most_windows: 5, ..design() };
        let (knee, windows) = search(&few, sharp(30_000.0));
        assert_eq!((knee.end, windows), (CapacityEnd::OutOfWindows, 5));
        assert_eq!((knee.held, knee.failed), (None, None), "nothing was confirmed");
    }
}
