//! What was read, held against what shares can be.

use std::collections::BTreeMap;
use std::fmt;

use hone_record::{Category, Slots};

use super::{Output, Reading};

/// The categories of level 1 are all there is: their sum may miss 100 % by rounding and by counters that take turns.
/// Source: values published for Arm sum to 100.3, for perf's own examples to 100.0; Hone's choice.
const SUM_PERCENT: std::ops::RangeInclusive<f64> = 97.0..=103.0;

/// Below this share of the time a value is told with a note.
const RUNNING_NOTED_PERCENT: f64 = 90.0;

/// Below this, level 2 is no more told: one program showed 32.9 and 61.7 % frontend bound with counters in turn and without
/// (pmu-tools #370).
const RUNNING_LEVEL_1_PERCENT: f64 = 30.0;

/// Intervals that lie further apart are phases, or a warm-up.
const SPREAD_POINTS: f64 = 5.0;

/// Why values are no shares of slots.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// One of level 1 is not there.
    #[error(
        "{0} is missing: perf's groups TopdownL1 and PipelineL1 have all four, toplev shows what is below its thresholds with -v"
    )]
    Missing(Category),
    /// Two values of one category at one time.
    #[error("{0} stands there twice for one time: give the output of one run")]
    Twice(Category),
    /// `nan`: the counters did not run, or an event could not be opened.
    #[error("{0}")]
    NoNumber(NoNumber),
    /// No share.
    #[error("{0} is {1:.1} %, which no share can be: counters taking turns contradict each other")]
    Outside(Category, f64),
    /// Not all there is, or more.
    #[error("level 1 sums to {0:.1} %, and should to 100: counters taking turns contradict each other")]
    Sum(f64),
}

/// Categories of level 1 that perf printed no number for, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct NoNumber {
    /// Which.
    pub of: Vec<Category>,
    /// The others, in percent.
    pub told: Vec<(Category, f64)>,
    /// Events that perf could not open.
    pub unopened: Vec<String>,
}

impl fmt::Display for NoNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of: Vec<String> = self.of.iter().map(ToString::to_string).collect();
        let told: Vec<String> =
            self.told.iter().map(|(of, percent)| format!("{of} {percent:.1} %")).collect();
        let told = if told.is_empty() { String::new() } else { format!("; the others: {}", told.join(", ")) };
        match &self.unopened[..] {
            [] => write!(
                formatter,
                "perf printed no number for {}: its counters did not run there{told}",
                of.join(", ")
            ),
            events => write!(
                formatter,
                "perf printed no number for {}, since it could not open {}{told}\n  next: measure as root, or with kernel.perf_event_paranoid at 0 \
                 or less",
                of.join(", "),
                events.join(", ")
            ),
        }
    }
}

/// What belongs together.
type Place = (Option<String>, Option<String>);

/// Holds readings against the rules, each scope and PMU alone: what passed, and what did not with its first fault.
pub fn judge(output: &Output) -> Vec<(Option<String>, Result<Slots, Fault>)> {
    let mut places: BTreeMap<Place, Vec<&Reading>> = BTreeMap::new();
    for reading in &output.readings {
        places.entry((reading.scope.clone(), reading.pmu.clone())).or_default().push(reading);
    }
    let judged = places.into_iter().map(|((scope, pmu), readings)| {
        let name = match (&scope, &pmu) {
            (Some(scope), Some(pmu)) => Some(format!("{scope} ({pmu})")),
            (scope, pmu) => scope.clone().or_else(|| pmu.clone()),
        };
        let judged = of_place(scope, pmu, &readings).map_err(|fault| match fault {
            Fault::NoNumber(none) => Fault::NoNumber(NoNumber { unopened: output.unopened.clone(), ..none }),
            fault => fault,
        });
        (name, judged)
    });
    judged.collect()
}

fn of_place(scope: Option<String>, pmu: Option<String>, readings: &[&Reading]) -> Result<Slots, Fault> {
    let mut intervals: BTreeMap<u64, Vec<&Reading>> = BTreeMap::new();
    for reading in readings {
        intervals.entry(reading.time_s.unwrap_or(0.0).to_bits()).or_default().push(reading);
    }
    let mut notes = Vec::new();
    let judged: Vec<_> = intervals.values().map(|readings| of_interval(readings)).collect();
    let sound: Vec<&Interval> = judged.iter().flatten().collect();
    let Some(first_fault) = judged.iter().find_map(|interval| interval.as_ref().err()) else {
        return Ok(together(scope, pmu, &sound, notes));
    };
    if sound.is_empty() {
        return Err(first_fault.clone());
    }
    notes.push(format!(
        "{} of {} intervals are left out; the first of them: {first_fault}",
        judged.len() - sound.len(),
        judged.len()
    ));
    Ok(together(scope, pmu, &sound, notes))
}

