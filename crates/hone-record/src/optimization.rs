//! A target taken through profile-guided optimisation.

use serde::{Deserialize, Serialize};

use crate::artifact::Artifact;
use crate::comparison::{Comparison, Judgement, Verdict};
use crate::diagnosis::Diagnosis;
use crate::foretelling::Foretelling;
use crate::go::GoAccount;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::window::Durability;
use crate::workload::Workload;

/// A saving of more than this is looked into before it is believed: public measurements of whole services have 5 to 30 % by PGO,
/// 0 to 5 % more by BOLT, and 2 to 7 % of Go programs.
const LIKELY_MOST: f64 = 0.40;

/// How much a build could bring at most: the share of the target's CPU that is user code, libraries with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The workload it was probed with.
    pub workload: String,
    /// CPU per record during the probe, in microseconds.
    pub cpu_us_per_record: f64,
    /// User share of the CPU, 0 to 1. The kernel's share can't be changed by a build of the target.
    pub user_share: f64,
    /// What follows, in words.
    pub words: String,
}

/// One finished step of an optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReceipt {
    /// The step's name, for example `build-baseline`.
    pub step: String,
    /// Wall time.
    pub took_s: f64,
    /// The command, when the step was one.
    pub command: Option<String>,
    /// What came of it, in words.
    pub note: String,
}

/// What became of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariantState {
    /// It was made, proven and checked.
    Made,
    /// It was not, and nothing of it was measured.
    LeftOut {
        /// What was refused or failed.
        why: String,
    },
}

/// What BOLT did for a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewriting {
    /// The profile that BOLT took, in words: `counts`, `branch records`, `samples of the clock`, what a file held. Empty in older
    /// records.
    #[serde(default)]
    pub profile: String,
    /// How much it was allowed: `full`, `without-split-eh`, `without-jump-tables` or `layout-only`.
    pub rung: String,
    /// What was tried before and did not work, with the reason.
    pub given_up: Vec<String>,
    /// Functions that were left alone.
    pub skipped: Vec<String>,
    /// Those of them that were found by search: with any one of them the program breaks.
    pub culprits: Vec<String>,
    /// Programs that the search has built.
    pub search_builds: u32,
    /// Functions with a profile, and all functions.
    pub profiled_functions: Option<[u64; 2]>,
    /// Functions whose blocks were laid out anew.
    pub layout_modified: Option<u64>,
    /// Functions with a profile that could not be optimised: they run from their old place, however hot they are.
    #[serde(default)]
    pub not_optimized: u64,
    /// How many times as many samples BOLT would like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants_more_samples: Option<f64>,
    /// Share of the profile's counts in functions whose code has changed, 0 to 1.
    pub stale_share: f64,
    /// Folder with what a report about the breakage needs.
    pub bundle: Option<String>,
}

impl Rewriting {
    /// What of the profile it could not turn into a layout, in words; none where all is well.
    pub fn shortfalls(&self) -> Vec<String> {
        let functions = if self.not_optimized == 1 { "function" } else { "functions" };
        let left = (self.not_optimized > 0).then(|| {
            format!(
                "{} {functions} with a profile could not be optimised and run from their old place (hoisted switch tables do that: \
                 try -fno-jump-tables)",
                self.not_optimized
            )
        });
        let few = self.wants_more_samples.map(|times| format!("BOLT asks for {times} times as many samples"));
        left.into_iter().chain(few).collect()
    }
}

/// What a variant costs beside what it saves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Harm {
    /// Size of the file.
    pub file_bytes: u64,
    /// Bytes of the file in loaded segments; `None` in records of before they were counted.
    #[serde(default)]
    pub loaded_bytes: Option<u64>,
    /// Size of all sections of code.
    pub text_bytes: u64,
    /// What of it is the old code that BOLT keeps beside the new one.
    #[serde(default)]
    pub old_text_bytes: u64,
    /// Most memory that was resident under the first judging workload, of all its processes together, in bytes.
    pub rss_bytes: Option<f64>,
    /// Most memory that goroutine stacks took under the first judging workload, in bytes; of Go programs that tell it.
    #[serde(default)]
    pub stack_bytes: Option<f64>,
    /// From the start until it was ready, in seconds; median over the starts.
    pub start_up_s: Option<f64>,
    /// Starts that the start-up is from.
    pub starts: u32,
    /// Start-ups are known to so many seconds: the time between two looks.
    #[serde(default)]
    pub start_up_step_s: f64,
    /// Guard rails that it broke, in words.
    pub broken: Vec<String>,
    /// Guard rails that nothing was measured for.
    #[serde(default)]
    pub not_measured: Vec<String>,
}

