//! Clients that write until the broker dies, and go on with the next one where they were.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;

use crate::dice::Dice;
use crate::line::*;
use crate::model::{Keeping, Model, PLANS, Place, TxnId};
use crate::support::*;

/// What all clients of a broker share.
pub(crate) struct Scene {
    pub(crate) address: SocketAddr,
    pub(crate) model: Mutex<Model>,
    /// Clients are to end when they have their answers.
    pub(crate) stop: AtomicBool,
    /// The broker was asked to stop: it may refuse.
    pub(crate) ending: AtomicBool,
}

impl Scene {
    /// The first client that finds a promise broken tells of it; the others need not.
    pub(crate) fn model(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Whether an error may be an answer.
    pub(crate) fn ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}

#[derive(Debug, Clone)]
struct Sent {
    place: Place,
    values: Vec<String>,
    acks: i16,
    sequence: i32,
}

/// Which batches a writer sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No sequence, never sent again.
    Plain,
    /// Whatever was not acknowledged is sent again, with its sequence.
    Idempotent,
    /// The same, and only where an acknowledgement means that it is on the disk.
    Durable,
}

/// Writes batches, several under way.
pub(crate) struct Writer {
    name: String,
    kind: Kind,
    dice: Dice,
    places: Vec<Place>,
    number: u64,
    producer: Option<Producer>,
    sequences: HashMap<Place, i32>,
    pending: VecDeque<Sent>,
}

/// All partitions whose topics are as wanted.
fn places(wanted: impl Fn(&crate::model::Plan) -> bool) -> Vec<Place> {
    let topics = PLANS.iter().enumerate().filter(|(_, plan)| wanted(plan));
    topics.flat_map(|(topic, plan)| (0..plan.partitions).map(move |partition| (topic, partition))).collect()
}

/// The next values of a writer.
fn more_values(dice: &mut Dice, name: &str, number: &mut u64) -> Vec<String> {
    let values = (0..1 + dice.below(5)).map(|_| {
        *number += 1;
        let filler = "x".repeat(dice.below(200) as usize);
        format!("{name}.{filler}.{number}")
    });
    values.collect()
}

impl Writer {
    pub(crate) fn new(name: String, kind: Kind, dice: Dice) -> Self {
        let places = places(|plan| plan.strict || kind != Kind::Durable);
        Self {
            name,
            kind,
            dice,
            places,
            number: 0,
            producer: None,
            sequences: HashMap::new(),
            pending: VecDeque::new(),
        }
    }

    /// After a power cut the broker may know less of this producer than it has acknowledged.
    pub(crate) fn after_power_cut(&mut self) {
        if self.kind == Kind::Idempotent {
            self.producer = None;
            self.sequences.clear();
            self.pending.clear();
        }
    }

    /// Values that will be sent again.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &String> {
        self.pending.iter().filter(|_| self.kind != Kind::Plain).flat_map(|sent| &sent.values)
    }

    pub(crate) fn run(&mut self, scene: &Scene) {
        // Whether it ended by a broken connection or by the wish of the test is all the same.
        let _ = self.write_on(scene);
    }

    fn write_on(&mut self, scene: &Scene) -> Option<()> {
        let mut line = Line::open(scene.address)?;
        if self.kind == Kind::Plain {
            self.pending.clear();
        } else if self.producer.is_none() {
            self.producer = Some(init_idempotent(&mut line)?);
        }
        for sent in self.pending.clone() {
            self.send(&mut line, &sent)?;
        }
        let depth = 1 + self.dice.below(5) as usize;
        loop {
            while !scene.stopped() && self.pending.len() < depth {
                let sent = self.next_batch();
                scene.model().sent(sent.place, &sent.values);
                self.pending.push_back(sent.clone());
                self.send(&mut line, &sent)?;
            }
            if self.pending.is_empty() {
                return Some(());
            }
            let answer = line.receive_produced()?;
            if answer.error_code != 0 && scene.ending() {
                return None;
            }
            let sent = self.pending.front()?;
            assert_eq!(answer.error_code, 0, "{}: {sent:?}", self.name);
            let durable = sent.acks == -1 && PLANS[sent.place.0].strict;
            let mut model = scene.model();
            model.acknowledged(sent.place, answer.base_offset, &sent.values, durable);
            self.pending.pop_front();
        }
    }

    fn next_batch(&mut self) -> Sent {
        let place = *self.dice.pick(&self.places);
        let values = more_values(&mut self.dice, &self.name, &mut self.number);
        let sequence = self.sequences.entry(place).or_default();
        let first = *sequence;
        *sequence += values.len() as i32;
        let acks = if self.kind != Kind::Plain || self.dice.percent(50) { -1 } else { 1 };
        Sent { place, values, acks, sequence: first }
    }

    fn send(&self, line: &mut Line, sent: &Sent) -> Option<()> {
        let producer = self.producer.map(|producer| (producer, sent.sequence));
        let batch = values_batch(&sent.values, producer, false);
        line.send(VERSION, &produce_to(sent.place, sent.acks, batch))
    }
}

/// Where a transaction is.
#[derive(Debug, Clone)]
enum Step {
    Between,
    /// Batches are being written.
    Writing(Option<Sent>),
    /// The offset of its group is being staged.
    Staging,
    Ending {
        commit: bool,
    },
}

/// Writes transactions, with offsets of a group in some.
pub(crate) struct Teller {
    id: usize,
    name: String,
    dice: Dice,
    places: Vec<Place>,
    number: u64,
    txn: u64,
    producer: Option<Producer>,
    sequences: HashMap<Place, i32>,
    step: Step,
}

