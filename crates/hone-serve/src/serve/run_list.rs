//! Runs as rows of a list: what each one compared or changed, and the history of its metric. And the windows that a list of records hides.

use std::collections::{BTreeMap, HashMap};

use hone_experiment::folder::RESULTS;
use hone_record::{ShelfOutcome, ShelfRecord, ShelfRun, ShelfWindow};

use super::shelf::{Content, SINGLE};

/// Maximum points of a sparkline.
const MOST_POINTS: usize = 30;
/// Maximum choices of a filter: the most frequent ones.
const MOST_CHOICES: usize = 50;

/// What the index knows of one run.
#[derive(Default)]
struct Facts<'a> {
    records: usize,
    /// The result, with its place in [`RESULTS`].
    result: Option<(usize, &'a ShelfRecord)>,
    /// One address for each variant.
    addresses: BTreeMap<&'a str, &'a str>,
}

/// All runs, newest first, without their state.
pub(super) fn summaries(content: &Content) -> Vec<ShelfRun> {
    let mut facts: HashMap<&str, Facts<'_>> = HashMap::new();
    for item in content.records.values() {
        let record = &item.record;
        let Some(run) = record.run.as_deref() else { continue };
        let known = facts.entry(run).or_default();
        known.records += 1;
        if let Some(ShelfWindow { variant, address, .. }) = &record.window {
            known.addresses.entry(variant.as_str()).or_insert(address.as_str());
        }
        // The result of the run, not of one of its parts. An X-ray in the folder of another run is not its result.
        let is_own = |folder: &str, name: &str| {
            let known = content.runs.get(run);
            known.is_some_and(|run| run.name == folder && (run.is_single || !SINGLE.contains(&name)))
        };
        let place = record.path.rsplit_once('/');
        let place = place.filter(|(folder, name)| !record.is_broken() && is_own(folder, name));
        let place = place.and_then(|(_, name)| RESULTS.iter().position(|result| *result == name));
        if let Some(place) = place
            && known.result.is_none_or(|(best, _)| place < best)
        {
            known.result = Some((place, record));
        }
    }
    let mut runs: Vec<ShelfRun> = content
        .runs
        .values()
        .map(|run| {
            let known = facts.remove(run.id.as_str()).unwrap_or_default();
            let result = known.result.map(|(_, record)| record);
            ShelfRun {
                id: run.id.clone(),
                path: run.name.clone(),
                kind: result.map(|record| record.kind.clone()).unwrap_or_default(),
                title: result.map(|record| record.title.clone()).unwrap_or_default(),
                verdict: result.and_then(|record| record.verdict),
                at_unix_ms: run.newest_ms,
                records: known.records,
                result: result.map(|record| record.id.clone()),
                outcome: result.and_then(|record| outcome(record, &known.addresses)),
                ..ShelfRun::default()
            }
        })
        .collect();
    runs.sort_by(|one, other| other.at_unix_ms.cmp(&one.at_unix_ms).then_with(|| one.path.cmp(&other.path)));
    runs
}

/// The outcome of a record. If it only names its variants, the addresses of their windows say what was compared.
fn outcome(record: &ShelfRecord, addresses: &BTreeMap<&str, &str>) -> Option<ShelfOutcome> {
    let mut outcome = record.outcome.clone()?;
    if let Some([a, b]) = &outcome.variants {
        let address = |variant: &String| addresses.get(variant.as_str()).copied().unwrap_or_default();
        let (at_a, at_b) = (address(a), address(b));
        if !at_a.is_empty() && !at_b.is_empty() && at_a != at_b {
            outcome.subject = format!("{at_a} → {at_b}");
            outcome.target = at_a.to_owned();
            outcome.series = format!("{} {at_a} {at_b}", outcome.series);
        } else if outcome.target.is_empty() {
            outcome.target = at_a.to_owned();
        }
    }
    Some(outcome)
}

/// Gives each row the values of its metric in the runs of the same series, up to the row itself.
pub(super) fn add_histories(all: &[ShelfRun], rows: &mut [ShelfRun]) {
    let mut series: HashMap<String, Vec<(u64, f64)>> = HashMap::new();
    let known = |run: &ShelfRun| {
        let outcome = run.outcome.as_ref()?;
        let after = outcome.values.map(|[_, after]| after).or(outcome.value)?;
        Some((series_of(outcome)?, (run.at_unix_ms, after)))
    };
    for (name, point) in all.iter().filter_map(known) {
        series.entry(name).or_default().push(point);
    }
    for points in series.values_mut() {
        points.sort_by_key(|(at, _)| *at);
    }
    for row in rows {
        let name = row.outcome.as_ref().and_then(series_of);
        let Some(points) = name.and_then(|name| series.get(&name)) else { continue };
        let end = points.partition_point(|(at, _)| *at <= row.at_unix_ms);
        let begin = end.saturating_sub(MOST_POINTS);
        row.history = points[begin..end].iter().map(|(_, value)| *value).collect();
    }
}

/// Values of different metrics never form one line.
fn series_of(outcome: &ShelfOutcome) -> Option<String> {
    let metric = outcome.metric?;
    (!outcome.series.is_empty()).then(|| format!("{} {}", metric.name(), outcome.series))
}