/// One interval that passed, and what of level 2 did not.
struct Interval {
    percent: BTreeMap<Category, f64>,
    running_percent: Option<f64>,
    left_out: Option<Fault>,
}

fn of_interval(readings: &[&Reading]) -> Result<Interval, Fault> {
    numbers(readings)?;
    let mut percent = BTreeMap::new();
    let mut left_out = None;
    for reading in readings {
        match share(reading) {
            Ok(share) if percent.insert(reading.category, share).is_some() => {
                return Err(Fault::Twice(reading.category));
            }
            Ok(_) => {}
            // Parts are differences of counters that took turns; the whole stands without them.
            Err(fault) if reading.category.is_level_2() => left_out = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    whole(&percent)?;
    let running_percent = readings.iter().filter_map(|reading| reading.running_percent).reduce(f64::min);
    Ok(Interval { percent, running_percent, left_out })
}

fn share(reading: &Reading) -> Result<f64, Fault> {
    let none = || NoNumber { of: vec![reading.category], told: Vec::new(), unopened: Vec::new() };
    let percent = reading.percent.ok_or_else(|| Fault::NoNumber(none()))?;
    if (0.0..=100.0).contains(&percent) {
        Ok(percent)
    } else {
        Err(Fault::Outside(reading.category, percent))
    }
}

/// Those of level 1 without a number, where there are any, beside the others.
fn numbers(readings: &[&Reading]) -> Result<(), Fault> {
    let of_level_1 = || readings.iter().filter(|reading| !reading.category.is_level_2());
    let of: Vec<Category> =
        of_level_1().filter(|reading| reading.percent.is_none()).map(|reading| reading.category).collect();
    let told = of_level_1().filter_map(|reading| Some((reading.category, reading.percent?))).collect();
    if of.is_empty() { Ok(()) } else { Err(Fault::NoNumber(NoNumber { of, told, unopened: Vec::new() })) }
}

/// The means over intervals.
fn together(
    scope: Option<String>,
    pmu: Option<String>,
    intervals: &[&Interval],
    mut notes: Vec<String>,
) -> Slots {
    let mut values: BTreeMap<Category, Vec<f64>> = BTreeMap::new();
    for (category, share) in intervals.iter().flat_map(|interval| &interval.percent) {
        values.entry(*category).or_default().push(*share);
    }
    if let Some(fault) = intervals.iter().find_map(|interval| interval.left_out.as_ref()) {
        notes.push(format!("of level 2 something is left out: {fault}"));
    }
    let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
    let percent = values.iter().map(|(category, all)| (*category, mean(all))).collect();
    let running_percent = intervals.iter().filter_map(|interval| interval.running_percent).reduce(f64::min);
    let mut slots = Slots { scope, pmu, percent, running_percent, intervals: intervals.len(), notes };
    note_turns(&mut slots);
    slots.notes.extend(phases(&values));
    slots
}

/// Counters that took turns.
fn note_turns(slots: &mut Slots) {
    let Some(running) = slots.running_percent.filter(|running| *running < RUNNING_NOTED_PERCENT) else {
        return;
    };
    let mut note = format!("counted for {running:.0} % of the time only, since counters took turns");
    let has_level_2 = slots.percent.keys().any(|category| category.is_level_2());
    if running < RUNNING_LEVEL_1_PERCENT && has_level_2 {
        slots.percent.retain(|category, _| !category.is_level_2());
        note.push_str("; level 2 is left out");
    }
    slots.notes.push(note);
}

/// All of level 1, and nothing missing from 100 %.
fn whole(percent: &BTreeMap<Category, f64>) -> Result<(), Fault> {
    let mut sum = percent.get(&Category::SmtContention).copied().unwrap_or(0.0);
    for category in Category::LEVEL_1 {
        sum += percent.get(&category).ok_or(Fault::Missing(category))?;
    }
    if SUM_PERCENT.contains(&sum) { Ok(()) } else { Err(Fault::Sum(sum)) }
}

/// What moved from one interval to the next.
fn phases(values: &BTreeMap<Category, Vec<f64>>) -> Vec<String> {
    let spread = |all: &[f64]| {
        let high = all.iter().copied().fold(f64::MIN, f64::max);
        high - all.iter().copied().fold(f64::MAX, f64::min)
    };
    let moved = Category::LEVEL_1.into_iter().filter_map(|category| {
        let points = spread(values.get(&category)?);
        (points > SPREAD_POINTS).then(|| {
            format!("{category} moved by {points:.1} points between intervals: phases, or a warm-up")
        })
    });
    moved.collect()
}
