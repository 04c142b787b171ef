//! Where the pipeline lost its slots before any change, and what was predicted for each layout before its measurement.

use std::collections::BTreeMap;

use hone_record::{
    Category, CodeLayout, Comparison, Diagnosed, Diagnosis, Foretelling, Optimization, Shift, VariantFacts,
};

use super::{figure, no_figure, paragraph, section};
use crate::outcome::capital;
use crate::plot::top_down::{self, Bar};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};
use crate::watched::tables;

/// The structures to show: two first levels and the pages. More would be a list.
const STRUCTURES: [&str; 3] = ["L1i 32 KiB 8-way", "L1i 64 KiB 16-way", "iTLB 64 x 4 KiB"];
/// Places in the sizes of footprints.
const LINES: usize = 0;
/// See [`LINES`].
const PAGES: usize = 1;
/// Place of 99 % in a footprint.
const MOST: usize = 2;

/// The section. `None` when nothing was diagnosed.
pub(crate) fn of(optimization: &Optimization) -> Option<Element> {
    let diagnosis = optimization.diagnosis.as_ref();
    let foretold = foretold(optimization);
    if diagnosis.is_none() && foretold.is_none() {
        return None;
    }
    let all = section("diagnosis", "Why the CPU stalls").children(diagnosis.map(|found| told(0, found)));
    Some(all.children(foretold))
}

/// A single diagnosis, as a page shows it.
pub(crate) fn alone(diagnosis: &Diagnosis) -> Element {
    section("diagnosis", "Why the CPU stalls").child(figures(0, diagnosis, true))
}

/// The diagnoses of several targets. `None` when there are none.
pub(crate) fn of_all(diagnoses: &[Diagnosis]) -> Option<Element> {
    let told = || diagnoses.iter().enumerate().map(|(index, found)| told(index, found));
    (!diagnoses.is_empty()).then(|| section("diagnosis", "Why the CPU stalls").children(told()))
}

fn told(index: usize, diagnosis: &Diagnosis) -> Markup {
    Markup::default()
        .with(paragraph(&format!("Evidence: {}. Source: {}.", diagnosis.evidence.label(), diagnosis.source)))
        .with(figures(index, diagnosis, false))
}

/// A diagnosis without its evidence and source, which the head of its own page has, as it has the first change in words.
fn figures(index: usize, diagnosis: &Diagnosis, has_head: bool) -> Markup {
    let shifts = diagnosis.shifts.iter().enumerate().map(|(place, shift)| {
        let is_said = has_head && place == 0 && shift.sentence().is_some();
        shifted(shift, is_said)
    });
    let activity = diagnosis.watched.iter().flat_map(tables).map(|(name, rows)| activity(name, &rows));
    Markup::default()
        .with(activity.collect::<Markup>())
        .with(bars(&format!("diagnosis-{}-slots", index + 1), diagnosis))
        .with(shifts.collect::<Markup>())
        .with(slots(diagnosis).into_iter().collect::<Markup>())
        .with(diagnosis.parts.iter().filter_map(verdict).collect::<Markup>())
        .with(diagnosis.parts.iter().filter_map(refused).collect::<Markup>())
        .with(parts(diagnosis).into_iter().collect::<Markup>())
        .with(diagnosis.notes.iter().map(|note| paragraph(&format!("Note: {note}."))).collect::<Markup>())
}

/// Most measurements as bars. The tables have all of them.
const MOST_BARS: usize = 6;

/// Level 1 as bars: before and after for each change, otherwise a bar for each part.
fn bars(id: &str, diagnosis: &Diagnosis) -> Markup {
    let title = "Where the slots went";
    let caption = "Shares of the pipeline's slots, by category of the top-down method.";
    let bar = |label: &str, percent: BTreeMap<Category, f64>| Bar { label: label.to_owned(), percent };
    let shifted = |(index, shift): (usize, &Shift)| {
        let side =
            |side: usize| shift.percent.iter().map(|(category, both)| (*category, both[side])).collect();
        let bars = [bar("before", side(0)), bar("after", side(1))];
        let scope = shift.after.as_deref().map(|scope| format!(", {scope}")).unwrap_or_default();
        let (id, title) = (format!("{id}-{}", index + 1), format!("{title}, before and after{scope}"));
        let plot = top_down::plot(&id, &title, &bars, true)?;
        let caption = format!("{caption} The numbers under the bars are the changes in points.");
        Some(figure(&title, Some(top_down::legend(&bars)), plot, &caption, None))
    };
    if !diagnosis.shifts.is_empty() {
        return diagnosis.shifts.iter().take(MOST_BARS).enumerate().filter_map(shifted).collect();
    }
    let parts = diagnosis.parts.iter().filter_map(|part| {
        Some(bar(part.scope.as_deref().unwrap_or("all"), part.slots.as_ref()?.percent.clone()))
    });
    let bars: Vec<Bar> = parts.take(MOST_BARS).collect();
    match top_down::plot(id, title, &bars, false) {
        Some(plot) => figure(title, Some(top_down::legend(&bars)), plot, caption, None).into(),
        None if diagnosis.watched.is_some() => Markup::default(),
        None => {
            let why = "There are no pipeline slots, because only hardware counters count them.";
            no_figure(title, why).into()
        }
    }
}

