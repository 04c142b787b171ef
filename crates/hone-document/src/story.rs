//! A run summary in a few lines for a pull request.

use std::fmt::Write as _;

use hone_format::{change, time_us};
use hone_record::{Chapter, Fate, Fates, LedgerEntry, Metric, STORY_QUANTILES, Story};
use hone_report::verdict::decision_label;

use crate::table::in_a_cell;

/// Maximum rows of a comment, because a reviewer has little time.
const MOST_ROWS: usize = 15;

/// The result for a reviewer, and where to find the rest.
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
        "\n<sub>Ratios with their confidence intervals over pairs of windows, after against before{machine}; \
         measured by hone.</sub>\n"
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
            decision_label(fates.outcome_of(entry))
        );
    }
    out
}

/// The tail before the first change and after the last kept one, which a review needs besides the verdict.
fn tail(fates: &Fates<'_>, group: &[&Chapter]) -> Option<String> {
    let first = group.first().filter(|first| first.entry.metric != Some(Metric::Capacity))?;
    // A change that was kept at first may have been rolled back since.
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

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{BatchState, Expectation, Foretold, Hdr, Verdict};

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

    /// No two windows of a climb had the same load.
    #[test]
    fn of_capacities_no_percentiles_are_told() {
        let mut told = story();
        assert!(comment(&told).contains("p50 200"));
        told.chapters.iter_mut().for_each(|chapter| chapter.entry.metric = Some(Metric::Capacity));
        assert!(!comment(&told).contains("p50"), "{}", comment(&told));
    }

    /// The tail of a change that was rolled back later does not count.
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