/// One of several builds of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaidOut {
    /// Its name, which the windows of its pairs bear; that of the first is the variant's.
    pub name: String,
    /// What placed its functions; `None` for the first, which is as its makers link it.
    pub link_seed: Option<u64>,
    /// SHA-256 of the program, hex.
    pub sha256: String,
}

impl LaidOut {
    /// What placed its functions, in words.
    pub fn places(&self) -> String {
        self.link_seed.map_or_else(|| "as its makers link it".to_owned(), |seed| format!("by seed {seed}"))
    }
}

/// One variant in the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantFacts {
    /// Its name.
    pub name: String,
    /// The one that it was held against; `None` for the baseline.
    pub parent: Option<String>,
    /// Whether it was asked for; the others are only what somebody else builds on.
    pub judged: bool,
    /// What became of it.
    pub state: VariantState,
    /// What BOLT did.
    pub rewriting: Option<Rewriting>,
    /// What was said of its layout before anything of it was measured, where it is another layout of the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretelling: Option<Foretelling>,
    /// What it costs.
    pub harm: Option<Harm>,
    /// `keep` or `drop`; empty for the baseline and what was not judged.
    pub decision: String,
    /// Why.
    pub why: String,
    /// Its builds in the order in which [`crate::Design::blocks`] numbers them; empty where it is one.
    #[serde(default)]
    pub builds: Vec<LaidOut>,
}

impl VariantFacts {
    /// One that was made and is judged, of which nothing else is known yet.
    pub fn made(name: &str, parent: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            parent: parent.map(str::to_owned),
            judged: true,
            state: VariantState::Made,
            rewriting: None,
            foretelling: None,
            harm: None,
            decision: String::new(),
            why: String::new(),
            builds: Vec::new(),
        }
    }
}

/// A workload that trained beside the first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightedTraining {
    /// The load.
    pub workload: Workload,
    /// Its counts went into the profile times this.
    pub weight: f64,
}

/// One training mix under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// The workload that judged.
    pub workload: String,
    /// Ratio to the baseline with its interval; `None` when nothing could be estimated.
    pub ratio: Option<[f64; 3]>,
    /// What was found.
    pub verdict: Verdict,
    /// Whether this very load trained.
    pub own: bool,
}

/// One training mix under all workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The variant.
    pub variant: String,
    /// The workloads that trained it.
    pub trained_with: Vec<String>,
    /// One for each workload that judged.
    pub cells: Vec<MatrixCell>,
    /// Whether no other mix is at least as good under every workload and better under one.
    pub on_front: bool,
}

/// A target taken through profile-guided optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Optimization {
    /// Name of the experiment.
    pub name: String,
    /// Path of the experiment file as it was given.
    pub experiment: String,
    /// Version of Hone.
    pub hone_version: String,
    /// Where it ran.
    pub machine: Machine,
    /// The load that trained the profile.
    pub training: Workload,
    /// What an acknowledgement promised while judging.
    pub durability: Durability,
    /// Before anything was built with a profile.
    pub ceilings: Vec<Ceiling>,
    /// Baseline first.
    pub artifacts: Vec<Artifact>,
    /// One for each judging workload of each edge of the tree of variants: first all of the first edge, the primary workload first.
    pub comparisons: Vec<Comparison>,
    /// Every step with its time.
    pub steps: Vec<StepReceipt>,
    /// Wall-clock start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The tree of variants, baseline first. Empty in records from before there was one.
    #[serde(default)]
    pub variants: Vec<VariantFacts>,
    /// All that trained, with their weights, where it was more than one workload.
    #[serde(default)]
    pub training_mix: Vec<WeightedTraining>,
    /// Training mixes held against each other; empty unless asked for.
    #[serde(default)]
    pub matrix: Vec<MatrixRow>,
    /// Variants that build on another one, held against the baseline itself in the same rounds; empty where pairs were measured.
    #[serde(default)]
    pub on_baseline: Vec<Comparison>,
    /// The variant that is best by measurement; `None` when none beats the baseline, and in older records.
    #[serde(default)]
    pub best: Option<String>,
    /// What is told of a Go program beside its variants; `None` of others.
    #[serde(default)]
    pub go: Option<GoAccount>,
    /// Why the baseline's CPU stalls, where it was diagnosed before anything else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
}

/// A metric of all variants beside the baseline, under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineRow<'a> {
    /// The workload.
    pub workload: &'a str,
    /// The metric, in the words of its load.
    pub label: &'static str,
    /// For each variant of [`Optimization::beside_baseline`]; `None` where it was not estimated.
    pub cells: Vec<Option<&'a Judgement>>,
}

