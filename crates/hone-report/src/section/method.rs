//! How to read the page, and the limits of its figures.

use std::collections::BTreeMap;

use hone_record::{Comparison, Engine, Mode, Optimization, PairOutcome, Window, Workload};

use super::{paragraph, results, section};
use crate::tree::{Element, el};

/// The section for an optimisation.
pub(crate) fn of_optimization(optimization: &Optimization, windows: &BTreeMap<String, Window>) -> Element {
    let mut limits = limits(&optimization.comparisons, windows);
    limits.push(target_sentence(Some(is_embedded_broker(optimization))));
    if !optimization.comparisons.iter().any(|comparison| comparison.design.has_several_builds()) {
        limits.push(
            "Each variant has one build. A profile changes the layout of the code, and so does chance. These \
             intervals do not include the variation between builds.",
        );
    }
    page(&optimization.comparisons, &limits)
}

/// The section for a comparison.
pub(crate) fn of_comparison(comparison: &Comparison, windows: &BTreeMap<String, Window>) -> Element {
    let comparisons = std::slice::from_ref(comparison);
    let mut limits = limits(comparisons, windows);
    limits.push(target_sentence(None));
    page(comparisons, &limits)
}

/// The section for one load run.
pub(crate) fn of_window(window: &Window) -> Element {
    let network = network_sentence(std::iter::once(window));
    let limits = [
        "One window is one sample. It shows what happened, not whether another variant is better. For that, \
         compare pairs.",
        network,
        target_sentence(None),
    ];
    section("method", "How to read this page").detail().child(reading_latency()).child(list(&limits))
}

/// The section for windows at many rates.
pub(crate) fn of_rates(address: &str) -> Element {
    let limits = [
        "The windows ran one after the other, each with its own topic and arrivals. Changes of the machine \
         in between affect them.",
        if is_loopback(address) {
            LOOPBACK
        } else {
            "The load went over a network, whose delay is part of the latency."
        },
        target_sentence(None),
    ];
    section("method", "How to read this page").detail().child(reading_latency()).child(list(&limits))
}

fn page(comparisons: &[Comparison], limits: &[&str]) -> Element {
    section("method", "How to read this page")
        .detail()
        .child(reading_latency())
        .children(READING.iter().map(|text| paragraph(text)))
        .children(results::rules(comparisons))
        .child(el("h3").text("Limits of these figures"))
        .child(list(limits))
}

fn list(limits: &[&str]) -> Element {
    el("ul").children(limits.iter().map(|limit| el("li").text(limit)))
}

fn reading_latency() -> Element {
    paragraph(
        "Requests are due by a schedule that does not wait for answers (open loop). Latency runs from the \
         due time to the acknowledgement. Time-outs and errors are samples. A percentile appears only when \
         ten samples lie beyond it.",
    )
}

const READING: [&str; 2] = [
    "A pair is one window of each variant. The estimate is the geometric mean of the pairs' ratios. Its \
     confidence interval comes from resampling pairs, never requests. Better and worse need an interval that \
     excludes equality. Equivalent needs the interval of the equivalence test (at twice the error) inside \
     the margin. Everything else is inconclusive, which does not mean that there is no difference. A guard \
     metric that gets worse makes the whole result worse.",
    "A/A pairs compare the first variant with itself in the same session. They show how large a difference \
     the machine makes on its own. Marks: a disc with a tick is better, a square with a cross is worse, a \
     diamond with two bars is equivalent, an empty ring is inconclusive.",
];

fn limits(comparisons: &[Comparison], windows: &BTreeMap<String, Window>) -> Vec<&'static str> {
    let of_pairs = |pair: &PairOutcome| [pair.window_a.clone(), pair.window_b.clone()];
    let names = comparisons.iter().flat_map(|comparison| comparison.pairs.iter().flat_map(of_pairs));
    let known: Vec<&Window> = names.filter_map(|name| windows.get(&name)).collect();
    let all_end =
        !comparisons.is_empty() && comparisons.iter().all(|judged| ends_by_itself(&judged.workload));
    let mut limits = vec![if all_end { ENDS } else { network_sentence(known.into_iter()) }];
    let any = |mode: Mode| comparisons.iter().any(|comparison| comparison.design.mode == mode);
    if any(Mode::Duet) {
        limits.push(
            "Concurrent pairs (duet): both variants run at the same time. Neighbours affect both alike, so \
             small effects are visible. But the faster variant leaves CPU to the slower one, so differences \
             in latency look smaller than they are.",
        );
    }
    if any(Mode::Solo) {
        limits.push(
            "Sequential pairs (solo): the variants run one after the other. The sizes of effects are true, \
             but changes of the machine in between widen the interval.",
        );
    }
    limits
}

