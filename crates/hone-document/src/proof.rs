//! A proof: the table of the published case, a column for each step.

use hone_format::{bytes, count, measured, time_us};
use hone_record::{
    BatchForetold, BatchState, Comparison, Engine, Estimate, FigureOutcome, Proof, ProofStep, Workload,
};

use crate::table::table;
use crate::{replica, wrapped};

/// Rows that are quantiles of the latency.
const QUANTILES: [(&str, f64); 6] = hone_record::STORY_QUANTILES;
/// A quantile with fewer than ten samples beyond it.
const TOO_FEW: &str = "too few samples";

/// All of it, for a terminal.
pub fn text(proof: &Proof) -> String {
    let replica = proof.replica.as_ref().map(|found| format!("{}\n", replica::text(found)));
    let mut out =
        format!("{}\n\n{}{}\n", wrapped(&headline(proof)), replica.unwrap_or_default(), states_text(proof));
    proof.steps.iter().enumerate().for_each(|(index, step)| out.push_str(&step_text(index, step)));
    for note in notes(proof) {
        out.push_str(&format!("\n{}\n", wrapped(&note)));
    }
    out
}

/// The same as Markdown.
pub fn markdown(proof: &Proof) -> String {
    let replica = proof.replica.as_ref().map(|found| format!("{}\n", replica::markdown(found)));
    let mut out =
        format!("{}\n\n{}{}\n", headline(proof), replica.unwrap_or_default(), states_markdown(proof));
    for (index, step) in proof.steps.iter().enumerate() {
        out.push_str(&format!("{}. `{}`: **{}**. {}\n", index + 1, step.change, step.outcome(), step.why));
        out.push_str(&details_markdown(step));
    }
    notes(proof).iter().for_each(|note| out.push_str(&format!("\n{note}\n")));
    out
}

/// What was foretold of a step, each figure beside the measured one.
pub fn foretold(foretold: &BatchForetold, before: &BatchState, after: &BatchState) -> Vec<String> {
    foretold.outcomes(before, after).iter().map(outcome).collect()
}

fn outcome(outcome: &FigureOutcome) -> String {
    let FigureOutcome { what, said, found, came_true } = outcome;
    let range = if said.low < said.high {
        format!(" ({} to {})", measured(said.low), measured(said.high))
    } else {
        String::new()
    };
    let told = format!("{what}: foretold {}{range}", measured(said.value));
    let found = match (found, came_true) {
        (None, _) => return format!("{told}, not measured"),
        (Some(found), None) => return format!("{told}, measured {}", measured(*found)),
        (Some(found), Some(_)) if *found <= 0.0 => format!("measured {}", measured(*found)),
        (Some(found), Some(_)) => {
            format!("measured {} ({:+.0} %)", measured(*found), (said.value / found - 1.0) * 100.0)
        }
    };
    let came = if *came_true == Some(true) { "came true" } else { "did not come true" };
    format!("{told}, {found}, {came}")
}

fn headline(proof: &Proof) -> String {
    format!("{}, {}. {}", proof.target, proof.load, proof.outcomes_in_words())
}

/// Head, quantiles, and what they cost; of loads that climb the capacity alone.
pub fn rows(proof: &Proof) -> Vec<Vec<String>> {
    let Some(first) = proof.steps.iter().find(|step| step.comparison.is_some()) else { return Vec::new() };
    let mut states = vec![&first.before];
    states.extend(proof.steps.iter().map(|step| &step.after));
    let mut rows = vec![
        heads(proof, |index, _| format!("change {index}"), "original"),
        heads(proof, |_, step| step.change.clone(), ""),
        heads(proof, |_, step| step.outcome().to_owned(), ""),
    ];
    // In no two windows of a climb was the load the same, so their other figures are of nothing that could be told.
    match proof.workload.climb() {
        Some(_) => rows.push(capacities(proof, first)),
        None => rows.extend(figures(&states)),
    }
    rows.push(row(&states, "windows", &|state| count(state.windows.into())));
    rows
}

fn row(states: &[&BatchState], name: &str, cell: &dyn Fn(&BatchState) -> String) -> Vec<String> {
    let cells = states.iter().map(|state| if state.windows == 0 { "-".to_owned() } else { cell(state) });
    std::iter::once(name.to_owned()).chain(cells).collect()
}

