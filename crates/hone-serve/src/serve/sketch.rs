//! Summaries of records for lists.

use std::collections::BTreeMap;

use hone_binary::sha256_hex;
use hone_compare::why_saved_does_not_count;
use hone_record::{
    BatchCost, BatchWatch, Body, Capacity, CommitGate, Comparison, Curve, Decision, Diagnosis, Envelope,
    FORMAT_VERSION, Foretelling, GateOutcome, Heatmap, HostTrial, LedgerEntry, Machine, Metric, Optimization,
    Outcome, Proof, RecordError, SavedComparison, SelfTest, ShelfWindow, Story, Tuning, Verdict, WhatIf,
    Window, Workload,
};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A record summary.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sketch {
    pub kind: String,
    pub title: String,
    pub verdict: Option<Verdict>,
    pub said: String,
    pub at_unix_ms: Option<u64>,
    pub window: Option<ShelfWindow>,
    /// SHA-256 of each variant's program, for an optimisation.
    pub builds: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Head {
    hone_record: Option<u32>,
    kind: Option<String>,
}

/// Reads a file's text. `None` when it is valid JSON but no record: runs also contain private notes.
///
/// # Errors
/// The error names the fault.
pub(crate) fn sketch(text: &str) -> Result<Option<Sketch>, String> {
    let head = match serde_json::from_str::<Head>(text) {
        Ok(head) => head,
        // The text is a list, a number, or no JSON at all.
        Err(_) => {
            let whole = serde_json::from_str::<IgnoredAny>(text);
            return whole.map(|_| None).map_err(|error| format!("it is not complete JSON: {error}"));
        }
    };
    let (Some(version), Some(kind)) = (head.hone_record, head.kind) else { return Ok(None) };
    if version > FORMAT_VERSION {
        return Err(RecordError::Newer { found: version }.to_string());
    }
    let sketch = of_kind(&kind, text).map_err(|error| error.to_string())?;
    Ok(Some(Sketch { kind, ..sketch }))
}

fn of_kind(kind: &str, text: &str) -> Result<Sketch, RecordError> {
    Ok(match kind {
        Window::KIND => window(&Envelope::parse(text)?),
        Comparison::KIND => comparison(&Envelope::parse(text)?),
        Optimization::KIND => optimization(&Envelope::parse(text)?),
        Tuning::KIND => tuning(&Envelope::parse(text)?),
        Proof::KIND => proof(&Envelope::parse(text)?),
        CommitGate::KIND => commit_gate(&Envelope::parse(text)?),
        HostTrial::KIND => host_trial(&Envelope::parse(text)?),
        Capacity::KIND => capacity(&Envelope::parse(text)?),
        Curve::KIND => {
            let found: Curve = Envelope::parse(text)?;
            titled(format!("{} under {}", found.variant, found.workload.name))
        }
        Story::KIND => titled(Envelope::<Story>::parse(text)?.title),
        Heatmap::KIND => {
            let found: Heatmap = Envelope::parse(text)?;
            titled(
                found
                    .sides
                    .iter()
                    .filter_map(|side| side.object.as_deref())
                    .collect::<Vec<_>>()
                    .join(" and "),
            )
        }
        LedgerEntry::KIND => titled(Envelope::<LedgerEntry>::parse(text)?.change),
        SavedComparison::KIND => {
            let found: SavedComparison = Envelope::parse(text)?;
            titled(format!("{} against {}", found.b.source, found.a.source))
        }
        Diagnosis::KIND => whole::<Diagnosis>(text)?,
        Foretelling::KIND => whole::<Foretelling>(text)?,
        BatchWatch::KIND => whole::<BatchWatch>(text)?,
        BatchCost::KIND => whole::<BatchCost>(text)?,
        WhatIf::KIND => whole::<WhatIf>(text)?,
        SelfTest::KIND => whole::<SelfTest>(text)?,
        Machine::KIND => whole::<Machine>(text)?,
        // Some kinds have no summary: a profile's check, a doctor's findings.
        _ => Sketch::default(),
    })
}

/// A record whose list entry only names its kind.
fn whole<T: Body>(text: &str) -> Result<Sketch, RecordError> {
    Envelope::<T>::parse(text).map(|_| Sketch::default())
}

fn titled(title: String) -> Sketch {
    Sketch { title, ..Sketch::default() }
}

fn window(found: &Window) -> Sketch {
    let values: BTreeMap<Metric, f64> =
        Metric::ALL.into_iter().filter_map(|metric| Some((metric, found.value(metric)?))).collect();
    let left_out = why_saved_does_not_count(found);
    let said = match &found.outcome {
        Outcome::Steady if found.was_interrupted() => "ended early",
        Outcome::Steady if left_out.is_some() => "too many requests failed",
        Outcome::Steady => "steady",
        Outcome::Saturated { .. } => "saturated",
        Outcome::Warming { .. } => "still warming up",
        Outcome::GeneratorLate { .. } => "the generator fell behind",
        Outcome::Failed { .. } => "failed",
    };
    Sketch {
        title: format!("{} under {}", found.variant, found.workload.name),
        said: said.to_owned(),
        at_unix_ms: Some(found.started_unix_ms),
        window: Some(ShelfWindow {
            variant: found.variant.clone(),
            commit: found.environment.as_ref().and_then(|environment| environment.commit.clone()),
            circumstances: circumstances(found),
            alike: alike(found),
            duration_s: found.duration_s,
            left_out,
            values,
        }),
        ..Sketch::default()
    }
}

/// Load, durability and machine in words.
fn circumstances(found: &Window) -> String {
    let load = &found.workload;
    let machine = found.environment.as_ref().map(|environment| &environment.machine);
    let machine = machine
        .map_or_else(String::new, |machine| format!("; {}, {} cores", machine.cpu_model, machine.cores));
    format!(
        "{}: {} requests/s of {} records of {} B, acks {}, {}{machine}",
        load.name,
        hone_format::exact(load.requests_per_s),
        load.records_per_batch,
        load.record_bytes,
        found.durability.acks,
        found.durability.storage
    )
}

/// The same with every setting except the seed, which differs between runs of one load.
fn alike(found: &Window) -> String {
    let load = Workload { seed: 0, ..found.workload.clone() };
    let machine = found.environment.as_ref().map(|environment| &environment.machine);
    let machine = machine.map(|machine| (&machine.cpu_model, machine.cores, &machine.kernel));
    let all =
        serde_json::to_string(&(load, &found.durability, machine, found.client.as_ref())).unwrap_or_default();
    sha256_hex(all.as_bytes())
}

fn comparison(found: &Comparison) -> Sketch {
    Sketch {
        title: format!("{} against {} under {}", found.b, found.a, found.workload.name),
        verdict: Some(found.verdict()),
        ..Sketch::default()
    }
}

/// The verdict is the one of the best variant, or else of the first comparison.
fn optimization(found: &Optimization) -> Sketch {
    let of_best = found.comparisons.iter().find(|comparison| Some(&comparison.b) == found.best.as_ref());
    Sketch {
        title: found.name.clone(),
        verdict: of_best.or(found.comparisons.first()).map(Comparison::verdict),
        at_unix_ms: Some(found.started_unix_ms),
        builds: found.artifacts.iter().map(|built| (built.variant.clone(), built.sha256.clone())).collect(),
        ..Sketch::default()
    }
}

fn tuning(found: &Tuning) -> Sketch {
    let worth = found.worth().and_then(|step| step.comparison.as_ref());
    Sketch {
        title: found.name.clone(),
        verdict: worth.map(Comparison::verdict),
        said: format!("{} of {} changes kept", found.kept.len(), found.steps.len()),
        ..Sketch::default()
    }
}

fn proof(found: &Proof) -> Sketch {
    let accepted = found.steps.iter().filter(|step| step.decision == Decision::Accepted).count();
    Sketch {
        title: found.target.clone(),
        said: format!("{accepted} of {} steps accepted", found.steps.len()),
        ..Sketch::default()
    }
}

/// The verdict is the one of the primary metric under the first load, or under a load with a regression, which decides.
fn commit_gate(found: &CommitGate) -> Sketch {
    let primary = || found.findings.iter().filter(|finding| finding.primary);
    let worst = primary().find(|finding| finding.verdict == Some(Verdict::Worse));
    let said = match found.outcome {
        GateOutcome::Passed => "passed",
        GateOutcome::SameProgram => "passed: the same program",
        GateOutcome::Worse => "failed: worse",
        GateOutcome::TooLittlePower => "inconclusive: too few pairs",
        GateOutcome::NotSeen => "inconclusive: no estimate",
    };
    Sketch {
        title: format!("{}: {} against {}", found.name, found.head.short(), found.base.short()),
        verdict: worst.or(primary().next()).and_then(|finding| finding.verdict),
        said: said.to_owned(),
        ..Sketch::default()
    }
}

/// The verdict is the one of all good settings together, or of the only tested one.
fn host_trial(found: &HostTrial) -> Sketch {
    let only = match &found.tried[..] {
        [only] => Some(only),
        _ => None,
    };
    let kept = found.tried.iter().filter(|knob| knob.decision == Decision::Accepted).count();
    let left = if found.left_in_force.is_some() { "; still active" } else { "" };
    Sketch {
        title: found.target.clone(),
        verdict: found.together.as_ref().or(only).map(|knob| knob.verdict),
        said: format!("{kept} of {} settings helped{left}", found.tried.len()),
        ..Sketch::default()
    }
}

/// There is no verdict, because there was no comparison.
fn capacity(found: &Capacity) -> Sketch {
    Sketch {
        title: format!("{} under {}", found.variant, found.workload.name),
        said: hone_document::curve::knee(found),
        ..Sketch::default()
    }
}

#[cfg(test)]
mod tests {
    use hone_record::{CapacityDesign, CapacityEnd};

    use super::*;

    #[test]
    fn notes_are_no_records_and_pieces_are_broken() {
        for note in ["true", "[1, 2]", "{}", r#"{"kind": "window"}"#, r#"{"hone_record": 1}"#, "7"] {
            assert_eq!(sketch(note), Ok(None), "{note}");
        }
        let broken = |text: &str| sketch(text).unwrap_err();
        assert!(broken("").starts_with("it is not complete JSON"));
        assert!(broken(r#"{"hone_record": 1, "kind": "window", "bo"#).starts_with("it is not complete JSON"));
        assert!(broken(r#"{"hone_record": 1, "kind": "window", "body": {}}"#).contains("missing field"));
        assert!(broken(r#"{"hone_record": 9, "kind": "window", "body": {}}"#).contains("format version 9"));
        assert!(broken(&"[".repeat(100_000)).contains("EOF"), "and the stack suffices");
        let told = sketch(r#"{"hone_record": 1, "kind": "doctor", "body": {"x": 1}}"#).unwrap().unwrap();
        assert_eq!(told.kind, "doctor");
    }

    fn told<T: Body>(body: T) -> (String, Option<Verdict>, String) {
        let found = sketch(&Envelope::new(body).to_text().unwrap()).unwrap().unwrap();
        (found.title, found.verdict, found.said)
    }

    #[test]
    fn gates_trials_and_capacities_say_what_they_found() {
        let gate = |outcome, state| told(hone_experiment::fixture::gate(outcome, state));
        let worse = gate(GateOutcome::Worse, hone_record::GateState::Worse);
        let title = "orders: bbbbbbbbbb against aaaaaaaaaa".to_owned();
        assert_eq!(worse, (title.clone(), Some(Verdict::Worse), "failed: worse".to_owned()));
        let same = gate(GateOutcome::SameProgram, hone_record::GateState::Held);
        assert_eq!(same, (title, None, "passed: the same program".to_owned()));
        let trial = hone_experiment::fixture::trial(false);
        let helped = trial.tried.iter().filter(|knob| knob.decision == Decision::Accepted).count();
        let (_, verdict, said) = told(trial.clone());
        assert_eq!(said, format!("{helped} of {} settings helped", trial.tried.len()));
        assert_eq!(verdict, trial.together.as_ref().map(|knob| knob.verdict));
        let capacity = Capacity {
            variant: "target".to_owned(),
            address: "127.0.0.1:9092".to_owned(),
            workload: trial.workload,
            design: CapacityDesign {
                promise: vec!["p99 <= 10.0 ms".to_owned()],
                start_requests_per_s: 1_000.0,
                least_requests_per_s: 300.0,
                most_requests_per_s: 1e6,
                growth: 2.0,
                precision: 1.2,
                confirmations: 2,
                most_windows: 60,
            },
            points: Vec::new(),
            held_requests_per_s: Some(2_828.0),
            failed_requests_per_s: Some(3_364.0),
            end: CapacityEnd::Found,
            machine: trial.machine,
        };
        let said = "p99 <= 10.0 ms up to 2,828 requests/s, not at 3,364".to_owned();
        assert_eq!(told(capacity), ("target under w".to_owned(), None, said));
    }
}
