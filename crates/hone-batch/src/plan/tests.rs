//! Planted costs and batches must give the arithmetic result.

use hone_record::{BatchFigures, Envelope, ForeseenBatches};

use super::*;
use crate::cost::{Point, fit};

/// Cores, and CPU seconds for each request, batch, record and byte.
const TRUTH: [f64; 5] = [0.5, 12e-6, 40e-6, 0.5e-6, 0.4e-9];
const GROW: f64 = 2.0;

/// Hours of other mixes, with the CPU that the planted costs give, plus or minus `noise` cores.
fn history(noise: f64) -> (Vec<Point>, [f64; 4]) {
    let points: Vec<Point> = (0..240)
        .map(|at| {
            let wave = |period: f64| 1.0 + 0.6 * (at as f64 / period).sin();
            let records = 40_000.0 * wave(19.0);
            let batches = 3_000.0 * wave(7.3);
            let (requests, bytes) = (1_000.0 * wave(11.1), 8e6 * wave(4.1));
            let x = [1.0, requests, batches, records, bytes];
            let cpu = x.iter().zip(TRUTH).map(|(x, cost)| x * cost).sum::<f64>();
            Point {
                at_s: 60.0 * at as f64,
                cpu_cores: cpu + noise * (at as f64 * 1.7).sin(),
                requests_per_s: Some(requests),
                batches_per_s: batches,
                records_per_s: Some(records),
                bytes_per_s: Some(bytes),
            }
        })
        .collect();
    let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
    let means = [
        mean(&|point| point.requests_per_s.unwrap()),
        mean(&|point| point.batches_per_s),
        mean(&|point| point.records_per_s.unwrap()),
        mean(&|point| point.bytes_per_s.unwrap()),
    ];
    (points, means)
}

fn figures(requests: f64, batches: f64, bytes: f64) -> BatchFigures {
    BatchFigures {
        batches_per_s: batches,
        requests_per_s: Some(requests),
        bytes_per_s: bytes,
        records_per_batch: 10.0,
        batch_bytes_mean: bytes / batches,
        batch_bytes_p50: 0,
        batch_bytes_p90: 0,
        wait_ms_mean: None,
        wait_ms_p50: None,
        wait_ms_p99: None,
        header_share: 0.0,
        write_amplification_most: 4.0,
        sent_by: None,
        memory_bytes: None,
        would_wait: None,
    }
}

/// A topic whose requests, batches and bytes are these many times as many; batches from `low` to `high`.
fn topic(name: &str, requests: f64, [low, batches, high]: [f64; 3], bytes: f64) -> WhatIf {
    let today = figures(50.0, 100.0, 1e5);
    // The replay is 5 % off today, which is in both of its sides.
    let replayed = figures(50.0, 105.0, 1e5);
    let foreseen = |value: f64| exactly(value);
    let then = figures(50.0 * requests, 105.0 * batches, 1e5 * bytes);
    WhatIf {
        topic: name.to_owned(),
        partitions: 1,
        window_s: 60.0,
        records: 60_000,
        change: String::new(),
        producers: Vec::new(),
        more_producers: 0,
        today,
        replayed: Some(replayed),
        predicted: Some(ForeseenBatches {
            figures: then,
            batches_per_s: Foreseen { value: 105.0 * batches, low: 105.0 * low, high: 105.0 * high },
            requests_per_s: foreseen(50.0 * requests),
            bytes_per_s: foreseen(1e5 * bytes),
            batch_bytes_mean: foreseen(1.0),
            wait_ms_mean: foreseen(1.0),
            wait_ms_p50: foreseen(1.0),
            wait_ms_p99: foreseen(1.0),
            replays: 1,
        }),
        refused: None,
        cheapest: Vec::new(),
        advice: None,
        batches_packed: 0,
        notes: Vec::new(),
    }
}

fn asked() -> PlanSettings {
    PlanSettings {
        target: "b:9092".to_owned(),
        grow: GROW,
        new_producers: false,
        max_cpu: 0.7,
        cores: Some(24.0),
        network: None,
        disk: None,
        fan_out: Some(2.0),
        replicas: 3.0,
        brokers: 3.0,
    }
}

