//! *Equivalent* has its own error rate: two arms that differ by the margin are called equal in one of twenty sessions at most, however
//! noisy the pairs, with and without a control; and equal arms are called so if the pairs are quiet enough.

use hone_record::Verdict;

mod sessions;
use sessions::{Noise, Rig, SESSIONS_OF_A_RIG, heavy, normal};

/// How many sessions call arms equal whose true ratio is this.
fn called_equal(noise: Noise, control_pairs: u32, truth: f64, sd: f64) -> usize {
    let rig = Rig { noise, pairs: 14, control_pairs, bias: 1.0, effect: truth, sd };
    rig.sessions_with(&[Verdict::Equivalent], 90)
}

#[test]
fn arms_that_differ_by_the_margin_are_called_equal_in_one_of_twenty_sessions_at_most() {
    // The margin of the plan is 2 %, on both sides of 1.
    for (truth, sd) in [(1.02, 0.005), (1.02, 0.02), (1.02, 0.05), (1.0 / 1.02, 0.01)] {
        for (noise, control_pairs) in [(normal as Noise, 0), (normal, 6), (heavy, 0)] {
            let called = called_equal(noise, control_pairs, truth, sd);
            // The design's rate is 5 %; 8.5 % is four standard errors above it.
            assert!(
                called < 51,
                "{truth}, sd {sd}, {control_pairs} control pairs: {called} of {SESSIONS_OF_A_RIG}"
            );
        }
    }
    // The check can fail: nearer to 1 than the margin it is the truth, and said.
    assert!(called_equal(normal, 0, 1.01, 0.005) > 540);
}

#[test]
fn equal_arms_are_called_so_where_the_pairs_are_quiet() {
    for control_pairs in [0, 6] {
        let called = called_equal(normal, control_pairs, 1.0, 0.01);
        assert!(called > 540, "{control_pairs} control pairs: only {called} of {SESSIONS_OF_A_RIG}");
    }
    // Noise is no proof.
    let called = called_equal(normal, 0, 1.0, 0.1);
    assert!(called < 30, "{called} of {SESSIONS_OF_A_RIG} by noise alone");
}
