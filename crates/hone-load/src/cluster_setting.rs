//! Cluster settings: read, set and rolled back through the API.
//!
//! The code sets the cluster's own layer (a broker resource without a name). Every broker follows it unless it has a value of its own.
//! Versions are the last non-flexible ones.

use std::time::{Duration, Instant};

use kafka_protocol::messages::{
    ApiKey, DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, MetadataRequest, MetadataResponse,
    describe_configs_request::DescribeConfigsResource,
    describe_configs_response::DescribeConfigsResult,
    incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
};
use kafka_protocol::protocol::StrBytes;

use crate::admin::{Admin, METADATA_VERSION};
use crate::error::LoadError;

const DESCRIBE_CONFIGS_VERSION: i16 = 2;
const INCREMENTAL_ALTER_CONFIGS_VERSION: i16 = 0;
/// The resource type of brokers.
const BROKER: i8 = 4;
/// The source of a value that was set for the whole cluster at run time.
const SET_FOR_THE_CLUSTER: i8 = 3;
/// Operations of an incremental change.
const SET: i8 = 0;
const DELETE: i8 = 1;
/// Brokers receive a change from their controller. After a longer time the value does not arrive.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(10);

/// A setting and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSetting {
    /// The value for the whole cluster. With `None` each broker has its own value or the default.
    pub for_cluster: Option<String>,
    /// The effective value of each broker.
    pub in_force: Vec<(i32, String)>,
}

impl ClusterSetting {
    /// The difference from `before`; `None` if there is none.
    fn differs_from(&self, before: &Self) -> Option<String> {
        let words =
            |value: &Option<String>| value.clone().map_or("nothing".to_owned(), |value| format!("`{value}`"));
        if self.for_cluster != before.for_cluster {
            let [now, then] = [&self.for_cluster, &before.for_cluster].map(words);
            return Some(format!("the cluster has {now}, but before it had {then}"));
        }
        before.in_force.iter().find_map(|(node, then)| {
            let (_, now) = self.in_force.iter().find(|(other, _)| other == node)?;
            (now != then).then(|| format!("broker {node} has `{now}`, but before it had `{then}`"))
        })
    }
}

impl Admin {
    /// Reads a cluster setting and its effective value on each broker.
    ///
    /// # Errors
    /// Returns an error when a broker does not know the setting, keeps its value secret, or can't be reached.
    pub fn cluster_setting(&mut self, name: &str) -> Result<ClusterSetting, LoadError> {
        let cluster = self.describe("", name)?;
        let own = cluster.configs.first().filter(|config| config.config_source == SET_FOR_THE_CLUSTER);
        let for_cluster = own.and_then(|config| config.value.as_ref()).map(|value| value.to_string());
        let mut in_force = Vec::new();
        for (node, address) in self.nodes()? {
            // A broker answers for itself only.
            let found = self.another(&address)?.describe(&node.to_string(), name)?;
            let config =
                found.configs.first().ok_or_else(|| self.no_setting(name, "the setting does not exist"))?;
            let value = config.value.as_ref().filter(|_| !config.is_sensitive);
            let secret = || self.no_setting(name, "its value is secret, so Hone could not restore it");
            in_force.push((node, value.ok_or_else(secret)?.to_string()));
        }
        // Metadata lists the brokers in any order.
        in_force.sort_unstable();
        Ok(ClusterSetting { for_cluster, in_force })
    }

    /// Sets a setting for the whole cluster and waits until every broker has it.
    ///
    /// # Errors
    /// Returns an error when the broker refuses, with its own message, or a broker keeps another value.
    pub fn set_for_cluster(&mut self, name: &str, value: &str) -> Result<(), LoadError> {
        self.alter(name, Some(value))?;
        self.wait_until(name, |seen| {
            let (node, other) = seen.in_force.iter().find(|(_, found)| found != value)?;
            Some(format!("broker {node} keeps `{other}`, perhaps its own value; remove that value first"))
        })
    }

    /// Restores a cluster setting to its earlier value, and waits until every broker has the value that it had then. Brokers that joined or
    /// left since are ignored.
    ///
    /// # Errors
    /// Returns an error when the broker refuses, with its own message, or a broker keeps another value than before.
    pub fn bring_back(&mut self, name: &str, before: &ClusterSetting) -> Result<(), LoadError> {
        if self.cluster_setting(name)?.for_cluster != before.for_cluster {
            self.alter(name, before.for_cluster.as_deref())?;
        }
        self.wait_until(name, |seen| seen.differs_from(before))
    }

