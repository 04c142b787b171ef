//! A service tuned over all altitudes: what was seen, what was tried because of it, what was kept, and what that is worth together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::metric::Metric;
use crate::proof::{BatchState, Decision, Proof, ProofStep};
use crate::window::Durability;
use crate::workload::Workload;

/// Where a change is made.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Binary, Self::Broker, Self::Client, Self::Host];

    /// The word in settings, records and for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Broker => "broker",
            Self::Client => "client",
            Self::Host => "host",
        }
    }
}

/// What a change was chosen for, before it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Hope {
    /// Share of the objective that it may save, 0 to 1. It ranks and promises nothing.
    pub share: f64,
    /// What was seen, and why that calls for this change.
    pub why: String,
    /// Nobody has said how much it may save: the share puts it in its place, and foretells nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unsaid: bool,
}

impl Hope {
    /// To save this share, 0 to 1, for this reason.
    pub fn new(share: f64, why: impl Into<String>) -> Self {
        Self { share, why: why.into(), is_unsaid: false }
    }

    /// Of a change of which nobody has said how much it may save; the share puts it in its place.
    pub fn unsaid(share: f64, why: impl Into<String>) -> Self {
        Self { is_unsaid: true, ..Self::new(share, why) }
    }
}

/// A change that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuningStep {
    /// Where.
    pub altitude: Altitude,
    /// Why this one, and now.
    pub hope: Hope,
    /// What would have come next, best first, at most a few; each with what was hoped for a minute.
    pub passed_over: Vec<String>,
    /// What came of it.
    pub step: ProofStep,
}

/// What is kept, held against the state before the first change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// All that was kept until then, against none of it. Rejected where it was not shown to help: then nothing is kept. `None` where
    /// nothing was left to be held against the first state, or the budget did not reach so far.
    pub all: Option<ProofStep>,
    /// The product of the ratios that the kept changes have among each other, those of `without`. Where each is worth as much beside the
    /// others as alone it is the ratio of `all`; of a cost, gains are shared above that one, and below it of what counts up. `None` where a
    /// ratio is missing.
    pub product: Option<f64>,
    /// For each kept change all of them against all but this one, as far as the budget reached. Accepted: shown to help again.
    pub without: Vec<ProofStep>,
    /// What the end put back, in this order.
    #[serde(default)]
    pub put_back: Vec<PutBack>,
}

/// A change that helped when it was tried, and was put back in the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PutBack {
    /// Its name.
    pub change: String,
    /// Why, in words.
    pub why: String,
    /// What was measured: all that was kept against all but this change, or against the first state.
    pub step: ProofStep,
}

impl Together {
    /// What became of each change in the end, in words, with what was measured and why: first what was put back.
    pub fn in_the_end(&self) -> Vec<(&str, &ProofStep, &'static str, &str)> {
        let back = self
            .put_back
            .iter()
            .map(|gone| (gone.change.as_str(), &gone.step, "put back", gone.why.as_str()));
        let kept = self.without.iter().map(|step| {
            let fate = match step.decision {
                Decision::Accepted => "kept",
                Decision::Rejected => "kept, not shown again",
            };
            (step.change.as_str(), step, fate, step.why.as_str())
        });
        back.chain(kept).collect()
    }

    /// All that was kept against the first state, beside the product of the single ratios, in a sentence or two; `None` where it was not
    /// measured.
    pub fn sentence(&self) -> Option<String> {
        let step = self.all.as_ref()?;
        let (all, metric) = (step.worth_in_words()?, step.comparison.as_ref()?.primary()?.estimate.metric);
        // A gain is a ratio below 1 of a cost, and above 1 of what counts up.
        let [shared, helped] =
            if metric.lower_is_better() { ["larger", "smaller"] } else { ["smaller", "larger"] };
        let product = self.product.map(|product| {
            format!(
                " The product of the ratios that each has with the others in place is {product:.3}: the same where the gains are independent, \
                 {shared} where changes share a gain, {helped} where they help each other."
            )
        });
        Some(format!(
            "All kept changes, compared with the first state: {all}.{}",
            product.unwrap_or_default()
        ))
    }