fn planned_of(
    asked: &PlanSettings,
    topics: &[WhatIf],
    model: Option<&Model>,
    watch: Option<&BatchWatch>,
) -> BatchPlan {
    let found = plan(asked, &Known { topics, model, watch });
    let text = Envelope::new(found.clone()).to_text().unwrap();
    assert_eq!(Envelope::<BatchPlan>::parse(&text).unwrap().answer, found.answer);
    found
}

fn resource<'a>(plan: &'a BatchPlan, name: &str) -> &'a PlannedResource {
    plan.resources.iter().find(|resource| resource.resource == name).unwrap()
}

#[track_caller]
fn near(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 1e-6, "{found} is not {wanted}");
}

/// Cores of base and work, each kind times its factor.
fn cores(base: f64, means: [f64; 4], factors: [f64; 4]) -> f64 {
    let work: f64 = (0..4).map(|kind| TRUTH[kind + 1] * means[kind] * factors[kind]).sum();
    base * TRUTH[0] + work
}

#[test]
fn the_cpu_is_that_of_the_planted_costs_and_batches() {
    let (points, means) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let topics = [topic("orders", 1.3, [1.2, 1.2, 1.2], 1.9)];
    let found = planned_of(&asked(), &topics, Some(&model), None);
    let cpu = resource(&found, "cpu");
    near(cpu.now, cores(1.0, means, [1.0; 4]));
    near(cpu.then.value, cores(1.0, means, [1.3, 1.2, 2.0, 1.9]));
    let most = points.iter().map(|point| point.records_per_s.unwrap()).fold(0.0, f64::max);
    let busy = most / means[2];
    let factors = [1.3, 1.2, 2.0, 1.9].map(|factor| busy * factor);
    near(cpu.busiest.unwrap().value, cores(1.0, means, factors));
    let clusters = found.clusters.unwrap();
    near(clusters.clusters, 2.0);
    near(clusters.cores.value, cores(2.0, means, [2.0; 4]));
    near(clusters.saved.value, clusters.cores.value - cpu.then.value);
    assert_eq!(found.answer, PlanAnswer::Holds, "{:#?}", found.resources);
    assert_eq!(found.next, None);
    // Twice the mean is more than the history has seen.
    assert!(
        found.notes.iter().any(|note| note.contains("extrapolated beyond the history")),
        "{:?}",
        found.notes
    );
    near(found.work[1].now, means[1]);
    near(found.work[1].then.value, 1.2 * means[1]);
    near(found.topics[0].records_per_batch_then, 10.0 * 2.0 / 1.2);
}

#[test]
fn new_producers_bring_exactly_as_many_batches_more() {
    let (points, means) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let topics = [topic("orders", 1.3, [1.1, 1.2, 1.4], 1.9)];
    let new = PlanSettings { new_producers: true, grow: 3.0, ..asked() };
    let found = planned_of(&new, &topics, Some(&model), None);
    for work in &found.work {
        near(work.then.value, 3.0 * work.now);
        assert_eq!((work.then.low, work.then.high), (work.then.value, work.then.value));
    }
    near(resource(&found, "cpu").then.value, cores(1.0, means, [3.0; 4]));
    near(found.topics[0].batches_new_producers, 300.0);
    // One cluster saves two bases and nothing else.
    let clusters = found.clusters.unwrap();
    near(clusters.saved.value, 2.0 * TRUTH[0]);
    let without = planned_of(&new, &topics, None, None);
    near(without.work[1].then.value, 300.0);
}

