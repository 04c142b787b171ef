//! What `hone history` shows: lines of records, ledgers and imported files, with their change points. [`export`] writes them for other tools.

pub mod export;
mod import;
mod recorded;

use std::path::PathBuf;

use anyhow::{Result, bail};
use hone_compare::{CHANGE_POINT_RULE, MOST_VALUES};
use hone_experiment::ending::Usage;
use hone_format::{did_you_mean, nearest};
use hone_record::{ChangePoint, LineState, Measure, Metric, MetricHistory, MetricLine};
use hone_tool::interrupt;

pub use self::import::Format;
use crate::serve::history::newest_searched;

/// What to show.
#[derive(Debug, Default)]
pub struct Query {
    /// Folders of runs and records, record files, and ledgers.
    pub places: Vec<PathBuf>,
    /// Files of other tools, each `FILE` or `LABEL=FILE`. Each is a point of its lines, in this order.
    pub imports: Vec<String>,
    /// Format of all imports. `None` detects it from the content.
    pub format: Option<Format>,
    /// Names of metrics; empty for all.
    pub metrics: Vec<String>,
    /// Name or id of a line, or the first digits of its id.
    pub line: Option<String>,
    /// Only lines where a smaller value is better, or only those where a larger one is.
    pub lower_is_better: Option<bool>,
    /// Number of newest points to use; `None` for as many as the search allows.
    pub newest: Option<usize>,
    /// Number of newest points in which a change point is new.
    pub within: usize,
}

/// The lines with their change points.
///
/// # Errors
/// A place or a file can't be read, nothing has a line, or a name matches none. An interrupt.
pub fn find(query: &Query) -> Result<MetricHistory> {
    let mut notes = Vec::new();
    let mut lines = import::lines(&query.imports, query.format)?;
    if !query.places.is_empty() {
        lines.extend(recorded::lines(&query.places, &mut notes)?);
    }
    if lines.is_empty() {
        bail!(
            "there is no line yet: a point is a record that names a commit or a build, or a ledger entry\n  \
             next: write records with `hone load --commit COMMIT`, or name results of another tool with \
             --import"
        );
    }
    let lines = selected(lines, query)?;
    let mut lines = lines.into_iter().map(|line| searched(line, query)).collect::<Result<Vec<_>>>()?;
    lines.sort_by_cached_key(|line| (line.state, line.name.clone(), line.id.clone()));
    Ok(MetricHistory { lines, within: query.within, rule: CHANGE_POINT_RULE.to_owned(), notes })
}

/// The lines that the query names.
fn selected(mut lines: Vec<MetricLine>, query: &Query) -> Result<Vec<MetricLine>> {
    for metric in &query.metrics {
        if !lines.iter().any(|line| is_metric(&line.measure, metric)) {
            return Err(no_metric(&lines, metric));
        }
    }
    if !query.metrics.is_empty() {
        lines.retain(|line| query.metrics.iter().any(|metric| is_metric(&line.measure, metric)));
    }
    if let Some(wanted) = &query.line {
        let near = did_you_mean(nearest(wanted, lines.iter().map(|line| line.name.as_str())));
        lines.retain(|line| line.name == *wanted || is_id(&line.id, wanted));
        if lines.is_empty() {
            bail!(Usage(format!(
                "no line has the name or id `{wanted}`{near}\n  next: see the lines without --line"
            )));
        }
    }
    if let Some(lower) = query.lower_is_better {
        lines.retain(|line| line.measure.lower_is_better == Some(lower));
        if lines.is_empty() {
            bail!(Usage("no line has values of this direction\n  next: omit --better".to_owned()));
        }
    }
    Ok(lines)
}

fn is_metric(measure: &Measure, wanted: &str) -> bool {
    let known = Metric::from_name(wanted).is_some_and(|metric| metric.name() == measure.name);
    known || measure.name == wanted
}

fn is_id(id: &str, wanted: &str) -> bool {
    wanted.len() >= MetricLine::ID_DIGITS && id.starts_with(wanted)
}

