//! A gate for CI: figures of a layout, held against what was learned of them. They come of an exact trace, so a machine without counters
//! and with noisy neighbours gives the same as any other. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hone_record::CodeLayout;
use serde::{Deserialize, Serialize};

/// How much a figure may grow where all repeats were the same: another version of a library moves it a little.
const LEAST_TOLERANCE: f64 = 0.01;
/// Where they differed: so many times their spread, since a few repeats do not see all of it.
const TIMES_THE_SPREAD: f64 = 2.0;
/// Misses and pages below this are too few for shares to say anything.
const SLACK_PER_1000: f64 = 0.05;
const SLACK_UNITS: f64 = 1.0;

/// What may be.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budget {
    /// What was traced, in words.
    #[serde(default)]
    pub(crate) of: String,
    /// By name.
    pub(crate) figures: BTreeMap<String, Allowed>,
}

/// What a figure may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Allowed {
    /// As it was learned.
    pub(crate) value: f64,
    /// It may be this share above.
    pub(crate) tolerance: f64,
}

/// One figure now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Held {
    pub(crate) name: String,
    pub(crate) allowed: Allowed,
    /// `None` where this run does not have it.
    pub(crate) now: Option<f64>,
    pub(crate) outcome: Outcome,
}

/// What follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    Within,
    /// Below by more than the tolerance: worth learning anew.
    Better,
    Worse,
    Missing,
}

/// The figures of a layout by their names. `operations` are those of its load, where there is one.
pub(crate) fn figures(layout: &CodeLayout, operations: Option<u64>) -> BTreeMap<String, f64> {
    let mut figures: BTreeMap<String, f64> = layout
        .misses
        .iter()
        .map(|missed| (format!("{}, misses in 1,000 instructions", missed.structure), missed.per_1000))
        .collect();
    if let Some(taken) = layout.taken_per_1000 {
        figures.insert("branches taken in 1,000 instructions".to_owned(), taken);
    }
    for footprint in &layout.footprints {
        let name = format!("{} that hold 99 % of the execution", crate::show::diagnosis::unit(footprint.unit_bytes));
        figures.insert(name, footprint.units[2] as f64);
    }
    let instructions = layout.instructions as f64;
    match operations.filter(|operations| *operations > 0) {
        Some(operations) => figures.insert("instructions of an operation".to_owned(), instructions / operations as f64),
        None => figures.insert("instructions".to_owned(), instructions),
    };
    figures
}

/// A budget out of repeats of the same.
pub(crate) fn learn(of: String, repeats: &[BTreeMap<String, f64>]) -> Budget {
    let Some(first) = repeats.first() else { return Budget { of, figures: BTreeMap::new() } };
    let figures = first.keys().filter_map(|name| {
        let values: Vec<f64> = repeats.iter().map(|repeat| repeat.get(name).copied()).collect::<Option<_>>()?;
        let (least, most) = values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)));
        let middle = (least + most) / 2.0;
        let spread = if middle > 0.0 { (most - least) / middle } else { 0.0 };
        let tolerance = (TIMES_THE_SPREAD * spread).max(LEAST_TOLERANCE);
        Some((name.clone(), Allowed { value: round(middle), tolerance: round(tolerance) }))
    });
    Budget { of, figures: figures.collect() }
}

/// Six digits are more than any of it means, and no noise of floating point.
fn round(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Holds figures against a budget.
pub(crate) fn hold(budget: &Budget, now: &BTreeMap<String, f64>) -> Vec<Held> {
    let held = budget.figures.iter().map(|(name, allowed)| {
        let now = now.get(name).copied();
        let slack = if name.contains("1,000") { SLACK_PER_1000 } else { SLACK_UNITS };
        let room = (allowed.value * allowed.tolerance).max(slack);
        let outcome = match now {
            None => Outcome::Missing,
            Some(now) if now > allowed.value + room => Outcome::Worse,
            Some(now) if now < allowed.value - room => Outcome::Better,
            Some(_) => Outcome::Within,
        };
        Held { name: name.clone(), allowed: *allowed, now, outcome }
    });
    held.collect()
}

/// The file of a budget, with what it is for.
pub(crate) fn text(budget: &Budget) -> String {
    let mut text = format!(
        "# Learned by hone diagnose --learn; hone diagnose --gate holds a run against it.\n# A figure may be `tolerance` (a share) above \
         its value. Keep this file with the sources.\nof = {}\n",
        toml::Value::from(budget.of.clone())
    );
    for (name, Allowed { value, tolerance }) in &budget.figures {
        let name = toml::Value::from(name.clone());
        let _ = write!(text, "\n[figures.{name}]\nvalue = {value:?}\ntolerance = {tolerance:?}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[(&str, f64)]) -> BTreeMap<String, f64> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    const MISSES: &str = "L1i 32 KiB 8-way, misses in 1,000 instructions";

    #[test]
    fn what_repeats_tell_is_the_tolerance() {
        let budget = learn("x".to_owned(), &[of(&[(MISSES, 10.0), ("a", 7.0)]), of(&[(MISSES, 11.0), ("a", 7.0)])]);
        let misses = budget.figures[MISSES];
        assert!((misses.value - 10.5).abs() < 1e-9 && (misses.tolerance - 2.0 / 10.5).abs() < 1e-4, "{misses:?}");
        assert_eq!(budget.figures["a"], Allowed { value: 7.0, tolerance: 0.01 });
        let read: Budget = toml::from_str(&text(&budget)).unwrap();
        assert_eq!(read, budget);
    }

    #[test]
    fn growth_beyond_the_tolerance_is_worse_and_what_is_not_there_is_told() {
        let budget = learn("x".to_owned(), &[of(&[(MISSES, 10.0), ("pages", 100.0), ("gone", 1.0)])]);
        let outcomes = |misses: f64, pages: f64| -> Vec<Outcome> {
            hold(&budget, &of(&[(MISSES, misses), ("pages", pages)])).iter().map(|held| held.outcome).collect()
        };
        assert_eq!(outcomes(10.05, 101.0), [Outcome::Within, Outcome::Missing, Outcome::Within]);
        assert_eq!(outcomes(10.2, 90.0), [Outcome::Worse, Outcome::Missing, Outcome::Better]);
    }

    #[test]
    fn a_hundredth_of_a_miss_is_no_regression() {
        let budget = learn("x".to_owned(), &[of(&[(MISSES, 0.01)])]);
        assert_eq!(hold(&budget, &of(&[(MISSES, 0.05)]))[0].outcome, Outcome::Within);
        assert_eq!(hold(&budget, &of(&[(MISSES, 0.5)]))[0].outcome, Outcome::Worse);
    }
}