/// The most frequent of these texts with their number.
pub(super) fn choices<'a>(texts: impl Iterator<Item = &'a str>) -> BTreeMap<String, usize> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    texts.filter(|text| !text.is_empty()).for_each(|text| *counts.entry(text).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
    counts.into_iter().take(MOST_CHOICES).map(|(text, count)| (text.to_owned(), count)).collect()
}

/// Whether a record is a window inside a run, and not a result.
pub(super) fn is_of_run(record: &ShelfRecord) -> bool {
    record.window.is_some() && record.run.is_some() && record.outcome.is_none()
}

/// Hides the windows of runs, and returns how many of them match the filter. Where there is nothing else, they stay.
pub(super) fn hide_windows(all: &mut Vec<&ShelfRecord>, wants: impl Fn(&&ShelfRecord) -> bool) -> usize {
    if all.iter().all(|record| is_of_run(record)) {
        return 0;
    }
    let hidden = all.iter().filter(|record| is_of_run(record) && wants(record)).count();
    all.retain(|record| !is_of_run(record));
    hidden
}

#[cfg(test)]
mod tests {
    use hone_record::Metric;

    use super::*;

    fn run(at_unix_ms: u64, series: &str, after: f64) -> ShelfRun {
        let outcome = ShelfOutcome {
            series: series.to_owned(),
            metric: Some(Metric::LatencyP99),
            values: Some([1.0, after]),
            ..ShelfOutcome::default()
        };
        ShelfRun { at_unix_ms, outcome: Some(outcome), ..ShelfRun::default() }
    }

    #[test]
    fn windows_of_runs_are_hidden_and_counted() {
        let window = |path: &str| ShelfRecord {
            path: path.to_owned(),
            run: Some("0123456789abcdef".to_owned()),
            window: Some(hone_record::ShelfWindow::default()),
            ..ShelfRecord::default()
        };
        let loaded =
            ShelfRecord { outcome: Some(hone_record::ShelfOutcome::default()), ..window("load/window.json") };
        let saved = ShelfRecord { run: None, ..window("nightly/00.json") };
        let [first, second] = ["000-a", "000-b"].map(window);
        let mut all = vec![&first, &loaded, &second, &saved];
        let hidden = hide_windows(&mut all, |record: &&ShelfRecord| record.path == "000-a");
        let left: Vec<&str> = all.iter().map(|record| record.path.as_str()).collect();
        assert_eq!((hidden, &left[..]), (1, ["load/window.json", "nightly/00.json"].as_slice()));
        let mut alone = vec![&first, &second];
        assert_eq!((hide_windows(&mut alone, |_: &&ShelfRecord| true), alone.len()), (0, 2));
    }

    #[test]
    fn a_history_ends_at_its_own_run_and_keeps_to_its_series() {
        let all = [run(3, "x", 30.0), run(2, "y", 99.0), run(1, "x", 10.0), run(2, "x", 20.0)];
        let mut rows = all.clone();
        add_histories(&all, &mut rows);
        let histories: Vec<&[f64]> = rows.iter().map(|row| row.history.as_slice()).collect();
        assert_eq!(histories, [&[10.0, 20.0, 30.0][..], &[99.0], &[10.0], &[10.0, 20.0]]);
        let many: Vec<ShelfRun> = (0..100).map(|at| run(at, "x", at as f64)).collect();
        let mut last = [many[99].clone()];
        add_histories(&many, &mut last);
        // A load has a value and nothing to compare it with.
        let alone = |mut run: ShelfRun| {
            let outcome = run.outcome.take().unwrap();
            let value = outcome.values.map(|[_, value]| value);
            run.outcome = Some(ShelfOutcome { values: None, value, ..outcome });
            run
        };
        let loads = [alone(run(1, "l", 10.0)), alone(run(2, "l", 20.0))];
        let mut rows = loads.clone();
        add_histories(&loads, &mut rows);
        assert_eq!(rows[1].history, [10.0, 20.0]);
        assert_eq!((last[0].history.len(), last[0].history[29]), (MOST_POINTS, 99.0));
    }

    #[test]
    fn addresses_of_windows_say_what_names_do_not() {
        let addresses = BTreeMap::from([("A", "10.0.0.1:9092"), ("B", "10.0.0.2:9092")]);
        let named = ShelfOutcome {
            subject: "B against A".to_owned(),
            variants: Some(["A".to_owned(), "B".to_owned()]),
            ..ShelfOutcome::default()
        };
        let record = ShelfRecord { outcome: Some(named.clone()), ..ShelfRecord::default() };
        let found = outcome(&record, &addresses).unwrap();
        assert_eq!(
            (found.subject.as_str(), found.target.as_str()),
            ("10.0.0.1:9092 → 10.0.0.2:9092", "10.0.0.1:9092")
        );
        assert_eq!(outcome(&record, &BTreeMap::new()), Some(named), "without windows the names remain");
        assert_eq!(outcome(&ShelfRecord::default(), &addresses), None);
    }

    #[test]
    fn a_filter_offers_the_most_frequent_targets() {
        let texts = ["b", "a", "b", "", "c"];
        assert_eq!(
            choices(texts.into_iter()),
            BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 1)])
        );
        let many: Vec<String> = (0..200).map(|number| number.to_string()).collect();
        assert_eq!(choices(many.iter().map(String::as_str)).len(), MOST_CHOICES);
    }
}
