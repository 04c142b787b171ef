//! The pages and their skeleton.

use std::collections::BTreeMap;

use hone_record::{
    Capacity, Comparison, Curve, Diagnosis, HostTrial, Optimization, Proof, Story, Tuning, Window, Workload,
};

use crate::escape::{Element, Markup, el};
use crate::section::{
    builds, ceiling, circumstances, design, diagnosis, go, headline, host_trial, in_order, load_run, method,
    pictures, proof, rates, results, steps, story, tuning, variants, workloads,
};

/// The style sheet; part of the page.
pub(crate) const STYLE: &str = include_str!("page.css");

/// Constant heads. The policy is a second wall: even if something foreign came through, it could neither run nor load
/// anything.
const META: [&str; 4] = [
    "<meta charset=\"utf-8\">",
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
];

/// The page of an optimisation. `windows` holds the windows of all its comparisons under the names that
/// [`hone_record::PairOutcome`] uses for them; a window that is not there is told as missing.
pub fn optimization_page(optimization: &Optimization, windows: &BTreeMap<String, Window>) -> String {
    optimization_with(optimization, windows, None)
}

/// The same, with what its story has beyond it: percentiles step by step, what was foretold, all numbers to take along.
pub fn optimization_story(
    optimization: &Optimization,
    windows: &BTreeMap<String, Window>,
    told: &Story,
) -> String {
    optimization_with(optimization, windows, Some(told))
}

fn optimization_with(
    optimization: &Optimization,
    windows: &BTreeMap<String, Window>,
    told: Option<&Story>,
) -> String {
    let mut judging: Vec<&Workload> = Vec::new();
    for comparison in &optimization.comparisons {
        if judging.iter().all(|workload| workload.name != comparison.workload.name) {
            judging.push(&comparison.workload);
        }
    }
    // Where nothing was judged yet, the training tells what is loaded.
    let promised = if judging.is_empty() { vec![&optimization.training] } else { judging.clone() };
    let is_one_edge = judging.len() == optimization.comparisons.len();
    let judged = in_order(optimization).into_iter().enumerate().map(|(index, comparison)| {
        let title = if is_one_edge {
            results::title(comparison)
        } else {
            format!("{} against {} under “{}”", comparison.b, comparison.a, comparison.workload.name)
        };
        results::of(&format!("comparison-{}", index + 1), &title, comparison, windows)
    });
    let main = el("main")
        .children(variants::of(optimization))
        .children(diagnosis::of(optimization))
        .child(ceiling::of(&optimization.ceilings, &optimization.comparisons, &optimization.training))
        .child(before_details(told))
        .children(judged)
        .children(go::of(optimization.go.as_ref()))
        .child(builds::of(optimization))
        .child(workloads::side_by_side(&optimization.training, &judging))
        .children(circumstances::durability(&optimization.durability, &promised))
        .child(circumstances::machine(&optimization.machine))
        .child(steps::of(&optimization.steps))
        .child(method::of_optimization(optimization, windows))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    document(&format!("{} – Hone", optimization.name), headline::optimization(optimization), main)
}

/// Of a story, what stands before the details of a single run.
fn before_details(told: Option<&Story>) -> Markup {
    let Some(told) = told else { return Markup::default() };
    let foretold: Markup = story::predictions(told).into_iter().collect();
    Markup::default().with(story::percentiles(told)).with(foretold)
}

/// The page of a comparison. `windows` holds its windows under the names that [`hone_record::PairOutcome`] uses for
/// them; a window that is not there is told as missing.
pub fn comparison_page(comparison: &Comparison, windows: &BTreeMap<String, Window>) -> String {
    comparison_with(comparison, windows, None)
}

/// The same, with what its story has beyond it.
pub fn comparison_story(comparison: &Comparison, windows: &BTreeMap<String, Window>, told: &Story) -> String {
    comparison_with(comparison, windows, Some(told))
}