    /// Sets the cluster's own layer, or clears it with `None`. The brokers may follow later.
    fn alter(&mut self, name: &str, value: Option<&str>) -> Result<(), LoadError> {
        let config = AlterableConfig::default()
            .with_name(StrBytes::from_string(name.to_owned()))
            .with_config_operation(if value.is_some() { SET } else { DELETE })
            .with_value(value.map(|value| StrBytes::from_string(value.to_owned())));
        let resource = AlterConfigsResource::default().with_resource_type(BROKER).with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let answer: IncrementalAlterConfigsResponse =
            self.ask(ApiKey::IncrementalAlterConfigs, INCREMENTAL_ALTER_CONFIGS_VERSION, &request)?;
        let result = answer.responses.first();
        let result =
            result.ok_or_else(|| self.garbage("IncrementalAlterConfigs", "the answer has no resource"))?;
        let message = result.error_message.as_ref().map(|text| format!(": {}", &**text)).unwrap_or_default();
        let what = match value {
            Some(value) => format!("to set {name} to `{value}` for the cluster"),
            None => format!("to remove the cluster-wide value of {name}"),
        };
        self.accepted(&what, result.error_code, message)
    }

    /// Checks repeatedly until no problem is left.
    fn wait_until(
        &mut self,
        name: &str,
        problem: impl Fn(&ClusterSetting) -> Option<String>,
    ) -> Result<(), LoadError> {
        let patience = Instant::now() + ARRIVAL_LIMIT;
        while let Some(problem) = problem(&self.cluster_setting(name)?) {
            if Instant::now() > patience {
                return Err(self.no_setting(name, &problem));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn describe(&mut self, node: &str, name: &str) -> Result<DescribeConfigsResult, LoadError> {
        let resource = DescribeConfigsResource::default()
            .with_resource_type(BROKER)
            .with_resource_name(StrBytes::from_string(node.to_owned()))
            .with_configuration_keys(Some(vec![StrBytes::from_string(name.to_owned())]));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let answer: DescribeConfigsResponse =
            self.ask(ApiKey::DescribeConfigs, DESCRIBE_CONFIGS_VERSION, &request)?;
        let found = answer.results.into_iter().next();
        let found = found.ok_or_else(|| self.garbage("DescribeConfigs", "the answer has no resource"))?;
        let message = found.error_message.as_ref().map(|text| format!(": {}", &**text)).unwrap_or_default();
        self.accepted(&format!("to return its setting {name}"), found.error_code, message)?;
        Ok(found)
    }

    fn nodes(&mut self) -> Result<Vec<(i32, String)>, LoadError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer: MetadataResponse = self.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
        let node = |node: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| {
            (node.node_id.0, format!("{}:{}", &*node.host, node.port))
        };
        Ok(answer.brokers.iter().map(node).collect())
    }

    fn no_setting(&self, name: &str, problem: &str) -> LoadError {
        LoadError::Refused {
            address: self.address().to_owned(),
            what: format!("the setting {name}"),
            error: "not usable",
            message: format!(": {problem}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(for_cluster: Option<&str>, in_force: &[(i32, &str)]) -> ClusterSetting {
        ClusterSetting {
            for_cluster: for_cluster.map(str::to_owned),
            in_force: in_force.iter().map(|(node, value)| (*node, (*value).to_owned())).collect(),
        }
    }

    #[test]
    fn a_setting_is_back_only_when_every_broker_that_was_there_has_what_it_had() {
        let before = seen(None, &[(1, "a"), (2, "own")]);
        for (now, expected) in [
            (seen(None, &[(1, "a"), (2, "own")]), None),
            // One that came has no before, one that went has no now.
            (seen(None, &[(1, "a"), (3, "x")]), None),
            (
                seen(Some("b"), &[(1, "a"), (2, "own")]),
                Some("the cluster has `b`, but before it had nothing"),
            ),
            (seen(None, &[(1, "b"), (2, "own")]), Some("broker 1 has `b`, but before it had `a`")),
            (seen(None, &[(1, "a"), (2, "a")]), Some("broker 2 has `a`, but before it had `own`")),
        ] {
            assert_eq!(now.differs_from(&before).as_deref(), expected);
        }
    }
}
