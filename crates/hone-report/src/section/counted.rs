//! Exact counts of two programs: the result, the counts, and the code that changed.

use hone_format::{exact_change, rate};
use hone_record::{CodeChange, CodeFrame, CommitGate, Comparison, Counted, Counts, GateEvidence};

use super::{absent, figure, head, paragraph, section};
use crate::counted::{differs, exactness, result};
use crate::load::NAMELESS_LOAD;
use crate::plot::{flame, scrolling};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Changed code in the table of a page. The rest is folded.
const ROWS: usize = 15;
/// The same in a comment.
const ROWS_OF_COMMENT: usize = 10;
/// The same in a terminal that shows only the result.
const ROWS_OF_RESULT: usize = 5;

const CHANGED: &str = "Code that changed";
const LIMITS: &str = "Counts don't show the kernel, waits for data or locks, and the speed of the machine.";

/// A section for each, the first of them unfolded.
pub(crate) fn sections<'a>(all: impl IntoIterator<Item = &'a Counted>) -> Vec<Element> {
    let each = all.into_iter().enumerate().map(|(index, counted)| {
        let section = whole(&format!("counted-{}", index + 1), counted);
        if index == 0 { section } else { section.detail() }
    });
    each.collect()
}

/// The result and the code that changed most, for the comment of a gate.
pub(crate) fn in_short(index: usize, counted: &Counted) -> Element {
    let changes = changes(counted);
    let shown = &changes[..changes.len().min(ROWS_OF_COMMENT)];
    section(&format!("counted-{}", index + 1), &title(counted))
        .child(result_line(counted))
        .children(table(CHANGED, counted, shown))
        .child(paragraph(LIMITS))
}

fn whole(id: &str, counted: &Counted) -> Element {
    let changes = changes(counted);
    let (shown, rest) = changes.split_at(changes.len().min(ROWS));
    let nameless = (changes.is_empty() && differs(counted))
        .then(|| absent("The programs have no symbols, so the code that changed has no name."));
    section(id, &title(counted))
        .child(result_line(counted))
        .child(per_operation(counted).detail())
        .children(table(CHANGED, counted, shown))
        .children(folded(counted, rest))
        .children(nameless)
        .children(flames(id, counted, &changes))
        .child(paragraph(LIMITS))
        .child(paragraph(&work(counted)).detail())
        .children(
            counted.notes.iter().map(|note| paragraph(&format!("Note: {}.", note.trim_end_matches('.')))),
        )
}

fn title(counted: &Counted) -> String {
    let load = match counted.workload.as_str() {
        NAMELESS_LOAD => String::new(),
        load => format!(" under “{load}”"),
    };
    format!("Exact counts, {} against {}{load}", counted.b, counted.a)
}

fn result_line(counted: &Counted) -> Element {
    let text = format!("Instructions per operation: {}.", head::with_arrows(&result(counted)));
    let line = el("p").child(el("strong").text(&text));
    counted.predicted.iter().fold(line, |line, predicted| line.text(&format!(" {}.", prediction(*predicted))))
}

/// What the counts predict. It is no measurement, so it has no verdict.
fn prediction(predicted: [f64; 3]) -> String {
    format!(
        "Predicted CPU in user code: {} (95 % prediction interval, from the counts)",
        hone_format::interval(predicted)
    )
}

/// The work and the emulator. Its version can have several lines.
fn work(counted: &Counted) -> String {
    let emulator = counted.emulator.lines().next().unwrap_or_default();
    format!("Work of both: {}. Counted by {emulator}.", counted.work.trim_end_matches('.'))
}

/// Code that differs by more than the repetitions.
fn changes(counted: &Counted) -> Vec<&CodeChange> {
    let [a, b] = counted.instructions();
    let noise = counted.scatter() * a.max(b);
    counted.code.iter().filter(|change| difference(change).abs() > noise).collect()
}

fn difference(change: &CodeChange) -> f64 {
    change.instructions[1] - change.instructions[0]
}

/// The table of changed code. `None` without any.
fn table(name: &str, counted: &Counted, changes: &[&CodeChange]) -> Option<Element> {
    let [a, b] = counted.instructions();
    let whole = differs(counted).then_some(b - a);
    let numbers = [&*counted.a, &counted.b, "difference", "of the whole change"];
    let mut columns = vec![Column::words("function"), Column::words("source")];
    columns.extend(numbers.map(|title| Column::numbers(Markup::text(title))));
    let mut table = Table::new(name, columns)
        .remark("Instructions per operation of the function itself, without the functions inlined into it.");
    for (index, change) in changes.iter().enumerate() {
        table.row(function(change), cells(change, whole));
        if index >= ROWS_OF_RESULT {
            table.explain_last();
        }
    }
    (!changes.is_empty()).then(|| table.class("scroll code").finish())
}

