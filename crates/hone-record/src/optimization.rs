//! A target taken through profile-guided optimisation.

use serde::{Deserialize, Serialize};

use crate::artifact::Artifact;
use crate::comparison::{Comparison, Judgement, Verdict};
use crate::diagnosis::Diagnosis;
use crate::foretelling::Foretelling;
use crate::go::GoAccount;
use crate::jvm::JvmAccount;
use crate::machine::Machine;
use crate::metric::Metric;
use crate::window::Durability;
use crate::workload::Workload;

/// A larger saving than this is checked before it is reported. Published measurements of whole services show 5 to 30 % by PGO, 0 to 5 %
/// more by BOLT, and 2 to 7 % for Go programs.
const LIKELY_MOST: f64 = 0.40;

/// Upper bound of a build's gain: the share of the target's CPU that is user code, libraries included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The workload of the probe.
    pub workload: String,
    /// CPU per record during the probe, in microseconds.
    pub cpu_us_per_record: f64,
    /// User share of the CPU, 0 to 1. The kernel's share can't be changed by a build of the target.
    pub user_share: f64,
    /// The conclusion, in words.
    pub words: String,
}

/// One finished step of an optimisation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepReceipt {
    /// The step's name, for example `build-baseline`.
    pub step: String,
    /// Wall time.
    pub took_s: f64,
    /// The command, if the step was one.
    pub command: Option<String>,
    /// The result, in words.
    pub note: String,
}

/// Outcome of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VariantState {
    /// The variant was built, verified and checked.
    Made,
    /// The variant failed, and no part of it was measured.
    LeftOut {
        /// The step that was refused or failed.
        why: String,
    },
}

/// BOLT's work on a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rewriting {
    /// The profile that BOLT used, in words: `counts`, `branch records`, `samples of the clock`, or the contents of a file. Empty in older
    /// records.
    #[serde(default)]
    pub profile: String,
    /// The allowed changes: `full`, `without-split-eh`, `without-jump-tables` or `layout-only`.
    pub rung: String,
    /// Earlier attempts that failed, with the reason.
    pub given_up: Vec<String>,
    /// Functions that BOLT left unchanged.
    pub skipped: Vec<String>,
    /// Unchanged functions found by search: with any one of them the program breaks.
    pub culprits: Vec<String>,
    /// Number of programs that the search built.
    pub search_builds: u32,
    /// Functions with a profile, and all functions.
    pub profiled_functions: Option<[u64; 2]>,
    /// Functions whose blocks have a new layout.
    pub layout_modified: Option<u64>,
    /// Functions with a profile that could not be optimized. They run from their old place, even if they are hot.
    #[serde(default)]
    pub not_optimized: u64,
    /// Factor on the number of samples that BOLT asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants_more_samples: Option<f64>,
    /// Share of the profile's counts in functions whose code has changed, 0 to 1.
    pub stale_share: f64,
    /// Folder with the files for a report about the breakage.
    pub bundle: Option<String>,
}

impl Rewriting {
    /// Parts of the profile that BOLT could not use for a layout, in words; empty if it used everything.
    pub fn shortfalls(&self) -> Vec<String> {
        let functions = if self.not_optimized == 1 { "function" } else { "functions" };
        let left = (self.not_optimized > 0).then(|| {
            format!(
                "{} {functions} with a profile could not be optimized and run from their old place (hoisted \
                 switch tables cause that: try -fno-jump-tables)",
                self.not_optimized
            )
        });
        let few = self.wants_more_samples.map(|times| format!("BOLT asks for {times} times as many samples"));
        left.into_iter().chain(few).collect()
    }
}

/// The costs of a variant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Harm {
    /// Size of the file.
    pub file_bytes: u64,
    /// Bytes of the file in loaded segments; `None` in records older than this field.
    #[serde(default)]
    pub loaded_bytes: Option<u64>,
    /// Size of all sections of code.
    pub text_bytes: u64,
    /// The part of it that is old code, which BOLT keeps in addition to the new code.
    #[serde(default)]
    pub old_text_bytes: u64,
    /// Peak resident memory under the first judging workload, of all its processes together, in bytes.
    pub rss_bytes: Option<f64>,
    /// Peak memory of goroutine stacks under the first judging workload, in bytes; only for Go programs that report it.
    #[serde(default)]
    pub stack_bytes: Option<f64>,
    /// Start-up time until the program was ready, in seconds; median over the starts.
    pub start_up_s: Option<f64>,
    /// Number of starts behind the start-up time.
    pub starts: u32,
    /// Resolution of the start-up time: the time between two checks, in seconds.
    #[serde(default)]
    pub start_up_step_s: f64,
    /// Guard metrics that got worse, in words.
    pub broken: Vec<String>,
    /// Guard metrics without a measurement.
    #[serde(default)]
    pub not_measured: Vec<String>,
}

/// One of several builds of a variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaidOut {
    /// Its name, which the windows of its pairs bear. The name of the first build is the variant's.
    pub name: String,
    /// The method that placed its functions; `None` for the first build, which keeps its linker's order.
    pub link_seed: Option<u64>,
    /// SHA-256 of the program, hex.
    pub sha256: String,
}

