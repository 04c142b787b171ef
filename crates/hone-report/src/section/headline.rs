//! The heads of all pages: what was compared, the verdict, the figures that carry it, and the circumstances.

use hone_record::{
    Capacity, Chapter, CommitGate, Comparison, Curve, CurveOver, Decision, Diagnosis, Fate, Fates, HostTrial,
    LedgerEntry, Metric, Optimization, PairKind, Proof, ProofStep, Requirement, SavedFigure, Saving, Story,
    Tuning, VariantFacts, Verdict, Watched, Window,
};

use super::head::{self, BeforeAfter, Head, machine_in_short};
use super::{counted, figure, in_order, is_ground, paragraph, rates};
use crate::load::{load_text, load_without_rate, under};
use crate::outcome::{self, Outcome};
use crate::plot::forest::{self, Forest, Row};
use crate::plot::{is_sound_ratio, mark};
use crate::tree::{Element, Markup, el};
use crate::verdict::{headline, sentence};
use crate::{quantity, sentence};

/// The head of an optimisation: the decision, the best variant's comparison in figures, then the others' verdicts.
pub(crate) fn optimization(optimization: &Optimization) -> Element {
    let ordered = in_order(optimization);
    let decision = decision(optimization);
    let kind = if optimization.jvm.is_some() { "Java service" } else { "Profile-guided optimisation" };
    let head = Head::new(kind, &optimization.name);
    let head = match ordered.split_first() {
        None => head.with(el("p").class("sentence").text("No verdict yet: nothing was judged.")),
        Some((first, others)) => {
            let head = match &decision {
                Some((best, reasons)) => {
                    let more = [vec![reasons.clone()], judged_of(first)].concat();
                    head.verdict(outcome_of(first), best, more)
                }
                None => of_comparison(head, first, Vec::new()),
            };
            head.figures_of(first).with(also(others))
        }
    };
    let doubts = optimization.doubts();
    head.with_all(doubts.iter().map(|doubt| el("p").class("warning").text(doubt))).meta(&[
        head::date(optimization.started_unix_ms),
        optimization.experiment.clone(),
        format!("Hone {}", optimization.hone_version),
        machine_in_short(&optimization.machine),
    ])
}

/// The best variant, and why each variant is kept or dropped. Records from before the variant tree have none.
fn decision(optimization: &Optimization) -> Option<(String, Element)> {
    let mut decided: Vec<&VariantFacts> =
        optimization.variants.iter().filter(|variant| !variant.decision.is_empty()).collect();
    decided.sort_by_key(|variant| is_ground(optimization, &variant.name));
    let best = match &optimization.best {
        Some(best) => format!("Decision: keep {best}, the best variant by measurement."),
        None => "Decision: keep the baseline; no variant is kept.".to_owned(),
    };
    let item = |variant: &&VariantFacts| {
        let why = variant.why.lines().next().unwrap_or_default();
        el("li").child(el("b").text(&format!("{} {}: ", variant.decision, variant.name))).text(why)
    };
    let reasons = || el("ul").class("reasons").children(decided.iter().map(item));
    (!decided.is_empty()).then(|| (best, reasons()))
}

/// The head of a comparison. A headline that the run summary drew with other limits comes first.
pub(crate) fn comparison(comparison: &Comparison, concluded: Option<&str>) -> Element {
    let concluded = concluded.map(|words| el("p").class("sentence").text(words));
    let mut sides = head::sides_of(comparison);
    sides.push(("Load", load_text(&comparison.workload)));
    let head = Head::new("Comparison", &head::title(comparison)).sides(&sides).with_all(concluded);
    let [date, took] = head::when(comparison);
    of_comparison(head, comparison, Vec::new()).figures_of(comparison).meta(&[
        date,
        took,
        machine_in_short(&comparison.machine),
    ])
}

