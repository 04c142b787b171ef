//! A story as Markdown, and in a few lines for a pull request.

use std::fmt::Write as _;

use hone_format::{bytes, change, count, measured, percent, time_us};
use hone_record::{
    BatchState, Chapter, Fate, Fates, Hope, LedgerEntry, Metric, STORY_QUANTILES, Story, Tuned,
};

use crate::ledger::came;
use crate::table::in_a_cell;

/// Rows of a comment: a reviewer reads it between two other things.
const MOST_ROWS: usize = 15;

/// All of it.
pub fn markdown(story: &Story) -> String {
    let mut out = format!("# {}\n\n{}\n", in_a_cell(&story.title), in_a_cell(&story.sentence()));
    if let Some(tuned) = &story.tuned {
        out.push_str(&tuned_markdown(tuned));
    }
    for ceiling in &story.ceilings {
        let _ = write!(out, "\n{}: {}\n", in_a_cell(&ceiling.workload), in_a_cell(&ceiling.words));
    }
    for diagnosis in &story.diagnoses {
        for part in &diagnosis.parts {
            let Some(verdict) = &part.verdict else { continue };
            let scope = part.scope.as_ref().map_or(String::new(), |scope| format!(" ({})", in_a_cell(scope)));
            let _ = write!(
                out,
                "\nWill a better layout help{scope}? {}: {} ({})\n",
                verdict.likelihood,
                in_a_cell(&verdict.rule),
                in_a_cell(&diagnosis.source)
            );
        }
    }
    let fates = story.fates();
    out.push_str("\n## What was tried\n\n");
    out.push_str(&tried(story, &fates, 0));
    for group in story.groups() {
        out.push_str(&steps(&fates, &group));
    }
    out.push_str(&foretold(story));
    out.push_str(&beside(story));
    out.push_str("\n## Why\n\n");
    for chapter in &story.chapters {
        let entry = &chapter.entry;
        let _ = writeln!(
            out,
            "- **{}**: {}. {}",
            in_a_cell(&entry.change),
            fates.outcome_of(entry),
            in_a_cell(&entry.why)
        );
        if let Some(undo) = &entry.undo {
            let _ = writeln!(out, "  To take it back: {}", in_a_cell(undo));
        }
    }
    story.limits.iter().for_each(|limit| {
        let _ = write!(out, "\n{}\n", in_a_cell(limit));
    });
    out
}

/// What a reviewer wants to know, and where the rest is.
pub fn comment(story: &Story) -> String {
    let fates = story.fates();
    let kept = fates.changes_of(Fate::Kept).len();
    let all: usize = [Fate::Kept, Fate::Rejected, Fate::NotShown, Fate::Undecided, Fate::TakenBack]
        .map(|fate| fates.changes_of(fate).len())
        .iter()
        .sum();
    let mut out = format!("**hone, {}**: {kept} of {all} changes kept\n\n", in_a_cell(&story.title));
    let skipped = story.chapters.len().saturating_sub(MOST_ROWS);
    out.push_str(&tried(story, &fates, skipped));
    if skipped > 0 {
        let _ = write!(out, "\n{skipped} earlier ones are in the report.\n");
    }
    if let Some(saving) = story.tuned.as_ref().and_then(|tuned| tuned.saving.as_ref()) {
        let _ = write!(out, "\n{}.\n", saving.sentence());
    }
    for line in story.groups().iter().filter_map(|group| tail(&fates, group)) {
        let _ = write!(out, "\n{line}\n");
    }
    let [decided, came_true] = story.predictions();
    if decided > 0 {
        let _ = write!(out, "\n{came_true} of {decided} predictions came true.\n");
    }
    let machine = story.machines.first().map_or_else(String::new, |machine| {
        format!(" on {} cores of {}", machine.cores, in_a_cell(&machine.cpu_model))
    });
    let _ = write!(
        out,
        "\n<sub>Ratios with their intervals over pairs of windows, after against before{machine}; measured by hone.</sub>\n"
    );
    out
}

