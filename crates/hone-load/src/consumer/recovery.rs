//! Partitions that need another leader, and what to say when one is found.

use std::time::{Duration, Instant};

use hone_record::EventKind;

use super::reader::{Consumer, Stray, Why};
use super::scout::{Sought, Way};
use crate::topic_set::TopicSet;

/// The partitions that a consumer must look up: those without a link, and perhaps those on a silent link.
pub(super) fn sought(consumer: &Consumer, now: Instant, patience: Duration) -> Vec<Sought> {
    let strays = consumer.strays.iter().map(|(partition, stray)| Sought {
        partition: *partition,
        other_than: None,
        start: stray.why == Why::OutOfRange,
    });
    let silent = consumer.links.values().filter(|link| link.silent_for(now) > patience);
    let elsewhere = silent.flat_map(|link| {
        let sought = |partition: &i32| Sought {
            partition: *partition,
            other_than: Some(link.address.clone()),
            start: false,
        };
        link.partitions.iter().map(sought)
    });
    strays.chain(elsewhere).collect()
}

/// A note about a new connection, if it is worth reporting.
pub(super) fn recovery_event(
    way: &Way,
    before: &[Option<Stray>],
    topics: &TopicSet,
) -> Option<(EventKind, String)> {
    let is_new = |stray: &Option<Stray>| stray.as_ref().is_none_or(|stray| stray.from != way.address);
    let is_adopted = |stray: &Option<Stray>| stray.as_ref().is_some_and(|stray| stray.why == Why::Adopted);
    // A partition that came from the group is no incident of the cluster.
    if before.iter().all(is_adopted) {
        return None;
    }
    let is_lost = |stray: &Option<Stray>| stray.as_ref().is_some_and(|stray| stray.why == Why::Lost);
    let kind = if before.iter().any(is_lost) {
        EventKind::Reconnected
    } else if before.iter().any(is_new) {
        EventKind::LeaderMoved
    } else {
        return None;
    };
    let list: Vec<String> = way.partitions.iter().map(|partition| topics.name(*partition)).collect();
    let (consumer, address) = (way.consumer + 1, &way.address);
    Some((kind, format!("consumer {consumer} reads partitions {} at {address}", list.join(", "))))
}
