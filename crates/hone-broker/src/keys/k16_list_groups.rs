//! ListGroups: every group there is, by state and kind.

use std::collections::{BTreeSet, HashSet};

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::groups::{CLASSIC, Listed};
use crate::protocol::{Answer, Fields};
use crate::security::acl::{Operation, Resource};

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let version = call.version;
    let mut fields = call.fields();
    let states = if version >= 4 { read_filter(&mut fields)? } else { HashSet::new() };
    let kinds = if version >= 5 { read_filter(&mut fields)? } else { HashSet::new() };
    fields.tags()?;
    let passes = |filter: &HashSet<String>, value: &str| {
        filter.is_empty() || filter.contains(&value.to_ascii_lowercase())
    };
    let mut groups = list(call);
    groups.retain(|group| passes(&states, group.state) && passes(&kinds, group.kind));
    if version >= 1 {
        answer.i32(0);
    }
    answer.i16(code::NONE);
    answer.array(groups.len());
    for group in groups {
        answer.string(&group.id);
        answer.string(&group.protocol_type);
        if version >= 4 {
            answer.string(group.state);
        }
        if version >= 5 {
            answer.string(group.kind);
        }
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// In small letters.
fn read_filter(fields: &mut Fields<'_>) -> Result<HashSet<String>, WireError> {
    let mut filter = HashSet::new();
    for _ in 0..fields.array("filter")? {
        filter.insert(fields.string("filter")?.to_ascii_lowercase());
    }
    Ok(filter)
}

/// The groups with members, now or once, and those that only stored offsets, as far as the client may see them.
fn list(call: &Call<'_>) -> Vec<Listed> {
    let mut groups = call.node.with_groups(|groups, _| groups.list());
    let known: BTreeSet<String> = groups.iter().map(|group| group.id.clone()).collect();
    let others = call.node.offsets.groups().into_iter().filter(|group| !known.contains(group));
    let simple = |id| Listed { id, protocol_type: String::new(), state: "Empty", kind: CLASSIC };
    groups.extend(others.map(simple));
    if !call.allows_cluster(Operation::Describe) {
        groups.retain(|group| call.allows(Operation::Describe, Resource::Group, &group.id));
    }
    groups
}
