//! The topics of a load, with one number for each of their partitions, so that the rest of a load need not know whose partition it is.

use std::sync::Arc;

use hone_record::Workload;
use uuid::Uuid;

/// One topic, or several with equally many partitions. Partition P of topic T (from 0) has the number T × partitions + P; of one topic it is
/// the partition's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSet {
    names: Arc<[String]>,
    /// Partitions of each.
    width: i32,
}

impl TopicSet {
    /// One topic.
    pub fn one(name: &str) -> Self {
        Self { names: Arc::from([name.to_owned()]), width: i32::MAX }
    }

    /// The topics of a workload. Several have their numbers from 1 behind the name.
    pub(crate) fn of_load(name: &str, workload: &Workload) -> Self {
        match workload.topics.count() {
            0 | 1 => Self::one(name),
            count => Self {
                names: (1..=count).map(|number| format!("{name}-{number}")).collect(),
                width: workload.partitions as i32,
            },
        }
    }

    /// All names.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The first name, for what is the same for all of them.
    pub fn first(&self) -> &str {
        &self.names[0]
    }

    /// The name, or the first one and the number of the others, for people.
    pub(crate) fn label(&self) -> String {
        match self.names.len() {
            1 => self.first().to_owned(),
            count => format!("{} to {count}", self.first()),
        }
    }

    /// The topic of a partition, counted from 0.
    pub(crate) fn index(&self, number: i32) -> usize {
        usize::try_from(number / self.width).unwrap_or(0).min(self.names.len() - 1)
    }

    /// The topic and the partition with this number.
    pub(crate) fn place(&self, number: i32) -> (&str, i32) {
        (&self.names[self.index(number)], number % self.width)
    }

    /// A partition's name: its number, and the topic's name before it if there are several.
    pub(crate) fn name(&self, number: i32) -> String {
        match self.names.len() {
            1 => number.to_string(),
            _ => {
                let (topic, partition) = self.place(number);
                format!("{topic}/{partition}")
            }
        }
    }

    /// The number of a partition. `None` if it is of none of these topics. The name of a single topic is not compared.
    pub(crate) fn number(&self, topic: &str, partition: i32) -> Option<i32> {
        if self.names.len() == 1 {
            return Some(partition);
        }
        let index = self.names.iter().position(|name| name == topic)? as i32;
        (0..self.width).contains(&partition).then(|| index * self.width + partition)
    }

    /// Partitions by their numbers, with something about each, in order of their topics. Otherwise the order stays.
    pub(crate) fn by_topic<T>(
        &self,
        numbered: impl IntoIterator<Item = (i32, T)>,
    ) -> Vec<(&str, Vec<(i32, T)>)> {
        let names = self.names.iter().map(String::as_str);
        self.sorted(names, numbered)
    }

    /// Partitions under what stands for their topic.
    fn sorted<K, T>(
        &self,
        keys: impl Iterator<Item = K>,
        numbered: impl IntoIterator<Item = (i32, T)>,
    ) -> Vec<(K, Vec<(i32, T)>)> {
        let mut found: Vec<(K, Vec<(i32, T)>)> = keys.map(|key| (key, Vec::new())).collect();
        for (number, about) in numbered {
            found[self.index(number)].1.push((number % self.width, about));
        }
        found.retain(|(_, partitions)| !partitions.is_empty());
        found
    }
}

/// Topics with the ids by which newer requests name them.
#[derive(Debug, Clone)]
pub(crate) struct TopicIds {
    topics: TopicSet,
    /// In the order of the topics. A topic that the cluster does not know has the id 0.
    ids: Arc<[Uuid]>,
}

impl TopicIds {
    /// Ids in the order of the topics.
    pub(crate) fn new(topics: TopicSet, ids: Vec<Uuid>) -> Self {
        Self { topics, ids: ids.into() }
    }

    /// The number of a partition. `None` if it is of none of these topics.
    pub(crate) fn number(&self, id: Uuid, partition: i32) -> Option<i32> {
        let index = self.ids.iter().position(|known| *known == id)?;
        self.topics.number(&self.topics.names()[index], partition)
    }

    /// Partitions by their numbers, with something about each, in order of their topics.
    pub(crate) fn by_topic<T>(
        &self,
        numbered: impl IntoIterator<Item = (i32, T)>,
    ) -> Vec<(Uuid, Vec<(i32, T)>)> {
        self.topics.sorted(self.ids.iter().copied(), numbered)
    }
}

impl From<&str> for TopicSet {
    fn from(name: &str) -> Self {
        Self::one(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::tests::workload;
    use hone_record::{Schedule, TopicShares};

    #[test]
    fn every_partition_has_a_number_and_every_number_a_partition() {
        let load = Workload {
            partitions: 6,
            topics: TopicShares::Equal { count: 30 },
            ..workload(Schedule::Uniform, 1.0, 1)
        };
        let topics = TopicSet::of_load("t", &load);
        assert_eq!((topics.first(), topics.names().len(), &*topics.label()), ("t-1", 30, "t-1 to 30"));
        for number in 0..180 {
            let (topic, partition) = topics.place(number);
            assert_eq!(topics.number(topic, partition), Some(number));
        }
        assert_eq!((topics.place(179), &*topics.name(179)), (("t-30", 5), "t-30/5"));
        assert_eq!((topics.number("t-31", 0), topics.number("t-1", 6)), (None, None));
        let grouped = topics.by_topic([(7, 'a'), (1, 'b'), (6, 'c')]);
        assert_eq!(grouped, [("t-1", vec![(1, 'b')]), ("t-2", vec![(1, 'a'), (0, 'c')])]);
    }

    #[test]
    fn the_partitions_of_one_topic_keep_their_numbers() {
        let topic = TopicSet::of_load("t", &workload(Schedule::Uniform, 1.0, 1));
        assert_eq!(topic, TopicSet::one("t"));
        assert_eq!((topic.place(70_000), topic.number("t", 70_000)), (("t", 70_000), Some(70_000)));
        assert_eq!(topic.name(70_000), "70000");
        assert_eq!(topic.by_topic([(3, ()), (1, ())]), [("t", vec![(3, ()), (1, ())])]);
    }
}