#[test]
fn an_interval_that_spans_its_ceiling_is_inconclusive() {
    let (points, means) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let topics = [topic("orders", 1.0, [1.0, 1.2, 2.0], 1.0)];
    let [low, high] = [1.0, 2.0].map(|batches| cores(1.0, means, [1.0, batches, 2.0, 1.0]));
    let with = |most: f64| {
        // A number of cores at which the mean flow decides, and not the busiest point.
        let asked = PlanSettings { cores: Some(100.0), max_cpu: most / 100.0, ..asked() };
        planned_of(&asked, &topics, Some(&model), None)
    };
    assert_eq!(with(1.001 * high).answer, PlanAnswer::Holds);
    assert_eq!(with(0.999 * low).answer, PlanAnswer::DoesNotHold);
    let spans = with(f64::midpoint(low, high));
    assert_eq!(spans.answer, PlanAnswer::Inconclusive);
    assert!(spans.next.as_ref().unwrap().contains("--last 30m"), "{:?}", spans.next);
    // The case of new producers is noted if it changes the answer.
    let fits = with(1.001 * high);
    assert_eq!(fits.notes[0], "if new producers bring the flow, one cluster does not hold it");
    // With costs that scatter, the costs are what to narrow.
    let (points, _) = history(1.5);
    let model = fit(&points, 1).unwrap();
    let topics = [topic("orders", 1.0, [1.2, 1.2, 1.2], 1.0)];
    let then = |asked: &PlanSettings| planned_of(asked, &topics, Some(&model), None);
    let value = resource(&then(&asked()), "cpu").then.value;
    let spans = then(&PlanSettings { cores: Some(100.0), max_cpu: value / 100.0, ..asked() });
    assert_eq!(spans.answer, PlanAnswer::Inconclusive);
    assert!(spans.next.as_ref().unwrap().contains("--duration 24h"), "{:?}", spans.next);
}

#[test]
fn a_busiest_point_above_all_cores_does_not_hold() {
    let (points, _) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let topics = [topic("orders", 1.0, [1.2, 1.2, 1.2], 1.0)];
    let cpu = |found: &BatchPlan| resource(found, "cpu").clone();
    let whole = cpu(&planned_of(&asked(), &topics, Some(&model), None));
    let (mean, busiest) = (whole.then.high, whole.busiest.unwrap().low);
    let cores = f64::midpoint(mean, busiest);
    let asked = PlanSettings { cores: Some(cores), max_cpu: 1.0, ..asked() };
    let found = planned_of(&asked, &topics, Some(&model), None);
    assert!(cpu(&found).then.high < cores, "the mean fits");
    assert_eq!(found.answer, PlanAnswer::DoesNotHold);
}

#[test]
fn without_a_history_no_cpu_is_made_up() {
    let topics = [topic("orders", 1.3, [1.1, 1.2, 1.4], 1.5)];
    let found = planned_of(&asked(), &topics, None, None);
    assert!(found.resources.iter().all(|each| each.resource != "cpu") && found.clusters.is_none());
    assert_eq!(found.answer, PlanAnswer::Inconclusive);
    assert!(found.next.as_ref().unwrap().contains("hone batch watch --metrics"), "{:?}", found.next);
    assert_eq!(found.assumptions[0].unit, "batches/s");
    assert_eq!(found.assumptions[0].ends.map(f64::round), [120.0, 200.0]);
    // 100 kB/s, 1.5 times, on three brokers: in with three replicas, out to two others and to two consumers.
    near(resource(&found, "network-in").then.value, 1.5e5 * 3.0 / 3.0);
    near(resource(&found, "network-out").then.value, 1.5e5 * 4.0 / 3.0);
    let disk = resource(&found, "disk");
    assert_eq!(disk.answer, None, "no ceiling is made up");
    near(disk.then.low, 1.5e5);
    near(disk.then.high, 4.0 * 1.5e5);
    let tight = PlanSettings { network: Some(1.9e5), ..asked() };
    assert_eq!(planned_of(&tight, &topics, None, None).answer, PlanAnswer::DoesNotHold);
}

#[test]
fn a_model_without_cores_is_inconclusive_and_asks_for_them() {
    let (points, _) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let found = planned_of(
        &PlanSettings { cores: None, ..asked() },
        &[topic("t", 1.0, [1.2; 3], 1.0)],
        Some(&model),
        None,
    );
    assert_eq!(found.answer, PlanAnswer::Inconclusive);
    assert!(found.next.as_ref().unwrap().contains("--cores"), "{:?}", found.next);
}

