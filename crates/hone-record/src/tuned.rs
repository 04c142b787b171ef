//! Short form of a `hone tune` run for its run summary: each change's expected gain, its measured gain, its re-test, and the total saving
//! at the tuned load.

use serde::{Deserialize, Serialize};

use crate::comparison::{Comparison, Estimate, Judgement, Verdict};
use crate::foretelling::{Expectation, Foretold};
use crate::metric::Metric;
use crate::proof::{BatchState, Decision, ProofStep};
use crate::tuning::{Altitude, Hope, Together, Tuning, TuningStep};

/// Share of an expected gain that the measurement must reach, as for the prediction of a replay.
const CAME_LEAST: f64 = 0.5;

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The metric that decides.
    pub objective: Metric,
    /// In a few sentences.
    pub sentence: String,
    /// Why it ended, in words.
    pub stopped: String,
    /// The state before the first change, by an A/A pilot.
    pub first: BatchState,
    /// Each tried change, in the order of time.
    pub changes: Vec<TunedChange>,
    /// The product of the kept changes' re-test ratios; see [`Together::product`].
    pub product: Option<f64>,
    /// All kept changes compared with the first state: ratio with its confidence interval.
    pub all: Option<[f64; 3]>,
    /// The saving of the kept changes.
    pub saving: Option<Saving>,
}

/// A tried change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TunedChange {
    /// Its name.
    pub change: String,
    /// The layer.
    pub altitude: Altitude,
    /// Its expected gain.
    #[serde(rename = "expected_gain", alias = "hope")]
    pub hope: Hope,
    /// Comparison with the changes kept before: ratio with its confidence interval; `None` without an estimate.
    pub ratio: Option<[f64; 3]>,
    /// Re-test: all kept changes compared with all except this one.
    pub among: Option<[f64; 3]>,
    /// Its final outcome, in words.
    pub in_the_end: String,
}

impl Tuned {
    /// Makes the short form of a finished run.
    pub fn from_tuning(tuning: &Tuning) -> Self {
        let together = tuning.together.as_ref();
        Self {
            objective: tuning.objective,
            sentence: tuning.sentence(),
            stopped: tuning.stopped.clone(),
            first: tuning.first.clone(),
            changes: tuning.steps.iter().map(|step| change(tuning, step)).collect(),
            product: together.and_then(|together| together.product),
            all: together.and_then(|together| ratio_of(together.all.as_ref()?)),
            saving: tuning.saving(),
        }
    }
}

fn change(tuning: &Tuning, step: &TuningStep) -> TunedChange {
    let name = &step.step.change;
    let was_accepted = step.step.decision == Decision::Accepted;
    let beside = tuning.together.as_ref().filter(|_| was_accepted).and_then(|found| beside(found, name));
    let is_kept = tuning.kept.contains(name);
    let is_back = tuning.together.iter().flat_map(|found| &found.put_back).any(|gone| gone.change == *name);
    let in_the_end = match (was_accepted, is_kept, is_back) {
        (false, ..) => step.step.outcome(),
        (true, true, _) if beside.is_some_and(|beside| beside.decision == Decision::Rejected) => {
            "kept, not reconfirmed"
        }
        (true, true, _) => "kept",
        (true, false, true) => "rolled back",
        (true, false, false) => "replaced",
    };
    TunedChange {
        change: name.clone(),
        altitude: step.altitude,
        hope: step.hope.clone(),
        ratio: ratio_of(&step.step),
        among: beside.and_then(ratio_of),
        in_the_end: in_the_end.to_owned(),
    }
}

/// The latest re-test: all kept changes compared with all except this one.
fn beside<'a>(together: &'a Together, change: &str) -> Option<&'a ProofStep> {
    let back = together.put_back.iter().map(|gone| &gone.step);
    together.without.iter().chain(back).find(|step| step.change == change)
}

fn ratio_of(step: &ProofStep) -> Option<[f64; 3]> {
    let estimate = &step.comparison.as_ref()?.primary()?.estimate;
    Some([estimate.ratio, estimate.low, estimate.high])
}

