//! Windows of different times: no pairs, no common arrivals, no control. What they still show, and what they can't show.

use std::collections::BTreeMap;

use hone_record::{
    Machine, Metric, SavedComparison, SavedEstimate, SavedFinding, SavedSide, Window, Workload,
    refused_for_loads,
};

use crate::design::{DesignError, check_levels, refused};
use crate::estimate::{mean_and_sd, ratio_of};
use crate::student::t_quantile;

/// Windows that a side needs for a confidence interval: as many as a comparison needs pairs.
pub const FEWEST_WINDOWS: usize = 5;

/// How to compare saved windows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SavedRule {
    /// The metric that comes first.
    pub primary: Metric,
    /// Two-sided error of its confidence interval.
    pub alpha: f64,
    /// Margin inside which two sides count as equal.
    pub equivalence: f64,
}

/// Refuses a metric that says nothing about a target, and an error rate or a margin without a valid confidence interval.
///
/// # Errors
/// Returns the reason.
pub fn check_saved(rule: SavedRule) -> Result<(), DesignError> {
    match refused(None).remove(&rule.primary) {
        Some(reason) => {
            Err(DesignError::NotTold { what: "the primary metric", metric: rule.primary, reason })
        }
        None => check_levels(rule.alpha, rule.equivalence),
    }
}

/// Compares two groups of windows; the names are their sources.
pub fn compare_saved(a: (&str, &[Window]), b: (&str, &[Window]), rule: SavedRule) -> SavedComparison {
    let [good_a, good_b] = [a.1, b.1].map(|windows| {
        windows.iter().filter(|window| why_saved_does_not_count(window).is_none()).collect::<Vec<_>>()
    });
    let differences = differences(&good_a, &good_b);
    let no_finding = why_nothing_is_said(&good_a, &good_b, &differences);
    let mut metrics = vec![rule.primary];
    metrics.extend(Metric::ALL.into_iter().filter(|metric| *metric != rule.primary));
    let estimates = metrics
        .into_iter()
        .filter_map(|metric| estimate(metric, &good_a, &good_b, rule, no_finding.is_none()))
        .collect();
    let (a, b) = (side(a.0, a.1), side(b.0, b.1));
    SavedComparison { cannot_show: cannot_show(&a, &b), a, b, differences, no_finding, estimates }
}

/// Why a saved window is excluded. The rule is that of a pair, and the window must be complete.
pub fn why_saved_does_not_count(window: &Window) -> Option<String> {
    let cut = || {
        let name = &window.variant;
        window.was_interrupted().then(|| format!("{name} was interrupted"))
    };
    window.why_excluded().or_else(cut)
}

fn side(source: &str, windows: &[Window]) -> SavedSide {
    let left_out: Vec<String> = windows.iter().filter_map(why_saved_does_not_count).collect();
    SavedSide {
        source: source.to_owned(),
        windows: (windows.len() - left_out.len()) as u32,
        left_out,
        from_unix_ms: windows.iter().map(|window| window.started_unix_ms).min().unwrap_or(0),
        to_unix_ms: windows
            .iter()
            .map(|window| window.started_unix_ms.saturating_add((window.duration_s * 1e3) as u64))
            .max()
            .unwrap_or(0),
    }
}

/// One question at a time: two differences leave the cause of the ratio open.
fn why_nothing_is_said(a: &[&Window], b: &[&Window], differences: &[String]) -> Option<String> {
    let fewest = a.len().min(b.len());
    if fewest < FEWEST_WINDOWS {
        let why = if fewest < 2 {
            "a single window does not show how much windows vary"
        } else {
            "this number hardly shows how much windows vary"
        };
        return Some(format!("{fewest} window(s) on a side; at least {FEWEST_WINDOWS} are necessary: {why}"));
    }
    (differences.len() > 1).then(|| {
        format!("the sides differ in {} things, so the ratio has no single cause", differences.len())
    })
}

