//! Decides whether a change is kept: by the comparison's verdict, by guard metrics that are counts, and by the user's rules.

use anyhow::{Result, bail};
use hone_format::percent;
use hone_record::{BatchState, Comparison, Decision, Guard, Metric, PairKind, Verdict, Window};

use crate::drive::{GaveUp, in_one_line, refused_arm};
use crate::ending::Usage;
use crate::folder::{RunFolder, read_record};
use crate::require::Rule;

/// Additional failed requests, as a share of all, from which a step is rejected.
pub const FAILED_MORE: f64 = hone_record::MORE_FAILURES;
/// Consumer lag in seconds of records that is always allowed: a batch or a poll causes less than that.
pub const LAG_S: f64 = 0.1;
/// Share of the windows in which a rule of the user must be met.
const FEWEST_MET: f64 = 0.5;

/// The rule's text in a run's folder.
const RULE: &str = "rule.txt";

/// The parts of a run's rule.
pub struct Terms<'a> {
    /// The metric that decides.
    pub primary: Metric,
    /// Metrics that must not get worse.
    pub guards: &'a [Metric],
    /// The user's rules.
    pub require: &'a [String],
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs.
    pub control_pairs: u32,
}

impl Terms<'_> {
    /// The criteria by which [`decide`] accepts a change, with the guard metrics of [`guards`] and [`required`], in words.
    /// `more` are further ones.
    pub fn words(&self, more: &str) -> String {
        let guards: Vec<&str> = self.guards.iter().map(|guard| guard.label()).collect();
        let guards = if guards.is_empty() { "none".to_owned() } else { guards.join(", ") };
        let required = match self.require {
            [] => String::new(),
            rules => format!(
                " {} must be met in at least {} % of the windows with enough samples; a latency rule must \
                 also be met over all of them together.",
                rules.join(", "),
                FEWEST_MET * 100.0
            ),
        };
        if self.primary == Metric::Capacity {
            return format!(
                "its verdict by {} is better, over {} A/B pairs with the state kept so far and {} A/A pairs \
                 of that state, and no guard metric breaks: with consumers, no larger share of the \
                 acknowledged records is missing than before{more}. A step of the climb breaks the SLO if \
                 more than 1 % of its requests fail.",
                self.primary.label(),
                self.pairs,
                self.control_pairs,
            );
        }
        format!(
            "its verdict by {} is better, over {} A/B pairs with the state kept so far and {} A/A pairs of \
             that state, and no guard metric breaks. Guard metrics: {guards}; at most {} % more of the \
             requests fail than before; with consumers, no larger share of the acknowledged records is \
             missing than before, and the lag is at most twice the lag before or {LAG_S} s of \
             records, whichever is larger{more}.{required}",
            self.primary.label(),
            self.pairs,
            self.control_pairs,
            FAILED_MORE * 100.0,
        )
    }
}

/// Writes the rule before the first window. A resumed run must have the same rule.
///
/// # Errors
/// With the next step, when the stored rule differs.
pub fn fixed(folder: &RunFolder, rule: &str) -> Result<()> {
    let text = format!("{rule}\n");
    match folder.read_text(RULE)? {
        Some(earlier) if earlier == text => Ok(()),
        Some(_) => bail!(Usage(format!(
            "{} differs from this run's rule, and a measured window is only judged by its own rule\n  next: \
             begin a new run, or continue with the version of Hone and the settings that began this one",
            folder.join(RULE).display()
        ))),
        None => folder.write_text(RULE, &text).map(|_| ()),
    }
}

/// The valid windows, of the state before and of the candidate.
///
/// # Errors
/// When one can't be read.
pub fn windows(folder: &RunFolder, comparison: &Comparison) -> Result<[Vec<Window>; 2]> {
    let mut found = [Vec::new(), Vec::new()];
    for pair in comparison.pairs.iter().filter(|pair| pair.dropped.is_none()) {
        let second = usize::from(pair.kind == PairKind::Test);
        found[0].push(read_record(&folder.join(&pair.window_a))?);
        found[second].push(read_record(&folder.join(&pair.window_b))?);
    }
    Ok(found)
}

