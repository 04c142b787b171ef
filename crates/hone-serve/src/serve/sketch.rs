//! Summaries of records for lists.

use std::collections::BTreeMap;

use hone_binary::sha256_hex;
use hone_compare::{geometric_mean, why_saved_does_not_count};
use hone_record::{
    BatchCost, BatchWatch, BatchXray, Body, Capacity, CommitGate, Comparison, Curve, CurveOver, Decision,
    Diagnosis, Envelope, FORMAT_VERSION, Foretelling, GateOutcome, Heatmap, HostTrial, LedgerEntry, Machine,
    Metric, Optimization, Outcome, Proof, ProofStep, RecordError, SavedComparison, SelfTest, ShelfOutcome,
    ShelfWindow, Story, TailAccount, Tuning, Verdict, WhatIf, Window, Workload,
};
use hone_report::load::{NAMELESS_LOAD, under};
use hone_report::outcome;
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
    pub outcome: Option<ShelfOutcome>,
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
        Curve::KIND => curve(&Envelope::parse(text)?),
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
        BatchXray::KIND => xray(&Envelope::parse(text)?),
        TailAccount::KIND => tail(&Envelope::parse(text)?),
        Diagnosis::KIND => diagnosis(&Envelope::parse(text)?),
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
    let has_slo = found.outcome == Outcome::Steady && !found.requirements.is_empty() && left_out.is_none();
    let alike = alike(found);
    Sketch {
        title: under(&found.variant, &found.workload.name),
        said: if has_slo { outcome::of_load(found).lower() } else { said.to_owned() },
        at_unix_ms: Some(found.started_unix_ms),
        outcome: Some(load(found, &alike)),
        window: Some(ShelfWindow {
            variant: found.variant.clone(),
            commit: found.environment.as_ref().and_then(|environment| environment.commit.clone()),
            circumstances: circumstances(found),
            alike,
            duration_s: found.duration_s,
            left_out,
            values,
            address: found.address.clone(),
        }),
        ..Sketch::default()
    }
}

/// A load as a run of its own: whether the target carried it, and its p99. A short one has too few samples for it.
fn load(found: &Window, alike: &str) -> ShelfOutcome {
    let wanted = [Metric::LatencyP99, Metric::LatencyP50, Metric::Throughput];
    let known = wanted.into_iter().find_map(|metric| Some((metric, found.value(metric)?)));
    let place = place(&found.address, &found.variant);
    ShelfOutcome {
        subject: format!("load on {place}"),
        target: place.to_owned(),
        series: format!("load {place} {alike}"),
        metric: known.map(|(metric, _)| metric),
        value: known.map(|(_, value)| value),
        duration_s: known_s(std::iter::once(found.duration_s)),
        machine: found
            .environment
            .as_ref()
            .map(|environment| machine_words(&environment.machine))
            .unwrap_or_default(),
        ..worded(&outcome::of_load(found))
    }
}

/// The address of a target, or its name if it has none.
fn place<'a>(address: &'a str, variant: &'a str) -> &'a str {
    if address.is_empty() { variant } else { address }
}

/// The word of an outcome, for a record without a comparison.
fn worded(came: &outcome::Outcome) -> ShelfOutcome {
    ShelfOutcome { word: came.lower(), mark: came.verdict, ..ShelfOutcome::default() }
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
    let [at_a, at_b] = &found.targets;
    let are_known = !at_a.is_empty() && !at_b.is_empty();
    let subject = match &found.change {
        Some(change) => change.label(),
        None if are_known => format!("{at_a} → {at_b}"),
        None => format!("{} against {}", found.b, found.a),
    };
    let layer = found.change.as_ref().map_or("", |change| match change.kind.as_str() {
        "client" | "load" => "client",
        "host" => "host",
        _ => "broker",
    });
    let variants = [found.a.clone(), found.b.clone()];
    // Values of a setting differ from run to run, and its name does not.
    let asked = found
        .change
        .as_ref()
        .map_or_else(|| at_b.clone(), |change| format!("{}.{}", change.kind, change.name));
    let load = if found.workload.name == NAMELESS_LOAD { "" } else { &found.workload.name };
    let outcome = ShelfOutcome {
        series: format!("comparison {at_a} {asked} {load}"),
        variants: (found.change.is_none() && !are_known).then_some(variants),
        target: at_a.clone(),
        layer: layer.to_owned(),
        ..figures(found)
    };
    let title = if load.is_empty() { subject.clone() } else { under(&subject, load) };
    Sketch {
        title,
        verdict: Some(found.verdict()),
        outcome: Some(ShelfOutcome { subject, ..outcome }),
        ..Sketch::default()
    }
}