/// The differences between the sides, besides their target. Windows that differ within a side count too.
fn differences(a: &[&Window], b: &[&Window]) -> Vec<String> {
    let loads = [a, b].map(|windows| windows.iter().map(|window| load(&window.workload)).collect::<Vec<_>>());
    let fields: Vec<&String> = loads[0].first().map(|load| load.keys().collect()).unwrap_or_default();
    let of_load = |field: &String| {
        let values = [0, 1].map(|side: usize| {
            loads[side].iter().filter_map(|load| load.get(field).cloned()).collect::<Vec<String>>()
        });
        difference(&format!("load, {field}"), values)
    };
    let of_window = |name: &str, value: &dyn Fn(&Window) -> Option<String>| {
        difference(name, [a, b].map(|windows| windows.iter().filter_map(|window| value(window)).collect()))
    };
    let machine = |window: &Window, value: fn(&Machine) -> String| {
        window.environment.as_ref().map(|environment| value(&environment.machine))
    };
    let mut found: Vec<String> = fields.into_iter().filter_map(of_load).collect();
    found.extend(
        [
            of_window("durability before the target acknowledges", &|window| {
                Some(window.durability.storage.clone())
            }),
            of_window("machine, CPU", &|window| machine(window, |found| found.cpu_model.clone())),
            of_window("machine, cores", &|window| machine(window, |found| found.cores.to_string())),
            of_window("machine, kernel", &|window| machine(window, |found| found.kernel.clone())),
            of_window("security", &|window| Some(window.environment.as_ref()?.security.clone())),
            of_window("replicas", &|window| Some(window.environment.as_ref()?.replicas?.to_string())),
        ]
        .into_iter()
        .flatten(),
    );
    found
}

/// In words, if the sides do not have one common value. An unknown value is no difference.
fn difference(name: &str, values: [Vec<String>; 2]) -> Option<String> {
    let [a, b] = values.map(|mut values| {
        values.sort();
        values.dedup();
        values
    });
    let known = !a.is_empty() && !b.is_empty();
    let same = a == b && a.len() == 1;
    (known && !same).then(|| format!("{name}: {} in A, {} in B", a.join(" and "), b.join(" and ")))
}

/// The load by field, without the fields that differ between any two windows of one run (name, seed).
fn load(workload: &Workload) -> BTreeMap<String, String> {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(workload) else {
        return BTreeMap::new();
    };
    let fields = fields.into_iter().filter(|(name, _)| name != "name" && name != "seed");
    fields.map(|(name, value)| (name, value.to_string().replace('"', ""))).collect()
}

/// Ratio of the geometric means, with Welch's confidence interval over windows: the sides may have different spreads and numbers.
fn estimate(
    metric: Metric,
    a: &[&Window],
    b: &[&Window],
    rule: SavedRule,
    may_judge: bool,
) -> Option<SavedEstimate> {
    let of = |windows: &[&Window]| logs(windows.iter().filter_map(|window| window.value(metric)));
    let (logs_a, logs_b) = (of(a), of(b));
    if logs_a.is_empty() || logs_b.is_empty() {
        return None;
    }
    let ((mean_a, sd_a), (mean_b, sd_b)) = (mean_and_sd(&logs_a), mean_and_sd(&logs_b));
    let difference = mean_b - mean_a;
    // Only windows of a climbing load have a capacity, and they show nothing else.
    let reads = |window: &&&Window| window.end_to_end.is_some();
    let has_readers = a.iter().find(reads).is_some() && b.iter().find(reads).is_some();
    let is_other = |metric: &Metric| {
        ![rule.primary, Metric::Capacity].contains(metric) && (has_readers || !metric.is_end_to_end())
    };
    let others = Metric::ALL.into_iter().filter(is_other).count() as f64;
    let alpha = if metric == rule.primary { rule.alpha } else { rule.alpha / others };
    let half = |alpha: f64| welch_half_width((sd_a, logs_a.len()), (sd_b, logs_b.len()), alpha);
    let enough = logs_a.len().min(logs_b.len()) >= FEWEST_WINDOWS;
    let interval = enough.then(|| {
        let half = half(alpha);
        (ratio_of(difference - half), ratio_of(difference + half), 1.0 - alpha)
    });
    let margin = (1.0 + rule.equivalence).ln();
    // At a fixed rate, throughput is the requested one. If one side measures up to the send only, the latencies are not comparable.
    let loads = [a, b].map(|side| side[0].workload.clone());
    let unlike = refused_for_loads(&loads).contains_key(&metric);
    let tells = enough && may_judge && !unlike && !refused(None).contains_key(&metric);
    let finding = tells.then(|| {
        if difference.abs() + half(2.0 * alpha) < margin {
            SavedFinding::WithinMargin
        } else if difference.abs() <= half(alpha) {
            SavedFinding::NotSeen
        } else {
            SavedFinding::Differs
        }
    });
    Some(SavedEstimate {
        metric,
        value_a: ratio_of(mean_a),
        value_b: ratio_of(mean_b),
        ratio: ratio_of(difference),
        interval,
        finding,
    })
}

