//! A service tuned across all layers: the observations, the trials that they led to, the kept changes and their total gain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::metric::Metric;
use crate::proof::{BatchState, Decision, Proof, ProofStep};
use crate::tuned::CorePrice;
use crate::window::Durability;
use crate::workload::Workload;

/// The layer of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Altitude {
    /// The program: its build and its layout.
    Binary,
    /// The broker's or topic's settings, its arguments and environment.
    Broker,
    /// Producers.
    Client,
    /// The kernel of the broker's machine.
    Host,
}

impl Altitude {
    /// All layers.
    pub const ALL: [Self; 4] = [Self::Binary, Self::Broker, Self::Client, Self::Host];

    /// The word in settings, in records and for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Broker => "broker",
            Self::Client => "client",
            Self::Host => "host",
        }
    }
}

/// The reason for a change, before it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hope {
    /// Share of the objective that the change may save, 0 to 1. It ranks the change and guarantees nothing.
    pub share: f64,
    /// The observation, and why it calls for this change.
    pub why: String,
    /// Whether the share is only a rank, since no source states a gain. It then predicts nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsaid: bool,
}

impl Hope {
    /// An expected gain of this share, 0 to 1, for this reason.
    pub fn new(share: f64, why: impl Into<String>) -> Self {
        Self { share, why: why.into(), is_unsaid: false }
    }

    /// The reason for a change without an expected gain. The share only ranks it.
    pub fn unsaid(share: f64, why: impl Into<String>) -> Self {
        Self { is_unsaid: true, ..Self::new(share, why) }
    }
}

/// A tried change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuningStep {
    /// The layer.
    pub altitude: Altitude,
    /// Why this change was next.
    #[serde(rename = "expected_gain", alias = "hope")]
    pub hope: Hope,
    /// The next candidates, best first, with their expected gain per minute; only a few.
    pub passed_over: Vec<String>,
    /// The result.
    pub step: ProofStep,
}

/// The kept changes, compared with the state before the first change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// All kept changes compared with none of them. Rejected if they were not shown to help: then no change is kept. `None` if no change
    /// was left, or if the budget did not reach that far.
    pub all: Option<ProofStep>,
    /// The product of the re-test ratios in `without`. If each change is worth as much with the others as alone, it equals the ratio of
    /// `all`. For a cost, a product above that ratio means that changes share a gain; for a metric where more is better, a product below
    /// it. `None` if a ratio is missing.
    pub product: Option<f64>,
    /// For each kept change, all of them compared with all except this one, as far as the budget reached. Accepted means that the change
    /// helps again.
    pub without: Vec<ProofStep>,
    /// Changes rolled back at the end, in this order.
    #[serde(default)]
    pub put_back: Vec<PutBack>,
}

/// A change that helped in its trial and was rolled back at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutBack {
    /// Its name.
    pub change: String,
    /// Why, in words.
    pub why: String,
    /// The measurement: all kept changes compared with all except this one, or with the first state.
    pub step: ProofStep,
}

impl Together {
    /// Final outcome of each change, in words, with its measurement and reason; changes that were rolled back come first.
    pub fn in_the_end(&self) -> Vec<(&str, &ProofStep, &'static str, &str)> {
        let back = self
            .put_back
            .iter()
            .map(|gone| (gone.change.as_str(), &gone.step, "rolled back", gone.why.as_str()));
        let kept = self.without.iter().map(|step| {
            let fate = match step.decision {
                Decision::Accepted => "kept",
                Decision::Rejected => "kept, not reconfirmed",
            };
            (step.change.as_str(), step, fate, step.why.as_str())
        });
        back.chain(kept).collect()
    }

