//! Saved windows: ratios without a verdict where there are few, honest intervals where there are enough, no verdict where
//! more than one thing differs, and what can't be shown in words.

use hone_compare::{SavedRule, compare_saved};
use hone_record::{
    CpuSeconds, Durability, Engine, Environment, Keys, Latencies, Machine, Metric, Outcome, Payload,
    Schedule, Sizes, Verdict, Window, WindowFacts, Workload,
};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::normal;

const RULE: SavedRule = SavedRule { primary: Metric::CpuPerRecord, alpha: 0.05, equivalence: 0.02 };

fn workload() -> Workload {
    Workload {
        name: "w".to_owned(),
        engine: Engine::Wire,
        seed: 1,
        schedule: Schedule::Poisson,
        requests_per_s: 1_000.0,
        records_per_batch: 1,
        record_bytes: 100,
        sizes: Sizes::Fixed,
        payload: Payload::Bytes { compressible_share: 0.5 },
        keys: Keys::None,
        compression: "none".to_owned(),
        connections: 4,
        in_flight: 16,
        partitions: 8,
        partitions_per_request: 1,
        acks: -1,
        idempotent: false,
        consumers: 0,
        warmup_requests: 10,
        duration_s: 5.0,
        timeout_s: 10.0,
        topic_config: [].into(),
    }
}

fn window(cpu_us: f64, started_unix_ms: u64) -> Window {
    let machine = Machine { cpu_model: "Example 9".to_owned(), cores: 2, ..Machine::default() };
    let mut latencies = Latencies::default();
    for _ in 0..100 {
        latencies.intended_to_ack.record_ns(1_000_000);
    }
    Window {
        variant: "v".to_owned(),
        address: "127.0.0.1:1".to_owned(),
        workload: workload(),
        durability: Durability { acks: -1, storage: "unstated".to_owned() },
        started_unix_ms,
        duration_s: 5.0,
        outcome: Outcome::Steady,
        facts: WindowFacts {
            acked_records: 1_000_000,
            acked_requests: 1_000_000,
            target_cpu: Some(CpuSeconds { total_s: cpu_us, user_share: None }),
            ..WindowFacts::default()
        },
        latencies,
        series: vec![],
        end_to_end: None,
        batches: vec![],
        split: None,
        events: vec![],
        environment: Some(Environment { machine, ..Environment::default() }),
        shard: None,
        client: None,
        requirements: Vec::new(),
    }
}

fn group(random: &mut ChaCha8Rng, count: u64, effect: f64, sd: f64, from: u64) -> Vec<Window> {
    (0..count)
        .map(|index| window(30.0 * (effect.ln() + sd * normal(random)).exp(), from + index * 6_000))
        .collect()
}

#[test]
fn one_window_each_has_a_ratio_and_no_verdict() {
    let (a, b) = ([window(30.0, 0)], [window(15.0, 60_000)]);
    let found = compare_saved(("a.json", &a), ("b.json", &b), RULE);
    assert!((found.estimates[0].ratio - 0.5).abs() < 1e-9);
    assert_eq!((found.estimates[0].interval, found.verdict()), (None, None));
    assert!(found.no_verdict.as_ref().unwrap().contains("a single window says nothing"), "{found:?}");
    assert!(found.cannot_show[0].contains("all windows of A were measured before those of B"), "{found:?}");
}

#[test]
fn welch_holds_the_truth_over_windows_of_unequal_spread() {
    let mut random = ChaCha8Rng::seed_from_u64(60);
    let sessions = 300;
    let missed = (0..sessions)
        .filter(|_| {
            let (a, b) = (group(&mut random, 6, 1.0, 0.02, 0), group(&mut random, 12, 1.05, 0.10, 0));
            let found = compare_saved(("a", &a), ("b", &b), RULE);
            let (low, high, _) = found.estimates[0].interval.unwrap();
            low > 1.05 || high < 1.05
        })
        .count();
    // 5 % promised; 10 % is four standard errors above it.
    assert!(missed <= 30, "{missed} of {sessions}");
}

#[test]
fn enough_windows_of_one_question_have_a_verdict() {
    let mut random = ChaCha8Rng::seed_from_u64(61);
    let a = group(&mut random, 8, 1.0, 0.02, 0);
    let verdict = |effect, random: &mut ChaCha8Rng| {
        compare_saved(("a", &a), ("b", &group(random, 8, effect, 0.02, 1 << 40)), RULE).verdict()
    };
    assert_eq!(verdict(0.8, &mut random), Some(Verdict::Better));
    assert_eq!(verdict(1.3, &mut random), Some(Verdict::Worse));
}

#[test]
fn two_differences_are_named_and_refuse_a_verdict_and_one_is_the_question() {
    let mut random = ChaCha8Rng::seed_from_u64(62);
    let a = group(&mut random, 6, 1.0, 0.02, 0);
    let mut b = group(&mut random, 6, 0.5, 0.02, 0);
    b.iter_mut().for_each(|window| window.workload.records_per_batch = 10);
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    assert_eq!(found.differences, ["load, records_per_batch: 1 in A, 10 in B"]);
    assert_eq!(found.verdict(), Some(Verdict::Better));
    b.iter_mut().for_each(|window| window.environment.as_mut().unwrap().machine.cores = 64);
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    assert_eq!(found.differences[1], "machine, cores: 2 in A, 64 in B");
    assert_eq!(found.verdict(), None);
    assert!(found.no_verdict.unwrap().contains("differ in 2 things"));
    assert!(found.estimates[0].interval.is_some(), "the ratio is told all the same");
}

#[test]
fn windows_that_are_not_steady_are_left_out_with_their_reason() {
    let mut random = ChaCha8Rng::seed_from_u64(63);
    let a = group(&mut random, 6, 1.0, 0.02, 0);
    let mut b = a.clone();
    b[2].outcome = Outcome::Saturated { backlog_requests: 9 };
    b[3].outcome = Outcome::Failed { reason: "gone".to_owned() };
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    assert_eq!((found.b.windows, found.b.left_out.len()), (4, 2));
    assert!(found.no_verdict.unwrap().starts_with("4 window(s) on a side"));
}
