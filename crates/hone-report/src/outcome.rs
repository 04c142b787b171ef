//! What came out of a run, in a word or two. A report shows it large, and a list shows it first in a row.

use hone_record::{
    BatchVerdict, BatchXray, Capacity, CapacityEnd, Category, Comparison, Curve, CurveOver, CurvePoint,
    Decision, Diagnosis, Fate, GateOutcome, HostTrial, Outcome as WindowOutcome, Proof, ProofStep, Recovery,
    StallKind, Story, TailAccount, Tuning, Verdict, Window,
};

/// An outcome with its colour and mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Decides colour and mark; `None` is neutral.
    pub verdict: Option<Verdict>,
    /// The word, for example `Better`, `SLO met` or `2 of 5 kept`.
    pub word: String,
}

impl Outcome {
    /// An outcome with this word.
    pub fn new(verdict: impl Into<Option<Verdict>>, word: &str) -> Self {
        Self { verdict: verdict.into(), word: word.to_owned() }
    }

    /// The word in a sentence: `better`, but `SLO met` and `LINGER_BOUND`.
    pub fn lower(&self) -> String {
        let mut letters = self.word.chars();
        let Some(first) = letters.next() else { return String::new() };
        let is_name = letters.clone().next().is_some_and(char::is_uppercase);
        if is_name { self.word.clone() } else { first.to_lowercase().chain(letters).collect() }
    }
}

/// A load: the SLO decides if there is one, otherwise whether the target carried the load.
pub fn of_load(window: &Window) -> Outcome {
    let rules = &window.requirements;
    let (verdict, word) = match &window.outcome {
        WindowOutcome::Failed { .. } => (Some(Verdict::Worse), "Failed"),
        WindowOutcome::Saturated { .. } => (Some(Verdict::Worse), "Saturated"),
        WindowOutcome::GeneratorLate { .. } => (Some(Verdict::NotShown), "Not valid"),
        WindowOutcome::Warming { .. } => (Some(Verdict::NotShown), "Not steady"),
        WindowOutcome::Steady if rules.is_empty() => after_faults(window).unwrap_or((None, "Steady")),
        WindowOutcome::Steady if rules.iter().any(|rule| rule.met == Some(false)) => {
            (Some(Verdict::Worse), "SLO not met")
        }
        WindowOutcome::Steady if rules.iter().all(|rule| rule.met == Some(true)) => {
            (Some(Verdict::Better), "SLO met")
        }
        WindowOutcome::Steady => (Some(Verdict::NotShown), "SLO unknown"),
    };
    Outcome::new(verdict, word)
}

/// What faults did to the load. `None` without faults.
fn after_faults(window: &Window) -> Option<(Option<Verdict>, &'static str)> {
    let outage = window.outage.as_ref()?;
    let mut faults = outage.faults.iter().filter(|fault| fault.at_s.is_some()).peekable();
    Some(match outage.lost_records {
        Some(1..) => (Some(Verdict::Worse), "Records lost"),
        _ if faults.peek().is_none() => (Some(Verdict::NotShown), "Not disturbed"),
        _ if faults.any(|fault| fault.recovery == Recovery::NotYet) => {
            (Some(Verdict::Worse), "Not recovered")
        }
        None => (Some(Verdict::NotShown), "Losses unknown"),
        Some(0) => (None, "Recovered"),
    })
}

/// Steps that were tried one after the other: better if something is kept; a regression only where nothing else came out. `kept_word` is
/// `kept` or `accepted`.
pub fn of_steps(steps: &[&ProofStep], kept: usize, kept_word: &str) -> Outcome {
    let verdicts = || steps.iter().filter_map(|step| step.comparison.as_ref().map(Comparison::verdict));
    let nothing = format!("Nothing {kept_word}");
    match kept {
        0 if steps.is_empty() => Outcome::new(None, "Nothing tried"),
        0 if verdicts().any(|verdict| verdict == Verdict::NotShown) => {
            Outcome::new(Verdict::NotShown, "Inconclusive")
        }
        0 if verdicts().any(|verdict| verdict == Verdict::Worse) => Outcome::new(Verdict::Worse, &nothing),
        0 => Outcome::new(Verdict::Equivalent, &nothing),
        kept => Outcome::new(Verdict::Better, &format!("{kept} of {} {kept_word}", steps.len())),
    }
}

