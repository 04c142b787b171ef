//! DescribeLogDirs: how large the logs are, and the file system they lie on.

use std::collections::HashSet;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::disk_space::DiskSpace;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::topics::Topic;

/// Topics with the partitions wanted, none for all of them.
type Wanted = Vec<(String, Vec<i32>)>;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let wanted = read(&mut call.fields())?;
    let folder = call.node.topics.data_dir();
    answer.i32(0);
    if let Some(error) = call.cluster_refusal(Operation::Describe) {
        if version >= 3 {
            answer.i16(error);
        }
        answer.array(0);
        answer.tags();
        return Ok(Outcome::Reply);
    }
    if version >= 3 {
        answer.i16(code::NONE);
    }
    answer.array(1);
    answer.i16(code::NONE);
    answer.string(&call.node.settings.place());
    write_topics(answer, &found(call, wanted.as_ref()));
    if version >= 4 {
        let space = folder.and_then(DiskSpace::of);
        answer.i64(space.map_or(-1, |space| space.total_bytes));
        answer.i64(space.map_or(-1, |space| space.usable_bytes));
    }
    answer.tags();
    answer.tags();
    Ok(Outcome::Reply)
}

/// `None` for all topics.
fn read(fields: &mut Fields<'_>) -> Result<Option<Wanted>, WireError> {
    let count = fields.nullable_array("topics")?;
    let mut wanted = Vec::new();
    for _ in 0..count.unwrap_or(0) {
        let topic = fields.string("topic")?.to_owned();
        let mut partitions = Vec::new();
        for _ in 0..fields.array("partitions")? {
            partitions.push(fields.i32("partition")?);
        }
        fields.tags()?;
        wanted.push((topic, partitions));
    }
    fields.tags()?;
    Ok(count.map(|_| wanted))
}

/// Name, and index and size of partitions.
type Sizes = (String, Vec<(i32, u64)>);

fn found(call: &Call<'_>, wanted: Option<&Wanted>) -> Vec<Sizes> {
    let topics = &call.node.topics;
    let mut seen = HashSet::new();
    match wanted {
        None => topics.all().iter().map(|topic| sizes(topic, |_| true)).collect(),
        Some(wanted) => wanted
            .iter()
            // The answer lists each topic once, even if the request repeats it.
            .filter(|(name, _)| seen.insert(name))
            .filter_map(|(name, partitions)| {
                let topic = topics.by_name(name)?;
                let partitions: HashSet<i32> = partitions.iter().copied().collect();
                Some(sizes(&topic, |index| partitions.contains(&index)))
            })
            .collect(),
    }
}

fn sizes(topic: &Topic, wanted: impl Fn(i32) -> bool) -> Sizes {
    let partitions = topic.partitions.iter().filter(|partition| wanted(partition.index));
    (topic.name.clone(), partitions.map(|partition| (partition.index, partition.bytes())).collect())
}

fn write_topics(answer: &mut Answer<'_>, topics: &[Sizes]) {
    answer.array(topics.len());
    for (name, partitions) in topics {
        answer.string(name);
        answer.array(partitions.len());
        for (index, bytes) in partitions {
            answer.i32(*index);
            answer.i64(bytes.cast_signed());
            answer.i64(0); // offset lag of a replica that is being moved here
            answer.bool(false); // is such a replica
            answer.tags();
        }
        answer.tags();
    }
}
