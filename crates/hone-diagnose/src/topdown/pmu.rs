//! Which PMU a line is of: a machine with two kinds of cores has two, and their values are not of the same thing.

/// Of values that perf prints once more without saying of which PMU they are.
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

/// `cpu_core/TOPDOWN.SLOTS/`. The prefix `cpu` is of machines with one kind of cores.
pub(super) fn of_event(event: &str) -> Option<String> {
    let (pmu, _) = event.split_once('/')?;
    pmu.starts_with("cpu_").then(|| pmu.to_owned())
}