/// The outermost function, with the path of inlined functions below.
fn function(change: &CodeChange) -> Markup {
    let Some((outermost, inlined)) = change.frames.split_first() else {
        return Markup::text(if change.object.is_some() {
            "code without a symbol"
        } else {
            "code without a file"
        });
    };
    let path: Vec<&str> = inlined.iter().map(|frame| frame.name.as_str()).collect();
    let path = (!path.is_empty())
        .then(|| el("span").class("small path").text(&format!("inlined: {}", path.join(" › "))));
    path.into_iter().fold(Markup::text(&outermost.name), Markup::with)
}

fn cells(change: &CodeChange, whole: Option<f64>) -> Vec<Cell> {
    let source = change.frames.iter().rev().find_map(|frame: &CodeFrame| frame.source.as_deref());
    let source = source.or(change.object.as_deref()).unwrap_or(NONE);
    let share = whole.map_or_else(|| NONE.to_owned(), |whole| quantity::percent(difference(change) / whole));
    let [a, b] = change.instructions.map(rate);
    let numbers = [a, b, flame::signed(difference(change)), share];
    let source = Cell::words(el("span").class("path").text(source));
    std::iter::once(source).chain(numbers.iter().map(|number| Cell::number(number))).collect()
}

fn folded(counted: &Counted, rest: &[&CodeChange]) -> Option<Element> {
    let name = "More code that changed";
    let table = table(name, counted, rest)?;
    Some(el("details").child(el("summary").text(name)).child(table).detail())
}

/// The differential flame graph. `None` without changed code.
fn flames(id: &str, counted: &Counted, changes: &[&CodeChange]) -> Option<Element> {
    let title = "Where the instructions changed";
    let picture = flame::plot(&format!("{id}-flames"), title, counted, changes)?;
    let caption = format!(
        "Each bar is a file, a function in it, or a function that is inlined into the one above. Its width is \
         its instructions per operation in {}, or in {} if they are more there. Code that did not change is \
         left out. The table has the same figures.",
        counted.b, counted.a
    );
    let legend = flame::legend([&counted.a, &counted.b]);
    Some(figure(title, Some(legend), scrolling(picture).into(), &caption, None).class("flames").detail())
}

/// All counts side by side.
fn per_operation(counted: &Counted) -> Element {
    let numbers = [&*counted.a, &counted.b, "change"].map(|title| Column::numbers(Markup::text(title)));
    let mut table =
        Table::new("Counts per operation", [Column::words("count")].into_iter().chain(numbers).collect());
    if !counted.counts[0].misses.is_empty() {
        table = table.remark("Misses come from models of caches.");
    }
    let mut row = |title: &str, values: [f64; 2], cells: [Markup; 2]| {
        let change = Cell::number(&exact_change(values[1] / values[0]));
        table.row(Markup::text(title), cells.into_iter().map(Cell::numbers).chain([change]).collect());
    };
    let plain = |values: [f64; 2]| values.map(|value| Markup::text(&rate(value)));
    let instructions = counted.instructions();
    row("instructions", instructions, plain(instructions));
    let [a, b] = &counted.counts;
    let branches = [a, b].map(|counts| counts.branches_taken);
    row("branches taken", branches, plain(branches));
    for structure in a.misses.iter().map(|missed| missed.structure.as_str()) {
        let Some(misses) = counted.misses(structure) else { continue };
        let cells = [(a, misses[0]), (b, misses[1])].map(|(counts, value)| missed(counts, value));
        row(&format!("{} misses", structure.replace(" x ", " × ")), misses, cells);
    }
    table.finish()
}

fn missed(counts: &Counts, per_operation: f64) -> Markup {
    let per_1000 = quantity::significant(1_000.0 * per_operation / counts.mean());
    let remark = el("span").class("small").text(&format!("({per_1000} per 1,000 instructions)"));
    Markup::text(&quantity::significant(per_operation)).with(remark)
}

