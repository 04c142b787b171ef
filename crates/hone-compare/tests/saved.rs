//! Saved windows: bare ratios where there are few, honest intervals where there are enough, nothing said where more than one
//! thing differs, never a word on better or worse, and what can't be shown in words.

use hone_compare::{SavedRule, check_saved, compare_saved};
use hone_record::{
    CpuSeconds, Durability, Engine, Environment, Event, EventKind, Keys, Latencies, Machine, Metric, Outcome,
    Payload, SavedFinding, Schedule, Sizes, Window, WindowFacts, Workload,
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
        topics: hone_record::TopicShares::default(),
        partitions: 8,
        partitions_per_request: 1,
        acks: -1,
        idempotent: false,
        consumers: 0,
        consumer_group: false,
        consumer_groups: 1,
        group_protocol: hone_record::GroupProtocol::Assigned,
        rebalance_every_s: 0.0,
        processing: hone_record::Processing::default(),
        fetch: hone_record::FetchLimits::default(),
        read_from: hone_record::ReadFrom::End,
        backlog_bytes: 0,
        warmup_requests: 10,
        warmup_limit_s: 0.0,
        duration_s: 5.0,
        timeout_s: 10.0,
        topic_config: [].into(),
        replication_factor: None,
        recording: None,
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
            requests: 1_000_000,
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
        outage: None,
    }
}

fn group(random: &mut ChaCha8Rng, count: u64, effect: f64, sd: f64, from: u64) -> Vec<Window> {
    (0..count)
        .map(|index| window(30.0 * (effect.ln() + sd * normal(random)).exp(), from + index * 6_000))
        .collect()
}

#[test]
fn one_window_each_has_a_ratio_and_no_finding() {
    let (a, b) = ([window(30.0, 0)], [window(15.0, 60_000)]);
    let found = compare_saved(("a.json", &a), ("b.json", &b), RULE);
    assert!((found.estimates[0].ratio - 0.5).abs() < 1e-9);
    assert_eq!((found.estimates[0].interval, found.finding()), (None, None));
    assert!(found.no_finding.as_ref().unwrap().contains("a single window does not show"), "{found:?}");
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
    // The design's rate is 5 %; 10 % is four standard errors above it.
    assert!(missed <= 30, "{missed} of {sessions}");
}

#[test]
fn enough_windows_of_one_question_differ_or_do_not_and_are_never_better_or_worse() {
    let mut random = ChaCha8Rng::seed_from_u64(61);
    let a = group(&mut random, 8, 1.0, 0.01, 0);
    let mut found =
        |effect| compare_saved(("a", &a), ("b", &group(&mut random, 8, effect, 0.01, 1 << 40)), RULE);
    for effect in [0.8, 1.3] {
        assert_eq!(found(effect).finding(), Some(SavedFinding::Differs));
        let told = serde_json::to_string(&found(effect).estimates).unwrap();
        assert!(!told.contains("better") && !told.contains("worse"), "{told}");
    }
    assert_eq!(found(1.0).finding(), Some(SavedFinding::WithinMargin));
    assert!(found(1.0).cannot_show[1].contains("share its luck"));
}

/// Why there is no better and no worse: the luck of a sitting is in all of its windows.
#[test]
fn two_sittings_of_one_target_differ_more_often_than_the_interval_knows() {
    let mut random = ChaCha8Rng::seed_from_u64(65);
    let sessions = 400;
    let differs = (0..sessions)
        .filter(|_| {
            let mut sitting = || {
                let luck = (0.02 * normal(&mut random)).exp();
                group(&mut random, 5, luck, 0.03, 0)
            };
            let (a, b) = (sitting(), sitting());
            compare_saved(("a", &a), ("b", &b), RULE).finding() == Some(SavedFinding::Differs)
        })
        .count();
    assert!(differs * 100 > sessions * 15, "{differs} of {sessions}");
}