const LOOPBACK: &str = "Loopback: the load came from the same machine. No network card and no network takes \
     part, and the generator shares the cores with the target.";

const ENDS: &str = "The program is its own load and ends by itself. No external load generator runs, and no \
     network takes part.";

fn ends_by_itself(load: &Workload) -> bool {
    matches!(load.engine, Engine::Exits { .. })
}

fn network_sentence<'a>(windows: impl Iterator<Item = &'a Window>) -> &'static str {
    let (own, served): (Vec<&Window>, Vec<&Window>) =
        windows.partition(|window| ends_by_itself(&window.workload));
    let known = served.iter().filter(|window| !window.address.is_empty());
    let local: Vec<bool> = known.map(|window| window.address.split(',').all(is_loopback)).collect();
    if served.is_empty() && !own.is_empty() {
        ENDS
    } else if local.is_empty() {
        "The origin of the load is unknown. Over loopback, no network takes part, and the generator shares \
         the cores with the target."
    } else if local.iter().all(|local| *local) {
        LOOPBACK
    } else {
        "Some windows went over a network. Its delay is part of their latency. The target's CPU is known \
         only if the target runs on the measuring machine."
    }
}

fn is_loopback(address: &str) -> bool {
    address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]:")
}

/// Describes the target. `None` when the records do not say what it is.
fn target_sentence(embedded: Option<bool>) -> &'static str {
    match embedded {
        Some(true) => {
            "The target is Hone's embedded broker: one node, no replication, so acks=all means this node. It \
             stands in for a broker. Its figures do not apply to Redpanda or Apache Kafka."
        }
        Some(false) => "The figures hold for this target, this machine and these workloads only.",
        None => {
            "The figures hold for this target, this machine and this workload only. If the target is Hone's \
             embedded broker, it only stands in for a broker: one node, no replication."
        }
    }
}

fn is_embedded_broker(optimization: &Optimization) -> bool {
    let file = |path: &str| path.rsplit('/').next() == Some("hone-broker");
    optimization.artifacts.iter().any(|artifact| file(&artifact.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::tree::Markup;

    #[test]
    fn loopback_is_said_when_it_is_so() {
        for (address, wanted) in
            [("127.0.0.1:9092", true), ("[::1]:9", true), ("10.0.0.3:9092", false), ("", false)]
        {
            assert_eq!(is_loopback(address), wanted, "{address}");
        }
        let mut window = sample::window("baseline", 1, 1.0);
        assert!(network_sentence([&window].into_iter()).starts_with("Loopback"));
        window.address = "broker.lan:9092".to_owned();
        assert!(network_sentence([&window].into_iter()).starts_with("Some windows"));
        window.address = "127.0.0.1:9092,10.0.0.3:9092".to_owned();
        assert!(network_sentence([&window].into_iter()).starts_with("Some windows"), "one is not loopback");
        window.address.clear();
        assert!(network_sentence([&window].into_iter()).starts_with("The origin of the load"));
        assert!(network_sentence(std::iter::empty()).starts_with("The origin of the load"));
        let engine = Engine::Exits { arguments: Vec::new(), operations: 9 };
        let ends = Window { workload: Workload::of_operations("w", engine), ..window.clone() };
        assert!(network_sentence([&ends].into_iter()).contains("no network takes part"));
        window.address = "127.0.0.1:9092".to_owned();
        assert_eq!(network_sentence([&ends, &window].into_iter()), LOOPBACK);
    }

    #[test]
    fn the_stand_in_and_the_mode_are_named() {
        let (mut optimization, windows) = sample::optimization();
        let html =
            |optimization: &Optimization| Markup::from(of_optimization(optimization, &windows)).into_string();
        let page = html(&optimization);
        assert!(
            page.contains("embedded broker: one node")
                && page.contains("Concurrent pairs (duet): both")
                && !page.contains("Solo: ")
        );
        optimization.artifacts.iter_mut().for_each(|artifact| artifact.path = "bin/redis-server".to_owned());
        optimization.comparisons.iter_mut().for_each(|comparison| comparison.design.mode = Mode::Solo);
        let page = html(&optimization);
        assert!(!page.contains("stands in") && page.contains("Sequential pairs (solo): the variants"));
    }
}