/// A proof of batch settings.
pub fn of_proof(found: &Proof) -> Outcome {
    let accepted = found.steps.iter().filter(|step| step.decision == Decision::Accepted).count();
    of_steps(&found.steps.iter().collect::<Vec<_>>(), accepted, "accepted")
}

/// A tuned service.
pub fn of_tuning(found: &Tuning) -> Outcome {
    let steps: Vec<&ProofStep> = found.steps.iter().map(|step| &step.step).collect();
    of_steps(&steps, found.kept.len(), "kept")
}

/// A trial of host settings: the best of its verdicts.
pub fn of_host_trial(found: &HostTrial) -> Outcome {
    let has = |wanted: Verdict| found.tried.iter().any(|knob| knob.verdict == wanted);
    let (verdict, word) = match () {
        () if has(Verdict::Better) => (Some(Verdict::Better), "Better"),
        () if has(Verdict::NotShown) => (Some(Verdict::NotShown), "Inconclusive"),
        () if has(Verdict::Worse) => (Some(Verdict::Worse), "Regression"),
        () if has(Verdict::Equivalent) => (Some(Verdict::Equivalent), "Equivalent"),
        () => (None, "Nothing tried"),
    };
    Outcome::new(verdict, word)
}

/// A commit compared with its base.
pub fn of_gate(outcome: GateOutcome) -> Outcome {
    let (verdict, word) = match outcome {
        GateOutcome::Passed | GateOutcome::SameProgram => (Verdict::Better, "Passed"),
        GateOutcome::Worse => (Verdict::Worse, "Failed"),
        GateOutcome::TooLittlePower | GateOutcome::NotSeen => (Verdict::NotShown, "Inconclusive"),
    };
    Outcome::new(verdict, word)
}

/// A search for the capacity: whether a rate is confirmed, and if not, why.
pub fn of_capacity(found: &Capacity) -> Outcome {
    let is_held = found.held_requests_per_s.is_some();
    match &found.end {
        CapacityEnd::BrokenOff { .. } => Outcome::new(Verdict::NotShown, "Interrupted"),
        CapacityEnd::NothingHeld => Outcome::new(Verdict::Worse, "SLO not met"),
        _ if !is_held => Outcome::new(Verdict::NotShown, "Not confirmed"),
        CapacityEnd::Found => Outcome::new(None, "Capacity found"),
        CapacityEnd::GeneratorLate if found.failed_requests_per_s.is_some() => {
            Outcome::new(None, "Capacity found")
        }
        CapacityEnd::NotReached => Outcome::new(None, "Limit not reached"),
        CapacityEnd::GeneratorLate => Outcome::new(Verdict::NotShown, "Generator too slow"),
        CapacityEnd::OutOfWindows => Outcome::new(Verdict::NotShown, "Not confirmed"),
    }
}

/// A sweep: whether the target carried every load.
pub fn of_curve(found: &Curve) -> Outcome {
    let has = |wanted: fn(&WindowOutcome) -> bool| found.points.iter().any(|point| wanted(&point.outcome));
    match () {
        () if found.points.is_empty() => Outcome::new(None, "Nothing measured"),
        () if has(|outcome| matches!(outcome, WindowOutcome::Failed { .. })) => {
            Outcome::new(Verdict::Worse, "Failed")
        }
        () if has(|outcome| matches!(outcome, WindowOutcome::Saturated { .. })) => {
            Outcome::new(None, "Saturated")
        }
        () if found.points.iter().all(|point| point.outcome == WindowOutcome::Steady) => {
            Outcome::new(None, "Steady")
        }
        () => Outcome::new(Verdict::NotShown, "Not steady"),
    }
}