    /// All kept changes compared with the first state, and the product of the single ratios, in a sentence or two; `None` without a
    /// measurement.
    pub fn sentence(&self) -> Option<String> {
        let step = self.all.as_ref()?;
        let (all, metric) = (step.worth_in_words()?, step.comparison.as_ref()?.primary()?.estimate.metric);
        // A gain is a ratio below 1 for a cost, and above 1 for a metric where more is better.
        let [shared, helped] =
            if metric.lower_is_better() { ["larger", "smaller"] } else { ["smaller", "larger"] };
        let product = self.product.map(|product| {
            format!(
                " The product of the ratios that each change has with the others in place is {product:.3}. \
                 It is the same if the gains are independent, {shared} if changes share a gain, and \
                 {helped} if they help each other."
            )
        });
        Some(format!(
            "All kept changes, compared with the first state: {all}.{}",
            product.unwrap_or_default()
        ))
    }

    /// The kept changes whose re-test with the others is inconclusive.
    pub fn not_shown_again(&self) -> Vec<&str> {
        let rejected = self.without.iter().filter(|step| step.decision == Decision::Rejected);
        rejected.map(|step| step.change.as_str()).collect()
    }

    /// Whether changes that were kept one by one were not shown to help together.
    pub fn is_rejected(&self) -> bool {
        self.all.as_ref().is_some_and(|all| all.decision == Decision::Rejected)
    }
}

/// A run of `hone tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// Name in the file.
    pub name: String,
    /// Address of the load's target.
    pub target: String,
    /// The load, in words.
    pub load: String,
    /// The load before the first change.
    pub workload: Workload,
    /// The load with all kept changes.
    pub workload_kept: Workload,
    /// The metric that decides.
    pub objective: Metric,
    /// The durability guarantee before the first change.
    pub durability: Durability,
    /// The rule for keeping a change, in words; written to disk before the first window.
    pub rule: String,
    /// The allowed layers.
    pub allowed: Vec<Altitude>,
    /// Time budget in seconds; `None` for a run until no candidate is left.
    pub budget_s: Option<f64>,
    /// Duration in seconds, including its builds and the measurements of interrupted attempts.
    pub took_s: f64,
    /// The state before the first change, by an A/A pilot.
    pub first: BatchState,
    /// The trials in order.
    pub steps: Vec<TuningStep>,
    /// The changes that are kept in the end, without those that a later change replaced.
    pub kept: Vec<String>,
    /// The total gain of the kept changes; `None` if fewer than two were accepted, since the step itself then shows it.
    pub together: Option<Together>,
    /// Why it ended, in words.
    pub stopped: String,
    /// How to make each kept change permanent, in words. The run itself restores all settings.
    pub to_keep: Vec<String>,
    /// Limits of this run, in words.
    pub limits: Vec<String>,
    /// The machine.
    pub machine: Machine,
    /// Client and version, broker and version.
    pub software: BTreeMap<String, String>,
    /// Price of a core. `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_price: Option<CorePrice>,
}

impl Tuning {
    /// The step with the total gain of the kept changes: all together, or the only accepted one. `None` if no change is kept, or if the
    /// budget did not reach that far.
    pub fn worth(&self) -> Option<&ProofStep> {
        let accepted =
            || self.steps.iter().map(|step| &step.step).find(|step| step.decision == Decision::Accepted);
        let found = match &self.together {
            Some(together) => together.all.as_ref(),
            None => accepted(),
        };
        found.filter(|_| !self.kept.is_empty())
    }