/// The verdict of a comparison with what belongs to it.
fn of_comparison(head: Head, comparison: &Comparison, more: Vec<Element>) -> Head {
    let sentence = sentence(comparison);
    let headline = headline(comparison);
    let figures = sentence.strip_prefix(&headline).unwrap_or_default().trim();
    let mut lines: Vec<Element> = (!figures.is_empty()).then(|| paragraph(figures)).into_iter().collect();
    lines.extend(doubts_of(comparison));
    lines.extend(more);
    // A headline without exceptions has no more than the title and the word: it is for a terminal.
    let is_said =
        comparison.primary().is_some() && !comparison.has_regression() && !comparison.b_does_not_sustain();
    let line = el("p").class(if is_said { "sentence said" } else { "sentence" }).text(&headline);
    head.verdict_of(outcome_of(comparison), line, lines)
}

/// A comparison's sentence below a decision that rests on it.
fn judged_of(comparison: &Comparison) -> Vec<Element> {
    let under = format!("Verdict under the workload “{}”", comparison.workload.name);
    let mut lines = vec![el("p").class("under").text(&under), paragraph(&sentence(comparison))];
    lines.extend(doubts_of(comparison));
    lines
}

/// What qualifies the figures of a comparison.
fn doubts_of(comparison: &Comparison) -> Vec<Element> {
    let mut lines: Vec<Element> =
        counted::with_measured(comparison).map(|text| paragraph(&text)).into_iter().collect();
    lines.extend(measured(comparison).map(|text| paragraph(&text).detail()));
    lines.extend(warnings(comparison).iter().map(|warning| el("p").class("warning").text(warning)));
    if let Some(beside) = sentence::beside(comparison) {
        let worse =
            comparison.judgements.iter().any(|other| !other.primary && other.verdict == Verdict::Worse);
        let class = if worse { "others worse" } else { "others" };
        lines.push(el("p").class(class).text(&beside).detail());
    }
    lines.push(paragraph(&sentence::control(comparison)).detail());
    lines
}

fn outcome_of(comparison: &Comparison) -> Outcome {
    let verdict = shown_verdict(comparison);
    Outcome::new(verdict, word_of(verdict))
}

/// The verdict as one large word.
fn word_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "Better",
        Verdict::Worse => "Regression",
        Verdict::Equivalent => "Equivalent",
        Verdict::NotShown => "Inconclusive",
    }
}

/// The head of one load run.
pub(crate) fn window(window: &Window) -> Element {
    let title = under(&window.variant, &window.workload.name);
    let head = Head::new("Load run", &title)
        .sides(&[("Target", window.address.clone()), ("Load", load_text(&window.workload))])
        .verdict(outcome::of_load(window), &sentence::outcome(window), broken_rules(window))
        .with_all(head::tiles_of_values("The load in figures", &load_values(window)).map(Element::detail));
    let machine = window.environment.as_ref().map(|found| machine_in_short(&found.machine));
    head.meta(&[
        head::date(window.started_unix_ms),
        format!("{} measured", quantity::duration(window.duration_s)),
        machine.unwrap_or_default(),
    ])
}

/// The rules that the load did not meet, with the measured figures.
fn broken_rules(window: &Window) -> Vec<Element> {
    let broken = window.requirements.iter().filter(|rule| rule.met == Some(false));
    let line = |rule: &Requirement| {
        paragraph(&format!("Not met: {}; measured {}.", rule.rule, super::load_run::measured_text(rule)))
    };
    broken.map(line).collect()
}

/// The figures that people look for first.
pub(crate) fn load_values(window: &Window) -> Vec<(&'static str, String, String)> {
    const METRICS: [Metric; 6] = [
        Metric::LatencyP50,
        Metric::LatencyP99,
        Metric::LatencyP999,
        Metric::LatencyMax,
        Metric::CpuPerRecord,
        Metric::BusyPerRecord,
    ];
    let values = METRICS.into_iter().filter_map(|metric| {
        Some((metric.label(), quantity::of_metric(metric, window.value(metric)?), String::new()))
    });
    values.take(5).collect()
}

