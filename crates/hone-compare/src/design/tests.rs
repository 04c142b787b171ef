use super::*;

fn asked(pairs: u32, control_pairs: u32, seed: u64) -> Plan {
    Plan {
        guards: vec![Metric::LatencyP99],
        seed,
        ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [pairs, control_pairs])
    }
}

#[test]
fn every_pair_is_there_once_and_the_orders_are_balanced() {
    for seed in 0..50 {
        let design = plan(&asked(14, 6, seed)).unwrap();
        let tests = design.order.iter().filter(|kind| **kind == PairKind::Test).count();
        assert_eq!((tests, design.order.len()), (14, 20));
        for kind in [PairKind::Test, PairKind::Control] {
            let of_kind = design.order.iter().zip(&design.swapped).filter(|(k, _)| **k == kind);
            let swapped = of_kind.clone().filter(|(_, swapped)| **swapped).count();
            assert_eq!(swapped * 2, of_kind.count(), "seed {seed}");
        }
    }
}

#[test]
fn the_order_is_random_and_the_seed_repeats_it() {
    let swapped = |seed| plan(&asked(14, 6, seed)).unwrap().swapped;
    assert_eq!(swapped(7), swapped(7));
    assert!((0..20).any(|seed| swapped(seed) != swapped(7)));
}

#[test]
fn the_control_is_spread_over_the_session() {
    let order = plan(&asked(15, 5, 1)).unwrap().order;
    for quarter in order.chunks(4) {
        assert_eq!(quarter.iter().filter(|kind| **kind == PairKind::Control).count(), 1);
    }
}

/// Most designs have few control pairs, and a look needs five of them.
#[test]
fn the_first_look_has_a_control_that_can_be_read_and_the_end_has_one_too() {
    for (pairs, controls, pilot_pairs) in [(14, 6, 0), (10, 5, 0), (30, 12, 0), (40, 30, 0), (20, 10, 7)] {
        let looks = LookPlan::of_pairs(pairs, [1, 1]);
        let design = plan(&Plan { looks, pilot_pairs, ..asked(pairs, controls, 1) }).unwrap();
        let count = |kind, order: &[PairKind]| order.iter().filter(|one| **one == kind).count();
        let tests = |end: &usize| count(PairKind::Test, &design.order[..*end]) as u32;
        let end = (0..design.order.len()).find(|end| tests(&(end + 1)) > design.looks[0].pairs).unwrap();
        assert!(
            count(PairKind::Control, &design.order[..end]) >= 5,
            "{pairs} and {controls}: {:?}",
            design.order
        );
        let (tests, all) = (count(PairKind::Test, &design.order), count(PairKind::Control, &design.order));
        assert_eq!((tests, all), (pairs as usize, controls as usize));
        let is_behind = count(PairKind::Control, &design.order[end..]) > 0;
        assert!(is_behind || controls == 5, "{pairs} and {controls}: {:?}", design.order);
    }
    let without = plan(&Plan { looks: LookPlan::of_pairs(14, [1, 1]), ..asked(14, 0, 1) }).unwrap();
    assert_eq!(without.looks.len(), 4);
}

#[test]
fn several_builds_and_few_pairs_have_one_look() {
    let looks = |pairs, builds| {
        let asked = Plan { builds, looks: LookPlan::of_pairs(pairs, builds), ..asked(pairs, 6, 1) };
        plan(&asked).unwrap().looks.len()
    };
    assert_eq!([looks(14, [1, 1]), looks(9, [1, 1]), looks(15, [3, 3]), looks(15, [1, 3])], [4, 0, 0, 0]);
}

#[test]
fn the_continuation_stands_behind_the_reserve_and_changes_nothing_before_it() {
    let of = |looks| plan(&Plan { reserve: None, looks, ..asked(20, 10, 3) }).unwrap();
    let (once, continued) = (of(LookPlan::of_pairs(20, [1, 1])), of(LookPlan::Continued));
    assert_eq!(continued.planned(), once.planned());
    assert_eq!(continued.uncontinued(), once.order.len());
    assert_eq!(continued.swapped[..once.order.len()], once.swapped);
    let behind = &continued.order[continued.uncontinued()..];
    let tests = behind.iter().filter(|kind| **kind == PairKind::Test).count();
    assert_eq!((tests, behind.len()), (60, 90));
    assert_eq!(continued.continuation.as_ref().unwrap().pairs, 90);
    let words = &continued.rule.words;
    assert!(words.contains("continued to 80, with looks after 40, 60, 80"), "{words}");
    assert!(words.contains("after 8, 12, 16 A/B pairs"), "{words}");
    assert!(
        pilot(&Plan { pilot_pairs: 6, looks: LookPlan::Continued, ..asked(20, 10, 3) })
            .unwrap()
            .continuation
            .is_none()
    );
}

