//! The nouns of Hone and their versioned files.
//!
//! All data that passes between two rooms or reaches the disk is a type of this crate: a [`Machine`], an [`Artifact`] with the receipts of
//! the tools that made it, a measured [`Window`], a [`Comparison`] with its [`Judgement`]s, an [`Optimization`]. The types are plain data:
//! they use no process, no file and no clock. [`Envelope`] is the file format: one JSON object with a version and a kind.
//!
//! Units stand last in a name (`duration_s`, `text_bytes`, `latency_us_p99`); a ratio has none.

mod artifact;
mod batch_plan;
mod batch_sizes;
mod batch_watch;
mod batches;
mod capacity;
mod commit_gate;
mod comparison;
mod counted;
mod diagnosis;
mod durability;
mod envelope;
mod foretelling;
mod go;
mod group;
mod heatmap;
mod hgrm;
mod histogram;
mod host_trial;
mod index;
mod jvm;
mod ledger;
mod machine;
mod median;
mod merge;
mod metric;
mod more_pairs;
mod optimization;
mod outage;
mod proof;
mod ramp_search;
mod reading;
mod replica;
mod requirement;
mod resources;
mod run_summary;
mod saved;
mod selftest;
mod stall;
mod student;
mod symbol;
mod tail;
mod tuned;
mod tuning;
mod watched;
mod whatif;
mod window;
mod workload;

