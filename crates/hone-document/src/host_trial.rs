//! Settings of a host that were tried: a row for each, and what its tail rests on.

use std::fmt::Write as _;

use hone_format::{count, measured, percent, time_us};
use hone_record::{
    BatchState, HostTrial, Judgement, Metric, STALL_FROM_MS, StallCounts, TriedKnob, UntriedKnob, Verdict,
};

use crate::table::table;
use crate::wrapped;

/// The metrics of a row, and the quantile of those that have one.
const METRICS: [(Metric, Option<f64>); 4] = [
    (Metric::LatencyP50, Some(0.5)),
    (Metric::LatencyP99, Some(0.99)),
    (Metric::LatencyP999, Some(0.999)),
    (Metric::CpuPerRecord, None),
];

/// From this share of the slowest requests on a tail is said to rest on stalls.
const RESTS_FROM: f64 = 0.1;

/// All of it, for a terminal.
pub fn text(trial: &HostTrial) -> String {
    let mut out = format!("{}\n\n{}", wrapped(&headline(trial)), table(&rows(trial)));
    out.push_str("\n  + better, - worse, = equivalent, ? not shown\n");
    for knob in all(trial) {
        let _ = write!(out, "\n{}\n", wrapped(&sentence(trial, knob)));
        details(trial, knob).iter().for_each(|line| {
            let _ = writeln!(out, "  {}", wrapped(line).replace("\n  ", "\n    "));
        });
    }
    if !trial.untried.is_empty() {
        let _ = write!(out, "\nNot tried:\n{}", untried(&trial.untried));
    }
    notes(trial).iter().for_each(|note| {
        let _ = write!(out, "\n{}\n", wrapped(note));
    });
    out
}

/// The same as Markdown.
pub fn markdown(trial: &HostTrial) -> String {
    let mut out = format!("{}\n\n", headline(trial));
    for (index, row) in rows(trial).iter().enumerate() {
        let _ = writeln!(out, "| {} |", row.join(" | "));
        if index == 0 {
            let _ = writeln!(out, "|---|---{}|", "|---:".repeat(row.len().saturating_sub(2)));
        }
    }
    out.push_str("\n`+` better, `-` worse, `=` equivalent, `?` not shown.\n\n");
    for knob in all(trial) {
        let _ = writeln!(out, "- {}", sentence(trial, knob));
        details(trial, knob).iter().for_each(|line| {
            let _ = writeln!(out, "  - {line}");
        });
    }
    for knob in &trial.untried {
        let _ = writeln!(out, "- {}: not tried: {}", knob.title, knob.why);
    }
    notes(trial).iter().for_each(|note| {
        let _ = write!(out, "\n{note}\n");
    });
    out
}

/// What was not tried, a line each.
pub fn untried(untried: &[UntriedKnob]) -> String {
    let line = |knob: &UntriedKnob| {
        let now = knob.now.as_deref().unwrap_or("(not there)");
        format!("  {}\n", wrapped(&format!("{}: {now} -> {}: {}", knob.title, knob.wanted, knob.why)))
    };
    untried.iter().map(line).collect()
}

fn all(trial: &HostTrial) -> impl Iterator<Item = &TriedKnob> {
    trial.tried.iter().chain(&trial.together)
}

/// What helped and what did not, in a sentence.
pub fn headline(trial: &HostTrial) -> String {
    let of = |wanted: Verdict| {
        let named = trial.tried.iter().filter(|knob| knob.verdict == wanted);
        named.map(|knob| name(trial, knob)).collect::<Vec<_>>()
    };
    let told = [Verdict::Better, Verdict::Worse, Verdict::Equivalent, Verdict::NotShown]
        .map(|verdict| (verdict, of(verdict)))
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(verdict, names)| format!("{}: {}", verdict.label(), names.join(", ")));
    let told: Vec<String> = told.collect();
    let told = if told.is_empty() { "nothing was tried".to_owned() } else { told.join(". ") };
    let kept = match (&trial.together, &trial.left_in_force) {
        (Some(_), Some(id)) => format!(
            " Together they are better, too, and in force as change {id}: `hone host confirm` keeps them, else they go back by themselves."
        ),
        (Some(together), None) => {
            format!(" Together they are {}, so nothing was kept.", together.verdict.label())
        }
        (None, _) => String::new(),
    };
    format!("{}, {}. {told}.{kept}", trial.target, trial.load)
}