/// The head of a capacity search.
pub(crate) fn capacity(found: &Capacity) -> Element {
    let value = |name, rate: Option<f64>| {
        Some((name, format!("{} requests/s", hone_format::rate(rate?)), String::new()))
    };
    let values: Vec<_> =
        [value("holds at", found.held_requests_per_s), value("breaks at", found.failed_requests_per_s)]
            .into_iter()
            .flatten()
            .collect();
    Head::new("Capacity", &under(&found.variant, &found.workload.name))
        .sides(&[("Target", found.address.clone()), ("Load", load_without_rate(&found.workload))])
        .with(el("p").class("sentence").text(&rates::knee_sentence(found)))
        .with_all(head::tiles_of_values("Confirmed rates", &values))
        .meta(&[machine_in_short(&found.machine)])
}

/// The head of a sweep.
pub(crate) fn curve(found: &Curve) -> Element {
    let kind = match found.over {
        CurveOver::Rate => "Sweep over rates",
        CurveOver::RecordsPerBatch => "Sweep over batch sizes",
    };
    let span = rates::span_sentence(found);
    let sentence = match (rates::batch_sentence(found), rates::steady_sentence(found)) {
        (Some(batches), _) => batches,
        (None, Some(steady)) => format!("{steady} {span}"),
        (None, None) => span,
    };
    Head::new(kind, &under(&found.variant, &found.workload.name))
        .sides(&[("Target", found.address.clone()), ("Load", load_without_rate(&found.workload))])
        .with(el("p").class("sentence").text(&sentence))
        .meta(&[machine_in_short(&found.machine)])
}

/// The head of a diagnosis.
pub(crate) fn diagnosis(found: &Diagnosis) -> Element {
    let moved = found.shifts.first().and_then(hone_record::Shift::sentence).map(|words| format!("{words}."));
    let sentence = moved
        .or_else(|| largest_loss(found))
        .or_else(|| super::diagnosis::likelihood(found))
        .or_else(|| busiest(found.watched.as_ref()?));
    let next = found.watched.iter().map(|watched| paragraph(&format!("Next: {}.", watched.next)));
    let none = || "No figure says where the CPU stalls.".to_owned();
    Head::new("Diagnosis", &found.source.replace('`', ""))
        .with(el("p").class("sentence").text(&sentence.unwrap_or_else(none)))
        .with_all(next)
        .meta(&[format!("Evidence: {}", found.evidence.label())])
}

/// The busiest threads of a process as a sentence.
fn busiest(watched: &Watched) -> Option<String> {
    let first = watched.groups.first().or(watched.threads.first())?;
    let cores = first.cpu_s? / watched.window_s.max(1e-9);
    let kind = if watched.groups.is_empty() { "thread" } else { "threads" };
    Some(format!("Busiest {kind}: {}, {} of a core.", first.name, hone_format::percent(cores)))
}

/// The largest loss as a sentence.
fn largest_loss(found: &Diagnosis) -> Option<String> {
    let (category, share) = outcome::largest_loss(found)?;
    Some(format!("Largest loss: {}, {share:.1} % of the pipeline slots.", category.label()))
}

/// The head of a tuned service.
pub(crate) fn tuning(found: &Tuning) -> Element {
    let saving = found.saving();
    let saved = saving.as_ref().map(|saving| paragraph(&format!("{}.", saving.sentence())));
    let how = saving.map(|saving| paragraph(&saving.how).detail());
    let worth = found.worth().and_then(|step| step.comparison.as_ref());
    let mut lines: Vec<Element> = worth.and_then(price).into_iter().chain(saved).collect();
    lines.extend(found.remarks().map(|remarks| paragraph(&remarks)));
    lines.push(paragraph(&format!("The run ended because {}.", found.stopped.trim_end_matches('.'))));
    lines.extend(how);
    let steps = found.steps.iter().map(|step| &step.step);
    let rows = steps.filter_map(step_row);
    let first = found.steps.iter().find_map(|step| step.step.comparison.as_ref());
    let all = worth.and_then(|worth| {
        let row = row_of("all kept changes", worth.verdict().label(), worth)?;
        Some(Row { verdict: worth.verdict(), ..row })
    });
    Head::new("Tuned", &found.name)
        .sides(&[("Target", found.target.clone()), ("Load", found.load.clone())])
        .verdict(outcome::of_tuning(found), &found.verdict(), lines)
        .with_all(
            worth.and_then(|worth| head::tiles_of(worth, Some("All kept changes"))).map(Element::detail),
        )
        .picture(steps_in_a_forest(first, rows.chain(all).collect(), &found.workload.name))
        .meta(&[format!("{} measured", quantity::duration(found.took_s)), machine_in_short(&found.machine)])
}

