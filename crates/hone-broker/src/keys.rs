//! The APIs that the broker serves: one file for each key, one line in the table.

use std::sync::Arc;
use std::time::Instant;

use hone_kafka::WireError;

use crate::mailbox::{Reply, Ticket};
use crate::node::Node;
use crate::partition::Partition;
use crate::protocol::{Answer, Fields};
use crate::security::session::Session;

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
mod k17_sasl_handshake;
mod k18_api_versions;
mod k19_create_topics;
mod k20_delete_topics;
mod k22_init_producer_id;
mod k32_describe_configs;
mod k36_sasl_authenticate;
mod k50_describe_user_scram_credentials;
mod k51_alter_user_scram_credentials;

/// What came of a request.
pub(crate) enum Outcome {
    /// The answer is written.
    Reply,
    /// There is no answer (acks=0).
    Silent,
    /// The answer is written, and the connection ends behind it.
    Last,
    /// There is no answer, and the connection ends.
    Close,
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
    /// Who asks.
    pub(crate) session: &'a mut Session,
    pub(crate) work: &'a mut Workspace,
    /// The whole frame; batches in it are patched in place.
    pub(crate) frame: &'a mut [u8],
    /// Where the request begins in it, behind its header.
    pub(crate) body_at: usize,
    pub(crate) client_id: String,
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

/// A worker treats three APIs differently: one to slow down in a test build, one to name members after their client,
/// one whose response header never carries tags, so that a client that is wrong about the version can read it.
#[cfg(feature = "planted-slowdown")]
pub(crate) const PRODUCE: i16 = 0;
pub(crate) const JOIN_GROUP: i16 = 11;
pub(crate) const API_VERSIONS: i16 = 18;
/// What a client that has not logged in may ask for, besides ApiVersions.
pub(crate) const SASL_HANDSHAKE: i16 = 17;
pub(crate) const SASL_AUTHENTICATE: i16 = 36;

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
    api(17, "sasl_handshake", 0, 1, i16::MAX, k17_sasl_handshake::serve),
    api(18, "api_versions", 0, 4, 3, k18_api_versions::serve),
    api(19, "create_topics", 2, 7, 5, k19_create_topics::serve),
    api(20, "delete_topics", 1, 6, 4, k20_delete_topics::serve),
    api(22, "init_producer_id", 0, 5, 2, k22_init_producer_id::serve),
    api(32, "describe_configs", 1, 4, 4, k32_describe_configs::serve),
    api(36, "sasl_authenticate", 0, 2, 2, k36_sasl_authenticate::serve),
    api(50, "describe_user_scram_credentials", 0, 0, 0, k50_describe_user_scram_credentials::serve),
    api(51, "alter_user_scram_credentials", 0, 0, 0, k51_alter_user_scram_credentials::serve),
];

const fn api(key: i16, name: &'static str, min: i16, max: i16, flexible_from: i16, serve: Serve) -> Api {
    Api { key, name, min, max, flexible_from, serve }
}

/// The row of a key and its place in the table.
pub(crate) fn find(key: i16) -> Option<(usize, &'static Api)> {
    APIS.iter().enumerate().find(|(_, api)| api.key == key)
}