/// Both are measured and warmed alike, from the pilot on, and neither always comes first.
#[test]
fn controls_of_two_living_targets_take_turns() {
    for seed in 0..20 {
        let asked = Plan { pilot_pairs: 8, both_controls: true, ..asked(14, 16, seed) };
        let design = plan(&asked).unwrap();
        for arm in [0, 1] {
            let of: Vec<usize> = (0..30).filter(|&index| design.arms(index) == [arm; 2]).collect();
            assert_eq!((of.len(), of.iter().filter(|&&index| index < 8).count()), (8, 4));
            assert_eq!(of.iter().filter(|&&index| design.swapped[index]).count(), 4);
        }
        assert_eq!((design.pair_label(0), design.pair_label(1)), ("A/A", "B/B"));
        let pilot = pilot(&asked).unwrap();
        assert!((0..16).all(|index| pilot.order.len() <= index || pilot.arms(index) == design.arms(index)));
        assert_eq!(&pilot.swapped[..8], &design.swapped[..8]);
        assert!(design.control_limits().unwrap().contains("an older log"));
    }
    let alone = plan(&asked(14, 16, 1)).unwrap();
    assert!((0..30).all(|index| alone.arms(index) != [1, 1]) && alone.control_limits().is_none());
}

#[test]
fn the_reserve_stands_behind_the_plan() {
    let of = |reserve| plan(&Plan { reserve, ..asked(14, 6, 1) }).unwrap();
    let (none, half, two) = (of(Some(0)), of(None), of(Some(2)));
    assert_eq!((none.reserve, half.reserve, two.reserve), (0, 7 + 3, 4));
    for design in [&none, &half, &two] {
        assert_eq!(design.planned(), 20);
        assert_eq!(design.order[..20], none.order, "the plan is the same with and without");
        assert_eq!(design.swapped[..20], none.swapped);
    }
    assert!(half.rule.words.contains("at most 7 A/B and 3 A/A pairs"), "{}", half.rule.words);
    assert!(!none.rule.words.contains("measured again"));
    let alone = plan(&Plan { reserve: None, ..asked(14, 0, 1) }).unwrap();
    assert!(alone.order.iter().all(|kind| *kind == PairKind::Test));
    assert!(alone.rule.words.contains("at most 7 A/B pairs"), "{}", alone.rule.words);
}

#[test]
fn plans_that_cannot_give_an_interval_are_refused() {
    assert!(plan(&asked(4, 6, 1)).unwrap_err().to_string().contains("4 A/B pairs are too few"));
    assert!(plan(&asked(9, 2, 1)).unwrap_err().to_string().contains("or 0 for no control"));
    assert!(plan(&asked(9, 0, 1)).is_ok());
    assert!(plan(&asked(4_000_000_000, 0, 1)).unwrap_err().to_string().contains("pairs` must be between"));
    assert!(plan(&Plan { alpha: 0.0, ..asked(9, 0, 1) }).is_err());
    assert!(plan(&Plan { equivalence: f64::NAN, ..asked(9, 0, 1) }).is_err());
}

#[test]
fn the_pilot_is_the_beginning_of_the_design_that_follows_it() {
    for seed in 0..20 {
        let asked = Plan { pilot_pairs: 7, ..asked(20, 10, seed) };
        let pilot = pilot(&asked).unwrap();
        let design = plan(&asked).unwrap();
        assert_eq!((pilot.order.len(), pilot.pairs, pilot.control_pairs), (7, 0, 7));
        assert_eq!((&design.order[..7], &design.swapped[..7]), (&pilot.order[..], &pilot.swapped[..]));
        assert!(pilot.order.iter().all(|kind| *kind == PairKind::Control));
        assert_eq!(design.order.iter().filter(|kind| **kind == PairKind::Control).count(), 10);
    }
}

#[test]
fn every_build_meets_as_many_pairs_and_rounds_are_shuffled() {
    let design = plan(&Plan { builds: [3, 3], ..asked(12, 6, 5) }).unwrap();
    let tests: Vec<u32> = (0..18)
        .filter(|&index| design.order[index] == PairKind::Test)
        .map(|index| design.block(index))
        .collect();
    for round in tests.chunks(3) {
        let mut round = round.to_vec();
        round.sort_unstable();
        assert_eq!(round, [0, 1, 2]);
    }
    let orders = |seed| plan(&Plan { builds: [3, 3], ..asked(12, 6, seed) }).unwrap().blocks;
    assert!((0..10).any(|seed| orders(seed) != orders(5)));
}