/// A change as a row of a forest plot. `None` without an estimate of the primary metric.
fn row_of<'a>(change: &str, word: &'static str, comparison: &'a Comparison) -> Option<Row<'a>> {
    let judged = comparison.primary()?;
    Some(Row {
        label: head::with_arrows(change),
        strong: false,
        is_cost: judged.estimate.metric.lower_is_better(),
        ratio: forest::triple(&judged.estimate),
        control: judged.control.as_ref().map(forest::triple),
        verdict: shown_verdict(comparison),
        word,
    })
}

/// A step as a row: its mark follows the decision, because a step can be rejected for another metric.
fn step_row(step: &ProofStep) -> Option<Row<'_>> {
    let comparison = step.comparison.as_ref()?;
    let verdict = match (step.decision, comparison.verdict()) {
        (Decision::Accepted, _) => Verdict::Better,
        (_, Verdict::NotShown) => Verdict::NotShown,
        _ => Verdict::Worse,
    };
    Some(Row { verdict, ..row_of(&step.change, step.outcome(), comparison)? })
}

/// The other metrics that all kept changes together make worse.
fn price(worth: &Comparison) -> Option<Element> {
    let is_worse = worth.judgements.iter().any(|other| !other.primary && other.verdict == Verdict::Worse);
    let text = is_worse.then(|| sentence::worse(worth)).flatten()?;
    Some(el("p").class("warning").text(&text))
}

/// The ratio of each change in one plot. `None` when nothing was estimated.
fn steps_in_a_forest(first: Option<&Comparison>, rows: Vec<Row<'_>>, load: &str) -> Option<Element> {
    let first = first?;
    let title = format!("{}, change by change", first.design.rule.primary.label());
    let level = sentence::level(first, true).map_or(String::new(), |level| format!("{level} "));
    let intervals = format!("{level}confidence interval");
    let rows = Forest { a: "before", b: "after", equivalence: 0.0, holds_all: true, intervals, rows };
    let legend = forest::legend(&rows);
    let plot = forest::plot("head-forest", &title, rows)?;
    let caption = format!("Each change compared with the state before it, under {load}.");
    Some(figure(&title, Some(legend), plot, &caption, None))
}

/// The head of steps that were tried one after the other.
pub(crate) fn proof(found: &Proof) -> Element {
    let accepted = || found.steps.iter().filter(|step| step.decision == Decision::Accepted);
    let shown = accepted().next_back().or(found.steps.first());
    let tiles = shown
        .and_then(|step| head::tiles_of(step.comparison.as_ref()?, Some(&format!("Change {}", step.change))));
    let first = found.steps.iter().find_map(|step| step.comparison.as_ref());
    let rows = found.steps.iter().filter_map(step_row);
    Head::new("Proof of batch settings", &found.target)
        .sides(&[("Load", found.load.clone())])
        .verdict(
            outcome::of_proof(found),
            &found.outcomes_in_words(),
            super::proof::next(found).into_iter().collect(),
        )
        .with_all(tiles.map(Element::detail))
        .picture(steps_in_a_forest(first, rows.collect(), &found.workload.name))
        .meta(&[
            head::date(first.map_or(0, |first| first.started_unix_ms)),
            head::basis_of(found.steps.iter().filter_map(|step| step.comparison.as_ref())),
            machine_in_short(&found.machine),
        ])
}