pub use artifact::{Artifact, CodeInside, HotFunction, ProfileApplied, ProfileProof, SmokeTest, ToolReceipt};
pub use batch_plan::{
    BatchPlan, PlanAnswer, PlanAssumption, PlannedClusters, PlannedResource, PlannedTopic, PlannedWork,
};
pub use batch_sizes::BatchSizes;
pub use batch_watch::{
    BatchCost, BatchWatch, CostForecast, CostInterval, Figure, NotExported, TopicCost, WatchedClient,
    WatchedGroup, WatchedInstance, WatchedLatency, WatchedPercentile, WatchedQueue, WatchedShard,
    WatchedTopic, WorkCost, WorkTogether,
};
pub use batches::{
    BatchCap, BatchFinding, BatchTrigger, BatchVerdict, BatchXray, CodecUse, KeyUse, PartitionXray,
    ProducerXray, Sampled, Spread, TopicXray, XrayRead,
};
pub use capacity::{Capacity, CapacityDesign, CapacityEnd, Curve, CurveOver, CurvePoint};
pub use commit_gate::{
    Bisection, CommitBuild, CommitGate, GateEvidence, GateFinding, GateOutcome, GateState, TriedCommit,
    TriedState,
};
pub use comparison::{
    Budget, BuildSpread, Change, Comparison, Design, Disturbance, Estimate, Judgement, LeaningTroubles,
    MORE_FAILURES, Mode, OneLayout, PairKind, PairOutcome, Pilot, Promise, Rule, Verdict, control_arm,
};
pub use counted::{CodeChange, CodeFrame, Counted, CountedMisses, Counts};
pub use diagnosis::{
    Category, CodeLayout, CounterMisses, Diagnosed, Diagnosis, Evidence, Footprint, LayoutVerdict,
    Likelihood, Missed, ObjectShare, Remedy, Shift, Slots,
};
pub use durability::{refused_for_loads, unlike_promises};
pub use envelope::{Body, Envelope, FORMAT_VERSION, RecordError};
pub use foretelling::{Expectation, Foretelling, Foretold};
pub use go::{GoAccount, GoBenchmark, GoBenchmarks, HotSpot, HotSpots};
pub use group::{GroupMember, GroupNow, ListedGroup, Position, TopicPartition};
pub use heatmap::{
    HEAT_DECADES, HEAT_LINE_BYTES, HEAT_PAGE_BYTES, HeatBlock, HeatCurve, HeatFunction, HeatLine, HeatMark,
    HeatPage, HeatPlace, HeatPoint, HeatSection, HeatSet, HeatSource, Heatmap, heat_of, joined_name,
};
pub use histogram::{
    Hdr, HdrError, LATENCY_HIGH_NS, LATENCY_LOW_NS, PackedHdr, SAMPLES_BEYOND, percentile, samples_for,
};
pub use host_trial::{HostTrial, StallCounts, StallVerdict, TriedKnob, TriedSetting, UntriedKnob};
pub use index::{
    BROKEN, ChangePoint, FieldDifference, History, HistoryLine, HistoryNote, HistoryOver, HistoryPoint,
    HistoryTrend, LineState, Measure, MetricHistory, MetricLine, RunPairs, RunProgress, RunStage, RunState,
    ShelfFilter, ShelfLedger, ShelfOutcome, ShelfPage, ShelfRecord, ShelfRun, ShelfWindow, SideBySide,
};
pub use jvm::{JvmAccount, JvmCache, JvmStarts, OverBaseline};
pub use ledger::{
    ALL_TOGETHER, ALTITUDES, HARMS_OTHERS, LedgerEntry, NOT_SHOWN_AGAIN, RecordRef, RecordRole, STILL_HELPS,
};
pub use machine::{Machine, PmuState};
pub use median::median;
pub use merge::{MOST_SHARDS, MergeError, merge};
pub use metric::Metric;
pub use more_pairs::{Continuation, Effect, Look};
pub use optimization::{
    BaselineRow, Ceiling, Harm, LaidOut, MatrixCell, MatrixRow, Optimization, Rewriting, StepReceipt,
    VariantFacts, VariantState, WeightedTraining,
};
pub use outage::{Fault, Gap, Outage, Recovery};
pub use proof::{BatchForetold, BatchState, BatchesBefore, Decision, FigureOutcome, Guard, Proof, ProofStep};
pub use ramp_search::{Climb, ClimbStep, Reading, STEPS_BEYOND, Slo};
pub use reading::{CatchUp, Deliveries, Fetches, Rebalances, Transactions};
pub use replica::{Replica, ReplicaDifference, TopicFigures};
pub use requirement::Requirement;
pub use resources::{CoreUse, MemoryCounted, TargetBusy, TargetMemory, Throttling, WarmUp, WarmUpEnd};
pub use run_summary::{Chapter, Fate, Fates, STORY_QUANTILES, Story, WindowRow};
pub use saved::{SavedComparison, SavedEstimate, SavedFinding, SavedSide};
pub use selftest::{SelfCheck, SelfTest};
pub use stall::{STALL_FROM_MS, Stall, Stalls};
pub use student::{ln_gamma, t_quantile};
pub use symbol::{demangled, demangled_all, without_hash};
pub use tail::{SlowRequest, StallKind, TailAccount, TailCause, TailWatch};
pub use tuned::{CorePrice, SavedFigure, Saving, Tuned, TunedChange};
pub use tuning::{Altitude, Hope, PutBack, Together, Tuning, TuningStep};
pub use watched::{CodeSplit, Watched, WatchedFunction, WatchedThread};
pub use whatif::{
    AdvisedEffect, BatchAdvice, BatchFigures, CheapestSetting, ClientSettings, Foreseen, ForeseenBatches,
    ReplayMisfit, ReplayedProducer, SentBy, WhatIf,
};
pub use window::{
    AnswerTimes, BUSY_OF_TARGET, BatchSource, Bounds, CPU_OF_TARGET, ClientFacts, CpuSeconds, Durability,
    EndToEnd, Environment, Event, EventKind, Latencies, LatencySplit, Outcome, Part, SeriesPoint, Shard,
    SocketBytes, TopicBatches, Window, WindowFacts,
};
pub use workload::{
    Engine, FetchLimits, GroupProtocol, Keys, Payload, Processing, ReadFrom, Recording, Schedule, Sizes,
    TopicShares, Workload,
};