/// The measured and the counted result of a comparison, and which of them decides. `None` if it has only one of them.
pub(crate) fn with_measured(comparison: &Comparison) -> Option<String> {
    let both = both(comparison, comparison.counted.as_deref()?)?;
    Some(format!("{both} The verdict rests on the measured pairs."))
}

fn both(comparison: &Comparison, counted: &Counted) -> Option<String> {
    let primary = comparison.primary()?;
    let estimate = &primary.estimate;
    let [ratio, ..] = counted.ratio();
    Some(format!(
        "{} {}, {}; instructions per operation {} ({}).",
        comparison.label(estimate.metric),
        hone_format::interval([estimate.ratio, estimate.low, estimate.high]),
        primary.verdict.label(),
        quantity::ratio(ratio),
        exactness(counted)
    ))
}

/// The same for a gate, for all its loads. `None` without counts.
pub(crate) fn evidence_of_gate(found: &CommitGate) -> Option<String> {
    let of_load = |comparison: &Comparison| {
        let counted = found.counted.iter().find(|counted| counted.workload == comparison.workload.name)?;
        let several = found.comparisons.len() > 1;
        let load = if several { format!("Under “{}”: ", counted.workload) } else { String::new() };
        Some(format!("{load}{}", both(comparison, counted)?))
    };
    let mut sentences: Vec<String> = found.comparisons.iter().filter_map(of_load).collect();
    let rests_on = match found.evidence {
        GateEvidence::Measured => "The verdict rests on the measured pairs.",
        GateEvidence::Counted => "The verdict rests on exact counts.",
    };
    sentences.push(rests_on.to_owned());
    (!found.counted.is_empty()).then(|| sentences.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::{CommitGate, Metric, Verdict};

    use super::*;
    use crate::document::Document;
    use crate::documents;
    use crate::sample;
    use crate::terminal::Detail;

    fn page(counted: Counted) -> Document {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::NotShown, 0.979, 0.947, 1.013, 1.05);
        comparison.counted = Some(Box::new(counted));
        documents::comparison(&comparison, &BTreeMap::new(), None)
    }

    fn plain(text: &str) -> String {
        text.replace('\u{a0}', " ").replace("\\[", "[").replace("\\]", "]")
    }

    /// Rows of a Markdown table that contain this text.
    fn rows<'a>(text: &'a str, wanted: &str) -> Vec<&'a str> {
        text.lines().filter(|line| line.starts_with('|') && line.contains(wanted)).collect()
    }

    #[test]
    fn the_result_is_followed_by_the_code_that_changed_most() {
        let text = plain(&page(sample::counted()).markdown());
        let result = "**Instructions per operation: 15,235 → 13,770, −9.6 % (exact within 0.0138 %).**";
        let first = "| hone_broker::keys::k00_produce::handle (inlined: hone_broker::validate::record) | \
                     src/keys/k00_produce.rs:97 | 4,210 | 3,105 | −1,105 | 75.4 % |";
        let places =
            [result, first, LIMITS].map(|part| text.find(part).unwrap_or_else(|| panic!("{part}: {text}")));
        assert!(places.is_sorted(), "{places:?}");
        for row in [
            "| ZSTD_compressBlock_doubleFast | libzstd.so.1 | 1,800 | 1,960 | +160 | −10.9 % |",
            "| code without a symbol | libc.so.6 | 120 | 98.0 | −22.0 | 1.50 % |",
            "| code without a file | – | 31.0 | 22.5 | −8.50 | 0.580 % |",
            "| branches taken | 1,310 | 702 | −46.4 % |",
            "| iTLB 64 × 4 KiB 8-way misses | 0.900 (0.0591 per 1,000 instructions) | 0 (0 per 1,000 instructions) | −100 % |",
        ] {
            assert!(text.contains(row), "{row}: {text}");
        }
        assert_eq!(rows(&text, "metrics::series_").len(), 14);
        assert!(
            text.contains("Counted by qemu-x86_64 version 7.2.13.") && !text.contains("Copyright"),
            "{text}"
        );
        assert_eq!(text.matches(LIMITS).count(), 1);
    }

    #[test]
    fn a_terminal_shows_five_rows_and_all_on_request() {
        let rows =
            |text: &str| text.lines().filter(|line| line.contains(".rs:") || line.contains(".so.")).count();
        let short = page(sample::counted()).terminal(Detail::Result);
        assert_eq!(rows(&short), ROWS_OF_RESULT, "{short}");
        assert!(
            short.contains("With --explain also: the other rows.") && !short.contains("branches taken"),
            "{short}"
        );
        let whole = page(sample::counted()).terminal(Detail::Everything);
        assert_eq!(rows(&whole), 20, "{whole}");
    }

    #[test]
    fn a_page_shows_fifteen_rows_folds_the_rest_and_draws_all() {
        let html = page(sample::counted()).html();
        let table = html
            .split("<span class=\"name\">Code that changed")
            .nth(1)
            .unwrap()
            .split("</table>")
            .next()
            .unwrap();
        assert_eq!(table.matches("scope=\"row\"").count(), ROWS);
        assert!(html.contains("<details><summary>More code that changed</summary>"), "{html}");
        let drawing = html.split("<svg class=\"flame\"").nth(1).unwrap().split("</svg>").next().unwrap();
        assert_eq!(drawing.matches("metrics::series_").count(), 14, "{drawing}");
        assert!(html.contains("− fewer instructions in pgo than in baseline"));
    }

    #[test]
    fn a_comment_shows_ten_rows_and_names_the_evidence() {
        let comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::NotShown, 0.979, 0.947, 1.013, 1.05);
        let mut found = gate();
        (found.comparisons, found.counted) = (vec![comparison], vec![sample::counted()]);
        let text = plain(&documents::gate_comment(&found).markdown());
        let all = text.lines().filter(|line| line.starts_with("| ") && line.contains(" %")).count();
        assert_eq!(all, ROWS_OF_COMMENT, "{text}");
        let evidence = "CPU per record 0.979 [0.947, 1.013], inconclusive; instructions per operation 0.904 \
                        (exact within 0.0138 %). The verdict rests on the measured pairs.";
        assert!(text.contains(evidence) && text.contains(LIMITS), "{text}");
        found.comparisons.clear();
        found.evidence = GateEvidence::Counted;
        let text = plain(&documents::gate_comment(&found).markdown());
        assert!(
            text.contains("The verdict rests on exact counts.") && !text.contains("measured pairs"),
            "{text}"
        );
        assert!(text.contains("counted by Hone") && text.contains("two repetitions"), "{text}");
        found.counted.clear();
        assert!(!plain(&documents::gate_comment(&found).markdown()).contains("rests on"));
    }

    fn gate() -> CommitGate {
        let side = hone_record::CommitBuild {
            asked: "main".to_owned(),
            commit: "a".repeat(40),
            subject: "one".to_owned(),
            programs_sha256: Vec::new(),
            file_bytes: 1,
            text_bytes: 1,
            build_s: 1.0,
            kept: false,
            tools: Vec::new(),
        };
        let text = serde_json::json!({
            "name": "x", "file": "hone.toml", "file_of": "both", "base": side, "head": side, "rule": "r",
            "worse_by": {}, "require_power": false, "comparisons": [], "findings": [], "outcome": "passed",
            "notes": [], "run": "runs/x"
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn equal_counts_say_so_without_a_table() {
        let mut same = sample::counted();
        same.counts[1] = same.counts[0].clone();
        same.code.clear();
        let text = plain(&page(same.clone()).markdown());
        assert!(text.contains("15,235, no difference (exact within 0.0131 %)."), "{text}");
        assert!(!text.contains(CHANGED) && !text.contains("no symbols") && text.contains(LIMITS), "{text}");
        // What the repetitions can explain is no change.
        same.counts[1].instructions = vec![15_234.5, 15_235.5];
        same.code = sample::counted().code;
        same.code.truncate(1);
        same.code[0].instructions = [4_210.0, 4_211.0];
        let text = plain(&page(same).markdown());
        assert!(text.contains("no difference") && !text.contains(CHANGED), "{text}");
    }

    #[test]
    fn code_that_only_moved_is_listed_without_a_share() {
        let mut moved = sample::counted();
        moved.counts[1] = moved.counts[0].clone();
        moved.code.truncate(2);
        moved.code[0].instructions = [500.0, 900.0];
        moved.code[1].instructions = [900.0, 500.0];
        let text = plain(&page(moved).markdown());
        assert!(text.contains("| 500 | 900 | +400 | – |") && text.contains("no difference"), "{text}");
    }

    #[test]
    fn a_difference_without_names_is_explained() {
        let mut nameless = sample::counted();
        nameless.code.clear();
        let text = plain(&page(nameless).markdown());
        assert!(text.contains("The programs have no symbols") && !text.contains(CHANGED), "{text}");
    }
}