impl Teller {
    pub(crate) fn new(id: usize, dice: Dice) -> Self {
        let places = places(|plan| plan.keeping != Keeping::LastOfKey);
        Self {
            id,
            name: format!("teller{id}"),
            dice,
            places,
            number: 0,
            txn: 0,
            producer: None,
            sequences: HashMap::new(),
            step: Step::Between,
        }
    }

    fn txn_id(&self) -> TxnId {
        (self.id, self.txn)
    }

    /// Values that may be sent again.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &String> {
        let sent = match &self.step {
            Step::Writing(sent) => sent.as_ref(),
            _ => None,
        };
        sent.into_iter().flat_map(|sent| &sent.values)
    }

    /// With a new broker, before anything is looked at: what was asked for is brought to its end; what was only begun
    /// may stay open.
    pub(crate) fn settle(&mut self, scene: &Scene) -> Option<()> {
        let mut line = Line::open(scene.address)?;
        let resumes = self.dice.percent(50);
        match self.step.clone() {
            Step::Ending { commit } if resumes => self.end(&mut line, scene, commit),
            Step::Writing(_) | Step::Staging if resumes => Some(()),
            step => {
                self.producer = Some(init_transactional(&mut line, &self.name)?);
                self.sequences.clear();
                if matches!(step, Step::Writing(_) | Step::Staging) {
                    scene.model().txn_ended(self.txn_id(), &self.name, false);
                }
                self.step = Step::Between;
                Some(())
            }
        }
    }

    pub(crate) fn run(&mut self, scene: &Scene) {
        let _ = self.tell(scene);
    }

    fn tell(&mut self, scene: &Scene) -> Option<()> {
        let mut line = Line::open(scene.address)?;
        loop {
            match self.step.clone() {
                Step::Between if scene.stopped() => return Some(()),
                Step::Between => {
                    self.txn += 1;
                    let sent = self.next_batch(scene);
                    self.step = Step::Writing(Some(sent));
                }
                Step::Writing(Some(sent)) => {
                    self.write(&mut line, scene, &sent)?;
                    self.step = Step::Writing(None);
                }
                Step::Writing(None) if self.dice.percent(65) => {
                    let sent = self.next_batch(scene);
                    self.step = Step::Writing(Some(sent));
                }
                Step::Writing(None) => {
                    self.step = if self.dice.percent(50) { Step::Staging } else { self.decide(scene) };
                }
                Step::Staging => {
                    self.commit_offset(&mut line, scene)?;
                    self.step = self.decide(scene);
                }
                Step::Ending { commit } => self.end(&mut line, scene, commit)?,
            }
        }
    }

    fn decide(&mut self, scene: &Scene) -> Step {
        let commit = self.dice.percent(60);
        scene.model().txn_asked(self.txn_id(), &self.name, commit);
        Step::Ending { commit }
    }

    fn next_batch(&mut self, scene: &Scene) -> Sent {
        let place = *self.dice.pick(&self.places);
        let values = more_values(&mut self.dice, &self.name, &mut self.number);
        let sequence = self.sequences.entry(place).or_default();
        let first = *sequence;
        *sequence += values.len() as i32;
        scene.model().txn_sent(self.txn_id(), place, &values);
        Sent { place, values, acks: -1, sequence: first }
    }

    fn write(&self, line: &mut Line, scene: &Scene, sent: &Sent) -> Option<()> {
        let batch = values_batch(&sent.values, Some((self.producer?, sent.sequence)), true);
        let request = produce_to(sent.place, -1, batch).with_transactional_id(Some(self.transactional_id()));
        line.send(VERSION, &request)?;
        let answer = line.receive_produced()?;
        if answer.error_code != 0 && scene.ending() {
            return None;
        }
        assert_eq!(answer.error_code, 0, "{}: {sent:?}", self.name);
        scene.model().acknowledged(sent.place, answer.base_offset, &sent.values, true);
        Some(())
    }

    fn commit_offset(&self, line: &mut Line, scene: &Scene) -> Option<()> {
        let producer = self.producer?;
        let offset = self.txn as i64;
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
        let topics = TxnOffsetCommitRequestTopic::default()
            .with_name(topic(PLANS[0].name))
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(GroupId(text(&self.name)))
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_topics(vec![topics]);
        // Whether it arrives or not: what the transaction commits is known only from its end.
        scene.model().txn_offset(self.txn_id(), offset);
        let answer = line.call(5, &request)?;
        let error = answer.topics[0].partitions[0].error_code;
        if error != 0 && scene.ending() {
            return None;
        }
        assert_eq!(error, 0, "{}", self.name);
        Some(())
    }

    fn end(&mut self, line: &mut Line, scene: &Scene, commit: bool) -> Option<()> {
        let producer = self.producer?;
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(producer.id))
            .with_producer_epoch(producer.epoch)
            .with_committed(commit);
        let begun = std::time::Instant::now();
        let answer = loop {
            let answer = line.call(5, &request)?;
            // An older end of the same transaction may be under way.
            if answer.error_code != 51 || begun.elapsed() > PATIENCE {
                break answer;
            }
        };
        if answer.error_code != 0 && scene.ending() {
            return None;
        }
        assert_eq!(answer.error_code, 0, "{}: the end of {:?}", self.name, self.txn_id());
        self.producer = Some(Producer { id: answer.producer_id.0, epoch: answer.producer_epoch });
        self.sequences.clear();
        scene.model().txn_ended(self.txn_id(), &self.name, commit);
        self.step = Step::Between;
        Some(())
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(text(&self.name))
    }
}