/// Rates that were asked for differ, and nothing follows for the targets.
#[test]
fn nothing_is_said_of_throughput_at_a_fixed_rate() {
    let mut random = ChaCha8Rng::seed_from_u64(64);
    let (a, mut b) = (group(&mut random, 8, 1.0, 0.01, 0), group(&mut random, 8, 1.0, 0.01, 0));
    b.iter_mut().for_each(|window| window.facts.reached_requests_per_s = 9_000.0);
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    let of_throughput = found.estimates.iter().find(|found| found.metric == Metric::Throughput);
    assert_eq!(of_throughput.and_then(|found| found.finding), None);
    let rule = SavedRule { primary: Metric::Throughput, ..RULE };
    assert!(check_saved(rule).unwrap_err().to_string().contains("--find-capacity"));
    assert!(check_saved(RULE).is_ok());
    for (alpha, equivalence) in
        [(5.0, 0.02), (1.5, 0.02), (f64::NAN, 0.02), (0.05, 2.0), (0.0, 0.02), (0.05, 0.0)]
    {
        let refused = check_saved(SavedRule { alpha, equivalence, ..RULE }).unwrap_err().to_string();
        assert!(refused.contains("must be between 0 and"), "{refused}");
    }
}

/// A request without a response ends when it is sent.
#[test]
fn nothing_is_said_of_latencies_beside_those_of_acks_0() {
    let mut random = ChaCha8Rng::seed_from_u64(65);
    let (a, mut b) = (group(&mut random, 8, 1.0, 0.01, 0), group(&mut random, 8, 1.0, 0.01, 0));
    let of_p50 = |b: &[Window]| {
        let found = compare_saved(("a", &a), ("b", b), RULE);
        found.estimates.iter().find(|found| found.metric == Metric::LatencyP50).unwrap().finding
    };
    for (acks, said) in [(1, true), (0, false)] {
        b.iter_mut().for_each(|window| window.workload.acks = acks);
        assert_eq!(of_p50(&b).is_some(), said, "acks={acks}");
    }
}

#[test]
fn two_differences_are_named_and_leave_nothing_to_say_and_one_is_the_question() {
    let mut random = ChaCha8Rng::seed_from_u64(62);
    let a = group(&mut random, 6, 1.0, 0.02, 0);
    let mut b = group(&mut random, 6, 0.5, 0.02, 0);
    b.iter_mut().for_each(|window| window.workload.records_per_batch = 10);
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    assert_eq!(found.differences, ["load, records_per_batch: 1 in A, 10 in B"]);
    assert_eq!(found.finding(), Some(SavedFinding::Differs));
    b.iter_mut().for_each(|window| window.environment.as_mut().unwrap().machine.cores = 64);
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    assert_eq!(found.differences[1], "machine, cores: 2 in A, 64 in B");
    assert_eq!(found.finding(), None);
    assert!(found.no_finding.unwrap().contains("differ in 2 things"));
    assert!(found.estimates[0].interval.is_some(), "the ratio is reported anyway");
}

/// The same rule as for the windows of a pair.
#[test]
fn windows_that_would_not_count_in_a_pair_are_left_out_with_their_reason() {
    let mut random = ChaCha8Rng::seed_from_u64(63);
    let a = group(&mut random, 6, 1.0, 0.02, 0);
    let mut b = a.clone();
    b[1].facts.requests = b[1].facts.acked_requests + b[1].facts.acked_requests / 50;
    b[2].outcome = Outcome::Saturated { backlog_requests: 9 };
    b[3].outcome = Outcome::Failed { reason: "gone".to_owned() };
    b[4].events.push(Event { at_s: 1.0, kind: EventKind::Interrupted, what: "by the user".to_owned() });
    let found = compare_saved(("a", &a), ("b", &b), RULE);
    assert_eq!((found.b.windows, found.b.left_out.len()), (2, 4));
    for (left_out, reason) in
        found.b.left_out.iter().zip(["failed 20000 of", "saturated", "gone", "was interrupted"])
    {
        assert!(left_out.contains(reason), "{left_out}");
    }
    assert!(found.no_finding.unwrap().starts_with("2 window(s) on a side"));
}