/// The primary metric of a comparison, its duration and its machine.
fn figures(found: &Comparison) -> ShelfOutcome {
    let estimate = found.primary().map(|judgement| &judgement.estimate);
    ShelfOutcome {
        metric: Some(found.design.rule.primary),
        ratio: estimate.map(|estimate| [estimate.ratio, estimate.low, estimate.high]),
        values: estimate.map(|estimate| [estimate.value_a, estimate.value_b]),
        duration_s: known_s(found.pairs.iter().map(|pair| pair.took_s)),
        machine: machine_words(&found.machine),
        ..ShelfOutcome::default()
    }
}

/// The sum of these seconds. Older records have none.
fn known_s(seconds: impl Iterator<Item = f64>) -> Option<f64> {
    Some(seconds.sum()).filter(|sum: &f64| sum.is_finite() && *sum > 0.0)
}

fn machine_words(machine: &Machine) -> String {
    if machine.cpu_model.is_empty() {
        return String::new();
    }
    format!("{}, {}", machine.cpu_model, hone_format::counted(u64::from(machine.cores), "core", "cores"))
}

/// The verdict is the one of the best variant, or else of the first comparison.
fn optimization(found: &Optimization) -> Sketch {
    let of_best = found.comparisons.iter().find(|comparison| Some(&comparison.b) == found.best.as_ref());
    let shown = of_best.or(found.comparisons.first());
    let outcome = ShelfOutcome {
        subject: shown
            .map_or_else(|| found.name.clone(), |shown| format!("{}: {} → {}", found.name, shown.a, shown.b)),
        target: found.name.clone(),
        layer: "binary".to_owned(),
        series: format!("optimization {}", found.name),
        word: if shown.is_none() { "nothing judged".to_owned() } else { String::new() },
        duration_s: known_s(found.steps.iter().map(|step| step.took_s)),
        machine: machine_words(&found.machine),
        ..shown.map(figures).unwrap_or_default()
    };
    Sketch {
        title: found.name.clone(),
        verdict: shown.map(Comparison::verdict),
        at_unix_ms: Some(found.started_unix_ms),
        builds: found.artifacts.iter().map(|built| (built.variant.clone(), built.sha256.clone())).collect(),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// Among these steps, the measured one with the largest gain.
fn best<'a>(steps: impl Iterator<Item = &'a ProofStep>) -> Option<&'a ProofStep> {
    let measured = steps.filter_map(|step| Some((step.cost_ratio()?, step)));
    measured.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, step)| step)
}

/// The sum of the pairs of these comparisons.
fn pairs_s<'a>(comparisons: impl Iterator<Item = &'a Comparison>) -> Option<f64> {
    known_s(comparisons.flat_map(|comparison| &comparison.pairs).map(|pair| pair.took_s))
}