impl Hope {
    /// Compares the expected gain with the measurement. It is confirmed if the change is better and the whole confidence interval reaches
    /// at least half of the expected gain. It is refuted if the whole confidence interval lies below half. It stays undecided in all other
    /// cases, and if the A/A control differs by itself.
    pub fn beside(&self, objective: Metric, step: &ProofStep) -> Foretold {
        let sign = if objective.lower_is_better() { -1.0 } else { 1.0 };
        let half = 1.0 + sign * self.share * CAME_LEAST;
        let rule = format!(
            "expected to {} {:.0} % of the {}, since {}. Confirmed if the change is better and the whole \
             confidence interval of the ratio reaches at least half of that: {half:.3} or {}. Refuted if \
             the whole interval falls short of it; otherwise undecided",
            if sign < 0.0 { "save" } else { "add" },
            self.share * 100.0,
            objective.label(),
            self.why,
            if sign < 0.0 { "below" } else { "above" },
        );
        let judged = step.comparison.as_ref().and_then(Comparison::primary);
        let came_true = judged.and_then(|judged| came(judged, sign, half));
        Foretold { expected: Expectation::Gain, rule, came_true }
    }
}

fn came(judged: &Judgement, sign: f64, half: f64) -> Option<bool> {
    let differs = |control: &Estimate| control.low > 1.0 || control.high < 1.0;
    // The two ends, the one with the smaller gain first.
    let [least, most] = match sign < 0.0 {
        true => [half - judged.estimate.high, half - judged.estimate.low],
        false => [judged.estimate.low - half, judged.estimate.high - half],
    };
    match judged.verdict {
        _ if judged.control.as_ref().is_some_and(differs) => None,
        Verdict::Better if least >= 0.0 => Some(true),
        _ if most < 0.0 => Some(false),
        _ => None,
    }
}

/// The saving of the kept changes at the tuned load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// Cores that the target uses, which are its CPU seconds per second; `None` if unknown.
    pub cores: Option<SavedFigure>,
    /// Bytes per second that the producers send; `None` if the client does not report them.
    pub sent_bytes_per_s: Option<SavedFigure>,
    /// Number of windows of the first state and of the final state.
    pub windows: [u32; 2],
    /// Method of measurement, in words.
    pub how: String,
    /// Price of a core. `None` in older records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_price: Option<CorePrice>,
}

/// Price of a core of the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorePrice {
    /// Price per month.
    pub per_month: f64,
    /// For example `USD`.
    pub currency: String,
    /// Whose price, and from when.
    pub source: String,
}

/// A figure before and after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SavedFigure {
    /// Value in the first state.
    pub before: f64,
    /// Value with all kept changes.
    pub after: f64,
    /// Before minus after; negative for an increase.
    pub saved: f64,
    /// Confidence interval of the saving; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
}

impl SavedFigure {
    fn from_values(before: Option<f64>, after: Option<f64>) -> Option<Self> {
        let (before, after) = (before?, after?);
        Some(Self { before, after, saved: before - after, interval: None })
    }

    /// `0.337 [0.335, 0.339] of 0.356`.
    fn text(&self, unit: &dyn Fn(f64) -> String) -> String {
        let span = |[low, high]: [f64; 2]| format!(" [{low:.3}, {high:.3}]");
        match self.saved < 0.0 {
            true => {
                // The interval of the increase, with the same sign as the figure before it.
                let interval = self.interval.map(|[low, high]| span([-high, -low])).unwrap_or_default();
                format!("none, but {}{interval} more than {}", unit(-self.saved), unit(self.before))
            }
            false => {
                let interval = self.interval.map(span).unwrap_or_default();
                format!("{}{interval} of {}", unit(self.saved), unit(self.before))
            }
        }
    }
}

impl Saving {
    /// The saving of a change compared with the state before. `None` if one of them has no window, or neither figure is known.
    pub fn from_step(step: &ProofStep) -> Option<Self> {
        let (before, after) = (&step.before, &step.after);
        let cores = SavedFigure::from_values(before.cores(), after.cores());
        let judged = step.comparison.iter().flat_map(|found| &found.judgements);
        let of_record =
            judged.map(|judged| &judged.estimate).find(|found| found.metric == Metric::CpuPerRecord);
        let interval = |before: f64| of_record.map(|found| cores_interval(before, found));
        let cores = cores.map(|cores| SavedFigure { interval: interval(cores.before), ..cores });
        let sent = SavedFigure::from_values(before.sent_bytes_per_s(), after.sent_bytes_per_s());
        if cores.is_none() && sent.is_none() {
            return None;
        }
        let windows = [before.windows, after.windows];
        let how = how(cores, sent, windows);
        Some(Self { cores, sent_bytes_per_s: sent, windows, how, core_price: None })
    }