/// First the comparison's verdict, then the guard metrics that it does not include.
pub fn decide(comparison: &Comparison, guards: &[Guard]) -> (Decision, String) {
    let sentence = hone_report::verdict::sentence(comparison);
    let broken: Vec<String> = guards
        .iter()
        .filter(|guard| !guard.held)
        .map(|guard| format!("{} ({})", guard.rule, guard.seen))
        .collect();
    match comparison.verdict() {
        Verdict::Better if broken.is_empty() => (Decision::Accepted, sentence),
        Verdict::Better => {
            (Decision::Rejected, format!("better, but a guard metric broke: {}", broken.join("; ")))
        }
        Verdict::Worse | Verdict::Equivalent | Verdict::NotShown => (Decision::Rejected, sentence),
    }
}

/// The reason to reject a change after an error of its comparison: it can't be applied, it alone does not sustain the load, or
/// with it alone the client falls behind its schedule. `None` for any other error, which says nothing about the change.
pub fn not_to_be_had(error: &anyhow::Error) -> Option<String> {
    // A repetition would be rejected again, so this is a result.
    if refused_arm(error) == Some(1) {
        return Some(format!("it can't be applied: {}", in_one_line(error)));
    }
    let gave_up = error.downcast_ref::<GaveUp>()?;
    if gave_up.of_b {
        return Some(format!("{error:#}"));
    }
    let is_late = gave_up.late == Some(1);
    is_late.then(|| format!("with it the client falls behind its schedule: {}", in_one_line(error)))
}

/// Guard metrics that are counts, for which the comparison's ratios do not work.
pub fn guards([before, after]: &[BatchState; 2], records_per_s: f64) -> Vec<Guard> {
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
                hone_format::count(lag),
                hone_format::count(now),
                hone_format::count(most)
            ),
            held: now <= most,
        });
        guards.push(missing([before, after]));
    }
    guards
}

/// For loads that climb until requests fail and consumers fall behind: acknowledged records still have to arrive.
pub fn guards_of_a_climb([before, after]: &[BatchState; 2]) -> Vec<Guard> {
    before.lag_records.map(|_| missing([before, after])).into_iter().collect()
}

fn missing([before, after]: [&BatchState; 2]) -> Guard {
    Guard {
        rule: "missing records".to_owned(),
        seen: format!(
            "{} of {} before, {} of {} after",
            hone_format::count(before.missing_records),
            hone_format::count(before.acked_records),
            hone_format::count(after.missing_records),
            hone_format::count(after.acked_records)
        ),
        held: missing_share(after) <= missing_share(before),
    }
}

/// As a share of the acknowledged records: the state before also has the windows of the control, and so higher counts.
fn missing_share(state: &BatchState) -> f64 {
    state.missing_records as f64 / state.acked_records.max(1) as f64
}

/// A rule of the user over the candidate's windows.
pub fn required(rule: &Rule, windows: &[Window]) -> Guard {
    let told: Vec<(&Window, bool)> =
        windows.iter().filter_map(|window| Some((window, rule.judge(window).met?))).collect();
    let met = told.iter().filter(|(_, met)| *met).count();
    // Single windows may meet a rule that all of them together, which the table shows, do not meet.
    let over_all = rule.latency_over_all(told.iter().map(|(window, _)| *window));
    let together =
        over_all.map_or(String::new(), |(us, _)| format!(", {} over all of them", hone_format::time_us(us)));
    Guard {
        rule: rule.to_string(),
        seen: format!("met in {met} of {} windows with enough samples{together}", told.len()),
        held: !told.is_empty()
            && met as f64 / told.len() as f64 >= FEWEST_MET
            && over_all.is_none_or(|(_, holds)| holds),
    }
}