impl Optimization {
    /// The variants that were compared with the baseline itself, and a row for the primary metric, p50, p99 and p99.9 under each workload. Nothing
    /// if every variant was compared only with the one that it builds on.
    pub fn beside_baseline(&self) -> (Vec<&str>, Vec<BaselineRow<'_>>) {
        let Some(baseline) = self.on_baseline.first().map(|direct| direct.a.as_str()) else {
            return (Vec::new(), Vec::new());
        };
        let direct = || self.comparisons.iter().chain(&self.on_baseline).filter(move |one| one.a == baseline);
        let is_there = |name: &&str| direct().any(|one| one.b == *name);
        let names: Vec<&str> =
            self.variants.iter().map(|variant| variant.name.as_str()).filter(is_there).collect();
        let mut rows: Vec<BaselineRow<'_>> = Vec::new();
        for judged in direct() {
            let workload = judged.workload.name.as_str();
            if rows.iter().any(|row| row.workload == workload) {
                continue;
            }
            let of = |name: &str| direct().find(|one| one.b == name && one.workload.name == workload);
            let row = |metric: Metric| BaselineRow {
                workload,
                label: judged.label(metric),
                cells: names
                    .iter()
                    .map(|name| of(name)?.judgements.iter().find(|found| found.estimate.metric == metric))
                    .collect(),
            };
            let primary = judged.design.rule.primary;
            let others = [Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyP999];
            rows.extend(
                std::iter::once(primary).chain(others.into_iter().filter(|one| *one != primary)).map(row),
            );
        }
        rows.retain(|row| row.cells.iter().any(Option::is_some));
        (names, rows)
    }

    /// What profiles took beside the builds themselves, in words: people pay it with each new one.
    pub fn making_of_profiles(&self) -> Option<String> {
        const BUILDS: [&str; 3] = ["build-instrumented", "build-cs-instrumented", "build-traceable"];
        let is_of_a_profile = |step: &&StepReceipt| {
            let name = step.step.as_str();
            name.starts_with("train") || name.starts_with("prove-profile") || BUILDS.contains(&name)
        };
        let steps: Vec<&StepReceipt> = self.steps.iter().filter(is_of_a_profile).collect();
        let all_s: f64 = steps.iter().map(|step| step.took_s).sum();
        let parts: Vec<String> =
            steps.iter().map(|step| format!("{} {:.1} s", step.step, step.took_s)).collect();
        (!parts.is_empty()).then(|| {
            format!("Making the profiles took {all_s:.1} s beside these builds: {}", parts.join(", "))
        })
    }

    /// Savings that code alone can hardly explain, by the end of their interval that says least.
    pub fn doubts(&self) -> Vec<String> {
        self.comparisons.iter().filter_map(|judged| self.doubt(judged)).collect()
    }

    fn doubt(&self, judged: &Comparison) -> Option<String> {
        let cpu = judged.judgements.iter().find(|of| of.estimate.metric == Metric::CpuPerRecord)?;
        let high = Some(cpu.estimate.high).filter(|high| high.is_finite() && *high > 0.0)?;
        let saved = 1.0 - high;
        let ceiling = self.ceilings.iter().find(|ceiling| ceiling.workload == judged.workload.name);
        let why = match ceiling.map(|ceiling| ceiling.user_share) {
            Some(share) if (0.0..=1.0).contains(&share) && saved > share => {
                format!("all of its user code was {:.0} % of the CPU", 100.0 * share)
            }
            _ if saved > LIKELY_MOST => {
                "by public measurements, PGO and BOLT bring up to about a third".to_owned()
            }
            _ => return None,
        };
        Some(format!(
            "{} saves at least {:.0} % under {}, and {why}: look for what else differs (flags, libraries, what is served) before you \
             believe it",
            judged.b,
            100.0 * saved,
            judged.workload.name
        ))
    }

    /// How long what was found holds, in words: no compiler tells when it does no more. `None` where nothing with a profile is kept.
    pub fn ageing(&self) -> Option<String> {
        let best = self.artifacts.iter().find(|artifact| Some(&artifact.variant) == self.best.as_ref())?;
        let profile = best.profile.as_ref()?;
        Some(format!(
            "The profile ages with the sources: with each release `hone profile check {} BUILD` says how much of it the BUILD still takes \
             (of clang and rustc an instrumented one). From 10 % lost on, make it anew.",
            profile.path
        ))
    }
}
