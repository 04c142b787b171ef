//! Where a topic's replicas are: the brokers of each partition, and the racks of the brokers.

use std::collections::BTreeMap;

use hone_kafka::error_name;
use kafka_protocol::protocol::StrBytes;

use crate::admin::Admin;
use crate::error::LoadError;

/// The brokers of a cluster, and the replicas of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// The rack of each broker; `None` if it has none.
    pub racks: BTreeMap<i32, Option<String>>,
    /// Leader and replicas of each partition that has a leader.
    pub partitions: Vec<(i32, Vec<i32>)>,
}

impl Admin {
    /// Where the replicas of a topic are.
    ///
    /// # Errors
    /// Returns an error when the cluster has no such topic, or it may not be seen.
    pub fn placement(&mut self, topic: &str) -> Result<Placement, LoadError> {
        let answer = self.metadata_of(&[topic.to_owned()])?;
        if let Some(code) = answer.topics.first().map(|found| found.error_code).filter(|code| *code != 0) {
            return Err(LoadError::Refused {
                address: self.address().to_owned(),
                what: format!("to describe topic `{topic}`"),
                error: error_name(code),
                message: String::new(),
            });
        }
        let rack = |rack: &Option<StrBytes>| {
            rack.as_ref().map(|rack| rack.to_string()).filter(|rack| !rack.is_empty())
        };
        let partitions = answer.topics.iter().flat_map(|found| &found.partitions);
        Ok(Placement {
            racks: answer.brokers.iter().map(|broker| (broker.node_id.0, rack(&broker.rack))).collect(),
            partitions: partitions
                .filter(|partition| partition.leader_id.0 >= 0)
                .map(|partition| {
                    let replicas = partition.replica_nodes.iter().map(|broker| broker.0).collect();
                    (partition.leader_id.0, replicas)
                })
                .collect(),
        })
    }
}