#[test]
fn what_is_not_replayed_counts_as_with_new_producers() {
    let refused = WhatIf {
        predicted: None,
        refused: Some("it waits".to_owned()),
        ..topic("waits", 1.0, [1.0; 3], 1.0)
    };
    let topics = [topic("orders", 1.2, [1.2, 1.2, 1.2], 1.5), refused];
    let found = planned_of(&asked(), &topics, None, None);
    near(found.work[1].then.value, 120.0 + 200.0);
    near(found.work[1].then.low, 120.0 + 100.0);
    near(found.work[1].then.high, 120.0 + 200.0);
    near(found.work[3].then.value, 1.5e5 + 2e5);
    assert_eq!(found.topics[1].refused.as_deref(), Some("it waits"));
    // A quarter of the cluster's batches is in topics that Hone did not read.
    let of = |name: &str, batches: f64, bytes: f64| WatchedTopic {
        topic: name.to_owned(),
        batches_per_s: Figure::Known(batches),
        bytes_per_s: Figure::Known(bytes),
        ..WatchedTopic::default()
    };
    let watch = BatchWatch {
        total: of("", 400.0, 1e6),
        topics: vec![of("orders", 300.0, 1e6), of("others", 100.0, 0.0)],
        ..BatchWatch::default()
    };
    let found = planned_of(&asked(), &topics[..1], None, Some(&watch));
    near(found.work[1].then.value / found.work[1].now, 0.75 * 1.2 + 0.25 * 2.0);
    near(found.work[1].then.low / found.work[1].now, 0.75 * 1.2 + 0.25);
    near(found.work[3].then.value / found.work[3].now, 1.5);
    assert!(
        found.notes.iter().any(|note| note.contains("75 % of the cluster's batches")),
        "{:?}",
        found.notes
    );
}

#[test]
fn what_was_measured_of_the_brokers_is_used() {
    let broker = WatchedInstance {
        cores: Figure::Known(8.0),
        write_amplification: Figure::Known(1.25),
        received_bytes_per_s: Figure::Known(1e6),
        sent_bytes_per_s: Figure::Known(3e6),
        ..WatchedInstance::default()
    };
    let watch = BatchWatch { instances: vec![broker.clone(), broker], ..BatchWatch::default() };
    let (points, _) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let asked = PlanSettings { cores: None, fan_out: None, disk: Some(1e9), ..asked() };
    let found = planned_of(&asked, &[topic("orders", 1.2, [1.2; 3], 1.5)], Some(&model), Some(&watch));
    assert_eq!(resource(&found, "cpu").ceiling, Some(16.0));
    let bytes = found.work[3].then.value;
    near(resource(&found, "network-out").then.value, bytes * (2.0 + 3.0) / 2.0);
    let disk = resource(&found, "disk");
    near(disk.then.value, bytes * 3.0 * 1.25 / 2.0);
    assert_eq!((disk.then.low, disk.answer), (disk.then.value, Some(PlanAnswer::Holds)));
}

#[test]
fn the_assumption_that_carries_most_is_named_first() {
    let (points, _) = history(0.0);
    let model = fit(&points, 1).unwrap();
    let first = |low: f64, high: f64| {
        let topics = [topic("orders", 1.9, [low, 1.9, high], 2.0)];
        planned_of(&asked(), &topics, Some(&model), None).assumptions[0].assumption.clone()
    };
    assert_eq!(first(1.89, 1.91), "who brings the flow: the same producers, or new ones");
    assert_eq!(first(1.0, 3.0), "the range of the replay");
    let (points, _) = history(4.0);
    let model = fit(&points, 1).unwrap();
    let found = planned_of(&asked(), &[topic("orders", 1.9, [1.9; 3], 2.0)], Some(&model), None);
    assert_eq!(found.assumptions[0].assumption, COSTS);
    let ends = found.assumptions[0].ends;
    assert!(ends[0] < resource(&found, "cpu").then.value && resource(&found, "cpu").then.value < ends[1]);
}
