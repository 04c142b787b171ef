//! The tree of variants: the fate of each, its cost, and what follows from it.

use hone_record::{
    Comparison, Estimate, Harm, MatrixRow, Optimization, Rewriting, VariantFacts, VariantState, Verdict,
};

use super::{paragraph, section};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table, lines};
use crate::tree::{Element, Markup, el};

/// The section. `None` when there is one variant without trouble, because the rest of the page covers it.
pub(crate) fn of(optimization: &Optimization) -> Option<Element> {
    let variants = &optimization.variants;
    let is_plain = |variant: &VariantFacts| {
        let broken = variant.harm.as_ref().is_some_and(|harm| !harm.broken.is_empty());
        variant.state == VariantState::Made
            && variant.rewriting.is_none()
            && variant.builds.is_empty()
            && !broken
    };
    if variants.len() < 3 && variants.iter().all(is_plain) {
        return None;
    }
    let mut section = section("variants", "The variants")
        .child(table(optimization).class("scroll").finish())
        .children(beside_baseline(optimization));
    for variant in variants {
        section = section.children(variant.rewriting.as_ref().map(|done| rewriting(&variant.name, done)));
    }
    Some(
        section
            .children(matrix(&optimization.matrix))
            .children(layouts(variants))
            .children(one_layouts(&optimization.comparisons))
            .child(tails(&optimization.comparisons)),
    )
}

/// All variants on one scale, if some build on others.
fn beside_baseline(optimization: &Optimization) -> Option<Element> {
    let (names, rows) = optimization.beside_baseline();
    let direct = optimization.on_baseline.first()?;
    let mut columns = vec![Column::words("workload"), Column::words("metric")];
    columns.extend(names.iter().map(|name| Column::words(name)));
    let mut table = Table::new(&format!("All variants compared with {}", direct.a), columns)
        .remark("Ratios with their confidence intervals; below 1 is less.");
    for row in &rows {
        let mut cells = vec![Cell::text(row.label)];
        cells.extend(row.cells.iter().map(|judged| {
            judged.map_or_else(
                || Cell::text(NONE),
                |judged| judged_ratio(Some(&judged.estimate), judged.verdict),
            )
        }));
        table.row(Markup::text(row.workload), cells);
    }
    Some(table.class("scroll").finish())
}

fn judged_ratio(estimate: Option<&Estimate>, verdict: Verdict) -> Cell {
    let interval = |estimate: &Estimate| hone_format::interval([estimate.ratio, estimate.low, estimate.high]);
    let words = estimate.map_or_else(|| NONE.to_owned(), interval);
    Cell::words(
        Markup::text(&words).with(el("div").child(mark::inline_verdict(verdict)).text(verdict.label())),
    )
}

/// The slowest requests of each variant, with the throughput of the same measurement.
fn tails(comparisons: &[Comparison]) -> Element {
    let columns =
        vec![Column::words("variant"), Column::words("workload"), Column::words("slowest requests")];
    let mut table = Table::new("Tail latency and throughput", columns)
        .remark("Ratios to the variant that each was compared with, with confidence intervals.");
    for judged in comparisons {
        let cells = vec![Cell::text(&judged.workload.name), Cell::text(&judged.tail_words())];
        table.row(Markup::text(&judged.b), cells);
    }
    table.class("scroll").finish()
}

/// The builds of each variant, if it has several.
fn layouts(variants: &[VariantFacts]) -> Option<Element> {
    let columns = vec![Column::words("build"), Column::words("function placement"), Column::words("SHA-256")];
    let mut table = Table::new("Builds of each variant", columns).remark(
        "Each block of rounds, and each pair, measured one build of every variant. The intervals \
             include the spread between builds.",
    );
    for build in variants.iter().flat_map(|variant| &variant.builds) {
        let hash = build.sha256.get(..12).unwrap_or(&build.sha256);
        table.row(Markup::text(&build.name), vec![Cell::text(&build.places()), Cell::text(hash)]);
    }
    let is_of_several = variants.iter().any(|variant| !variant.builds.is_empty());
    is_of_several.then(|| table.class("scroll").finish())
}

/// Comparisons whose several builds of an arm say nothing about the variation of its layout.
fn one_layouts(comparisons: &[Comparison]) -> Vec<Element> {
    let told = |judged: &Comparison| {
        let words = judged.one_layout_words()?;
        Some(paragraph(&format!("{} against {}, {}: {words}", judged.b, judged.a, judged.workload.name)))
    };
    comparisons.iter().filter_map(told).collect()
}

