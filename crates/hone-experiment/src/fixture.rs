//! Records that tests start from and modify.

use std::collections::BTreeMap;

use hone_record::{
    BatchForetold, BatchState, Comparison, CpuSeconds, Decision, Design, Durability, EndToEnd, Estimate,
    Foreseen, Hdr, Judgement, Keys, Latencies, Machine, Metric, Mode, Outcome, Proof, ProofStep, Rule,
    Verdict, Window, WindowFacts, Workload,
};

use crate::spec::WorkloadFile;

mod commit_gate;
mod host_trial;

pub use commit_gate::gate;
pub use host_trial::trial;

/// A steady window of 10 s: 1,000 requests of two records, answered in 1 to 1,000 µs.
pub fn window() -> Window {
    let workload = WorkloadFile::default().named("test").unwrap();
    let mut latencies = Latencies::default();
    (1..=1_000).for_each(|us| latencies.intended_to_ack.record_ns(us * 1_000));
    let facts = WindowFacts {
        requests: 1_000,
        acked_requests: 1_000,
        acked_records: 2_000,
        reached_requests_per_s: 101.0,
        ..WindowFacts::default()
    };
    Window {
        variant: "target".to_owned(),
        address: "a:1".to_owned(),
        workload: Workload { keys: Keys::Zipf { distinct: 10, exponent: 1.0 }, ..workload },
        durability: Durability { acks: 1, storage: "unstated".to_owned() },
        started_unix_ms: 0,
        duration_s: 10.0,
        outcome: Outcome::Steady,
        facts,
        latencies,
        series: Vec::new(),
        end_to_end: None,
        batches: Vec::new(),
        split: None,
        events: Vec::new(),
        environment: None,
        shard: None,
        client: None,
        requirements: Vec::new(),
        outage: None,
    }
}

/// One consumer's view of 1,000 records, of which 15 did not arrive within a second.
pub fn end_to_end() -> EndToEnd {
    let (mut latency, mut missing_latency) = (Hdr::new(), Hdr::new());
    (1..=985).for_each(|us| latency.record_ns(us * 1_000));
    (0..15).for_each(|_| missing_latency.record_ns(1_000_000_000));
    latency.merge(&missing_latency);
    EndToEnd {
        latency,
        consumers: 1,
        fetched_records: 985,
        fetched_bytes: 985,
        missing: 15,
        is_group: false,
        more_groups: 0,
        lag_records_max: 15,
        lag_records_p50: None,
        lag_records_p99: None,
        lag_records_end: None,
        missing_latency,
        fetches: None,
        catch_up: None,
        rebalances: None,
        transactions: None,
        deliveries: None,
    }
}

fn judgement(metric: Metric, verdict: Verdict, primary: bool) -> Judgement {
    let estimate = Estimate {
        metric,
        pairs: 8,
        value_a: 10.0,
        value_b: 9.0,
        ratio: 0.9,
        low: 0.85,
        high: 0.95,
        confidence: 0.95,
        log_ratio_sd: 0.02,
        detectable_ratio: 1.03,
        builds: None,
    };
    Judgement { estimate, control: None, verdict, why: "the interval excludes 1".to_owned(), primary }
}

/// Eight pairs whose primary metric is better, with a guard metric of this verdict, or with a guard metric without values.
pub fn comparison(guard: Option<Verdict>) -> Comparison {
    let guards = vec![Metric::LatencyP99];
    let primary = judgement(Metric::CpuPerRecord, Verdict::Better, true);
    let guarded = guard.map(|verdict| judgement(Metric::LatencyP99, verdict, false));
    let reason = "none of the pairs has a value".to_owned();
    Comparison {
        a: "A".to_owned(),
        b: "B".to_owned(),
        workload: WorkloadFile::default().named("w").unwrap(),
        design: Design {
            pooled_baseline: false,
            looks: Vec::new(),
            continuation: None,
            mode: Mode::Duet,
            places: true,
            pairs: 8,
            control_pairs: 0,
            order: Vec::new(),
            swapped: Vec::new(),
            rule: Rule {
                primary: Metric::CpuPerRecord,
                secondary: guards.clone(),
                guards,
                default_guards: false,
                alpha: 0.05,
                equivalence: 0.02,
                resamples: 100,
                seed: 1,
                words: "the rule".to_owned(),
            },
            blocks: Vec::new(),
            builds: [1, 1],
            refused: BTreeMap::new(),
            disturbance: None,
            budget: None,
            both_controls: false,
            starts: 0,
            reserve: 0,
            effect: None,
        },
        pairs: Vec::new(),
        not_estimated: guarded.is_none().then_some((Metric::LatencyP99, reason)).into_iter().collect(),
        judgements: std::iter::once(primary).chain(guarded).collect(),
        machine: hone_record::Machine::default(),
        change: None,
        workload_b: None,
        pilot: None,
        unmeasured_pairs: 0,
        one_layout: Vec::new(),
        counted: None,
        unlike_promises: Vec::new(),
        measured: Default::default(),
        behind: Default::default(),
        targets: Default::default(),
        started_unix_ms: 0,
    }
}

fn state(us: u64, samples: u64) -> BatchState {
    let mut latency = Hdr::new();
    (0..samples).for_each(|_| latency.record_ns(us * 1_000));
    BatchState {
        windows: 3,
        seconds: 10.0,
        latency,
        acked_records: samples,
        target_cpu: Some(CpuSeconds { total_s: 5.0, user_share: None }),
        produce_requests: Some(100),
        batches: 50,
        batch_records: samples,
        batch_bytes: 50_000,
        ..BatchState::default()
    }
}

/// A proof of two changes: one accepted, one rejected.
pub fn proof() -> Proof {
    let step = |change: &str, decision, after| ProofStep {
        change: change.to_owned(),
        words: Vec::new(),
        decision,
        why: "because".to_owned(),
        promise: None,
        guards: Vec::new(),
        comparison: Some(comparison(None)),
        before: state(25_000, 1_000),
        after,
        foretold: Some(BatchForetold {
            source: "whatif".to_owned(),
            batch_bytes: Some(Foreseen { value: 900.0, low: 800.0, high: 950.0 }),
            ..BatchForetold::default()
        }),
    };
    Proof {
        target: "a broker".to_owned(),
        load: "shaped".to_owned(),
        workload: WorkloadFile::default().named("w").unwrap(),
        kept: WorkloadFile::default().named("w").unwrap(),
        replica: None,
        durability: Durability { acks: -1, storage: "unstated".to_owned() },
        rule: "a rule".to_owned(),
        steps: vec![
            step("linger=5ms", Decision::Accepted, state(4_000, 1_000_000)),
            step("acks=0", Decision::Rejected, state(5_000, 1_000)),
        ],
        limits: vec!["a limit".to_owned()],
        machine: Machine::default(),
        software: [("client".to_owned(), "librdkafka 2".to_owned())].into(),
    }
}
