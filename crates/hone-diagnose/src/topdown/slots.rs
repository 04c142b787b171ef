//! Checks readings against the properties of shares.

use std::collections::BTreeMap;
use std::fmt;

use hone_record::{Category, Slots};

use super::reading::{Output, Reading};

/// The categories of level 1 are complete. Their sum may differ from 100 % by rounding and by counters that took turns. Source: values
/// published for Arm sum to 100.3, for perf's own examples to 100.0; the limit is Hone's choice.
const SUM_PERCENT: std::ops::RangeInclusive<f64> = 97.0..=103.0;

/// Each category of level 1 with its two parts, whose sum it is.
const PARTS: [(Category, [Category; 2]); 4] = [
    (Category::FrontendBound, [Category::FetchLatency, Category::FetchBandwidth]),
    (Category::BadSpeculation, [Category::BranchMispredicts, Category::MachineClears]),
    (Category::BackendBound, [Category::MemoryBound, Category::CoreBound]),
    (Category::Retiring, [Category::LightOperations, Category::HeavyOperations]),
];

/// Below this share of the time a value gets a note.
const RUNNING_NOTED_PERCENT: f64 = 90.0;

/// Below this share of the time a value does not represent the program, for example on cores where it hardly ran. The limit is Hone's
/// choice.
const RUNNING_LEAST_PERCENT: f64 = 1.0;

/// Below this, level 2 is left out: one program showed 32.9 % frontend bound with counters in turn, and 61.7 % without (pmu-tools #370).
const RUNNING_LEVEL_1_PERCENT: f64 = 30.0;

/// Intervals that differ by more are phases, or a warm-up.
const SPREAD_POINTS: f64 = 5.0;

/// Reasons why values are not valid shares of slots.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A part of level 1 is missing.
    #[error("{0}")]
    Missing(Missing),
    /// A category has two values at one time.
    #[error("{0} occurs twice for one time: use the output of one run")]
    Twice(Category),
    /// `nan`: the counters did not run, or an event could not be opened.
    #[error("{0}")]
    NoNumber(NoNumber),
    /// A value is not a share.
    #[error(
        "{0} is {1:.1} %, which is impossible for a share: perhaps counters took turns and contradict each \
         other"
    )]
    Outside(Category, f64),
    /// The sum is not 100 %.
    #[error(
        "level 1 sums to {0:.1} % instead of 100 %: perhaps counters took turns and contradict each other"
    )]
    Sum(f64),
    /// The values were counted for almost no time.
    #[error("{0}")]
    Seldom(Seldom),
}

/// Some categories of level 1, without the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Missing {
    /// The missing categories.
    pub of: Vec<Category>,
    /// The present ones, in percent.
    pub told: Vec<(Category, f64)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let were = if self.of.len() == 1 { "was" } else { "were" };
        write!(
            formatter,
            "{}; {} {were} not printed, but a verdict needs all of level 1\n  next: for toplev, its output \
             with -v, which shows values below its thresholds; for perf, the groups TopdownL1 or \
             PipelineL1, which have all four",
            in_words(&self.told),
            names(&self.of)
        )
    }
}

/// Shares that were counted for almost no time.
#[derive(Debug, Clone, PartialEq)]
pub struct Seldom {
    /// Share of the time.
    pub running_percent: f64,
    /// Values counted in that time, in percent.
    pub told: Vec<(Category, f64)>,
}

impl fmt::Display for Seldom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "counted for only {} of the time, but Hone needs {RUNNING_LEAST_PERCENT:.0} % for a verdict: {}",
            of_time(self.running_percent),
            in_words(&self.told)
        )
    }
}

fn names(categories: &[Category]) -> String {
    categories.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn in_words(shares: &[(Category, f64)]) -> String {
    let words: Vec<String> = shares.iter().map(|(of, percent)| format!("{of} {percent:.1} %")).collect();
    words.join(", ")
}

/// A share of the time; a small one has decimals.
fn of_time(percent: f64) -> String {
    match percent {
        large if large >= 9.95 => format!("{large:.0} %"),
        small if small >= 0.995 => format!("{small:.1} %"),
        tiny => format!("{tiny:.2} %"),
    }
}

/// Categories of level 1 without a number from perf, and the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct NoNumber {
    /// These categories.
    pub of: Vec<Category>,
    /// The others, in percent.
    pub told: Vec<(Category, f64)>,
    /// Events that perf could not open.
    pub unopened: Vec<String>,
}

