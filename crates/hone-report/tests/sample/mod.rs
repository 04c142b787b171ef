//! Records as a real run would leave them, built through the public types from seeded numbers.

#![allow(dead_code, reason = "the unit tests, the page tests and the example each use a part of it")]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use hone_record::{
    Altitude, BatchState, Chapter, CodeLayout, Decision, Diagnosed, Diagnosis, Evidence, Expectation,
    Footprint, Foretold, HeatCurve, HeatFunction, HeatLine, HeatMark, HeatPage, HeatPoint, HeatSection,
    HeatSet, HeatSource, Heatmap, Hope, LayoutVerdict, LedgerEntry, Likelihood, Missed, ProofStep, RecordRef,
    RecordRole, Remedy, Replica, Story, Together, TopicFigures, Tuning, TuningStep, WindowRow,
};
use hone_record::{
    Artifact, Ceiling, CodeInside, Comparison, CpuSeconds, Design, Durability, Estimate, HotFunction,
    Judgement, JvmAccount, JvmCache, JvmStarts, Latencies, Machine, MemoryCounted, Metric, Mode,
    Optimization, Outcome, OverBaseline, PairKind, PairOutcome, Payload, PmuState, ProfileApplied,
    ProfileProof, Rule, Schedule, SeriesPoint, SlowRequest, SmokeTest, StallKind, StepReceipt, TailAccount,
    TailCause, TailWatch, TargetMemory, ToolReceipt, Verdict, Window, WindowFacts, Workload,
};

/// Seconds of a window.
const SECONDS: u64 = 10;
/// Requests in each second.
const REQUESTS_PER_S: u64 = 2_000;

/// Deterministic numbers (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in (0, 1).
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// A service's latency: a log-normal body, one slow in a hundred, one stall in two thousand.
    fn latency_us(&mut self, factor: f64) -> f64 {
        let body = 180.0 * factor * (0.25 * self.normal()).exp();
        let dice = self.unit();
        let slow = if dice < 0.01 { -1_500.0 * self.unit().ln() } else { 0.0 };
        let stall = if dice > 0.9995 { 12_000.0 + 9_000.0 * self.unit() } else { 0.0 };
        body + slow + stall
    }
}

/// The load of the sample comparison.
pub(crate) fn workload(name: &str) -> Workload {
    Workload {
        name: name.to_owned(),
        engine: hone_record::Engine::Wire,
        seed: 7_001,
        schedule: Schedule::Poisson,
        requests_per_s: REQUESTS_PER_S as f64,
        records_per_batch: 8,
        record_bytes: 420,
        sizes: hone_record::Sizes::Fixed,
        payload: Payload::Json { shape: "telemetry".to_owned() },
        keys: hone_record::Keys::None,
        compression: "lz4".to_owned(),
        connections: 4,
        in_flight: 16,
        topics: hone_record::TopicShares::default(),
        partitions: 8,
        partitions_per_request: 1,
        acks: 1,
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
        warmup_requests: 20_000,
        warmup_limit_s: 0.0,
        duration_s: SECONDS as f64,
        replication_factor: None,
        recording: None,
        timeout_s: 5.0,
        topic_config: BTreeMap::from([
            ("compression.type".to_owned(), "zstd".to_owned()),
            ("hone.validate.schema".to_owned(), "telemetry-v2".to_owned()),
        ]),
    }
}