    /// The result in a few sentences.
    pub fn sentence(&self) -> String {
        let saving = self.saving().map(|saving| format!("{}.", saving.sentence()));
        let parts = [Some(self.verdict()), saving, self.remarks()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// The kept changes, and their total gain.
    pub fn verdict(&self) -> String {
        let (what, tried) = (self.objective.label(), self.steps.len());
        let accepted =
            self.steps.iter().map(|step| &step.step).filter(|step| step.decision == Decision::Accepted);
        let accepted: Vec<&str> = accepted.map(|step| step.change.as_str()).collect();
        let of_tried = if tried == 1 { "1 change".to_owned() } else { format!("{tried} changes") };
        if self.kept.is_empty() && accepted.is_empty() {
            return match tried {
                0 => "Nothing is kept: no change was tried.".to_owned(),
                _ => format!("Nothing is kept: of {of_tried}, none was shown to improve the {what}."),
            };
        }
        if self.kept.is_empty() {
            return format!(
                "Nothing is kept of {of_tried}: {} improved the {what} alone, but not together.",
                accepted.join("; ")
            );
        }
        let worth = self.worth().and_then(ProofStep::worth_in_words);
        let worth =
            worth.map_or(String::new(), |worth| format!(" The {what} is {worth} times the first value."));
        format!("Kept {} of {of_tried}: {}.{worth}", self.kept.len(), self.kept.join("; "))
    }

    /// Results of the last comparisons about single changes; `None` without any.
    pub fn remarks(&self) -> Option<String> {
        let together = self.together.as_ref()?;
        let list = |names: Vec<&str>, what: &str| match &names[..] {
            [] => None,
            names => Some(format!("{what}: {}.", names.join("; "))),
        };
        let back = together.put_back.iter().map(|gone| gone.change.as_str()).collect();
        let unmeasured = (together.all.is_none() && !self.kept.is_empty()).then(|| {
            "The total of all kept changes was not measured: the budget did not reach that far.".to_owned()
        });
        let remarks = [
            list(together.not_shown_again(), "Not reconfirmed with the other changes in place"),
            list(back, "Rolled back at the end"),
            unmeasured,
        ];
        let remarks: Vec<String> = remarks.into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join(" "))
    }

    /// Its steps as a proof, for tables of their states. The last column is the state with all kept changes, if it was measured.
    pub fn as_proof(&self) -> Proof {
        let mut steps: Vec<ProofStep> = self.steps.iter().map(|step| step.step.clone()).collect();
        steps.extend(self.together.iter().filter_map(|together| together.all.clone()));
        Proof {
            target: self.target.clone(),
            load: self.load.clone(),
            workload: self.workload.clone(),
            kept: self.workload_kept.clone(),
            replica: None,
            durability: self.durability.clone(),
            rule: self.rule.clone(),
            steps,
            limits: self.limits.clone(),
            machine: self.machine.clone(),
            software: self.software.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(change: &str, decision: Decision) -> ProofStep {
        ProofStep {
            change: change.to_owned(),
            words: Vec::new(),
            decision,
            why: String::new(),
            promise: None,
            guards: Vec::new(),
            comparison: None,
            before: BatchState::default(),
            after: BatchState::default(),
            foretold: None,
        }
    }

    fn together(all: Option<Decision>, back: &[&str]) -> Together {
        Together {
            all: all.map(|decision| step("all together", decision)),
            product: None,
            without: vec![step("a", Decision::Accepted), step("b", Decision::Rejected)],
            put_back: back
                .iter()
                .map(|change| PutBack {
                    change: (*change).to_owned(),
                    why: "it harms".to_owned(),
                    step: step(change, Decision::Rejected),
                })
                .collect(),
        }
    }

    #[test]
    fn what_was_not_shown_again_is_not_simply_kept() {
        let found = together(Some(Decision::Accepted), &["c"]);
        assert_eq!(found.not_shown_again(), ["b"]);
        let fates: Vec<_> = found.in_the_end().iter().map(|(change, _, fate, _)| (*change, *fate)).collect();
        assert_eq!(fates, [("c", "rolled back"), ("a", "kept"), ("b", "kept, not reconfirmed")]);
        assert!(!found.is_rejected() && together(Some(Decision::Rejected), &[]).is_rejected());
        assert!(!together(None, &[]).is_rejected(), "not measured");
    }

    #[test]
    fn records_of_the_first_builds_can_be_read() {
        let old = serde_json::json!({ "all": null, "product": 0.25, "without": [] });
        let read: Together = serde_json::from_value(old).unwrap();
        assert_eq!((read.product, read.put_back.len()), (Some(0.25), 0));
        let step = TuningStep {
            altitude: Altitude::Client,
            hope: Hope::new(0.2, "batches are small"),
            passed_over: Vec::new(),
            step: step("a", Decision::Accepted),
        };
        let text = serde_json::to_string(&step).unwrap();
        assert!(text.contains("\"expected_gain\":{"), "{text}");
        let old = text.replace("expected_gain", "hope");
        assert_eq!(serde_json::from_str::<TuningStep>(&old).unwrap(), step);
    }
}