impl fmt::Display for NoNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = names(&self.of);
        let told = if self.told.is_empty() {
            String::new()
        } else {
            format!("; the others: {}", in_words(&self.told))
        };
        match &self.unopened[..] {
            [] => write!(formatter, "perf printed no number for {of}: its counters did not run there{told}"),
            events => write!(
                formatter,
                "perf printed no number for {of}, since it could not open {}{told}\n  next: measure as \
                 root, or with kernel.perf_event_paranoid at 0 or less",
                events.join(", ")
            ),
        }
    }
}

/// Readings that belong together.
type ScopeAndPmu = (Option<String>, Option<String>);

/// Checks readings against the rules, separately for each scope and PMU: returns those that passed, and those that did not with their first
/// fault.
pub fn judge(output: &Output) -> Vec<(Option<String>, Result<Slots, Fault>)> {
    let mut places: BTreeMap<ScopeAndPmu, Vec<&Reading>> = BTreeMap::new();
    for reading in &output.readings {
        places.entry((reading.scope.clone(), reading.pmu.clone())).or_default().push(reading);
    }
    let mut places: Vec<_> = places.into_iter().collect();
    // Of several PMUs the one with the most counts comes first.
    places.sort_by(|((one, _), first), ((other, _), second)| {
        one.cmp(other).then_with(|| longest(second).total_cmp(&longest(first)))
    });
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

/// Share of the time in which the most frequent counter ran. perf prints no share for a counter that always ran, and no number for one that
/// never did.
fn longest(readings: &[&Reading]) -> f64 {
    if numbers(readings).is_err() {
        return 0.0;
    }
    let running = readings.iter().filter_map(|reading| reading.running_percent);
    running.reduce(f64::max).unwrap_or(100.0)
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

/// One interval that passed, and the faults of its level 2.
struct Interval {
    percent: BTreeMap<Category, f64>,
    running_percent: Option<f64>,
    left_out: Option<Fault>,
    /// Categories of level 1 that are the sums of their parts.
    summed: Vec<Category>,
}

fn of_interval(readings: &[&Reading]) -> Result<Interval, Fault> {
    possible(readings)?;
    numbers(readings)?;
    let mut percent = BTreeMap::new();
    let mut left_out = None;
    for reading in readings {
        match share(reading) {
            Ok(share) if percent.insert(reading.category, share).is_some() => {
                return Err(Fault::Twice(reading.category));
            }
            Ok(_) => {}
            // The parts are differences of counters that took turns; the sum stays valid without them.
            Err(fault) if reading.category.is_level_2() => left_out = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    let summed = sum_up(&mut percent);
    let sum = whole(&percent)?;
    if is_of_one(sum) {
        percent.values_mut().for_each(|share| *share *= 100.0);
    } else if !SUM_PERCENT.contains(&sum) {
        return Err(Fault::Sum(sum));
    }
    left_out = left_out.or(beyond(&mut percent)?);
    let running_percent = readings.iter().filter_map(|reading| reading.running_percent).reduce(f64::min);
    if let Some(running_percent) = running_percent.filter(|running| *running < RUNNING_LEAST_PERCENT) {
        return Err(Fault::Seldom(Seldom { running_percent, told: percent.into_iter().collect() }));
    }
    Ok(Interval { percent, running_percent, left_out, summed })
}

/// Whether level 1 sums to 1 and not to 100: before perf's metrics had units, they were fractions.
fn is_of_one(sum: f64) -> bool {
    SUM_PERCENT.contains(&(100.0 * sum))
}

/// Sums and fractions must be shares, too. Invalid shares of level 2 are removed, and the fault of one is returned.
fn beyond(percent: &mut BTreeMap<Category, f64>) -> Result<Option<Fault>, Fault> {
    let mut beyond = percent.clone();
    beyond.retain(|_, share| *share > 100.0);
    percent.retain(|category, _| !beyond.contains_key(category));
    let mut faults = beyond.into_iter().map(|(category, share)| Fault::Outside(category, share));
    // Level 1 comes before level 2.
    match faults.next() {
        Some(Fault::Outside(category, share)) if !category.is_level_2() => {
            Err(Fault::Outside(category, share))
        }
        fault => Ok(fault),
    }
}

/// Computes missing categories of level 1 from their parts, if both parts exist.
fn sum_up(percent: &mut BTreeMap<Category, f64>) -> Vec<Category> {
    let mut summed = Vec::new();
    for (whole, [one, other]) in PARTS {
        let parts = percent.get(&one).zip(percent.get(&other)).map(|(one, other)| one + other);
        if let Some(sum) = parts.filter(|_| !percent.contains_key(&whole)) {
            percent.insert(whole, sum);
            summed.push(whole);
        }
    }
    summed
}

/// Every share of level 1 lies between 0 and 100 %.
fn possible(readings: &[&Reading]) -> Result<(), Fault> {
    let of_level_1 = readings.iter().filter(|reading| !reading.category.is_level_2());
    let mut numbers = of_level_1.filter(|reading| reading.percent.is_some());
    numbers.try_for_each(|reading| share(reading).map(|_| ()))
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

/// Categories of level 1 without a number, together with the others; `None` if all have one.
fn numbers(readings: &[&Reading]) -> Result<(), Fault> {
    let of_level_1 = || readings.iter().filter(|reading| !reading.category.is_level_2());
    let of: Vec<Category> =
        of_level_1().filter(|reading| reading.percent.is_none()).map(|reading| reading.category).collect();
    let told = of_level_1().filter_map(|reading| Some((reading.category, reading.percent?))).collect();
    if of.is_empty() { Ok(()) } else { Err(Fault::NoNumber(NoNumber { of, told, unopened: Vec::new() })) }
}

/// Means over intervals.
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
        notes.push(format!("a part of level 2 is left out: {fault}"));
    }
    if let Some(summed) = intervals.iter().map(|interval| &interval.summed).find(|summed| !summed.is_empty())
    {
        notes.push(format!("not printed, and computed from the parts of level 2: {}", names(summed)));
    }
    let mean = |all: &Vec<f64>| all.iter().sum::<f64>() / all.len() as f64;
    let percent = values.iter().map(|(category, all)| (*category, mean(all))).collect();
    let running_percent = intervals.iter().filter_map(|interval| interval.running_percent).reduce(f64::min);
    let mut slots = Slots { scope, pmu, percent, running_percent, intervals: intervals.len(), notes };
    note_turns(&mut slots);
    slots.notes.extend(phases(&values));
    slots
}

/// A note about counters that took turns.
fn note_turns(slots: &mut Slots) {
    let Some(running) = slots.running_percent.filter(|running| *running < RUNNING_NOTED_PERCENT) else {
        return;
    };
    let elsewhere = if slots.pmu.is_some() { ", or the program ran on other cores" } else { "" };
    let mut note =
        format!("counted for {} of the time only, since counters took turns{elsewhere}", of_time(running));
    let has_level_2 = slots.percent.keys().any(|category| category.is_level_2());
    if running < RUNNING_LEVEL_1_PERCENT && has_level_2 {
        slots.percent.retain(|category, _| !category.is_level_2());
        note.push_str("; level 2 is left out");
    }
    slots.notes.push(note);
}

/// Sum of level 1, if it is complete.
fn whole(percent: &BTreeMap<Category, f64>) -> Result<f64, Fault> {
    let of: Vec<Category> =
        Category::LEVEL_1.into_iter().filter(|category| !percent.contains_key(category)).collect();
    if !of.is_empty() {
        return Err(Fault::Missing(Missing { of, told: percent.clone().into_iter().collect() }));
    }
    let level_1 = percent.iter().filter(|(category, _)| !category.is_level_2());
    Ok(level_1.map(|(_, share)| share).sum())
}

/// A note about changes between intervals.
fn phases(values: &BTreeMap<Category, Vec<f64>>) -> Vec<String> {
    let spread = |all: &[f64]| {
        let high = all.iter().copied().fold(f64::MIN, f64::max);
        high - all.iter().copied().fold(f64::MAX, f64::min)
    };
    let moved = Category::LEVEL_1.into_iter().filter_map(|category| {
        let points = spread(values.get(&category)?);
        (points > SPREAD_POINTS).then(|| {
            format!("{category} varied by {points:.1} points between intervals: phases, or a warm-up")
        })
    });
    moved.collect()
}