/// What the states under one load have been seen to do.
fn figures(states: &[&BatchState]) -> Vec<Vec<String>> {
    let row = |name: &str, cell: &dyn Fn(&BatchState) -> String| row(states, name, cell);
    let or_unknown = |told: Option<String>| told.unwrap_or_else(|| "not known".to_owned());
    let mut rows = Vec::new();
    for (name, quantile) in QUANTILES {
        let told = |state: &BatchState| state.latency_us(quantile).map_or(TOO_FEW.to_owned(), time_us);
        rows.push(row(name, &told));
    }
    rows.push(row("CPU, cores", &|state| or_unknown(state.cores().map(measured))));
    rows.push(row("CPU a record", &|state| or_unknown(state.cpu_us_per_record().map(time_us))));
    rows.push(row("network sent/s", &|state| {
        or_unknown(state.sent_bytes_per_s().map(|rate| bytes(rate.round() as u64)))
    }));
    rows.push(row("requests/s", &|state| or_unknown(state.requests_per_s().map(measured))));
    rows.push(row("batches/s", &|state| or_unknown(state.batches_per_s().map(measured))));
    rows.push(row("bytes a batch", &|state| or_unknown(state.bytes_per_batch().map(measured))));
    rows.push(row("records a batch", &|state| or_unknown(state.records_per_batch().map(measured))));
    rows.push(row("backlog, records", &|state| or_unknown(state.backlog_p50.map(count))));
    if states.iter().any(|state| state.lag_records.is_some()) {
        rows.push(row("consumer lag", &|state| or_unknown(state.lag_records.map(count))));
    }
    rows.push(row("records/s", &|state| {
        or_unknown((state.seconds > 0.0).then(|| measured(state.acked_records as f64 / state.seconds)))
    }));
    rows
}

/// The capacity of each state, as its own comparison has it.
fn capacities(proof: &Proof, first: &ProofStep) -> Vec<String> {
    let told = |step: &ProofStep, value: fn(&Estimate) -> f64| {
        let judged = step.comparison.as_ref().and_then(Comparison::primary);
        judged.map_or("-".to_owned(), |judged| measured(value(&judged.estimate)))
    };
    let cells = proof.steps.iter().map(|step| told(step, |found| found.value_b));
    let original = told(first, |found| found.value_a);
    ["capacity, requests/s".to_owned(), original].into_iter().chain(cells).collect()
}

fn heads(proof: &Proof, cell: impl Fn(usize, &ProofStep) -> String, first: &str) -> Vec<String> {
    let steps = proof.steps.iter().enumerate().map(|(index, step)| cell(index + 1, step));
    [String::new(), first.to_owned()].into_iter().chain(steps).collect()
}

fn step_text(index: usize, step: &ProofStep) -> String {
    let mut out = format!(
        "{}\n",
        wrapped(&format!("{}. {}: {}. {}", index + 1, step.change, step.outcome(), step.why))
    );
    out.push_str(&details_text(step));
    out
}

/// What stands behind a decision, indented.
pub fn details_text(step: &ProofStep) -> String {
    let lines = details(step);
    lines.iter().map(|line| format!("   {}\n", wrapped(line).replace("\n  ", "\n     "))).collect()
}

/// The same as a list.
pub fn details_markdown(step: &ProofStep) -> String {
    details(step).iter().map(|line| format!("   - {line}\n")).collect()
}

/// The table of all states.
pub fn states_text(proof: &Proof) -> String {
    table(&rows(proof))
}

/// The same as Markdown.
pub fn states_markdown(proof: &Proof) -> String {
    let mut out = String::new();
    for (index, row) in rows(proof).iter().enumerate() {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
        if index == 0 {
            out.push_str(&format!("|---{}|\n", "|---:".repeat(row.len().saturating_sub(1))));
        }
    }
    out
}

/// What stands behind a decision.
fn details(step: &ProofStep) -> Vec<String> {
    let mut lines: Vec<String> = step.promise.iter().cloned().collect();
    lines.extend(step.guards.iter().map(|guard| {
        format!("{} {}: {}", if guard.held { "held" } else { "BROKE" }, guard.rule, guard.seen)
    }));
    if let Some(said) = &step.foretold {
        lines.extend(
            foretold(said, &step.before, &step.after)
                .into_iter()
                .map(|line| format!("{line} ({})", said.source)),
        );
    }
    lines
}

