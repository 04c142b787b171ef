//! Predicts what a running comparison can detect, as soon as its first A/A pairs are measured. A/A pairs contain no result.

use hone_compare::{FEWEST_PAIRS, Layout, Outlook, Widths};
use hone_record::{Design, PairKind, PairOutcome, Pilot};

/// A build can only reduce the program's own share of the time. In published work few builds save more than half of it. This is
/// only used for a warning.
const LIKELY_PART: f64 = 0.5;

/// The prediction for the planned pairs, in words. It is returned once per comparison, after the last pair that it needs.
/// `most_saved` is the largest share of the primary metric that a build can save.
pub fn words(design: &Design, pairs: &[PairOutcome], most_saved: f64) -> Option<String> {
    let counts = |pair: &&PairOutcome| pair.kind == PairKind::Control && pair.dropped.is_none();
    let controls = pairs.iter().filter(counts).count() as u32;
    if controls != FEWEST_PAIRS || !pairs.last().as_ref().is_some_and(counts) {
        return None;
    }
    let planned = |wanted: PairKind| {
        design.order[..design.planned()].iter().filter(|kind| **kind == wanted).count() as u32
    };
    // At the end of the run the user can't react any more. A pilot plans the A/B pairs behind it.
    if planned(PairKind::Control) <= controls || planned(PairKind::Test) == 0 {
        return None;
    }
    let layout = Layout {
        pairs: planned(PairKind::Test),
        more_control_pairs: planned(PairKind::Control) - controls,
        // The effect of several layouts comes on top of it.
        blocks: 1,
    };
    let (outlook, mut widths) = (Outlook::of_plan(design, design.rule.primary, pairs)?, Widths::default());
    let smallest = outlook.smallest_effect(layout, &mut widths);
    let shown = smallest.map(|ratio| 1.0 - 1.0 / ratio);
    let detected = shown.map_or("no saving at all".to_owned(), |saved| {
        format!("a saving of {} or more", hone_format::change_size(1.0 - saved))
    });
    let told = format!(
        "The first {controls} A/A pairs predict that the planned {} pairs detect {detected}",
        layout.pairs
    );
    if shown.is_some_and(|saved| saved <= most_saved * LIKELY_PART) {
        return Some(told);
    }
    // A saving is an effect below 1, which needs as many pairs as its inverse.
    let likely = 1.0 / (1.0 - most_saved * LIKELY_PART);
    let needed = outlook.pairs_needed(layout, likely, &mut widths).map_or(String::new(), |needed| {
        let pair_s = pairs.iter().map(|pair| pair.took_s).sum::<f64>() / pairs.len() as f64;
        let all = f64::from(needed)
            * (1.0 + f64::from(controls + layout.more_control_pairs) / f64::from(layout.pairs));
        let time = hone_format::duration(all * pair_s);
        format!(" To detect half of that, it needs {needed} pairs (about {time}).")
    });
    Some(format!(
        "{told}. A build can save at most {:.0} % here, so the verdict will probably be \
         inconclusive.{needed}\n  next: let it continue, or press Ctrl-C and start a run with more pairs or longer \
         windows",
        most_saved * 100.0
    ))
}

/// The warning that a planned budget detects only savings that a build hardly brings; `None` if it detects smaller ones.
pub fn too_little(pilot: &Pilot, most_saved: f64) -> Option<String> {
    let detected = 1.0 - 1.0 / pilot.metrics.first()?.detectable_ratio?;
    (detected > most_saved * LIKELY_PART).then(|| {
        format!(
            "A build can save at most {:.0} % here, and this budget detects {}: the verdict will probably be \
             inconclusive\n  next: let it continue, or press Ctrl-C and start a run with a larger --budget",
            most_saved * 100.0,
            hone_format::change_size(1.0 - detected)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five A/A pairs with this scatter, in a design of twelve pairs.
    fn told(scatter: f64, most_saved: f64) -> String {
        let mut comparison = crate::fixture::comparison(None);
        let kinds = [[PairKind::Control; 12], [PairKind::Test; 12]].concat();
        comparison.design.order = kinds;
        comparison.design.reserve = 0;
        let rule = &comparison.design.rule;
        let pair = |index: i32| {
            let off = if index % 2 == 0 { scatter } else { -scatter };
            let mut pair = hone_record::PairOutcome { kind: PairKind::Control, ..Default::default() };
            pair.values_a.insert(rule.primary, 10.0);
            pair.values_b.insert(rule.primary, 10.0 * off.exp());
            pair.took_s = 2.0;
            pair
        };
        let mut pairs: Vec<PairOutcome> = (0..5).map(pair).collect();
        assert_eq!(words(&comparison.design, &pairs[..4], most_saved), None, "too few");
        let found = words(&comparison.design, &pairs, most_saved).unwrap();
        pairs.push(pairs[0].clone());
        assert_eq!(words(&comparison.design, &pairs, most_saved), None, "it was said");
        found
    }

    #[test]
    fn a_budget_that_detects_less_than_half_of_what_may_be_saved_is_told_of() {
        let promise = hone_record::Promise {
            metric: hone_record::Metric::CpuPerRecord,
            log_ratio_sd: 0.05,
            detectable_ratio: Some(1.10),
            pairs_needed: None,
            power_for_effect: None,
            power_with_tail: None,
        };
        let pilot = Pilot {
            pairs: 5,
            took_s: 10.0,
            planned_pairs: 10,
            planned_control_pairs: 5,
            rest_s: 20.0,
            effect_ratio: None,
            power: 0.8,
            metrics: vec![promise],
            not_planned: Default::default(),
            no_promise: None,
        };
        let told = too_little(&pilot, 0.13).unwrap();
        assert!(told.contains("at most 13 % here, and this budget detects 9.1 %"), "{told}");
        assert_eq!(too_little(&pilot, 0.26), None);
    }

    #[test]
    fn a_judging_that_can_not_show_what_may_come_is_told_of() {
        let hopeless = told(0.08, 0.13);
        assert!(hopeless.contains("A build can save at most 13 % here"), "{hopeless}");
        assert!(
            hopeless.contains(" To detect half of that, it needs ") && hopeless.contains(" pairs (about "),
            "{hopeless}"
        );
        let hopeful = told(0.005, 0.13);
        assert!(
            hopeful.ends_with("% or more") && hopeful.contains("the planned 12 pairs detect a saving"),
            "{hopeful}"
        );
        // The noise is the same, and the possible saving is larger.
        assert!(told(0.04, 0.9).ends_with("% or more"));
        assert!(told(0.04, 0.1).contains("probably be inconclusive"));
    }
}
