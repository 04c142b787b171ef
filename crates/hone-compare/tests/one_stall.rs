//! One stall in one window. A published tail result (p99 of 763 ms before, 1.97 ms after) can be reproduced to the per cent by two runs of
//! 20 s that differ only by one pause of 0.975 s in the first. A comparison of two such runs shows a factor of 400; a comparison of pairs
//! must not.

use hone_compare::{judge, plan};
use hone_record::{Metric, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

mod sessions;
use sessions::{plan_of, published_window as window, uniform};

#[test]
fn the_two_windows_alone_would_tell_the_published_story() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (before, after) = (window(&mut random, true), window(&mut random, false));
    assert!((740.0..800.0).contains(&before[&Metric::LatencyP99]), "{before:?}");
    assert!((1.8..2.0).contains(&after[&Metric::LatencyP99]), "{after:?}");
    assert!((before[&Metric::LatencyP50] / after[&Metric::LatencyP50] - 1.0).abs() < 0.03);
}

/// With any number of pairs, wherever it falls, one stall of one window makes no variant better or worse.
#[test]
fn one_stall_in_one_window_is_not_shown() {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let quiet: Vec<_> = (0..20).map(|_| window(&mut random, false)).collect();
    let stalled = window(&mut random, true);
    for primary in [Metric::LatencyP99, Metric::LatencyP999, Metric::LatencyMax] {
        for pairs in [5, 8, 14] {
            for hit in 0..pairs {
                let mut asked = plan_of(pairs, 0, u64::from(hit));
                asked.primary = primary;
                let design = plan(&asked).unwrap();
                let any = |random: &mut ChaCha8Rng| quiet[(uniform(random) * 20.0) as usize].clone();
                let pair = |index: u32, random: &mut ChaCha8Rng| PairOutcome {
                    index,
                    kind: PairKind::Test,
                    values_a: if index == hit { stalled.clone() } else { any(random) },
                    values_b: any(random),
                    ..PairOutcome::default()
                };
                let measured: Vec<_> = (0..pairs).map(|index| pair(index, &mut random)).collect();
                for judgement in judge(&design, &measured).judgements {
                    let tail = judgement.estimate.metric >= Metric::LatencyP99;
                    let spoke = matches!(judgement.verdict, Verdict::Better | Verdict::Worse);
                    assert!(!(tail && spoke), "{primary:?}, pair {hit} of {pairs}: {judgement:?}");
                }
            }
        }
    }
}

/// Both arms stall now and then, as machines do: an A/A session of such windows stays silent about the tail.
#[test]
fn stalls_that_fall_on_both_arms_alike_stay_silent() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let quiet: Vec<_> = (0..20).map(|_| window(&mut random, false)).collect();
    let stalled: Vec<_> = (0..10).map(|_| window(&mut random, true)).collect();
    let sessions = 400;
    let spoken = (0..sessions)
        .filter(|&seed| {
            let mut asked = plan_of(14, 6, seed);
            asked.primary = Metric::LatencyP99;
            let mut design = plan(&asked).unwrap();
            design.rule.resamples = 1_000;
            design.rule.secondary.clear();
            let mut any = || {
                let kind = if uniform(&mut random) < 0.2 { &stalled } else { &quiet };
                kind[(uniform(&mut random) * kind.len() as f64) as usize].clone()
            };
            let pair = |(index, kind): (usize, &PairKind)| PairOutcome {
                index: index as u32,
                kind: *kind,
                values_a: any(),
                values_b: any(),
                ..PairOutcome::default()
            };
            let measured: Vec<_> = design.order.iter().enumerate().map(pair).collect();
            let verdict = judge(&design, &measured).judgements[0].verdict;
            matches!(verdict, Verdict::Better | Verdict::Worse)
        })
        .count();
    // 5 % allowed; four standard errors above it are 9.4 %.
    assert!(spoken <= 37, "{spoken} of {sessions}");
}