fn comparison_with(
    comparison: &Comparison,
    windows: &BTreeMap<String, Window>,
    told: Option<&Story>,
) -> String {
    let durability = comparison
        .pairs
        .iter()
        .find_map(|pair| windows.get(&pair.window_a))
        .and_then(|window| circumstances::durability(&window.durability, &[&comparison.workload]));
    let main = el("main")
        .child(results::of("comparison-1", &results::title(comparison), comparison, windows))
        .child(before_details(told))
        .children(design::of(comparison))
        .child(workloads::alone(&comparison.workload))
        .children(durability)
        .child(circumstances::machine(&comparison.machine))
        .child(method::of_comparison(comparison, windows))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    let title = format!("{} against {} – Hone", comparison.b, comparison.a);
    let concluded = told.and_then(|told| told.headline.as_deref());
    document(&title, headline::comparison(comparison, concluded), main)
}

/// The page of steps that were tried one after the other. `windows` holds the windows of all their comparisons under the names that
/// [`hone_record::PairOutcome`] uses for them; a window that is not there is told as missing.
pub fn proof_page(found: &Proof, windows: &BTreeMap<String, Window>) -> String {
    proof_with(found, windows, None)
}

/// The same, with what its story has beyond it.
pub fn proof_story(found: &Proof, windows: &BTreeMap<String, Window>, told: &Story) -> String {
    proof_with(found, windows, Some(told))
}