/// The highest rate of a sweep at which all windows are steady, below the first rate at which one is not. `None` for a sweep over batch
/// sizes, and if there is no such rate.
pub fn highest_steady_rate(found: &Curve) -> Option<f64> {
    if found.over != CurveOver::Rate {
        return None;
    }
    let rates = |is_steady: bool| {
        let wanted = move |point: &&CurvePoint| (point.outcome == WindowOutcome::Steady) == is_steady;
        found.points.iter().filter(wanted).map(|point| point.requests_per_s)
    };
    let first_bad = rates(false).fold(f64::INFINITY, f64::min);
    rates(true).filter(|rate| *rate < first_bad).max_by(f64::total_cmp)
}

/// A batch X-ray: the verdict on the topic with the most costly batches.
pub fn of_xray(found: &BatchXray) -> Outcome {
    let finding = found.topics.first().and_then(|topic| topic.findings.first());
    let Some(finding) = finding else { return Outcome::new(None, "No verdict") };
    let verdict = match finding.verdict {
        BatchVerdict::Healthy => Verdict::Better,
        BatchVerdict::Fair | BatchVerdict::Quiet => Verdict::Equivalent,
        BatchVerdict::NoEvidence => Verdict::NotShown,
        _ => Verdict::Worse,
    };
    Outcome::new(verdict, finding.verdict.name())
}

/// A tail: the kind of its cause.
pub fn of_tail(account: &TailAccount) -> Outcome {
    match account.named().first().map(|cause| cause.kind) {
        Some(StallKind::Throttling) => Outcome::new(None, "CPU limit"),
        Some(StallKind::Pause) => Outcome::new(None, "Pauses"),
        Some(StallKind::File) => Outcome::new(None, "A slow file"),
        Some(StallKind::PageFault) => Outcome::new(None, "Page faults"),
        Some(StallKind::RunQueue) => Outcome::new(None, "Busy cores"),
        None => Outcome::new(Verdict::NotShown, "None of these"),
    }
}

/// A diagnosis: the category with the largest loss, or whether a better layout of the code will help.
pub fn of_diagnosis(found: &Diagnosis) -> Outcome {
    if let Some((category, _)) = largest_loss(found) {
        return Outcome::new(None, &capital(category.label()));
    }
    match found.parts.iter().find_map(|part| part.verdict.as_ref()) {
        Some(verdict) => Outcome::new(None, &format!("Layout helps: {}", verdict.likelihood)),
        None => Outcome::new(Verdict::NotShown, "No verdict"),
    }
}

/// The category in which the first part loses most of its slots, with its share in percent. With two measurements, the one after.
pub fn largest_loss(found: &Diagnosis) -> Option<(Category, f64)> {
    let after = found.parts.get(found.shifts.len()..).unwrap_or_default();
    let slots = after.iter().find_map(|part| part.slots.as_ref())?;
    let lost = Category::LEVEL_1.into_iter().filter(|category| *category != Category::Retiring);
    let shares = lost.filter_map(|category| Some((category, slots.share(category)?)));
    shares.max_by(|(_, left), (_, right)| left.total_cmp(right))
}

/// The entries of a run summary: how many changes stay.
pub fn of_story(story: &Story) -> Outcome {
    let fates = story.fates();
    let count = |fate: Fate| fates.changes_of(fate).len();
    let [kept, undecided, open] = [Fate::Kept, Fate::Undecided, Fate::NotShown].map(count);
    let all = kept + undecided + open + count(Fate::Rejected) + count(Fate::TakenBack);
    match kept {
        0 if all == 0 => Outcome::new(None, "Nothing tried"),
        0 if all == undecided => Outcome::new(None, "Nothing decided"),
        0 if open > 0 => Outcome::new(Verdict::NotShown, "Nothing kept"),
        0 => Outcome::new(Verdict::Equivalent, "Nothing kept"),
        kept => Outcome::new(Verdict::Better, &format!("{kept} of {all} kept")),
    }
}