fn tried(story: &Story, fates: &Fates<'_>, skipped: usize) -> String {
    let mut out = "| change | metric | ratio | verdict | |\n|---|---|---:|---|---|\n".to_owned();
    for Chapter { entry, .. } in story.chapters.iter().skip(skipped) {
        let ratio = entry.ratio.map_or_else(
            || "-".to_owned(),
            |[ratio, low, high]| format!("{} [{}, {}]", change(ratio), change(low), change(high)),
        );
        let under = if entry.workload.is_empty() { String::new() } else { format!(" ({})", entry.workload) };
        let _ = writeln!(
            out,
            "| {} | {} | {ratio} | {} | {} |",
            in_a_cell(&format!("{}{under}", entry.change)),
            entry.metric.map_or("-", hone_record::Metric::label),
            entry.verdict.map_or("-".to_owned(), |_| entry.verdict_words()),
            fates.outcome_of(entry)
        );
    }
    out
}

/// What a change was hoped to save, in a cell.
fn hoped(hope: &Hope) -> String {
    if hope.is_unsaid { "not said".to_owned() } else { percent(hope.share) }
}

/// Where the time went, what each change was hoped to save, what came, and what all of it is worth.
fn tuned_markdown(tuned: &Tuned) -> String {
    let mut out = String::new();
    if let Some(saving) = &tuned.saving {
        let _ = write!(out, "\n**{}.** {}\n", saving.sentence(), saving.how);
    }
    let look = match tuned.objective {
        Metric::Capacity => OF_A_CLIMB.to_owned(),
        _ => first_look(&tuned.first),
    };
    let _ = write!(out, "\n{look}\n\n## Why, and what came\n\n");
    let _ = write!(
        out,
        "Ratios are of {}: with the change to what was kept until then; beside the others, of all that was kept to all but this one.\n\n\
         | tried | where | why | hoped to save | ratio | beside the others | in the end |\n|---|---|---|---:|---:|---:|---|\n",
        tuned.objective.label()
    );
    for change in &tuned.changes {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            in_a_cell(&change.change),
            change.altitude.label(),
            in_a_cell(&change.hope.why),
            hoped(&change.hope),
            ratio(change.ratio),
            ratio(change.among),
            in_a_cell(&change.in_the_end)
        );
    }
    if let Some(product) = tuned.product {
        let _ = writeln!(out, "| the product of these | | | | | {product:.3} | |");
    }
    if tuned.all.is_some() {
        let _ =
            writeln!(out, "| all that was kept, against the first state | | | | {} | | |", ratio(tuned.all));
    }
    let _ = write!(out, "\nIt ended because {}.\n", in_a_cell(&tuned.stopped));
    out
}

fn ratio(found: Option<[f64; 3]>) -> String {
    found.map_or_else(|| "-".to_owned(), hone_format::interval)
}

/// In place of figures of windows that had no load in common.
const OF_A_CLIMB: &str = "Each window climbs to where the promise breaks. No two had the same load, so no figure of them is told but the capacity.";

fn first_look(first: &BatchState) -> String {
    let cpu = first.target_cpu.and_then(|cpu| cpu.user_share).map(|share| {
        format!(", {:.0} % of it its own code and {:.0} % the kernel’s", share * 100.0, (1.0 - share) * 100.0)
    });
    let cpu = first
        .cpu_us_per_record()
        .map(|us| format!("{} of the target’s CPU a record{}", time_us(us), cpu.unwrap_or_default()));
    let batch = first.records_per_batch().map(|records| format!("{} records a batch", measured(records)));
    let batches = first.batches_per_s().map(|batches| format!("{} batches a second", measured(batches)));
    let told: Vec<String> = [cpu, batch, batches].into_iter().flatten().collect();
    match &told[..] {
        [] => "Where the time went before the first change is not known.".to_owned(),
        told => format!("Before the first change: {}.", told.join(", ")),
    }
}

