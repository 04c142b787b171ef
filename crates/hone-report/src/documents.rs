//! Turns each kind of record into a document.

use std::collections::BTreeMap;

use hone_record::{
    BatchXray, Capacity, CommitGate, Comparison, Curve, Diagnosis, Heatmap, HostTrial, MetricHistory,
    Optimization, Proof, Story, TailAccount, Tuning, Window, Workload,
};

use crate::document::Document;
use crate::section::{
    builds, ceiling, circumstances, counted, design, diagnosis, gate, go, head, headline, history,
    host_trial, in_order, jvm, load_run, method, pictures, proof, rates, results, steps, story, tail, tuning,
    variants, workloads, xray,
};
use crate::tree::{Element, Markup, el};

/// The document of an optimisation, with its run summary if there is one.
pub fn optimization(
    optimization: &Optimization,
    windows: &BTreeMap<String, Window>,
    told: Option<&Story>,
) -> Document {
    let mut judging: Vec<&Workload> = Vec::new();
    for comparison in &optimization.comparisons {
        if judging.iter().all(|workload| workload.name != comparison.workload.name) {
            judging.push(&comparison.workload);
        }
    }
    // If nothing was judged yet, the training load says what the target is loaded with.
    let promised = if judging.is_empty() { vec![&optimization.training] } else { judging.clone() };
    let is_one_edge = judging.len() == optimization.comparisons.len();
    let ordered = in_order(optimization);
    let counts = ordered.iter().filter_map(|comparison| comparison.counted.as_deref());
    let judged = ordered.iter().copied().enumerate().map(|(index, comparison)| {
        let title = if is_one_edge {
            results::title(comparison)
        } else {
            format!("{} against {} under “{}”", comparison.b, comparison.a, comparison.workload.name)
        };
        let id = format!("comparison-{}", index + 1);
        match index {
            // The best variant's pictures are what the page is read for, and the head has its forest plot.
            0 => results::below_a_head(&id, &title, comparison, windows, None).class("open").detail(),
            _ => results::of(&id, &title, comparison, windows).detail(),
        }
    });
    let main = el("main")
        .children(variants::of(optimization))
        .children(jvm::virtual_machine(optimization.jvm.as_ref()))
        .children(diagnosis::of(optimization))
        .child(ceiling::of(&optimization.ceilings, &optimization.comparisons, &optimization.training))
        .child(before_details(told))
        .children(counted::sections(counts))
        .children(judged)
        .children(go::of(optimization.go.as_ref()))
        .children(
            (optimization.jvm.is_none() || !optimization.artifacts.is_empty())
                .then(|| builds::of(optimization)),
        )
        .child(workloads::side_by_side(&optimization.training, &judging))
        .children(circumstances::durability(&optimization.durability, &promised))
        .child(circumstances::machine(&optimization.machine))
        .child(steps::of(&optimization.steps))
        .child(method::of_optimization(optimization, windows))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    Document::new(&optimization.name, headline::optimization(optimization), main)
}

/// The parts of a run summary that come before the details of a single run.
fn before_details(told: Option<&Story>) -> Markup {
    let Some(told) = told else { return Markup::default() };
    let foretold: Markup = story::predictions(told).into_iter().collect();
    Markup::default().with(story::percentiles(told)).with(foretold)
}

/// The document of a comparison, with its run summary if there is one. A headline that the run summary drew with other limits
/// comes first.
pub fn comparison(
    comparison: &Comparison,
    windows: &BTreeMap<String, Window>,
    told: Option<&Story>,
) -> Document {
    let durability = comparison
        .pairs
        .iter()
        .find_map(|pair| windows.get(&pair.window_a))
        .and_then(|window| circumstances::durability(&window.durability, &[&comparison.workload]));
    let main = el("main")
        .child(results::below_a_head("comparison-1", "All metrics and pictures", comparison, windows, None))
        .children(counted::sections(comparison.counted.as_deref()))
        .child(before_details(told))
        .children(design::of(comparison))
        .child(workloads::alone(&comparison.workload))
        .children(durability)
        .child(circumstances::machine(&comparison.machine))
        .child(method::of_comparison(comparison, windows))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    let title = head::title(comparison);
    let concluded = told.and_then(|told| told.headline.as_deref());
    Document::new(&title, headline::comparison(comparison, concluded), main)
}

