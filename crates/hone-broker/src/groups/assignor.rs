//! Who gets which partitions, computed by the broker: `uniform` and `range`.
//!
//! Pure functions of the subscriptions, the topics and the assignment before. The order of members and topics decides
//! where nothing else does, so the same group always gets the same assignment.

use std::collections::{BTreeMap, BTreeSet};

/// Topic id and partition.
pub(super) type Partitions = BTreeSet<(u128, i32)>;

/// The strategies by the names that clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Assignor {
    /// As even as can be, and what a member has it keeps where that allows.
    Uniform,
    /// Neighbouring partitions of each topic, the same ones of every topic.
    Range,
}

impl Assignor {
    pub(super) fn of_name(name: &str) -> Option<Self> {
        match name {
            "uniform" => Some(Self::Uniform),
            "range" => Some(Self::Range),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// The target of each subscriber, in their order.
    pub(super) fn assign(
        self,
        subscribers: &[Subscriber<'_>],
        topics: &BTreeMap<String, (u128, i32)>,
    ) -> Vec<Partitions> {
        let eligible = eligible(subscribers, topics);
        match self {
            Self::Uniform => uniform(subscribers, topics, &eligible),
            Self::Range => range(subscribers, topics, &eligible),
        }
    }
}

/// What counts of a member.
pub(super) struct Subscriber<'a> {
    /// Its instance, or else its id: static members keep their place when they restart.
    pub(super) order: &'a str,
    pub(super) topics: BTreeSet<&'a str>,
    /// What it was to have until now.
    pub(super) before: &'a Partitions,
}

/// For each topic id: the subscribers that want it, by their place.
fn eligible(
    subscribers: &[Subscriber<'_>],
    topics: &BTreeMap<String, (u128, i32)>,
) -> BTreeMap<u128, Vec<usize>> {
    let wants = |name: &str| {
        let wanting = subscribers.iter().enumerate();
        wanting.filter(|(_, subscriber)| subscriber.topics.contains(name)).map(|(place, _)| place).collect()
    };
    topics.iter().map(|(name, (id, _))| (*id, wants(name))).collect()
}

fn range(
    subscribers: &[Subscriber<'_>],
    topics: &BTreeMap<String, (u128, i32)>,
    eligible: &BTreeMap<u128, Vec<usize>>,
) -> Vec<Partitions> {
    let mut targets = vec![Partitions::new(); subscribers.len()];
    for (id, count) in topics.values() {
        let mut places = eligible.get(id).cloned().unwrap_or_default();
        places.sort_by_key(|place| subscribers.get(*place).map(|subscriber| subscriber.order));
        let members = places.len() as i32;
        for (rank, place) in places.into_iter().enumerate() {
            let rank = rank as i32;
            let (least, extra) = (count / members, count % members);
            let start = rank * least + rank.min(extra);
            let length = least + i32::from(rank < extra);
            if let Some(target) = targets.get_mut(place) {
                target.extend((start..start + length).map(|partition| (*id, partition)));
            }
        }
    }
    targets
}

fn uniform(
    subscribers: &[Subscriber<'_>],
    topics: &BTreeMap<String, (u128, i32)>,
    eligible: &BTreeMap<u128, Vec<usize>>,
) -> Vec<Partitions> {
    let mut owners = owners_before(subscribers, topics, eligible);
    let mut loads = vec![0_usize; subscribers.len()];
    for place in owners.values().flatten() {
        loads[*place] += 1;
    }
    let wanting = |id: u128| eligible.get(&id).map(Vec::as_slice).unwrap_or_default();
    // Partitions that few can have are given first, as long as there is room.
    let mut free: Vec<(u128, i32)> =
        owners.iter().filter(|(_, owner)| owner.is_none()).map(|(partition, _)| *partition).collect();
    free.sort_by_key(|partition| (wanting(partition.0).len(), *partition));
    for partition in free {
        if let Some(place) = least_loaded(wanting(partition.0), &loads) {
            loads[place] += 1;
            owners.insert(partition, Some(place));
        }
    }
    while even_out(&mut owners, &mut loads, wanting) {}
    let mut targets = vec![Partitions::new(); subscribers.len()];
    for (partition, owner) in owners {
        if let Some(target) = owner.and_then(|place| targets.get_mut(place)) {
            target.insert(partition);
        }
    }
    targets
}

/// Every partition there is, with who had it and may keep it.
fn owners_before(
    subscribers: &[Subscriber<'_>],
    topics: &BTreeMap<String, (u128, i32)>,
    eligible: &BTreeMap<u128, Vec<usize>>,
) -> BTreeMap<(u128, i32), Option<usize>> {
    let all = topics.values().flat_map(|(id, count)| (0..*count).map(|partition| (*id, partition)));
    let mut owners: BTreeMap<(u128, i32), Option<usize>> = all.map(|partition| (partition, None)).collect();
    for (place, subscriber) in subscribers.iter().enumerate() {
        for partition in subscriber.before {
            let wants = eligible.get(&partition.0).is_some_and(|places| places.contains(&place));
            if let Some(owner) = owners.get_mut(partition).filter(|_| wants) {
                *owner = Some(place);
            }
        }
    }
    owners
}

fn least_loaded(places: &[usize], loads: &[usize]) -> Option<usize> {
    places.iter().copied().min_by_key(|place| (loads.get(*place).copied(), *place))
}

/// Moves partitions from who has more to who has at least two fewer; each move makes the squares of the loads smaller,
/// so it ends. `true` when something was moved.
fn even_out<'a>(
    owners: &mut BTreeMap<(u128, i32), Option<usize>>,
    loads: &mut [usize],
    wanting: impl Fn(u128) -> &'a [usize],
) -> bool {
    let mut moved = false;
    for (partition, owner) in owners.iter_mut() {
        let Some(from) = *owner else { continue };
        let Some(to) = least_loaded(wanting(partition.0), loads) else { continue };
        if loads[from] >= loads[to] + 2 {
            loads[from] -= 1;
            loads[to] += 1;
            *owner = Some(to);
            moved = true;
        }
    }
    moved
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topics(counts: &[i32]) -> BTreeMap<String, (u128, i32)> {
        counts.iter().enumerate().map(|(at, count)| (format!("t{at}"), (at as u128 + 1, *count))).collect()
    }

    fn assign(
        assignor: Assignor,
        topics: &BTreeMap<String, (u128, i32)>,
        wanted: &[Vec<&str>],
        before: &[Partitions],
    ) -> Vec<Partitions> {
        let none = Partitions::new();
        let names: Vec<String> = (0..wanted.len()).map(|at| format!("m{at:03}")).collect();
        let subscribers: Vec<_> = wanted
            .iter()
            .enumerate()
            .map(|(at, wanted)| Subscriber {
                order: &names[at],
                topics: wanted.iter().copied().collect(),
                before: before.get(at).unwrap_or(&none),
            })
            .collect();
        assignor.assign(&subscribers, topics)
    }

    #[test]
    fn range_gives_neighbours_and_the_same_ones_of_every_topic() {
        let topics = topics(&[5, 5]);
        let found = assign(Assignor::Range, &topics, &[vec!["t0", "t1"], vec!["t0", "t1"]], &[]);
        assert_eq!(found[0], [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)].into());
        assert_eq!(found[1], [(1, 3), (1, 4), (2, 3), (2, 4)].into());
    }

    #[test]
    fn a_newcomer_gets_its_share_and_nothing_else_moves() {
        let topics = topics(&[9]);
        let before = assign(Assignor::Uniform, &topics, &[vec!["t0"], vec!["t0"]], &[]);
        assert_eq!(before.iter().map(BTreeSet::len).collect::<Vec<_>>(), [5, 4]);
        let after = assign(Assignor::Uniform, &topics, &[vec!["t0"], vec!["t0"], vec!["t0"]], &before);
        assert_eq!(after.iter().map(BTreeSet::len).collect::<Vec<_>>(), [3, 3, 3]);
        assert!(after[0].is_subset(&before[0]) && after[1].is_subset(&before[1]));
    }

    proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_wanted_partition_has_exactly_one_owner_that_wants_it(
            counts in proptest::collection::vec(0..12_i32, 1..5),
            wants in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 5), 1..7),
            again in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 5), 1..7),
        ) {
            let topics = topics(&counts);
            let names: Vec<String> = topics.keys().cloned().collect();
            let wanted = |wants: &[Vec<bool>]| -> Vec<Vec<String>> {
                wants.iter().map(|row| {
                    names.iter().zip(row).filter(|(_, yes)| **yes).map(|(name, _)| name.clone()).collect()
                }).collect()
            };
            for assignor in [Assignor::Uniform, Assignor::Range] {
                let mut before = Vec::new();
                for round in [&wants, &again] {
                    let wanted = wanted(round);
                    let asked: Vec<Vec<&str>> =
                        wanted.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
                    let found = assign(assignor, &topics, &asked, &before);
                    let mut seen = Partitions::new();
                    for (member, partitions) in found.iter().enumerate() {
                        for (id, partition) in partitions {
                            prop_assert!(seen.insert((*id, *partition)), "given twice");
                            let name = format!("t{}", id - 1);
                            prop_assert!(asked[member].contains(&name.as_str()));
                            prop_assert!((0..topics[&name].1).contains(partition));
                        }
                    }
                    let reachable: i32 = topics.iter()
                        .filter(|(name, _)| asked.iter().any(|row| row.contains(&name.as_str())))
                        .map(|(_, (_, count))| *count).sum();
                    prop_assert_eq!(seen.len(), reachable as usize);
                    if assignor == Assignor::Uniform && asked.iter().all(|row| *row == asked[0]) {
                        let sizes: Vec<usize> = found.iter().map(BTreeSet::len).collect();
                        prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                    }
                    before = found;
                }
            }
        }
    }
}
