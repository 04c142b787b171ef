//! The cluster under load as its API describes it, and the first and last offsets of a partition's log.

use std::collections::BTreeMap;

use hone_kafka::error_name;
use hone_record::Environment;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    ListOffsetsRequest, ListOffsetsResponse,
    describe_configs_request::DescribeConfigsResource,
    describe_configs_response::DescribeConfigsResourceResult,
    list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
};
use kafka_protocol::protocol::StrBytes;

use crate::admin::{Admin, topic_name};
use crate::error::LoadError;

/// The last non-flexible versions, except for ApiVersions, whose flexible version names features.
const LIST_OFFSETS_VERSION: i16 = 2;
const DESCRIBE_CONFIGS_VERSION: i16 = 2;
const API_VERSIONS_VERSION: i16 = 3;

/// Numbers of DescribeConfigs.
const TOPIC_RESOURCE: i8 = 2;
const BROKER_RESOURCE: i8 = 4;
const DEFAULT_SOURCE: i8 = 5;

/// A position in a partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The first offset in the log.
    Earliest,
    /// The offset that the next record gets.
    Latest,
    /// The first offset whose time is not before this, milliseconds since 1970; -1 if there is none.
    TimeMs(i64),
}

impl At {
    /// The number that ListOffsets uses for it.
    pub(crate) fn timestamp(self) -> i64 {
        match self {
            Self::Earliest => -2,
            Self::Latest => -1,
            // Negative times have other meanings.
            Self::TimeMs(time_ms) => time_ms.max(0),
        }
    }
}

impl Admin {
    /// The offset at an end of a partition's log. Only its leader knows it.
    pub(crate) fn offset_at(&mut self, topic: &str, partition: i32, at: At) -> Result<i64, LoadError> {
        let wanted =
            ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(at.timestamp());
        let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![
            ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![wanted]),
        ]);
        let answer: ListOffsetsResponse = self.ask(ApiKey::ListOffsets, LIST_OFFSETS_VERSION, &request)?;
        let found = answer.topics.first().and_then(|topic| topic.partitions.first());
        let found = found.ok_or_else(|| self.garbage("ListOffsets", "the answer has no partition"))?;
        let what = format!("to return the {at:?} offset of {topic}/{partition}").to_lowercase();
        self.accepted(&what, found.error_code, String::new())?;
        Ok(found.offset)
    }

    /// Effective values of these properties of a topic, defaults included. Properties that the broker does not know are left out.
    ///
    /// # Errors
    /// Returns an error when the topic does not exist, or its configuration may not be read.
    pub fn topic_settings(
        &mut self,
        topic: &str,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, LoadError> {
        let keys = names.iter().map(|name| StrBytes::from_string((*name).to_owned()));
        let resource = DescribeConfigsResource::default()
            .with_resource_type(TOPIC_RESOURCE)
            .with_resource_name(StrBytes::from_string(topic.to_owned()))
            .with_configuration_keys(Some(keys.collect()));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let answer: DescribeConfigsResponse =
            self.ask(ApiKey::DescribeConfigs, DESCRIBE_CONFIGS_VERSION, &request)?;
        let found =
            answer.results.first().ok_or_else(|| self.garbage("DescribeConfigs", "the answer is empty"))?;
        self.accepted(
            &format!("to return the settings of topic `{topic}`"),
            found.error_code,
            String::new(),
        )?;
        let plain = found.configs.iter().filter(|config| !config.is_sensitive);
        Ok(plain
            .filter_map(|config| Some((config.name.to_string(), config.value.as_ref()?.to_string())))
            .collect())
    }

    /// Facts that the cluster reports about itself. `unknown` names each fact that it refuses; a missing fact does not prevent the
    /// measurement.
    pub(crate) fn surroundings(&mut self, topic: &str) -> Environment {
        let mut found = Environment::default();
        let leader = self.add_cluster(topic, &mut found);
        self.add_topic_config(topic, &mut found);
        if let Some(leader) = leader {
            self.add_broker(leader, &mut found);
        }
        found
    }

    /// Brokers, cluster and replicas. Returns the leader of the first partition.
    fn add_cluster(&mut self, topic: &str, found: &mut Environment) -> Option<i32> {
        let answer = match self.metadata_of(&[topic.to_owned()]) {
            Ok(answer) => answer,
            Err(error) => {
                found.unknown.push(format!("brokers and replicas: {error}"));
                return None;
            }
        };
        found.brokers = answer
            .brokers
            .iter()
            .map(|broker| (broker.node_id.0, format!("{}:{}", &*broker.host, broker.port)))
            .collect();
        found.cluster_id = answer.cluster_id.as_ref().map(|id| id.to_string());
        let partitions = answer.topics.first().map_or(&[][..], |topic| &topic.partitions);
        let replicas = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        found.replicas = partitions.iter().map(|partition| replicas(partition.replica_nodes.len())).min();
        partitions.first().map(|partition| partition.leader_id.0)
    }

    fn add_topic_config(&mut self, topic: &str, found: &mut Environment) {
        match self.changed_settings(TOPIC_RESOURCE, topic) {
            Ok(settings) => found.topic_config = settings,
            Err(why) => found.unknown.push(format!("topic settings: {why}")),
        }
    }

    /// A broker answers only for its own configuration, so this asks the leader itself.
    fn add_broker(&mut self, leader: i32, found: &mut Environment) {
        let connected = match found.brokers.get(&leader) {
            Some(address) => self.another(address),
            None => return,
        };
        let mut broker = match connected {
            Ok(broker) => broker,
            Err(error) => return found.unknown.push(format!("configuration of broker {leader}: {error}")),
        };
        match broker.features() {
            Ok(features) => found.broker_software = features,
            Err(error) => found.unknown.push(format!("broker software: {error}")),
        }
        match broker.changed_settings(BROKER_RESOURCE, &leader.to_string()) {
            Ok(settings) => found.broker_config = settings,
            Err(why) => found.unknown.push(format!("configuration of broker {leader}: {why}")),
        }
        if found.broker_software.is_none() {
            found.unknown.push("broker software: the protocol has no field for it".to_owned());
        }
    }

    /// The software and its version as far as the protocol shows them: the features that the cluster agreed on.
    fn features(&mut self) -> Result<Option<String>, LoadError> {
        let answer = self.versions()?;
        let features: Vec<String> = answer
            .finalized_features
            .iter()
            .map(|feature| format!("{} {}", &*feature.name, feature.max_version_level))
            .collect();
        Ok((!features.is_empty()).then(|| format!("features {}", features.join(", "))))
    }

    fn versions(&mut self) -> Result<ApiVersionsResponse, LoadError> {
        let request = ApiVersionsRequest::default()
            .with_client_software_name(StrBytes::from_static_str("hone"))
            .with_client_software_version(StrBytes::from_static_str(env!("CARGO_PKG_VERSION")));
        self.ask(ApiKey::ApiVersions, API_VERSIONS_VERSION, &request)
    }

    /// Whether the broker takes requests of this kind.
    pub(crate) fn takes(&mut self, key: ApiKey) -> Result<bool, LoadError> {
        Ok(self.versions()?.api_keys.iter().any(|known| known.api_key == key as i16))
    }

    /// Settings of a resource that differ from the defaults, without secrets.
    fn changed_settings(&mut self, kind: i8, name: &str) -> Result<BTreeMap<String, String>, String> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(StrBytes::from_string(name.to_owned()))
            .with_configuration_keys(None);
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let answer: DescribeConfigsResponse = self
            .ask(ApiKey::DescribeConfigs, DESCRIBE_CONFIGS_VERSION, &request)
            .map_err(|error| error.to_string())?;
        let found = answer.results.first().ok_or("the answer is empty")?;
        if found.error_code != 0 {
            return Err(error_name(found.error_code).to_owned());
        }
        Ok(found.configs.iter().filter_map(changed).collect())
    }
}