    /// The saving as a sentence without its full stop.
    pub fn sentence(&self) -> String {
        let cores = self.cores.map(|cores| format!("{} cores", cores.text(&|value| format!("{value:.3}"))));
        let sent = self.sent_bytes_per_s.map(|sent| format!("{} on the network", sent.text(&bytes_per_s)));
        let month = self.per_month().zip(self.core_price.as_ref()).map(|(month, price)| {
            format!("{} per month", month.text(&|value| format!("{value:.2} {}", price.currency)))
        });
        let told: Vec<String> = cores.into_iter().chain(sent).chain(month).collect();
        format!("Saved at this load: {}", told.join("; "))
    }
}

impl Saving {
    /// The price of the cores per month, in the currency of the price. `None` without cores or a price.
    pub fn per_month(&self) -> Option<SavedFigure> {
        let (cores, price) = (self.cores?, self.core_price.as_ref()?);
        let of = |cores: f64| cores * price.per_month;
        Some(SavedFigure {
            before: of(cores.before),
            after: of(cores.after),
            saved: of(cores.saved),
            interval: cores.interval.map(|ends| ends.map(of)),
        })
    }
}

/// Both states have the same records per second. So the ratio of the cores is the ratio of the CPU per record, whose confidence interval is
/// known.
fn cores_interval(before: f64, of_record: &Estimate) -> [f64; 2] {
    [of_record.high, of_record.low].map(|ratio| before * (1.0 - ratio))
}

fn how(cores: Option<SavedFigure>, sent: Option<SavedFigure>, windows: [u32; 2]) -> String {
    let [before, after] = windows;
    let cores = match cores {
        Some(SavedFigure { interval: Some(_), .. }) => {
            "Cores are the target’s CPU seconds per second. Their interval is the confidence interval of \
             the CPU per record, at the same records per second."
        }
        Some(_) => "Cores are the target’s CPU seconds per second.",
        None => "The target’s CPU is unknown.",
    };
    let sent = match sent {
        Some(_) => "Bytes are counted at the producers’ sockets, protocol overhead included.",
        None => "The client does not report the bytes that its sockets sent.",
    };
    format!(
        "Measured in {before} windows of the first state and {after} windows with the kept changes, in \
         pairs, under the tuned load. {cores} {sent}"
    )
}

/// Throughput in decimal units, as usual for networks.
fn bytes_per_s(value: f64) -> String {
    let (size, unit) = match value {
        large if large >= 1e9 => (value / 1e9, "GB/s"),
        middle if middle >= 1e6 => (value / 1e6, "MB/s"),
        small if small >= 1e3 => (value / 1e3, "kB/s"),
        _ => return format!("{value:.0} B/s"),
    };
    let digits = match size {
        hundreds if hundreds >= 100.0 => 0,
        tens if tens >= 10.0 => 1,
        _ => 2,
    };
    format!("{size:.digits$} {unit}")
}