fn proof_with(found: &Proof, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> String {
    let judged = found.steps.iter().enumerate().filter_map(|(index, step)| {
        let title = format!("{}: {}", step.change, step.outcome());
        Some(results::of(&format!("comparison-{}", index + 1), &title, step.comparison.as_ref()?, windows))
    });
    let main = el("main")
        .children(found.replica.as_ref().map(proof::replica))
        .child(proof::states(found))
        .child(proof::decisions(found))
        .children(told.and_then(story::predictions))
        .children(judged)
        .child(workloads::alone(&found.workload))
        .children(circumstances::durability(&found.durability, &[&found.workload]))
        .child(circumstances::machine(&found.machine))
        .children(
            found
                .steps
                .iter()
                .find_map(|step| step.comparison.as_ref())
                .map(|first| method::of_comparison(first, windows)),
        )
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    document(&format!("Batch settings of {} – Hone", found.target), headline::proof(found), main)
}

/// The page of settings of a host that were tried. `windows` holds the windows of all their comparisons under the names that
/// [`hone_record::PairOutcome`] uses for them; a window that is not there is told as missing.
pub fn host_trial_page(found: &HostTrial, windows: &BTreeMap<String, Window>) -> String {
    host_trial_with(found, windows, None)
}

/// The same, with what its story has beyond it.
pub fn host_trial_story(found: &HostTrial, windows: &BTreeMap<String, Window>, told: &Story) -> String {
    host_trial_with(found, windows, Some(told))
}

fn host_trial_with(found: &HostTrial, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> String {
    let all = || found.tried.iter().chain(&found.together);
    let judged = all().enumerate().map(|(index, knob)| {
        let title = format!("{}: {}", host_trial::title(found, knob), knob.verdict.label());
        results::of(&format!("comparison-{}", index + 1), &title, &knob.comparison, windows)
    });
    let first = all().next();
    let main = el("main")
        .child(host_trial::rows(found))
        .child(host_trial::reasons(found))
        .children(judged)
        .child(workloads::alone(&found.workload))
        .children(
            first.and_then(|knob| circumstances::durability(&knob.durability, &[&knob.comparison.workload])),
        )
        .child(circumstances::machine(&found.machine))
        .children(first.map(|knob| method::of_comparison(&knob.comparison, windows)))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    document(&format!("Host settings under {} – Hone", found.target), headline::host_trial(found), main)
}

/// The page of all that was tried: where the time went, what was tried at each altitude, percentiles step by step, what was foretold beside
/// what came, and all numbers to take along.
pub fn story_page(told: &Story) -> String {
    let main = el("main")
        .children(diagnosis::of_all(&told.diagnoses))
        .children(ceiling::of_loads(&told.ceilings))
        .child(story::tried(told))
        .child(story::percentiles(told))
        .children(story::predictions(told))
        .children(pictures::of(told))
        .children(told.machines.first().map(circumstances::machine))
        .child(story::downloads(told));
    document(&format!("{} – Hone", told.title), headline::story(told), main)
}

/// The page of a service that was tuned. `windows` as for [`proof_page`].
pub fn tuning_page(found: &Tuning, windows: &BTreeMap<String, Window>) -> String {
    tuning_with(found, windows, None)
}

/// The same, with what its story has beyond it.
pub fn tuning_story(found: &Tuning, windows: &BTreeMap<String, Window>, told: &Story) -> String {
    tuning_with(found, windows, Some(told))
}

fn tuning_with(found: &Tuning, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> String {
    let proof = found.as_proof();
    let judged = proof.steps.iter().enumerate().filter_map(|(index, step)| {
        let title = format!("{}: {}", step.change, step.outcome());
        Some(results::of(&format!("comparison-{}", index + 1), &title, step.comparison.as_ref()?, windows))
    });
    let first = proof.steps.iter().find_map(|step| step.comparison.as_ref());
    let main = el("main")
        .child(tuning::first_look(found))
        .children(told.and_then(|told| diagnosis::of_all(&told.diagnoses)))
        .children(told.and_then(|told| ceiling::of_loads(&told.ceilings)))
        .child(tuning::choices(found))
        .children(tuning::together(found))
        .children(tuning::to_keep(found))
        .children(told.map(story::tried))
        .children(told.and_then(story::predictions))
        .child(proof::states(&proof))
        .child(proof::decisions(&proof))
        .children(judged)
        .child(workloads::alone(&found.workload))
        .children(circumstances::durability(&found.durability, &[&found.workload]))
        .child(circumstances::machine(&found.machine))
        .children(first.map(|first| method::of_comparison(first, windows)))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    document(&format!("{} tuned – Hone", found.name), headline::tuning(found), main)
}

/// The page of one load run.
pub fn window_page(window: &Window) -> String {
    let main = el("main")
        .children(load_run::remark(window))
        .child(load_run::of(window))
        .child(workloads::alone(&window.workload))
        .children(circumstances::durability(&window.durability, &[&window.workload]))
        .children(window.environment.as_ref().map(circumstances::environment))
        .children(window.environment.as_ref().map(|found| circumstances::machine(&found.machine)))
        .child(method::of_window(window));
    let title = format!("{} under {} – Hone", window.variant, window.workload.name);
    document(&title, headline::window(window), main)
}

/// The page of a diagnosis, or of two that are held against each other.
pub fn diagnosis_page(found: &Diagnosis) -> String {
    let main = el("main").child(diagnosis::alone(found));
    document(&format!("Diagnosis of {} – Hone", found.source), headline::diagnosis(found), main)
}

/// The page of a search for a capacity.
pub fn capacity_page(capacity: &Capacity) -> String {
    let main = el("main")
        .child(rates::of_capacity(capacity))
        .child(workloads::alone(&capacity.workload))
        .child(circumstances::machine(&capacity.machine))
        .child(method::of_rates(&capacity.address));
    document(&format!("Capacity of {} – Hone", capacity.variant), headline::capacity(capacity), main)
}

/// The page of a sweep.
pub fn curve_page(curve: &Curve) -> String {
    let main = el("main")
        .child(rates::of_curve(curve))
        .child(workloads::alone(&curve.workload))
        .child(circumstances::machine(&curve.machine))
        .child(method::of_rates(&curve.address));
    document(&format!("{} at many rates – Hone", curve.variant), headline::curve(curve), main)
}

fn document(title: &str, header: Element, main: Element) -> String {
    let html = el("html").attr("lang", "en").child(head(title)).child(el("body").child(header).child(main));
    Markup::constant("<!DOCTYPE html>\n").with(html).with(Markup::constant("\n")).into_string()
}

fn head(title: &str) -> Element {
    el("head")
        .children(META.map(Markup::constant))
        .child(el("title").text(title))
        .child(el("style").child(Markup::constant(STYLE)))
}