fn no_metric(lines: &[MetricLine], wanted: &str) -> anyhow::Error {
    let mut known: Vec<&str> = lines.iter().map(|line| line.measure.name.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    let near = did_you_mean(nearest(wanted, known.iter().copied()));
    Usage(format!("no line has the metric `{wanted}`{near}\n  next: use one of {}", known.join(", "))).into()
}

/// A line with its newest points and their change points.
fn searched(line: MetricLine, query: &Query) -> Result<MetricLine> {
    if interrupt::requested() {
        bail!("interrupted");
    }
    let (newest, change_points) = newest_searched(&line.points, query.newest.unwrap_or(MOST_VALUES));
    let (left_out, points) = (line.points.len() - newest.len(), newest.to_vec());
    let line = MetricLine { points, left_out, change_points, ..line };
    Ok(MetricLine { state: state(&line, query.within), ..line })
}

/// What the search says of a line.
fn state(line: &MetricLine, within: usize) -> LineState {
    let values = || line.points.iter().map(|point| point.value);
    let is_flat = values().zip(values().skip(1)).all(|(one, next)| one == next);
    let new = || line.change_points.iter().filter(|change| change.is_new(line.points.len(), within));
    let directions = || new().map(|change| line.measure.is_better(change));
    if line.points.len() < ChangePoint::FEWEST_POINTS {
        LineState::TooFewPoints
    } else if !is_flat && !values().all(|value| value > 0.0) {
        LineState::NotPositive
    } else if directions().any(|better| better == Some(false)) {
        LineState::NewWorse
    } else if directions().any(|better| better.is_none()) {
        LineState::NewChange
    } else if new().next().is_some() {
        LineState::NewBetter
    } else if line.change_points.is_empty() {
        LineState::NoChange
    } else {
        LineState::OldChange
    }
}

#[cfg(test)]
mod tests {
    use hone_record::HistoryPoint;

    use super::*;

    fn line(name: &str, values: &[f64]) -> MetricLine {
        let point = |value: &f64| HistoryPoint { value: *value, ..HistoryPoint::default() };
        let measure = Measure { name: "time".to_owned(), lower_is_better: Some(true), ..Measure::default() };
        let points = values.iter().map(point).collect();
        MetricLine {
            id: "0123456789abcdef".to_owned(),
            name: name.to_owned(),
            measure,
            points,
            ..MetricLine::default()
        }
    }

    /// Values that scatter by 2 % around 100, times the factor from a place on.
    fn step(count: usize, from: usize, factor: f64) -> Vec<f64> {
        let scatter = [0.0, 1.2, -0.8, 0.4, -1.5, 1.9, -0.3];
        let level = |at: usize| if at < from { 100.0 } else { 100.0 * factor };
        (0..count).map(|at| level(at) + scatter[at % scatter.len()]).collect()
    }

    fn state_of(values: &[f64], within: usize) -> LineState {
        searched(line("a", values), &Query { within, ..Query::default() }).unwrap().state
    }

    #[test]
    fn a_planted_change_is_new_only_among_the_newest_points() {
        assert_eq!(state_of(&step(20, 16, 1.2), 5), LineState::NewWorse);
        assert_eq!(state_of(&step(20, 16, 0.8), 5), LineState::NewBetter);
        assert_eq!(state_of(&step(20, 10, 1.2), 5), LineState::OldChange);
        assert_eq!(state_of(&step(20, 10, 1.2), 10), LineState::NewWorse);
        assert_eq!(state_of(&step(20, 20, 1.0), 5), LineState::NoChange);
    }

    #[test]
    fn without_a_direction_a_change_is_neither_better_nor_worse() {
        let mut unknown = line("a", &step(20, 16, 1.2));
        unknown.measure.lower_is_better = None;
        let found = searched(unknown, &Query { within: 5, ..Query::default() }).unwrap();
        assert_eq!(found.state, LineState::NewChange);
    }

    #[test]
    fn five_points_are_too_few_and_zeros_have_no_ratio() {
        assert_eq!(state_of(&step(5, 2, 2.0), 5), LineState::TooFewPoints);
        assert_eq!(state_of(&[0.0; 8], 5), LineState::NoChange, "equal values did not change");
        assert_eq!(state_of(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0], 5), LineState::NotPositive);
    }

    #[test]
    fn only_the_newest_points_are_used() {
        let query = Query { within: 5, newest: Some(8), ..Query::default() };
        let found = searched(line("a", &step(20, 10, 1.2)), &query).unwrap();
        assert_eq!((found.points.len(), found.left_out, found.state), (8, 12, LineState::NoChange));
    }

    #[test]
    fn a_name_an_id_or_a_metric_selects_lines_and_a_wrong_one_is_refused() {
        let all = || vec![line("broker", &[1.0]), line("client", &[1.0])];
        let names = |query: &Query| -> Result<Vec<String>> {
            Ok(selected(all(), query)?.into_iter().map(|line| line.name).collect())
        };
        let by_line = |text: &str| Query { line: Some(text.to_owned()), ..Query::default() };
        assert_eq!(names(&by_line("client")).unwrap(), ["client"]);
        assert_eq!(names(&by_line("01234567")).unwrap().len(), 2);
        let refused = |query: &Query| names(query).unwrap_err().to_string();
        assert!(refused(&by_line("brocker")).contains("`brocker` (did you mean `broker`?)\n  next:"));
        assert!(refused(&by_line("0123")).contains("no line has the name or id"), "too short");
        let by_metric = |text: &str| Query { metrics: vec![text.to_owned()], ..Query::default() };
        assert_eq!(names(&by_metric("time")).unwrap().len(), 2);
        assert!(refused(&by_metric("p99")).contains("use one of time"));
        let larger = Query { lower_is_better: Some(false), ..Query::default() };
        assert!(refused(&larger).contains("--better"));
    }
}
