//! How a transaction ends in the partitions and groups of this broker.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{io, thread};

use crate::code;
use crate::mailbox::Letter;
use crate::node::Node;
use crate::partition::{AppendError, Marker, Partition, Sequence};
use crate::ticket::Ticket;
use crate::transactions::producer::Producer;
use crate::transactions::{Decision, Ending, Ends};
use crate::wall_clock::unix_ms;

/// There is one coordinator, and it never moves.
pub(crate) const COORDINATOR_EPOCH: i32 = 0;

/// Flushes of ends under way at a time.
const FLUSH_THREADS: usize = 8;

/// The partitions and offsets of a node.
pub(crate) struct NodeEnds {
    node: Arc<Node>,
    /// Where ends that failed at another place, and are tried again, have their markers on the disk.
    marked: Mutex<HashMap<Producer, BTreeSet<(String, i32)>>>,
}

/// Partitions with new markers, each to be flushed once, and which endings wait for it.
type Touched = BTreeMap<(String, i32), (Arc<Partition>, Vec<usize>)>;

impl Ends for NodeEnds {
    fn carry_out(&self, endings: &[Ending]) -> Vec<Result<(), String>> {
        let mut results: Vec<Result<(), String>> = endings.iter().map(|_| Ok(())).collect();
        let mut tickets = Vec::new();
        let mut touched = Touched::new();
        for (index, (ending, result)) in endings.iter().zip(&mut results).enumerate() {
            *result = self.mark(index, ending, &mut touched, &mut tickets);
        }
        let logs: Vec<_> = touched.values().map(|(log, _)| log.as_ref()).collect();
        let flushed = flush_all(&logs);
        let mut durable = Vec::new();
        for (((topic, partition), (log, waiting)), flushed) in touched.into_iter().zip(flushed) {
            match flushed {
                Ok(()) => {
                    log.take_waiting(&mut tickets);
                    durable.push(((topic, partition), waiting));
                }
                Err(error) => {
                    for index in waiting {
                        let Some(result) = results.get_mut(index) else { continue };
                        *result = Err(format!("can't flush {topic}-{partition}: {error}"));
                    }
                }
            }
        }
        wake(&self.node, tickets);
        self.resolve(endings, &mut results);
        self.remember(endings, &results, durable);
        results
    }
}

