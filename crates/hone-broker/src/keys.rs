//! The APIs that the broker serves: one file for each key, one line in the table.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hone_kafka::{RequestHead, WireError};

use crate::groups::Who;
use crate::mailbox::{Reply, Ticket};
use crate::node::Node;
use crate::partition::Partition;
use crate::protocol::{Answer, Fields};

mod k00_produce;
mod k01_fetch;
mod k02_list_offsets;
mod k03_metadata;
mod k08_offset_commit;
mod k09_offset_fetch;
mod k10_find_coordinator;
mod k11_join_group;
mod k12_heartbeat;
mod k13_leave_group;
mod k14_sync_group;
mod k15_describe_groups;
mod k16_list_groups;
mod k18_api_versions;
mod k19_create_topics;
mod k20_delete_topics;
mod k22_init_producer_id;
mod k32_describe_configs;
mod k42_delete_groups;
mod k47_offset_delete;
mod k68_consumer_group_heartbeat;
mod k69_consumer_group_describe;

/// What came of a request.
pub(crate) enum Outcome {
    /// The answer is written.
    Reply,
    /// There is no answer (acks=0).
    Silent,
    /// The answer comes later; nothing was written that counts.
    Park(Park),
}

/// What a parked request waits for.
#[derive(Debug)]
pub(crate) enum Park {
    /// More records, until the deadline.
    Records { until: Instant, watched: Vec<Arc<Partition>> },
    /// What another thread, or another request, will say.
    Reply,
}

/// How often a request is being served.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// For the first time.
    First,
    /// Again, after it was parked: records came or the time is up.
    Again { until: Instant },
    /// Again, with what it waited for.
    Answered(Reply),
}

/// Buffers of a worker that live longer than a request.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Unpacked records.
    pub(crate) plain: Vec<u8>,
    /// Who waits for what was just written.
    pub(crate) wake: Vec<Ticket>,
}

/// A request on its way through a handler.
pub(crate) struct Call<'a> {
    pub(crate) node: &'a Node,
    pub(crate) work: &'a mut Workspace,
    /// The whole frame; batches in it are patched in place.
    pub(crate) frame: &'a mut [u8],
    /// Where the request begins in it, behind its header.
    pub(crate) body_at: usize,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) version: i16,
    pub(crate) flexible: bool,
    /// `false` only for ApiVersions in a version that is not served; its answer then says so.
    pub(crate) version_known: bool,
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
}

impl Call<'_> {
    /// The fields of the request.
    pub(crate) fn fields(&self) -> Fields<'_> {
        self.fields_at(self.body_at)
    }

    /// The fields from a place in the frame on.
    pub(crate) fn fields_at(&self, at: usize) -> Fields<'_> {
        Fields::new(self.frame.get(at..).unwrap_or_default(), self.flexible)
    }

    /// What the client calls itself.
    pub(crate) fn client_id(&self) -> &str {
        RequestHead::parse(self.frame).ok().and_then(|head| head.client_id).unwrap_or_default()
    }

    /// Where the client is, as group coordinators write it.
    pub(crate) fn client_host(&self) -> String {
        self.peer.map(|peer| format!("/{peer}")).unwrap_or_default()
    }
}

/// The member that speaks: the same fields begin several requests of groups.
pub(crate) fn member_identity<'a>(
    fields: &mut Fields<'a>,
    with_instance: bool,
) -> Result<Who<'a>, WireError> {
    Ok(Who {
        group: fields.string("group id")?,
        generation: fields.i32("generation id or member epoch")?,
        member: fields.string("member id")?,
        instance: if with_instance { fields.nullable_string("group instance id")? } else { None },
    })
}

type Serve = fn(&mut Call<'_>, &mut Answer<'_>) -> Result<Outcome, WireError>;

/// One row of the table.
pub(crate) struct Api {
    pub(crate) key: i16,
    /// As in Redpanda's `handler` label.
    pub(crate) name: &'static str,
    pub(crate) min: i16,
    pub(crate) max: i16,
    /// First version with compact fields and tags.
    pub(crate) flexible_from: i16,
    pub(crate) serve: Serve,
}

/// A worker treats two APIs differently: one to slow down in a test build, one whose response header never carries tags, so that a client that is wrong about the version can read it.
#[cfg(feature = "planted-slowdown")]
pub(crate) const PRODUCE: i16 = 0;
pub(crate) const API_VERSIONS: i16 = 18;

/// What anyone may do with a group, as bits: read, delete, describe.
const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8;
/// Where a client did not ask what it may do.
const NOT_ASKED: i32 = i32::MIN;
/// For an API without compact fields in any version.
const NEVER_FLEXIBLE: i16 = i16::MAX;

/// The APIs, the frequent ones first.
///
/// Produce begins at 0 although nobody should send that: clients built on librdkafka before 2.8 take a first version
/// of 3 for a broker that knows no compression codec, and then silently send everything uncompressed.
pub(crate) static APIS: &[Api] = &[
    api(0, "produce", 0, 13, 9, k00_produce::serve),
    api(1, "fetch", 4, 18, 12, k01_fetch::serve),
    api(2, "list_offsets", 1, 10, 6, k02_list_offsets::serve),
    api(3, "metadata", 0, 13, 9, k03_metadata::serve),
    api(8, "offset_commit", 2, 9, 8, k08_offset_commit::serve),
    api(9, "offset_fetch", 1, 9, 6, k09_offset_fetch::serve),
    api(10, "find_coordinator", 0, 6, 3, k10_find_coordinator::serve),
    api(11, "join_group", 0, 9, 6, k11_join_group::serve),
    api(12, "heartbeat", 0, 4, 4, k12_heartbeat::serve),
    api(13, "leave_group", 0, 5, 4, k13_leave_group::serve),
    api(14, "sync_group", 0, 5, 4, k14_sync_group::serve),
    api(15, "describe_groups", 0, 6, 5, k15_describe_groups::serve),
    api(16, "list_groups", 0, 5, 3, k16_list_groups::serve),
    api(18, "api_versions", 0, 4, 3, k18_api_versions::serve),
    api(19, "create_topics", 2, 7, 5, k19_create_topics::serve),
    api(20, "delete_topics", 1, 6, 4, k20_delete_topics::serve),
    api(22, "init_producer_id", 0, 5, 2, k22_init_producer_id::serve),
    api(32, "describe_configs", 1, 4, 4, k32_describe_configs::serve),
    api(42, "delete_groups", 0, 2, 2, k42_delete_groups::serve),
    api(47, "offset_delete", 0, 0, NEVER_FLEXIBLE, k47_offset_delete::serve),
    api(68, "consumer_group_heartbeat", 0, 1, 0, k68_consumer_group_heartbeat::serve),
    api(69, "consumer_group_describe", 0, 1, 0, k69_consumer_group_describe::serve),
];

const fn api(key: i16, name: &'static str, min: i16, max: i16, flexible_from: i16, serve: Serve) -> Api {
    Api { key, name, min, max, flexible_from, serve }
}

/// The row of a key and its place in the table.
pub(crate) fn find(key: i16) -> Option<(usize, &'static Api)> {
    APIS.iter().enumerate().find(|(_, api)| api.key == key)
}