fn logs(values: impl Iterator<Item = f64>) -> Vec<f64> {
    values.filter(|value| *value > 0.0).map(f64::ln).filter(|log| log.is_finite()).collect()
}

/// The geometric mean of a metric over windows, and the number of values in it: those with a logarithm. `None` without any.
pub fn geometric_mean(values: &[f64]) -> Option<(f64, usize)> {
    let logs = logs(values.iter().copied());
    (!logs.is_empty()).then(|| (ratio_of(mean_and_sd(&logs).0), logs.len()))
}

/// Half the width of Welch's confidence interval of a difference of means.
fn welch_half_width((sd_a, n_a): (f64, usize), (sd_b, n_b): (f64, usize), alpha: f64) -> f64 {
    let part = |sd: f64, n: usize| sd * sd / n as f64;
    let (part_a, part_b) = (part(sd_a, n_a), part(sd_b, n_b));
    let variance = part_a + part_b;
    if variance == 0.0 {
        return 0.0;
    }
    let freedom = |part: f64, n: usize| part * part / (n as f64 - 1.0);
    let freedom = variance * variance / (freedom(part_a, n_a) + freedom(part_b, n_b));
    t_quantile(1.0 - alpha / 2.0, freedom) * variance.sqrt()
}

fn cannot_show(a: &SavedSide, b: &SavedSide) -> Vec<String> {
    let apart = a.to_unix_ms <= b.from_unix_ms || b.to_unix_ms <= a.from_unix_ms;
    let order = if apart {
        let (first, second) = if a.from_unix_ms <= b.from_unix_ms { ("A", "B") } else { ("B", "A") };
        format!(
            "drift and order: all windows of {first} were measured before those of {second}; the ratio \
             includes every change in between"
        )
    } else {
        "drift and order: the windows were not measured in random order, pair by pair".to_owned()
    };
    vec![
        order,
        "one session: windows of one session share its luck, so the confidence interval is too narrow for \
         differences between sessions; a difference may come from the sessions, and no verdict is better or \
         worse"
            .to_owned(),
        "a bias between the sides: there is no A/A control".to_owned(),
        "neighbours: other processes on the machine may have hit only one side".to_owned(),
        "code layout: each side is a single build".to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_rests_on_what_has_a_logarithm() {
        let (mean, count) = geometric_mean(&[2.0, 8.0, 0.0, -1.0, f64::NAN, f64::INFINITY]).unwrap();
        assert!((mean - 4.0).abs() < 1e-12 && count == 2, "{mean} of {count}");
        assert_eq!(geometric_mean(&[0.0]), None);
    }

    /// Welch's example as textbooks have it: spreads 2 and 4, 10 and 20 values: 28 degrees of freedom, within one.
    #[test]
    fn welch_is_welch() {
        let half = welch_half_width((2.0, 10), (4.0, 20), 0.05);
        let error = (0.4_f64 + 0.8).sqrt();
        assert!((half / error - t_quantile(0.975, 28.0)).abs() < 0.01, "{}", half / error);
        assert_eq!(welch_half_width((0.0, 5), (0.0, 5), 0.05), 0.0);
    }
}
