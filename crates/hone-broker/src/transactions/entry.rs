//! What the journal of transactions holds: images of a transactional id, what was added to one, and that one has gone.
//!
//! An entry is read from a file, so nothing in it is trusted: one that can't be read is skipped with a notice.

use std::collections::{BTreeMap, BTreeSet};

use hone_kafka::WireError;

use super::producer::Producer;
use super::state::{Decision, Phase, Places, Protocol, Transaction};
use crate::protocol::{Answer, Fields};

const IMAGE: i8 = 1;
const ADDED: i8 = 2;
const GONE: i8 = 3;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// All that is known of an id.
    Image { name: String, transaction: Box<Transaction> },
    /// Its transaction has come to more places.
    Added { name: String, places: Places, protocol: Protocol, now_ms: i64 },
    /// No client used it for a long time.
    Gone { name: String },
}

impl Entry {
    pub(crate) fn image(name: &str, transaction: &Transaction) -> Self {
        Self::Image { name: name.to_owned(), transaction: Box::new(transaction.clone()) }
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut out = Answer::new(&mut bytes, true);
        match self {
            Self::Image { name, transaction } => {
                out.i8(IMAGE);
                put_text(&mut out, name);
                put_transaction(&mut out, transaction);
            }
            Self::Added { name, places, protocol, now_ms } => {
                out.i8(ADDED);
                put_text(&mut out, name);
                out.bool(*protocol == Protocol::Second);
                out.i64(*now_ms);
                put_places(&mut out, places);
            }
            Self::Gone { name } => {
                out.i8(GONE);
                put_text(&mut out, name);
            }
        }
        bytes
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut fields = Fields::new(bytes, true);
        let kind = fields.i8("kind of entry")?;
        let name = text(&mut fields, "transactional id")?;
        match kind {
            IMAGE => Ok(Self::Image { name, transaction: Box::new(transaction(&mut fields)?) }),
            ADDED => {
                let protocol = protocol(&mut fields)?;
                let now_ms = fields.i64("time")?;
                Ok(Self::Added { name, places: places(&mut fields)?, protocol, now_ms })
            }
            GONE => Ok(Self::Gone { name }),
            other => Err(WireError::Length { field: "kind of entry", length: i64::from(other) }),
        }
    }
}

/// Texts are stored as bytes: a text of an answer is cut at what old clients can read, and a name must not be.
fn put_text(out: &mut Answer<'_>, text: &str) {
    out.bytes(text.as_bytes());
}

fn text(fields: &mut Fields<'_>, field: &'static str) -> Result<String, WireError> {
    Ok(String::from_utf8_lossy(fields.bytes(field)?).into_owned())
}

fn put_transaction(out: &mut Answer<'_>, transaction: &Transaction) {
    out.i64(transaction.producer.id);
    out.i16(transaction.producer.epoch);
    out.i64(transaction.previous_id);
    out.i64(transaction.next_id);
    out.i16(transaction.last_epoch);
    out.i32(transaction.timeout_ms);
    out.i8(phase_number(transaction.phase));
    out.bool(transaction.protocol == Protocol::Second);
    out.i64(transaction.started_ms);
    out.i64(transaction.updated_ms);
    put_places(out, &transaction.places);
}

fn transaction(fields: &mut Fields<'_>) -> Result<Transaction, WireError> {
    Ok(Transaction {
        producer: Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? },
        previous_id: fields.i64("previous producer id")?,
        next_id: fields.i64("next producer id")?,
        last_epoch: fields.i16("last epoch")?,
        timeout_ms: fields.i32("timeout")?,
        phase: phase(fields.i8("phase")?)?,
        protocol: protocol(fields)?,
        started_ms: fields.i64("start")?,
        updated_ms: fields.i64("update")?,
        places: places(fields)?,
    })
}

fn protocol(fields: &mut Fields<'_>) -> Result<Protocol, WireError> {
    Ok(if fields.bool("protocol")? { Protocol::Second } else { Protocol::First })
}