/// Name and value of a setting that a user set. Records hold no secrets.
fn changed(setting: &DescribeConfigsResourceResult) -> Option<(String, String)> {
    if setting.config_source == DEFAULT_SOURCE || setting.is_sensitive || sounds_secret(&setting.name) {
        return None;
    }
    Some((setting.name.to_string(), setting.value.as_ref()?.to_string()))
}

/// Brokers mark secrets, but not every broker marks all of them.
fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace(['_', '-'], ".");
    ["password", "secret", "jaas", "credential", "token"].iter().any(|word| name.contains(word))
        || ["key", "keystore", "certificate.chain"].iter().any(|end| name.ends_with(&format!(".{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(
        name: &str,
        value: Option<&str>,
        source: i8,
        sensitive: bool,
    ) -> DescribeConfigsResourceResult {
        DescribeConfigsResourceResult::default()
            .with_name(StrBytes::from_string(name.to_owned()))
            .with_value(value.map(|value| StrBytes::from_string(value.to_owned())))
            .with_config_source(source)
            .with_is_sensitive(sensitive)
    }

    #[test]
    fn only_what_somebody_set_is_kept_and_no_secret() {
        for (given, kept) in [
            (setting("log.segment.bytes", Some("1"), 4, false), true),
            (setting("log.segment.bytes", Some("1"), 2, false), true),
            (setting("log.segment.bytes", Some("1"), DEFAULT_SOURCE, false), false),
            (setting("anything", Some("1"), 4, true), false),
            (setting("ssl.key.password", None, 4, true), false),
            (setting("ssl.keystore.key", Some("PEM"), 4, false), false),
            (setting("listener.name.x.sasl.jaas.config", Some("pw"), 4, false), false),
            (setting("cloud_storage_secret_key", Some("pw"), 4, false), false),
            (setting("sasl.oauthbearer.token.endpoint.url", Some("x"), 4, false), false),
            (setting("transaction.state.log.num.partitions", Some("1"), 4, false), true),
            (setting("compaction.by.key", None, 4, false), false),
        ] {
            assert_eq!(changed(&given).is_some(), kept, "{given:?}");
        }
    }
}