/// What all of it rests on.
pub fn notes(proof: &Proof) -> Vec<String> {
    let software: Vec<String> = proof.software.iter().map(|(who, what)| format!("{who} {what}")).collect();
    let mut notes = vec![
        original(&proof.workload),
        proof.rule.clone(),
        of_a_column(proof),
        format!(
            "acks={}, storage: {}. {}",
            hone_format::acks(proof.durability.acks),
            proof.durability.storage,
            software.join(", ")
        ),
    ];
    notes.extend(proof.limits.iter().cloned());
    notes
}

/// The settings before the first step.
fn original(workload: &Workload) -> String {
    let (Engine::Librdkafka { settings } | Engine::Command { settings, .. }) = &workload.engine else {
        return format!("Original settings: {}, {}.", of_the_topic(workload), workload.engine.name());
    };
    let own: String = settings.iter().map(|(name, value)| format!(", {name}={value}")).collect();
    format!("Original settings: {}{own}. Everything else is the client's default.", of_the_topic(workload))
}

fn of_the_topic(workload: &Workload) -> String {
    let config = workload.topic_config.iter().map(|(name, value)| format!(", {name}={value}"));
    let config: String = config.collect();
    format!("partitions={}, compression={}{config}", workload.partitions, workload.compression)
}

/// What a figure of the table is of.
fn of_a_column(proof: &Proof) -> String {
    const COLUMN: &str = "A column is all windows of its state within one comparison; columns were measured one after the other, and only each step \
                          against its own \"before\" is judged.";
    match proof.workload.climb() {
        Some(climb) => format!(
            "The capacity is the highest rate at which {} held. {COLUMN} Other figures are not told: each window climbs to where the promise \
             breaks, so no two had the same load.",
            climb.slo.label()
        ),
        None => format!(
            "Latency runs from the time a record was due to its acknowledgement. {COLUMN} Network is what the producers wrote to their sockets, \
             without TCP's headers. Backlog is the records due and not acknowledged, the median over seconds."
        ),
    }
}

#[cfg(test)]
mod tests {
    use hone_experiment::fixture::proof;

    use super::*;

    #[test]
    fn the_table_has_a_column_for_each_step_and_says_where_samples_are_too_few() {
        let rows = rows(&proof());
        assert!(rows.iter().all(|row| row.len() == 4), "{rows:?}");
        let find = |name: &str| rows.iter().find(|row| row[0] == name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(find("p50")[1..], ["25.0 ms", "4.00 ms", "5.00 ms"]);
        assert_eq!(find("p99.999")[1..3], [TOO_FEW, "4.00 ms"]);
        assert_eq!(find("network sent/s")[1], "not known");
        assert_eq!(find("CPU, cores")[1], "0.500");
        assert_eq!(find("bytes a batch")[2], "1,000");
        assert_eq!(rows[0][1..], ["original", "change 1", "change 2"]);
    }

    #[test]
    fn markdown_is_a_table_and_says_what_was_foretold() {
        let text = markdown(&proof());
        assert!(text.contains("|---|---:|---:|---:|\n"), "{text}");
        assert!(text.contains("**accepted**") && text.contains("**not shown**"), "{text}");
        assert!(text.contains("Accepted: linger=5ms. Not shown: acks=0. Rejected: none."), "{text}");
        assert!(
            text.contains(
                "bytes a batch: foretold 900 (800 to 950), measured 1,000 (-10 %), did not come true (whatif)"
            ),
            "{text}"
        );
        assert!(super::text(&proof()).contains("a limit"));
        let replicated = Proof { replica: Some(replica::tests::replica()), ..proof() };
        for text in [markdown(&replicated), super::text(&replicated)] {
            let (replica, states) = (text.find("batches/s 200 in the topic"), text.find("p99.999"));
            assert!(replica.unwrap() < states.unwrap(), "before the steps: {text}");
        }
        let mut failed = proof();
        failed.steps[1].comparison = None;
        let text = markdown(&failed);
        assert!(
            text.contains("Not shown: none. Rejected: acks=0.") && text.contains("**rejected**"),
            "{text}"
        );
    }
}
