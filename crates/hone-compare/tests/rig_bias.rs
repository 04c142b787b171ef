//! A rig that favours one arm does so in A/A pairs too. Compared with a control that has its own uncertainty, a bias without an effect must
//! not be called an effect, a bias that hides an effect must not make the arms equal, and a real effect must still be found.

use hone_record::Verdict;

mod sessions;
use sessions::{Rig, normal};

const SPOKEN: [Verdict; 2] = [Verdict::Better, Verdict::Worse];

#[test]
fn a_bias_that_control_and_test_share_is_no_effect() {
    for (pairs, bias, sd) in
        [(14, 1.02, 0.02), (14, 1.03, 0.03), (14, 1.05, 0.08), (14, 1.10, 0.124), (30, 1.05, 0.08)]
    {
        let rig = Rig { noise: normal, pairs, control_pairs: 6, bias, effect: 1.0, sd };
        let spoken = rig.sessions_with(&SPOKEN, 70);
        // The design's rate is 5 %; 8.5 % is four standard errors above it.
        assert!(spoken < 51, "{pairs} pairs, bias {bias}, sd {sd}: {spoken} of 600 spoke up");
    }
}

#[test]
fn a_bias_that_hides_an_effect_does_not_make_the_arms_equal() {
    let rig = Rig { noise: normal, pairs: 14, control_pairs: 6, bias: 1.03, effect: 1.0 / 1.03, sd: 0.02 };
    let equal = rig.sessions_with(&[Verdict::Equivalent], 71);
    assert!(equal < 30, "{equal} of 600");
    let quiet = Rig { noise: normal, pairs: 14, control_pairs: 6, bias: 1.0, effect: 1.0, sd: 0.01 };
    let equal = quiet.sessions_with(&[Verdict::Equivalent], 72);
    assert!(equal > 540, "only {equal} of 600: the arms are equal");
}

#[test]
fn an_effect_is_still_found_beside_the_control() {
    let found = |effect, verdict, seed| {
        Rig { noise: normal, pairs: 14, control_pairs: 6, bias: 1.0, effect, sd: 0.03 }
            .sessions_with(&[verdict], seed)
    };
    let (ten, five) = (found(1.10, Verdict::Worse, 73), found(0.95, Verdict::Better, 74));
    // A control that differs by chance, in one of twenty sessions, is what 10 % can still fail by.
    assert!(ten > 560, "10 %: {ten} of 600");
    assert!(five > 420, "5 %: {five} of 600");
}