/// The figures are those of all kept changes. If there are none, they are those of the best single change.
fn tuning(found: &Tuning) -> Sketch {
    let came = outcome::of_tuning(found);
    let worth = found.worth().filter(|step| step.comparison.is_some());
    let single = || best(found.steps.iter().map(|step| &step.step));
    let shown = worth.or_else(single).and_then(|step| Some((step, step.comparison.as_ref()?)));
    let kept = |step: &&hone_record::TuningStep| found.kept.contains(&step.step.change);
    let mut layers: Vec<&str> = found.steps.iter().filter(kept).map(|step| step.altitude.label()).collect();
    layers.dedup();
    let subject =
        if found.kept.is_empty() { format!("{}: nothing kept", found.name) } else { found.kept.join("; ") };
    let outcome = ShelfOutcome {
        subject,
        target: found.target.clone(),
        layer: if let [only] = layers[..] { only.to_owned() } else { String::new() },
        series: format!("tuning {} {}", found.name, found.target),
        word: came.lower(),
        mark: came.verdict,
        metric: Some(found.objective),
        figure_name: match (worth, shown) {
            (None, Some((step, _))) => step.change.clone(),
            _ => String::new(),
        },
        duration_s: known_s(std::iter::once(found.took_s)),
        machine: machine_words(&found.machine),
        ..shown.map(|(_, comparison)| figures(comparison)).unwrap_or_default()
    };
    Sketch {
        title: found.name.clone(),
        verdict: shown.map(|(_, comparison)| comparison.verdict()),
        said: format!("{} of {} changes kept", found.kept.len(), found.steps.len()),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// Each step has a comparison of its own, so several have no common ratio. The figures are those of the accepted step with the largest
/// gain, or of the best step if none is accepted.
fn proof(found: &Proof) -> Sketch {
    let came = outcome::of_proof(found);
    let accepted: Vec<&ProofStep> =
        found.steps.iter().filter(|step| step.decision == Decision::Accepted).collect();
    let tried: Vec<&str> = match accepted[..] {
        [] => found.steps.iter().map(|step| step.change.as_str()).collect(),
        _ => accepted.iter().map(|step| step.change.as_str()).collect(),
    };
    let shown = best(accepted.iter().copied()).or_else(|| best(found.steps.iter()));
    let shown = shown.and_then(|step| Some((step, step.comparison.as_ref()?)));
    let outcome = ShelfOutcome {
        subject: if tried.is_empty() { found.target.clone() } else { tried.join("; ") },
        target: found.target.clone(),
        layer: "client".to_owned(),
        series: format!("proof {}", found.target),
        word: came.lower(),
        mark: came.verdict,
        figure_name: shown
            .filter(|_| tried.len() > 1)
            .map(|(step, _)| step.change.clone())
            .unwrap_or_default(),
        duration_s: pairs_s(found.steps.iter().filter_map(|step| step.comparison.as_ref())),
        machine: machine_words(&found.machine),
        ..shown.map(|(_, comparison)| figures(comparison)).unwrap_or_default()
    };
    Sketch {
        title: found.target.clone(),
        verdict: shown.map(|(_, comparison)| comparison.verdict()),
        said: format!("{} of {} steps accepted", accepted.len(), found.steps.len()),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// The verdict is the one of the primary metric under the first load, or under a load with a regression, which decides.
fn commit_gate(found: &CommitGate) -> Sketch {
    let primary = || found.findings.iter().filter(|finding| finding.primary);
    let worst = primary().find(|finding| finding.verdict == Some(Verdict::Worse));
    let shown = worst.or(primary().next());
    let said = match found.outcome {
        GateOutcome::Passed => "passed",
        GateOutcome::SameProgram => "passed: the same program",
        GateOutcome::Worse => "failed: worse",
        GateOutcome::TooLittlePower => "inconclusive: too few pairs",
        GateOutcome::NotSeen => "inconclusive: no estimate",
    };
    let came = outcome::of_gate(found.outcome);
    let pairs = found.comparisons.iter().flat_map(|comparison| &comparison.pairs).map(|pair| pair.took_s);
    // Builds of an earlier run took no time in this one.
    let builds =
        [&found.base, &found.head].into_iter().filter(|build| !build.kept).map(|build| build.build_s);
    let is_same = found.outcome == GateOutcome::SameProgram;
    let outcome = ShelfOutcome {
        subject: format!("{}: {} → {}", found.name, found.base.short(), found.head.short()),
        target: found.name.clone(),
        layer: "binary".to_owned(),
        series: format!("commit-gate {} {}", found.name, shown.map_or("", |shown| &shown.workload)),
        word: came.lower(),
        mark: came.verdict,
        metric: shown.map(|shown| shown.metric),
        ratio: shown.and_then(|shown| shown.ratio),
        values: shown.and_then(|shown| shown.values),
        figure: if is_same { "same program".to_owned() } else { String::new() },
        duration_s: known_s(pairs.chain(builds)),
        machine: found.comparisons.first().map(|one| machine_words(&one.machine)).unwrap_or_default(),
        ..ShelfOutcome::default()
    };
    Sketch {
        title: format!("{}: {} against {}", found.name, found.head.short(), found.base.short()),
        verdict: shown.and_then(|finding| finding.verdict),
        said: said.to_owned(),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// The verdict is the one of all good settings together, or else of the setting that decides the outcome.
fn host_trial(found: &HostTrial) -> Sketch {
    let came = outcome::of_host_trial(found);
    let decides = found.tried.iter().find(|knob| Some(knob.verdict) == came.verdict);
    let shown = found.together.as_ref().or(decides);
    let kept = found.tried.iter().filter(|knob| knob.decision == Decision::Accepted).count();
    let left = if found.left_in_force.is_some() { "; still active" } else { "" };
    let tried: Vec<&str> = found.tried.iter().map(|knob| knob.title.as_str()).collect();
    let is_one_of_many = found.together.is_none() && tried.len() > 1;
    let outcome = ShelfOutcome {
        subject: if tried.is_empty() { found.target.clone() } else { tried.join("; ") },
        target: found.target.clone(),
        layer: "host".to_owned(),
        series: format!("host-trial {}", found.target),
        word: came.lower(),
        mark: came.verdict,
        figure_name: shown.filter(|_| is_one_of_many).map(|knob| knob.title.clone()).unwrap_or_default(),
        duration_s: pairs_s(found.tried.iter().chain(&found.together).map(|knob| &knob.comparison)),
        machine: machine_words(&found.machine),
        ..shown.map(|knob| figures(&knob.comparison)).unwrap_or_default()
    };
    Sketch {
        title: found.target.clone(),
        verdict: shown.map(|knob| knob.verdict),
        said: format!("{kept} of {} settings helped{left}", found.tried.len()),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// There is no verdict, because there was no comparison.
fn capacity(found: &Capacity) -> Sketch {
    let place = place(&found.address, &found.variant);
    let slo = found.design.promise.join(", ");
    let outcome = ShelfOutcome {
        subject: format!("capacity of {place}"),
        target: place.to_owned(),
        series: format!("capacity {place} {} {slo}", found.workload.name),
        metric: found.held_requests_per_s.map(|_| Metric::Capacity),
        value: found.held_requests_per_s,
        figure_name: slo,
        machine: machine_words(&found.machine),
        ..worded(&outcome::of_capacity(found))
    };
    Sketch {
        title: under(&found.variant, &found.workload.name),
        said: hone_document::curve::knee(found),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// The figure is the highest steady rate, or what larger batches change.
fn curve(found: &Curve) -> Sketch {
    let place = place(&found.address, &found.variant);
    let of_rate = || {
        let rate = outcome::highest_steady_rate(found)?;
        Some((format!("{} requests/s", hone_format::rate(rate)), "highest steady rate".to_owned()))
    };
    let (subject, figure) = match found.over {
        CurveOver::Rate => ("sweep of rates", of_rate()),
        CurveOver::RecordsPerBatch => ("sweep of batch sizes", of_batches(found)),
    };
    let (figure, figure_name) = figure.unwrap_or_default();
    let outcome = ShelfOutcome {
        subject: format!("{subject} on {place}"),
        target: place.to_owned(),
        figure,
        figure_name,
        machine: machine_words(&found.machine),
        ..worded(&outcome::of_curve(found))
    };
    Sketch {
        title: under(&found.variant, &found.workload.name),
        said: outcome.word.clone(),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// The change of the CPU per record from the smallest to the largest batches, with its name.
fn of_batches(found: &Curve) -> Option<(String, String)> {
    let sizes = || found.points.iter().map(|point| point.records_per_batch);
    let (least, most) = (sizes().min()?, sizes().max()?);
    let cpu = |size: u32| {
        let points = found.points.iter().filter(|point| point.records_per_batch == size);
        let values: Vec<f64> =
            points.filter_map(|point| point.values.get(&Metric::CpuPerRecord).copied()).collect();
        geometric_mean(&values).map(|(mean, _)| mean)
    };
    let ratio = cpu(most)? / cpu(least)?;
    let name = format!("{}, {least} → {most} records per batch", Metric::CpuPerRecord.label());
    (most > least && ratio.is_finite()).then(|| (hone_format::change(ratio), name))
}

/// The figure is where the tail begins.
fn tail(found: &TailAccount) -> Sketch {
    let outcome = ShelfOutcome {
        subject: format!("slowest requests of {}", found.target),
        target: found.target.clone(),
        figure: hone_format::time_us(found.threshold_us),
        figure_name: hone_record::percentile(found.quantile),
        ..worded(&outcome::of_tail(found))
    };
    Sketch { title: found.target.clone(), outcome: Some(outcome), ..Sketch::default() }
}

/// The outcome is the verdict on the topic with the most costly batches, and the figure is what they cost.
fn xray(found: &BatchXray) -> Sketch {
    let worst = found.topics.first();
    let needless = worst.and_then(|topic| {
        let rate = hone_format::measured(topic.needless_batches_per_s()?);
        Some((format!("{rate} batches/s"), format!("needless, {}", topic.topic)))
    });
    let mean = || {
        let topic = worst?;
        let mean = topic.mean_bytes?.value;
        Some((hone_format::bytes(mean as u64), format!("mean batch, {}", topic.topic)))
    };
    let (figure, figure_name) = needless.or_else(mean).unwrap_or_default();
    let outcome = ShelfOutcome {
        subject: format!("batches of {}", found.source),
        target: found.source.clone(),
        layer: "client".to_owned(),
        figure,
        figure_name,
        ..worded(&outcome::of_xray(found))
    };
    let topics = hone_format::counted(found.topics.len() as u64, "topic", "topics");
    Sketch {
        title: found.source.clone(),
        said: format!("{topics}: {}", outcome.word),
        outcome: Some(outcome),
        ..Sketch::default()
    }
}

/// The outcome is the largest loss of pipeline slots. Without slots, the figure is the share of user code.
fn diagnosis(found: &Diagnosis) -> Sketch {
    let program = found.watched.as_ref().and_then(|watched| watched.program.as_deref());
    let name = program.map_or(found.source.as_str(), |path| path.rsplit('/').next().unwrap_or(path));
    let lost =
        outcome::largest_loss(found).map(|(_, percent)| (format!("{percent:.1} %"), "of the pipeline slots"));
    let user = || Some((hone_format::percent(found.user_share?), "of the CPU in user code"));
    let (figure, figure_name) = lost.or_else(user).unwrap_or_default();
    let outcome = ShelfOutcome {
        subject: format!("diagnosis of {name}"),
        target: name.to_owned(),
        figure,
        figure_name: figure_name.to_owned(),
        ..worded(&outcome::of_diagnosis(found))
    };
    Sketch {
        title: found.source.clone(),
        said: outcome.word.clone(),
        outcome: Some(outcome),
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
        assert_eq!(verdict, Some(Verdict::NotShown), "of the setting that decides");
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
        let of_capacity = sketch_of(capacity.clone()).outcome.unwrap();
        assert_eq!((of_capacity.word.as_str(), of_capacity.value), ("capacity found", Some(2_828.0)));
        assert_eq!(
            (of_capacity.subject.as_str(), of_capacity.figure_name.as_str()),
            ("capacity of 127.0.0.1:9092", "p99 <= 10.0 ms")
        );
        assert_eq!(told(capacity), ("target under load “w”".to_owned(), None, said));
    }

    fn sketch_of<T: Body>(body: T) -> Sketch {
        sketch(&Envelope::new(body).to_text().unwrap()).unwrap().unwrap()
    }

    #[test]
    fn every_run_has_a_word_and_the_figure_behind_it() {
        let of = |found: Sketch| {
            let outcome = found.outcome.unwrap();
            (outcome.subject, outcome.word, outcome.figure, outcome.figure_name)
        };
        let texts = |subject: &str, word: &str, figure: &str, name: &str| {
            (subject.to_owned(), word.to_owned(), figure.to_owned(), name.to_owned())
        };
        let loaded = hone_experiment::fixture::window();
        let load = sketch_of(loaded.clone()).outcome.unwrap();
        assert_eq!((load.word.as_str(), load.mark), ("steady", None));
        assert_eq!(load.value, loaded.value(load.metric.unwrap()));
        assert!(load.value.is_some() && load.duration_s == Some(loaded.duration_s), "{load:?}");
        let finding = hone_record::BatchFinding {
            verdict: hone_record::BatchVerdict::LingerBound,
            share: 1.0,
            producer: None,
            evidence: String::new(),
            action: String::new(),
            rule: String::new(),
        };
        let topic = hone_record::TopicXray {
            topic: "orders".to_owned(),
            batches: 100,
            batches_per_s: Some(50.0),
            needless_batches: 80.0,
            findings: vec![finding],
            ..hone_record::TopicXray::default()
        };
        let xray = BatchXray { source: "broker-1:9092".to_owned(), topics: vec![topic], notes: Vec::new() };
        assert_eq!(
            of(sketch_of(xray)),
            texts("batches of broker-1:9092", "LINGER_BOUND", "40.0 batches/s", "needless, orders")
        );
        let diagnosis = Diagnosis {
            evidence: hone_record::Evidence::Sampled,
            source: "process 7 (redis-server), 10.0 s".to_owned(),
            user_share: Some(0.25),
            parts: Vec::new(),
            shifts: Vec::new(),
            watched: Some(hone_record::Watched {
                program: Some("/usr/bin/redis-server".to_owned()),
                ..hone_record::Watched::default()
            }),
            notes: Vec::new(),
        };
        assert_eq!(
            of(sketch_of(diagnosis)),
            texts("diagnosis of redis-server", "no verdict", "25.0 %", "of the CPU in user code")
        );
        let (_, word, _, name) = of(sketch_of(hone_experiment::fixture::trial(false)));
        assert_eq!((word.as_str(), name.as_str()), ("inconclusive", "field-guide"));
        let gate = hone_experiment::fixture::gate(GateOutcome::Worse, hone_record::GateState::Worse);
        let pairs = gate.comparisons.iter().flat_map(|one| &one.pairs).map(|pair| pair.took_s).sum::<f64>();
        let built: f64 =
            [&gate.base, &gate.head].iter().filter(|build| !build.kept).map(|build| build.build_s).sum();
        let found = sketch_of(gate).outcome.unwrap();
        assert_eq!((found.word.as_str(), found.mark), ("failed", Some(Verdict::Worse)));
        assert!((found.duration_s.unwrap_or(0.0) - pairs - built).abs() < 1e-9, "builds count, too");
    }

    #[test]
    fn a_proof_has_the_figures_of_its_best_step() {
        let step = |change: &str, ratio: f64, decision| {
            let mut comparison = hone_experiment::fixture::comparison(None);
            for judged in comparison.judgements.iter_mut().filter(|judged| judged.primary) {
                judged.estimate.ratio = ratio;
            }
            ProofStep {
                change: change.to_owned(),
                decision,
                comparison: Some(comparison),
                words: Vec::new(),
                why: String::new(),
                promise: None,
                guards: Vec::new(),
                before: hone_record::BatchState::default(),
                after: hone_record::BatchState::default(),
                foretold: None,
            }
        };
        let steps = [
            step("linger=5ms", 0.9, Decision::Accepted),
            step("codec=lz4", 0.5, Decision::Accepted),
            step("codec=none", 0.4, Decision::Rejected),
        ];
        let shown = best(steps.iter().filter(|step| step.decision == Decision::Accepted)).unwrap();
        assert_eq!(shown.change, "codec=lz4");
        assert_eq!(best(steps.iter()).unwrap().change, "codec=none");
        assert!(best(std::iter::empty()).is_none());
    }

    #[test]
    fn an_outcome_says_what_was_compared_and_what_came_out() {
        let outcome = |found: &Comparison| comparison(found).outcome.unwrap();
        let mut found = hone_experiment::fixture::comparison(None);
        let named = outcome(&found);
        assert_eq!((named.subject.as_str(), named.variants.is_some()), ("B against A", true));
        assert!(named.ratio.is_some() && named.metric == Some(Metric::CpuPerRecord), "{named:?}");
        found.targets = ["10.0.0.1:9092", "10.0.0.2:9092"].map(str::to_owned);
        let shown = outcome(&found);
        assert_eq!(
            (shown.subject.as_str(), shown.target.as_str()),
            ("10.0.0.1:9092 → 10.0.0.2:9092", "10.0.0.1:9092")
        );
        assert_eq!((shown.variants, shown.layer.as_str()), (None, ""));
        let change = |to: &str| hone_record::Change {
            kind: "client".to_owned(),
            name: "linger.ms".to_owned(),
            from: Some("0".to_owned()),
            to: to.to_owned(),
            was: None,
        };
        let [five, ten] =
            ["5", "10"].map(|to| outcome(&Comparison { change: Some(change(to)), ..found.clone() }));
        assert_eq!((five.subject.as_str(), five.layer.as_str()), ("client.linger.ms: 0 -> 5", "client"));
        assert_eq!(five.series, ten.series, "one setting, whatever its value");
        assert_ne!(five.series, shown.series);
    }
}