#[test]
fn builds_that_cannot_be_laid_out_are_refused() {
    for (builds, good) in [
        ([1, 1], true),
        ([3, 3], true),
        ([1, 3], true),
        ([5, 1], true),
        ([2, 2], false),
        ([1, 2], false),
        ([3, 4], false),
        ([15, 15], true),
        ([16, 16], false),
        ([1, 16], false),
    ] {
        assert_eq!(plan(&Plan { builds, ..asked(15, 5, 1) }).is_ok(), good, "{builds:?}");
    }
}

#[test]
fn what_the_arms_cannot_be_compared_by_has_no_verdict() {
    let refused = BTreeMap::from([(Metric::LatencyP99, "unlike ends".to_owned())]);
    let message = plan(&Plan { refused: refused.clone(), ..asked(9, 5, 1) }).unwrap_err().to_string();
    assert!(message.contains("the guard metric p99") && message.contains("unlike ends"), "{message}");
    let design = plan(&Plan { refused, guards: vec![], ..asked(9, 5, 1) }).unwrap();
    assert!(!design.rule.secondary.contains(&Metric::LatencyP99));
    assert_eq!(design.refused[&Metric::LatencyP99], "unlike ends");
}

#[test]
fn a_climb_tells_the_capacity_alone_and_no_other_load_tells_it() {
    let other = |metric: &Metric| *metric != Metric::Capacity;
    let refused: BTreeMap<Metric, String> =
        Metric::ALL.into_iter().filter(other).map(|metric| (metric, "it climbs".to_owned())).collect();
    let climbing = Plan {
        mode: Mode::Solo,
        primary: Metric::Capacity,
        guards: vec![],
        refused: refused.clone(),
        ..asked(9, 5, 1)
    };
    let design = plan(&climbing).unwrap();
    assert!(design.rule.secondary.is_empty() && design.refused == refused);
    assert!(design.rule.words.contains("capacity, where more is better"), "{}", design.rule.words);
    assert!(!design.rule.words.contains("other 0 metrics"), "{}", design.rule.words);
    let guarded = plan(&Plan { guards: vec![Metric::LatencyP99], ..climbing.clone() }).unwrap_err();
    assert!(guarded.to_string().contains("it climbs"), "{guarded}");
    assert_eq!(plan(&Plan { mode: Mode::Duet, ..climbing }).unwrap_err(), DesignError::ClimbsTogether);
    for (primary, guards) in [(Metric::Capacity, vec![]), (Metric::CpuPerRecord, vec![Metric::Capacity])] {
        let message = plan(&Plan { primary, guards, ..asked(9, 5, 1) }).unwrap_err().to_string();
        assert!(message.contains("--capacity --slo p99=10ms"), "{message}");
    }
    let ordinary = plan(&asked(9, 5, 1)).unwrap();
    assert!(!ordinary.rule.secondary.contains(&Metric::Capacity));
    assert!(!ordinary.refused.contains_key(&Metric::Capacity), "not requested");
}

#[test]
fn throughput_at_a_fixed_rate_has_no_verdict() {
    for requests_per_window in [None, Some(5_000)] {
        let with = |primary, guards: Vec<Metric>| {
            plan(&Plan { primary, guards, requests_per_window, ..asked(9, 5, 1) })
        };
        let message = with(Metric::Throughput, vec![]).unwrap_err().to_string();
        assert!(message.contains("--find-capacity"), "{message}");
        assert!(with(Metric::CpuPerRecord, vec![Metric::Throughput]).is_err());
        let design = with(Metric::CpuPerRecord, vec![]).unwrap();
        assert!(!design.rule.secondary.contains(&Metric::Throughput));
    }
}

#[test]
fn a_tail_that_no_window_can_tell_is_refused_before_the_run() {
    let short = |primary, guards: Vec<Metric>, requests| {
        plan(&Plan { primary, guards, requests_per_window: Some(requests), ..asked(9, 5, 1) })
    };
    let message = short(Metric::LatencyP999, vec![], 9_999).unwrap_err().to_string();
    assert!(
        message.contains("p99.9 needs 10000 requests in every window, but a window here may get only 9999"),
        "{message}"
    );
    assert!(short(Metric::LatencyP999, vec![], 10_000).is_ok());
    assert!(short(Metric::CpuPerRecord, vec![Metric::LatencyP99], 999).is_err());
    // As a secondary metric it is named, and no longer counted in the correction.
    let design = short(Metric::CpuPerRecord, vec![], 5_000).unwrap();
    // Nor are throughput and capacity, which such a load does not measure, and the primary is not secondary.
    assert_eq!(design.rule.secondary.len(), Metric::ALL.len() - 7);
    assert!(design.refused.contains_key(&Metric::LatencyP999));
}
