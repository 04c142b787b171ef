//! Whether a change is kept: the comparator's verdict, and guard rails that are counts and rules of the user's.

use anyhow::Result;
use hone_record::{BatchState, Comparison, Decision, Guard, PairKind, Verdict, Window};

use crate::folder::{RunFolder, read_record};
use crate::require::Rule;
use crate::show;

/// More failed requests than before, as a share of all, that no step may bring.
pub(crate) const FAILED_MORE: f64 = 0.001;
/// Seconds' worth of records that consumers may lag in any case: less is what a batch or a poll makes.
pub(crate) const LAG_S: f64 = 0.1;
/// Share of the windows in which a rule of the user must be met.
const FEWEST_MET: f64 = 0.5;

/// The windows that count, of the state before and of the candidate.
///
/// # Errors
/// When one can't be read.
pub(crate) fn windows(folder: &RunFolder, comparison: &Comparison) -> Result<[Vec<Window>; 2]> {
    let mut found = [Vec::new(), Vec::new()];
    for pair in comparison.pairs.iter().filter(|pair| pair.dropped.is_none()) {
        let second = usize::from(pair.kind == PairKind::Test);
        found[0].push(read_record(&folder.join(&pair.window_a))?);
        found[second].push(read_record(&folder.join(&pair.window_b))?);
    }
    Ok(found)
}

/// The comparator's verdict first, then what it does not look at.
pub(crate) fn decide(comparison: &Comparison, guards: &[Guard]) -> (Decision, String) {
    let sentence = show::comparison::sentence(comparison);
    let broken: Vec<String> = guards
        .iter()
        .filter(|guard| !guard.held)
        .map(|guard| format!("{} ({})", guard.rule, guard.seen))
        .collect();
    match comparison.verdict() {
        Verdict::Better if broken.is_empty() => (Decision::Accepted, sentence),
        Verdict::Better => (
            Decision::Rejected,
            format!("better by the comparator, but a guard rail broke: {}", broken.join("; ")),
        ),
        Verdict::Worse | Verdict::Equivalent | Verdict::NotShown => (Decision::Rejected, sentence),
    }
}

/// Guard rails that are counts, which the comparator's ratios can't hold.
pub(crate) fn guards([before, after]: &[BatchState; 2], records_per_s: f64) -> Vec<Guard> {
    let percent = |share: f64| format!("{} %", show::number(share * 100.0));
    let mut guards = vec![Guard {
        rule: "failed requests".to_owned(),
        seen: format!("{} before, {} after", percent(before.failed_share()), percent(after.failed_share())),
        held: after.failed_share() <= before.failed_share() + FAILED_MORE,
    }];
    if let (Some(lag), Some(now)) = (before.lag_records, after.lag_records) {
        let most = lag.saturating_mul(2).max((records_per_s * LAG_S) as u64);
        guards.push(Guard {
            rule: "consumer lag".to_owned(),
            seen: format!(
                "{} records before, {} after, at most {}",
                show::count(lag),
                show::count(now),
                show::count(most)
            ),
            held: now <= most,
        });
        guards.push(Guard {
            rule: "missing records".to_owned(),
            seen: format!(
                "{} of {} before, {} of {} after",
                show::count(before.missing_records),
                show::count(before.acked_records),
                show::count(after.missing_records),
                show::count(after.acked_records)
            ),
            held: missing_share(after) <= missing_share(before),
        });
    }
    guards
}

/// Of the acknowledged records: the state before has the windows of the control, too, and so more of all.
fn missing_share(state: &BatchState) -> f64 {
    state.missing_records as f64 / state.acked_records.max(1) as f64
}

/// A rule of the user's over the candidate's windows.
pub(crate) fn required(rule: &Rule, windows: &[Window]) -> Guard {
    let told: Vec<bool> = windows.iter().filter_map(|window| rule.judge(window).met).collect();
    let met = told.iter().filter(|met| **met).count();
    Guard {
        rule: rule.to_string(),
        seen: format!("met in {met} of {} windows that can tell", told.len()),
        held: !told.is_empty() && met as f64 / told.len() as f64 >= FEWEST_MET,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(records: u64, failed: u64, lag: Option<u64>) -> BatchState {
        BatchState {
            acked_records: records,
            failed_requests: failed,
            lag_records: lag,
            ..BatchState::default()
        }
    }

    fn held(before: BatchState, after: BatchState) -> Vec<(String, bool)> {
        guards(&[before, after], 10_000.0).into_iter().map(|guard| (guard.rule, guard.held)).collect()
    }

    #[test]
    fn failures_lag_and_loss_break_a_guard_rail() {
        let quiet = || state(10_000, 0, Some(800));
        assert!(held(quiet(), quiet()).iter().all(|(_, held)| *held));
        assert!(held(quiet(), state(9_990, 10, Some(800)))[0].1, "one in a thousand may fail");
        assert!(!held(quiet(), state(9_980, 20, Some(800)))[0].1);
        assert!(held(quiet(), state(10_000, 0, Some(1_600)))[1].1);
        assert!(!held(quiet(), state(10_000, 0, Some(1_601)))[1].1);
        assert!(held(state(1, 0, Some(3)), state(1, 0, Some(1_000)))[1].1, "a tenth of a second is no lag");
        let lossy = BatchState { missing_records: 1, ..quiet() };
        assert!(!held(quiet(), lossy)[2].1);
        assert_eq!(held(state(1, 0, None), state(1, 0, None)).len(), 1, "no consumers, no lag");
        // Three times as many windows before, with the control's: as many lost records are a larger share after.
        let lost = |acked, missing| BatchState { missing_records: missing, ..state(acked, 0, Some(800)) };
        assert!(!held(lost(30_000, 3), lost(10_000, 3))[2].1);
        assert!(held(lost(30_000, 3), lost(10_000, 1))[2].1);
    }

    #[test]
    fn a_rule_that_no_window_can_tell_does_not_hold() {
        let rule: Rule = "lag<=2".parse().unwrap();
        assert!(!required(&rule, &[]).held);
        let told: Rule = "errors<100%".parse().unwrap();
        let window = crate::show::window::tests::window();
        let guard = required(&told, &[window.clone(), window]);
        assert!(guard.held && guard.seen.contains("2 of 2"), "{guard:?}");
    }
}