impl LaidOut {
    /// The method that placed its functions, in words.
    pub fn places(&self) -> String {
        self.link_seed.map_or_else(|| "as its build links it".to_owned(), |seed| format!("by seed {seed}"))
    }
}

/// One variant in the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VariantFacts {
    /// Its name.
    pub name: String,
    /// The variant that it was compared with; `None` for the baseline.
    pub parent: Option<String>,
    /// Whether the user requested it. The others exist only because a requested variant builds on them.
    pub judged: bool,
    /// Its outcome.
    pub state: VariantState,
    /// BOLT's work on it.
    pub rewriting: Option<Rewriting>,
    /// The prediction about its layout before the measurement, if it is another layout of the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretelling: Option<Foretelling>,
    /// Its costs.
    pub harm: Option<Harm>,
    /// `keep` or `drop`; empty for the baseline and for variants without a verdict.
    pub decision: String,
    /// The reason.
    pub why: String,
    /// Its builds in the order in which [`crate::Design::blocks`] numbers them; empty if there is only one.
    #[serde(default)]
    pub builds: Vec<LaidOut>,
}

impl VariantFacts {
    /// A variant that is built and judged, without further data.
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

/// An additional training workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WeightedTraining {
    /// The load.
    pub workload: Workload,
    /// Weight of its counts in the profile.
    pub weight: f64,
}

/// The result of one training mix under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixCell {
    /// The judging workload.
    pub workload: String,
    /// Ratio to the baseline with its confidence interval; `None` without an estimate.
    pub ratio: Option<[f64; 3]>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether this workload was part of the training.
    pub own: bool,
}

/// The results of one training mix under all workloads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MatrixRow {
    /// The variant.
    pub variant: String,
    /// The training workloads.
    pub trained_with: Vec<String>,
    /// One result for each judging workload.
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
    /// The machine.
    pub machine: Machine,
    /// The load that trained the profile.
    pub training: Workload,
    /// The durability guarantee of the judging loads.
    pub durability: Durability,
    /// The probe before any build with a profile.
    pub ceilings: Vec<Ceiling>,
    /// The variants, baseline first.
    pub artifacts: Vec<Artifact>,
    /// Comparisons, one for each judging workload of each edge of the variant tree. All comparisons of the first edge come first, and in it
    /// the primary workload.
    pub comparisons: Vec<Comparison>,
    /// Every step with its duration.
    pub steps: Vec<StepReceipt>,
    /// Wall-clock start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The variant tree, baseline first. Empty in records older than this field.
    #[serde(default)]
    pub variants: Vec<VariantFacts>,
    /// All training workloads with their weights, if there were several.
    #[serde(default)]
    pub training_mix: Vec<WeightedTraining>,
    /// Comparison of the training mixes; empty unless requested.
    #[serde(default)]
    pub matrix: Vec<MatrixRow>,
    /// Variants that build on another one, compared with the baseline itself in the same rounds; empty if the run measured pairs.
    #[serde(default)]
    pub on_baseline: Vec<Comparison>,
    /// The best variant by measurement; `None` if none beats the baseline, and in older records.
    #[serde(default)]
    pub best: Option<String>,
    /// Further results for a Go program; `None` for other programs.
    #[serde(default)]
    pub go: Option<GoAccount>,
    /// Why the baseline's CPU stalls, if it was diagnosed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
    /// Starts and caches of a Java service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jvm: Option<JvmAccount>,
}

/// One metric of all variants compared with the baseline, under one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct BaselineRow<'a> {
    /// The workload.
    pub workload: &'a str,
    /// Name of the metric, in the words of its load.
    pub label: &'static str,
    /// One estimate for each variant of [`Optimization::beside_baseline`]; `None` without an estimate.
    pub cells: Vec<Option<&'a Judgement>>,
}

impl Optimization {
    /// The variants that were compared with the baseline itself, and a row for the primary metric, p50, p99 and p99.9 under each workload.
    /// Empty if every variant was compared only with the variant that it builds on.
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

    /// The time that profiles took in addition to the builds, in words. A team pays it for each new profile.
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
            format!("Making the profiles took {all_s:.1} s in addition to these builds: {}", parts.join(", "))
        })
    }

    /// Savings that are too large for code alone, by the conservative end of their confidence interval.
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
                "in published measurements, PGO and BOLT save up to about a third".to_owned()
            }
            _ => return None,
        };
        Some(format!(
            "{} saves at least {:.0} % under {}, and {why}: look for other differences (flags, libraries, \
             the served data) before you trust it",
            judged.b,
            100.0 * saved,
            judged.workload.name
        ))
    }

    /// How long the result stays valid, in words, since no compiler reports when a profile is outdated. `None` if no variant with a profile
    /// is kept.
    pub fn ageing(&self) -> Option<String> {
        let best = self.artifacts.iter().find(|artifact| Some(&artifact.variant) == self.best.as_ref())?;
        let profile = best.profile.as_ref()?;
        Some(format!(
            "The profile ages with the sources. With each release, `hone profile check {} BUILD` shows how \
             much of it the BUILD still uses (for clang and rustc, an instrumented build). From 10 % lost \
             on, record a new profile.",
            profile.path
        ))
    }
}