/// The document of batch settings that were tried one after the other.
pub fn proof(found: &Proof, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> Document {
    let first = found.steps.iter().find_map(|step| step.comparison.as_ref());
    let main = el("main")
        .children(found.replica.as_ref().map(proof::replica))
        .child(proof::states(found))
        .child(proof::decisions(found))
        .children(told.and_then(story::predictions).map(Element::detail))
        .children(judged_steps(found, windows))
        .child(proof::basis(found))
        .child(workloads::alone(&found.workload))
        .children(circumstances::durability(&found.durability, &[&found.workload]))
        .child(circumstances::machine(&found.machine))
        .children(first.map(|first| method::of_comparison(first, windows)))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    Document::new(&format!("Batch settings of {}", found.target), headline::proof(found), main)
}

/// The document of a trial of host settings.
pub fn host_trial(found: &HostTrial, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> Document {
    let all = || found.tried.iter().chain(&found.together);
    let judged = all().enumerate().map(|(index, knob)| {
        let title = format!("{}: {}", host_trial::title(found, knob), knob.verdict.label());
        results::of(&format!("comparison-{}", index + 1), &title, &knob.comparison, windows).detail()
    });
    let first = all().next();
    let main = el("main")
        .child(host_trial::verdicts(found))
        .child(host_trial::figures(found))
        .child(host_trial::reasons(found))
        .children(judged)
        .child(host_trial::basis(found))
        .child(workloads::alone(&found.workload))
        .children(
            first.and_then(|knob| circumstances::durability(&knob.durability, &[&knob.comparison.workload])),
        )
        .child(circumstances::machine(&found.machine))
        .children(first.map(|knob| method::of_comparison(&knob.comparison, windows)))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    Document::new(&format!("Host settings under {}", found.target), headline::host_trial(found), main)
}

/// The document of a commit that was compared with its base.
pub fn gate(found: &CommitGate, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> Document {
    let all = &found.comparisons;
    let judged = all.iter().enumerate().map(|(index, one)| gate::comparison(index, one, windows));
    let first = all.first();
    let main = el("main")
        .children(gate::findings(found))
        .children(gate::search(found))
        .children(counted::sections(&found.counted))
        .children(told.filter(|_| !all.is_empty()).map(|told| story::percentiles(told).detail()))
        .children(judged)
        .children(if let [only] = &all[..] { design::of(only) } else { None })
        .children(workloads::judging(all))
        .children(first.map(|first| circumstances::machine(&first.machine)))
        .child(gate::basis(found))
        .children(first.map(|first| method::of_comparison(first, windows)))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    Document::new(&format!("Gate of {}", found.name), headline::gate(found), main)
}

/// The same for a pull request: the verdict, the metrics that decide, the code that changed most, and the notes.
pub fn gate_comment(found: &CommitGate) -> Document {
    let counts = found.counted.iter().enumerate().map(|(index, counted)| counted::in_short(index, counted));
    let main = el("main")
        .children(gate::findings(found))
        .children(gate::search(found))
        .children(counts)
        .child(gate::origin(found))
        .child(gate::reading(found));
    Document::new(&format!("Gate of {}", found.name), headline::gate_in_short(found), main)
}

/// The document of a run summary: where the time went, what was tried in each layer, percentiles step by step, predictions with
/// their outcome, and all numbers as files.
pub fn story(told: &Story) -> Document {
    let main = el("main")
        .children(diagnosis::of_all(&told.diagnoses))
        .children(ceiling::of_loads(&told.ceilings))
        .child(story::tried(told))
        .child(story::percentiles(told))
        .children(story::predictions(told))
        .children(pictures::of(told))
        .children(told.machines.first().map(circumstances::machine))
        .child(story::downloads(told));
    Document::new(&told.title, headline::story(told), main)
}

/// The document of a tuned service.
pub fn tuning(found: &Tuning, windows: &BTreeMap<String, Window>, told: Option<&Story>) -> Document {
    let proof = found.as_proof();
    let first = proof.steps.iter().find_map(|step| step.comparison.as_ref());
    let main = el("main")
        .child(tuning::first_look(found))
        .children(told.and_then(|told| diagnosis::of_all(&told.diagnoses)).map(Element::detail))
        .children(told.and_then(|told| ceiling::of_loads(&told.ceilings)).map(Element::detail))
        .child(proof::states(&proof))
        .children(tuning::to_keep(found))
        .child(tuning::choices(found))
        .children(tuning::together(found))
        .child(tuning::decisions(found))
        .children(told.map(|told| story::tried(told).detail()))
        .children(told.and_then(story::predictions).map(Element::detail))
        .children(judged_steps(&proof, windows))
        .child(proof::basis(&proof))
        .child(workloads::alone(&found.workload))
        .children(circumstances::durability(&found.durability, &[&found.workload]))
        .child(circumstances::machine(&found.machine))
        .children(first.map(|first| method::of_comparison(first, windows)))
        .children(told.map(pictures::of).into_iter().flatten())
        .children(told.map(story::downloads));
    Document::new(&format!("{} tuned", found.name), headline::tuning(found), main)
}

/// The comparison of each measured step.
fn judged_steps(proof: &Proof, windows: &BTreeMap<String, Window>) -> Vec<Element> {
    let judged = proof.steps.iter().enumerate().filter_map(|(index, step)| {
        // A change can be tried again later.
        let title = format!("{}. {}: {}", index + 1, step.change, step.outcome());
        let comparison = step.comparison.as_ref()?;
        Some(results::of(&format!("comparison-{}", index + 1), &title, comparison, windows).detail())
    });
    judged.collect()
}

/// The document of one load run.
pub fn window(window: &Window) -> Document {
    let main = el("main")
        .children(load_run::remark(window))
        .child(load_run::section_of(window))
        .child(workloads::alone(&window.workload))
        .children(circumstances::durability(&window.durability, &[&window.workload]))
        .children(window.environment.as_ref().map(circumstances::environment))
        .children(window.environment.as_ref().map(|found| circumstances::machine(&found.machine)))
        .child(method::of_window(window));
    let title = format!("{} under {}", window.variant, window.workload.name);
    Document::new(&title, headline::window(window), main)
}

/// The document of a diagnosis, or of two side by side.
pub fn diagnosis(found: &Diagnosis) -> Document {
    let main = el("main").child(diagnosis::alone(found));
    Document::new(&format!("Diagnosis of {}", found.source), headline::diagnosis(found), main)
}

/// The document of a batch X-ray.
pub fn xray(found: &BatchXray) -> Document {
    let main = el("main").child(xray::topics(found)).children(xray::details(found));
    Document::new(&format!("Batches of {}", found.source), xray::header(found), main)
}

/// The document of a window's slowest requests.
pub fn tail(account: &TailAccount) -> Document {
    let main = el("main")
        .child(tail::causes(account))
        .child(tail::requests(account))
        .child(circumstances::machine(&account.machine));
    Document::new(&format!("Slowest requests of {}", account.target), tail::header(account), main)
}

/// The document of a capacity search.
pub fn capacity(capacity: &Capacity) -> Document {
    let main = el("main")
        .child(rates::of_capacity(capacity))
        .child(workloads::alone(&capacity.workload))
        .child(circumstances::machine(&capacity.machine))
        .child(method::of_rates(&capacity.address));
    Document::new(&format!("Capacity of {}", capacity.variant), headline::capacity(capacity), main)
}

/// The document of a sweep over rates or batch sizes.
pub fn curve(curve: &Curve) -> Document {
    let main = el("main")
        .child(rates::of_curve(curve))
        .child(workloads::alone(&curve.workload))
        .child(circumstances::machine(&curve.machine))
        .child(method::of_rates(&curve.address));
    Document::new(&format!("{} at many rates", curve.variant), headline::curve(curve), main)
}

/// The document of metrics over commits: the only line in full, or a list of all lines.
pub fn history(found: &MetricHistory) -> Document {
    let main = match &found.lines[..] {
        [only] => el("main").children(history::line(only, found)),
        _ => el("main").child(history::list(found)),
    };
    Document::new(&history::title(found), history::header(found), main)
}

/// The document of a heatmap, which shows where the executed code lies.
pub fn heatmap(found: &Heatmap) -> Document {
    crate::heatmap::document(found)
}
