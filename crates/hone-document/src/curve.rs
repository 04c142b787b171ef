//! Windows at many rates as text.

use hone_format::{count, rate, time_us};
use hone_record::{Capacity, CurvePoint, Metric, Outcome};

/// One measured window, as progress.
pub fn point_line(point: &CurvePoint) -> String {
    let tail = point.values.get(&Metric::LatencyP99).map_or("-".to_owned(), |us| time_us(*us));
    let said = match (point.held, &point.why) {
        (Some(true), _) => "  held".to_owned(),
        (Some(false), Some(why)) => format!("  broke: {why}"),
        (_, Some(why)) => format!("  {why}"),
        _ => outcome_word(&point.outcome),
    };
    let records = match point.records_per_batch {
        1 => "1 record".to_owned(),
        more => format!("{} records", count(more.into())),
    };
    format!("  {:>9} requests/s of {records}  p99 {tail}{said}", rate(point.requests_per_s))
}

fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Steady => String::new(),
        Outcome::Saturated { .. } => "  saturated".to_owned(),
        Outcome::Warming { .. } => "  still warming up".to_owned(),
        Outcome::GeneratorLate { .. } => "  the generator fell behind".to_owned(),
        Outcome::Failed { reason } => format!("  failed: {reason}"),
    }
}

/// The same in a few words, for a list.
pub fn knee(found: &Capacity) -> String {
    let promise = found.design.promise.join(", ");
    match (found.held_requests_per_s.map(rate), found.failed_requests_per_s.map(rate)) {
        (Some(held), Some(failed)) => format!("{promise} up to {held} requests/s, not at {failed}"),
        (Some(held), None) => format!("{promise} at {held} requests/s"),
        (None, Some(failed)) => format!("{promise} not at {failed} requests/s"),
        (None, None) => format!("{promise} at no confirmed rate"),
    }
}
