//! The PMU of a line. A machine with two kinds of cores has two, and their values are not comparable.

use std::collections::HashSet;

use hone_record::Category;

use super::reading::Reading;

/// Scope of values that perf repeats without their PMU.
pub(super) const NO_PMU_NAMED: &str = "no PMU named, probably cpu_atom";

/// Whether a word names a group of metrics.
pub(super) fn is_group(word: &str) -> bool {
    let level = ["TopdownL", "PipelineL"].iter().find_map(|prefix| word.strip_prefix(prefix));
    level.is_some_and(|level| level.len() == 1 && level.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `TopdownL1 (cpu_core)`.
pub(super) fn of_group(group: &str) -> Option<String> {
    let (_, behind) = group.split_once('(')?;
    Some(behind.trim_end().trim_end_matches(')').to_owned())
}

/// Time, scope and category of a reading.
type ReadingKey = (u64, Option<String>, Category);

/// Finds the PMU of each reading of a run, line by line.
///
/// perf prints the values of the second PMU without its name. They follow those of the first one, and repeat their categories.
#[derive(Debug, Default)]
pub(super) struct Pmus {
    /// The PMU in the last group or event.
    pub(super) last: Option<String>,
    /// PMU for the values below a line that names it. `None` after another counter.
    below: Option<HashSet<ReadingKey>>,
    seen: HashSet<(Option<String>, ReadingKey)>,
}

impl Pmus {
    /// A group, or an event with a top-down value: the values in its line and below it belong to this PMU.
    pub(super) fn heads(&mut self, pmu: Option<String>) {
        self.last = pmu;
        self.below = Some(HashSet::new());
    }

    /// Another counter: the values below it may belong to a PMU that perf does not name.
    pub(super) fn passes(&mut self, pmu: Option<String>) {
        self.last = pmu.or_else(|| self.last.take());
        self.below = None;
    }

    /// The reading with its PMU.
    pub(super) fn assign(&mut self, reading: Reading) -> Reading {
        let place: ReadingKey =
            (reading.time_s.unwrap_or_default().to_bits(), reading.scope.clone(), reading.category);
        // A group that occurs twice comes from two runs and stays so: the rules reject it.
        let is_headed = self.below.as_mut().is_some_and(|below| below.insert(place.clone()));
        let is_new = self.seen.insert((self.last.clone(), place));
        let is_unnamed = self.last.is_some() && !is_new && !is_headed;
        Reading { pmu: if is_unnamed { Some(NO_PMU_NAMED.to_owned()) } else { self.last.clone() }, ..reading }
    }
}

/// `cpu_core/TOPDOWN.SLOTS/`. Machines with one kind of cores have the prefix `cpu`.
pub(super) fn of_event(event: &str) -> Option<String> {
    let (pmu, _) = event.split_once('/')?;
    pmu.starts_with("cpu_").then(|| pmu.to_owned())
}