/// One steady window; `factor` scales its latency and CPU.
pub(crate) fn window(variant: &str, seed: u64, factor: f64) -> Window {
    let mut numbers = Numbers(seed);
    let mut latencies = Latencies::default();
    let mut series = Vec::new();
    for second in 0..SECONDS {
        series.push(second_of_load(second, factor, &mut numbers, &mut latencies));
    }
    let requests = SECONDS * REQUESTS_PER_S;
    let cpu_s = requests as f64 * 8.0 * 21.3e-6 * factor * (0.02 * numbers.normal()).exp();
    Window {
        variant: variant.to_owned(),
        address: "127.0.0.1:40117".to_owned(),
        workload: workload("validate"),
        durability: Durability { acks: 1, storage: "page-cache".to_owned() },
        started_unix_ms: STARTED_UNIX_MS + seed % 64 * 12_000,
        duration_s: SECONDS as f64,
        outcome: Outcome::Steady,
        facts: WindowFacts {
            requests,
            acked_requests: requests,
            acked_records: requests * 8,
            acked_bytes: requests * 1_240,
            asked_requests_per_s: REQUESTS_PER_S as f64,
            reached_requests_per_s: REQUESTS_PER_S as f64 * (1.0 + 0.001 * numbers.normal()),
            errors: BTreeMap::new(),
            target_cpu: Some(CpuSeconds {
                total_s: cpu_s,
                user_share: Some(0.78 + 0.005 * numbers.normal()),
            }),
            generator_cpu: CpuSeconds { total_s: 0.31, user_share: Some(0.41) },
            steal_share: 0.012,
            others_share: 0.034,
            target_memory: Some(TargetMemory {
                peak_bytes: (512 + seed % 7) << 20,
                mean_bytes: Some(((500 + seed % 7) << 20) as f64),
                samples: 50,
                counted: MemoryCounted::Resident,
            }),
            ..WindowFacts::default()
        },
        latencies,
        series,
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

fn second_of_load(second: u64, factor: f64, numbers: &mut Numbers, latencies: &mut Latencies) -> SeriesPoint {
    let mut all: Vec<f64> = (0..REQUESTS_PER_S).map(|_| numbers.latency_us(factor)).collect();
    for &us in &all {
        let late_us = 8.0 - 6.0 * numbers.unit().ln();
        latencies.intended_to_ack.record_ns(((us + late_us) * 1e3) as u64);
        latencies.sent_to_ack.record_ns((us * 1e3) as u64);
        latencies.intended_to_sent.record_ns((late_us * 1e3) as u64);
    }
    all.sort_by(f64::total_cmp);
    let at = |quantile: f64| all[(quantile * (all.len() - 1) as f64) as usize];
    SeriesPoint {
        at_s: second as f64,
        acked_requests: REQUESTS_PER_S,
        latency_us_p50: at(0.5),
        latency_us_p99: at(0.99),
        latency_us_max: at(1.0),
        backlog_requests: numbers.next() % 4,
        ..SeriesPoint::default()
    }
}

/// A window of a target that can't keep up.
pub(crate) fn saturated_window() -> Window {
    let mut window = window("baseline", 3, 40.0);
    window.outcome = Outcome::Saturated { backlog_requests: 9_412 };
    window.facts.acked_requests = 10_588;
    window.facts.acked_records = 10_588 * 8;
    window.facts.acked_bytes = 10_588 * 1_240;
    window.facts.reached_requests_per_s = 1_058.0;
    window.facts.target_cpu = Some(CpuSeconds { total_s: 9.91, user_share: Some(0.79) });
    window.facts.errors = BTreeMap::from([("timeout".to_owned(), 312)]);
    for (index, point) in window.series.iter_mut().enumerate() {
        point.backlog_requests = 940 * (index as u64 + 1);
    }
    window
}

/// Start of the first window.
const STARTED_UNIX_MS: u64 = 1_795_200_420_000;

/// A comparison of `pgo` with `baseline` with one judgement and no pairs.
pub(crate) fn bare_comparison(
    metric: Metric,
    verdict: Verdict,
    ratio: f64,
    low: f64,
    high: f64,
    detectable_ratio: f64,
) -> Comparison {
    let estimate = Estimate {
        metric,
        pairs: 14,
        value_a: 20.0,
        value_b: 20.0 * ratio,
        ratio,
        low,
        high,
        confidence: 0.95,
        log_ratio_sd: 0.05,
        detectable_ratio,
        builds: None,
    };
    Comparison {
        a: "baseline".to_owned(),
        b: "pgo".to_owned(),
        workload: workload("validate"),
        design: design(metric, 14, 4),
        pairs: Vec::new(),
        judgements: vec![Judgement {
            estimate,
            control: None,
            verdict,
            why: "as given".to_owned(),
            primary: true,
        }],
        not_estimated: BTreeMap::new(),
        machine: machine(),
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
        started_unix_ms: STARTED_UNIX_MS,
    }
}

fn design(primary: Metric, pairs: u32, control_pairs: u32) -> Design {
    let order: Vec<PairKind> = (0..pairs + control_pairs)
        .map(
            |index| {
                if index % 5 == 2 && index / 5 < control_pairs { PairKind::Control } else { PairKind::Test }
            },
        )
        .collect();
    Design {
        pooled_baseline: false,
        looks: Vec::new(),
        continuation: None,
        mode: Mode::Duet,
        places: true,
        pairs,
        control_pairs,
        swapped: order.iter().enumerate().map(|(index, _)| index % 3 == 1).collect(),
        order,
        rule: Rule {
            primary,
            secondary: Metric::ALL.into_iter().filter(|metric| *metric != primary).collect(),
            guards: vec![Metric::LatencyP99],
            default_guards: false,
            alpha: 0.05,
            equivalence: 0.02,
            resamples: 10_000,
            seed: 42,
            words: "Better or worse when the 95 % interval of the ratio leaves 1 out; equivalent when it lies within \
                    1/1.02 to 1.02; otherwise inconclusive."
                .to_owned(),
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
    }
}

/// A window whose tail has a cause: pauses. A wait of one thread explains nothing.
pub(crate) fn tail() -> TailAccount {
    let times = [0.61, 2.84, 5.27, 8.9, 11.02];
    let pauses: Vec<[f64; 2]> = times.iter().map(|begin| [*begin, begin + 0.21]).collect();
    let slow = |index: usize| {
        let (pause, place) = (times[index % times.len()], (index / times.len()) as f64);
        let latency_us = 1e6 * (0.209 - 0.002 * place);
        SlowRequest { at_s: pause + 0.002 * place, latency_us, cause: Some(0) }
    };
    let mut slow: Vec<SlowRequest> = (0..38).map(slow).collect();
    slow.extend([4.1, 6.3, 9.7].map(|at_s| SlowRequest { at_s, latency_us: 31_000.0, cause: None }));
    slow.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    let pause = TailCause {
        kind: StallKind::Pause,
        name: "Pause Young (Mixed) (G1 Evacuation Pause)".to_owned(),
        stalls: pauses,
        explained: 38,
        is_beyond_chance: true,
        detail: None,
    };
    let file = TailCause {
        kind: StallKind::File,
        name: "fsync of /data/kafka".to_owned(),
        stalls: vec![[3.0, 3.08], [7.0, 7.31]],
        explained: 0,
        is_beyond_chance: false,
        detail: Some("the longest in thread flush-0".to_owned()),
    };
    let unseen = "control groups are not visible from here".to_owned();
    let watch = |kind, missing| TailWatch { kind, missing };
    TailAccount {
        target: "127.0.0.1:9092: java (process 4711)".to_owned(),
        started_unix_ms: 1_790_000_000_000,
        duration_s: 12.0,
        requests: 41_200,
        quantile: 0.999,
        threshold_us: 29_800.0,
        median_us: 912.0,
        slow,
        slow_count: 41,
        unexplained: 3,
        causes: vec![pause, file],
        watched: vec![
            watch(StallKind::Throttling, Some(unseen)),
            watch(StallKind::Pause, None),
            watch(StallKind::File, None),
            watch(StallKind::PageFault, None),
            watch(StallKind::RunQueue, None),
        ],
        notes: Vec::new(),
        machine: machine(),
    }
}

fn machine() -> Machine {
    Machine {
        cpu_model: "AMD EPYC 7B13".to_owned(),
        cores: 2,
        l1i_bytes: 32 * 1024,
        memory_bytes: 25_200_000_000,
        kernel: "6.1.0-28-amd64".to_owned(),
        os: "Debian GNU/Linux 12 (bookworm)".to_owned(),
        virtualization: Some("kvm".to_owned()),
        container: None,
        governor: None,
        perf_event_paranoid: Some(2),
        pmu: PmuState::None,
        load_average_1m: 0.42,
        steal_share: 0.004,
    }
}

/// Exact counts of `baseline` and `pgo` under the load `validate`, with changes in many functions of three files.
pub(crate) fn counted() -> hone_record::Counted {
    use hone_record::{CodeChange, CodeFrame, Counted, CountedMisses, Counts};
    let frame = |text: &str| {
        let (name, source) =
            text.split_once(" at ").map_or((text, None), |(name, source)| (name, Some(source)));
        CodeFrame { name: name.to_owned(), source: source.map(str::to_owned) }
    };
    let change = |(object, frames, instructions): &(&str, &[&str], [f64; 2])| CodeChange {
        frames: frames.iter().map(|text| frame(text)).collect(),
        object: (!object.is_empty()).then(|| (*object).to_owned()),
        instructions: *instructions,
    };
    let produce = "hone_broker::keys::k00_produce::handle at src/keys/k00_produce.rs:41";
    let validate = "hone_broker::validate::record at src/keys/k00_produce.rs:97";
    let named: [(&str, &[&str], [f64; 2]); 7] = [
        ("hone-broker", &[produce, validate], [4_210.0, 3_105.0]),
        (
            "hone-broker",
            &[produce, validate, "serde_json::read::next at src/validate.rs:233"],
            [2_902.0, 2_450.0],
        ),
        ("libzstd.so.1", &["ZSTD_compressBlock_doubleFast"], [1_800.0, 1_960.0]),
        ("hone-broker", &["hone_broker::log::append at src/log.rs:77"], [720.0, 641.0]),
        ("hone-broker", &[produce], [315.0, 372.0]),
        ("libc.so.6", &[], [120.0, 98.0]),
        ("", &[], [31.0, 22.5]),
    ];
    let mut code: Vec<CodeChange> = named.iter().map(change).collect();
    code.extend((0..14).map(|number| {
        let name = format!("hone_broker::metrics::series_{number} at src/metrics.rs:{}", 100 + number);
        change(&("hone-broker", &[&name], [60.0, 55.0 - 0.1 * f64::from(number)]))
    }));
    code.sort_by(|one, other| {
        let size = |change: &CodeChange| (change.instructions[1] - change.instructions[0]).abs();
        size(other).total_cmp(&size(one))
    });
    let misses = |per_operation: [f64; 2]| {
        let of = |(structure, per_operation): (&str, f64)| CountedMisses {
            structure: structure.to_owned(),
            per_operation,
        };
        ["L1i 32 KiB 8-way", "iTLB 64 x 4 KiB 8-way"].into_iter().zip(per_operation).map(of).collect()
    };
    let counts = |instructions: [f64; 2], branches_taken, missed| Counts {
        operations: 5_000,
        instructions: instructions.into(),
        branches_taken,
        misses: misses(missed),
    };
    Counted {
        a: "baseline".to_owned(),
        b: "pgo".to_owned(),
        workload: "validate".to_owned(),
        work: "5,000 requests on one connection, each after the answer to the one before it".to_owned(),
        emulator: "qemu-x86_64 version 7.2.13\nCopyright".to_owned(),
        predicted: Some([0.912, 0.84, 0.99]),
        counts: [
            counts([15_234.0, 15_235.0], 1_310.0, [36.6, 0.9]),
            counts([13_769.0, 13_770.0], 702.0, [11.2, 0.0]),
        ],
        code,
        notes: vec!["code of 1 thread made at run time is left out".to_owned()],
    }
}

/// A comparison with windows; `effect` is the true ratio of B to A.
pub(crate) fn comparison(name: &str, effect: f64, windows: &mut BTreeMap<String, Window>) -> Comparison {
    let design = design(Metric::CpuPerRecord, 14, 4);
    let mut numbers = Numbers(name.len() as u64 * 37);
    let pairs: Vec<PairOutcome> = design
        .order
        .iter()
        .enumerate()
        .map(|(index, kind)| pair(name, index as u32, *kind, effect, &mut numbers, windows))
        .collect();
    let judgements = Metric::ALL.into_iter().filter_map(|metric| judgement(&pairs, metric)).collect();
    Comparison {
        a: "baseline".to_owned(),
        b: "pgo".to_owned(),
        workload: workload(name),
        design,
        pairs,
        judgements,
        not_estimated: BTreeMap::new(),
        machine: machine(),
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
        started_unix_ms: STARTED_UNIX_MS,
    }
}

fn pair(
    name: &str,
    index: u32,
    kind: PairKind,
    effect: f64,
    numbers: &mut Numbers,
    windows: &mut BTreeMap<String, Window>,
) -> PairOutcome {
    // Neighbours hit both windows of a pair, though not quite alike.
    let neighbours = (0.1 * numbers.normal()).exp();
    let twin = neighbours * (0.03 * numbers.normal()).exp();
    let factor_b = if kind == PairKind::Test { twin * effect } else { twin };
    let mut a = window("baseline", numbers.next(), neighbours);
    let mut b = window(if kind == PairKind::Test { "pgo" } else { "baseline" }, numbers.next(), factor_b);
    let dropped = (index == 6 && kind == PairKind::Test)
        .then(|| "steal was 21 % of all cores in window b, the limit is 10 %".to_owned());
    a.workload = workload(name);
    b.workload = workload(name);
    let values = |window: &Window| {
        Metric::ALL.into_iter().filter_map(|metric| Some((metric, window.value(metric)?))).collect()
    };
    let outcome = PairOutcome {
        index,
        kind,
        window_a: format!("windows/{name}-{index:02}-a.json"),
        window_b: format!("windows/{name}-{index:02}-b.json"),
        values_a: values(&a),
        values_b: values(&b),
        dropped,
        ..PairOutcome::default()
    };
    windows.insert(outcome.window_a.clone(), a);
    windows.insert(outcome.window_b.clone(), b);
    outcome
}

/// A normal interval is enough for a sample; the real one is a bootstrap.
fn estimate(pairs: &[PairOutcome], kind: PairKind, metric: Metric) -> Option<Estimate> {
    let values: Vec<(f64, f64)> = pairs
        .iter()
        .filter(|pair| pair.kind == kind && pair.dropped.is_none())
        .filter_map(|pair| Some((*pair.values_a.get(&metric)?, *pair.values_b.get(&metric)?)))
        .collect();
    if values.len() < 3 {
        return None;
    }
    let n = values.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| values.iter().map(of).sum::<f64>() / n;
    let log_ratio = mean(&|(a, b)| (b / a).ln());
    let variance = values.iter().map(|(a, b)| ((b / a).ln() - log_ratio).powi(2)).sum::<f64>() / (n - 1.0);
    let (width, confidence) = if metric == Metric::CpuPerRecord { (2.16, 0.95) } else { (3.2, 0.99375) };
    let half = width * (variance / n).sqrt();
    Some(Estimate {
        metric,
        pairs: values.len() as u32,
        value_a: mean(&|(a, _)| a.ln()).exp(),
        value_b: mean(&|(_, b)| b.ln()).exp(),
        ratio: log_ratio.exp(),
        low: (log_ratio - half).exp(),
        high: (log_ratio + half).exp(),
        confidence,
        log_ratio_sd: variance.sqrt(),
        detectable_ratio: ((width + 0.84) * (variance / n).sqrt()).exp(),
        builds: None,
    })
}

fn judgement(pairs: &[PairOutcome], metric: Metric) -> Option<Judgement> {
    let estimate = estimate(pairs, PairKind::Test, metric)?;
    let control = self::estimate(pairs, PairKind::Control, metric);
    let verdict = match (estimate.low, estimate.high) {
        (low, high) if low > 1.0 / 1.02 && high < 1.02 => Verdict::Equivalent,
        (_, high) if high < 1.0 && metric.lower_is_better() => Verdict::Better,
        (low, _) if low > 1.0 && metric.lower_is_better() => Verdict::Worse,
        _ => Verdict::NotShown,
    };
    let why = match verdict {
        Verdict::Better | Verdict::Worse => "the confidence interval excludes 1",
        Verdict::Equivalent => "the confidence interval is within 2 % of equal",
        Verdict::NotShown => "the confidence interval contains 1",
    }
    .to_owned();
    Some(Judgement { estimate, control, verdict, why, primary: metric == Metric::CpuPerRecord })
}

fn tools() -> Vec<ToolReceipt> {
    let receipt = |name: &str, path: &str, version: &str| ToolReceipt {
        name: name.to_owned(),
        path: path.to_owned(),
        version: version.to_owned(),
    };
    vec![
        receipt("rustc", "/opt/rust/bin/rustc", "rustc 1.95.0 (2026-04-14)"),
        receipt(
            "llvm-profdata",
            "/opt/rust/lib/rustlib/x86_64-unknown-linux-gnu/bin/llvm-profdata",
            "LLVM version 22.1.0",
        ),
    ]
}

fn artifact(variant: &str, file_bytes: u64, text_bytes: u64, build_s: f64) -> Artifact {
    let flags = if variant == "pgo" { "-Cprofile-use=run/2026-11-20/train/merged.profdata" } else { "" };
    Artifact {
        variant: variant.to_owned(),
        path: format!("run/2026-11-20/{variant}/hone-broker"),
        sha256: format!("{:016x}", file_bytes.wrapping_mul(0x9e37_79b9_7f4a_7c15)).repeat(4),
        file_bytes,
        text_bytes,
        build_s,
        command: format!(
            "CARGO_TARGET_DIR=run/2026-11-20/{variant}/target RUSTFLAGS='{flags}' cargo build --release --package \
             hone-broker --bin hone-broker"
        ),
        tools: tools(),
        profile: None,
        applied: None,
        code_inside: vec![CodeInside {
            name: "zstd-sys (C)".to_owned(),
            profiled: variant == "pgo",
            how: "clang of the same LLVM, the same profile".to_owned(),
        }],
        smoke: Some(SmokeTest {
            what: "wrote and read back records of every codec".to_owned(),
            records: 10_000,
            passed: true,
            difference: None,
        }),
    }
}

fn pgo_artifact() -> Artifact {
    let mut pgo = artifact("pgo", 5_310_000, 2_020_000, 96.1);
    pgo.profile = Some(ProfileProof {
        path: "run/2026-11-20/train/merged.profdata".to_owned(),
        sha256: "9f2c4e7d1a5b3c8e6f0d2b4a7c9e1f3d5b7a9c0e2d4f6a8b1c3e5d7f9a0b2c4d".to_owned(),
        bytes: 2_480_000,
        raw_files: 1,
        raw_bytes: 9_870_000,
        level: "IR".to_owned(),
        functions: 14_822,
        max_count: 91_204_551,
        total_count: 3_801_223_907,
        hot_functions: [
            "hone_broker::validate::object",
            "hone_broker::json::string",
            "ZSTD_compressBlock_fast",
        ]
        .iter()
        .zip([91_204_551, 55_120_034, 31_992_001])
        .map(|(name, max_count)| HotFunction { name: (*name).to_owned(), max_count })
        .collect(),
        hot_functions_of_target: 2,
    });
    pgo.applied = Some(ProfileApplied {
        discarded_functions: 3,
        discarded_count: 41_223,
        discarded_weight: 0.000_011,
        missing_functions: 812,
        messages: vec!["hash mismatch: function control flow change detected".to_owned()],
    });
    pgo
}

fn steps() -> Vec<StepReceipt> {
    let step = |name: &str, took_s: f64, command: Option<&str>, note: &str| StepReceipt {
        step: name.to_owned(),
        took_s,
        command: command.map(str::to_owned),
        note: note.to_owned(),
    };
    vec![
        step("probe-ceiling", 22.4, None, "78 % of the CPU is the target's own user code"),
        step(
            "build-baseline",
            71.3,
            Some("cargo build --release --package hone-broker --bin hone-broker"),
            "4.9 MiB",
        ),
        step(
            "build-instrumented",
            83.0,
            Some(
                "RUSTFLAGS='-Cprofile-generate=run/2026-11-20/raw' cargo build --release --package hone-broker --bin hone-broker",
            ),
            "8.1 MiB",
        ),
        step("train", 41.0, None, "320,000 requests of `train-orders`, 1 raw profile of 9.4 MiB"),
        step(
            "merge",
            0.62,
            Some("llvm-profdata merge -o run/2026-11-20/train/merged.profdata run/2026-11-20/raw"),
            "14,822 functions",
        ),
        step("judge", 401.0, None, "18 pairs, 1 dropped"),
    ]
}

/// An optimisation with two judging workloads, and its windows. Made once, for it takes a second.
pub(crate) fn optimization() -> (Optimization, BTreeMap<String, Window>) {
    static MADE: OnceLock<(Optimization, BTreeMap<String, Window>)> = OnceLock::new();
    MADE.get_or_init(make_optimization).clone()
}

/// What is measured of a Java service only: a baseline, and a variant with a cache.
pub(crate) fn jvm_account() -> JvmAccount {
    let over = |median: f64, ratio: Option<f64>| {
        Some(OverBaseline { median, ratio: ratio.map(|ratio| [ratio, ratio * 0.97, ratio * 1.03]) })
    };
    let starts = |variant: &str, ratio: Option<f64>| JvmStarts {
        variant: variant.to_owned(),
        command: "/opt/jdk/bin/java -Xms1g -Xmx1g -cp libs/kafka.jar kafka.Kafka {data}/server.properties"
            .to_owned(),
        starts: 7,
        ready_s: over(4.08 * ratio.unwrap_or(1.0), ratio),
        ready_cpu_s: over(6.21 * ratio.unwrap_or(1.0), ratio),
        rss_bytes: over(4.12e8, ratio.map(|_| 1.02)),
        cold_cpu_us_per_record: over(410.0 * ratio.unwrap_or(1.0), ratio),
        cold_latency_us_p99: None,
    };
    JvmAccount {
        jdk: "JDK 25.0.3+9-LTS (Eclipse Adoptium)".to_owned(),
        flags: [("UseG1GC", "true"), ("MaxHeapSize", "1073741824")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        starts: vec![starts("baseline", None), starts("aot", Some(0.48))],
        caches: vec![JvmCache {
            variant: "aot".to_owned(),
            kind: "AOT cache with method profiles".to_owned(),
            path: "runs/builds/kafka-jvm/caches/aot.aot".to_owned(),
            bytes: 74_973_184,
            sha256: "5c43519cb36b2615".repeat(4),
            classes: [7_834, 8_334],
            trained_by: vec!["orders".to_owned()],
            written_s: 9.3,
        }],
    }
}

fn make_optimization() -> (Optimization, BTreeMap<String, Window>) {
    let mut windows = BTreeMap::new();
    let mut comparisons =
        vec![comparison("validate", 0.885, &mut windows), comparison("plain", 0.992, &mut windows)];
    comparisons[0].counted = Some(Box::new(counted()));
    let mut training = workload("train-orders");
    training.seed = 11;
    training.record_bytes = 300;
    training.payload = Payload::Json { shape: "orders".to_owned() };
    training.topic_config.insert("hone.validate.schema".to_owned(), "orders-v1".to_owned());
    let optimization = Optimization {
        name: "broker: small validated batches".to_owned(),
        experiment: "examples/broker/hone.toml".to_owned(),
        hone_version: "0.1.0".to_owned(),
        machine: machine(),
        training,
        durability: Durability { acks: 1, storage: "page-cache".to_owned() },
        ceilings: vec![ceiling("validate", 21.3, 0.78), ceiling("plain", 3.48, 0.21)],
        artifacts: vec![artifact("baseline", 5_140_000, 1_910_000, 71.3), pgo_artifact()],
        comparisons,
        steps: steps(),
        started_unix_ms: STARTED_UNIX_MS,
        variants: Vec::new(),
        training_mix: Vec::new(),
        matrix: Vec::new(),
        on_baseline: Vec::new(),
        best: None,
        go: None,
        diagnosis: None,
        jvm: None,
    };
    (optimization, windows)
}

fn ceiling(workload: &str, cpu_us_per_record: f64, user_share: f64) -> Ceiling {
    Ceiling {
        workload: workload.to_owned(),
        cpu_us_per_record,
        user_share,
        words: format!(
            "A build can change at most {:.0} % of the CPU; the rest is the kernel's.",
            user_share * 100.0
        ),
    }
}

fn curve_point(requests_per_s: f64, records_per_batch: u32, held: Option<bool>) -> hone_record::CurvePoint {
    let us = 100.0 + requests_per_s / 50.0;
    let values = [
        (Metric::LatencyP50, us),
        (Metric::LatencyP99, us * 9.0),
        (Metric::CpuPerRecord, 30.0 / f64::from(records_per_batch)),
    ];
    let broke = held == Some(false);
    hone_record::CurvePoint {
        requests_per_s,
        records_per_batch,
        reached_requests_per_s: requests_per_s * 0.99,
        reached_records_per_s: requests_per_s * 0.99 * f64::from(records_per_batch),
        outcome: if broke { Outcome::Saturated { backlog_requests: 900 } } else { Outcome::Steady },
        values: if broke { BTreeMap::new() } else { values.into_iter().collect() },
        held,
        why: broke.then(|| "target was saturated <b>".to_owned()),
        window: "windows/000.json".to_owned(),
    }
}

/// A search that found its interval.
pub(crate) fn capacity() -> hone_record::Capacity {
    let window = window("target", 1, 1.0);
    let points = [(1_000.0, true), (2_000.0, true), (4_000.0, false), (2_828.0, true), (3_364.0, false)];
    hone_record::Capacity {
        variant: "target".to_owned(),
        address: window.address,
        workload: window.workload,
        design: hone_record::CapacityDesign {
            promise: vec!["p99 <= 10.0 ms".to_owned()],
            start_requests_per_s: 1_000.0,
            least_requests_per_s: 300.0,
            most_requests_per_s: 1e6,
            growth: 2.0,
            precision: 1.2,
            confirmations: 1,
            most_windows: 60,
        },
        points: points.map(|(rate, held)| curve_point(rate, 1, Some(held))).to_vec(),
        held_requests_per_s: Some(2_828.0),
        failed_requests_per_s: Some(3_364.0),
        end: hone_record::CapacityEnd::Found,
        machine: machine(),
    }
}

/// A sweep over batch sizes, twice each.
pub(crate) fn curve() -> hone_record::Curve {
    let window = window("target", 1, 1.0);
    let sizes = [10, 1, 100, 1, 100, 10];
    hone_record::Curve {
        variant: "target".to_owned(),
        address: window.address,
        workload: window.workload,
        over: hone_record::CurveOver::RecordsPerBatch,
        points: sizes.map(|size| curve_point(20_000.0 / f64::from(size), size, None)).to_vec(),
        machine: machine(),
    }
}

/// Batches by size.
pub(crate) fn batch_sizes(batches: &[(u64, u64)]) -> hone_record::BatchSizes {
    let mut sizes = hone_record::BatchSizes::default();
    batches.iter().for_each(|(bytes, count)| sizes.add(*bytes, *count));
    sizes
}

/// Cores that are busy in waves, the first ones more than the others.
pub(crate) fn core_use(cores: u32) -> hone_record::CoreUse {
    let percent = |core: u32, second: u64| {
        let wave = 55.0 + 40.0 * (second as f64 / 1.7 + f64::from(core)).sin();
        (wave / (1.0 + 0.4 * f64::from(core))).round() as u8
    };
    hone_record::CoreUse {
        ends_s: (1..=SECONDS).map(|second| second as f64).collect(),
        busy_percent: (0..cores)
            .map(|core| (core, (0..SECONDS).map(|second| percent(core, second)).collect()))
            .collect(),
    }
}

/// Stalls of a window.
pub(crate) fn stalls(waits_ms: &[(u64, u64)]) -> hone_record::Stalls {
    let mut stalls = hone_record::Stalls::default();
    waits_ms.iter().for_each(|(due, end)| stalls.ended(due * 1_000_000, end * 1_000_000));
    stalls
}

/// A window in which everything happened.
pub(crate) fn eventful() -> Window {
    let mut window = window("target", 1, 1.0);
    let requirement = |rule: &str, met: Option<bool>, reason: Option<&str>| hone_record::Requirement {
        rule: rule.to_owned(),
        limit: 3_000.0,
        measured: met.map(|_| 4_200.0),
        unit: "µs".to_owned(),
        met,
        reason: reason.map(str::to_owned),
    };
    window.requirements = vec![
        requirement("p50 < 5.00 ms", Some(true), None),
        requirement("p99 < 3.00 ms", Some(false), None),
        requirement("p99.99 < 3.00 ms", None, Some("too few samples")),
    ];
    let event = |at_s, what: &str| hone_record::Event {
        at_s,
        kind: hone_record::EventKind::LeaderMoved,
        what: what.to_owned(),
    };
    window.facts.stalls = Some(stalls(&[(3_200, 3_900), (6_500, 6_620)]));
    window.events = vec![event(3.2, "partition 0 has another leader <2>"), event(5.0, "connected again")];
    window.end_to_end = Some(hone_record::EndToEnd {
        latency: window.latencies.intended_to_ack.clone(),
        consumers: 2,
        fetched_records: 10,
        fetched_bytes: 1_000,
        missing: 3,
        is_group: false,
        more_groups: 0,
        lag_records_max: 41,
        lag_records_p50: None,
        lag_records_p99: None,
        lag_records_end: None,
        missing_latency: hone_record::Hdr::new(),
        fetches: None,
        catch_up: None,
        rebalances: None,
        transactions: None,
        deliveries: None,
    });
    window.batches = vec![hone_record::TopicBatches {
        topic: "orders".to_owned(),
        source: hone_record::BatchSource::Fetched,
        batches: 10,
        records: 250,
        bytes: 81_920,
        seen_share: 0.5,
        sizes: batch_sizes(&[(700, 2), (3_000, 5), (9_000, 2), (40_000, 1)]),
    }];
    let part = |us_p50| Some(hone_record::Part { us_p50, us_p99: None });
    window.split = Some(hone_record::LatencySplit {
        client_queue: part(12.0),
        network: None,
        broker: part(80.0),
        how: "From the client's statistics.".to_owned(),
    });
    window.environment = Some(hone_record::Environment {
        measured: vec!["hone (process 7)".to_owned()],
        behind: Vec::new(),
        machine: machine(),
        pressure: BTreeMap::from([("cpu".to_owned(), 0.25)]),
        core_use: Some(core_use(2)),
        brokers: BTreeMap::from([(1, "10.0.0.1:9092".to_owned())]),
        cluster_id: Some("cluster-1".to_owned()),
        broker_software: Some("features metadata.version 30".to_owned()),
        broker_config: BTreeMap::from([("num.io.threads".to_owned(), "2".to_owned())]),
        topic_config: BTreeMap::new(),
        replicas: Some(3),
        security: "plaintext".to_owned(),
        unknown: vec!["topic settings: CLUSTER_AUTHORIZATION_FAILED".to_owned()],
        commit: Some("4be1c0de9a".to_owned()),
    });
    window.series.iter_mut().for_each(|point| point.consumer_lag_records = Some(4));
    window
}

/// The changes of the sample run summary: change, workload, how much CPU and latency remain of the state before, decision, prediction.
type Tried = (&'static str, &'static str, f64, &'static str, Option<Expectation>);

const TRIED: [Tried; 6] = [
    ("binary: pgo", "validate", 0.89, "keep", None),
    ("binary: pgo+bolt on pgo", "validate", 0.97, "keep", Some(Expectation::Gain)),
    ("binary: no-jump-tables", "validate", 1.03, "drop", Some(Expectation::Gain)),
    ("client: linger=5ms", "orders", 0.55, "accepted", Some(Expectation::Gain)),
    ("client: linger=50ms, batch-size=256KiB", "orders", 1.0, "rejected", Some(Expectation::Nothing)),
    ("broker: topic.write.caching: existing value -> true", "orders", 0.81, "rejected", None),
];

fn verdict_of(factor: f64) -> Verdict {
    match factor {
        less if less < 0.98 => Verdict::Better,
        more if more > 1.02 => Verdict::Worse,
        _ => Verdict::NotShown,
    }
}

fn tried_entry(place: usize, (change, workload, factor, decision, expected): Tried) -> LedgerEntry {
    let verdict = verdict_of(factor);
    let foretold = expected.map(|expected| Foretold {
        expected,
        rule: "misses of the L1 instruction cache fall by a third; a gain needs a tenth".to_owned(),
        came_true: expected.came_true(verdict),
    });
    LedgerEntry { worse: Default::default(),
        at_unix_ms: 1_795_200_420_000 + place as u64 * 3_600_000,
        who: "ada@builder-3".to_owned(),
        hone: "0.1.0 (0123456789ab)".to_owned(),
        verb: if change.starts_with("binary") { "optimize" } else { "batch prove" }.to_owned(),
        experiment: if workload == "validate" { "broker" } else { "an embedded broker" }.to_owned(),
        change: change.to_owned(),
        question: format!("Does {change} help?"),
        rule: "Primary metric: CPU per record, at 95 %. Better when the interval lies below 1 and no guard metric is worse.".to_owned(),
        workload: workload.to_owned(),
        metric: Some(Metric::CpuPerRecord),
        ratio: Some([factor, factor * 0.98, factor * 1.02]),
        confidence: Some(0.95),
        values: Some([21.3, 21.3 * factor]),
        pairs: Some(8),
        verdict: Some(verdict),
        decision: decision.to_owned(),
        why: format!("CPU per record is {}: {factor:.3} of the state before; the control is silent.", verdict.label()),
        foretold,
        undo: ["keep", "accepted"].contains(&decision).then(|| "use the program of the state before".to_owned()),
        profile_sha256: None,
        run: format!("/srv/runs/broker-{place:03}"),
        records: Vec::new(),
    }
}

/// The windows of a sample chapter, with the names that they have in its run's folder.
pub(crate) fn chapter_windows(place: usize) -> Vec<(String, RecordRole, Window)> {
    let (_, workload_name, factor, ..) = TRIED[place];
    let of = |pair: u64, role: RecordRole| {
        let (factor, letter) = if role == RecordRole::After { (factor, 'b') } else { (1.0, 'a') };
        let seed = place as u64 * 100 + pair * 2 + u64::from(role == RecordRole::After);
        let mut window = window("sample", seed + 1, factor);
        window.workload = workload(workload_name);
        window.facts.socket_bytes =
            Some(hone_record::SocketBytes { sent: (2.5e7 * factor) as u64, received: 100_000 });
        (format!("windows/{pair:03}-{letter}.json"), role, window)
    };
    (0..3).flat_map(|pair| [of(pair, RecordRole::Before), of(pair, RecordRole::After)]).collect()
}

/// What the ledger has of a sample chapter; `sha256` is asked for each of its windows.
pub(crate) fn chapter_entry(place: usize, sha256: impl Fn(&str) -> String) -> LedgerEntry {
    let windows = chapter_windows(place);
    let records = windows.iter().map(|(path, role, _)| RecordRef {
        path: path.clone(),
        sha256: sha256(path),
        role: *role,
    });
    LedgerEntry { records: records.collect(), ..tried_entry(place, TRIED[place]) }
}

/// Sample chapters.
pub(crate) const CHAPTERS: usize = TRIED.len();

/// Three layers and a host's change that was not measured.
pub(crate) fn story() -> Story {
    let measured = (0..CHAPTERS).map(|place| {
        let windows = chapter_windows(place);
        let state = |wanted: RecordRole| {
            let of: Vec<Window> = windows
                .iter()
                .filter(|(_, role, _)| *role == wanted)
                .map(|(.., window)| window.clone())
                .collect();
            BatchState::from_windows(&of)
        };
        Chapter {
            line: Some(place + 1),
            entry: chapter_entry(place, |_| "ab".repeat(32)),
            before: state(RecordRole::Before),
            after: state(RecordRole::After),
            windows: windows
                .iter()
                .map(|(path, role, window)| WindowRow::from_window(path, *role, window))
                .collect(),
        }
    });
    let host = LedgerEntry {
        at_unix_ms: 1_795_290_420_000,
        verb: "host apply".to_owned(),
        change: "host: profile latency".to_owned(),
        decision: "applied".to_owned(),
        why: "/proc/sys/vm/dirty_ratio = 10; for 600 s, unless confirmed".to_owned(),
        undo: Some("hone host rollback".to_owned()),
        ..LedgerEntry::default()
    };
    let (optimization, _) = optimization();
    Story {
        title: "broker".to_owned(),
        source: "runs/ledger.jsonl".to_owned(),
        ceilings: optimization.ceilings.clone(),
        chapters: measured.chain([Chapter { entry: host, ..Chapter::default() }]).collect(),
        machines: vec![optimization.machine.clone()],
        heads: vec!["cd".repeat(32)],
        ..Story::default()
    }
}

/// Steps of the sample tuning: change, layer, how much CPU remains, expected gain, why, decision.
const STEPS: [(&str, Altitude, f64, f64, &str, Decision); 5] = [
    ("linger=100ms", Altitude::Client, 0.55, 0.6, "one record a request <each>", Decision::Accepted),
    ("build pgo", Altitude::Binary, 0.9, 0.07, "its profile", Decision::Accepted),
    (
        "topic.compression.type=producer",
        Altitude::Broker,
        1.0,
        0.2,
        "the broker recompresses",
        Decision::Rejected,
    ),
    ("client.batch.num.messages=1", Altitude::Client, 1.4, 0.05, "the file asks for it", Decision::Rejected),
    ("host.vm.swappiness=1", Altitude::Host, 1.0, 0.05, "the file asks for it", Decision::Rejected),
];

fn tried_step(
    change: &str,
    factor: f64,
    decision: Decision,
    prefix: &str,
    windows: &mut BTreeMap<String, Window>,
) -> ProofStep {
    let mut comparison = comparison(prefix, factor, windows);
    (comparison.a, comparison.b) = ("kept".to_owned(), change.to_owned());
    let verdict = verdict_of(factor);
    comparison.judgements[0].verdict = verdict;
    let mut states = [Vec::new(), Vec::new()];
    for (name, role) in comparison.counted_windows() {
        let mut window = windows[name].clone();
        let sent = if role == RecordRole::After { 2.5e7 * factor } else { 2.5e7 };
        window.facts.socket_bytes = Some(hone_record::SocketBytes { sent: sent as u64, received: 100_000 });
        states[usize::from(role == RecordRole::After)].push(window);
    }
    let [before, after] = states.map(|windows| BatchState::from_windows(&windows));
    ProofStep {
        change: change.to_owned(),
        words: vec![format!("{change}: existing value -> <so>")],
        decision,
        why: format!("CPU per record is {}; no guard metric broke.", verdict.label()),
        promise: None,
        guards: Vec::new(),
        comparison: Some(comparison),
        before,
        after,
        foretold: None,
    }
}

/// A tuning over four layers with its windows. Two changes are kept, and one of them is not reconfirmed.
pub(crate) fn tuning() -> (Tuning, BTreeMap<String, Window>) {
    let mut windows = BTreeMap::new();
    let steps = STEPS.iter().enumerate().map(|(index, (change, altitude, factor, share, why, decision))| {
        TuningStep {
            altitude: *altitude,
            hope: Hope::new(*share, *why),
            passed_over: Vec::new(),
            step: tried_step(change, *factor, *decision, &format!("step-{index}"), &mut windows),
        }
    });
    let steps: Vec<TuningStep> = steps.collect();
    let without = vec![
        tried_step("linger=100ms", 0.58, Decision::Accepted, "without-1", &mut windows),
        tried_step("build pgo", 1.0, Decision::Rejected, "without-2", &mut windows),
    ];
    let all = tried_step("all together", 0.5, Decision::Accepted, "all", &mut windows);
    let (optimization, _) = optimization();
    let first =
        BatchState { batches: 40_000, batch_records: 40_000, batch_bytes: 16_000_000, ..all.before.clone() };
    let tuning = Tuning {
        core_price: Some(hone_record::CorePrice {
            per_month: 29.4,
            currency: "USD".to_owned(),
            source: "a <list>, 2025-06".to_owned(),
        }),
        name: "orders".to_owned(),
        target: "hone broker --listen 127.0.0.1:{port}".to_owned(),
        load: "2,000 records/s of 300 bytes by 16 producers to 4 partitions".to_owned(),
        workload: workload("orders"),
        workload_kept: workload("orders"),
        objective: Metric::CpuPerRecord,
        durability: optimization.durability.clone(),
        rule: "A change is kept when the comparator calls it better and no guard metric breaks.".to_owned(),
        allowed: Altitude::ALL.to_vec(),
        budget_s: Some(3_600.0),
        took_s: 1_980.0,
        first,
        steps,
        kept: vec!["linger=100ms".to_owned(), "build pgo".to_owned()],
        together: Some(Together { all: Some(all), product: Some(0.58), without, put_back: Vec::new() }),
        stopped: "nothing is left that is expected to help".to_owned(),
        to_keep: vec!["client: hone batch settings --linger 100ms <all producers>".to_owned()],
        limits: vec!["What is not found here may still help.".to_owned()],
        machine: optimization.machine.clone(),
        software: BTreeMap::new(),
    };
    (tuning, windows)
}

/// A load that makes other batches than its topic has.
pub(crate) fn replica() -> Replica {
    let today = TopicFigures {
        records_per_s: 2_000.0,
        bytes_per_s: 500_000.0,
        batches_per_s: 200.0,
        producers: 3,
        may_be_more: true,
    };
    let here = TopicFigures { records_per_s: 1_990.0, batches_per_s: 150.0, may_be_more: false, ..today };
    Replica { topic: "orders".to_owned(), today, here, reasons: vec!["A reason.".to_owned()] }
}

/// A map of a program before and after its code was packed.
pub(crate) fn heatmap() -> Heatmap {
    let side = |begin: u64, pages: u64, step: u64| {
        let lines = 64 * pages;
        let share = |index: u64| 0.5_f64.powi(1 + (index % 12) as i32) / lines as f64;
        let line = |index: u64| HeatLine {
            address: begin + 64 * step * index,
            share: share(index),
            used: 0xffff,
            source: None,
        };
        let page = |index: u64| HeatPage {
            address: begin + 4096 * step * index,
            share: 1.0 / pages as f64,
            lines: (64 / step) as u32,
            bytes_used: 2048,
        };
        let function = |index: usize| HeatFunction {
            name: format!("broker::handle_<{index}>"),
            begin: begin + 64 * index as u64,
            bytes: 64,
            share: 0.4 / (index + 1) as f64,
            rank: index as u64 + 1,
        };
        HeatSource {
            title: "the orders load".to_owned(),
            evidence: Evidence::Simulated,
            instructions: 1_000_000,
            object: Some("/bin/hone-broker".to_owned()),
            build_id: None,
            share: 0.93,
            others: Vec::new(),
            sections: vec![HeatSection {
                name: ".text".to_owned(),
                begin,
                bytes: 4096 * pages * step,
                share: 1.0,
                lines,
            }],
            pages: (0..pages).map(page).collect(),
            lines: (0..lines).map(line).collect(),
            functions: (0..9).map(function).collect(),
            blocks: Vec::new(),
            files: Vec::new(),
            curves: [64, 4096]
                .map(|unit_bytes| HeatCurve {
                    unit_bytes,
                    points: (0..=6)
                        .map(|power| HeatPoint { units: 1 << power, share: f64::from(power) / 6.0 })
                        .collect(),
                })
                .into(),
            marks: vec![HeatMark {
                structure: "L1i 32 KiB 8-way".to_owned(),
                unit_bytes: 64,
                units: 512,
                share: 0.25,
            }],
            sets: vec![HeatSet { lines: 9, share: 1.0 / 64.0 }; 64],
            ways: 8,
            cut: Vec::new(),
        }
    };
    Heatmap {
        sides: vec![side(0x1000, 40, 4), side(0x40_0000, 12, 1)],
        notes: vec!["a note & more".to_owned()],
    }
}

/// Code that ran, by what it missed.
pub(crate) fn layout(misses: [f64; 3], taken: f64, pages: u64) -> CodeLayout {
    let names = ["L1i 32 KiB 8-way", "L1i 64 KiB 16-way", "iTLB 64 x 4 KiB"];
    let missed = |(name, per_1000): (&str, f64)| Missed { structure: name.to_owned(), per_1000 };
    CodeLayout {
        instructions: 1_000_000,
        footprints: vec![
            Footprint { unit_bytes: 64, units: [20, 214, 666, 1_842] },
            Footprint { unit_bytes: 4_096, units: [5, 40, pages, pages + 20] },
        ],
        bytes_used_of_a_line: 38.6,
        taken_per_1000: Some(taken),
        ext_tsp: None,
        lines_fetched_per_1000: None,
        misses: names.into_iter().zip(misses).map(missed).collect(),
        crowded_sets: 3,
        repeated_share: 0.0,
        objects: Vec::new(),
    }
}

/// Why the sample service stalls.
pub(crate) fn diagnosis() -> Diagnosis {
    let verdict = LayoutVerdict {
        likelihood: Likelihood::Likely,
        rule: "pressure on instruction fetch: 12.5 misses of a 32 KiB L1i".to_owned(),
        source: "BOLT's documentation".to_owned(),
        ceiling_percent: Some(64.0),
        next: Remedy::Layout,
    };
    let part = |scope: &str, verdict| Diagnosed {
        layout: Some(layout([12.5, 3.25, 2.0], 124.0, 61)),
        verdict,
        ..Diagnosed::empty(Some(scope.to_owned()))
    };
    Diagnosis {
        evidence: Evidence::Simulated,
        source: "baseline, 100,000 requests of workload `train`".to_owned(),
        user_share: Some(0.64),
        parts: vec![part("reactor-0 (91 %)", Some(verdict)), part("all threads", None)],
        shifts: Vec::new(),
        watched: None,
        notes: vec!["libc.so.6 has no symbols".to_owned()],
    }
}

/// Threads and samples of a virtual machine.
pub(crate) fn watched_jvm() -> Diagnosis {
    let thread = |name: &str, tid, cpu_s, generated, unknown| hone_record::WatchedThread {
        name: name.to_owned(),
        tid,
        threads: 1,
        cpu_s: Some(cpu_s),
        system_s: Some(cpu_s / 4.0),
        samples: Some(hone_record::CodeSplit { generated, unknown, ..Default::default() }),
        ..Default::default()
    };
    let watched = hone_record::Watched {
        pid: Some(4711),
        program: Some("/usr/lib/jvm/java".to_owned()),
        window_s: 10.0,
        samples: Some(hone_record::CodeSplit { generated: 900, unknown: 12, ..Default::default() }),
        groups: vec![thread("application", None, 8.3, 800, 2), thread("collector", None, 1.1, 0, 10)],
        threads: vec![
            thread("kafka-io-0", Some(4801), 5.0, 500, 1),
            thread("kafka-io-1", Some(4802), 3.3, 300, 1),
        ],
        functions: vec![hone_record::WatchedFunction { name: "kafka.log.append".to_owned(), share: 0.31 }],
        next: "compare collectors".to_owned(),
        ..Default::default()
    };
    Diagnosis {
        evidence: Evidence::Sampled,
        source: "process 4711".to_owned(),
        user_share: None,
        parts: Vec::new(),
        shifts: Vec::new(),
        watched: Some(watched),
        notes: Vec::new(),
    }
}

/// Pipeline slots of the sample service before and after a build with a profile, as a vendor published them.
pub(crate) fn diagnosis_of_two() -> Diagnosis {
    use hone_record::Category::{BackendBound, BadSpeculation, FetchLatency, FrontendBound, Retiring};
    let both = [
        (FrontendBound, [51.0, 37.9]),
        (BadSpeculation, [10.3, 9.5]),
        (BackendBound, [7.8, 16.0]),
        (Retiring, [30.9, 36.6]),
        (FetchLatency, [40.2, 21.0]),
    ];
    let part = |side: usize| Diagnosed {
        slots: Some(hone_record::Slots {
            scope: None,
            pmu: None,
            percent: both.iter().map(|(category, shares)| (*category, shares[side])).collect(),
            running_percent: Some(98.0),
            intervals: 20,
            notes: Vec::new(),
        }),
        ..Diagnosed::empty(None)
    };
    Diagnosis {
        evidence: Evidence::Measured,
        source: "before.csv and after.csv".to_owned(),
        parts: vec![part(0), part(1)],
        shifts: vec![hone_record::Shift { before: None, after: None, percent: both.into() }],
        notes: Vec::new(),
        ..diagnosis()
    }
}

/// Two topics of a cluster: one with small batches, one that was only read in part.
pub(crate) fn xray() -> hone_record::BatchXray {
    use hone_record::{
        BatchFinding, BatchTrigger, BatchVerdict, CodecUse, ProducerXray, Sampled, Spread, XrayRead,
    };
    let producer = ProducerXray {
        id: Some(4_001),
        batches: 9_000,
        records: 27_000,
        bytes: 9_216_000,
        partitions: 6,
        triggers: vec![(BatchTrigger::Time, 0.93), (BatchTrigger::Alone, 0.07)],
        cap: Some(hone_record::BatchCap::Bytes(16_384)),
        linger_ms: Some(5),
        records_per_s_per_partition: Some(50.0),
        evidence: Vec::new(),
    };
    let orders = hone_record::TopicXray {
        topic: "orders <eu>".to_owned(),
        partitions: 6,
        read: XrayRead { times_ms: Some((0, 90_000)), bytes: 10_000_000, share: 1.0, slots: None },
        batches: 9_100,
        records: 27_300,
        bytes: 9_300_000,
        batches_per_s: Some(101.0),
        records_per_s: Some(303.0),
        mean_bytes: Some(Sampled { value: 1_022.0, interval: None }),
        mean_records: Some(Sampled { value: 3.0, interval: None }),
        size_bytes: Some(Spread { least: 180, p10: 420, p50: 900, p90: 2_100, p99: 6_000, most: 15_900 }),
        sizes: batch_sizes(&[
            (200, 400),
            (450, 1_900),
            (700, 2_800),
            (1_100, 2_300),
            (1_600, 900),
            (2_500, 500),
            (5_000, 250),
            (15_000, 50),
        ]),
        small_batches: 9_100,
        small_bytes: 9_300_000,
        needless_batches: 8_530.0,
        pages: 4.1,
        header_share: 0.06,
        codecs: vec![CodecUse { codec: "zstd".to_owned(), share: 1.0, ratio: Some(2.4) }],
        producers: vec![producer],
        findings: vec![BatchFinding {
            verdict: BatchVerdict::LingerBound,
            share: 0.93,
            producer: Some(4_001),
            evidence: "batches end after 5 ms with 3 records".to_owned(),
            action: "set linger to 60 ms: 84.0 % fewer batches, of 6.30 KiB each".to_owned(),
            rule: "a linger that expires before the batch is full".to_owned(),
        }],
        ..hone_record::TopicXray::default()
    };
    let clicks = hone_record::TopicXray {
        topic: "clicks".to_owned(),
        partitions: 48,
        read: XrayRead { times_ms: None, bytes: 268_435_456, share: 0.12, slots: Some(64) },
        batches: 12_000,
        records: 900_000,
        bytes: 260_000_000,
        batches_per_s: Some(900.0),
        records_per_s: Some(67_500.0),
        mean_bytes: Some(Sampled { value: 21_600.0, interval: Some((20_100.0, 23_100.0)) }),
        size_bytes: Some(Spread {
            least: 700,
            p10: 9_000,
            p50: 16_300,
            p90: 48_000,
            p99: 64_000,
            most: 66_000,
        }),
        findings: vec![BatchFinding {
            verdict: BatchVerdict::Healthy,
            share: 1.0,
            producer: None,
            evidence: "the mean batch has 21.1 KiB".to_owned(),
            action: String::new(),
            rule: String::new(),
        }],
        ..hone_record::TopicXray::default()
    };
    hone_record::BatchXray {
        source: "broker-1:9092".to_owned(),
        topics: vec![orders, clicks],
        notes: vec!["one topic was not readable".to_owned()],
    }
}