/// The same when a change is removed from several ones: a rule that is also broken without it is not broken by it.
pub fn broken_by(without: Guard, with: Guard) -> Guard {
    Guard {
        seen: format!("{}; without it {}", with.seen, without.seen),
        held: with.held || !without.held,
        ..with
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule names every criterion that can reject a change, before the first window.
    #[test]
    fn the_rule_names_every_guard_rail_and_stays_what_it_is() {
        let require = ["p99<10ms".to_owned()];
        let terms = Terms {
            primary: Metric::CpuPerRecord,
            guards: &[Metric::LatencyP99],
            require: &require,
            pairs: 8,
            control_pairs: 5,
        };
        let told = terms.words("; of it half comes");
        let lossy = || state(1, 0, Some(1));
        for guard in guards(&[lossy(), lossy()], 1.0) {
            let word = guard.rule.split(' ').next().unwrap();
            let word = if word == "consumer" { "lag" } else { word.trim_end_matches("ed") };
            assert!(told.contains(word), "{} is not in: {told}", guard.rule);
        }
        for part in
            ["CPU", "p99, ", "p99<10ms must be met in at least 50 %", "half comes.", "8 A/B pairs", "5 A/A"]
        {
            let part = if part == "p99, " { "Guard metrics: p99;" } else { part };
            assert!(told.contains(part), "{part}: {told}");
        }
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "run").unwrap();
        fixed(&folder, &told).unwrap();
        fixed(&folder, &told).unwrap();
        let refused = fixed(&folder, "another").unwrap_err();
        assert!(
            refused.is::<Usage>() && refused.to_string().contains("differs from this run's rule"),
            "{refused:#}"
        );
        assert!(folder.read_text(RULE).unwrap().unwrap().starts_with(&told), "it is not written over");
    }

    #[test]
    fn a_rule_that_others_break_is_not_broken_by_what_is_taken_out() {
        let guard = |held| Guard { rule: "p99<1ms".to_owned(), seen: "met in 0 of 8".to_owned(), held };
        for (without, with, held) in [(true, false, false), (false, false, true), (false, true, true)] {
            assert_eq!(broken_by(guard(without), guard(with)).held, held, "{without} {with}");
        }
    }

    /// The comparison does not include them: without this guard metric a change that loses records would be kept for its CPU.
    #[test]
    fn what_is_better_and_breaks_a_guard_rail_is_rejected() {
        let better = crate::fixture::comparison(Some(Verdict::NotShown));
        let worse = crate::fixture::comparison(Some(Verdict::Worse));
        let guard = |held| Guard {
            rule: "failed requests".to_owned(),
            seen: "0 % before, 3 % after".to_owned(),
            held,
        };
        assert_eq!(decide(&better, &[]).0, Decision::Accepted);
        assert_eq!(decide(&better, &[guard(true), guard(true)]).0, Decision::Accepted);
        let (decision, why) = decide(&better, &[guard(true), guard(false)]);
        assert_eq!(decision, Decision::Rejected);
        assert!(why.ends_with("a guard metric broke: failed requests (0 % before, 3 % after)"), "{why}");
        assert_eq!(decide(&worse, &[guard(true)]).0, Decision::Rejected);
    }

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
        // The state before has three times as many windows, with the control's: the same number of lost
        // records is a larger share after.
        let lost = |acked, missing| BatchState { missing_records: missing, ..state(acked, 0, Some(800)) };
        assert!(!held(lost(30_000, 3), lost(10_000, 3))[2].1);
        assert!(held(lost(30_000, 3), lost(10_000, 1))[2].1);
    }

    #[test]
    fn a_latency_is_promised_of_all_windows_together_as_the_table_shows_it() {
        let window = |slow: u64| {
            let mut window = crate::fixture::window();
            window.outcome = hone_record::Outcome::Steady;
            let latency = &mut window.latencies.intended_to_ack;
            *latency = hone_record::Hdr::new();
            (0..2_000 - slow).for_each(|_| latency.record_ns(50_000_000));
            (0..slow).for_each(|_| latency.record_ns(206_000_000));
            window
        };
        let rule: Rule = "p99<200ms".parse().unwrap();
        // Five of eight windows meet it, but 3 % of all requests take longer.
        let windows: Vec<Window> = [0, 0, 0, 0, 0, 160, 160, 160].map(window).to_vec();
        let guard = required(&rule, &windows);
        assert!(!guard.held && guard.seen.contains("5 of 8 windows"), "{guard:?}");
        assert!(guard.seen.contains("206 ms over all of them"), "{guard:?}");
        assert!(required(&rule, &[0, 0, 10, 0].map(window)).held);
    }

    #[test]
    fn a_rule_that_no_window_can_tell_does_not_hold() {
        let rule: Rule = "lag<=2".parse().unwrap();
        assert!(!required(&rule, &[]).held);
        let told: Rule = "errors<100%".parse().unwrap();
        let window = crate::fixture::window();
        let guard = required(&told, &[window.clone(), window]);
        assert!(guard.held && guard.seen.contains("2 of 2"), "{guard:?}");
    }
}