/// The text with its first letter in upper case.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use hone_record::{BatchFinding, Requirement, TopicXray};

    use super::*;
    use crate::sample;

    fn of_curve_points(outcomes: &[WindowOutcome]) -> Curve {
        let mut found = sample::curve();
        found.over = CurveOver::Rate;
        let known = found.points[0].clone();
        found.points = outcomes
            .iter()
            .zip(1..)
            .map(|(outcome, place)| CurvePoint {
                requests_per_s: 1_000.0 * f64::from(place),
                outcome: outcome.clone(),
                ..known.clone()
            })
            .collect();
        found
    }

    #[test]
    fn the_slo_decides_a_load_if_there_is_one() {
        let mut window = sample::window("target", 1, 1.0);
        let word = |window: &Window| of_load(window).lower();
        assert_eq!((word(&window), of_load(&window).verdict), ("steady".to_owned(), None));
        window.requirements = vec![Requirement {
            rule: "p99 < 3 ms".to_owned(),
            limit: 3_000.0,
            measured: Some(4_000.0),
            unit: "µs".to_owned(),
            met: Some(false),
            reason: None,
        }];
        assert_eq!(
            (word(&window), of_load(&window).verdict),
            ("SLO not met".to_owned(), Some(Verdict::Worse))
        );
        window.requirements[0].met = Some(true);
        assert_eq!(word(&window), "SLO met");
        window.outcome = WindowOutcome::Failed { reason: "gone".to_owned() };
        assert_eq!(word(&window), "failed");
    }

    #[test]
    fn a_sweep_ends_at_the_first_rate_that_is_not_steady() {
        let late = WindowOutcome::Failed { reason: "x".to_owned() };
        let found = of_curve_points(&[WindowOutcome::Steady, late, WindowOutcome::Steady]);
        assert_eq!((of_curve(&found).word.as_str(), highest_steady_rate(&found)), ("Failed", Some(1_000.0)));
        let found = of_curve_points(&[WindowOutcome::Steady, WindowOutcome::Steady]);
        assert_eq!((of_curve(&found).word.as_str(), highest_steady_rate(&found)), ("Steady", Some(2_000.0)));
        let none = of_curve_points(&[]);
        assert_eq!((of_curve(&none).word.as_str(), highest_steady_rate(&none)), ("Nothing measured", None));
    }

    #[test]
    fn an_xray_has_the_verdict_of_its_most_costly_topic() {
        let finding = BatchFinding {
            verdict: BatchVerdict::LingerBound,
            share: 1.0,
            producer: None,
            evidence: String::new(),
            action: String::new(),
            rule: String::new(),
        };
        let topic = TopicXray { findings: vec![finding], ..TopicXray::default() };
        let found = BatchXray { topics: vec![topic], ..BatchXray::default() };
        assert_eq!(of_xray(&found), Outcome::new(Verdict::Worse, "LINGER_BOUND"));
        assert_eq!(of_xray(&found).lower(), "LINGER_BOUND");
        assert_eq!(of_xray(&BatchXray::default()).word, "No verdict");
    }

    #[test]
    fn a_summary_counts_the_changes_that_stay() {
        assert_eq!(of_story(&sample::story()), Outcome::new(Verdict::Better, "4 of 7 kept"));
        assert_eq!(of_story(&Story::default()).word, "Nothing tried");
    }

    #[test]
    fn steps_say_how_many_are_kept() {
        let (tuning, _) = sample::tuning();
        let kept = tuning.kept.len();
        assert_eq!(of_tuning(&tuning).word, format!("{kept} of {} kept", tuning.steps.len()));
        assert_eq!(of_steps(&[], 0, "accepted").word, "Nothing tried");
    }
}
