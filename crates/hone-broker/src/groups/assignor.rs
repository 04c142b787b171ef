//! Who gets which partitions, computed by the broker: `uniform` and `range`.
//!
//! Pure functions of the subscriptions, the topics and the assignment before. The order of members and topics decides
//! where nothing else does, so the same group always gets the same assignment.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

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
        let eligible = Eligible::of(subscribers, topics);
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

/// The subscribers that may have each topic. Most topics of a group are wanted by the same ones, who are kept once.
struct Eligible {
    /// Places of subscribers, in their order.
    sets: Vec<Vec<usize>>,
    /// Which set it is, by topic id.
    of_topic: BTreeMap<u128, usize>,
}

impl Eligible {
    fn of(subscribers: &[Subscriber<'_>], topics: &BTreeMap<String, (u128, i32)>) -> Self {
        // Subscribers that want the same are alike.
        let mut kinds: BTreeMap<&BTreeSet<&str>, Vec<usize>> = BTreeMap::new();
        for (place, subscriber) in subscribers.iter().enumerate() {
            kinds.entry(&subscriber.topics).or_default().push(place);
        }
        let mut numbers: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        let mut found = Self { sets: Vec::new(), of_topic: BTreeMap::new() };
        for (name, (id, _)) in topics {
            let wanting = kinds.keys().enumerate().filter(|(_, wanted)| wanted.contains(name.as_str()));
            let wanting: Vec<usize> = wanting.map(|(kind, _)| kind).collect();
            let number = *numbers.entry(wanting).or_insert_with_key(|wanting| {
                let places = kinds.values().enumerate();
                let places = places.filter(|(kind, _)| wanting.binary_search(kind).is_ok());
                let mut places: Vec<usize> = places.flat_map(|(_, places)| places).copied().collect();
                places.sort_unstable();
                found.sets.push(places);
                found.sets.len() - 1
            });
            found.of_topic.insert(*id, number);
        }
        found
    }

    /// The number of the set that may have a topic.
    fn number(&self, id: u128) -> Option<usize> {
        self.of_topic.get(&id).copied()
    }

    fn set(&self, number: Option<usize>) -> &[usize] {
        number.and_then(|number| self.sets.get(number)).map(Vec::as_slice).unwrap_or_default()
    }
}

fn range(
    subscribers: &[Subscriber<'_>],
    topics: &BTreeMap<String, (u128, i32)>,
    eligible: &Eligible,
) -> Vec<Partitions> {
    let mut sets = eligible.sets.clone();
    for places in &mut sets {
        places.sort_by_key(|place| subscribers.get(*place).map(|subscriber| subscriber.order));
    }
    let mut targets = vec![Partitions::new(); subscribers.len()];
    for (id, count) in topics.values() {
        let places = eligible.number(*id).and_then(|number| sets.get(number));
        let places = places.map(Vec::as_slice).unwrap_or_default();
        let members = places.len() as i32;
        // Behind the last partition there is nothing left to give.
        for (rank, place) in (0..*count).zip(places) {
            let (least, extra) = (count / members, count % members);
            let start = rank * least + rank.min(extra);
            let length = least + i32::from(rank < extra);
            if let Some(target) = targets.get_mut(*place) {
                target.extend((start..start + length).map(|partition| (*id, partition)));
            }
        }
    }
    targets
}

/// How many partitions each subscriber has, and who of a set has the fewest.
struct Loads<'a> {
    eligible: &'a Eligible,
    loads: Vec<usize>,
    /// The sets that a subscriber is in.
    sets_of: Vec<Vec<usize>>,
    /// For each set: loads and places, the smallest first. Every place is in there with what it has or with less; what is
    /// less is put right when it comes to the top.
    least: Vec<BinaryHeap<Reverse<(usize, usize)>>>,
}

impl<'a> Loads<'a> {
    fn new(eligible: &'a Eligible, loads: Vec<usize>) -> Self {
        let mut sets_of = vec![Vec::new(); loads.len()];
        for (number, places) in eligible.sets.iter().enumerate() {
            places.iter().for_each(|place| sets_of[*place].push(number));
        }
        let heap =
            |places: &Vec<usize>| places.iter().map(|place| Reverse((loads[*place], *place))).collect();
        let least = eligible.sets.iter().map(heap).collect();
        Self { eligible, loads, sets_of, least }
    }

    /// Who of those that may have a topic has the fewest, the first of them.
    fn least_loaded(&mut self, id: u128) -> Option<usize> {
        let heap = self.least.get_mut(self.eligible.number(id)?)?;
        loop {
            let Reverse((load, place)) = *heap.peek()?;
            let now = self.loads[place];
            if load == now {
                return Some(place);
            }
            heap.pop();
            if load < now {
                heap.push(Reverse((now, place)));
            }
        }
    }

    fn give(&mut self, place: usize) {
        self.loads[place] += 1;
    }

