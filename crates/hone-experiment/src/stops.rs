//! Which windows a search or a sweep is of, before the first one is measured.

use anyhow::{Result, bail};
use hone_record::{CapacityDesign, Schedule, Workload};

use crate::curve::Stop;
use crate::ending::Usage;
use crate::require::Rule;

/// The design of a search, with the rules that have to hold and the fewest requests a second that can tell so.
///
/// # Errors
/// When it begins below that, or its numbers make no sense.
pub fn capacity_design(
    mut design: CapacityDesign,
    slo: &[Rule],
    workload: &Workload,
) -> Result<CapacityDesign> {
    if !(design.precision > 1.001 && design.precision <= 2.0) {
        bail!(Usage(format!("--precision must lie between 1.001 and 2, got {}", design.precision)));
    }
    let needed = slo.iter().map(Rule::samples_needed).max().unwrap_or(0) as f64;
    // A Poisson window has fewer than asked for now and then, but not by five standard deviations.
    let least_requests_per_s = ((needed + 5.0 * needed.sqrt()) / workload.duration_s).max(1.0);
    if workload.requests_per_s < least_requests_per_s {
        bail!(Usage(format!(
            "the promise needs {needed} requests a window: {} requests/s for {} s are too few; begin with --rate {} or \
             take a longer --duration",
            workload.requests_per_s,
            workload.duration_s,
            least_requests_per_s.ceil()
        )));
    }
    if !(design.most_requests_per_s >= workload.requests_per_s && design.most_requests_per_s <= 1e7) {
        bail!(Usage(format!(
            "--max-rate must lie between --rate and 1e7, got {}",
            design.most_requests_per_s
        )));
    }
    design.promise = slo.iter().map(Rule::to_string).collect();
    Ok(CapacityDesign { least_requests_per_s, ..design })
}

/// The windows of a sweep, each checked before the first one is measured.
///
/// # Errors
/// With the one that can't be had.
pub fn stops(rates: &[f64], sizes: &[u32], repeats: u32, workload: &Workload) -> Result<Vec<Stop>> {
    let records_per_s = workload.requests_per_s * f64::from(workload.records_per_batch);
    let rates = rates
        .iter()
        .map(|rate| Stop { requests_per_s: *rate, records_per_batch: workload.records_per_batch });
    let sizes = sizes.iter().map(|records| Stop {
        requests_per_s: records_per_s / f64::from(*records),
        records_per_batch: *records,
    });
    let once: Vec<Stop> = rates.chain(sizes).collect();
    for stop in &once {
        hone_load::check(&Workload {
            requests_per_s: stop.requests_per_s,
            records_per_batch: stop.records_per_batch,
            ..workload.clone()
        })?;
    }
    let mut order = Vec::new();
    for round in 0..u64::from(repeats) {
        order.extend(shuffled(&once, workload.seed.wrapping_add(round)));
    }
    Ok(order)
}

/// Each window has a rate of its own, which a schedule with rates of its own would not follow: the same load would stand at every
/// point.
///
/// # Errors
/// With what to say instead.
pub fn check_schedule(schedule: &Schedule) -> Result<()> {
    match schedule {
        Schedule::Poisson | Schedule::Uniform | Schedule::Bursts { .. } => Ok(()),
        Schedule::Ramp { .. } | Schedule::Steps { .. } | Schedule::Climb(_) | Schedule::Replay { .. } => bail!(Usage(
            "a search and a sweep set the rate of each window, and this load's schedule has rates of its own: leave out --schedule (in a file \
             `schedule`), or take poisson, uniform or bursts"
                .to_owned()
        )),
    }
}

/// In an order that a slow drift of the machine does not follow (Fisher and Yates, by SplitMix64).
fn shuffled(stops: &[Stop], seed: u64) -> Vec<Stop> {
    let mut state = seed;
    let mut order = stops.to_vec();
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        order.swap(last, ((u128::from(mixed) * (last as u128 + 1)) >> 64) as usize);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::promise;

    #[test]
    fn a_promise_is_a_rule_in_short() {
        for (text, written) in [
            ("p99=10ms", "p99 <= 10.0 ms"),
            ("p99.9<50ms", "p99.9 < 50.0 ms"),
            ("records>=5", "records >= 5.00/s"),
        ] {
            assert_eq!(promise(text).unwrap().to_string(), written);
        }
        assert!(promise("p99").is_err() && promise("p99=ten").is_err());
    }

    #[test]
    fn every_stop_comes_once_a_round() {
        let stops: Vec<Stop> =
            (1..=20).map(|records_per_batch| Stop { requests_per_s: 1.0, records_per_batch }).collect();
        let mut order = shuffled(&stops, 5);
        assert_ne!(order, stops);
        assert_ne!(order, shuffled(&stops, 6));
        order.sort_by_key(|stop| stop.records_per_batch);
        assert_eq!(order, stops);
    }
}