/// A table of the activity of threads. Its first row has the titles.
fn activity(name: &str, rows: &[Vec<String>]) -> Element {
    let (titles, rows) = rows.split_first().map_or((&[][..], rows), |(titles, rows)| (&titles[..], rows));
    let columns = titles.iter().enumerate().map(|(place, title)| match place {
        0 => Column::words(title),
        _ => Column::numbers(Markup::text(title)),
    });
    let mut table = Table::new(name, columns.collect());
    for row in rows.iter().filter(|row| !row.is_empty()) {
        table.row(Markup::text(&row[0]), row[1..].iter().map(|cell| Cell::number(cell)).collect());
    }
    table.finish()
}

/// Level 1 of each part that has slots.
fn slots(diagnosis: &Diagnosis) -> Option<Element> {
    let told = diagnosis
        .parts
        .iter()
        .filter_map(|part| Some((part.scope.as_deref().unwrap_or("all"), part.slots.as_ref()?)));
    let mut rows = told.peekable();
    rows.peek()?;
    // The tables of what moved contain all of it.
    if diagnosis.parts.len() == 2 * diagnosis.shifts.len() {
        return None;
    }
    let has = |category: Category| {
        diagnosis.parts.iter().flat_map(|part| &part.slots).any(|slots| slots.share(category).is_some())
    };
    let columns: Vec<Category> = Category::LEVEL_1
        .into_iter()
        .chain([Category::SmtContention])
        .filter(|category| has(*category))
        .collect();
    let titles = columns.iter().map(|category| Column::numbers(Markup::text(category.label())));
    let mut table =
        Table::new("Where the slots went", [Column::words("part")].into_iter().chain(titles).collect());
    for (scope, slots) in rows {
        let share = |category: &Category| {
            slots.share(*category).map_or(NONE.to_owned(), |share| format!("{share:.1} %"))
        };
        table.row(
            Markup::text(scope),
            columns.iter().map(|category| Cell::number(&share(category))).collect(),
        );
    }
    Some(table.finish())
}

/// The reason why a part has no slots.
fn refused(part: &Diagnosed) -> Option<Element> {
    let why = part.refused.as_ref()?;
    let scope = part.scope.as_ref().map(|scope| format!("{scope}: ")).unwrap_or_default();
    Some(paragraph(&format!("{scope}refused: {why}.")))
}

/// How the slots changed between two measurements.
fn shifted(shift: &Shift, is_said: bool) -> Element {
    let scope = shift.after.as_deref().map(|scope| format!(", {scope}")).unwrap_or_default();
    let mut table = Table::new(
        &format!("How the slots changed{scope}"),
        [Column::words("slots")]
            .into_iter()
            .chain(["before", "after", "points"].map(|title| Column::numbers(Markup::text(title))))
            .collect(),
    )
    .remark("Shares of the pipeline's slots. To see whether the program became faster, compare its CPU per record.");
    for (category, [before, after]) in &shift.percent {
        let cells = [format!("{before:.1} %"), format!("{after:.1} %"), signed(after - before)];
        table.row(Markup::text(&category.to_string()), cells.map(|cell| Cell::number(&cell)).into());
    }
    let words =
        shift.sentence().unwrap_or_else(|| "No category changed by half a percentage point".to_owned());
    el("div").child(table.finish()).children((!is_said).then(|| paragraph(&format!("{words}."))))
}

fn signed(points: f64) -> String {
    format!("{points:+.1}").replace('-', "−")
}

fn verdict(part: &Diagnosed) -> Option<Element> {
    let verdict = part.verdict.as_ref()?;
    let scope = part.scope.as_ref().map(|scope| format!("{scope}: ")).unwrap_or_default();
    let ceiling = verdict
        .ceiling_words()
        .map(|most| format!(" It can save at most {most} of the CPU."))
        .unwrap_or_default();
    let words = format!("{scope}Will a better layout help? {}.", capital(&verdict.likelihood.to_string()));
    let why = format!(
        "{} (source: {}).{ceiling} Next: {}.",
        capital(&verdict.rule),
        verdict.source,
        verdict.next.advice()
    );
    Some(el("div").child(el("h3").text(&words)).child(paragraph(&why)))
}

/// Whether a better layout helps, for the first part with an answer.
pub(crate) fn likelihood(diagnosis: &Diagnosis) -> Option<String> {
    let verdict = diagnosis.parts.iter().find_map(|part| part.verdict.as_ref())?;
    let answer = capital(&verdict.likelihood.to_string());
    Some(format!("Will a better layout of the code help? {answer}."))
}

