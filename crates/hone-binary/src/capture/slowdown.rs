//! The slowdown of the instrumented program, and the losses of its counters.

use std::fmt;
use std::time::Duration;

use hone_record::median;
use hone_tool::{Call, Runner};
use serde::{Deserialize, Serialize};

use super::refusal::CaptureRefusal;
use crate::refusal::Refusal;

/// The least duration of a burst of the plain program, so that the driver's own start has no effect.
const BURST: Duration = Duration::from_millis(200);

/// Bursts of each program, in turns.
const BURSTS: usize = 3;

/// The most operations of a burst.
const MOST_OPERATIONS: u64 = 1 << 32;

/// The most that a limit is extended to.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The driven server of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driven {
    /// The one without instrumentation.
    Plain,
    /// The one with it.
    Instrumented,
}

/// How much slower the instrumented program serves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SlowDown {
    /// Operations per second of the plain program, median of the bursts.
    pub plain_per_s: f64,
    /// Those of the instrumented one.
    pub instrumented_per_s: f64,
}

impl SlowDown {
    /// From the rates of bursts, in operations per second. The median excludes one disturbed burst.
    ///
    /// # Errors
    /// [`CaptureRefusal::NoRate`] if one of the two has no rate above 0.
    pub fn from_rates(plain_per_s: &[f64], instrumented_per_s: &[f64]) -> Result<Self, CaptureRefusal> {
        let plain = middle(plain_per_s).ok_or(CaptureRefusal::NoRate { which: "plain" })?;
        let instrumented =
            middle(instrumented_per_s).ok_or(CaptureRefusal::NoRate { which: "instrumented" })?;
        Ok(Self { plain_per_s: plain, instrumented_per_s: instrumented })
    }

    /// The plain rate over the instrumented one, at least 1: a program that seems faster with counters was disturbed.
    pub fn factor(self) -> f64 {
        (self.plain_per_s / self.instrumented_per_s).max(1.0)
    }

    /// The rate at which the instrumented program is as busy as the plain one at `plain_per_s`.
    pub fn rate(self, plain_per_s: f64) -> f64 {
        plain_per_s / self.factor()
    }

    /// The time of the instrumented program for the work that the plain one does in `plain`; a day at most.
    pub fn limit(self, plain: Duration) -> Duration {
        let scaled = plain.as_secs_f64() * self.factor();
        Duration::try_from_secs_f64(scaled).map_or(LONGEST, |limit| limit.min(LONGEST))
    }
}

impl fmt::Display for SlowDown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = self.factor();
        write!(
            formatter,
            "the instrumented program is {factor:.2} times slower: Hone divides the training's rate by that \
             factor, "
        )?;
        formatter.write_str("and multiplies the time limits by it")
    }
}

/// The bursts with a rate.
fn middle(rates: &[f64]) -> Option<f64> {
    median(rates.iter().copied().filter(|rate| rate.is_finite() && *rate > 0.0))
}

/// Drives both servers in turns for a second or two. `drive` makes the call that sends this number of operations to one of them.
///
/// # Errors
/// Fails when a call fails, and with [`CaptureRefusal::NoRate`].
pub fn measure_slow_down(
    runner: &dyn Runner,
    drive: impl Fn(Driven, u64) -> Call,
) -> anyhow::Result<SlowDown> {
    let operations = operations_of_a_burst(runner, &drive)?;
    let (mut plain, mut instrumented) = (Vec::new(), Vec::new());
    for _ in 0..BURSTS {
        for (which, rates) in [(Driven::Plain, &mut plain), (Driven::Instrumented, &mut instrumented)] {
            let took = runner.run(&drive(which, operations))?.took;
            rates.push(operations as f64 / took.as_secs_f64());
        }
    }
    Ok(SlowDown::from_rates(&plain, &instrumented).map_err(Refusal::from)?)
}

fn operations_of_a_burst(runner: &dyn Runner, drive: &impl Fn(Driven, u64) -> Call) -> anyhow::Result<u64> {
    let mut operations = 100;
    while operations < MOST_OPERATIONS && runner.run(&drive(Driven::Plain, operations))?.took < BURST {
        operations *= 4;
    }
    Ok(operations)
}

/// The losses of plain counters when several threads run the same code: of two concurrent increments, one is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterLoss {
    /// The count in the profile.
    pub counted: u64,
    /// The true count: requests of the driver, for a function that runs once per request.
    pub done: u64,
}

impl CounterLoss {
    /// The share that is missing, from 0 to 1; `None` when nothing was done.
    pub fn share(self) -> Option<f64> {
        (self.done > 0).then(|| self.done.saturating_sub(self.counted) as f64 / self.done as f64)
    }
}

impl fmt::Display for CounterLoss {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(share) = self.share() else {
            return formatter.write_str("no calls ran, and the counters counted none");
        };
        write!(formatter, "the counters miss {:.1} % of {} calls", share * 100.0, self.done)?;
        if self.counted < self.done {
            formatter.write_str(
                ": concurrent threads overwrite each other's increments; -fprofile-update=atomic counts \
                 all, but is slower",
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_shrink_and_limits_grow_by_the_same_factor() {
        let slow = SlowDown::from_rates(&[900.0, 1000.0, 5000.0], &[250.0, 260.0, 10.0]).unwrap();
        assert_eq!((slow.plain_per_s, slow.instrumented_per_s), (1000.0, 250.0));
        assert_eq!((slow.factor(), slow.rate(800.0)), (4.0, 200.0));
        assert_eq!(slow.limit(Duration::from_secs(30)), Duration::from_secs(120));
        assert_eq!(slow.limit(Duration::MAX), LONGEST);
        assert!(slow.to_string().starts_with("the instrumented program is 4.00 times slower"));
        let faster = SlowDown::from_rates(&[1.0, 3.0], &[4.0]).unwrap();
        assert_eq!((faster.plain_per_s, faster.factor()), (2.0, 1.0));
    }

    #[test]
    fn no_rate_is_no_factor() {
        for rates in [&[][..], &[0.0, f64::NAN, f64::INFINITY, -1.0]] {
            assert_eq!(SlowDown::from_rates(rates, &[1.0]), Err(CaptureRefusal::NoRate { which: "plain" }));
            assert_eq!(
                SlowDown::from_rates(&[1.0], rates),
                Err(CaptureRefusal::NoRate { which: "instrumented" })
            );
        }
    }

    #[test]
    fn a_loss_is_a_share_of_what_was_done() {
        let loss = |counted, done| CounterLoss { counted, done };
        assert_eq!(loss(75, 100).share(), Some(0.25));
        assert_eq!((loss(101, 100).share(), loss(1, 0).share()), (Some(0.0), None));
        assert!(
            loss(75, 100)
                .to_string()
                .starts_with("the counters miss 25.0 % of 100 calls: concurrent threads")
        );
        assert_eq!(loss(9, 9).to_string(), "the counters miss 0.0 % of 9 calls");
    }
}