/// What the page has as pictures, in words.
fn beside(story: &Story) -> String {
    let heatmaps = story.heatmaps.iter().map(|map| {
        let sides = map.sides.iter().map(|side| {
            let pages = side.pages.len() as u64;
            format!("{}: {} pages of 4 KiB that ran", in_a_cell(side.object_name()), count(pages))
        });
        format!("Heatmap. {}.", sides.collect::<Vec<_>>().join(", then "))
    });
    let capacities = story.capacities.iter().map(|found| {
        format!("Capacity of {}: {}.", in_a_cell(&found.variant), in_a_cell(&crate::curve::knee(found)))
    });
    let curves = story.curves.iter().map(|found| {
        format!("Curve of {}: {} windows.", in_a_cell(&found.variant), count(found.points.len() as u64))
    });
    let told: Vec<String> =
        heatmaps.chain(capacities).chain(curves).map(|line| format!("- {line}\n")).collect();
    match &told[..] {
        [] => String::new(),
        told => format!("\n## Beside it\n\n{}", told.concat()),
    }
}

/// The state before the first change, and that with each.
fn steps(fates: &Fates<'_>, group: &[&Chapter]) -> String {
    let Some(first) = group.first().filter(|first| first.entry.metric != Some(Metric::Capacity)) else {
        return String::new();
    };
    let states: Vec<&BatchState> =
        std::iter::once(&first.before).chain(group.iter().map(|chapter| &chapter.after)).collect();
    let of = |entry: &LedgerEntry| match entry.workload.as_str() {
        "" => entry.experiment.clone(),
        workload => format!("{}, under {workload}", entry.experiment),
    };
    let mut out = format!("\n## Percentiles, step by step: {}\n\n| | before |", in_a_cell(&of(&first.entry)));
    for chapter in group {
        let entry = &chapter.entry;
        let _ = write!(out, " {} ({}) |", in_a_cell(entry.change_alone()), fates.outcome_of(entry));
    }
    let _ = write!(out, "\n|---|{}\n", "---:|".repeat(states.len()));
    let mut row = |name: &str, cell: &dyn Fn(&BatchState) -> Option<String>, without: &str| {
        let cells: Vec<String> =
            states.iter().map(|state| cell(state).unwrap_or_else(|| without.to_owned())).collect();
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    };
    // Of operations no single latency is known, and nothing of a network.
    let of_operations = states.iter().any(|state| state.counts_operations);
    for (name, quantile) in STORY_QUANTILES.into_iter().filter(|_| !of_operations) {
        row(name, &|state| state.latency_us(quantile).map(time_us), "too few samples");
    }
    row("CPU, cores", &|state| state.cores().map(measured), "not known");
    let cpu = if of_operations { "CPU an operation" } else { "CPU a record" };
    row(cpu, &|state| state.cpu_us_per_record().map(time_us), "not known");
    if !of_operations {
        row(
            "network sent/s",
            &|state| state.sent_bytes_per_s().map(|rate| bytes(rate.round() as u64)),
            "not known",
        );
    }
    row("windows", &|state| Some(count(state.windows.into())), "-");
    out
}

/// The tail before the first change and after the last one that was kept: what a review asks for beside the verdict.
fn tail(fates: &Fates<'_>, group: &[&Chapter]) -> Option<String> {
    let first = group.first().filter(|first| first.entry.metric != Some(Metric::Capacity))?;
    // What was kept at first may have been put back since.
    let is_kept = |entry: &LedgerEntry| entry.fate() == Fate::Kept && fates.stays(entry);
    let last = group.iter().rev().find(|chapter| is_kept(&chapter.entry))?;
    let told: Vec<String> = STORY_QUANTILES
        .iter()
        .filter_map(|(name, quantile)| {
            let (before, after) = (first.before.latency_us(*quantile)?, last.after.latency_us(*quantile)?);
            Some(format!("{name} {} → {}", time_us(before), time_us(after)))
        })
        .collect();
    let under =
        if first.entry.workload.is_empty() { String::new() } else { format!(", {}", first.entry.workload) };
    (!told.is_empty()).then(|| {
        format!(
            "Before → with {}{}: {} (states, not pairs)",
            in_a_cell(last.entry.change_alone()),
            in_a_cell(&under),
            told.join(", ")
        )
    })
}