/// The head of a trial of host settings.
pub(crate) fn host_trial(found: &HostTrial) -> Element {
    let all = || found.tried.iter().chain(&found.together);
    let outcome = outcome::of_host_trial(found);
    let best = found.tried.iter().find(|knob| Some(knob.verdict) == outcome.verdict);
    let together = found.together.as_ref().map(|knob| (knob, "All settings together".to_owned()));
    let best = best.map(|knob| (knob, format!("Setting {}", super::host_trial::change(found, knob))));
    let tiles = together.or(best).and_then(|(knob, name)| head::tiles_of(&knob.comparison, Some(&name)));
    let rows = all().filter_map(|knob| {
        let row = row_of(&super::host_trial::title(found, knob), knob.verdict.label(), &knob.comparison)?;
        Some(Row { verdict: knob.verdict, ..row })
    });
    let lines = super::host_trial::next(found).into_iter().chain(super::host_trial::left_out(found));
    Head::new("Trial of host settings", &found.target)
        .sides(&[("Load", found.load.clone())])
        .verdict(outcome, &super::host_trial::sentence(found), lines.collect())
        .with_all(tiles.map(Element::detail))
        .picture(steps_in_a_forest(
            all().next().map(|knob| &knob.comparison),
            rows.collect(),
            &found.workload.name,
        ))
        .meta(&[
            head::date(all().next().map_or(0, |knob| knob.comparison.started_unix_ms)),
            head::basis_of(all().map(|knob| &knob.comparison)),
            machine_in_short(&found.machine),
        ])
}

/// The head of a commit compared with its base.
pub(crate) fn gate(found: &CommitGate) -> Element {
    let warnings = found.comparisons.iter().flat_map(warnings);
    let deciding = found.failures().next().map(|finding| &finding.workload);
    let is_deciding = |one: &&Comparison| deciding.is_none_or(|load| one.workload.name == *load);
    let shown = found.comparisons.iter().find(is_deciding).or(found.comparisons.first());
    let head = gate_head(found, &super::gate::sides(found))
        .with_all(warnings.map(|warning| el("p").class("warning").text(&warning)))
        .with_all(shown.and_then(|shown| head::tiles_of(shown, None)).map(Element::detail))
        .with_all(super::gate::tiles_of_counts(found).map(Element::detail));
    let forest = shown.map(|shown| super::results::forest("head", shown));
    let first = found.comparisons.first();
    let [date, took] = first.map_or([String::new(), String::new()], head::when);
    let machine = first.map(|first| machine_in_short(&first.machine));
    head.picture(forest).meta(&[date, took, machine.unwrap_or_default()])
}

/// The same without its basis.
pub(crate) fn gate_in_short(found: &CommitGate) -> Element {
    gate_head(found, &[]).meta(&[])
}

fn gate_head(found: &CommitGate, sides: &[(&str, String)]) -> Head {
    let evidence = counted::evidence_of_gate(found).map(|text| paragraph(&text));
    Head::new("Gate", &found.name).sides(sides).verdict(
        outcome::of_gate(found.outcome),
        &crate::gate::sentence(found),
        evidence.into_iter().chain(super::gate::notes(found)).collect(),
    )
}

/// The head of a run summary.
pub(crate) fn story(story: &Story) -> Element {
    let count = quantity::counted(story.chapters.len() as u64, "entry", "entries");
    let first = story.chapters.iter().map(|chapter| chapter.entry.at_unix_ms).filter(|at| *at > 0).min();
    let last = story.chapters.iter().map(|chapter| chapter.entry.at_unix_ms).max();
    let span = first
        .zip(last)
        .map(|(first, last)| format!("{} to {}", quantity::date_utc(first), quantity::date_utc(last)));
    let saving = story.tuned.as_ref().and_then(|tuned| tuned.saving.as_ref());
    let how = saving.map(|saving| paragraph(&saving.how).detail());
    let price: Vec<Element> = grown_latencies(story);
    let outcome = outcome::of_story(story);
    // A gain that has a price gets no tick.
    let outcome = Outcome { verdict: outcome.verdict.filter(|_| price.is_empty()), ..outcome };
    Head::new("Run summary", &story.title)
        .verdict(outcome, &head::with_arrows(&story.sentence()), price.into_iter().chain(how).collect())
        .with_all(saving.and_then(saved_figures))
        .picture(entries_in_a_forest(story))
        .meta(&[story.source.clone(), count, span.unwrap_or_default()])
}

