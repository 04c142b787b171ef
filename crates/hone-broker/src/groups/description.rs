//! Groups and members as in the answers to clients.

use std::collections::{BTreeMap, BTreeSet};

/// A group as in the answer of DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupDescription {
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    pub(crate) protocol: String,
    pub(crate) members: Vec<MemberDescription>,
}

/// A member as in the answer of DescribeGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberDescription {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) metadata: Vec<u8>,
    pub(crate) assignment: Vec<u8>,
}

/// A group as in the answer of ConsumerGroupDescribe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerDescription {
    pub(crate) state: &'static str,
    pub(crate) epoch: i32,
    pub(crate) assignment_epoch: i32,
    pub(crate) assignor: &'static str,
    pub(crate) members: Vec<ConsumerMemberDescription>,
    /// Names of the topics in the assignments.
    pub(crate) topics: BTreeMap<u128, String>,
}

/// A member as in the answer of ConsumerGroupDescribe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerMemberDescription {
    pub(crate) id: String,
    pub(crate) instance: Option<String>,
    pub(crate) rack: Option<String>,
    pub(crate) epoch: i32,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) names: Vec<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) assigned: BTreeSet<(u128, i32)>,
    pub(crate) target: BTreeSet<(u128, i32)>,
}

/// A group as in the answer of ListGroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) id: String,
    pub(crate) protocol_type: String,
    pub(crate) state: &'static str,
    pub(crate) kind: &'static str,
}