fn foretold(story: &Story) -> String {
    let told =
        story.chapters.iter().filter_map(|chapter| Some((&chapter.entry, chapter.entry.foretold.as_ref()?)));
    let rows: String = told
        .map(|(entry, foretold)| {
            format!(
                "| {} | {} | {} | {} | {} |\n",
                in_a_cell(&entry.change),
                foretold.expected,
                entry.verdict.map_or("not measured here", hone_record::Verdict::label),
                came(foretold),
                in_a_cell(&foretold.rule)
            )
        })
        .collect();
    if rows.is_empty() {
        return rows;
    }
    format!(
        "\n## Foretold, and found\n\n| change | foretold | found | | by which rule |\n|---|---|---|---|---|\n{rows}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{Expectation, Foretold, Hdr, Verdict};

    fn state(us: u64) -> BatchState {
        let mut latency = Hdr::new();
        (0..1_000).for_each(|_| latency.record_ns(us * 1_000));
        BatchState { windows: 2, seconds: 1.0, latency, ..BatchState::default() }
    }

    fn story() -> Story {
        let entry = LedgerEntry {
            change: "binary: p|go".to_owned(),
            experiment: "broker".to_owned(),
            workload: "plain".to_owned(),
            metric: Some(Metric::CpuPerRecord),
            ratio: Some([0.9, 0.85, 0.95]),
            verdict: Some(Verdict::Better),
            decision: "keep".to_owned(),
            why: "less\n# no heading <script>".to_owned(),
            foretold: Some(Foretold {
                expected: Expectation::Gain,
                rule: "r".to_owned(),
                came_true: Some(true),
            }),
            ..LedgerEntry::default()
        };
        let chapter = Chapter { entry, before: state(200), after: state(100), ..Chapter::default() };
        Story { title: "broker".to_owned(), chapters: vec![chapter; 20], ..Story::default() }
    }

    #[test]
    fn markdown_has_every_table_and_no_foreign_markup() {
        let text = markdown(&story());
        for wanted in [
            "## What was tried",
            "## Percentiles, step by step",
            "| p99.999 | too few samples",
            "## Foretold, and found",
            "p\\|go",
            "−10.0 % [−15.0 %, −5.0 %]",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert!(!text.contains("<script") && !text.contains("\n# no heading"), "{text}");
    }

    /// In no two windows of a climb was the load the same.
    #[test]
    fn of_capacities_no_percentiles_are_told() {
        let mut told = story();
        assert!(markdown(&told).contains("Percentiles, step by step") && comment(&told).contains("p50 200"));
        told.chapters.iter_mut().for_each(|chapter| chapter.entry.metric = Some(Metric::Capacity));
        for text in [markdown(&told), comment(&told)] {
            assert!(!text.contains("Percentiles, step by step") && !text.contains("p50"), "{text}");
        }
    }

    /// Of a change that was put back later the tail is nobody's.
    #[test]
    fn the_tail_is_that_of_what_stays() {
        let mut told = story();
        told.chapters.truncate(2);
        told.chapters[1].entry.change = "client: linger=5ms".to_owned();
        assert!(comment(&told).contains("with linger=5ms"), "{}", comment(&told));
        let mut back = told.chapters[1].clone();
        (back.entry.decision, back.after.windows) = ("put back".to_owned(), 0);
        told.chapters.push(back);
        let text = comment(&told);
        assert!(text.contains("1 of 2 changes kept") && text.contains("with p\\|go"), "{text}");
    }

    #[test]
    fn a_comment_is_short_however_much_was_tried() {
        let text = comment(&story());
        assert!(text.lines().count() < 40 && text.contains("5 earlier ones"), "{text}");
        assert!(text.starts_with("**hone, broker**: 1 of 1 changes kept"), "{text}");
        assert!(text.contains("p50 200 µs → 100 µs"), "{text}");
        assert!(text.contains("20 of 20 predictions came true"), "{text}");
    }
}
