//! Which windows can be compared at all.

use hone_record::{Outcome, Window};

/// A window in which more requests than this share came to nothing is another experiment.
const ERROR_SHARE_LIMIT: f64 = 0.01;

/// Why a window can't be compared, by a rule that looks at no latency and no CPU.
pub fn why_it_does_not_count(window: &Window) -> Option<String> {
    let name = &window.variant;
    match &window.outcome {
        Outcome::Steady => {}
        Outcome::Saturated { backlog_requests } => {
            return Some(format!("{name} was saturated ({backlog_requests} requests behind at the end)"));
        }
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => {
            return Some(format!(
                "the generator was late for {name} (p99 {:.0} ms, limit {:.0} ms)",
                lateness_us_p99 / 1e3,
                limit_us / 1e3
            ));
        }
        Outcome::Warming { cpu_us_per_record: [first, last], .. } => {
            return Some(format!(
                "{name} was still becoming warm (CPU per record from {first:.0} to {last:.0} µs in the window)"
            ));
        }
        Outcome::Failed { reason } => return Some(format!("{name} failed: {reason}")),
    }
    // A climb goes on to where requests fail: each of its steps is held against that limit, and those that break it are its answer.
    if window.workload.climb().is_some() {
        return None;
    }
    let failed = window.facts.requests.saturating_sub(window.facts.acked_requests);
    let share = failed as f64 / window.facts.requests.max(1) as f64;
    (share > ERROR_SHARE_LIMIT).then(|| {
        let names: Vec<&str> = window.facts.errors.keys().map(String::as_str).collect();
        format!("{name} failed {failed} of {} requests ({})", window.facts.requests, names.join(", "))
    })
}
