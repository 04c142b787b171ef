//! The top of a page: the result in one sentence, and what belongs next to it.

use hone_record::{
    Capacity, CommitGate, Comparison, Curve, CurveOver, Diagnosis, HostTrial, Optimization, PairKind, Proof,
    Story, Tuning, VariantFacts, Verdict, Window,
};

use super::{in_order, is_ground, paragraph, rates};
use crate::load::load_text;
use crate::plot::mark;
use crate::tree::{Element, Markup, el};
use crate::verdict::{headline, sentence};
use crate::{quantity, sentence};

/// The header of an optimisation: the decision, the first comparison's verdict, then the others'.
pub(crate) fn optimization(optimization: &Optimization) -> Element {
    let header = header("Profile-guided optimisation", &optimization.name).children(decision(optimization));
    let header = match in_order(optimization).split_first() {
        None => header.child(el("p").class("sentence").text("No verdict yet: nothing was judged.")),
        Some((first, others)) => header.child(verdict(first)).child(also(others)),
    };
    let doubts = optimization.doubts();
    let header = header.children(doubts.iter().map(|doubt| el("p").class("warning").text(doubt)));
    header.child(el("p").class("meta").text(&origin(optimization)))
}

/// The best variant, and why each variant is kept or dropped. Records from before the variant tree have none.
fn decision(optimization: &Optimization) -> Option<Element> {
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
    let reasons = || el("ul").children(decided.iter().map(item));
    (!decided.is_empty())
        .then(|| el("div").class("also").child(el("p").class("sentence").text(&best)).child(reasons()))
}

fn origin(optimization: &Optimization) -> String {
    format!(
        "{} · {} · Hone {} · {}",
        quantity::date_utc(optimization.started_unix_ms),
        optimization.experiment,
        optimization.hone_version,
        machine_in_short(&optimization.machine)
    )
}

fn machine_in_short(machine: &hone_record::Machine) -> String {
    let model = if machine.cpu_model.is_empty() { "CPU model unknown" } else { &machine.cpu_model };
    format!("{model}, {}", quantity::counted(u64::from(machine.cores), "core", "cores"))
}

/// The header of a comparison. A headline that the run summary drew with other limits comes first.
pub(crate) fn comparison(comparison: &Comparison, concluded: Option<&str>) -> Element {
    let title = format!("{} against {}", comparison.b, comparison.a);
    header("Comparison", &title)
        .children(concluded.map(|words| el("p").class("sentence").text(words)))
        .child(verdict(comparison))
        .child(el("p").class("meta").text(&machine_in_short(&comparison.machine)))
}

/// The header of one load run.
pub(crate) fn window(window: &Window) -> Element {
    let title = format!("{} under {}", window.variant, window.workload.name);
    let origin = format!(
        "{} · {} · {} measured",
        quantity::date_utc(window.started_unix_ms),
        window.address,
        quantity::duration(window.duration_s)
    );
    header("Load run", &title)
        .child(el("p").class("sentence").text(&sentence::outcome(window)))
        .child(el("p").class("meta").text(&origin))
}

/// The header of a capacity search.
pub(crate) fn capacity(found: &Capacity) -> Element {
    header("Capacity", &format!("{} under {}", found.variant, found.workload.name))
        .child(el("p").class("sentence").text(&rates::knee_sentence(found)))
        .child(el("p").class("meta").text(&format!(
            "{} · {} · {}",
            found.address,
            load_text(&found.workload),
            machine_in_short(&found.machine)
        )))
}

/// The header of a sweep.
pub(crate) fn curve(found: &Curve) -> Element {
    let kind = match found.over {
        CurveOver::Rate => "Sweep over rates",
        CurveOver::RecordsPerBatch => "Sweep over batch sizes",
    };
    let sentence = rates::batch_sentence(found).map(|text| el("p").class("sentence").text(&text));
    header(kind, &format!("{} under {}", found.variant, found.workload.name)).children(sentence).child(
        el("p").class("meta").text(&format!(
            "{} · {} · {}",
            found.address,
            load_text(&found.workload),
            machine_in_short(&found.machine)
        )),
    )
}

/// The header of a diagnosis.
pub(crate) fn diagnosis(found: &Diagnosis) -> Element {
    let moved = found.shifts.first().and_then(hone_record::Shift::sentence).map(|words| format!("{words}."));
    header("Diagnosis", &found.source).children(moved.map(|words| el("p").class("sentence").text(&words)))
}