/// From this growth on, a latency is part of the result.
const GROWN: f64 = 1.1;

/// The latencies that grew from the first to the last state, a line for each target and load.
fn grown_latencies(story: &Story) -> Vec<Element> {
    let fates = story.fates();
    let grown = |group: &Vec<&Chapter>| {
        let first = group.first().filter(|first| first.entry.metric != Some(Metric::Capacity))?;
        let stays = |chapter: &&&Chapter| chapter.entry.fate() == Fate::Kept && fates.stays(&chapter.entry);
        let last = group.iter().rev().find(stays)?;
        let figure = |(name, quantile): (&str, f64)| {
            let (was, is) = (first.before.latency_us(quantile)?, last.after.latency_us(quantile)?);
            (is > was * GROWN)
                .then(|| format!("{name} from {} to {}", quantity::time_us(was), quantity::time_us(is)))
        };
        let figures: Vec<String> = [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(figure).collect();
        let load = match first.entry.workload.as_str() {
            "" => String::new(),
            load => format!(" under load “{load}”"),
        };
        let text = format!("Latency grew{load} from the first to the last state: {}.", figures.join(", "));
        (!figures.is_empty()).then(|| el("p").class("warning").text(&text))
    };
    story.groups().iter().filter_map(grown).collect()
}

/// The saving as tiles.
fn saved_figures(saving: &Saving) -> Option<Element> {
    let figure = |title, figure: Option<SavedFigure>, write: fn(f64) -> String, unit: &str| {
        let figure = figure?;
        let ratio = figure.after / figure.before;
        let interval = figure.interval.map(|ends| {
            let [low, high] = ends.map(quantity::significant);
            format!("{} {unit} saved, interval {low} to {high}", quantity::significant(figure.saved))
        });
        (ratio.is_finite() && ratio > 0.0).then(|| BeforeAfter {
            title,
            values: [figure.before, figure.after].map(write),
            ratio,
            lower_is_better: true,
            remark: interval.unwrap_or_default(),
        })
    };
    let cores = figure("cores of the target", saving.cores, quantity::significant, "cores");
    let sent = figure("network sent per second", saving.sent_bytes_per_s, quantity::throughput, "");
    let month = saving.core_price.as_ref().and_then(|price| {
        let tile = figure("cores per month", saving.per_month(), quantity::significant, &price.currency)?;
        let unit = |value: &String| format!("{value} {}", price.currency);
        let remark = format!("{} (price: {})", tile.remark, price.source);
        Some(BeforeAfter { values: tile.values.each_ref().map(unit), remark, ..tile })
    });
    head::tiles_of_change("What the kept changes save", cores.into_iter().chain(month).chain(sent).collect())
}

/// Rows of a forest plot of ledger entries.
const MOST_ENTRIES: usize = 24;

/// The ratio of each entry in one plot, without re-tests. `None` when no entry has a ratio.
fn entries_in_a_forest(story: &Story) -> Option<Element> {
    let is_shown = |entry: &&LedgerEntry| {
        !entry.is_among_others() && entry.ratio.is_some_and(|ratio| is_sound_ratio(&ratio))
    };
    let entries: Vec<&LedgerEntry> =
        story.chapters.iter().map(|chapter| &chapter.entry).filter(is_shown).collect();
    let first = *entries.first()?;
    let has_one_metric = entries.iter().all(|entry| entry.metric == first.metric);
    let has_one_load = entries.iter().all(|entry| entry.workload == first.workload);
    let fates = story.fates();
    let left_out = entries.len().saturating_sub(MOST_ENTRIES);
    let rows = entries.iter().copied().skip(left_out).filter_map(|entry| {
        let metric = entry.metric.filter(|_| !has_one_metric).map(Metric::label);
        let load = (!has_one_load && !entry.workload.is_empty()).then_some(entry.workload.as_str());
        let parts: Vec<&str> = [Some(entry.change_alone()), load, metric].into_iter().flatten().collect();
        Some(Row {
            label: head::with_arrows(&parts.join(", ")),
            strong: false,
            is_cost: entry.metric.is_none_or(Metric::lower_is_better),
            ratio: entry.ratio?,
            control: None,
            verdict: mark_of(&fates, entry),
            word: fates.outcome_of(entry),
        })
    });
    let rows: Vec<Row<'_>> = rows.collect();
    let title = match first.metric.filter(|_| has_one_metric) {
        Some(metric) => format!("{}, change by change", metric.label()),
        None => "Ratios, change by change".to_owned(),
    };
    let intervals = "confidence interval".to_owned();
    let forest = Forest { a: "before", b: "after", equivalence: 0.0, holds_all: true, intervals, rows };
    let legend = forest::legend(&forest);
    let plot = forest::plot("head-forest", &title, forest)?;
    let older = match left_out {
        0 => String::new(),
        more => format!(" {} older entries are left out.", quantity::count(more as u64)),
    };
    let under = if has_one_load && !first.workload.is_empty() {
        format!(", under {}", first.workload)
    } else {
        String::new()
    };
    let caption =
        format!("Each entry compares the state after its change with the state before it{under}.{older}");
    Some(figure(&title, Some(legend), plot, &caption, None))
}

/// The mark of an entry. It follows the decision, because a change can be rejected for another metric.
fn mark_of(fates: &Fates<'_>, entry: &LedgerEntry) -> Verdict {
    match entry.fate() {
        // A later change took its place.
        Fate::Kept if !fates.stays(entry) => Verdict::Equivalent,
        Fate::Kept => Verdict::Better,
        Fate::Rejected | Fate::TakenBack => Verdict::Worse,
        Fate::NotShown => Verdict::NotShown,
        Fate::Undecided | Fate::Among if !entry.worse.is_empty() => Verdict::Worse,
        Fate::Undecided | Fate::Among => entry.verdict.unwrap_or(Verdict::NotShown),
    }
}

/// The names of the programs whose CPU was measured.
fn measured(comparison: &Comparison) -> Option<String> {
    let named =
        |names: &[String]| if names.is_empty() { "unknown processes".to_owned() } else { names.join(", ") };
    let [a, b] = comparison.measured.each_ref().map(|names| named(names));
    let is_known = comparison.measured.iter().any(|names| !names.is_empty());
    is_known.then(|| format!("Measured processes in the first A/B pair: {a} in A, {b} in B."))
}

/// Reasons to doubt the figures, as sentences.
fn warnings(comparison: &Comparison) -> Vec<String> {
    let tests = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
    let excluded = || tests().filter(|pair| pair.dropped.is_some());
    let failed = excluded().filter(|pair| pair.troubles.iter().any(|arm| !arm.is_empty())).count();
    let (excluded, measured) = (excluded().count(), tests().count());
    let few = (excluded * 4 > measured).then(|| {
        format!(
            "{excluded} of {measured} A/B pairs are excluded, {failed} of them because an arm failed. The \
             remaining pairs may be unusually quiet. For neighbours: repeat the run on a quieter machine, or \
             use --keep-disturbed to include those pairs. For a failing arm: lower the load (--rate), or \
             take the failure as the result."
        )
    });
    comparison.reservations().into_iter().chain(comparison.unlike_loads()).chain(few).collect()
}

/// The verdict to show. Any regression makes it worse: a gain of the primary metric does not outweigh it.
fn shown_verdict(comparison: &Comparison) -> Verdict {
    if comparison.has_regression() { Verdict::Worse } else { comparison.verdict() }
}

/// The verdicts of the other comparisons.
fn also(others: &[&Comparison]) -> Markup {
    if others.is_empty() {
        return Markup::default();
    }
    let item = |comparison: &&Comparison| {
        el("li")
            .child(el("b").text(&format!("{}: ", comparison.workload.name)))
            .child(mark::inline_verdict(shown_verdict(comparison)))
            .text(&sentence(comparison))
    };
    el("div")
        .class("also")
        .child(el("p").class("under").text("Also judged"))
        .child(el("ul").children(others.iter().map(item)))
        .into()
}