/// Layouts by thread.
fn parts(diagnosis: &Diagnosis) -> Option<Element> {
    let told: Vec<(&str, &CodeLayout)> = diagnosis
        .parts
        .iter()
        .filter_map(|part| Some((part.scope.as_deref().unwrap_or("all"), part.layout.as_ref()?)))
        .collect();
    if told.is_empty() {
        return None;
    }
    let columns = columns("threads", &["branches taken", "lines for 99 %", "pages for 99 %"]);
    let mut table = Table::new("Layout of the executed code", columns).remark(
        "Misses and branches per 1,000 instructions, from models of caches. Lines of 64 B and pages of 4 KiB \
         that hold 99 % of the execution.",
    );
    for (scope, layout) in told {
        let misses = STRUCTURES.map(|structure| layout.missed(structure));
        let mut cells: Vec<Cell> = misses.into_iter().chain([layout.taken_per_1000]).map(number).collect();
        cells.extend([LINES, PAGES].map(|unit| units(layout, unit)));
        table.row(Markup::text(scope), cells);
    }
    Some(table.class("scroll").finish())
}

/// A column of words, then one of numbers for each structure and each of these titles.
fn columns(first: &str, more: &[&str]) -> Vec<Column> {
    // A record names structures with the letter x.
    let structures = STRUCTURES.map(|name| name.replace(" x ", " × "));
    let titles = structures.iter().map(String::as_str).chain(more.iter().copied());
    std::iter::once(Column::words(first))
        .chain(titles.map(|title| Column::numbers(Markup::text(title))))
        .collect()
}

fn number(value: Option<f64>) -> Cell {
    Cell::number(&value.map_or_else(|| NONE.to_owned(), |value| format!("{value:.2}")))
}

fn units(layout: &CodeLayout, unit: usize) -> Cell {
    let found = layout.footprints.get(unit).map(|footprint| quantity::count(footprint.units[MOST]));
    Cell::number(&found.unwrap_or_else(|| NONE.to_owned()))
}

/// The prediction for each layout, compared with its measurement.
fn foretold(optimization: &Optimization) -> Option<Element> {
    let told: Vec<(&VariantFacts, &Foretelling)> = optimization
        .variants
        .iter()
        .filter_map(|variant| Some((variant, variant.foretelling.as_ref()?)))
        .collect();
    if told.is_empty() {
        return None;
    }
    let mut columns = columns("variant", &["branches taken", "pages for 99 %"]);
    columns.extend(["expected", "found"].map(Column::words));
    let mut table = Table::new("Predicted by replay, before any measurement", columns).remark(
        "Hone replays windows of the recorded instruction order, first with the original layout and then \
             with the layout of the variant. Misses and branches per 1,000 instructions. The expectation \
             follows a rule of Hone that is not calibrated. The table shows right and wrong predictions.",
    );
    for (variant, foretelling) in told {
        let (before, now) = (&foretelling.before, &foretelling.now);
        let change = |before: Option<f64>, now: Option<f64>| {
            let words = before.zip(now).map(|(before, now)| format!("{before:.2} \u{2192} {now:.2}"));
            Cell::number(&words.unwrap_or_else(|| NONE.to_owned()))
        };
        let mut cells: Vec<Cell> =
            STRUCTURES.iter().map(|name| change(before.missed(name), now.missed(name))).collect();
        cells.push(change(before.taken_per_1000, now.taken_per_1000));
        let pages = |layout: &CodeLayout| layout.footprints.get(PAGES).map(|found| found.units[MOST] as f64);
        let pages =
            pages(before).zip(pages(now)).map(|(before, now)| format!("{before:.0} \u{2192} {now:.0}"));
        cells.push(Cell::number(&pages.unwrap_or_else(|| NONE.to_owned())));
        cells.push(Cell::text(&foretelling.expected.to_string()));
        cells.push(found(variant, foretelling, &optimization.comparisons));
        table.row(Markup::text(&variant.name), cells);
    }
    Some(table.class("scroll").finish())
}

/// The comparison under the first workload.
fn found(variant: &VariantFacts, foretelling: &Foretelling, comparisons: &[Comparison]) -> Cell {
    let Some(judged) = comparisons.iter().find(|judged| judged.b == variant.name) else {
        return Cell::text(NONE);
    };
    let verdict = judged.verdict();
    let ratio = judged.primary().map(|primary| {
        let estimate = &primary.estimate;
        hone_format::interval([estimate.ratio, estimate.low, estimate.high])
    });
    let right = foretelling
        .expected
        .came_true(verdict)
        .map(|right| if right { "as predicted" } else { "not as predicted" });
    let words = ratio.into_iter().chain([verdict.label().to_owned()]).chain(right.map(str::to_owned));
    Cell::words(lines(words))
}
