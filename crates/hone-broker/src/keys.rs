//! The APIs that the broker serves: one file for each key, one line in the table.

use hone_kafka::WireError;

use crate::api_key::COUNT;
use crate::protocol::Answer;
use call::{Call, Outcome};

pub(crate) mod call;
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
mod k17_sasl_handshake;
mod k18_api_versions;
mod k19_create_topics;
mod k20_delete_topics;
mod k21_delete_records;
mod k22_init_producer_id;
mod k23_offset_for_leader_epoch;
mod k24_add_partitions_to_txn;
mod k25_add_offsets_to_txn;
mod k26_end_txn;
mod k27_write_txn_markers;
mod k28_txn_offset_commit;
mod k29_describe_acls;
mod k30_create_acls;
mod k31_delete_acls;
mod k32_describe_configs;
mod k33_alter_configs;
mod k35_describe_log_dirs;
mod k36_sasl_authenticate;
mod k37_create_partitions;
mod k42_delete_groups;
mod k44_incremental_alter_configs;
mod k45_alter_partition_reassignments;
mod k46_list_partition_reassignments;
mod k47_offset_delete;
mod k48_describe_client_quotas;
mod k49_alter_client_quotas;
mod k50_describe_user_scram_credentials;
mod k51_alter_user_scram_credentials;
mod k60_describe_cluster;
mod k61_describe_producers;
mod k65_describe_transactions;
mod k66_list_transactions;
mod k68_consumer_group_heartbeat;
mod k69_consumer_group_describe;
mod k75_describe_topic_partitions;
pub(crate) mod login;
pub(crate) mod park;
mod produce_walk;
mod resource;
pub(crate) mod throttle;

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

/// For an API without compact fields in any version.
const NEVER_FLEXIBLE: i16 = i16::MAX;

/// The APIs, the frequent ones first.
///
/// Produce begins at version 0, although no client should send it. Clients on librdkafka before 2.8 take a first
/// version of 3 as the sign of a broker without compression codecs. They then silently send everything uncompressed.
pub(crate) static APIS: &[Api; COUNT] = &[
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
    api(17, "sasl_handshake", 0, 1, i16::MAX, k17_sasl_handshake::serve),
    api(18, "api_versions", 0, 4, 3, k18_api_versions::serve),
    api(19, "create_topics", 2, 7, 5, k19_create_topics::serve),
    api(20, "delete_topics", 1, 6, 4, k20_delete_topics::serve),
    api(21, "delete_records", 0, 2, 2, k21_delete_records::serve),
    api(22, "init_producer_id", 0, 5, 2, k22_init_producer_id::serve),
    api(23, "offset_for_leader_epoch", 2, 4, 4, k23_offset_for_leader_epoch::serve),
    api(24, "add_partitions_to_txn", 0, 5, 3, k24_add_partitions_to_txn::serve),
    api(25, "add_offsets_to_txn", 0, 4, 3, k25_add_offsets_to_txn::serve),
    api(26, "end_txn", 0, 5, 3, k26_end_txn::serve),
    api(27, "write_txn_markers", 1, 1, 1, k27_write_txn_markers::serve),
    api(28, "txn_offset_commit", 0, 5, 3, k28_txn_offset_commit::serve),
    api(29, "describe_acls", 1, 3, 2, k29_describe_acls::serve),
    api(30, "create_acls", 1, 3, 2, k30_create_acls::serve),
    api(31, "delete_acls", 1, 3, 2, k31_delete_acls::serve),
    api(32, "describe_configs", 1, 4, 4, k32_describe_configs::serve),
    api(33, "alter_configs", 0, 2, 2, k33_alter_configs::serve),
    api(35, "describe_log_dirs", 1, 4, 2, k35_describe_log_dirs::serve),
    api(36, "sasl_authenticate", 0, 2, 2, k36_sasl_authenticate::serve),
    api(37, "create_partitions", 0, 3, 2, k37_create_partitions::serve),
    api(42, "delete_groups", 0, 2, 2, k42_delete_groups::serve),
    api(44, "incremental_alter_configs", 0, 1, 1, k44_incremental_alter_configs::serve),
    api(45, "alter_partition_reassignments", 0, 1, 0, k45_alter_partition_reassignments::serve),
    api(46, "list_partition_reassignments", 0, 0, 0, k46_list_partition_reassignments::serve),
    api(47, "offset_delete", 0, 0, NEVER_FLEXIBLE, k47_offset_delete::serve),
    api(48, "describe_client_quotas", 0, 1, 1, k48_describe_client_quotas::serve),
    api(49, "alter_client_quotas", 0, 1, 1, k49_alter_client_quotas::serve),
    api(50, "describe_user_scram_credentials", 0, 0, 0, k50_describe_user_scram_credentials::serve),
    api(51, "alter_user_scram_credentials", 0, 0, 0, k51_alter_user_scram_credentials::serve),
    api(60, "describe_cluster", 0, 2, 0, k60_describe_cluster::serve),
    api(61, "describe_producers", 0, 0, 0, k61_describe_producers::serve),
    api(65, "describe_transactions", 0, 0, 0, k65_describe_transactions::serve),
    api(66, "list_transactions", 0, 2, 0, k66_list_transactions::serve),
    api(68, "consumer_group_heartbeat", 0, 1, 0, k68_consumer_group_heartbeat::serve),
    api(69, "consumer_group_describe", 0, 1, 0, k69_consumer_group_describe::serve),
    api(75, "describe_topic_partitions", 0, 0, 0, k75_describe_topic_partitions::serve),
];

const fn api(key: i16, name: &'static str, min: i16, max: i16, flexible_from: i16, serve: Serve) -> Api {
    Api { key, name, min, max, flexible_from, serve }
}

/// The row of a key and its place in the table.
pub(crate) fn find(key: i16) -> Option<(usize, &'static Api)> {
    APIS.iter().enumerate().find(|(_, api)| api.key == key)
}
