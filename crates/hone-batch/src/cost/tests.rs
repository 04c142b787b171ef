//! The model must find planted costs, and report costs that it can't find.

use hone_record::Figure;

use super::*;

/// Cores, and CPU seconds for each request, batch, record and byte.
const TRUTH: [f64; COLUMNS] = [0.15, 12e-6, 25e-6, 0.6e-6, 0.4e-9];

struct Noise(ChaCha8Rng);

impl Noise {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Near enough to normal: of mean 0 and variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A history of some hours with a daily wave, hours of other mixes, and noise that lasts over some points.
fn history(seed: u64, truth: &[f64; COLUMNS], noise_cores: f64, points: usize) -> Vec<Point> {
    let mut noise = Noise(ChaCha8Rng::seed_from_u64(seed));
    let mut drift = 0.0;
    let (mut in_batch, mut in_request, mut record_bytes) = (20.0, 3.0, 200.0);
    (0..points)
        .map(|at| {
            if at % 12 == 0 {
                in_batch = 2.0 + 60.0 * noise.uniform();
                in_request = 1.0 + 4.0 * noise.uniform();
                record_bytes = 50.0 + 900.0 * noise.uniform();
            }
            let wave = 1.2 + (at as f64 / 40.0).sin();
            let records = 20_000.0 * wave * (0.9 + 0.2 * noise.uniform());
            let batches = records / in_batch;
            let bytes = records * record_bytes + HEADER_BYTES * batches;
            let x = [1.0, batches / in_request, batches, records, bytes];
            drift = 0.6 * drift + 0.8 * noise.normal();
            let cpu = x.iter().zip(truth).map(|(x, cost)| x * cost).sum::<f64>() + noise_cores * drift;
            point(at, cpu, x)
        })
        .collect()
}

fn point(at: usize, cpu: f64, x: [f64; COLUMNS]) -> Point {
    Point {
        at_s: 60.0 * at as f64,
        cpu_cores: cpu.max(0.0),
        requests_per_s: Some(x[REQUEST]),
        batches_per_s: x[BATCH],
        records_per_s: Some(x[RECORD]),
        bytes_per_s: Some(x[BYTE]),
    }
}

fn covers(interval: CostInterval, truth: f64) -> bool {
    interval.low <= truth && truth <= interval.high
}

#[test]
fn planted_costs_lie_in_their_intervals() {
    let runs = 60;
    let mut held = [0; COLUMNS];
    let mut forecast_held = 0;
    for seed in 0..runs {
        let model = fit(&history(seed, &TRUTH, 0.05, 360), seed).unwrap();
        let cost = model.record("test");
        assert!(cost.together.is_empty(), "{cost:#?}");
        for (column, held) in held.iter_mut().enumerate() {
            *held += u32::from(covers(cost.costs[column].us.unwrap(), 1e6 * TRUTH[column]));
        }
        let change = Change { batches: 0.3, requests: 0.3, ..Change::default() };
        let told = model.forecast(change, "");
        let factors = model.factors(change);
        let truth: f64 = (0..COLUMNS).map(|at| TRUTH[at] * model.means[at] * factors[at]).sum();
        forecast_held += u32::from(covers(told.cores_then, truth));
        assert!(told.cores_then.value < told.cores_now.value);
    }
    // Intervals aim at 95 %; blocks of a short history cover somewhat less.
    for (column, held) in held.into_iter().enumerate() {
        assert!(held >= 50, "{}: {held} of {runs}", UNITS[column]);
    }
    assert!(forecast_held >= 50, "forecast: {forecast_held} of {runs}");
}

#[test]
fn a_batch_is_known_to_a_few_microseconds() {
    let model = fit(&history(7, &TRUTH, 0.02, 720), 1).unwrap();
    let batch = model.cost(BATCH).us.unwrap();
    assert!((batch.value - 25.0).abs() < 3.0 && batch.high - batch.low < 10.0, "{batch:?}");
    assert!(model.explained > 0.8, "{}", model.explained);
}

#[test]
fn what_costs_nothing_is_not_negative() {
    let truth = [0.1, 0.0, 30e-6, 0.0, 0.0];
    for seed in 0..20 {
        let cost = fit(&history(seed, &truth, 0.1, 120), seed).unwrap().record("test");
        for one in &cost.costs {
            // In some of these short histories two kinds of work happen to move together.
            assert!(one.us.is_none_or(|us| us.low >= 0.0 && us.value >= 0.0), "{one:?}");
        }
    }
}

/// Everything goes up and down with the load, and the mix never changes.
#[test]
fn one_mix_is_one_cost() {
    let mut points = history(3, &TRUTH, 0.0, 200);
    for (at, point) in points.iter_mut().enumerate() {
        let wave = 1.2 + (at as f64 / 30.0).sin();
        let x = [1.0, 400.0 * wave, 800.0 * wave, 16_000.0 * wave, 16_000.0 * 261.0 * wave];
        let cpu = x.iter().zip(TRUTH).map(|(x, cost)| x * cost).sum();
        *point = self::point(at, cpu, x);
    }
    let model = fit(&points, 1).unwrap();
    let cost = model.record("test");
    assert!(cost.condition_index > 1e3, "{}", cost.condition_index);
    assert_eq!(cost.together.len(), 1);
    assert_eq!(cost.together[0].units, ["request", "batch", "record", "byte"]);
    let truth: f64 = (1..COLUMNS).map(|at| TRUTH[at] * model.means[at]).sum();
    assert!((cost.together[0].cores.value / truth - 1.0).abs() < 1e-6, "{cost:#?}");
    // A batch with all that comes along: half a request, 20 records and their bytes.
    let batch = cost.costs.iter().find(|cost| cost.unit == "batch").unwrap();
    let with_all =
        1e6 * (TRUTH[REQUEST] / 2.0 + TRUTH[BATCH] + 20.0 * TRUTH[RECORD] + 20.0 * 261.0 * TRUTH[BYTE]);
    assert!((batch.us.unwrap().value / with_all - 1.0).abs() < 1e-6, "{batch:?}");
    assert_eq!(batch.includes.len(), 3);
    assert!(cost.costs.iter().filter(|cost| cost.us.is_none()).count() == 3);
    // Fewer batches of the same records were never seen: the forecast is a range, and the truth is in it.
    let told = model.forecast(Change { batches: 0.2, ..Change::default() }, "batches=0.2");
    let factors = model.factors(Change { batches: 0.2, ..Change::default() });
    let then: f64 = (0..COLUMNS).map(|at| TRUTH[at] * model.means[at] * factors[at]).sum();
    assert!(covers(told.cores_then, then), "{told:?}, truth {then}");
    assert!(told.cores_then.high - told.cores_then.low > 0.5 * truth, "{told:?}");
    assert!(told.notes[0].contains("always changed together"), "{told:?}");
    // More of the same was seen.
    let same = Change { requests: 1.5, batches: 1.5, records: 1.5, bytes: Some(1.5) };
    let told = model.forecast(same, "");
    assert!((told.cores_then.value - (TRUTH[BASE] + 1.5 * truth)).abs() < 1e-6, "{told:?}");
    assert!(told.cores_then.high - told.cores_then.low < 0.01, "{told:?}");
}

/// Records of one size: bytes are a sum of records and headers, and say nothing of their own.
#[test]
fn bytes_of_fixed_records_are_in_records_and_batches() {
    let mut points = history(5, &TRUTH, 0.0, 240);
    for point in &mut points {
        let bytes = 200.0 * point.records_per_s.unwrap() + HEADER_BYTES * point.batches_per_s;
        let x =
            [1.0, point.requests_per_s.unwrap(), point.batches_per_s, point.records_per_s.unwrap(), bytes];
        *point =
            self::point((point.at_s / 60.0) as usize, x.iter().zip(TRUTH).map(|(x, cost)| x * cost).sum(), x);
    }
    let model = fit(&points, 1).unwrap();
    let cost = model.record("test");
    let us = |unit: &str| cost.costs.iter().find(|cost| cost.unit == unit).unwrap();
    assert_eq!(us("byte").us, None);
    assert_eq!(us("record").includes, ["byte"]);
    let record = us("record").us.unwrap().value;
    assert!((record / (1e6 * (TRUTH[RECORD] + 200.0 * TRUTH[BYTE])) - 1.0).abs() < 1e-3, "{record}");
    let batch = us("batch").us.unwrap().value;
    assert!((batch / (1e6 * (TRUTH[BATCH] + HEADER_BYTES * TRUTH[BYTE])) - 1.0).abs() < 1e-3, "{batch}");
    // Larger batches of these records are nothing new to the model.
    let change = Change { batches: 0.25, requests: 0.25, ..Change::default() };
    let told = model.forecast(change, "");
    let factors = model.factors(change);
    let then: f64 = (0..COLUMNS).map(|at| TRUTH[at] * model.means[at] * factors[at]).sum();
    assert!((told.cores_then.value / then - 1.0).abs() < 1e-3, "{told:?}, truth {then}");
    assert!(!told.notes.iter().any(|note| note.contains("always changed together")), "{told:?}");
}

#[test]
fn a_history_that_says_nothing_is_refused() {
    let points = history(1, &TRUTH, 0.01, 20);
    assert_eq!(fit(&points, 1).unwrap_err(), NoCosts::TooFew { points: 20 });
    let still: Vec<Point> = (0..100).map(|at| point(at, 0.5, [1.0, 100.0, 200.0, 4_000.0, 1e6])).collect();
    let error = fit(&still, 1).unwrap_err();
    assert!(matches!(error, NoCosts::Unchanging { .. }), "{error}");
    assert!(error.to_string().contains("a quiet and a busy hour"), "{error}");
    let no_cpu: Vec<Point> = history(1, &[0.0; COLUMNS], 0.0, 100);
    assert_eq!(fit(&no_cpu, 1).unwrap_err(), NoCosts::NoCpu { points: 100 });
    assert!(fit(&[], 1).is_err());
}

#[test]
fn a_forecast_says_where_the_history_ends() {
    let model = fit(&history(7, &TRUTH, 0.02, 720), 1).unwrap();
    let beyond = |change: Change| {
        let notes = model.forecast(change, "").notes;
        notes.into_iter().find(|note| note.starts_with("extrapolated beyond the history"))
    };
    assert_eq!(beyond(Change { batches: 0.9, requests: 0.9, ..Change::default() }), None);
    // The wave goes from about a sixth to twice the mean: three times as many records were never seen.
    let told = beyond(Change { records: 3.0, ..Change::default() }).unwrap();
    assert!(told.contains("records/s, the history has") && !told.contains("batches/s"), "{told}");
}

/// Everything changed except the batches: the refusal must not say that nothing did.
#[test]
fn steady_batches_are_refused_as_such() {
    let mut noise = Noise(ChaCha8Rng::seed_from_u64(3));
    let points: Vec<Point> = (0..100)
        .map(|at| {
            point(
                at,
                0.5 + noise.uniform(),
                [1.0, 100.0 * noise.uniform(), 200.0, 9e3 * noise.uniform(), 1e6 * noise.uniform()],
            )
        })
        .collect();
    let error = fit(&points, 1).unwrap_err().to_string();
    assert!(error.starts_with("batches/s hardly changed"), "{error}");
}

#[test]
fn cpu_of_something_else_is_told() {
    let mut points = history(2, &TRUTH, 0.0, 200);
    let mut noise = Noise(ChaCha8Rng::seed_from_u64(9));
    points.iter_mut().for_each(|point| point.cpu_cores = 1.0 + noise.uniform());
    let cost = fit(&points, 1).unwrap().record("test");
    assert!(cost.explained < 0.2 && cost.notes[0].contains("something else uses it"), "{cost:#?}");
}

#[test]
fn what_is_not_exported_is_left_out_and_told() {
    let mut points = history(4, &TRUTH, 0.02, 200);
    points.iter_mut().for_each(|point| point.requests_per_s = None);
    let cost = fit(&points, 1).unwrap().record("test");
    assert!(cost.costs.iter().all(|cost| cost.unit != "request"));
    assert!(cost.notes.iter().any(|note| note.contains("request")), "{:?}", cost.notes);
}

#[test]
fn topics_are_ranked_by_what_they_cost() {
    let model = fit(&history(8, &TRUTH, 0.02, 360), 1).unwrap();
    let topic = |name: &str, batches: f64, records: f64, bytes: f64| WatchedTopic {
        topic: name.to_owned(),
        batches_per_s: Figure::Known(batches),
        records_per_s: Figure::Known(records),
        bytes_per_s: Figure::Known(bytes),
        ..WatchedTopic::default()
    };
    let costs = model.topics(&[
        topic("well batched", 100.0, 10_000.0, 2e6),
        topic("badly batched", 9_000.0, 10_000.0, 2e6),
        WatchedTopic { topic: "unknown".to_owned(), ..WatchedTopic::default() },
    ]);
    let names: Vec<&str> = costs.iter().map(|cost| cost.topic.as_str()).collect();
    assert_eq!(names, ["badly batched", "well batched"]);
    assert!(costs[0].cores_of_batches.unwrap() > 0.8 * costs[0].cores.value, "{costs:?}");
}

/// Everything changed together, so it is unknown whether batches or records cost; in either case, the truth of each topic is in its
/// interval.
#[test]
fn a_topic_of_another_mix_is_bounded_where_kinds_of_work_moved_together() {
    let wave = |at: usize| 1.2 + (at as f64 / 30.0).sin();
    for truth in [[0.15, 0.0, 25e-6, 0.0, 0.0], [0.15, 0.0, 0.0, 1.25e-6, 0.0], TRUTH] {
        let points: Vec<Point> = (0..200)
            .map(|at| {
                let x = [1.0, 400.0, 800.0, 16_000.0, 16_000.0 * 261.0].map(|x| x * wave(at));
                let x = [1.0, x[REQUEST], x[BATCH], x[RECORD], x[BYTE]];
                point(at, x.iter().zip(truth).map(|(x, cost)| x * cost).sum(), x)
            })
            .collect();
        let model = fit(&points, 1).unwrap();
        for (batches, records) in [(700.0, 1_000.0), (100.0, 15_000.0), (400.0, 8_000.0)] {
            let topic = WatchedTopic {
                batches_per_s: Figure::Known(batches),
                records_per_s: Figure::Known(records),
                bytes_per_s: Figure::Known(261.0 * records),
                ..WatchedTopic::default()
            };
            let own = [0.0, batches / 2.0, batches, records, 261.0 * records];
            let cores: f64 = own.iter().zip(truth).map(|(x, cost)| x * cost).sum();
            let told = model.topics(std::slice::from_ref(&topic)).remove(0);
            // The history has no noise; what is left is of the arithmetic.
            let within =
                CostInterval { low: told.cores.low - 1e-9, high: told.cores.high + 1e-9, ..told.cores };
            assert!(covers(within, cores), "{batches} and {records} of {truth:?}: {told:?}, truth {cores}");
            assert_eq!(told.cores_of_batches, None);
            let has_its_share = batches / records == 0.05;
            let width = told.cores.high - told.cores.low;
            assert_eq!(width < 0.01 * told.cores.value, has_its_share, "{told:?}");
        }
    }
}

#[test]
fn one_hole_does_not_take_a_column_away() {
    let mut points = history(4, &TRUTH, 0.02, 200);
    points[17].requests_per_s = None;
    points[40].bytes_per_s = Some(f64::NAN);
    let cost = fit(&points, 1).unwrap().record("test");
    let units: Vec<&str> = cost.costs.iter().map(|cost| cost.unit.as_str()).collect();
    assert_eq!(units, UNITS);
    assert_eq!(cost.points, 198);
    assert!(cost.notes.iter().any(|note| note.contains("2 points lack")), "{:?}", cost.notes);
    points.iter_mut().step_by(5).for_each(|point| point.requests_per_s = None);
    let cost = fit(&points, 1).unwrap().record("test");
    assert!(cost.costs.iter().all(|cost| cost.unit != "request"), "a fifth of it is missing");
    assert_eq!(cost.points, 199);
}

#[test]
fn the_same_history_gives_the_same_answer() {
    let points = history(6, &TRUTH, 0.05, 120);
    let record = |seed| fit(&points, seed).unwrap().record("test");
    assert_eq!(record(3), record(3));
    assert_ne!(record(3), record(4));
}
