//! Training mixes compared with each other: the effect of one workload's profile on the other workloads. Pure.

use hone_record::{Comparison, MatrixCell, MatrixRow, Workload};

use hone_experiment::spec::{Compare, is_same_load};

use hone_experiment::variants::{BASELINE, Made, Mix, Profile, Variant};

/// One row for each profile of the first kind; the mix of all comes first.
pub(super) fn rows(
    variants: &[Variant],
    training: &[&Workload],
    settings: &Compare,
    comparisons: &[Comparison],
) -> Vec<MatrixRow> {
    let mut rows: Vec<MatrixRow> =
        variants.iter().filter_map(|variant| row(variant, training, settings, comparisons)).collect();
    let less_is_better = settings.primary.lower_is_better();
    let on_front: Vec<bool> = rows.iter().map(|row| is_on_front(row, &rows, less_is_better)).collect();
    for (row, on_front) in rows.iter_mut().zip(on_front) {
        row.on_front = on_front;
    }
    rows
}

fn row(
    variant: &Variant,
    training: &[&Workload],
    settings: &Compare,
    comparisons: &[Comparison],
) -> Option<MatrixRow> {
    let Made::Shaped { by: Profile::First(mix), .. } = variant.made else { return None };
    let trained: Vec<&Workload> = match mix {
        Mix::All => training.to_vec(),
        Mix::Only(index) => vec![*training.get(index)?],
    };
    // A load with another name may be the same load.
    let is_own = |load: &Workload| trained.iter().any(|training| is_same_load(training, load, settings));
    let own =
        comparisons.iter().filter(|comparison| comparison.a == BASELINE && comparison.b == variant.name);
    let cell = |comparison: &Comparison| MatrixCell {
        workload: comparison.workload.name.clone(),
        ratio: comparison.primary().map(|primary| {
            let estimate = &primary.estimate;
            [estimate.ratio, estimate.low, estimate.high]
        }),
        verdict: comparison.verdict(),
        own: is_own(&comparison.workload),
    };
    let cells: Vec<MatrixCell> = own.map(cell).collect();
    (!cells.is_empty()).then(|| MatrixRow {
        variant: variant.name.clone(),
        trained_with: trained.iter().map(|load| load.name.clone()).collect(),
        cells,
        on_front: false,
    })
}

/// Whether no other row is at least as good everywhere and better somewhere, according to the estimates.
fn is_on_front(row: &MatrixRow, rows: &[MatrixRow], less_is_better: bool) -> bool {
    let Some(own) = ratios(row) else { return false };
    let is_better = |one: f64, other: f64| if less_is_better { one < other } else { one > other };
    let beats = |other: &MatrixRow| {
        let Some(others) = ratios(other).filter(|others| others.len() == own.len()) else { return false };
        let both = || others.iter().zip(&own);
        both().all(|(other, own)| !is_better(*own, *other))
            && both().any(|(other, own)| is_better(*other, *own))
    };
    !rows.iter().any(beats)
}

fn ratios(row: &MatrixRow) -> Option<Vec<f64>> {
    row.cells.iter().map(|cell| cell.ratio.map(|ratio| ratio[0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::Verdict;

    fn row(variant: &str, ratios: &[Option<f64>]) -> MatrixRow {
        let cell = |ratio: &Option<f64>| MatrixCell {
            workload: "w".to_owned(),
            ratio: ratio.map(|ratio| [ratio, ratio, ratio]),
            verdict: Verdict::NotShown,
            own: false,
        };
        let cells = ratios.iter().map(cell).collect();
        MatrixRow { variant: variant.to_owned(), trained_with: Vec::new(), cells, on_front: false }
    }

    #[test]
    fn a_load_that_trained_is_its_own_under_any_name() {
        let counted = |name: &str, arguments: &str| {
            let engine = hone_record::Engine::Exits { arguments: vec![arguments.to_owned()], operations: 9 };
            Workload::of_operations(name, engine)
        };
        let plain = Variant {
            name: BASELINE.to_owned(),
            parent: None,
            made: Made::Plain { relocs: false, jump_tables: true },
            judged: true,
        };
        let made = Made::Shaped { by: Profile::First(Mix::Only(0)), relocs: false };
        let shaped = Variant { name: "pgo@a".to_owned(), parent: Some(0), made, judged: true };
        let judged = |load: Workload| {
            let mut found = hone_experiment::fixture::comparison(Some(Verdict::Better));
            (found.a, found.b, found.workload) = (BASELINE.to_owned(), "pgo@a".to_owned(), load);
            found
        };
        let comparisons = [counted("a", "x"), counted("renamed", "x"), counted("other", "y")].map(judged);
        let trained = counted("a", "x");
        let rows = rows(&[plain, shaped], &[&trained], &Compare::default(), &comparisons);
        let own: Vec<bool> = rows[0].cells.iter().map(|cell| cell.own).collect();
        assert_eq!(own, [true, true, false]);
    }

    #[test]
    fn a_mix_that_another_beats_everywhere_is_not_on_the_front() {
        let rows = [
            row("mix", &[Some(0.92), Some(0.93)]),
            row("first", &[Some(0.90), Some(0.99)]),
            row("second", &[Some(0.95), Some(0.94)]),
            row("unknown", &[Some(0.5), None]),
        ];
        let front: Vec<bool> = rows.iter().map(|row| is_on_front(row, &rows, true)).collect();
        assert_eq!(front, [true, true, false, false]);
        assert!(is_on_front(&rows[0], &rows[..1], true));
        // Of a throughput, more is better.
        let front: Vec<bool> = rows.iter().map(|row| is_on_front(row, &rows[..3], false)).collect();
        assert_eq!(front[..3], [false, true, true]);
    }
}