impl NodeEnds {
    pub(crate) fn new(node: Arc<Node>) -> Self {
        Self { node, marked: Mutex::default() }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    fn marked(&self) -> MutexGuard<'_, HashMap<Producer, BTreeSet<(String, i32)>>> {
        self.marked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_marker(&self, producer: Producer, topic: &str, partition: i32) -> bool {
        let marked = self.marked();
        !marked.is_empty()
            && marked.get(&producer).is_some_and(|places| places.contains(&(topic.to_owned(), partition)))
    }

    /// An end that is tried again is not written again where it is: each time would be another batch and another flush. `durable` are places
    /// whose markers are on the disk, each with the endings that have one there.
    fn remember(
        &self,
        endings: &[Ending],
        results: &[Result<(), String>],
        durable: Vec<((String, i32), Vec<usize>)>,
    ) {
        let mut marked = self.marked();
        for (ending, _) in endings.iter().zip(results).filter(|(_, result)| result.is_ok()) {
            marked.remove(&ending.producer);
        }
        if results.iter().all(Result::is_ok) {
            return;
        }
        for (place, waiting) in durable {
            for index in waiting.into_iter().filter(|index| results.get(*index).is_some_and(Result::is_err)) {
                let Some(ending) = endings.get(index) else { continue };
                marked.entry(ending.producer).or_default().insert(place.clone());
            }
        }
    }

    /// Appends the markers of one ending.
    fn mark(
        &self,
        index: usize,
        ending: &Ending,
        touched: &mut Touched,
        wake: &mut Vec<Ticket>,
    ) -> Result<(), String> {
        // One that takes none must not keep the others open.
        let mut refused = Ok(());
        for (name, partitions) in &ending.places.partitions {
            // Nothing of the transaction is left in a topic that was deleted.
            let Some(topic) = self.node.topics.by_name(name) else { continue };
            for partition in partitions {
                let Some(log) = topic.partition(*partition) else { continue };
                if self.has_marker(ending.producer, name, *partition) {
                    continue;
                }
                match append_marker(log, ending.producer, ending.decision, wake) {
                    Ok(()) => {
                        let waits = touched.entry((name.clone(), *partition));
                        waits.or_insert_with(|| (Arc::clone(log), Vec::new())).1.push(index);
                    }
                    // Nor where a newer owner has written: its predecessor's transaction was ended before that.
                    Err(AppendError::Removed | AppendError::Sequence(Sequence::Fenced)) => (),
                    Err(error) if refused.is_ok() => {
                        refused =
                            Err(format!("can't write a transaction marker to {name}-{partition}: {error}"));
                    }
                    Err(_) => (),
                }
            }
        }
        refused
    }

    /// Gives the verdict on what was staged for the groups of those that have succeeded so far.
    fn resolve(&self, endings: &[Ending], results: &mut [Result<(), String>]) {
        let offsets = &self.node.offsets;
        let with_groups = |(ending, result): &(&Ending, &mut Result<(), String>)| {
            result.is_ok() && !ending.places.groups.is_empty()
        };
        let resolved: Vec<_> = endings.iter().zip(results).filter(with_groups).collect();
        if resolved.is_empty() {
            return;
        }
        for (ending, _) in &resolved {
            offsets.resolve(ending.producer.id, ending.decision == Decision::Commit, None);
        }
        if let Err(error) = offsets.wait_until_durable() {
            for (_, result) in resolved {
                *result = Err(error.to_string());
            }
        }
    }
}

/// Wakes the readers that wait for new records.
fn wake(node: &Node, tickets: Vec<Ticket>) {
    for ticket in tickets {
        node.post(ticket, Letter::Grown(ticket.connection));
    }
}

/// A marker that is asked for by name, and not by the end of a transaction.
pub(crate) struct Verdict {
    pub(crate) log: Arc<Partition>,
    pub(crate) producer: Producer,
    pub(crate) decision: Decision,
}

/// Writes markers durably. An error code for each.
pub(crate) fn write_markers(node: &Node, verdicts: &[Verdict]) -> Vec<i16> {
    let mut tickets = Vec::new();
    let append = |verdict: &Verdict| {
        let Verdict { log, producer, decision } = verdict;
        append_marker(log, *producer, *decision, &mut tickets).map_or_else(|error| error_code(&error), |()| 0)
    };
    let mut errors: Vec<i16> = verdicts.iter().map(append).collect();
    let mut touched: BTreeMap<(&str, i32), (&Partition, Vec<usize>)> = BTreeMap::new();
    for (place, verdict) in verdicts.iter().enumerate().filter(|(place, _)| errors[*place] == code::NONE) {
        let log = verdict.log.as_ref();
        touched.entry((&log.topic, log.index)).or_insert_with(|| (log, Vec::new())).1.push(place);
    }
    let logs: Vec<&Partition> = touched.values().map(|(log, _)| *log).collect();
    for ((log, places), flushed) in touched.into_values().zip(flush_all(&logs)) {
        match flushed {
            Ok(()) => log.take_waiting(&mut tickets),
            Err(_) => places.into_iter().for_each(|place| errors[place] = code::KAFKA_STORAGE_ERROR),
        }
    }
    wake(node, tickets);
    errors
}

fn error_code(error: &AppendError) -> i16 {
    match error {
        AppendError::Sequence(_) => code::INVALID_PRODUCER_EPOCH,
        AppendError::CoordinatorFenced => code::TRANSACTION_COORDINATOR_FENCED,
        AppendError::Removed => code::UNKNOWN_TOPIC_OR_PARTITION,
        AppendError::Storage(_) => code::KAFKA_STORAGE_ERROR,
    }
}

/// Flushes logs, several at a time: a disk that is asked for many flushes at once does them together.
fn flush_all(logs: &[&Partition]) -> Vec<Result<(), String>> {
    let share = logs.len().div_ceil(FLUSH_THREADS).max(1);
    let flush = |logs: &[&Partition]| -> Vec<Result<(), String>> {
        logs.iter().map(|log| log.flush().map(drop).map_err(|error| error.to_string())).collect()
    };
    let mut shares = logs.chunks(share);
    let Some(own) = shares.next() else { return Vec::new() };
    thread::scope(|scope| {
        // A thread that can't be had is done without.
        let others: Vec<_> = shares
            .map(|share| thread::Builder::new().spawn_scoped(scope, move || flush(share)).map_err(|_| share))
            .collect();
        let mut results = flush(own);
        for other in others {
            results.extend(match other {
                Ok(other) => other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(share) => flush(share),
            });
        }
        results
    })
}

fn append_marker(
    log: &Partition,
    producer: Producer,
    decision: Decision,
    wake: &mut Vec<Ticket>,
) -> Result<(), AppendError> {
    let marker = match decision {
        Decision::Commit => Marker::Commit,
        Decision::Abort => Marker::Abort,
    };
    log.append_marker(producer.id, producer.epoch, marker, COORDINATOR_EPOCH, unix_ms(), wake).map(drop)
}

/// Looks for open transactions that no end will ever come for, and aborts them; before any client is served.
pub(crate) fn settle_open(node: &Node) -> io::Result<()> {
    for topic in node.topics.all() {
        for partition in &topic.partitions {
            settle_partition(node, partition)?;
        }
    }
    Ok(())
}

fn settle_partition(node: &Node, partition: &Partition) -> io::Result<()> {
    let mut marked = false;
    for open in partition.producers().into_iter().filter(|producer| producer.txn_start.is_some()) {
        let producer = Producer { id: open.producer_id, epoch: open.epoch };
        let Some(owner) = node.transactions.meet(producer, &partition.topic, partition.index) else {
            continue;
        };
        partition
            .append_marker(
                owner.id,
                owner.epoch,
                Marker::Abort,
                COORDINATOR_EPOCH,
                unix_ms(),
                &mut Vec::new(),
            )
            .map_err(|error| io::Error::other(error.to_string()))?;
        marked = true;
    }
    if marked { partition.flush().map(drop) } else { Ok(()) }
}
