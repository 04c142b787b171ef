//! Stalls in pairs. They are few, and most windows have none, so their ratio is undefined. Hone counts in which window of a pair requests
//! stalled for longer. Windows are the unit, never stalls: those of one window share a cause.

use hone_record::{PairKind, StallVerdict, Verdict};

/// A valid pair: its kind, and the stall time of each of its windows, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StallPair {
    /// Test or control.
    pub kind: PairKind,
    /// In the first window and in the second.
    pub stalled_s: [f64; 2],
}

/// Judges by the exact sign test over the pairs that differ, two-sided, with the confidence interval of Clopper and Pearson (Biometrika
/// 1934) of the share in which B stalled for longer. A control that leans by the same test makes the result inconclusive.
pub fn judge_stalls(pairs: &[StallPair], alpha: f64) -> StallVerdict {
    let longer = |wanted: PairKind| {
        let of_kind = || pairs.iter().filter(|pair| pair.kind == wanted).map(|pair| pair.stalled_s);
        [of_kind().filter(|[a, b]| a > b).count() as u32, of_kind().filter(|[a, b]| b > a).count() as u32]
    };
    let (test, control) = (longer(PairKind::Test), longer(PairKind::Control));
    let [share_low, share_high] = clopper_pearson(test, alpha);
    let (verdict, why) = decide(test, [share_low, share_high], control, alpha);
    StallVerdict {
        longer: test,
        control_longer: control,
        share_low,
        share_high,
        confidence: 1.0 - alpha,
        verdict,
        why,
    }
}

fn decide([a, b]: [u32; 2], [low, high]: [f64; 2], control: [u32; 2], alpha: f64) -> (Verdict, String) {
    let [control_low, control_high] = clopper_pearson(control, alpha);
    if control_low > 0.5 || control_high < 0.5 {
        let [first, second] = control;
        let why = format!(
            "the A/A control itself leans: {first} pairs to {second}; this session can't separate stalls"
        );
        return (Verdict::NotShown, why);
    }
    let told = format!("it stalled for longer in {b} pairs, and the unchanged host in {a}");
    if low > 0.5 {
        (Verdict::Worse, told)
    } else if high < 0.5 {
        (Verdict::Better, told)
    } else {
        let needed = fewest(alpha);
        (
            Verdict::NotShown,
            format!("{told}; a verdict needs at least {needed} pairs that differ, all in the same direction"),
        )
    }
}

/// The fewest pairs with which the sign test can be significant.
fn fewest(alpha: f64) -> u32 {
    (1..1_000).find(|pairs| 2.0 * 0.5_f64.powi(*pairs) <= alpha).map_or(1_000, |pairs| pairs as u32)
}

/// Confidence interval of the share of the second.
fn clopper_pearson([first, second]: [u32; 2], alpha: f64) -> [f64; 2] {
    let trials = first + second;
    if trials == 0 {
        return [0.0, 1.0];
    }
    let low =
        if second == 0 { 0.0 } else { root(|share| 1.0 - at_most(second - 1, trials, share) - alpha / 2.0) };
    let high = if first == 0 { 1.0 } else { root(|share| alpha / 2.0 - at_most(second, trials, share)) };
    [low, high]
}

/// The root of a rising function between 0 and 1.
fn root(rising: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if rising(middle) > 0.0 { high = middle } else { low = middle }
    }
    f64::midpoint(low, high)
}

/// Probability of at most `count` successes in `trials`, each with this probability. By logarithms, because a term may underflow.
fn at_most(count: u32, trials: u32, share: f64) -> f64 {
    if share <= 0.0 {
        return 1.0;
    }
    if share >= 1.0 {
        return if count >= trials { 1.0 } else { 0.0 };
    }
    let (log_yes, log_no) = (share.ln(), (1.0 - share).ln());
    let mut log_ways = 0.0_f64;
    let mut sum = 0.0;
    for successes in 0..=count.min(trials) {
        if successes > 0 {
            log_ways += (f64::from(trials - successes + 1) / f64::from(successes)).ln();
        }
        sum += (log_ways + f64::from(successes) * log_yes + f64::from(trials - successes) * log_no).exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(kind: PairKind, stalled: &[[f64; 2]]) -> Vec<StallPair> {
        stalled.iter().map(|stalled_s| StallPair { kind, stalled_s: *stalled_s }).collect()
    }

    /// The definition, by sums of exact binomial terms.
    #[test]
    fn intervals_are_those_of_the_textbook() {
        for (counts, alpha, expected) in [
            ([5, 5], 0.05, [0.187_086, 0.812_914]),
            ([8, 2], 0.05, [0.025_211, 0.556_095]),
            ([0, 10], 0.05, [0.691_503, 1.0]),
            ([20, 3], 0.05, [0.027_751, 0.335_889]),
            ([0, 0], 0.05, [0.0, 1.0]),
        ] {
            let found = clopper_pearson(counts, alpha);
            assert!(
                found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4),
                "{counts:?}: {found:?}"
            );
        }
        assert!(at_most(3_000, 100_000, 0.5) < 1e-9, "many pairs overflow nothing");
    }

    #[test]
    fn few_stalls_show_nothing_and_many_on_one_side_do() {
        let one = [vec![[0.975, 0.0]], vec![[0.0, 0.0]; 13]].concat();
        let verdict = judge_stalls(&pairs(PairKind::Test, &one), 0.05);
        assert_eq!((verdict.verdict, verdict.longer), (Verdict::NotShown, [1, 0]));
        assert!(verdict.why.contains("at least 6 pairs"), "{}", verdict.why);
        let all = judge_stalls(&pairs(PairKind::Test, &[[1.0, 0.2]; 8]), 0.05);
        assert_eq!(all.verdict, Verdict::Better);
        assert_eq!(judge_stalls(&pairs(PairKind::Test, &[[0.0, 0.2]; 8]), 0.05).verdict, Verdict::Worse);
        assert_eq!(judge_stalls(&pairs(PairKind::Test, &[[0.0, 0.2]; 8]), 0.005).verdict, Verdict::NotShown);
        let leaning =
            [pairs(PairKind::Test, &[[1.0, 0.2]; 8]), pairs(PairKind::Control, &[[0.5, 0.0]; 8])].concat();
        let verdict = judge_stalls(&leaning, 0.05);
        assert!(
            verdict.verdict == Verdict::NotShown && verdict.why.contains("control itself leans"),
            "{verdict:?}"
        );
    }
}
