//! Windows at many rates as text.

use hone_format::{count, measured, rate, time_us};
use hone_record::{Capacity, CapacityEnd, Curve, CurveOver, CurvePoint, Metric, Outcome};

use crate::table::table;
use crate::window::load_words;
use crate::wrapped;

/// One measured window, as it comes.
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
        Outcome::Warming { .. } => "  still warming".to_owned(),
        Outcome::GeneratorLate { .. } => "  the generator was late".to_owned(),
        Outcome::Failed { reason } => format!("  failed: {reason}"),
    }
}

/// A search.
pub fn capacity(found: &Capacity) -> String {
    format!(
        "{} at {}: {}\n{}\n\n{}",
        found.variant,
        found.address,
        load_words(&found.workload),
        wrapped(&knee_words(found)),
        points_table(&found.points, CurveOver::Rate)
    )
}

/// The same in a few words, for a list.
pub fn knee(found: &Capacity) -> String {
    let promise = found.design.promise.join(", ");
    match (found.held_requests_per_s.map(rate), found.failed_requests_per_s.map(rate)) {
        (Some(held), Some(failed)) => format!("{promise} up to {held} requests/s, not at {failed}"),
        (Some(held), None) => format!("{promise} at {held} requests/s"),
        (None, Some(failed)) => format!("{promise} not at {failed} requests/s"),
        (None, None) => format!("{promise} at no rate that was confirmed"),
    }
}

/// The result in a sentence.
fn knee_words(found: &Capacity) -> String {
    let promise = found.design.promise.join(", ");
    let each = found.design.confirmations;
    let held = found.held_requests_per_s.map(rate);
    let failed = found.failed_requests_per_s.map(rate);
    let interval = match (&held, &failed) {
        (Some(held), Some(failed)) => format!(
            "{promise} holds up to {held} requests/s and breaks by {failed}: each was measured {each} times or more, and said the same \
             every time"
        ),
        (Some(held), None) => {
            format!("{promise} holds at {held} requests/s, in all of {each} windows or more")
        }
        (None, Some(failed)) => {
            format!(
                "{promise} breaks at {failed} requests/s, in all of {each} windows; no rate below was confirmed"
            )
        }
        (None, None) => format!("no rate was confirmed for {promise}"),
    };
    let end = match &found.end {
        CapacityEnd::Found => String::new(),
        CapacityEnd::NotReached => {
            format!(
                ". It was not seen to break: the highest rate that may be tried is {} (--max-rate)",
                rate(found.design.most_requests_per_s)
            )
        }
        CapacityEnd::NothingHeld => {
            format!(
                ". No rate down to {} held; below that a window of {} s has too few samples",
                rate(found.design.least_requests_per_s),
                found.workload.duration_s
            )
        }
        CapacityEnd::GeneratorLate if failed.is_some() => {
            ". Between these rates the generator fell behind, so Hone can't narrow the knee further. Give the generator its own core"
                .to_owned()
        }
        CapacityEnd::GeneratorLate => {
            ". Above that the generator, not the target, is the limit: it could not keep its schedule. Give it a core of its \
             own, or load with several at once (hone load --shard, at rates of your own: a search has one generator)"
                .to_owned()
        }
        CapacityEnd::OutOfWindows => format!(
            ". The search used up its {} windows before both ends were confirmed; allow more with --max-windows, or take \
             longer windows, which scatter less",
            found.design.most_windows
        ),
        CapacityEnd::BrokenOff { why } => format!(". The search was broken off: {why}"),
    };
    format!("{interval}{end}.")
}

/// A sweep.
pub fn curve(found: &Curve) -> String {
    format!(
        "{} at {}: {}\n\n{}",
        found.variant,
        found.address,
        load_words(&found.workload),
        points_table(&found.points, found.over)
    )
}

/// A row for each place on the axis: the median of its windows.
fn points_table(points: &[CurvePoint], over: CurveOver) -> String {
    let mut places: Vec<f64> = points.iter().map(|point| point.position(over)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let promised = points.iter().any(|point| point.held.is_some());
    let first = match over {
        CurveOver::Rate => "requests/s",
        CurveOver::RecordsPerBatch => "records a batch",
    };
    let mut head = vec![first, "windows"];
    head.extend(promised.then_some("held"));
    head.extend(["reached/s", "p50", "p90", "p99", "p99.9", "CPU/record"]);
    let mut rows = vec![head.into_iter().map(str::to_owned).collect::<Vec<String>>()];
    for place in places {
        let at: Vec<&CurvePoint> =
            points.iter().filter(|point| point.position(over).total_cmp(&place).is_eq()).collect();
        let span = |metric| {
            median(at.iter().filter_map(|point| point.values.get(&metric).copied()))
                .map_or("-".to_owned(), time_us)
        };
        let reached = median(at.iter().map(|point| match over {
            CurveOver::Rate => point.reached_requests_per_s,
            CurveOver::RecordsPerBatch => point.reached_records_per_s,
        }));
        let mut row = vec![place_words(place), count(at.len() as u64)];
        row.extend(
            promised.then(|| count(at.iter().filter(|point| point.held == Some(true)).count() as u64)),
        );
        row.push(reached.map_or("-".to_owned(), measured));
        row.extend(
            [
                Metric::LatencyP50,
                Metric::LatencyP90,
                Metric::LatencyP99,
                Metric::LatencyP999,
                Metric::CpuPerRecord,
            ]
            .map(span),
        );
        rows.push(row);
    }
    table(&rows)
}

/// Batch sizes are whole, and so are most rates.
fn place_words(place: f64) -> String {
    if place.fract() == 0.0 { count(place as u64) } else { measured(place) }
}

/// The middle value; of two, the lower one.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}