/// A row's name: of a factorial the class is a part of it.
fn name(trial: &HostTrial, knob: &TriedKnob) -> String {
    if trial.factorial {
        format!("{} at acks={}", knob.title, hone_format::acks(knob.durability.acks))
    } else {
        knob.title.clone()
    }
}

/// Head and rows; a factorial has a row for each cell, so that the plain one of each class stands beside its own.
pub fn rows(trial: &HostTrial) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["setting", "acks", "verdict"]
            .map(str::to_owned)
            .into_iter()
            .chain(METRICS.map(|(metric, _)| metric.label().to_owned()))
            .chain(["failed".to_owned(), "stalls".to_owned()])
            .collect(),
    ];
    let mut last: Option<i16> = None;
    let mut last_anew: Option<bool> = None;
    for knob in all(trial) {
        let is_new = last != Some(knob.durability.acks) || last_anew != Some(knob.started_anew);
        if is_new || trial.together.as_ref().is_some_and(|together| std::ptr::eq(together, knob)) {
            rows.push(plain_row(knob));
        }
        (last, last_anew) = (Some(knob.durability.acks), Some(knob.started_anew));
        rows.push(row(knob));
    }
    rows
}

fn plain_row(knob: &TriedKnob) -> Vec<String> {
    let what = if knob.started_anew { "as it is, started anew" } else { "as it is" };
    let cells = METRICS.map(|(_, quantile)| plain(&knob.before, quantile));
    [what.to_owned(), hone_format::acks(knob.durability.acks), String::new()]
        .into_iter()
        .chain(cells)
        .chain([failed(&knob.before), stalls(&knob.stalls_before)])
        .collect()
}

fn plain(state: &BatchState, quantile: Option<f64>) -> String {
    match quantile {
        Some(quantile) => state.latency_us(quantile).map_or_else(|| "too few".to_owned(), time_us),
        None => state.cpu_us_per_record().map_or_else(|| "not known".to_owned(), time_us),
    }
}

fn failed(state: &BatchState) -> String {
    percent(state.failed_share())
}

fn stalls(counts: &StallCounts) -> String {
    if counts.windows == 0 {
        return "not known".to_owned();
    }
    if counts.stalls == 0 {
        return "none".to_owned();
    }
    format!("{} in {} of {} windows", count(counts.stalls), counts.windows_with, counts.windows)
}

fn row(knob: &TriedKnob) -> Vec<String> {
    let values: Vec<String> =
        knob.settings.iter().map(|setting| format!("{} -> {}", setting.was, setting.value)).collect();
    let what = if let [one] = &values[..] { format!("{} {one}", knob.title) } else { knob.title.clone() };
    let cells = METRICS.map(|(metric, quantile)| {
        let found = knob.comparison.judgements.iter().find(|judgement| judgement.estimate.metric == metric);
        found.map_or_else(|| plain(&knob.after, quantile), |found| cell(found, &knob.after, quantile))
    });
    [what, hone_format::acks(knob.durability.acks), knob.verdict.label().to_owned()]
        .into_iter()
        .chain(cells)
        .chain([failed(&knob.after), format!("{} {}", stalls(&knob.stalls_after), sign(knob.stalls.verdict))])
        .collect()
}

fn cell(found: &Judgement, after: &BatchState, quantile: Option<f64>) -> String {
    let estimate = &found.estimate;
    format!(
        "{} × {:.2} [{:.2}, {:.2}] {}",
        plain(after, quantile),
        estimate.ratio,
        estimate.low,
        estimate.high,
        sign(found.verdict)
    )
}

const fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "+",
        Verdict::Worse => "-",
        Verdict::Equivalent => "=",
        Verdict::NotShown => "?",
    }
}

/// The comparator's sentence, which names both sides unless nothing could be estimated; of a factorial with the class before it.
fn sentence(trial: &HostTrial, knob: &TriedKnob) -> String {
    let why = &knob.why;
    let told = if why.starts_with(&knob.title) { why.clone() } else { format!("{}: {why}", knob.title) };
    if trial.factorial {
        format!("At acks={}: {told}", hone_format::acks(knob.durability.acks))
    } else {
        told
    }
}

