//! DescribeTopicPartitions: topics by name, page by page.

use std::ops::Range;
use std::sync::Arc;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::endpoint::NODE_ID;
use crate::partition::LEADER_EPOCH;
use crate::protocol::{Answer, Fields};
use crate::security::acl::{Operation, Resource};
use crate::topics::{Topic, is_topic_name};

/// Partitions on a page, whatever the client would take.
const MOST_PARTITIONS: usize = 2000;
/// Stands before a structure that may be null.
const NULL: i8 = -1;
const THERE: i8 = 1;

/// Where a page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cursor {
    topic: String,
    partition: usize,
}

struct Asked {
    /// Sorted; empty for all.
    names: Vec<String>,
    most: usize,
    cursor: Option<Cursor>,
}

/// A topic, or the error that stands for it.
type Found = Result<Arc<Topic>, i16>;

/// One topic of a page.
struct Entry {
    name: String,
    topic: Found,
    partitions: Range<usize>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let asked = read(&mut call.fields())?;
    let topics = &call.node.topics;
    let candidates: Vec<_> = if asked.names.is_empty() {
        let mut all = topics.all();
        // Of those that it did not ask for by name, a client learns only what it may see.
        all.retain(|topic| call.allows_topic(Operation::Describe, &topic.name));
        all.into_iter().map(|topic| (topic.name.clone(), Ok(topic))).collect()
    } else {
        asked.names.iter().map(|name| (name.clone(), find(call, name))).collect()
    };
    let (page, next) = page(candidates, asked.cursor.as_ref(), asked.most);
    answer.i32(0);
    answer.array(page.len());
    for entry in &page {
        let operations = call.operations(entry.topic.is_ok(), Resource::Topic, &entry.name);
        write_topic(answer, entry, operations);
    }
    match next {
        None => answer.i8(NULL),
        Some(Cursor { topic, partition }) => {
            answer.i8(THERE);
            answer.string(&topic);
            answer.i32(partition as i32);
            answer.tags();
        }
    }
    answer.tags();
    Ok(Outcome::Reply)
}

fn find(call: &Call<'_>, name: &str) -> Found {
    match call.topic_refusal(Operation::Describe, name) {
        Some(error) => Err(error),
        None if !is_topic_name(name) => Err(code::INVALID_TOPIC),
        None => call.node.topics.by_name(name).ok_or(code::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

fn read(fields: &mut Fields<'_>) -> Result<Asked, WireError> {
    let mut names = Vec::new();
    for _ in 0..fields.array("topics")? {
        names.push(fields.string("topic")?.to_owned());
        fields.tags()?;
    }
    names.sort_unstable();
    names.dedup();
    let most = fields.i32("response partition limit")?;
    let mut cursor = None;
    if fields.i8("cursor")? != NULL {
        let topic = fields.string("cursor topic")?.to_owned();
        let partition = usize::try_from(fields.i32("cursor partition")?).unwrap_or(0);
        fields.tags()?;
        cursor = Some(Cursor { topic, partition });
    }
    fields.tags()?;
    Ok(Asked { names, most: usize::try_from(most).unwrap_or(1).clamp(1, MOST_PARTITIONS), cursor })
}

/// The topics of a page, and where the next one begins. `candidates` are sorted by name.
fn page(
    candidates: Vec<(String, Found)>,
    cursor: Option<&Cursor>,
    most: usize,
) -> (Vec<Entry>, Option<Cursor>) {
    let mut page = Vec::new();
    let mut room = most;
    for (name, topic) in candidates {
        if cursor.is_some_and(|cursor| name < cursor.topic) {
            continue;
        }
        let first = cursor.filter(|cursor| cursor.topic == name).map_or(0, |cursor| cursor.partition);
        let count = topic.as_ref().map_or(0, |topic| topic.partitions.len());
        if room == 0 {
            return (page, Some(Cursor { topic: name, partition: first }));
        }
        let first = first.min(count);
        let last = count.min(first + room);
        room -= last - first;
        let rest = Cursor { topic: name.clone(), partition: last };
        page.push(Entry { name, topic, partitions: first..last });
        if last < count {
            return (page, Some(rest));
        }
    }
    (page, None)
}

fn write_topic(answer: &mut Answer<'_>, entry: &Entry, operations: i32) {
    answer.i16(entry.topic.as_ref().err().copied().unwrap_or(code::NONE));
    answer.nullable_string(Some(&entry.name));
    answer.uuid(entry.topic.as_ref().map_or(0, |topic| topic.id));
    answer.bool(false); // internal
    answer.array(entry.partitions.len());
    for index in entry.partitions.clone() {
        answer.i16(code::NONE);
        answer.i32(index as i32);
        answer.i32(NODE_ID); // leader
        answer.i32(LEADER_EPOCH);
        // Replicas, and those in sync.
        for _ in 0..2 {
            answer.array(1);
            answer.i32(NODE_ID);
        }
        // Replicas that could lead, those that last could, those that are offline.
        for _ in 0..3 {
            answer.array(0);
        }
        answer.tags();
    }
    answer.i32(operations);
    answer.tags();
}