fn table(optimization: &Optimization) -> Table {
    let workloads = workloads(&optimization.comparisons);
    let mut columns = vec![Column::words("variant"), Column::words("compared with")];
    columns.extend(workloads.iter().map(|name| Column::words(name)));
    columns.extend(["start-up", "resident memory", "follows"].map(Column::words));
    let mut table = Table::new("Variants, each compared with the one that it builds on", columns).remark(
        "Ratios of the primary metric with their confidence intervals; below 1 is less. Start-up and memory \
         come from a few starts and one load.",
    );
    for variant in optimization.variants.iter().filter(|variant| variant.judged) {
        let mut cells = vec![Cell::text(variant.parent.as_deref().unwrap_or(NONE))];
        for workload in &workloads {
            let edge = |comparison: &&Comparison| {
                comparison.b == variant.name && comparison.workload.name == *workload
            };
            cells.push(ratio(optimization.comparisons.iter().find(edge)));
        }
        cells.extend(costs(variant.harm.as_ref()));
        cells.push(Cell::words(follows(variant)));
        table.row(Markup::text(&variant.name), cells);
    }
    table
}

fn workloads(comparisons: &[Comparison]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for comparison in comparisons {
        if !names.contains(&comparison.workload.name.as_str()) {
            names.push(&comparison.workload.name);
        }
    }
    names
}

fn ratio(comparison: Option<&Comparison>) -> Cell {
    let Some(comparison) = comparison else { return Cell::text(NONE) };
    judged_ratio(comparison.primary().map(|primary| &primary.estimate), comparison.verdict())
}

fn costs(harm: Option<&Harm>) -> [Cell; 2] {
    let told = |value: Option<f64>, words: fn(f64) -> String| {
        Cell::text(&value.map_or_else(|| NONE.to_owned(), words))
    };
    [
        told(harm.and_then(|harm| harm.start_up_s), |seconds| quantity::time_us(seconds * 1e6)),
        told(harm.and_then(|harm| harm.rss_bytes), |bytes| quantity::bytes(bytes as u64)),
    ]
}

fn follows(variant: &VariantFacts) -> Markup {
    let broken = variant.harm.iter().flat_map(|harm| &harm.broken).cloned();
    let first = match (&variant.state, variant.decision.as_str()) {
        (VariantState::LeftOut { why }, _) => format!("excluded: {}", why.lines().next().unwrap_or_default()),
        (VariantState::Made, "") => NONE.to_owned(),
        (VariantState::Made, decision) => format!("{decision}: {}", variant.why),
    };
    let unknown = variant.harm.iter().flat_map(|harm| &harm.not_measured);
    let unknown = unknown.map(|what| format!("{what} was not measured"));
    lines(std::iter::once(first).chain(broken).chain(unknown))
}

fn rewriting(name: &str, done: &Rewriting) -> Element {
    let mut facts = Table::facts(&format!("What BOLT did for {name}"));
    facts.fact("rung", &done.rung);
    if !done.profile.is_empty() {
        facts.fact("profile", &done.profile);
    }
    if let Some([with, all]) = done.profiled_functions {
        facts.fact(
            "functions with a profile",
            &format!("{} of {}", quantity::count(with), quantity::count(all)),
        );
    }
    if let Some(moved) = done.layout_modified {
        facts.fact("functions with a new layout", &quantity::count(moved));
    }
    facts.fact("profile in changed functions", &quantity::percent(done.stale_share));
    let short = done.shortfalls();
    if !short.is_empty() {
        facts.fact("not laid out", &short.join("; "));
    }
    if !done.given_up.is_empty() {
        facts.fact("tried and rejected", &done.given_up.join("; "));
    }
    if !done.culprits.is_empty() {
        let found = format!(
            "{} (found with {} builds)",
            hone_record::demangled_all(&done.culprits),
            done.search_builds
        );
        facts.fact("left unchanged, because the layout breaks them", &found);
    } else if !done.skipped.is_empty() {
        facts.fact("left unchanged", &done.skipped.join(", "));
    }
    if let Some(bundle) = &done.bundle {
        facts.fact("for a bug report", bundle);
    }
    facts.finish()
}

fn matrix(rows: &[MatrixRow]) -> Option<Element> {
    let first = rows.first()?;
    let mut columns = vec![Column::words("trained with")];
    columns.extend(first.cells.iter().map(|cell| Column::words(&cell.workload)));
    columns.push(Column::words("front"));
    let mut table = Table::new("Each profile under each workload, compared with the baseline", columns)
        .remark(
            "A profile is on the front if no other mix beats it under every workload, by the estimates. A \
         profile looks too good under its own workload.",
        );
    for row in rows {
        let mut cells: Vec<Cell> = Vec::new();
        for cell in &row.cells {
            let words = cell.ratio.map_or_else(|| NONE.to_owned(), hone_format::interval);
            let own = if cell.own { " (its own)" } else { "" };
            cells.push(Cell::words(lines([words, format!("{}{own}", cell.verdict.label())])));
        }
        cells.push(Cell::text(if row.on_front { "on it" } else { NONE }));
        table.row(Markup::text(&row.trained_with.join(" + ")), cells);
    }
    Some(table.class("scroll").finish())
}