/// What stands behind a row.
pub fn details(trial: &HostTrial, knob: &TriedKnob) -> Vec<String> {
    let mut lines = Vec::new();
    if trial.factorial {
        let settings: Vec<String> = knob
            .settings
            .iter()
            .map(|setting| format!("/{} {} -> {}", setting.path, setting.was, setting.value))
            .collect();
        lines.push(format!(
            "durability class: acks={}, {}. Settings: {}",
            hone_format::acks(knob.durability.acks),
            knob.durability.storage,
            settings.join(", ")
        ));
    } else {
        lines.push(format!("wanted for: {}", knob.reason));
    }
    lines.extend(
        knob.promise.as_ref().map(|promise| format!("beside its speed it {promise}: that is no gain")),
    );
    lines.extend(rests_on("as it is", &knob.before, &knob.stalls_before));
    lines.extend(rests_on("with it", &knob.after, &knob.stalls_after));
    lines.push(format!(
        "stalls: {} ({} by the sign test at {} %)",
        knob.stalls.why,
        knob.stalls.verdict.label(),
        measured(knob.stalls.confidence * 100.0)
    ));
    if knob.writing_ms_max > 0 {
        lines.push(format!(
            "its writes took {} ms at most, outside of the windows",
            count(knob.writing_ms_max)
        ));
    }
    lines
}

/// Which part of the slowest requests waited in a stall, where that is worth a word.
fn rests_on(state: &str, figures: &BatchState, stalls: &StallCounts) -> Option<String> {
    // Where half of the requests wait so long, that is no stall but the service.
    if figures.latency_us(0.5)? >= f64::from(STALL_FROM_MS) * 1e3 {
        return Some(format!(
            "{state}: the median itself is {STALL_FROM_MS} ms or more, so stalls tell nothing"
        ));
    }
    let share = |quantile: f64| stalls.share_of_tail(quantile).filter(|share| *share >= RESTS_FROM);
    let part = |name: &str, quantile: f64| {
        Some(format!("{:.0} % of what lies beyond {name}", share(quantile)? * 100.0))
    };
    let parts: Vec<String> = [part("p99", 0.99), part("p99.9", 0.999)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| {
        format!(
            "{state}: {} waited in {} of {} s together, the longest {} s, in {} of {} windows",
            parts.join(" and "),
            if stalls.stalls == 1 {
                "one stall".to_owned()
            } else {
                format!("{} stalls", count(stalls.stalls))
            },
            measured(stalls.total_s),
            measured(stalls.longest_s),
            stalls.windows_with,
            stalls.windows
        )
    })
}

fn notes(trial: &HostTrial) -> Vec<String> {
    let software: Vec<String> = trial.software.iter().map(|(who, what)| format!("{who} {what}")).collect();
    let mut notes = vec![
        trial.rule.clone(),
        "A cell is the figure over all windows that count, × the ratio to the host as it is, with the interval at this run's level. The ratio \
         is of pairs, and not of these figures. Latency runs from the time a request was due to its acknowledgement."
            .to_owned(),
    ];
    let classes: std::collections::BTreeSet<String> = all(trial)
        .map(|knob| {
            format!("acks={}, storage: {}", hone_format::acks(knob.durability.acks), knob.durability.storage)
        })
        .collect();
    let classes: Vec<String> = classes.into_iter().collect();
    notes.push(format!("{}. {}", classes.join("; "), software.join(", ")));
    notes.extend(trial.limits.iter().cloned());
    notes
}

#[cfg(test)]
mod tests {
    use hone_experiment::fixture::trial;

    use super::*;

    #[test]
    fn a_tail_that_rests_on_one_stall_says_so() {
        let text = text(&trial(false));
        let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            told.contains("as it is: 75 % of what lies beyond p99 and 100 % of what lies beyond p99.9 waited in one stall of 0.975 s together"),
            "{text}"
        );
        assert!(!told.contains("with it:"), "{text}");
        assert!(told.contains("vm.swappiness: 60 -> 1: can't matter here"), "{text}");
        assert!(told.contains("that is no gain") && told.contains("31 ms at most"), "{text}");
    }

    /// Every row of a factorial carries its class, and each class has its own plain row.
    #[test]
    fn a_factorial_has_a_row_for_each_cell() {
        let trial = trial(true);
        let rows = rows(&trial);
        let cells: Vec<[&str; 2]> =
            rows.iter().skip(1).map(|row| [row[0].split(' ').next().unwrap(), &*row[1]]).collect();
        assert_eq!(cells, [["as", "1"], ["field-guide", "1"], ["as", "all"], ["field-guide", "all"]]);
        assert!(headline(&trial).contains("worse: field-guide at acks=all"), "{}", headline(&trial));
        let text = markdown(&trial);
        assert!(text.contains("durability class: acks=all, page cache"), "{text}");
        assert!(text.contains("|---|---|---:|"), "{text}");
    }
}