impl Tuning {
    /// The saving of the kept changes at this load. `None` if no change is kept, if it was not measured, or if the load is a ramp search,
    /// since no two windows then had the same load.
    pub fn saving(&self) -> Option<Saving> {
        let worth = self.worth().filter(|_| self.workload.climb().is_none())?;
        Some(Saving { core_price: self.core_price.clone(), ..Saving::from_step(worth)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::{CpuSeconds, SocketBytes};

    fn estimate([ratio, low, high]: [f64; 3]) -> Estimate {
        Estimate {
            metric: Metric::CpuPerRecord,
            pairs: 8,
            value_a: 20.0,
            value_b: 20.0 * ratio,
            ratio,
            low,
            high,
            confidence: 0.95,
            log_ratio_sd: 0.02,
            detectable_ratio: 1.05,
            builds: None,
        }
    }

    fn came_true(share: f64, ratio: [f64; 3], verdict: Verdict, control: Option<[f64; 2]>) -> Option<bool> {
        let control = control.map(|[low, high]| estimate([1.0, low, high]));
        let judged =
            Judgement { estimate: estimate(ratio), control, verdict, why: String::new(), primary: true };
        came(&judged, -1.0, 1.0 - share * CAME_LEAST)
    }

    #[test]
    fn a_hope_is_decided_by_the_whole_interval_and_by_half_of_it() {
        use Verdict::{Better, NotShown, Worse};
        assert_eq!(came_true(0.8, [0.3, 0.28, 0.32], Better, None), Some(true));
        assert_eq!(came_true(0.4, [0.78, 0.75, 0.80], Better, None), Some(true), "half of it is enough");
        assert_eq!(came_true(0.4, [0.78, 0.75, 0.81], Better, None), None, "the interval holds less, too");
        assert_eq!(came_true(0.4, [0.9, 0.85, 0.95], Better, None), Some(false), "better, by less than half");
        assert_eq!(came_true(0.4, [0.7, 0.65, 0.75], NotShown, None), None, "it must be judged better, too");
        assert_eq!(came_true(0.1, [0.98, 0.94, 1.02], NotShown, None), None);
        assert_eq!(came_true(0.5, [0.98, 0.94, 1.02], NotShown, None), Some(false));
        assert_eq!(came_true(0.1, [1.4, 1.3, 1.5], Worse, Some([0.98, 1.01])), Some(false));
        assert_eq!(
            came_true(0.8, [0.3, 0.28, 0.32], NotShown, Some([1.01, 1.15])),
            None,
            "a control differs"
        );
        // Of a metric of which more is better.
        let judged = |ratio| Judgement {
            estimate: estimate(ratio),
            control: None,
            verdict: Better,
            why: String::new(),
            primary: true,
        };
        assert_eq!(came(&judged([1.3, 1.2, 1.4]), 1.0, 1.1), Some(true));
        assert_eq!(came(&judged([1.05, 1.02, 1.08]), 1.0, 1.1), Some(false));
    }

    fn step(cores: [f64; 2], sent: [u64; 2]) -> ProofStep {
        let state = |place: usize| BatchState {
            windows: 8,
            seconds: 10.0,
            target_cpu: Some(CpuSeconds { total_s: 10.0 * cores[place], user_share: Some(0.5) }),
            socket_bytes: Some(SocketBytes { sent: sent[place], received: 0 }),
            ..BatchState::default()
        };
        ProofStep {
            change: "linger=20ms".to_owned(),
            words: Vec::new(),
            decision: Decision::Accepted,
            why: String::new(),
            promise: None,
            guards: Vec::new(),
            comparison: None,
            before: state(0),
            after: state(1),
            foretold: None,
        }
    }

    #[test]
    fn a_hope_says_its_rule_and_is_open_where_nothing_was_measured() {
        let hope = Hope::new(0.2, "one record a request");
        let told = hope.beside(Metric::CpuPerRecord, &step([1.0; 2], [0; 2]));
        assert_eq!((told.came_true, told.expected), (None, Expectation::Gain));
        assert!(
            told.rule.contains("save 20 % of the CPU per record, since one record a request"),
            "{told:?}"
        );
        assert!(
            told.rule.contains("Confirmed if the change is better and the whole confidence interval"),
            "{told:?}"
        );
        assert!(told.rule.contains("0.900 or below"), "{told:?}");
        assert!(hope.beside(Metric::Throughput, &step([1.0; 2], [0; 2])).rule.contains("1.100 or above"));
    }

    #[test]
    fn what_is_saved_is_of_both_states_and_says_how() {
        let saving = Saving::from_step(&step([0.4, 0.1], [20_000_000, 5_000_000])).unwrap();
        assert_eq!(
            saving.sentence(),
            "Saved at this load: 0.300 of 0.400 cores; 1.50 MB/s of 2.00 MB/s on the network"
        );
        assert!(saving.how.starts_with("Measured in 8 windows of the first state and 8"), "{}", saving.how);
        assert_eq!(cores_interval(0.5, &estimate([0.25, 0.25, 0.5])), [0.25, 0.375]);
        let core_price =
            CorePrice { per_month: 30.0, currency: "USD".to_owned(), source: "a list".to_owned() };
        let priced = Saving { core_price: Some(core_price), ..saving };
        let month = priced.per_month().unwrap();
        assert!((month.before - 30.0 * priced.cores.unwrap().before).abs() < 1e-9);
        assert!(
            priced.sentence().contains(" USD") && priced.sentence().ends_with("per month"),
            "{}",
            priced.sentence()
        );
        let worse = Saving::from_step(&step([0.4, 0.6], [100, 100])).unwrap();
        assert!(worse.sentence().contains("none, but 0.200 more than 0.400 cores"), "{}", worse.sentence());
        let more = SavedFigure {
            before: 0.4,
            after: 0.6,
            saved: -0.2,
            interval: Some(cores_interval(0.4, &estimate([1.5, 1.4, 1.6]))),
        };
        let words = more.text(&|value| format!("{value:.3}"));
        assert_eq!(words, "none, but 0.200 [0.160, 0.240] more than 0.400", "both in the same direction");
        let mut unknown = step([0.4, 0.1], [100, 100]);
        unknown.before.target_cpu = None;
        assert_eq!(Saving::from_step(&unknown).unwrap().cores, None);
        unknown.after.socket_bytes = None;
        assert_eq!(Saving::from_step(&unknown), None, "neither is known");
    }
}