    fn take(&mut self, place: usize) {
        self.loads[place] -= 1;
        for number in &self.sets_of[place] {
            self.least[*number].push(Reverse((self.loads[place], place)));
        }
    }
}

fn uniform(
    subscribers: &[Subscriber<'_>],
    topics: &BTreeMap<String, (u128, i32)>,
    eligible: &Eligible,
) -> Vec<Partitions> {
    let mut owners = owners_before(subscribers, topics, eligible);
    let mut before = vec![0_usize; subscribers.len()];
    for place in owners.values().flatten() {
        before[*place] += 1;
    }
    let mut loads = Loads::new(eligible, before);
    // Partitions that few can have are given first, as long as there is room.
    let mut free: Vec<(u128, i32)> =
        owners.iter().filter(|(_, owner)| owner.is_none()).map(|(partition, _)| *partition).collect();
    free.sort_by_key(|partition| (eligible.set(eligible.number(partition.0)).len(), *partition));
    for partition in free {
        if let Some(place) = loads.least_loaded(partition.0) {
            loads.give(place);
            owners.insert(partition, Some(place));
        }
    }
    while even_out(&mut owners, &mut loads) {}
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
    eligible: &Eligible,
) -> BTreeMap<(u128, i32), Option<usize>> {
    let all = topics.values().flat_map(|(id, count)| (0..*count).map(|partition| (*id, partition)));
    let mut owners: BTreeMap<(u128, i32), Option<usize>> = all.map(|partition| (partition, None)).collect();
    for (place, subscriber) in subscribers.iter().enumerate() {
        for partition in subscriber.before {
            let wants = eligible.set(eligible.number(partition.0)).binary_search(&place).is_ok();
            if let Some(owner) = owners.get_mut(partition).filter(|_| wants) {
                *owner = Some(place);
            }
        }
    }
    owners
}

/// Moves partitions from who has more to who has at least two fewer; each move makes the squares of the loads smaller,
/// so it ends. `true` when something was moved.
fn even_out(owners: &mut BTreeMap<(u128, i32), Option<usize>>, loads: &mut Loads<'_>) -> bool {
    let mut moved = false;
    for (partition, owner) in owners.iter_mut() {
        let Some(from) = *owner else { continue };
        let Some(to) = loads.least_loaded(partition.0) else { continue };
        if loads.loads[from] >= loads.loads[to] + 2 {
            loads.take(from);
            loads.give(to);
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

    /// The rule without the bookkeeping: each choice looks at everybody.
    fn plainly_uniform(
        topics: &BTreeMap<String, (u128, i32)>,
        wanted: &[Vec<&str>],
        before: &[Partitions],
    ) -> Vec<Partitions> {
        let wants = |place: usize, id: u128| {
            topics.iter().any(|(name, (found, _))| *found == id && wanted[place].contains(&name.as_str()))
        };
        let wanting = |id: u128| (0..wanted.len()).filter(move |place| wants(*place, id));
        let had = |place: usize, partition: &(u128, i32)| {
            before.get(place).is_some_and(|had| had.contains(partition))
        };
        let all: Vec<(u128, i32)> =
            topics.values().flat_map(|(id, count)| (0..*count).map(|partition| (*id, partition))).collect();
        let keeper = |one: &(u128, i32)| wanting(one.0).rfind(|place| had(*place, one));
        let mut owners: BTreeMap<(u128, i32), Option<usize>> =
            all.iter().map(|one| (*one, keeper(one))).collect();
        let load = |owners: &BTreeMap<_, Option<usize>>, place| {
            owners.values().filter(|owner| **owner == Some(place)).count()
        };
        let least =
            |owners: &BTreeMap<_, _>, id| wanting(id).min_by_key(|place| (load(owners, *place), *place));
        let mut free: Vec<_> = all.iter().filter(|one| owners[*one].is_none()).collect();
        free.sort_by_key(|one| (wanting(one.0).count(), **one));
        for one in free {
            let place = least(&owners, one.0);
            owners.insert(*one, place);
        }
        loop {
            let mut moved = false;
            for one in &all {
                let (Some(from), Some(to)) = (owners[one], least(&owners, one.0)) else { continue };
                if load(&owners, from) >= load(&owners, to) + 2 {
                    owners.insert(*one, Some(to));
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        let of = |place| owners.iter().filter(move |(_, owner)| **owner == Some(place)).map(|(one, _)| *one);
        (0..wanted.len()).map(|place| of(place).collect()).collect()
    }

    #[test]
    fn thousands_of_members_share_ten_thousand_partitions_whoever_comes_and_goes() {
        for topics in [topics(&[10_000]), topics(&[1; 10_000])] {
            let names: Vec<&str> = topics.keys().map(String::as_str).take(10).collect();
            let mut before = Vec::new();
            for members in [5_000, 4_000, 5_000] {
                let wanted = vec![names.clone(); members];
                before.truncate(members);
                before = assign(Assignor::Uniform, &topics, &wanted, &before);
                let given: usize = before.iter().map(BTreeSet::len).sum();
                let fair = given / members..=given.div_ceil(members);
                assert!(before.iter().all(|one| fair.contains(&one.len())));
                assert_eq!(before.iter().flatten().collect::<BTreeSet<_>>().len(), given);
                let ranged = assign(Assignor::Range, &topics, &wanted, &[]);
                assert_eq!(ranged.iter().map(BTreeSet::len).sum::<usize>(), given);
            }
        }
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
                    if assignor == Assignor::Uniform {
                        prop_assert_eq!(&found, &plainly_uniform(&topics, &asked, &before));
                    }
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
