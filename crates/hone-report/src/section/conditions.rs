//! The conditions around the windows of a comparison: errors, neighbours, the generator.

use hone_record::{Comparison, Window};

use crate::evidence::Evidence;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup};

/// The table. `None` when no window is available.
pub(crate) fn of(comparison: &Comparison, evidence: &Evidence) -> Option<Element> {
    let arms: [Vec<&Window>; 2] = [evidence.windows_a().collect(), evidence.windows_b().collect()];
    if arms.iter().all(Vec::is_empty) {
        return None;
    }
    let columns = vec![
        Column::words("condition"),
        Column::numbers(Markup::text(&comparison.a)),
        Column::numbers(Markup::text(&comparison.b)),
    ];
    let mut table = Table::new("Conditions in the included windows", columns)
        .remark("Two figures are the median and the maximum over the windows.");
    let mut row = |title: &str, read: &dyn Fn(&[&Window]) -> String| {
        table.row(Markup::text(title), arms.iter().map(|arm| Cell::number(&read(arm))).collect());
    };
    row("windows", &|arm| quantity::count(arm.len() as u64));
    let acknowledged = |arm: &[&Window]| quantity::count(total(arm, |window| window.facts.acked_requests));
    if comparison.workload.engine.operations().is_some() {
        // Nothing observes single operations, so they have no lateness and no errors.
        row("operations done", &acknowledged);
        row("load's CPU per operation", &|arm| spread(arm, generator_us_per_request, quantity::time_us));
    } else {
        row("requests acknowledged", &acknowledged);
        row("errors", &errors);
        row("generator lateness, p99", &|arm| spread(arm, lateness_us_p99, quantity::time_us));
        row("generator's CPU per request", &|arm| spread(arm, generator_us_per_request, quantity::time_us));
    }
    row("stolen by the hypervisor", &|arm| {
        spread(arm, |window| Some(window.facts.steal_share), quantity::percent)
    });
    row("used by other processes", &|arm| {
        spread(arm, |window| Some(window.facts.others_share), quantity::percent)
    });
    Some(table.finish())
}

fn total(arm: &[&Window], read: fn(&Window) -> u64) -> u64 {
    arm.iter().map(|window| read(window)).fold(0, u64::saturating_add)
}

fn errors(arm: &[&Window]) -> String {
    match total(arm, |window| window.facts.errors.values().copied().fold(0, u64::saturating_add)) {
        0 => "none".to_owned(),
        some => quantity::count(some),
    }
}

fn lateness_us_p99(window: &Window) -> Option<f64> {
    window.latencies.intended_to_sent.quantile_us(0.99)
}

fn generator_us_per_request(window: &Window) -> Option<f64> {
    let requests = window.facts.acked_requests;
    (requests > 0).then(|| window.facts.generator_cpu.total_s * 1e6 / requests as f64)
}

/// Median and largest of the windows' values.
fn spread(arm: &[&Window], read: impl Fn(&Window) -> Option<f64>, write: fn(f64) -> String) -> String {
    let mut values: Vec<f64> =
        arm.iter().filter_map(|window| read(window)).filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    match (values.get(values.len().saturating_sub(1) / 2), values.last()) {
        (Some(median), Some(largest)) => format!("{} / {}", write(*median), write(*largest)),
        _ => NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn the_median_and_the_largest_are_told() {
        let mut windows = [1, 2, 3].map(|seed| sample::window("baseline", seed, 1.0));
        for (window, steal) in windows.iter_mut().zip([0.30, 0.01, 0.02]) {
            window.facts.steal_share = steal;
        }
        let arm: Vec<&Window> = windows.iter().collect();
        let told = spread(&arm, |window| Some(window.facts.steal_share), quantity::percent);
        assert_eq!(told.replace(quantity::NBSP, " "), "2.00 % / 30.0 %");
        assert_eq!(spread(&[], |window| Some(window.facts.steal_share), quantity::percent), NONE);
    }

    #[test]
    fn errors_are_summed_over_windows_and_names() {
        let mut windows = [1, 2].map(|seed| sample::window("baseline", seed, 1.0));
        assert_eq!(errors(&windows.iter().collect::<Vec<_>>()), "none");
        windows[0].facts.errors.insert("timeout".to_owned(), 1_000);
        windows[1].facts.errors.insert("INVALID_RECORD".to_owned(), u64::MAX);
        assert_eq!(errors(&windows.iter().collect::<Vec<_>>()), quantity::count(u64::MAX));
    }
}