fn phase_number(phase: Phase) -> i8 {
    match phase {
        Phase::Empty => 0,
        Phase::Ongoing => 1,
        Phase::Prepared(Decision::Commit) => 2,
        Phase::Prepared(Decision::Abort) => 3,
        Phase::Complete(Decision::Commit) => 4,
        Phase::Complete(Decision::Abort) => 5,
    }
}

fn phase(number: i8) -> Result<Phase, WireError> {
    Ok(match number {
        0 => Phase::Empty,
        1 => Phase::Ongoing,
        2 => Phase::Prepared(Decision::Commit),
        3 => Phase::Prepared(Decision::Abort),
        4 => Phase::Complete(Decision::Commit),
        5 => Phase::Complete(Decision::Abort),
        other => return Err(WireError::Length { field: "phase", length: i64::from(other) }),
    })
}

fn put_places(out: &mut Answer<'_>, places: &Places) {
    out.array(places.partitions.len());
    for (topic, partitions) in &places.partitions {
        put_text(out, topic);
        out.array(partitions.len());
        partitions.iter().for_each(|partition| out.i32(*partition));
    }
    out.array(places.groups.len());
    places.groups.iter().for_each(|group| put_text(out, group));
}

fn places(fields: &mut Fields<'_>) -> Result<Places, WireError> {
    let mut partitions = BTreeMap::new();
    for _ in 0..fields.array("topics")? {
        let topic = text(fields, "topic")?;
        let mut indices = BTreeSet::new();
        for _ in 0..fields.array("partitions")? {
            indices.insert(fields.i32("partition")?);
        }
        partitions.insert(topic, indices);
    }
    let mut groups = BTreeSet::new();
    for _ in 0..fields.array("groups")? {
        groups.insert(text(fields, "group")?);
    }
    Ok(Places { partitions, groups })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<Entry> {
        let mut places = Places::group("of a group with a ünusual name");
        places.partitions.insert("t".to_owned(), BTreeSet::from([0, 5, i32::MAX]));
        places.partitions.insert("u".repeat(40_000), BTreeSet::from([1]));
        let image = |phase, protocol| Entry::Image {
            name: "x".to_owned(),
            transaction: Box::new(Transaction {
                producer: Producer { id: 1, epoch: 2 },
                previous_id: 3,
                next_id: -1,
                last_epoch: i16::MAX,
                timeout_ms: 5,
                phase,
                protocol,
                started_ms: 6,
                updated_ms: i64::MAX,
                places: places.clone(),
            }),
        };
        vec![
            image(Phase::Empty, Protocol::First),
            image(Phase::Ongoing, Protocol::Second),
            image(Phase::Prepared(Decision::Commit), Protocol::First),
            image(Phase::Prepared(Decision::Abort), Protocol::First),
            image(Phase::Complete(Decision::Commit), Protocol::First),
            image(Phase::Complete(Decision::Abort), Protocol::First),
            Entry::Added {
                name: String::new(),
                places: places.clone(),
                protocol: Protocol::Second,
                now_ms: -7,
            },
            Entry::Gone { name: "long ".repeat(10_000) },
        ]
    }

    #[test]
    fn entries_read_back() {
        for entry in every_kind() {
            assert_eq!(Entry::parse(&entry.to_bytes()).unwrap(), entry);
        }
    }

    #[test]
    fn a_damaged_entry_is_refused_and_never_a_panic() {
        for entry in every_kind() {
            let bytes = entry.to_bytes();
            for end in (0..bytes.len().min(200)).chain([bytes.len() - 1]) {
                assert!(Entry::parse(&bytes[..end]).is_err(), "cut at {end} of {entry:?}");
            }
            for at in 0..bytes.len().min(200) {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    // What it says does not matter: the journal's checksum keeps such an entry away.
                    let _ = Entry::parse(&damaged);
                }
            }
        }
        for unknown in [[0, 1].as_slice(), &[9, 1], &[IMAGE as u8, 1]] {
            assert!(Entry::parse(unknown).is_err());
        }
    }
}