    /// The kept changes that were not shown to help once more, beside the others.
    pub fn not_shown_again(&self) -> Vec<&str> {
        let rejected = self.without.iter().filter(|step| step.decision == Decision::Rejected);
        rejected.map(|step| step.change.as_str()).collect()
    }

    /// Whether what was kept one by one was not shown to help together.
    pub fn is_rejected(&self) -> bool {
        self.all.as_ref().is_some_and(|all| all.decision == Decision::Rejected)
    }
}

/// A run of `hone tune`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// As the file names it.
    pub name: String,
    /// Where the load went, as it was asked for.
    pub target: String,
    /// The load, in words.
    pub load: String,
    /// The load before the first change.
    pub workload: Workload,
    /// The load with all that was kept.
    pub workload_kept: Workload,
    /// What decides.
    pub objective: Metric,
    /// What an acknowledgement promised before the first change.
    pub durability: Durability,
    /// The rule by which a change is kept, in words; on the disk before the first window.
    pub rule: String,
    /// Where changes were allowed.
    pub allowed: Vec<Altitude>,
    /// Seconds that the run might take; `None` for as long as there is something to try.
    pub budget_s: Option<f64>,
    /// Seconds that it took, with its builds and what broken-off attempts measured.
    pub took_s: f64,
    /// The state before the first change, by an A/A pilot.
    pub first: BatchState,
    /// In the order in which they were tried.
    pub steps: Vec<TuningStep>,
    /// The changes that are kept in the end, without those that a later one has taken the place of.
    pub kept: Vec<String>,
    /// What the kept changes are worth together; `None` where fewer than two were accepted, since the step says it then.
    pub together: Option<Together>,
    /// Why it ended, in words.
    pub stopped: String,
    /// How to make each kept change last, in words: the run itself leaves everything as it found it.
    pub to_keep: Vec<String>,
    /// What this run can't say, in words.
    pub limits: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// Client and version, broker and version.
    pub software: BTreeMap<String, String>,
}

impl Tuning {
    /// The step that says what all that was kept is worth: all together, or the only one that was accepted. `None` where nothing is kept,
    /// or the budget did not reach so far.
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

    /// What is kept, and what that is worth.
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
        let worth = worth.map_or(String::new(), |worth| format!(" The {what} is {worth} of what it was."));
        format!("Kept {} of {of_tried}: {}.{worth}", self.kept.len(), self.kept.join("; "))
    }

    /// What the last comparisons showed against single changes; `None` where there is nothing to say.
    pub fn remarks(&self) -> Option<String> {
        let together = self.together.as_ref()?;
        let list = |names: Vec<&str>, what: &str| match &names[..] {
            [] => None,
            names => Some(format!("{what}: {}.", names.join("; "))),
        };
        let back = together.put_back.iter().map(|gone| gone.change.as_str()).collect();
        let unmeasured = (together.all.is_none() && !self.kept.is_empty()).then(|| {
            "All kept changes together were not measured: the budget did not reach that far.".to_owned()
        });
        let remarks = [
            list(together.not_shown_again(), "Not shown again with the other changes in place"),
            list(back, "Put back at the end"),
            unmeasured,
        ];
        let remarks: Vec<String> = remarks.into_iter().flatten().collect();
        (!remarks.is_empty()).then(|| remarks.join(" "))
    }

    /// Its steps as a proof, for tables of their states: the last column is all that was kept, where that was measured.
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
        assert_eq!(fates, [("c", "put back"), ("a", "kept"), ("b", "kept, not shown again")]);
        assert!(!found.is_rejected() && together(Some(Decision::Rejected), &[]).is_rejected());
        assert!(!together(None, &[]).is_rejected(), "not measured");
    }

    #[test]
    fn records_of_the_first_builds_can_be_read() {
        let old = serde_json::json!({ "all": null, "product": 0.25, "without": [] });
        let read: Together = serde_json::from_value(old).unwrap();
        assert_eq!((read.product, read.put_back.len()), (Some(0.25), 0));
    }
}