/// The header of a tuned service.
pub(crate) fn tuning(found: &Tuning) -> Element {
    let saving = found.saving();
    let saved = saving.as_ref().map(|saving| paragraph(&format!("{}.", saving.sentence())));
    let how = saving.map(|saving| paragraph(&saving.how).detail());
    let origin = format!("{} · {} · {}", found.target, found.load, machine_in_short(&found.machine));
    header("Tuned", &found.name)
        .child(el("p").class("sentence").text(&found.verdict()))
        .children(saved)
        .children(found.remarks().map(|remarks| paragraph(&remarks)))
        .child(paragraph(&format!("The run ended because {}.", found.stopped.trim_end_matches('.'))))
        .children(how)
        .child(el("p").class("meta").text(&origin))
}

/// The header of steps that were tried one after the other.
pub(crate) fn proof(found: &Proof) -> Element {
    header("Proof of batch settings", &found.target)
        .child(el("p").class("sentence").text(&found.outcomes_in_words()))
        .children(super::proof::next(found))
        .child(el("p").class("meta").text(&format!("{} · {}", found.load, machine_in_short(&found.machine))))
}

/// The header of a trial of host settings.
pub(crate) fn host_trial(found: &HostTrial) -> Element {
    header("Trial of host settings", &found.target)
        .child(el("p").class("sentence").text(&super::host_trial::sentence(found)))
        .children(super::host_trial::next(found))
        .children(super::host_trial::left_out(found))
        .child(el("p").class("meta").text(&format!("{} · {}", found.load, machine_in_short(&found.machine))))
}

/// The header of a commit compared with its base.
pub(crate) fn gate(found: &CommitGate) -> Element {
    let warnings = found.comparisons.iter().flat_map(warnings);
    gate_in_short(found)
        .children(warnings.map(|warning| el("p").class("warning").text(&warning)))
        .children(super::gate::sides(found))
}

/// The same without its basis.
pub(crate) fn gate_in_short(found: &CommitGate) -> Element {
    header("Gate", &found.name)
        .child(el("p").class("sentence").text(&crate::gate::sentence(found)))
        .children(super::gate::notes(found))
}

/// The header of a run summary.
pub(crate) fn story(story: &Story) -> Element {
    let count = quantity::counted(story.chapters.len() as u64, "entry", "entries");
    let first = story.chapters.iter().map(|chapter| chapter.entry.at_unix_ms).filter(|at| *at > 0).min();
    let last = story.chapters.iter().map(|chapter| chapter.entry.at_unix_ms).max();
    let span = first
        .zip(last)
        .map(|(first, last)| format!(" · {} to {}", quantity::date_utc(first), quantity::date_utc(last)));
    let saving = story.tuned.as_ref().and_then(|tuned| tuned.saving.as_ref());
    let saving = saving.map(|saving| paragraph(&format!("{}. {}", saving.sentence(), saving.how)));
    header("Run summary", &story.title)
        .child(el("p").class("sentence").text(&story.sentence()))
        .children(saving)
        .child(el("p").class("meta").text(&format!("{} · {count}{}", story.source, span.unwrap_or_default())))
}

fn header(kind: &str, title: &str) -> Element {
    el("header").child(el("p").class("kicker").text(kind)).child(el("h1").text(title))
}

fn verdict(comparison: &Comparison) -> Markup {
    let under = format!("Verdict under the workload “{}”", comparison.workload.name);
    let sentence = sentence(comparison);
    let headline = headline(comparison);
    let figures = sentence.strip_prefix(&headline).unwrap_or_default().trim();
    let mark = mark::inline_verdict(shown_verdict(comparison));
    let mut block = el("div")
        .class("verdict")
        .child(el("p").class("under").text(&under).detail())
        .child(el("p").class("sentence").child(mark).text(&headline))
        .children((!figures.is_empty()).then(|| paragraph(figures)))
        .children(measured(comparison).map(|text| paragraph(&text).detail()))
        .children(warnings(comparison).iter().map(|warning| el("p").class("warning").text(warning)));
    if let Some(beside) = sentence::beside(comparison) {
        let worse =
            comparison.judgements.iter().any(|other| !other.primary && other.verdict == Verdict::Worse);
        block =
            block.child(el("p").class(if worse { "others worse" } else { "others" }).text(&beside).detail());
    }
    block.child(paragraph(&sentence::control(comparison)).detail()).into()
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
